"""Due times are known before the window: the same for the same seed, with the rate and the spread that were asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine.load import Constant, Gamma, Poisson, Replay, Steps
from benchmarks.engine.schedule import MOST_ARRIVALS, TooManyError, offsets_ns

S = 1_000_000_000
STEPS = ((2.0, 30.0), (1.0, 0.0), (0.0, 500.0), (3.0, 5.0))
EVERY_KIND = (
    Constant(40.0),
    Poisson(40.0),
    Gamma(40.0, 0.5),
    Gamma(40.0, 4.0),
    Steps(STEPS),
    Replay((0.0, 0.5, 0.5, 7.0)),
)
RATES = st.floats(0.05, 500.0)
DRAWN = st.one_of(
    st.builds(Constant, RATES),
    st.builds(Poisson, RATES),
    st.builds(Gamma, RATES, st.floats(0.05, 20.0)),
    st.builds(
        Steps, st.lists(st.tuples(st.floats(0, 5), st.floats(0, 200) | st.just(0.0)), min_size=1, max_size=6).map(tuple)
    ),
    st.builds(Replay, st.lists(st.floats(0, 60), max_size=50).map(sorted).map(tuple)),
)


@settings(max_examples=150)
@given(DRAWN, st.floats(0, 20), st.floats(0, 20), st.integers(0, 2**32))
def test_times_ascend_below_the_horizon_and_a_longer_horizon_begins_with_the_shorter_one(arrivals, one_s, more_s, seed):
    short, long = offsets_ns(arrivals, one_s, seed), offsets_ns(arrivals, one_s + more_s, seed)
    assert (np.diff(short) >= 0).all()
    assert not short.size or 0 <= short[0] <= short[-1] < round(one_s * S)
    assert long[: len(short)].tolist() == short.tolist()
    assert (long[len(short) :] >= round(one_s * S)).all()
    assert offsets_ns(arrivals, one_s, seed).tolist() == short.tolist()


@pytest.mark.parametrize("arrivals", [Poisson(40.0), Gamma(40.0, 0.5), Steps(STEPS)])
def test_another_seed_is_another_draw(arrivals):
    assert offsets_ns(arrivals, 10.0, 1).tolist() != offsets_ns(arrivals, 10.0, 2).tolist()


@pytest.mark.parametrize("arrivals", [Constant(40.0), Replay((0.0, 0.5, 7.0))])
def test_what_is_not_drawn_does_not_depend_on_the_seed(arrivals):
    assert offsets_ns(arrivals, 10.0, 1).tolist() == offsets_ns(arrivals, 10.0, 2).tolist()


def test_a_constant_rate_is_a_grid_of_times():
    assert offsets_ns(Constant(4.0), 1.0, 9).tolist() == [0, S // 4, S // 2, 3 * S // 4]
    assert len(offsets_ns(Constant(3.0), 10.0, 9)) == 30
    assert offsets_ns(Constant(1e-300), 5.0, 9).tolist() == [0]


@pytest.mark.parametrize(
    ("arrivals", "cv"),
    [
        (Constant(200.0), 0.0),
        (Poisson(200.0), 1.0),
        (Gamma(200.0, 1.0), 1.0),
        (Gamma(200.0, 0.25), 2.0),
        (Gamma(200.0, 0.0625), 4.0),
        (Gamma(200.0, 16.0), 0.25),
    ],
)
def test_the_mean_rate_and_the_spread_of_the_gaps_are_those_asked_for(arrivals, cv):
    """Over n gaps the mean has a standard error of cv / sqrt(n). That of a gamma's CV is cv / sqrt(n) times sqrt(1/2 +
    cv ** 2) to first order in 1/n; five of each here."""
    gaps = np.diff(offsets_ns(arrivals, 500.0, 11)) / S
    n = len(gaps)
    assert gaps.mean() * 200.0 == pytest.approx(1.0, abs=1e-6 + 5 * cv / math.sqrt(n))
    found = gaps.std() / gaps.mean()
    assert found == pytest.approx(cv, abs=1e-6 + 5 * cv * math.sqrt((0.5 + cv**2) / n))


def test_poisson_counts_in_seconds_vary_as_much_as_their_mean():
    counts = np.bincount(offsets_ns(Poisson(50.0), 4000.0, 5) // S, minlength=4000)
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=5 * math.sqrt(2 / 4000))


def test_each_step_has_its_own_rate_and_a_step_of_none_has_no_arrivals():
    times = offsets_ns(Steps(((100.0, 50.0), (50.0, 0.0), (100.0, 200.0), (10.0, 20.0))), 460.0, 3) / S
    counts = [((times >= low) & (times < high)).sum() for low, high in [(0, 100), (100, 150), (150, 250), (250, 460)]]
    for found, expected in zip(counts, [5000, 0, 20_000, 4200], strict=True):  # the last step stays to the end
        assert abs(found - expected) <= 5 * math.sqrt(expected)


@pytest.mark.parametrize("steps", [((1.0, 0.0),), ((0.0, 9.0), (5.0, 0.0)), ((3.0, 0.0), (0.0, 7.0), (1.0, 0.0))])
def test_steps_without_any_rate_are_no_arrivals(steps):
    assert offsets_ns(Steps(steps), 10.0, 1).tolist() == []


def test_a_step_that_lasts_beyond_the_horizon_costs_no_arrivals_beyond_it():
    day_s = 86_400.0
    assert len(offsets_ns(Steps(((day_s, 100.0), (day_s, 1000.0))), 10.0, 1)) == pytest.approx(1000, abs=160)


def test_a_replayed_trace_is_its_own_times_up_to_the_horizon():
    assert offsets_ns(Replay((0.0, 0.25, 0.25, 1.0)), 1.0, 4).tolist() == [0, S // 4, S // 4]
    assert offsets_ns(Replay(()), 1.0, 4).tolist() == []


def test_no_arrival_is_due_at_the_horizon_itself_where_it_is_rounded():
    assert offsets_ns(Replay((0.5, 0.99999999999)), 1.0, 4).tolist() == [S // 2]


@pytest.mark.parametrize(
    ("arrivals", "words"),
    [
        (Constant(0.0), "above 0 per second"),
        (Constant(-1.0), "above 0 per second"),
        (Poisson(math.nan), "above 0 per second"),
        (Gamma(math.inf, 1.0), "above 0 per second"),
        (Gamma(1.0, 0.0), "burstiness must be above 0"),
        (Gamma(1.0, math.inf), "burstiness must be above 0"),
        (Gamma(1.0, math.nan), "burstiness must be above 0"),
        (Steps(()), "at least one"),
        (Steps(((1.0, -1.0),)), "not negative"),
        (Steps(((-1.0, 1.0),)), "not negative"),
        (Steps(((1.0, math.nan),)), "finite"),
        (Steps(((math.inf, 1.0),)), "finite"),
        (Replay((0.5, 0.25)), "ascend from 0"),
        (Replay((-0.1, 0.25)), "ascend from 0"),
        (Replay((0.0, math.inf)), "ascend from 0"),
        (Replay((0.0, math.nan)), "ascend from 0"),
    ],
)
def test_what_is_no_schedule_is_refused_with_words(arrivals, words):
    with pytest.raises(ValueError, match=words):
        offsets_ns(arrivals, 5.0, 1)


@pytest.mark.parametrize(
    "arrivals",
    [Constant(1e6), Poisson(1e6), Gamma(1e6, 0.5), Steps(((1.0, 1e8),)), Steps(((1.0, 1e308), (1e9, 1e308)))],
)
def test_more_than_a_plan_can_hold_is_refused_before_it_is_drawn(arrivals):
    with pytest.raises(TooManyError, match=str(MOST_ARRIVALS)):
        offsets_ns(arrivals, 10.0, 1)


@pytest.mark.parametrize("horizon_s", [-1.0, math.inf, math.nan])
def test_a_schedule_needs_an_end(horizon_s):
    with pytest.raises(ValueError, match="needs an end"):
        offsets_ns(Poisson(1.0), horizon_s, 1)
