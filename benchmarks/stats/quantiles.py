"""Quantiles that know how much they may say: nearest rank, exact order-statistic bounds, and what is still needed.

A bound on the q-quantile is an order statistic chosen by the binomial law of the count of values below it (Hahn and
Meeker, *Statistical Intervals*, section 5.2). "The upper bound is under the limit" is then the same statement as the
gate "P(Binomial(n, 1 - q) <= misses) <= alpha", so the two cannot disagree. Infinite values are allowed: a failed
request has no finite time, and a quantile or bound that falls among failures is infinite.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from benchmarks.stats.estimates import Estimate, Tail

Floats = npt.NDArray[np.float64]

TWO_SIDED_ALPHA = 0.05
GATE_ALPHA = 0.05
# Guards ceil(q * n) against the last bit: 0.95 * 60 is 57.0, but other products land a hair above the whole number.
RANK_SLACK = 1e-9
MANY_MISSES = 200
REACH = 40.0  # standard deviations; beyond them a binomial's share is below 1e-300


def binomial_near_mean(n: int, p: float) -> tuple[int, Floats]:
    """(k, P(X = k), P(X = k + 1), ...) over all k that matter: those within REACH standard deviations of the mean.

    What lies outside is far below the last bit of any probability. By ratios from the middle, in logarithms, so that no
    factorial overflows and a million requests cost as little as a few thousand; 0 < p < 1.
    """
    spread = REACH * math.sqrt(n * p * (1 - p)) + REACH
    low, high = max(0, math.floor(n * p - spread)), min(n, math.ceil(n * p + spread))
    k = np.arange(low, high)
    steps = np.log((n - k) / (k + 1)) + (math.log(p) - math.log1p(-p))
    at_low = math.lgamma(n + 1) - math.lgamma(low + 1) - math.lgamma(n - low + 1)
    at_low += low * math.log(p) + (n - low) * math.log1p(-p)
    logs = at_low + np.concatenate(([0.0], np.cumsum(steps)))
    return low, np.asarray(np.exp(logs), dtype=np.float64)


def binomial_at_most(misses: int, n: int, p: float) -> float:
    """P(Binomial(n, p) <= misses); needs only `misses` + 1 terms, and of many misses those near the mean."""
    if misses >= n:
        return 1.0
    if misses >= MANY_MISSES:
        low, pmf = binomial_near_mean(n, p)
        return min(1.0, math.fsum(pmf[: max(0, misses - low + 1)]))
    logs = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
        for k in range(misses + 1)
    ]
    top = max(logs)
    return min(1.0, math.exp(top) * math.fsum(math.exp(value - top) for value in logs))


@lru_cache(maxsize=4096)
def needed_for_bound(q: float, misses: int = 0, alpha: float = GATE_ALPHA) -> int:
    """The smallest n with P(Binomial(n, 1 - q) <= misses) <= alpha: how many requests a gate at `q` takes."""
    if not 0 < q < 1 or not 0 < alpha < 1 or misses < 0:
        raise ValueError(f"q and alpha must lie between 0 and 1 and misses at or above 0: {q=} {alpha=} {misses=}")
    low, high = misses, misses + 1
    while binomial_at_most(misses, high, 1 - q) > alpha:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if binomial_at_most(misses, middle, 1 - q) > alpha:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=4096)
def upper_rank(n: int, q: float, alpha: float) -> int | None:
    """The smallest rank u (1-based) whose order statistic lies at or above the q-quantile with 1 - `alpha`, else
    None."""
    if n == 0:
        return None
    low, pmf = binomial_near_mean(n, q)
    at_least = np.cumsum(pmf[::-1])[::-1]  # at_least[i] = P(X >= low + i), summed from its small end
    ranks = low + np.flatnonzero(at_least <= alpha)
    ranks = ranks[ranks >= 1]
    return int(ranks[0]) if ranks.size else None


@lru_cache(maxsize=4096)
def lower_rank(n: int, q: float, alpha: float) -> int | None:
    """The largest rank whose order statistic lies at or below the q-quantile with confidence 1 - `alpha`, else None."""
    if n == 0:
        return None
    low, pmf = binomial_near_mean(n, q)
    below = low + np.flatnonzero(np.cumsum(pmf) <= alpha)  # P(X <= k) is small for these k
    below = below[below < n]
    return int(below[-1]) + 1 if below.size else None


def smallest_sample(q: float) -> int:
    """Below this n the nearest rank is just the maximum: 20 for p95, 100 for p99. A median may stand on one value."""
    return 1 if q <= 0.5 else math.ceil(1 / (1 - q) - RANK_SLACK)


def nearest_rank(n: int, q: float) -> int:
    """The 1-based rank of the q-quantile among n ordered values, n >= 1."""
    return max(1, math.ceil(q * n - RANK_SLACK))


def quantile(values: Floats, q: float) -> Estimate:
    """Nearest rank of `values` (finite or +inf, any order, shape (n,)) with its bounds. Raises ValueError on NaN or
    -inf."""
    return _of_ordered(_ordered(values), q)


def tail(values: Floats) -> Tail:
    """The three quantiles shown for every time."""
    ordered = _ordered(values)
    return Tail(p50=_of_ordered(ordered, 0.50), p95=_of_ordered(ordered, 0.95), p99=_of_ordered(ordered, 0.99))


def _ordered(values: Floats) -> Floats:
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if ordered.size and (np.isnan(ordered[-1]) or np.isneginf(ordered[0])):
        raise ValueError("a quantile takes finite values and +inf; leave unknown values out")
    return ordered


def _of_ordered(ordered: Floats, q: float) -> Estimate:
    n = int(ordered.size)

    def at(rank: int | None) -> float | None:
        return None if rank is None else float(ordered[rank - 1])

    return Estimate(
        q=q,
        n=n,
        value=at(nearest_rank(n, q)) if n >= smallest_sample(q) else None,
        lower=at(lower_rank(n, q, TWO_SIDED_ALPHA / 2)),
        upper=at(upper_rank(n, q, TWO_SIDED_ALPHA / 2)),
        bound=at(upper_rank(n, q, GATE_ALPHA)),
        needs=max(0, needed_for_bound(q) - n),
    )
