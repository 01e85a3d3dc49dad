"""A bound on a slope is kept as often as it says, whatever the scatter, and is never given of too few blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stats.steadiness import theil_sen
from benchmarks.stats.trends import LEAST_PER_BLOCK, lower_rank, trend


@pytest.mark.parametrize("n, rank", [(2, None), (3, None), (4, 1), (5, 2), (6, 3), (10, 13), (16, 42)])
def test_ranks_follow_from_the_exact_law(n, rank):
    assert lower_rank(n) == rank


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_the_rank_is_the_largest_that_all_permutations_allow(n):
    counts = [
        sum(first > second for first, second in itertools.combinations(order, 2))
        for order in itertools.permutations(range(n))
    ]
    rank = lower_rank(n)
    assert rank is not None
    assert np.mean(np.array(counts) <= rank - 1) <= 0.05 < np.mean(np.array(counts) <= rank)


@pytest.mark.parametrize("law", ["normal", "lognormal", "cauchy"])
@pytest.mark.parametrize("slope", [-0.5, 0.0, 0.5])
def test_the_bound_lies_above_the_truth_in_one_of_twenty_at_most(law, slope):
    dice = np.random.default_rng(5)
    at_s = np.arange(128) / 6  # 16 blocks of eight, alike in their times
    errors = {"normal": dice.normal, "lognormal": dice.lognormal, "cauchy": lambda size: dice.standard_cauchy(size)}
    found = [trend(at_s, slope * at_s + errors[law](size=128)) for _ in range(500)]
    assert sum(one.lower > slope for one in found) / 500 < 0.05 + 0.03
    assert sum(one.upper < slope for one in found) / 500 < 0.05 + 0.03


@given(st.floats(-10, 10), st.integers(20, 200))
def test_a_straight_line_is_its_own_bound(slope, n):
    at_s = np.arange(float(n))
    found = trend(at_s, slope * at_s + 3)
    assert found.slope == pytest.approx(slope, abs=1e-9)
    assert found.lower == pytest.approx(slope, abs=1e-9)
    assert found.upper == pytest.approx(slope, abs=1e-9)


@given(st.permutations(range(40)))
def test_the_order_of_the_log_does_not_matter(order):
    at_s = np.arange(40.0)
    values = np.sin(at_s)
    assert trend(at_s[order], values[order]) == trend(at_s, values)


def test_the_slope_is_theil_and_sens_of_the_blocks():
    at_s = np.arange(16.0 * LEAST_PER_BLOCK)
    values = np.sqrt(at_s)
    middles = at_s.reshape(16, -1)[:, LEAST_PER_BLOCK // 2]
    assert trend(at_s, values).slope == pytest.approx(theil_sen(middles, np.sqrt(middles)))


@pytest.mark.parametrize("n", [0, 1, 4, 5, 19])
def test_too_few_give_no_bound(n):
    found = trend(np.arange(float(n)), np.arange(float(n)))
    assert found.lower is None
    assert found.blocks == n // LEAST_PER_BLOCK


def test_values_of_one_moment_give_no_bound():
    assert trend(np.zeros(100), np.arange(100.0)).lower is None
