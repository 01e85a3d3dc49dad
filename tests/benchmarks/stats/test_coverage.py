"""Coverage by simulation: bounds hold the truth as often as they say, for independent requests and for those of a queue.

Seeded, so that each figure is the same on every machine; what a simulation can miss by is stated beside it.
"""

from __future__ import annotations

import math
import random
from statistics import NormalDist

import numpy as np
import pytest

from benchmarks.simulator.model import Engine
from benchmarks.simulator.profiles import DEMO
from benchmarks.stats.pools import pool, pooled
from benchmarks.stats.quantiles import lower_rank, upper_rank
from benchmarks.stats.shares import wilson

POINT = 0.01
Z = NormalDist()


def binomial(n: int, p: float) -> np.ndarray:
    """P(X = k) for k = 0 ... n."""
    return np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])


def lognormal(dice: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.exp(0.8 * dice.normal(size=shape))


def bimodal(dice: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Nine in ten near 1 s, one in ten near 10 s: short answers and long ones in one class."""
    slow = dice.random(shape) < 0.1
    return np.where(slow, 10.0, 1.0) * np.exp(0.2 * dice.normal(size=shape))


def bimodal_quantile(q: float) -> float:
    low, high = 1e-3, 1e3
    for _ in range(80):
        middle = math.sqrt(low * high)
        below = 0.9 * Z.cdf(math.log(middle) / 0.2) + 0.1 * Z.cdf(math.log(middle / 10) / 0.2)
        low, high = (middle, high) if below < q else (low, middle)
    return low


LAWS = {
    "lognormal": (lognormal, lambda q: math.exp(0.8 * Z.inv_cdf(q))),
    "bimodal": (bimodal, bimodal_quantile),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [60, 150, 300])
def test_order_statistic_bounds_cover_as_the_binomial_law_says_and_never_under_94_percent(law, n):
    """10,000 samples: a coverage of 95 % is seen to 0.2 points."""
    draw, truth_of = LAWS[law]
    samples = np.sort(draw(np.random.default_rng(n), (10_000, n)), axis=1)
    for q in (0.5, 0.95, 0.99):
        truth, law_of_below = truth_of(q), binomial(n, q)
        low, high = lower_rank(n, q, 0.025), upper_rank(n, q, 0.025)
        above_low = np.ones(len(samples), dtype=bool) if low is None else samples[:, low - 1] <= truth
        below_high = np.ones(len(samples), dtype=bool) if high is None else samples[:, high - 1] >= truth
        exact = law_of_below[0 if low is None else low : n + 1 if high is None else high].sum()
        covered = (above_low & below_high).mean()
        assert covered >= 0.94
        assert covered == pytest.approx(exact, abs=POINT)


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("p", [0.5, 0.9, 0.95, 0.99])
def test_wilson_covers_as_the_exact_calculation_says(n, p):
    ends = np.array([wilson(k, n) for k in range(n + 1)])
    holds = (ends[:, 0] <= p) & (p <= ends[:, 1])
    hits = np.random.default_rng(n).binomial(n, p, 20_000)
    assert holds[hits].mean() == pytest.approx(binomial(n, p) @ holds, abs=POINT)


# ── requests that are not independent ──────────────────────────────────────────────────────────────────────────────


def covered(grids: np.ndarray, truth: float, q: float = 0.95) -> tuple[float, float]:
    """(share of grids whose one-sided 95 % bound is not below the truth, mean n_eff); shape (grids, repeats, n). A bound
    that does not exist yet claims nothing."""
    found = [pooled([pool(window, None) for window in repeats], q) for repeats in grids]
    kept = [one.estimate.bound is None or one.estimate.bound >= truth for one in found]
    return float(np.mean(kept)), float(np.mean([one.n_effective for one in found]))


def autoregressive(dice: np.random.Generator, shape: tuple[int, ...], r: float) -> np.ndarray:
    """Standard normal, with lag-1 correlation r along the last axis."""
    steps = dice.normal(size=shape)
    for i in range(1, shape[-1]):
        steps[..., i] = r * steps[..., i - 1] + math.sqrt(1 - r * r) * steps[..., i]
    return steps


@pytest.mark.parametrize(("r", "repeats", "n"), [(0.0, 3, 150), (0.5, 3, 150), (0.8, 3, 150), (0.5, 5, 60)])
def test_the_bound_covers_correlated_windows_whose_runs_differ_by_a_tenth(r, repeats, n):
    """A plain bound over all of them as if independent covers 71 to 90 %."""
    dice = np.random.default_rng(17)
    runs = 0.1 * dice.normal(size=(250, repeats, 1))
    windows = np.exp(0.5 * autoregressive(dice, (250, repeats, n), r) + runs)
    share, n_eff = covered(windows, math.exp(Z.inv_cdf(0.95) * math.hypot(0.5, 0.1)))
    assert share >= 0.90
    assert n_eff < repeats * n


def poisson_queue(load: float, grids: int, n: int) -> np.ndarray:
    """End-to-end times of (grids, 3, n) requests at a server of four, arrivals at random, service lognormal; each window is
    a run of its own after 600 requests of warm-up."""
    dice = np.random.default_rng(3)
    runs, warm = grids * 3, 600
    free, now = np.zeros((runs, 4)), np.zeros(runs)
    times = np.empty((runs, n))
    each = np.arange(runs)
    for i in range(warm + n):
        now += dice.exponential(math.exp(0.125) / (4 * load), runs)
        first = free.argmin(axis=1)
        ends = np.maximum(now, free[each, first]) + np.exp(0.5 * dice.normal(size=runs))
        free[each, first] = ends
        times[:, max(0, i - warm)] = ends - now
    return times.reshape(grids, 3, n)


@pytest.mark.parametrize("load", [0.7, 0.8, 0.9])
def test_the_bound_covers_windows_of_a_queue_that_remembers(load):
    """By the lag-1 correlation alone it covers 50 to 79 % at 80 to 95 % load."""
    windows = poisson_queue(load, 250, 150)
    share, _ = covered(windows, float(np.quantile(windows, 0.95, method="inverted_cdf")))
    assert share >= 0.90


def simulated_runtime(in_flight: int, requests: int) -> np.ndarray:
    """End-to-end times in the order of issue of a closed loop on the simulated runtime's model, four sequences at once."""
    dice, now = random.Random(5), 0.0
    engine = Engine(DEMO, active_sequences=4, dice=dice)
    sent: list[float] = []
    took: dict[int, float] = {}

    def send() -> None:
        engine.submit(len(sent), dice.randint(50, 400), max(2, int(dice.lognormvariate(1.6, 0.6))), now_s=now)
        sent.append(now)

    for _ in range(in_flight):
        send()
    while len(took) < requests:
        now = engine.next_event_s or now
        for key in [token.key for token in engine.advance(now) if token.last]:
            took[key] = now - sent[key]
            send()
    return np.array([took[key] for key in range(requests) if key in took])


def test_the_bound_covers_windows_recorded_from_the_simulated_runtime():
    times = simulated_runtime(8, 9500)[400:]
    truth = float(np.quantile(times, 0.95, method="inverted_cdf"))
    windows = times[: len(times) // 300 * 300].reshape(3, -1, 100).transpose(1, 0, 2)  # repeats far apart in time
    share, n_eff = covered(windows, truth)
    assert len(windows) >= 30
    assert share >= 0.90
    assert n_eff <= 300


def test_too_few_requests_bound_nothing_and_say_how_many_more_they_need():
    dice = np.random.default_rng(1)
    found = [pooled([pool(lognormal(dice, (15,)), 60.0) for _ in range(3)], 0.95, limit_s=60.0) for _ in range(50)]
    assert all(one.estimate.bound is None and not one.holds and one.needs >= 14 for one in found)
