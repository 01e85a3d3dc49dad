"""The grade as a total function of what was measured: computed, never set by hand.

1. No objective before the run, no headroom, or a setting that is simply the highest accepted: *Not complete*.
2. No setting is safe: *No safe setting found* where every measured one failed something, which no further test can mend;
   *Needs revision* while one of them is only not tested.
3. Else, as long as one criterion is not met: *Needs revision*.
4. Else *Complete*.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from capacity.assessment import words
from capacity.assessment.criteria import beyond, criterion, headroom, listed, objective, repeats_of, sample
from capacity.assessment.criteria import fails as fails
from capacity.assessment.facts import GridFacts
from capacity.assessment.queue_words import waiting
from capacity.assessment.verdict import (
    Answer,
    Confirmation,
    Criterion,
    Finding,
    Found,
    Gate,
    Grade,
    Knee,
    Rubric,
    SettingRow,
)

GATES = (
    ("fairness", "Fairness beside long requests", "Run the fairness probe at the recommended setting."),
    ("cancellation", "Cancellation frees in time", "Run the cancellation probe at the recommended setting."),
    ("retry", "Retries contained", "Run the retry-storm probe at the recommended setting."),
    ("overload", "Overload refused clearly", "Run the overload probe through what stands in front of the runtime."),
    ("recovery", "Recovery in time", "Run the recovery probe at the recommended setting."),
    ("validity", "Validity of answers", "Draw the grid again with a task whose answers are checked."),
    ("tenancy", "Tenants kept apart", "Run the limits probe without credentials and against one client's rate."),
)
"""Gates of the setting that are criteria of their own, with the cell to run where there is no answer."""
ELSEWHERE = frozenset({"conditions"})
"""A check that is a criterion of its own."""
UNGATED = "Nothing was asked about this at the setting."
COMPLETE = (
    "Realistic lengths, tail latency, useful work, memory, valid answers, queueing and overload controls determine the "
    "setting."
)


def rubric(
    facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None, confirmed: Confirmation | None,
    findings: Sequence[Finding], knee: Knee | None = None,
) -> Rubric:  # fmt: skip
    """One grade for every grid of facts, each criterion with its evidence and the next cell to run. `knee` says by what the
    setting was taken, None where a person took it."""
    measured = [row for row in rows if row.cells]
    if not measured:
        return Rubric(grade=Grade.UNGRADED, reason="Nothing is measured yet.")
    if chosen is None:
        return _without_setting(facts, measured, rows)
    criteria = (
        objective(facts),
        headroom(facts),
        beyond(measured, chosen),
        sample(chosen, knee, repeats_of(facts, chosen)),
        _window(chosen, confirmed),
        *(_from_gate(chosen, key, title, next_cell) for key, title, next_cell in GATES),
        conditions(facts, confirmed),
        _confirmed(confirmed),
        _cap(confirmed),
        _readings(facts, chosen),
        _diagnosed(findings),
    )
    return graded(criteria)


def not_tested(graded: Rubric) -> tuple[str, ...]:
    """What a page and a statement say was not tested: how it behaves, then the rest in the order of the criteria."""
    missing = {one.key: one for one in graded.criteria if one.answer in (Answer.NOT_TESTED, Answer.NOT_REPORTED)}
    began = {_SENTENCES[key] for key in missing if key in _SENTENCES}
    behaviour = [sentence for sentence in words.NOT_TESTED if sentence.partition(":")[0] in began]
    return (*behaviour, *(f"{one.title}: {one.reason}" for key, one in missing.items() if key not in _SENTENCES))


_SENTENCES = {
    "fairness": "Fairness",
    "cancellation": "Cancellation",
    "retry": "Retries",
    "overload": "Overload",
    "recovery": "Recovery",
    "confirmation": "Open-loop confirmation",
}
"""Criterion -> the first words of what is said where nothing of it was tested."""
_SHORT = {
    "sample": "the sample",
    "window": "the windows",
    "fairness": "fairness",
    "cancellation": "cancellation",
    "retry": "retries",
    "overload": "overload",
    "recovery": "recovery",
    "validity": "validity of answers",
    "tenancy": "tenancy",
    "conditions": "conditions",
    "confirmation": "an open loop at the stated rate",
    "cap": "whether the queue cap was in force",
    "readings": "some readings",
    "diagnosis": "some of the seven diagnoses",
}


# --- the grade -------------------------------------------------------------------------------------------------------


def graded(criteria: tuple[Criterion, ...]) -> Rubric:
    """The grade that follows from the criteria."""
    open_ones = [one for one in criteria if not one.met]
    severe = [one for one in open_ones if one.band == Grade.NOT_COMPLETE]
    if severe:
        return Rubric(grade=Grade.NOT_COMPLETE, reason=_sentences(severe), criteria=criteria)
    if open_ones:
        return Rubric(grade=Grade.NEEDS_REVISION, reason=_open(open_ones), criteria=criteria)
    return Rubric(grade=Grade.COMPLETE, reason=f"{COMPLETE} All {len(criteria)} criteria are met.", criteria=criteria)


def _without_setting(facts: GridFacts, measured: Sequence[SettingRow], rows: Sequence[SettingRow]) -> Rubric:
    """No setting is stated, so what a stated one needs does not apply. A failure needs no further test."""
    asked = objective(facts)
    unknown = [row for row in rows if not fails(row)]
    settings = criterion(
        "settings", "Every setting tested", cells=tuple(cell for row in measured for cell in row.cells)
    )
    if unknown:
        bad = next(filter(None, (words.invalid(row.gates) for row in unknown)), None)
        at = listed([str(row.setting) for row in unknown])
        settings = replace(
            settings,
            answer=Answer.NOT_TESTED,
            reason=f"At {at} in flight something is not {_lacks(unknown)}, so nobody knows whether a setting is safe.",
            next_cell=f"Run what is missing at {at} in flight."
            if not bad
            else f"{bad.remedy} Run {at} in flight again.",
        )
    else:
        all_of = "The one setting" if len(rows) == 1 else f"Each of {len(rows)} settings"
        settings = replace(settings, reason=f"{all_of} fails: {_why(rows)}")
    criteria = (asked, settings)
    if not asked.met:
        return Rubric(grade=Grade.NOT_COMPLETE, reason=asked.reason, criteria=criteria)
    if unknown:
        return Rubric(grade=Grade.NEEDS_REVISION, reason=settings.reason, criteria=criteria)
    return Rubric(grade=Grade.NO_SAFE_SETTING, reason=settings.reason, criteria=criteria)


def _lacks(unknown: Sequence[SettingRow]) -> str:
    spoiled = sum(words.invalid(row.gates) is not None for row in unknown)
    return "tested" if not spoiled else "valid" if spoiled == len(unknown) else "tested or not valid"


def _why(rows: Sequence[SettingRow]) -> str:
    return " ".join(words.refused(row) for row in rows[:3]) + (" The others stand below." if rows[3:] else "")


def _open(open_ones: Sequence[Criterion]) -> str:
    failed = [one for one in open_ones if one.answer == Answer.FAILS]
    untested = [one for one in open_ones if one.answer != Answer.FAILS]
    parts = []
    if failed:
        parts.append(_sentences(failed))
    if untested:
        parts.append(f"Not tested enough: {listed([_SHORT.get(one.key, _small(one.title)) for one in untested])}.")
    next_cell = next((one.next_cell for one in open_ones if one.next_cell), "")
    return " ".join([*parts, f"Next: {_small(next_cell)}" if next_cell else ""]).strip()


# --- the criteria ----------------------------------------------------------------------------------------------------


def _window(chosen: SettingRow, confirmed: Confirmation | None) -> Criterion:
    """No check fails, and none that matters is without an answer, of the setting's windows and of those that confirm it."""
    found = criterion("window", "Valid windows", cells=chosen.cells)
    again = f"Run {chosen.setting} in flight again once that is mended."
    if not chosen.checks:
        return replace(found, answer=Answer.NOT_TESTED, reason="No window was checked.", next_cell=again)
    failed = [check for check in chosen.checks if check.answer == Answer.FAILS]
    missing = [check for check in chosen.checks if check.answer == Answer.NOT_TESTED]
    if not failed and not missing:
        return _all_told(found, chosen, confirmed)
    worst = failed or missing
    return replace(
        found,
        answer=Answer.FAILS if failed else Answer.NOT_TESTED,
        reason=f"{worst[0].title}: {worst[0].evidence}" + (f" And {len(worst) - 1} more." if worst[1:] else ""),
        next_cell=worst[0].remedy or again,
        cells=worst[0].cells or chosen.cells,
    )


def _all_told(found: Criterion, chosen: SettingRow, confirmed: Confirmation | None) -> Criterion:
    asked = [check for check in chosen.checks if check.key not in ELSEWHERE]
    silent = [*(check for check in asked if check.caps_grade), *(confirmed.silent if confirmed else ())]
    if silent:
        names = listed(list(dict.fromkeys(_small(check.title) for check in silent)))
        return replace(
            found,
            answer=Answer.NOT_REPORTED,
            reason=f"Nobody could tell, and nothing stands in for it: {names}. {silent[0].evidence}",
            next_cell=silent[0].remedy or "Measure the setting again with what the check asks for.",
            cells=(silent[0].cells if silent[0] in asked else ()) or chosen.cells,
        )
    instead = "".join(
        f" For {_small(check.title)} stands in: {check.substitute}" for check in asked if check.substitute
    )
    return replace(found, reason=f"{len(chosen.checks)} checks of the windows at this setting: none fails.{instead}")


def _from_gate(chosen: SettingRow, key: str, title: str, next_cell: str) -> Criterion:
    """The gate's own answer; a reading that is not there counts where something measured stands in for it."""
    found = criterion(key, title)
    gate = _gate(chosen, key)
    if gate is None:
        return replace(found, answer=Answer.NOT_TESTED, reason=UNGATED, next_cell=next_cell)
    answer = gate.answer
    if answer == Answer.NOT_REPORTED and gate.substitute:
        answer = Answer.HOLDS
    met = answer in (Answer.HOLDS, Answer.NOT_APPLICABLE)
    return replace(
        found, answer=answer, reason=gate.reason or UNGATED, cells=gate.cells, next_cell="" if met else next_cell
    )


def conditions(facts: GridFacts, confirmed: Confirmation | None) -> Criterion:
    found = criterion("conditions", "Conditions recorded and unchanged")
    if not facts.conditions.recorded:
        return replace(
            found,
            answer=Answer.NOT_TESTED,
            reason="Room and power are not recorded both before and after.",
            next_cell="Record the conditions on this page, before and after.",
        )
    if facts.conditions.differs:
        return replace(
            found,
            answer=Answer.FAILS,
            reason=f"Conditions changed while it ran: {listed(list(facts.conditions.differs[:3]))}.",
            next_cell="Run the grid again under one set of conditions.",
        )
    if confirmed is not None and confirmed.cells and not confirmed.recorded:
        return replace(
            found,
            answer=Answer.NOT_TESTED,
            reason=f"Room and power of grid {confirmed.grid_id}, which confirms the setting, are not recorded both before "
            "and after.",
            next_cell=f"Record the conditions on the page of grid {confirmed.grid_id}, before and after.",
        )
    return replace(found, reason="Room and power are recorded, and nothing changed while it ran.")


def _confirmed(confirmed: Confirmation | None) -> Criterion:
    found = criterion("confirmation", "Confirmed in an open loop")
    draw = "Draw the confirming cell: an open loop at the stated rate, through the proposed queue cap."
    if confirmed is None:
        return replace(found, answer=Answer.NOT_TESTED, reason="No open loop ran at the stated rate.", next_cell=draw)
    reason = confirmed.words or "No open loop ran at the stated rate."
    met = confirmed.answer in (Answer.HOLDS, Answer.NOT_APPLICABLE)
    return replace(
        found,
        answer=confirmed.answer,
        reason=reason,
        cells=confirmed.cells,
        next_cell="" if met else confirmed.next_cell or draw,
    )


def _cap(confirmed: Confirmation | None) -> Criterion:
    """That nobody was refused proves no bound: a cap that was not in force would look the same. Its cells are those of the
    confirmation, which belong to another grid, so none are linked here."""
    found = criterion("cap", "Queue cap in force")
    if confirmed is None or confirmed.answer != Answer.HOLDS:
        return replace(found, answer=Answer.NOT_APPLICABLE, reason="Asked as soon as an open loop holds through it.")
    if confirmed.in_force:
        return replace(found, reason=confirmed.in_force)
    return replace(
        found,
        answer=Answer.NOT_TESTED,
        reason="Nobody was refused in the open loop, and no overload probe of the runtime that it went through met a refusal, "
        f"so nothing shows that a queue in which {waiting(confirmed.queue_cap or 0)} was in force.",
        next_cell=f"Run the overload probe through what stood in front of the open loop: a closed loop of {confirmed.setting} in "
        "flight with that probe, on the same runtime.",
    )


def _readings(facts: GridFacts, chosen: SettingRow) -> Criterion:
    """What nobody reported and nothing stands in for, KV preemptions and VRAM among them."""
    found = criterion("readings", "Readings, or what stands in for them")
    named = {key for key, _, _ in GATES}
    silent = [gate for gate in chosen.gates if gate.key not in named and gate.answer == Answer.NOT_REPORTED]
    instead = {gate.key: _instead(facts, gate) for gate in silent}
    missing = [gate for gate in silent if not instead[gate.key]]
    if missing:
        remedy = next((gate.remedy for gate in missing if gate.remedy), "")
        return replace(
            found,
            answer=Answer.NOT_REPORTED,
            reason=f"Not reported, and nothing stands in for it: {listed([_small(gate.title) for gate in missing])}.",
            next_cell=remedy or "Give the runtime a metrics address, then run the setting again.",
            cells=missing[0].cells,
        )
    reason = f"Stands in: {' '.join(instead.values())}" if instead else "Every reading was reported."
    return replace(found, reason=reason)


def _instead(facts: GridFacts, gate: Gate) -> str:
    """What was looked at in its place; an overflow of the KV cache may be told by the outcomes."""
    return gate.substitute or (facts.memory.substitute if gate.key == "preemptions" else "")


def _diagnosed(findings: Sequence[Finding]) -> Criterion:
    """Each case tested, and none found of the setting that is stated."""
    found = criterion("diagnosis", "The seven classic mistakes looked for")
    made = [one for one in findings if one.blocks]
    untested = [one for one in findings if one.found == Found.NOT_TESTED]
    if not findings:
        return replace(found, answer=Answer.NOT_TESTED, reason="No case was looked for.")
    if not made and not untested:
        return replace(found, reason=f"All {len(findings)} were tested; none is found of this setting.")
    worst = made or untested
    said = "Found of this setting" if made else "Not tested"
    return replace(
        found,
        answer=Answer.FAILS if made else Answer.NOT_TESTED,
        reason=f"{said}: {listed([_small(one.title) for one in worst])}.",
        next_cell=next((text for one in worst if (text := one.next_cell or one.remedy)), ""),
        cells=tuple(cell for one in worst for cell in one.cells),
    )


def _gate(row: SettingRow, key: str) -> Gate | None:
    return next((gate for gate in row.gates if gate.key == key), None)


def _sentences(criteria: Sequence[Criterion]) -> str:
    return " ".join(one.reason for one in criteria)


def _small(text: str) -> str:
    """As part of a longer sentence: a small first letter unless it begins a name or an abbreviation."""
    if text.startswith("Little's"):
        return text
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
