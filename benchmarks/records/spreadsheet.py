"""What a cell of a table may hold where a spreadsheet opens the file. Every table that is handed out passes here."""

from __future__ import annotations

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
Value = str | float | int | bool | None


def escaped(value: Value) -> Value:
    """Text that starts like a formula gets an apostrophe before it; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value
