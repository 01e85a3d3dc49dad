"""The checks of every setting's windows as one table: for the result page, and as CSV and JSON."""

from __future__ import annotations

from dataclasses import dataclass

from capacity.assessment.verdict import Answer, Check
from capacity.exports import WHERE, Value, csv_of, json_of, where
from capacity.queries import Result

OPEN_UP_TO = 12
"""A longer table is folded."""
TONES = {Answer.HOLDS: "ok", Answer.FAILS: "bad", Answer.NOT_TESTED: "warn"}
COLUMNS = (
    *WHERE, "method_version", "setting",
    "check", "title", "answer", "evidence", "remedy", "cells",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    setting: int
    check: Check
    tone: str


@dataclass(frozen=True, slots=True)
class Table:
    """`words` counts the answers, most telling first; `unfolded` where it is short enough to stand open."""

    lines: tuple[Line, ...]
    words: str
    unfolded: bool


def table(result: Result) -> Table | None:
    """None where nothing was measured, and so nothing checked."""
    pairs = _pairs(result)
    if not pairs:
        return None
    lines = tuple(Line(setting, check, TONES.get(check.answer, "idle")) for setting, check in pairs)
    counts = {answer: sum(check.answer == answer for _, check in pairs) for answer in (Answer.FAILS, *Answer)}
    words = ", ".join(f"{count} {_plural(answer, count)}" for answer, count in counts.items() if count)
    return Table(lines=lines, words=f"{len(pairs)} checks: {words}.", unfolded=len(pairs) <= OPEN_UP_TO)


def _plural(answer: Answer, count: int) -> str:
    return {Answer.HOLDS: "hold", Answer.FAILS: "fail"}.get(answer, answer.value) if count > 1 else answer.value


def _pairs(result: Result) -> list[tuple[int, Check]]:
    return [(row.setting, check) for row in result.verdict.rows for check in row.checks]


def as_csv(result: Result) -> str:
    """UTF-8 text with a header line and CRLF ends; a row for each check of each setting."""
    return csv_of(_rows(result), COLUMNS)


def as_json(result: Result) -> str:
    """An object with `rows`, the same columns as the CSV."""
    return json_of(_rows(result))


def _rows(result: Result) -> list[dict[str, Value]]:
    head = where(result)
    rows = []
    for setting, check in _pairs(result):
        values: tuple[Value, ...] = (
            *head, result.verdict.method_version, setting, check.key, check.title, check.answer.value, check.evidence,
            check.remedy, " ".join(str(cell) for cell in check.cells),
        )  # fmt: skip
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows
