"""Goodput as items a second and for each kWh of the GPUs; a power limit that is set is judged."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary, GpuTotal
from capacity.assessment.choose import row_of
from capacity.assessment.facts import CellFact, GridFacts
from capacity.assessment.gates import power
from capacity.assessment.goodput import energy_kwh, good_per_kwh
from capacity.assessment.verdict import Answer
from tests.capacity import synthetic as made


def with_power(cell: CellFact, watts: float, *, known: int = 1, of: int = 1) -> CellFact:
    total = GpuTotal(name="gpu_power_w", value=watts, known=known, of=of, how="energy counter")
    assert isinstance(cell.summary, CellSummary)
    return replace(cell, summary=replace(cell.summary, gpu_totals=(total,)))


def test_ninety_good_requests_in_a_minute_at_180_w_are_30_000_for_a_kwh() -> None:
    cells = [with_power(made.simple_cell(1, 2, p95_s=0.5, n=90, window_s=60.0), 180.0)]
    assert energy_kwh(cells[0].summary) == pytest.approx(0.003)  # type: ignore[arg-type]
    found = good_per_kwh(cells, ("short",), {"short": 1.0})
    assert (found.value, found.n, found.how) == (pytest.approx(30_000.0), 90, "GPU power only")
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < 30_000.0 <= found.upper


def test_a_request_of_the_mix_takes_the_energy_of_its_classes_by_their_weights() -> None:
    """Three short of 1/30,000 kWh and one long of 1/7,500: 4 / (3 / 30,000 + 1 / 7,500)."""
    cells = [
        with_power(made.simple_cell(1, 2, p95_s=0.5, n=90, window_s=60.0), 180.0),
        with_power(made.simple_cell(2, 2, p95_s=0.5, n=45, window_s=60.0, name="long"), 360.0),
    ]
    found = good_per_kwh(cells, ("short", "long"), {"short": 3.0, "long": 1.0})
    assert found.value == pytest.approx(4 / (3 / 30_000 + 1 / 7_500))


def test_repeats_pool_their_requests_and_their_energy_and_their_spread_is_in_the_interval() -> None:
    cells = [
        with_power(made.simple_cell(1, 2, p95_s=0.5, n=90, window_s=60.0), 180.0),
        with_power(made.simple_cell(2, 2, p95_s=0.5, n=90, window_s=60.0), 60.0),
    ]
    found = good_per_kwh(cells, ("short",), {"short": 1.0})
    assert found.value == pytest.approx(180 / 0.004)
    # Mean 60,000 of 30,000 and 90,000, t = 12.706: half the interval is 12.706 x 42,426 / sqrt(2).
    assert (found.lower, found.upper) == (0.0, pytest.approx(45_000 + 12.706 * 30_000, rel=1e-3))


@pytest.mark.parametrize("known, of", [(None, 0), (1, 2)])
def test_without_the_power_of_every_gpu_nothing_is_said(known: int | None, of: int) -> None:
    cell = made.simple_cell(1, 2, p95_s=0.5)
    cells = [cell if known is None else with_power(cell, 180.0, known=known, of=of)]
    assert good_per_kwh(cells, ("short",), {"short": 1.0}).value is None


def test_one_repeat_without_power_leaves_all_of_them_unknown() -> None:
    cells = [with_power(made.simple_cell(1, 2, p95_s=0.5), 180.0), made.simple_cell(2, 2, p95_s=0.5)]
    assert good_per_kwh(cells, ("short",), {"short": 1.0}).value is None


def test_the_row_of_a_setting_has_both() -> None:
    cells = (with_power(made.simple_cell(1, 2, p95_s=0.5, n=90, window_s=60.0), 180.0),)
    facts = GridFacts(
        limits=made.limits(), setting_values=(2,), class_names=("short",), class_weights={"short": 1.0}, cells=cells
    )
    row = row_of(facts, 2)
    assert (row.good.value, row.items_per_s.value, row.items_per_s.n) == (pytest.approx(90.0), pytest.approx(1.5), 90)
    assert row.good_per_kwh.value == pytest.approx(30_000.0)


@pytest.mark.parametrize(
    ("limit", "watts", "has_gpu", "answer"),
    [
        (None, 400.0, True, None),
        (350.0, 349.0, True, Answer.HOLDS),
        (350.0, 351.0, True, Answer.FAILS),
        (350.0, None, False, Answer.NOT_APPLICABLE),
        (350.0, None, None, Answer.NOT_REPORTED),
    ],
)
def test_a_limit_of_power_is_a_gate_where_the_objective_has_one(
    limit: float | None, watts: float | None, has_gpu: bool | None, answer: Answer | None
) -> None:
    gauges = [] if watts is None else [made.gauge("gpu_power_w", watts)]
    cells = (made.simple_cell(1, 2, p95_s=0.5, gauges=gauges),)
    facts = GridFacts(
        limits=replace(made.limits(), max_power_w=limit), setting_values=(2,), class_names=("short",), class_weights={},
        cells=cells, has_gpu=has_gpu,
    )  # fmt: skip
    assert [gate.answer for gate in power(facts, cells)] == ([] if answer is None else [answer])
