"""Requests a minute of the mix."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from capacity.assessment.rates import completed_rate, good_rate, harmonic, mix_completed, mix_good, summaries
from tests.capacity import synthetic as made

RATES = st.floats(min_value=0.01, max_value=1e4)


@pytest.mark.parametrize(
    ("rates", "weights", "expected"),
    [
        ({"a": 6.0}, {"a": 3.0}, 6.0),
        ({"a": 6.0, "b": 6.0}, {"a": 1.0, "b": 9.0}, 6.0),
        ({"a": 60.0, "b": 10.0}, {"a": 1.0, "b": 1.0}, 120 / 7),
        ({"a": 60.0, "b": 0.0}, {"a": 1.0, "b": 1.0}, 0.0),
        ({"a": 60.0, "b": 0.0}, {"a": 1.0, "b": 0.0}, 60.0),
        ({"a": 60.0, "b": None}, {"a": 1.0, "b": 1.0}, None),
        ({}, {}, None),
    ],
)
def test_classes_combine_by_the_time_each_takes(
    rates: dict[str, float | None], weights: dict[str, float], expected: float | None
) -> None:
    assert harmonic(rates, weights) == (None if expected is None else pytest.approx(expected))


# A busy machine draws slowly; that is not a fault of the claim.
@settings(derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(rates=st.lists(RATES, min_size=1, max_size=5), weights=st.lists(st.floats(0.1, 10), min_size=5, max_size=5))
def test_the_mix_is_never_faster_than_its_fastest_class_nor_slower_than_its_slowest(
    rates: list[float], weights: list[float]
) -> None:
    named = {str(i): rate for i, rate in enumerate(rates)}
    mixed = harmonic(named, {str(i): weight for i, weight in enumerate(weights)})
    assert mixed is not None
    assert min(rates) * (1 - 1e-9) <= mixed <= max(rates) * (1 + 1e-9)


def test_a_class_without_a_measured_cell_leaves_the_rate_unknown() -> None:
    cells = [made.simple_cell(1, 2, p95_s=0.5)]
    assert mix_good(cells, ("short", "long"), {"short": 1.0, "long": 1.0}).value is None
    assert mix_completed(cells, ("short", "long"), {"short": 1.0, "long": 1.0}) is None


def test_the_rate_counts_good_requests_over_the_time_of_all_repeats() -> None:
    cells = [
        made.simple_cell(1, 2, p95_s=0.5, n=60, window_s=30.0),
        made.simple_cell(2, 2, p95_s=0.5, n=90, window_s=30.0),
    ]
    assert good_rate(summaries(cells, "short")).value == pytest.approx(150.0)


def test_repeats_that_differ_widen_the_interval_beyond_the_share_alone() -> None:
    alike = [made.simple_cell(i, 2, p95_s=0.5, n=60) for i in (1, 2, 3)]
    apart = [made.simple_cell(i, 2, p95_s=0.5, n=n) for i, n in ((1, 30), (2, 60), (3, 90))]
    narrow, wide = good_rate(summaries(alike, "short")), good_rate(summaries(apart, "short"))
    assert narrow.value == wide.value == pytest.approx(120.0)
    assert wide.lower is not None
    assert narrow.lower is not None
    assert wide.lower < narrow.lower
    # mean 2/s, s = 1/s, t(2) = 4.303: 2 - 4.303 / sqrt(3) is below zero, and a rate is not
    assert wide.lower == 0.0


def test_nothing_measured_is_unknown_and_not_zero() -> None:
    assert good_rate([]).value is None


def test_no_good_request_in_a_measured_window_is_zero() -> None:
    cells = [made.simple_cell(1, 2, p95_s=5.0, n=60)]
    found = good_rate(summaries(cells, "short"))
    assert found.value == 0.0
    assert found.lower == 0.0
    assert found.upper is not None
    assert found.upper > 0


def test_where_the_mix_was_measured_its_own_cell_counts() -> None:
    parts = [made.class_summary("short", made.latencies(60, 0.5)), made.class_summary("long", made.latencies(30, 4.0))]
    cells = [made.cell(1, 2, "mixed", made.summary(2, "mixed", parts))]
    assert mix_good(cells, ("mixed",), {"short": 1.0, "long": 1.0}).value == pytest.approx(180.0)


def test_a_cell_whose_window_never_opened_adds_no_rate_of_zero() -> None:
    cell = made.simple_cell(1, 2, p95_s=0.3)
    assert cell.summary is not None
    blank = replace(cell.summary, window_s=0.0, completed_per_s=None, good_per_s=None)
    assert good_rate([cell.summary, blank]) == good_rate([cell.summary])
    assert completed_rate([cell.summary, blank]) == completed_rate([cell.summary])
    assert (good_rate([blank]).value, completed_rate([blank])) == (None, None)
