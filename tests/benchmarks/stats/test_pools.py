"""Repeats are pooled, never averaged; correlated requests count for fewer; the wider bound wins."""

from __future__ import annotations

import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.stats import pools
from benchmarks.stats.packed import EXACT_VALUES, pack, unpack
from benchmarks.stats.pools import (
    BY_REPEATS,
    BY_REQUESTS,
    Pool,
    autocorrelations,
    effective,
    inefficiency,
    pool,
    pooled,
    worth,
)
from benchmarks.stats.quantiles import binomial_at_most, quantile

TIMES = st.lists(st.integers(0, 3_000_000).map(lambda us: us / 1e6) | st.just(math.inf), min_size=1, max_size=80)
REPEATS = st.lists(TIMES, min_size=1, max_size=4)


def shuffled(*values: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.array(values, dtype=float))


def independent(values: np.ndarray, limit_s: float | None = None) -> Pool:
    return msgspec.structs.replace(pool(values, limit_s), autocorrelation=0.0, inefficiency=1.0)


# ── what is kept ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(0, 2**32 - 1), max_size=200))
def test_up_to_a_thousand_values_are_kept_to_the_microsecond(us):
    values, counts = unpack(pack(np.array(us, dtype=float) / 1e6))
    assert np.rint(np.repeat(values, counts) * 1e6).tolist() == sorted(us)


def test_many_values_stand_at_most_a_bucket_above_the_truth_and_take_little_room():
    truth = np.sort(np.random.default_rng(3).lognormal(0, 0.6, 50_000))
    packed = pack(truth)
    values, counts = unpack(packed)
    kept = np.repeat(values, counts)
    assert len(values) > EXACT_VALUES
    assert np.all(kept >= truth - 0.5e-6)
    assert np.max(kept / truth) - 1 < 0.0005
    assert len(packed) < 40_000
    assert len(pack(truth[:300])) < 1_600


@pytest.mark.parametrize("wrong", [b"\x01", b"\x81", b"\x81\x81\x81\x81\x81\x81\x01\x01"])
def test_bytes_that_are_no_sample_are_refused(wrong):
    with pytest.raises(ValueError, match="packed sample"):
        unpack(wrong)


def test_a_pool_survives_json_and_counts_over_its_limit():
    kept = pool(np.array([0.5, 1.0, 1.0000004, math.inf, 2.0]), 1.0)
    assert (kept.n, kept.failed, kept.over) == (5, 1, 3)  # at the limit is inside it
    assert msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(kept))), Pool, strict=False) == kept


def lag_one(values: np.ndarray) -> float | None:
    found = autocorrelations(values)
    return None if found is None else found[1]


# ── effective n ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("r", "worth"),
    [(None, 100.0), (-0.3, 100.0), (0.0, 100.0), (0.5, 100 / 3), (0.8, 100 / 9), (0.99, 100 * 0.05 / 1.95)],
)
def test_correlated_requests_are_worth_fewer(r, worth):
    assert effective(100, r) == pytest.approx(worth)


@pytest.mark.parametrize("r", [0.0, 0.5, 0.8])
def test_the_lag_one_correlation_is_found(r):
    dice = np.random.default_rng(1)
    values = np.zeros(20_000)
    for i, step in enumerate(dice.normal(size=20_000)):
        values[i] = r * values[i - 1] + math.sqrt(1 - r * r) * step
    assert lag_one(values) == pytest.approx(6 / math.pi * math.asin(r / 2), abs=0.02)  # of ranks
    assert lag_one(np.exp(values * 3)) == pytest.approx(lag_one(values))  # a long tail changes no rank


def test_a_slow_queue_under_quick_noise_is_worth_less_than_its_lag_one_correlation_tells():
    """Waiting that remembers for 20 requests, hidden by service times: lag 1 is near .45, as if it forgot in two."""
    dice = np.random.default_rng(4)
    waiting = np.zeros(4000)
    for i, step in enumerate(dice.normal(size=4000)):
        waiting[i] = 0.95 * waiting[i - 1] + math.sqrt(1 - 0.95**2) * step
    kept = pool(np.exp(waiting + dice.normal(size=4000)), None)
    truth = 1 + 0.95 / 0.05  # 1 + 2 x (1/2) x sum of .95 ** k
    assert kept.autocorrelation == pytest.approx(0.45, abs=0.05)
    assert truth * 0.6 < kept.inefficiency < truth * 1.4
    assert worth([kept]) == pytest.approx(4000 / kept.inefficiency)
    assert worth([kept]) < effective(4000, kept.autocorrelation) / 4


def test_independent_and_alternating_requests_lose_nothing_to_the_sum():
    assert inefficiency(np.array([1.0, -0.5, 0.2, 0.1])) == 1.0
    assert worth([pool(np.array([1.0, 2.0] * 30), None)]) == 60


def test_one_calm_window_does_not_count_for_more_than_the_others_together():
    calm, busy = (Pool(n=100, failed=0, autocorrelation=0.0, inefficiency=inefficiency) for inefficiency in (1.0, 19.0))
    assert worth([calm, busy]) == pytest.approx(20)  # 200 / 10, and not 100 + 5
    assert worth([]) == 0


def test_a_drift_over_the_whole_window_leaves_next_to_nothing():
    assert worth([pool(np.arange(300.0), None)]) < 5


def test_a_burst_of_failures_is_a_correlation_and_constant_times_are_none():
    assert lag_one(np.array([1.0] * 50 + [math.inf] * 10)) > 0.8
    assert lag_one(np.array([1.0, math.inf] * 30)) == pytest.approx(-1, abs=0.05)
    assert (lag_one(np.ones(60)), lag_one(np.array([1.0, 2.0]))) == (None, None)


# ── the pooled law ─────────────────────────────────────────────────────────────────────────────────────────────────


@given(REPEATS, st.sampled_from([0.5, 0.95, 0.99]))
@settings(max_examples=60)
def test_the_pooled_quantile_is_that_of_all_requests_together(repeats, q):
    found = pooled([independent(np.array(values)) for values in repeats], q)
    truth = quantile(np.concatenate([np.array(values) for values in repeats]), q)
    assert found.estimate.value == truth.value
    assert (found.by_requests, found.n_effective, found.estimate.n) == (truth.bound, truth.n, truth.n)


@given(REPEATS, st.integers(0, 3_000_000), st.floats(0, 0.95), st.sampled_from([0.5, 0.95]))
@settings(max_examples=100)
def test_the_gate_and_the_bound_by_requests_are_the_same_statement(repeats, limit_us, r, q):
    limit_s = limit_us / 1e6
    kept = [
        msgspec.structs.replace(pool(np.array(values), limit_s), autocorrelation=r, inefficiency=1.0)
        for values in repeats
    ]
    found = pooled(kept, q, limit_s=limit_s)
    n, n_eff = found.estimate.n, found.n_effective
    misses = sum(value > limit_s for values in repeats for value in values)
    assert found.misses == misses
    by_law = n_eff > 0 and binomial_at_most(math.ceil(misses * n_eff / n - 1e-9), n_eff, 1 - q) <= 0.05
    assert (found.by_requests is not None and found.by_requests <= limit_s) == by_law


@given(REPEATS, st.floats(0, 0.95))
@settings(max_examples=60)
def test_correlation_never_narrows_and_bounds_stand_in_order(repeats, r):
    kept = [pool(np.array(values), None) for values in repeats]
    free = pooled([msgspec.structs.replace(one, autocorrelation=0.0, inefficiency=1.0) for one in kept], 0.95)
    tied = pooled([msgspec.structs.replace(one, autocorrelation=r) for one in kept], 0.95)
    assert tied.n_effective <= free.n_effective
    assert tied.by_requests is None or tied.by_requests >= free.by_requests
    inside = [v for v in (tied.estimate.lower, tied.estimate.value, tied.estimate.upper) if v is not None]
    assert inside == sorted(inside)


def test_on_which_side_of_the_limit_it_is_does_not_depend_on_what_is_kept():
    """With so many values each stands up to 0.05 % too high: at the limit they would seem over it."""
    times = np.concatenate((np.linspace(0.9, 1.0, 4000), [1.0] * 2000))
    found = pooled([independent(shuffled(*times), 1.0)], 0.95, limit_s=1.0)
    assert unpack(pool(times, 1.0).times)[0][-1] > 1.0
    assert (found.misses, found.holds, found.estimate.value, found.estimate.bound) == (0, True, 1.0, 1.0)


def test_another_limit_than_the_one_set_is_counted_from_what_is_kept():
    found = pooled([pool(shuffled(*[0.5] * 90, *[1.5] * 9, math.inf), 1.0)], 0.95, limit_s=1.5)
    assert (found.misses, found.is_over) == (1, False)


def test_the_spread_of_repeats_widens_the_bound_and_is_named():
    alike = [independent(shuffled(*np.linspace(0.5, 1.0, 200), seed=s)) for s in range(3)]
    apart = [independent(shuffled(*(np.linspace(0.5, 1.0, 200) * f), seed=s)) for s, f in enumerate((0.8, 1.0, 1.2))]
    assert pooled(alike, 0.95).by == BY_REQUESTS
    found = pooled(apart, 0.95)
    assert found.by == BY_REPEATS
    # values v x (.8, 1, 1.2): mean v, s = .2 v, t(2) = 2.920
    (middle,) = {round(found.values[1], 6)}
    assert found.estimate.bound == pytest.approx(middle * (1 + 2.919986 * 0.2 / math.sqrt(3)), rel=1e-6)
    assert found.spread_share == pytest.approx(0.2, rel=1e-5)


def test_one_repeat_has_no_spread_and_says_so_by_having_none():
    found = pooled([independent(shuffled(*np.linspace(0.5, 1.0, 200)))], 0.95)
    assert (found.by_repeats, found.spread_share, found.by) == (None, None, BY_REQUESTS)


def test_a_repeat_among_failures_has_no_bound():
    good, bad = np.full(400, 0.5), np.array([0.5] * 30 + [math.inf] * 3)
    found = pooled([independent(good, 1.0), independent(bad, 1.0)], 0.95, limit_s=1.0)
    assert (found.estimate.value, found.by_requests) == (0.5, 0.5)
    assert (found.estimate.bound, found.holds, found.by, found.spread_share) == (math.inf, False, BY_REPEATS, None)


@pytest.mark.parametrize(
    ("n", "r", "needs"), [(58, 0.0, 1), (59, 0.0, 0), (20, 0.0, 39), (60, 0.5, 117), (90, 0.8, 441)]
)
def test_too_few_say_how_many_more_requests_of_the_same_kind_they_need(n, r, needs):
    one = msgspec.structs.replace(pool(np.full(n, 0.5), 1.0), autocorrelation=r)
    found = pooled([one], 0.95, limit_s=1.0)
    assert (found.needs, found.holds) == (needs, needs == 0)
    more = msgspec.structs.replace(pool(np.full(n + needs, 0.5), 1.0), autocorrelation=r)
    assert pooled([more], 0.95, limit_s=1.0).holds


def test_a_claim_at_one_percent_takes_more():
    kept = [pool(np.full(30, 0.5), 1.0) for _ in range(3)]
    assert (
        pooled(kept, 0.95, limit_s=1.0, alpha=0.01).holds,
        pooled(kept[:2], 0.95, limit_s=1.0, alpha=0.01).holds,
    ) == (
        True,
        False,
    )


def test_nothing_is_not_zero():
    found = pooled([pool(np.zeros(0), 1.0)], 0.95, limit_s=1.0)
    assert (found.estimate.n, found.estimate.value, found.estimate.bound, found.holds) == (0, None, None, None)
    assert found.estimate.needs == 59
    assert pools.pooled([], 0.95).estimate.value is None
