"""Diagnosis and rubric for the result page and in files: three bands side by side, and a row for each case and criterion."""

from __future__ import annotations

from dataclasses import dataclass

from capacity.assessment.verdict import Criterion, Grade, Rubric, Verdict
from capacity.exports import WHERE, Value, csv_of, json_of, where
from capacity.queries import Result

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


COLUMNS = (
    *WHERE, "method_version", "setting",
    "grade", "part", "key", "title", "answer", "evidence", "remedy", "next", "cells",
)  # fmt: skip


def as_csv(result: Result) -> str:
    """UTF-8 text with a header line and CRLF ends; a row for each diagnosis, then one for each criterion."""
    return csv_of(_rows(result), COLUMNS)


def as_json(result: Result) -> str:
    """An object with `rows`, the same columns as the CSV."""
    return json_of(_rows(result))


def _rows(result: Result) -> list[dict[str, Value]]:
    verdict = result.verdict
    told: list[tuple[Value, ...]] = [
        (
            "diagnosis",
            one.key,
            one.title,
            one.word,
            " ".join(one.evidence),
            one.remedy,
            one.next_cell,
            _cells(one.cells),
        )
        for one in verdict.findings
    ]
    told += [
        ("rubric", one.key, one.title, one.answer, one.reason, "", one.next_cell, _cells(one.cells))
        for one in verdict.rubric.criteria
    ]
    head: tuple[Value, ...] = (
        *where(result),
        verdict.method_version, verdict.recommended, verdict.grade,
    )  # fmt: skip
    return [dict(zip(COLUMNS, (*head, *row), strict=True)) for row in told]


def _cells(cells: tuple[int, ...]) -> str:
    return " ".join(str(cell) for cell in cells)
