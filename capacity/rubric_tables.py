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
    tested = [one for one in graded.criteria if one.band != Grade.NOT_COMPLETE]
    met = tuple(one for one in tested if one.met)
    left = tuple(one for one in tested if not one.met)
    return [
        _band(graded, Grade.COMPLETE, f"Every criterion is met: {_met(graded)} of {len(graded.criteria)} are.", met),
        _band(
            graded,
            Grade.NEEDS_REVISION,
            "These are open." if left else "As soon as something is not tested, or fails.",
            left,
        ),
        _band(graded, Grade.NOT_COMPLETE, "As soon as one of these fails: nothing can be stated then.", severe),
    ]


def _met(graded: Rubric) -> int:
    return sum(one.met for one in graded.criteria)


def _band(graded: Rubric, grade: Grade, rule: str, ticks: tuple[Criterion, ...]) -> Band:
    return Band(grade=grade, tone=TONES[grade], here=graded.grade == grade, rule=rule, ticks=ticks)
