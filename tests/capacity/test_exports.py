"""Cells as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json

import pytest

from capacity import exports
from capacity.queries import result_of
from tests import factories
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-x", "'-x"),
        ("@a", "'@a"),
        ("\tx", "'\tx"),
        ("a=b", "a=b"),
        ("", ""),
        (-1.5, -1.5),
        (None, None),
    ],
)
def test_only_text_that_starts_like_a_formula_is_escaped(value: exports.Value, expected: exports.Value) -> None:
    assert exports.escaped(value) == expected


def test_both_forms_hold_one_row_per_cell_and_class_with_conditions_and_times() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits(), name="=HYPERLINK(1)"), settings=[1, 2])
    result = result_of(grid)
    rows = list(csv.DictReader(io.StringIO(exports.as_csv(result))))
    plain = json.loads(exports.as_json(result))["rows"]
    assert len(rows) == len(plain) == 12
    assert list(rows[0]) == list(plain[0])
    first, last = rows[0], rows[-1]
    assert first["grid_name"] == "'=HYPERLINK(1)"
    assert plain[0]["grid_name"] == "=HYPERLINK(1)"
    assert (first["hardware"], first["room"], first["power"]) == (
        "Host without GPU, 2 cores", "Room 1, ground floor, 21 °C", "Mains",
    )  # fmt: skip
    assert first["simulated"] == "True"
    assert first["started_at"] == "2026-11-14T10:02:00+00:00"
    assert first["scheduled_requests"] == "96"
    assert float(first["e2e_p95_s"]) == pytest.approx(0.25)
    assert first["evidence_sha256"] == plain[0]["evidence_sha256"]
    assert (last["status"], last["e2e_p95_s"], last["scheduled_requests"]) == ("planned", "", "")
    assert plain[-1]["e2e_p95_s"] is None


def test_a_percentile_among_failures_reads_inf_in_both() -> None:
    grid = stored.measure(
        factories.make_grid(limits=made.limits(), class_names=["short"]),
        lambda cell: stored.summary_of(cell, failed=40),
    )
    result = result_of(grid)
    assert next(csv.DictReader(io.StringIO(exports.as_csv(result))))["e2e_p95_s"] == "inf"
    assert json.loads(exports.as_json(result))["rows"][0]["e2e_p95_s"] == "inf"


def test_every_number_names_its_unit_or_is_a_count_a_share_or_a_name() -> None:
    result = result_of(stored.measure(factories.make_grid(limits=made.limits())))
    unnamed = [
        column
        for column, value in json.loads(exports.as_json(result))["rows"][0].items()
        if isinstance(value, float)
        and not column.endswith(("_s", "_bytes", "_min", "_share", "_c", "_w", "_ms", "_p50", "_flight", "_peak"))
    ]
    assert unnamed == []
