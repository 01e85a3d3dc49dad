"""A measure that moved over its window is not told as one number, and a short window is not judged at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.stats.steadiness import Steady, block_edges, judge, of_rate, of_values, theil_sen

WINDOW_S = 60.0


def over(shape, *, per_s: float = 10.0, noise: float = 0.0, seed: int = 0, length_s: float = WINDOW_S):
    """(at_s, values): `shape` of the share of the window that has passed, with lognormal noise."""
    at_s = np.arange(0, length_s, 1 / per_s)
    spread = np.exp(np.random.default_rng(seed).normal(0, noise, len(at_s)))
    return at_s, np.array([shape(t / length_s) for t in at_s]) * spread


@pytest.mark.parametrize(
    "shape, verdict",
    [
        (lambda part: 1.0, Steady.STEADY),
        (lambda part: 1.0 + 0.13 * part, Steady.STEADY),
        (lambda part: 1.0 + 0.18 * part, Steady.DRIFTING),
        (lambda part: 1.0 - 0.13 * part, Steady.STEADY),
        (lambda part: 1.0 - 0.18 * part, Steady.SETTLING),
        (lambda part: 3.0 if part < 0.09 else 1.0, Steady.STEADY),  # one odd block turns no trend
        (lambda part: 1.0 if part < 0.5 else 2.0, Steady.DRIFTING),
    ],
)
def test_a_trend_of_fifteen_percent_and_more_is_told(shape, verdict):
    at_s, values = over(shape)
    assert of_values(at_s, values, length_s=WINDOW_S).verdict is verdict


def test_a_trend_inside_the_scatter_of_the_blocks_is_none():
    blocks = np.array([1.0, 1.6, 0.8, 1.7, 1.0, 1.9])
    found = judge(np.arange(6.0) * 10, blocks, length_s=60.0, falling_is_better=True)
    assert found.change_share > 0.15
    assert found.change_share < 2 * found.residual_sd_share
    assert found.verdict is Steady.STEADY


@pytest.mark.parametrize("change, verdict", [(15, Steady.DRIFTING), (14.99, Steady.STEADY)])
def test_exactly_fifteen_percent_is_a_drift(change, verdict):
    at_s = np.arange(-3.0, 4.0)  # the median block is the middle one, of value 100
    found = judge(at_s, 100 + change * at_s, length_s=1.0, falling_is_better=True)
    assert found.verdict is verdict
    assert found.change_share == pytest.approx(change / 100)


@pytest.mark.parametrize(
    "length_s, per_s, blocks, verdict",
    [
        (29.9, 10.0, 5, Steady.TOO_SHORT),  # five seconds each, the rest joins the last
        (30.0, 10.0, 6, Steady.STEADY),
        (60.0, 1.0, 3, Steady.TOO_SHORT),  # twenty completions each
        (130.0, 1.0, 6, Steady.STEADY),
        (60.0, 0.0, 0, Steady.TOO_SHORT),
    ],
)
def test_six_blocks_of_five_seconds_and_twenty_completions_are_needed(length_s, per_s, blocks, verdict):
    at_s = np.arange(0, length_s - 1e-9, 1 / per_s) if per_s else np.zeros(0)
    found = of_values(at_s, np.ones(len(at_s)), length_s=length_s)
    assert (found.blocks, found.verdict) == (blocks, verdict)
    assert (found.change_share is None) == (verdict is Steady.TOO_SHORT)


@pytest.mark.parametrize("gap_grows, verdict", [(0.0, Steady.STEADY), (0.6, Steady.DRIFTING), (-0.4, Steady.SETTLING)])
def test_a_throughput_that_falls_drifts_and_one_that_rises_settles(gap_grows, verdict):
    at_s, now_s = [], 0.0
    while now_s < WINDOW_S:
        at_s.append(now_s)
        now_s += 0.05 * (1 + gap_grows * now_s / WINDOW_S)
    assert of_rate(np.array(at_s), length_s=WINDOW_S).verdict is verdict


def test_the_slope_is_the_median_of_all_pairs():
    assert theil_sen(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0, 30.0])) == pytest.approx(5.5)


@given(
    st.lists(st.floats(0, 100, allow_nan=False), max_size=400).map(sorted),
    st.floats(1, 100, allow_nan=False),
)
@settings(max_examples=200)
def test_blocks_tile_the_window_and_each_is_full(at, length_s):
    at_s = np.array([t for t in at if t < length_s])
    edges = block_edges(at_s, length_s=length_s)
    assert edges[0] == 0.0
    if len(edges) > 1:
        assert edges[-1] == length_s
        assert (np.diff(edges) >= 5.0 - 1e-9).all()
        assert (np.diff(np.searchsorted(at_s, edges)) >= 20).all()


@given(st.integers(0, 10_000), st.floats(0.001, 1000), st.floats(-100, 100))
@settings(max_examples=60)
def test_the_verdict_knows_no_unit_and_no_order(seed, scale, shift):
    at_s, values = over(lambda part: 1 + 0.3 * part, noise=0.3, seed=seed)
    mixed = np.random.default_rng(seed).permutation(len(at_s))
    first, second = (
        of_values(at_s, values, length_s=WINDOW_S),
        of_values(at_s[mixed], values[mixed] * scale, length_s=WINDOW_S),
    )
    assert (first.verdict, first.blocks) == (second.verdict, second.blocks)
    assert second.change_share == pytest.approx(first.change_share)


def test_noise_alone_is_seldom_called_a_drift():
    found = [of_values(*over(lambda part: 1.0, noise=0.2, seed=seed), length_s=WINDOW_S).verdict for seed in range(300)]
    assert sum(verdict is not Steady.STEADY for verdict in found) <= 6


def deterministic_queue(load: float, seed: int, *, per_s: float = 20.0, length_s: float = 120.0):
    """(when each request came, how long it took) of an M/D/1 queue that begins empty, by Lindley's recursion."""
    dice = np.random.default_rng(seed)
    arrived_s = np.cumsum(dice.exponential(1 / per_s, int(2 * per_s * length_s)))
    arrived_s = arrived_s[arrived_s < length_s]
    service_s, waited_s, waits = load / per_s, 0.0, []
    for gap_s in np.diff(arrived_s, prepend=0.0):
        waited_s = max(0.0, waited_s + (service_s if waits else 0.0) - gap_s)
        waits.append(waited_s)
    return arrived_s, np.array(waits) + service_s


@pytest.mark.parametrize("load, low, high", [(0.5, 0, 2), (0.9, 0, 4), (1.1, 48, 50)])
def test_a_queue_beyond_its_capacity_drifts_and_one_below_it_does_not(load, low, high):
    found = [of_values(*deterministic_queue(load, seed), length_s=120.0).verdict for seed in range(50)]
    assert low <= found.count(Steady.DRIFTING) <= high
