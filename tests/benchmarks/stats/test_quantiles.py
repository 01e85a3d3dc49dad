"""Quantiles say no more than their sample allows, and their bounds agree with the gate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.stats.quantiles import binomial_at_most, lower_rank, needed_for_bound, quantile, tail, upper_rank

MISSES = (0, 1, 2, 5, 10)
TABLE = [
    (0.95, 0.05, (59, 93, 124, 208, 336)),
    (0.99, 0.05, (299, 473, 628, 1049, 1693)),
    (0.90, 0.01, (44, 64, 81, 127, 197)),
    (0.95, 0.01, (90, 130, 165, 259, 398)),
    (0.99, 0.01, (459, 662, 838, 1307, 2010)),
]


def exact_at_most(misses: int, n: int, share: float) -> float:
    return math.fsum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(misses + 1))


@pytest.mark.parametrize("q, alpha, needed", TABLE)
def test_requests_needed_are_those_of_the_binomial_law(q, alpha, needed):
    assert tuple(needed_for_bound(q, misses, alpha) for misses in MISSES) == needed


@pytest.mark.parametrize("q, n, has_value", [(0.95, 19, False), (0.95, 20, True), (0.99, 99, False), (0.99, 100, True)])
def test_a_tail_value_stands_only_on_enough_points(q, n, has_value):
    assert (quantile(np.arange(n, dtype=float), q).value is not None) == has_value


@pytest.mark.parametrize("n, has_bound, needs", [(58, False, 1), (59, True, 0), (0, False, 59)])
def test_the_upper_bound_begins_at_59_for_p95_and_says_what_it_needs(n, has_bound, needs):
    found = quantile(np.arange(n, dtype=float), 0.95)
    assert (found.bound is not None, found.needs) == (has_bound, needs)


def test_the_rank_is_the_nearest_and_does_not_interpolate():
    values = np.arange(1.0, 101.0)
    assert [quantile(values, q).value for q in (0.5, 0.95, 0.99)] == [50.0, 95.0, 99.0]


def test_the_median_of_one_value_is_that_value():
    assert quantile(np.array([7.0]), 0.5).value == 7.0


def test_failures_are_infinite_and_may_be_the_quantile():
    values = np.array([1.0] * 90 + [math.inf] * 10)
    found = tail(values)
    assert (found.p50.value, found.p95.value, found.p95.bound) == (1.0, math.inf, math.inf)


@pytest.mark.parametrize("wrong", [[math.nan], [1.0, math.nan], [-math.inf, 1.0]])
def test_unknown_values_are_refused(wrong):
    with pytest.raises(ValueError, match="leave unknown values out"):
        quantile(np.array(wrong), 0.5)


@given(
    st.lists(st.floats(0, 1e6) | st.just(math.inf), max_size=150),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
@settings(max_examples=100)
def test_bounds_are_in_order_and_are_members_of_the_sample(values, q):
    found = quantile(np.array(values), q)
    given_values = [v for v in (found.lower, found.value, found.upper) if v is not None]
    assert given_values == sorted(given_values)
    assert all(v in values for v in given_values)
    if found.bound is not None and found.upper is not None:
        assert found.bound <= found.upper


@given(st.integers(1, 400), st.sampled_from([0.5, 0.9, 0.95, 0.99]), st.sampled_from([0.05, 0.01, 0.025]))
@settings(max_examples=150)
def test_the_bound_covers_with_at_least_its_confidence_and_the_next_lower_rank_does_not(n, q, alpha):
    rank = upper_rank(n, q, alpha)
    if rank is None:
        assert exact_at_most(0, n, 1 - q) > alpha - 1e-12
        return
    assert exact_at_most(n - rank, n, 1 - q) <= alpha + 1e-12
    if rank > 1:
        assert exact_at_most(n - rank + 1, n, 1 - q) > alpha - 1e-12


@given(st.integers(60, 400), st.integers(0, 30))
@settings(max_examples=100)
def test_bound_under_the_limit_is_the_same_statement_as_the_gate(n, misses):
    limit = 1.0
    values = np.array([0.5] * (n - misses) + [2.0] * misses)
    bound = quantile(values, 0.95).bound
    assert (bound is not None and bound <= limit) == (binomial_at_most(misses, n, 0.05) <= 0.05)


def every_term(n: int, p: float) -> np.ndarray:
    """P(X = k) for all k, term by term."""
    log_p, log_q = math.log(p), math.log1p(-p)
    return np.array(
        [
            math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_p + (n - k) * log_q)
            for k in range(n + 1)
        ]
    )


@pytest.mark.parametrize("n", [1, 59, 299, 1693, 20_000])
@pytest.mark.parametrize("q", [0.5, 0.95, 0.99])
def test_leaving_out_what_lies_far_from_the_mean_changes_no_rank(n, q):
    at_most = np.cumsum(every_term(n, q))
    at_least = np.cumsum(every_term(n, q)[::-1])[::-1]
    above, below = np.flatnonzero(at_least[1:] <= 0.05), np.flatnonzero(at_most[:-1] <= 0.05)
    assert upper_rank(n, q, 0.05) == (int(above[0]) + 1 if above.size else None)
    assert lower_rank(n, q, 0.05) == (int(below[-1]) + 1 if below.size else None)


def test_a_million_values_have_the_bounds_of_the_normal_limit():
    n, q = 1_000_000, 0.95
    spread = 1.6448536 * math.sqrt(n * q * (1 - q))
    assert upper_rank(n, q, 0.05) == pytest.approx(n * q + spread, abs=3)
    assert lower_rank(n, q, 0.05) == pytest.approx(n * q - spread, abs=3)
