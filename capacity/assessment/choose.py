"""From facts to a verdict: the safe set, the knee, the headroom, and why not another setting."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from benchmarks.stats import usl
from capacity.assessment import (
    accounting,
    behaviour,
    confirm,
    diagnosis,
    goodput,
    latency,
    none,
    outside,
    policy,
    queueing,
    rates,
    rubric,
    validity,
    why,
    words,
)
from capacity.assessment.facts import (
    MEASURED,
    MIXED,
    RUNNING,
    TEMPERATURE,
    WAITING,
    CellFact,
    GridFacts,
)
from capacity.assessment.gates import gates_of, memory_of, peak
from capacity.assessment.headroom import as_confirmed
from capacity.assessment.headroom import headroom as measured_headroom
from capacity.assessment.knee import KNEE_SHARE as KNEE_SHARE
from capacity.assessment.knee import knee
from capacity.assessment.verdict import (
    METHOD_VERSION,
    Answer,
    BatchVerdict,
    ClassRow,
    Confirmation,
    Finding,
    Gate,
    Grade,
    Headroom,
    Kind,
    Knee,
    PolicyLine,
    QueueCap,
    Rubric,
    SettingRow,
    Verdict,
    WhyNot,
)

GRADE = Grade.UNGRADED


def judge(facts: GridFacts) -> Verdict:
    """The verdict on a grid, finished or not. Total: every grid of facts gets exactly one answer."""
    rows = tuple(row_of(facts, setting) for setting in sorted(set(facts.setting_values)))
    if not any(row.cells for row in rows):
        return _verdict(facts, rows, kind=Kind.NOT_MEASURED)
    found = knee(facts, [row for row in rows if row.safe])
    if found is None:
        nothing = _verdict(facts, rows, kind=Kind.NO_SAFE_SETTING)
        return replace(nothing, not_tested=none.not_tested(nothing))
    return _verdict(facts, rows, kind=Kind.RECOMMENDED, found=found)


def unjudged(
    facts: GridFacts, *, heading: str, summary: str, closed_loop: bool, batch: BatchVerdict | None = None,
    graded: Rubric | None = None,
) -> Verdict:  # fmt: skip
    """The verdict on a grid whose way of loading this method does not judge: no rows, so nothing can be proposed. A static
    batch is held to its window all the same, and `graded` by it."""
    not_tested = words.NOT_TESTED if closed_loop else words.NOT_TESTED_IN_ANY_LOOP
    if graded is not None and graded.criteria:
        not_tested = rubric.not_tested(graded)
    return Verdict(
        method_version=METHOD_VERSION,
        kind=Kind.NOT_JUDGED if any(cell.summary for cell in facts.cells) else Kind.NOT_MEASURED,
        heading=heading,
        summary=summary,
        recommended=None,
        rollback=None,
        rollback_words="",
        rows=(),
        reasons=(),
        why_not=(),
        headroom=None,
        grade=graded.grade if graded else GRADE,
        grade_reason=graded.reason if graded else "Only closed-loop grids of stated settings are judged.",
        not_tested=not_tested,
        queue_words="",
        cautions=tuple(accounting.short_answers(facts.cells)),
        rate_words="",
        simulated=facts.simulated,
        batch=batch,
        rubric=graded or Rubric(grade=GRADE, reason=""),
    )


def row_of(facts: GridFacts, setting: int) -> SettingRow:
    """One setting as tables and charts show it."""
    cells = facts.at(setting)
    checked = validity.checks(facts, cells)
    window = validity.gate(checked)
    gates = (*gates_of(facts, cells), *([window] if window else []), *behaviour.gates(facts, setting))
    found = [cell for cell in cells if cell.summary is not None]
    classes = tuple(latency.rows(facts.limits, found))
    good = rates.mix_good(cells, facts.class_names, facts.class_weights)
    needs = max((gate.needs for gate in gates), default=0)
    indicative = any(gate.indicative for gate in gates)
    safe = bool(found) and not any(gate.blocks for gate in gates) and good.value is not None
    return SettingRow(
        setting=setting,
        n=sum(cell.summary.scheduled for cell in found if cell.summary),
        good=good,
        completed_per_min=rates.mix_completed(cells, facts.class_names, facts.class_weights),
        output_tokens_per_s=_tokens(cells),
        worst=worst_of(classes),
        classes=classes,
        latency=tuple(latency.main_rows(facts.limits, found)),
        memory=memory_of(facts, cells),
        temperature_c=peak(cells, TEMPERATURE),
        waiting_peak=peak(cells, WAITING),
        gates=gates,
        safe=safe,
        indicative=indicative,
        needs=needs,
        word=words.word(gates, safe=safe, indicative=indicative, needs=needs),
        reasons=_row_reasons(gates),
        cells=tuple(cell.cell_id for cell in found),
        checks=checked,
        good_per_kwh=goodput.good_per_kwh(cells, facts.class_names, facts.class_weights),
        items_per_s=goodput.items_per_s(
            good, sum(part.good.n for c in found if c.summary for part in c.summary.classes)
        ),
    )


def worst_of(classes: Sequence[ClassRow]) -> ClassRow | None:
    """The class furthest over its limit or closest to it; None where no class has a ratio."""
    known = [row for row in classes if row.ratio is not None]
    return max(known, key=lambda row: row.ratio or 0.0, default=None)


def rubric_at(facts: GridFacts, verdict: Verdict, setting: int | None) -> Rubric:
    """The grade of a safe setting that somebody prefers to the recommended one: it is held to the same criteria, and what
    confirmed the other does not confirm it. Of no setting it is the grid's own. Raises ValueError where no rate was
    measured at it."""
    row = verdict.row(setting)
    if row is None or setting == verdict.recommended:
        return verdict.rubric
    return _graded(facts, verdict.rows, row, _roomed(facts, row)[2])[1]


def headroom(facts: GridFacts, chosen: SettingRow) -> Headroom:
    """What may be stated of a setting: after its reserves, no more than was confirmed, or than its queue
    holds. Raises ValueError when nothing was measured."""
    return _roomed(facts, chosen)[0]


def stated_at(facts: GridFacts, row: SettingRow) -> tuple[Headroom, Confirmation]:
    """(what may be stated of a setting, what an open loop said of it). Raises ValueError when nothing was measured."""
    room, _, confirmed = _roomed(facts, row)
    return room, confirmed


def policy_at(facts: GridFacts, verdict: Verdict, setting: int) -> tuple[PolicyLine, ...]:
    """The policy that goes with a safe setting, the recommended one or another that somebody prefers; none of one at which
    no rate was measured."""
    row = verdict.row(setting)
    if setting == verdict.recommended or row is None or row.good.value is None:
        return verdict.policy if setting == verdict.recommended else ()
    room, cap, confirmed = _roomed(facts, row)
    rollback, rollback_words = rollback_from(facts, verdict.rows, row)
    lines = policy.policy(facts, row, room, cap, rollback_words, confirmed, rollback)
    return (
        replace(lines[0], source=f"The setting that is proposed; this grid recommends {verdict.recommended}."),
        *lines[1:],
    )


def _roomed(facts: GridFacts, chosen: SettingRow) -> tuple[Headroom, QueueCap | None, Confirmation]:
    """(what may be stated, how many may wait, what an open loop said), in the order in which they rest on each other."""
    room = measured_headroom(facts, chosen)
    cap = queueing.queue_cap(facts, chosen, room)
    confirmed = confirm.confirmation(facts, chosen, room, cap)
    return as_confirmed(room, confirmed, cap), cap, confirmed


def _graded(
    facts: GridFacts, rows: tuple[SettingRow, ...], chosen: SettingRow | None, confirmed: Confirmation | None,
    by: Knee | None = None,
) -> tuple[tuple[Finding, ...], Rubric]:  # fmt: skip
    findings = diagnosis.findings(facts, rows, chosen)
    return findings, rubric.rubric(facts, rows, chosen, confirmed, findings, by)


def _verdict(facts: GridFacts, rows: tuple[SettingRow, ...], *, kind: Kind, found: Knee | None = None) -> Verdict:
    chosen = next((row for row in rows if found is not None and row.setting == found.setting), None)
    rollback, rollback_words = rollback_from(facts, rows, chosen)
    room, cap, confirmed = _roomed(facts, chosen) if chosen else (None, None, None)
    findings, graded = _graded(facts, rows, chosen, confirmed, found)
    return Verdict(
        method_version=METHOD_VERSION,
        kind=kind,
        heading=words.heading(kind, chosen, rows),
        summary=words.summary(kind, chosen, rows),
        recommended=chosen.setting if chosen else None,
        rollback=rollback,
        rollback_words=rollback_words,
        rows=rows,
        reasons=_reasons(rows, chosen, room, found),
        why_not=_why_not(facts, rows, chosen),
        below=_below(facts, rows, chosen),
        headroom=room,
        grade=graded.grade,
        grade_reason=graded.reason,
        not_tested=rubric.not_tested(graded) if graded.criteria else words.NOT_TESTED,
        queue_words=_queue_words(facts, rows),
        cautions=(
            *_cautions(facts, rows, chosen, found, room),
            *filter(None, [confirm.longer_than_proposed(confirmed, cap) if confirmed else ""]),
        ),
        rate_words=_rate_words(facts, rows),
        simulated=facts.simulated,
        findings=findings,
        rubric=graded,
        queue_cap=cap,
        confirmation=confirmed,
        policy=policy.policy(facts, chosen, room, cap, rollback_words, confirmed, rollback) if chosen and room else (),
        knee=found,
        outside=outside.outside(facts, rows, chosen, room, confirmed, _confirmed_above(facts, rows, chosen))
        if chosen and room
        else (),
    )


def _confirmed_above(facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow) -> Confirmation | None:
    """What an open loop said of the next safe setting up; asked only where one was drawn for it."""
    row = outside.next_up(rows, chosen)
    if row is None or all(one.setting != row.setting for one in facts.confirmations):
        return None
    return _roomed(facts, row)[2]


def rollback_from(facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None) -> tuple[int | None, str]:
    """Where to go back to from a setting, and in words: what the same runtime was last approved for, unless this grid
    refuses it; else the next lower safe setting."""
    if chosen is None:
        return None, ""
    previous = facts.previous_setting
    refused = any(row.setting == previous and row.cells and not row.safe for row in rows)
    if previous is not None and previous != chosen.setting and not refused:
        return previous, words.previous(previous, facts.previous_words)
    lower = [row for row in rows if row.safe and row.setting < chosen.setting]
    told = words.rollback(lower[-1] if lower else None)
    if refused and previous is not None:
        told += f". {words.flight(previous, start=True)} were approved before and do not hold here"
    return (lower[-1].setting if lower else None), told


def _rate_words(facts: GridFacts, rows: Sequence[SettingRow]) -> str:
    text = rates.MIX_WORDS if MIXED in facts.class_names else rates.WORDS
    once = all(cell.repeat == 1 for cell in facts.cells)
    shape = usl.fit({row.setting: row.completed_per_min or 0.0 for row in rows})
    return " ".join([text, *([rates.ONCE] if once else []), *([shape.words] if shape else [])])


def _reasons(
    rows: Sequence[SettingRow], chosen: SettingRow | None, room: Headroom | None, found: Knee | None
) -> tuple[str, ...]:
    if chosen is None:
        return tuple(words.none_safe(rows)) if any(row.cells for row in rows) else ()
    return words.reasons(chosen, found.words if found and found.compared else "", room)


def _why_not(facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None) -> tuple[WhyNot, ...]:
    """One entry for each setting above the recommended one, in words and numbers."""
    if chosen is None:
        return ()
    return tuple(
        WhyNot(setting=row.setting, sentences=why.above(facts, row, chosen))
        for row in rows
        if row.setting > chosen.setting
    )


def _below(facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None) -> tuple[WhyNot, ...]:
    """One entry for each measured setting below the recommended one."""
    if chosen is None:
        return ()
    return tuple(
        WhyNot(setting=row.setting, sentences=why.below(facts, row, chosen))
        for row in rows
        if row.setting < chosen.setting and row.cells
    )


def _queue_words(facts: GridFacts, rows: Sequence[SettingRow]) -> str:
    waited = [row for row in rows if row.waiting_peak]
    if not waited:
        return ""
    most = max(waited, key=lambda row: row.waiting_peak or 0.0)
    return words.queue(
        most.setting, most.waiting_peak or 0.0, bounded=facts.queue_bounded, sentence=facts.queue_sentence
    )


def _cautions(
    facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None, by: Knee | None, room: Headroom | None
) -> tuple[str, ...]:
    found = []
    if not facts.objective_before_run:
        found.append("The objective was set after the measurement began, so this result cannot stand as a test of it.")
    if chosen and chosen.indicative:
        found.append(words.indicative(chosen))
    if by and by.indicative:
        found.append(by.words)
    if room and (short := outside.demand(facts, room)):
        found.append(short)
    failed_below = [row for row in rows if chosen and row.setting < chosen.setting and not row.safe and row.cells]
    for row in failed_below:
        found.append(f"{words.flight(row.setting, start=True)} did not hold although more did: measure both again.")
    running = peak([c for c in facts.cells if chosen and c.setting == chosen.setting], RUNNING)
    if chosen and facts.runtime_max_active and running is not None and running > facts.runtime_max_active:
        found.append(f"The runtime reported {running:.0f} running, more than its declared {facts.runtime_max_active}.")
    found.extend(accounting.short_answers(facts.cells))
    return tuple(found)


def _row_reasons(gates: Sequence[Gate]) -> tuple[str, ...]:
    blocking = [gate.reason for gate in gates if gate.answer == Answer.FAILS]
    blocking += [gate.reason for gate in gates if gate.blocks and gate.answer != Answer.FAILS]
    return tuple(blocking or [gate.reason for gate in gates if gate.indicative])


def _tokens(cells: Sequence[CellFact]) -> float | None:
    """Output tokens a second while the setting ran, all classes together; None when a cell did not count them."""
    found = [c.summary for c in cells if c.status == MEASURED and c.summary is not None]
    counted = [(s.output_tokens_per_s, s.window_s) for s in found]
    seconds = sum(window for _, window in counted)
    if seconds <= 0 or any(rate is None for rate, _ in counted):
        return None
    return sum((rate or 0.0) * window for rate, window in counted) / seconds
