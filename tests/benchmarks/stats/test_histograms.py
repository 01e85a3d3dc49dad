"""A histogram of gaps merges by adding and never tells a quantile lower than it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.stats.histograms import COARSE, FINE, begins_us, coarser, count, merged, quantile_us, sparse
from benchmarks.stats.quantiles import nearest_rank

U32 = st.integers(0, 2**32 - 1)


@given(st.lists(U32, min_size=1, max_size=300), st.sampled_from([0.01, 0.5, 0.95, 0.99]))
@settings(max_examples=300)
def test_a_quantile_is_at_most_a_twentieth_of_a_percent_too_high_and_never_too_low(values, q):
    exact = sorted(values)[nearest_rank(len(values), q) - 1]
    found = quantile_us(count(np.array(values, dtype=np.uint32)), q)
    assert exact <= found <= exact * 1.0005 + 1


@given(st.lists(st.integers(0, 4095), min_size=1, max_size=100))
@settings(max_examples=100)
def test_below_four_milliseconds_it_is_exact(values):
    assert quantile_us(count(np.array(values, dtype=np.uint32)), 0.5) == sorted(values)[(len(values) - 1) // 2]


@given(st.lists(U32, max_size=100), st.lists(U32, max_size=100))
@settings(max_examples=100)
def test_adding_two_is_counting_all(one, other):
    parts = [np.array(values, dtype=np.uint32) for values in (one, other)]
    together = count(np.concatenate(parts))
    assert (count(parts[0]) + count(parts[1])).tolist() == together.tolist()
    kept = [sparse(coarser(count(part))) for part in parts]
    assert merged(*kept) == sparse(coarser(together))
    assert merged(kept[0], kept[1]) == merged(kept[1], kept[0])


@given(U32)
def test_a_wide_bucket_holds_the_value_and_is_at_most_an_eighth_wide(value):
    ((begin, number),) = sparse(coarser(count(np.array([value], dtype=np.uint32))))
    assert number == 1
    assert begin <= value <= max(begin * 1.125, begin + 1)


def test_more_values_than_are_taken_at_once_are_all_counted():
    values = np.arange(2_500_000, dtype=np.uint32)
    assert int(count(values).sum()) == 2_500_000
    assert quantile_us(count(values), 0.5) == pytest.approx(1_249_999, rel=0.0005)


def test_of_nothing_there_is_no_quantile():
    assert quantile_us(count(np.zeros(0, dtype=np.uint32)), 0.5) is None


@pytest.mark.parametrize("bits", [FINE, COARSE])
def test_buckets_begin_in_ascending_order(bits):
    begins = [begins_us(bucket, bits) for bucket in range(1 + (32 << bits))]
    assert begins == sorted(begins)
    assert begins[:2] == [0, 1]
