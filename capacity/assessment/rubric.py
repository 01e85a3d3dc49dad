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
from capacity.assessment.facts import GridFacts
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
        _objective(facts),
        _headroom(facts),
        _beyond(measured, chosen),
        _sample(chosen, knee),
        _window(chosen),
        *(_from_gate(chosen, key, title, next_cell) for key, title, next_cell in GATES),
        _conditions(facts),
        _confirmed(confirmed),
        _readings(facts, chosen),
        _diagnosed(findings),
    )
    return _graded(criteria)


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
    "readings": "some readings",
    "diagnosis": "some of the seven diagnoses",
}


# --- the grade -------------------------------------------------------------------------------------------------------


def _graded(criteria: tuple[Criterion, ...]) -> Rubric:
    open_ones = [one for one in criteria if not one.met]
    severe = [one for one in open_ones if one.band == Grade.NOT_COMPLETE]
    if severe:
        return Rubric(grade=Grade.NOT_COMPLETE, reason=_sentences(severe), criteria=criteria)
    if open_ones:
        return Rubric(grade=Grade.NEEDS_REVISION, reason=_open(open_ones), criteria=criteria)
    return Rubric(grade=Grade.COMPLETE, reason=f"{COMPLETE} All {len(criteria)} criteria are met.", criteria=criteria)


def _without_setting(facts: GridFacts, measured: Sequence[SettingRow], rows: Sequence[SettingRow]) -> Rubric:
    """No setting is stated, so what a stated one needs does not apply. A failure needs no further test."""
    objective = _objective(facts)
    unknown = [row for row in rows if not _fails(row)]
    settings = _criterion(
        "settings", "Every setting tested", cells=tuple(cell for row in measured for cell in row.cells)
    )
    if unknown:
        at = _and([str(row.setting) for row in unknown])
        settings = replace(
            settings,
            answer=Answer.NOT_TESTED,
            reason=f"At {at} in flight something is not tested, so nobody knows whether a setting is safe.",
            next_cell=f"Run what is missing at {at} in flight.",
        )
    else:
        settings = replace(settings, reason=f"Each of {len(rows)} settings fails: {_why(rows)}")
    criteria = (objective, settings)
    if not objective.met:
        return Rubric(grade=Grade.NOT_COMPLETE, reason=objective.reason, criteria=criteria)
    if unknown:
        return Rubric(grade=Grade.NEEDS_REVISION, reason=settings.reason, criteria=criteria)
    return Rubric(grade=Grade.NO_SAFE_SETTING, reason=settings.reason, criteria=criteria)


def _fails(row: SettingRow) -> bool:
    """Failed something, or did no useful work although nothing failed."""
    return any(gate.answer == Answer.FAILS for gate in row.gates) or (row.safe and not row.good.value)


def _why(rows: Sequence[SettingRow]) -> str:
    return " ".join(words.refused(row) for row in rows[:3]) + (" The others stand below." if rows[3:] else "")


def _open(open_ones: Sequence[Criterion]) -> str:
    failed = [one for one in open_ones if one.answer == Answer.FAILS]
    untested = [one for one in open_ones if one.answer != Answer.FAILS]
    parts = []
    if failed:
        parts.append(_sentences(failed))
    if untested:
        parts.append(f"Not tested enough: {_and([_SHORT.get(one.key, _small(one.title)) for one in untested])}.")
    next_cell = next((one.next_cell for one in open_ones if one.next_cell), "")
    return " ".join([*parts, f"Next: {_small(next_cell)}" if next_cell else ""]).strip()


# --- the criteria ----------------------------------------------------------------------------------------------------


def _criterion(key: str, title: str, *, band: Grade = Grade.NEEDS_REVISION, cells: tuple[int, ...] = ()) -> Criterion:
    return Criterion(key=key, title=title, answer=Answer.HOLDS, reason="", band=band, cells=cells, doc=f"rubric-{key}")


def _objective(facts: GridFacts) -> Criterion:
    found = _criterion("objective", "Objective set before the run", band=Grade.NOT_COMPLETE)
    limits = [one for one in facts.limits.classes.values() if one.e2e_s or one.ttft_s or one.tpot_s]
    if not limits:
        reason = "The objective limits no class, so nothing was asked of the measurement."
        next_cell = "Set a limit for each length class, then draw the grid again."
    elif not facts.objective_before_run:
        reason = "The objective was not set before the run, so this result is no test of it."
        next_cell = "Draw the grid again with the objective as it stands."
    else:
        classes = "1 class" if len(limits) == 1 else f"{len(limits)} classes"
        return replace(found, reason=f"p{facts.limits.percentile:g} of {classes} was limited before the first cell.")
    return replace(found, answer=Answer.FAILS, reason=reason, next_cell=next_cell)


def _headroom(facts: GridFacts) -> Criterion:
    found = _criterion("headroom", "Headroom kept", band=Grade.NOT_COMPLETE)
    limits = facts.limits
    kept = [
        f"{share:.0%} for {name}"
        for name, share in (
            ("growth", limits.reserve_growth),
            ("variance", limits.reserve_variance),
            ("loss of a card", limits.reserve_loss),
        )
        if share > 0
    ]
    if kept:
        return replace(found, reason=f"The stated rate keeps {_and(kept)}.")
    return replace(
        found,
        answer=Answer.FAILS,
        reason="No reserve is kept: the most that was measured would be stated as safe.",
        next_cell="Name reserves in the objective, then draw the grid again.",
    )


def _beyond(measured: Sequence[SettingRow], chosen: SettingRow) -> Criterion:
    """A setting is more than the highest accepted where a higher one was measured to its end and found worse: it failed,
    or it added less than the knee asks for. A plateau below it shows nothing: where one was, the knee would be lower."""
    found = _criterion("not-highest", "More than the highest accepted", band=Grade.NOT_COMPLETE)
    above = [row for row in measured if row.setting > chosen.setting and (row.safe or _fails(row))]
    if above:
        first = above[0]
        more = (
            f"gives {first.good.value or 0.0:.1f} successful requests a minute, this one {chosen.good.value or 0.0:.1f}"
        )
        how = "fails" if _fails(first) else more
        return replace(found, reason=f"{first.setting} in flight {how}.", cells=first.cells)
    return replace(
        found,
        answer=Answer.FAILS,
        reason=f"{chosen.setting} is the highest setting that was measured, so nothing shows that it is the best one.",
        next_cell=f"Draw a grid that also measures {2 * chosen.setting} in flight.",
        cells=chosen.cells,
    )


def _sample(chosen: SettingRow, knee: Knee | None) -> Criterion:
    found = _criterion("sample", "Enough requests for a claim", cells=chosen.cells)
    if not chosen.indicative and not (knee is not None and knee.indicative):
        return replace(found, reason=f"Every bound is under its limit (n = {chosen.n}).")
    if not chosen.indicative and knee is not None:
        needs = f" It needs {knee.needs} more." if knee.needs else ""
        return replace(
            found,
            answer=Answer.NOT_TESTED,
            reason=f"The sample is too small to tell this setting from others (n = {chosen.n}).{needs}",
            next_cell="Draw the grid again with at least three repeats, or longer windows.",
        )
    needs = f" It needs {chosen.needs} more in the class that lacks most." if chosen.needs else ""
    return replace(
        found,
        answer=Answer.NOT_TESTED,
        reason=f"The sample is too small for a proof (n = {chosen.n}).{needs}",
        next_cell=f"Run {chosen.setting} in flight again with a longer window or more repeats.",
    )


def _window(chosen: SettingRow) -> Criterion:
    found = _criterion("window", "Valid windows", cells=chosen.cells)
    again = f"Run {chosen.setting} in flight again once that is mended."
    if not chosen.checks:
        return replace(found, answer=Answer.NOT_TESTED, reason="No window was checked.", next_cell=again)
    failed = [check for check in chosen.checks if check.answer == Answer.FAILS]
    missing = [check for check in chosen.checks if check.answer == Answer.NOT_TESTED]
    if not failed and not missing:
        return replace(found, reason=f"{len(chosen.checks)} checks of the windows at this setting: none fails.")
    worst = failed or missing
    return replace(
        found,
        answer=Answer.FAILS if failed else Answer.NOT_TESTED,
        reason=f"{worst[0].title}: {worst[0].evidence}" + (f" And {len(worst) - 1} more." if worst[1:] else ""),
        next_cell=worst[0].remedy or again,
        cells=worst[0].cells or chosen.cells,
    )


def _from_gate(chosen: SettingRow, key: str, title: str, next_cell: str) -> Criterion:
    """The gate's own answer; a reading that is not there counts where something measured stands in for it."""
    found = _criterion(key, title)
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


def _conditions(facts: GridFacts) -> Criterion:
    found = _criterion("conditions", "Conditions recorded and unchanged")
    if not facts.conditions.recorded:
        return replace(
            found,
            answer=Answer.NOT_TESTED,
            reason="Room and power are not recorded.",
            next_cell="Record the conditions on this page, before and after.",
        )
    if facts.conditions.differs:
        return replace(
            found,
            answer=Answer.FAILS,
            reason=f"Conditions changed while it ran: {_and(list(facts.conditions.differs[:3]))}.",
            next_cell="Run the grid again under one set of conditions.",
        )
    return replace(found, reason="Room and power are recorded, and nothing changed while it ran.")


def _confirmed(confirmed: Confirmation | None) -> Criterion:
    found = _criterion("confirmation", "Confirmed in an open loop")
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


def _readings(facts: GridFacts, chosen: SettingRow) -> Criterion:
    """What nobody reported and nothing stands in for, KV preemptions and VRAM among them."""
    found = _criterion("readings", "Readings, or what stands in for them")
    named = {key for key, _, _ in GATES}
    silent = [gate for gate in chosen.gates if gate.key not in named and gate.answer == Answer.NOT_REPORTED]
    instead = {gate.key: _instead(facts, gate) for gate in silent}
    missing = [gate for gate in silent if not instead[gate.key]]
    if missing:
        remedy = next((gate.remedy for gate in missing if gate.remedy), "")
        return replace(
            found,
            answer=Answer.NOT_REPORTED,
            reason=f"Not reported, and nothing stands in for it: {_and([_small(gate.title) for gate in missing])}.",
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
    found = _criterion("diagnosis", "The seven classic mistakes looked for")
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
        reason=f"{said}: {_and([_small(one.title) for one in worst])}.",
        next_cell=next((text for one in worst if (text := one.next_cell or one.remedy)), ""),
        cells=tuple(cell for one in worst for cell in one.cells),
    )


def _gate(row: SettingRow, key: str) -> Gate | None:
    return next((gate for gate in row.gates if gate.key == key), None)


def _sentences(criteria: Sequence[Criterion]) -> str:
    return " ".join(one.reason for one in criteria)


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _small(text: str) -> str:
    """As part of a longer sentence: a small first letter unless it begins an abbreviation."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
