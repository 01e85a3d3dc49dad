"""The policy of a grid's recommended setting as CSV and JSON."""

from __future__ import annotations

from capacity.exports import WHERE, Value, csv_of, json_of, where
from capacity.queries import Result

COLUMNS = (
    *WHERE, "method_version", "setting",
    "control", "title", "value", "number", "unit", "words", "source",
)  # fmt: skip


def as_csv(result: Result) -> str:
    """UTF-8 text with a header line and CRLF ends; a row for each control, none without a recommended setting."""
    return csv_of(_rows(result), COLUMNS)


def as_json(result: Result) -> str:
    """An object with `rows`, the same columns as the CSV."""
    return json_of(_rows(result))


def _rows(result: Result) -> list[dict[str, Value]]:
    head, verdict = where(result), result.verdict
    rows = []
    for line in verdict.policy:
        values: tuple[Value, ...] = (
            *head, verdict.method_version, verdict.recommended, line.key, line.title, line.value, line.number,
            line.unit, line.words, line.source,
        )  # fmt: skip
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows
