"""Shares carry their denominator and a Wilson interval."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stats.shares import share


def test_nothing_of_nothing_has_no_value():
    found = share(0, 0)
    assert (found.n, found.value, found.lower, found.upper) == (0, None, None, None)


@pytest.mark.parametrize(
    "hits, n, lower, upper",
    [  # published values of the Wilson score interval
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
        (15, 148, 0.0624, 0.1605),
    ],
)
def test_the_interval_is_wilsons(hits, n, lower, upper):
    found = share(hits, n)
    assert (round(found.lower, 4), round(found.upper, 4)) == (lower, upper)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_value_lies_within_its_interval(pair):
    hits, n = pair
    found = share(hits, n)
    assert 0 <= found.lower <= found.value <= found.upper <= 1


def test_coverage_is_what_the_exact_binomial_calculation_says():
    n, p = 50, 0.99
    covered = math.fsum(
        math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1) if share(k, n).lower <= p <= share(k, n).upper
    )
    assert round(covered, 3) == 0.911


@pytest.mark.parametrize("hits, n", [(-1, 5), (6, 5)])
def test_impossible_counts_are_refused(hits, n):
    with pytest.raises(ValueError, match="between 0 and n"):
        share(hits, n)
