"""Columns of a trace as numbers: whole token counts, and arrival times in seconds after the first."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.imports.trace_text import Cell, TraceRefused

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_TOKENS = 1_000_000
MOST_SPAN_S = 100 * 365.25 * 86_400
UNIT_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
# Up to nine fraction digits: Azure writes seven, of 100 ns each. A zone may follow, as in the traces of 2024.
_STAMP = re.compile(
    r"((?:19|20)\d{2}-\d{2}-\d{2})[ T](\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?)\s*(Z|UTC|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII,
)
_NS = 1_000_000_000


def whole_numbers(cells: Sequence[Cell], column: str) -> Whole:
    """Token counts; raises TraceRefused that names the first row which is none."""
    try:
        values = np.array(cells).astype(np.float64)
    except (ValueError, TypeError):
        values = np.array([_number(cell) for cell in cells], dtype=np.float64)
    wrong = np.flatnonzero(~((values >= 0) & (values <= MOST_TOKENS) & (values == np.floor(values))))
    if wrong.size:
        raise TraceRefused(_odd(column, int(wrong[0]), cells, f"a whole number of tokens from 0 to {MOST_TOKENS:,}"))
    return values.astype(np.int64)


def seconds(cells: Sequence[Cell], column: str, unit: str) -> Floats:
    """Arrival times in seconds; `unit` is a key of UNIT_S, or stamp for dates with a time of day."""
    if unit == "stamp":
        return _stamps([str(cell) for cell in cells], column)
    values = np.array([_number(cell) for cell in cells], dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise TraceRefused(_odd(column, int(wrong[0]), cells, "a number"))
    # The first is taken off before scaling: nanoseconds since 1970 would lose their fraction.
    with np.errstate(over="ignore"):
        offsets: Floats = (values - values[0]) * UNIT_S[unit] if values.size else values
        too_long = values.size and not offsets.max() - offsets.min() <= MOST_SPAN_S
    if too_long:
        raise TraceRefused(f"The times of “{column[:60]}” span more than a hundred years. Is {unit} their unit?")
    return offsets


def is_stamp(cell: Cell) -> bool:
    return isinstance(cell, str) and _STAMP.fullmatch(cell.strip()) is not None


def _stamps(cells: Sequence[str], column: str) -> Floats:
    days, zones = [], []
    for row, cell in enumerate(cells):
        match = _STAMP.fullmatch(cell.strip())
        if match is None:
            raise TraceRefused(_odd(column, row, cells, "a date with a time of day"))
        days.append(f"{match[1]}T{match[2].replace(',', '.')}")
        zones.append(match[3])
    if any(zone is None for zone in zones) and any(zone is not None for zone in zones):
        raise TraceRefused(
            f"Some stamps of “{column}” name their time zone and some do not, so their order is not known."
        )
    try:
        ticks = np.array(days, dtype="datetime64[ns]").astype(np.int64)
    except ValueError as error:
        raise TraceRefused(f"A stamp of “{column}” is no date: {error}.") from error
    ticks -= np.array([_zone_s(zone) * _NS for zone in zones], dtype=np.int64)
    return (ticks - ticks[0]) / _NS if ticks.size else ticks.astype(np.float64)


def _zone_s(zone: str | None) -> int:
    """Seconds that a zone is ahead of UTC."""
    if zone in (None, "Z", "UTC") or zone is None:
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    ahead = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -ahead if zone[0] == "-" else ahead


def _number(cell: Cell) -> float:
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        return float("nan")
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return float("nan")


def _odd(column: str, row: int, cells: Sequence[Cell], wanted: str) -> str:
    return f"Row {row + 1:,}: “{str(cells[row])[:40]}” in the column “{column[:60]}” is not {wanted}."
