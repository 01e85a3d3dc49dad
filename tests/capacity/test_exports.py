"""Cells as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json

import pytest
from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary, GpuTotal
from benchmarks.models import Cell
from capacity import exports
from capacity.queries import result_of
from tests import factories
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db


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
    assert (first["evidence_signed_by"], plain[0]["evidence_signed_by"]) == ("", None)  # no worker made these
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
        and not column.endswith(
            ("_s", "_bytes", "_min", "_share", "_c", "_w", "_ms", "_p50", "_flight", "_peak", "_kwh")
        )
    ]
    assert unnamed == []


def test_what_was_sent_and_what_was_counted_stand_in_each_row_and_unknown_is_no_zero() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits(), class_names=["short"]), settings=[1])
    row = json.loads(exports.as_json(result_of(grid)))["rows"][0]
    assert (row["cell_scheduled_requests"], row["cell_outcomes"]) == (96, "ok:96")
    assert (row["cell_sent_requests"], row["cell_recorded_requests"]) == (100, 100)
    assert row["cell_sent_is_sum_of_outcomes"] is True
    assert (row["token_sources"], row["asked_output_tokens_p50"], row["output_tokens_p50"]) == ("server:96", 60.0, 60.0)
    assert (row["intended_prompt_tokens_p50"], row["prompt_tokens_p50"]) == (180.0, 180.0)
    assert (row["truncated_prompts"], row["short_outputs"]) == (0, 0)


def test_a_cell_whose_window_never_opened_has_no_rates_in_the_file() -> None:
    def unopened(cell: Cell) -> CellSummary:
        found = stored.summary_of(cell)
        part = replace(found.classes[0], prompt_tokens_p50=None, output_tokens_p50=None, token_sources={})
        none = {
            "completed_per_s": None,
            "good_per_s": None,
            "output_tokens_per_s": None,
            "conserved": None,
            "sent": None,
        }
        return replace(found, window_s=0.0, classes=(part,), **none)

    grid = stored.measure(factories.make_grid(limits=made.limits(), class_names=["short"]), unopened, settings=[1])
    row = json.loads(exports.as_json(result_of(grid)))["rows"][0]
    names = (
        "window_s", "cell_completed_per_min", "cell_good_per_min", "cell_output_tokens_per_s", "good_per_min",
        "cell_sent_requests", "cell_sent_is_sum_of_outcomes", "truncated_prompts", "short_outputs",
    )  # fmt: skip
    assert [name for name in names if row[name] is not None] == []


@pytest.mark.parametrize(("known", "kwh", "good_per_kwh"), [(1, 180 * 60 / 3.6e6, 30_000.0), (0, None, None)])
def test_goodput_for_each_kwh_stands_with_each_cell_and_is_unknown_where_a_gpu_told_no_power(
    known: int, kwh: float | None, good_per_kwh: float | None
) -> None:
    """90 good requests in a minute at 180 W."""

    def of(cell: Cell) -> CellSummary:
        total = GpuTotal(name="gpu_power_w", value=180.0, known=known, of=1, how="energy counter")
        return replace(stored.summary_of(cell), gpu_totals=(total,), window_s=60.0, good_per_s=1.5)

    result = result_of(stored.measure(factories.make_grid(limits=made.limits(), class_names=["short"]), of))
    told = json.loads(exports.as_json(result))
    row, csv_row = told["rows"][0], next(csv.DictReader(io.StringIO(exports.as_csv(result))))
    if kwh is None:
        assert (row["gpu_energy_kwh"], row["cell_good_per_kwh"], csv_row["cell_good_per_kwh"]) == (None, None, "")
        assert told["settings"][0]["good_per_kwh"]["value"] is None
        return
    assert (row["gpu_energy_kwh"], row["cell_good_per_kwh"]) == (pytest.approx(kwh), pytest.approx(good_per_kwh))
    assert [one["setting"] for one in told["settings"]] == list(result.facts.setting_values)
    held = told["settings"][0]["good_per_kwh"]
    assert held["lower"] <= held["value"] <= held["upper"]
