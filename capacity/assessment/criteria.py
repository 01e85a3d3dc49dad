"""The criteria of the rubric that ask what was measured: the objective, its reserves, what lies above, and how much."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from benchmarks.stats.per_cent import per_cent
from capacity.assessment import words
from capacity.assessment.facts import GridFacts
from capacity.assessment.knee import STATEMENT_REPEATS
from capacity.assessment.verdict import Answer, Criterion, Grade, Knee, SettingRow


def fails(row: SettingRow) -> bool:
    """Failed something in windows that can be concluded from, or did no useful work although nothing failed."""
    return words.refutes(row.gates) or (row.safe and not row.good.value)


def criterion(key: str, title: str, *, band: Grade = Grade.NEEDS_REVISION, cells: tuple[int, ...] = ()) -> Criterion:
    return Criterion(key=key, title=title, answer=Answer.HOLDS, reason="", band=band, cells=cells, doc=f"rubric-{key}")


def objective(facts: GridFacts) -> Criterion:
    found = criterion("objective", "Objective set before the run", band=Grade.NOT_COMPLETE)
    limits = {name for name, one in facts.limits.classes.items() if one.e2e_s or one.ttft_s or one.tpot_s}
    seen = {part.class_name for cell in facts.cells if cell.summary is not None for part in cell.summary.classes}
    if limits and seen - limits:
        reason = f"The objective limits nothing of {listed(sorted(seen - limits))}, whatever it takes counts as good."
        next_cell = "Set a limit for each length class, then draw the grid again."
    elif not limits:
        reason = "The objective limits no class, so nothing was asked of the measurement."
        next_cell = "Set a limit for each length class, then draw the grid again."
    elif not facts.objective_before_run:
        reason = "The objective was not set before the run, so this result is no test of it."
        next_cell = "Draw the grid again with the objective as it stands."
    else:
        classes = "1 class" if len(limits) == 1 else f"{len(limits)} classes"
        return replace(found, reason=f"p{facts.limits.percentile:g} of {classes} was limited before the first cell.")
    return replace(found, answer=Answer.FAILS, reason=reason, next_cell=next_cell)


def headroom(facts: GridFacts) -> Criterion:
    found = criterion("headroom", "Headroom kept", band=Grade.NOT_COMPLETE)
    limits = facts.limits
    kept = [
        f"{per_cent(share)} for {name}"
        for name, share in (
            ("growth", limits.reserve_growth),
            ("variance", limits.reserve_variance),
            ("loss of a card", limits.reserve_loss),
        )
        if share > 0
    ]
    if kept:
        return replace(found, reason=f"The stated rate keeps {listed(kept)}.")
    return replace(
        found,
        answer=Answer.FAILS,
        reason="No reserve is kept: the most that was measured would be stated as safe.",
        next_cell="Name reserves in the objective, then draw the grid again.",
    )


def beyond(measured: Sequence[SettingRow], chosen: SettingRow) -> Criterion:
    """A setting is more than the highest accepted where a higher one was measured to its end and found worse: it failed,
    or it added less than the knee asks for. A plateau below it shows nothing: where one was, the knee would be lower."""
    found = criterion("not-highest", "More than the highest accepted", band=Grade.NOT_COMPLETE)
    above = [row for row in measured if row.setting > chosen.setting and (row.safe or fails(row))]
    if above:
        first = above[0]
        more = f"gives {first.good.value or 0.0:,.1f} successful requests a minute, this one {chosen.good.value or 0.0:,.1f}"
        how = "fails" if fails(first) else more
        return replace(found, reason=f"{first.setting} in flight {how}.", cells=first.cells)
    if spoiled := next((row for row in measured if row.setting > chosen.setting and words.invalid(row.gates)), None):
        why = words.invalid(spoiled.gates)
        assert why is not None
        return replace(
            found,
            answer=Answer.FAILS,
            reason=f"Nothing can be concluded from the windows at {spoiled.setting} in flight, so nothing shows that "
            f"{chosen.setting} is the best. {why.reason}",
            next_cell=f"{why.remedy} Then run {spoiled.setting} in flight again.".strip(),
            cells=spoiled.cells,
        )
    return replace(
        found,
        answer=Answer.FAILS,
        reason=f"{chosen.setting} is the highest setting that was measured, so nothing shows that it is the best one.",
        next_cell=f"Draw a grid that also measures {2 * chosen.setting} in flight.",
        cells=chosen.cells,
    )


def repeats_of(facts: GridFacts, chosen: SettingRow) -> int:
    """The fewest of any kind of cell at this setting."""
    kinds = [cell.class_name for cell in facts.at(chosen.setting) if cell.cell_id in chosen.cells]
    return min((kinds.count(kind) for kind in kinds), default=0)


def sample(chosen: SettingRow, knee: Knee | None, repeats: int) -> Criterion:
    found = criterion("sample", "Enough requests for a claim", cells=chosen.cells)
    settled = not chosen.indicative and not (knee is not None and knee.indicative)
    if settled and repeats < STATEMENT_REPEATS:
        times = "once" if repeats == 1 else "twice"
        return replace(
            found,
            answer=Answer.NOT_TESTED,
            reason=f"Measured {times}, so how much runs differ is not known well enough (n = {chosen.n}).",
            next_cell=f"Draw the grid again with at least {STATEMENT_REPEATS} repeats.",
        )
    if settled:
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


def listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
