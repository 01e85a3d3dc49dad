"""Text that a spreadsheet would run as a formula is harmless in every table that is handed out."""

from __future__ import annotations

import pytest

from benchmarks.records.spreadsheet import Value, escaped


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("-x", "'-x"), ("@x", "'@x"), ("\t=1", "'\t=1"), ("\r=1", "'\r=1"),
        ("a=1", "a=1"), (" =1", " =1"), (-1, -1), (-0.5, -0.5), (None, None), (True, True), ("", ""),
    ],
)  # fmt: skip
def test_only_text_that_starts_like_a_formula_is_escaped(value: Value, kept: Value) -> None:
    assert escaped(value) == kept
