"""The rubric for the result page: three bands side by side, with the ticks that decide."""

from __future__ import annotations

from dataclasses import dataclass

from capacity.assessment.verdict import Criterion, Grade, Rubric, Verdict

TONES = {Grade.COMPLETE: "ok", Grade.NEEDS_REVISION: "warn", Grade.NOT_COMPLETE: "bad"}


@dataclass(frozen=True, slots=True)
class Band:
    """One grade with its rule. `here`: this grid's own; `ticks` are the criteria that it turns on."""

    grade: str
    tone: str
    here: bool
    rule: str
    ticks: tuple[Criterion, ...]


def bands(verdict: Verdict) -> list[Band]:
    """None where nothing is graded. *No safe setting found* is a result of its own, beside the three."""
    graded = verdict.rubric
    if not graded.criteria:
        return []
    severe = tuple(one for one in graded.criteria if one.band == Grade.NOT_COMPLETE)
    tested = tuple(one for one in graded.criteria if one.band != Grade.NOT_COMPLETE)
    met = sum(one.met for one in graded.criteria)
    return [
        _band(graded, Grade.COMPLETE, f"Every criterion is met: {met} of {len(graded.criteria)} are.", ()),
        _band(graded, Grade.NEEDS_REVISION, "As soon as one of these is not tested, or fails.", tested),
        _band(graded, Grade.NOT_COMPLETE, "As soon as one of these fails: nothing can be stated then.", severe),
    ]


def _band(graded: Rubric, grade: Grade, rule: str, ticks: tuple[Criterion, ...]) -> Band:
    return Band(grade=grade, tone=TONES[grade], here=graded.grade == grade, rule=rule, ticks=ticks)
