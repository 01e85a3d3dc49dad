"""How many may wait: X from the grid's own cells, waiting and service together, and what a refused client is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stats.birth_death import chain
from benchmarks.stats.quantiles import tail
from benchmarks.stats.queue_simulation import REFUSED, simulate_queue, waits_s
from capacity.assessment import choose, queueing, service_times
from capacity.assessment.facts import CellFact, GridFacts
from capacity.assessment.verdict import Headroom, QueueCap
from tests.capacity import synthetic as made

WORKED = {1: 0.30, 2: 0.55, 3: 0.74, 4: 0.90}
WINDOW_S = 2000.0


def cell(setting: int, per_s: float, name: str = "long") -> CellFact:
    """A long window of one class in a closed loop, whose times are what Little's law says of so many completions."""
    part = made.class_summary(name, [setting / per_s] * round(per_s * WINDOW_S))
    return made.cell(setting, setting, name, made.summary(setting, name, [part], window_s=WINDOW_S))


def worked(*settings: int, limit_s: float = 12.0, **asked: float) -> GridFacts:
    limits = made.limits(**{"success_share": 0.97, **asked})
    limits.classes["long"] = made.ClassLimits(e2e_s=limit_s)
    return made.facts([cell(n, WORKED[n]) for n in settings], asked=limits, class_weights={"long": 1.0})


def room(stated_per_min: float) -> Headroom:
    return Headroom(
        measured_per_min=54.0, after_reserves_per_min=stated_per_min, lower_bound_per_min=None,
        stated_per_min=stated_per_min, reserves=(), words="",
    )  # fmt: skip


def cap_of(facts: GridFacts, rate_per_min: float = 36.0, setting: int = 4) -> QueueCap:
    found = queueing.cap_at(facts, choose.row_of(facts, setting), rate_per_min)
    assert found is not None
    return found


def test_the_worked_example_comes_out_of_a_grid_of_cells_to_the_digit() -> None:
    rows = {row.cap: row for row in cap_of(worked(1, 2, 3, 4)).rows}
    seen = [
        (f"{100 * (rows[cap].refused.value or 0):.1f}", f"{rows[cap].waiting_p95_s.value:.2f}") for cap in (0, 4, 8)
    ]
    assert seen == [("14.5", "0.00"), ("2.3", "3.92"), ("0.4", "5.64")]
    assert [f"{rows[cap].waiting_mean_s.value:.2f}" for cap in (4, 8)] == ["0.65", "0.98"]


def test_the_largest_cap_is_the_last_at_which_waiting_and_service_together_are_in_time() -> None:
    # Serving takes 4 / .9 = 4.44 s every time, so 5.56 s are left of 10: a p95 of 5.64 s at 8 is too much, 5.46 at 7 not.
    found = cap_of(worked(1, 2, 3, 4, limit_s=10.0))
    of = [chain(tuple(WORKED.values()), 0.6, cap).wait_quantile_s(0.95) for cap in (7, 8)]
    assert of[0] < 10 - 4 / 0.9 < of[1]
    assert found.cap == 7
    assert {row.cap: row.holds for row in found.rows} == {
        0: True, 1: True, 2: True, 4: True, 7: True, 8: False, 16: False,
    }  # fmt: skip
    assert "7 may wait" in found.words
    assert "A longer queue hides overload" in found.words


def test_a_p95_of_waiting_plus_a_p95_of_service_is_not_the_p95_of_their_sum() -> None:
    law = service_times.law(tail(np.exp(np.random.default_rng(5).normal(1.0, 0.4, 20_000))))
    assert law is not None
    waiting = chain(tuple(WORKED.values()), 0.6, 8)
    both_s = waiting.wait_quantile_s(0.95) + float(np.quantile(law, 0.95))
    times = np.linspace(4, 12, 400)
    late = [float(waiting.wait_over(t - np.array(law)).mean()) for t in times]
    p95_s = float(np.interp(-0.05, -np.array(late), times))
    drawn = np.random.default_rng(6)
    waits = drawn.exponential(1, (200_000, 8)) / 0.9
    place = drawn.choice(9, 200_000, p=[1 - waiting.waiting_share, *waiting.places])
    summed = np.where(np.arange(8) < place[:, None], waits, 0).sum(axis=1) + drawn.choice(law, 200_000)
    assert p95_s == pytest.approx(float(np.quantile(summed, 0.95)), rel=0.01)
    assert p95_s < 0.9 * both_s


def test_settings_that_did_not_run_lie_on_a_line_and_are_marked() -> None:
    found = cap_of(worked(1, 2, 4))
    served = queueing.served_at(worked(1, 2, 4), 4)
    assert served is not None
    assert served.value == pytest.approx((0.30, 0.55, 0.725, 0.90))
    assert (served.interpolated, found.interpolated) == ((3,), (3,))
    assert "with 3 in flight were not measured" in found.words
    only = queueing.served_at(worked(4), 4)
    assert only is not None
    assert only.value == pytest.approx((0.225, 0.45, 0.675, 0.90))


@given(st.lists(st.floats(0.2, 3), min_size=4, max_size=4))
def test_completions_never_fall_with_more_active_and_are_never_above_what_was_measured(rates: list[float]) -> None:
    cells = [cell(n, per_s) for n, per_s in enumerate(rates, start=1)]
    served = queueing.served_at(made.facts(cells), 4)
    assert served is not None
    assert list(served.value) == sorted(served.value)
    for ends in zip(served.lower, served.value, served.upper, strict=True):
        assert list(ends) == sorted(ends)
    assert all(x <= rate * 1.01 for x, rate in zip(served.value, rates, strict=True))


def test_the_interval_holds_the_chain_at_both_ends_of_the_rate_and_the_simulated_windows() -> None:
    facts = worked(1, 2, 3, 4)
    served = queueing.served_at(facts, 4)
    assert served is not None
    row = next(row for row in cap_of(facts).rows if row.cap == 4)
    ends = [chain(x, 0.6, 4) for x in (served.lower, served.upper)]
    windows = simulate_queue(
        served.value, 0.6, 4, service_times.works(facts, 4), windows=queueing.WINDOWS, requests=queueing.REQUESTS,
        seed=queueing.SEED,
    )  # fmt: skip
    assert (row.refused.lower, row.refused.upper) != (None, None)
    for value in (*(end.refused_share for end in ends), *windows.refused):
        assert (row.refused.lower or 0) <= value <= (row.refused.upper or 0)
    for value in (*(end.wait_quantile_s(0.95) for end in ends), *windows.wait_quantile_s):
        assert (row.waiting_p95_s.lower or 0) <= value <= (row.waiting_p95_s.upper or 0)


def test_a_refused_request_is_no_success_so_a_rate_that_refuses_too_many_is_not_the_one_to_confirm() -> None:
    facts = worked(1, 2, 3, 4, limit_s=12.0, success_share=0.99)
    chosen = choose.row_of(facts, 4)
    found = queueing.queue_cap(facts, chosen, room(48.0))
    assert found is not None
    assert found.arrivals_per_min == found.fitting_per_min
    assert found.arrivals_per_min < 48
    assert "At the stated 48.0 requests a minute no queue keeps both refusals and times" in found.words
    row = next(row for row in found.rows if row.cap == found.cap)
    assert row.holds
    assert (row.refused.value or 0) <= 0.01
    slower = queueing.queue_cap(facts, chosen, room(20.0))
    assert slower is not None
    assert (slower.arrivals_per_min, slower.fitting_per_min) == (20.0, 20.0)


def test_where_a_longer_queue_would_refuse_no_fewer_it_is_not_made_longer() -> None:
    found = cap_of(worked(1, 2, 3, 4, limit_s=1000.0), rate_per_min=6.0)
    assert found.cap is not None
    assert found.cap < 8
    rows = {row.cap: row.refused.value or 0.0 for row in found.rows}
    assert rows[found.cap] < 1e-4


def test_where_serving_alone_is_too_slow_no_queue_is_short_enough() -> None:
    found = cap_of(worked(1, 2, 3, 4, limit_s=4.0))
    assert found.cap is None
    assert "no queue stays inside the objective: 0 % of long are inside their limit without any wait" in found.words
    assert [row.holds for row in found.rows] == [False, False]


def test_retry_after_is_when_a_place_is_free_with_nine_in_ten() -> None:
    assert cap_of(worked(1, 2, 3, 4)).retry_after_s == 3  # ln(10) / .9 = 2.56 s


def test_too_few_requests_to_know_how_long_serving_takes_say_so() -> None:
    part = made.class_summary("short", [0.5] * 12)
    facts = made.facts([made.cell(1, 1, "short", made.summary(1, "short", [part]))])
    found = cap_of(facts, rate_per_min=10.0, setting=1)
    assert (found.cap, found.rows) == (None, ())
    assert "too few requests of short (end to end)" in found.words
    assert queueing.cap_at(facts, choose.row_of(facts, 1), 0.0) is None
    assert queueing.served_at(facts, 2) is None


def test_the_law_passes_through_every_percentile_that_is_known_and_failures_stay_infinite() -> None:
    times = np.exp(np.random.default_rng(3).normal(0, 0.5, 4000))
    found = service_times.law(tail(times))
    assert found is not None
    for q in (0.5, 0.95, 0.99):
        assert float(np.quantile(found, q)) == pytest.approx(float(np.quantile(times, q)), rel=0.05)
    failing = service_times.law(tail(np.array([*times[:970], *([np.inf] * 30)])))
    assert failing is not None
    assert [value for value in failing if np.isinf(value)] == [np.inf] * 10
    assert service_times.law(tail(np.array([1.0] * 10))) is None
    assert service_times.law(tail(np.array([1.0, np.inf] * 50))) is None


def test_a_simulated_queue_of_exponential_work_agrees_with_the_chain() -> None:
    works = -np.log(1 - (np.arange(200) + 0.5) / 200)
    for per_s, cap in ((0.6, 0), (0.6, 4), (0.8, 16)):
        seen = simulate_queue(tuple(WORKED.values()), per_s, cap, works.tolist(), windows=10, requests=3000, seed=2)
        of = chain(tuple(WORKED.values()), per_s, cap)
        assert float(seen.refused.mean()) == pytest.approx(of.refused_share, abs=0.01)
        assert float(seen.wait_quantile_s.mean()) == pytest.approx(of.wait_quantile_s(0.95), rel=0.12, abs=0.01)


def test_who_comes_to_a_full_queue_is_refused_and_who_waits_longest_is_served_next() -> None:
    # Two at once at half a piece of work a second each; one may wait.
    assert waits_s((0.5, 1.0), [0.0, 0.0, 0.0, 0.1], 1, [1.0, 2.0, 1.0, 1.0]).tolist() == [0.0, 0.0, 2.0, REFUSED]
