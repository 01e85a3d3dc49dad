"""A static batch against its window as a file: one row for each batch size, CSV or JSON.

Times are seconds after the window's start; `_lower` and `_upper` are one-sided 95 % bounds, empty after one run.
"""

from __future__ import annotations

from capacity.assessment.batch_types import BatchRow, BatchVerdict
from capacity.exports import WHERE, Value, csv_of, json_of, where
from capacity.queries import Result

COLUMNS = (
    *WHERE, "method_version", "grade", "batch_size", "taken", "answer", "indicative", "runs_missing", "runs", "items_per_s",
    "items_per_s_lower", "window_start", "latest_finish", "allowed_s", "finish_s", "finish_upper_s", "finish_at",
    "finish_latest_at", "outage_s", "finish_with_outage_s", "finish_with_outage_upper_s", "finish_with_outage_at",
    "finish_with_outage_latest_at", "items_left", "items_left_with_outage", "items_done_again", "restarts_seen",
    "restarts_left", "words", "remedy", "cells",
)  # fmt: skip


def as_csv(result: Result) -> str:
    """UTF-8 text with a header line and CRLF ends; a header alone where no batch was held to a window."""
    return csv_of(_rows(result), COLUMNS)


def as_json(result: Result) -> str:
    """An object with `rows`, the same columns as the CSV, and beside them what a person does next."""
    held = result.verdict.batch
    return json_of(_rows(result), next=list(held.steps) if held else [], cautions=list(held.cautions) if held else [])


def _rows(result: Result) -> list[dict[str, Value]]:
    verdict, held = result.verdict, result.verdict.batch
    if held is None:
        return []
    head: tuple[Value, ...] = (*where(result), verdict.method_version, verdict.grade)
    return [dict(zip(COLUMNS, (*head, *_values(held, row)), strict=True)) for row in held.rows]


def _values(held: BatchVerdict, row: BatchRow) -> tuple[Value, ...]:
    """Unknown stays None: what was never run left no items, and that is not zero."""
    ran, outage = row.runs > 0, bool(held.outage_s)
    finish, stated = row.finish_s, row.stated_finish_s
    return (
        row.setting, row.setting == held.setting, row.answer, row.indicative, row.needs, row.runs, row.items_per_s.value,
        row.items_per_s.lower, row.start, held.latest_finish, held.allowed_s, finish.value, finish.upper, row.finish or None,
        row.latest or None, held.outage_s, stated.value if outage else None, stated.upper if outage else None,
        (row.stated_finish or None) if outage else None, (row.stated_latest or None) if outage else None,
        row.items_left if ran else None, row.stated_items_left if ran and outage else None, row.done_again if ran else None,
        row.restarts, row.restarts_left, row.words, row.remedy, " ".join(str(cell) for cell in row.cells),
    )  # fmt: skip
