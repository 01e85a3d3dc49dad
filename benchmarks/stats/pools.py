"""What one cell keeps of a time so that repeats can be pooled, and the law of the pooled sample.

**Effective n.** Requests in one queue are not independent: a busy spell makes all of them slow together. n requests with the
lag-1 autocorrelation r in the order of issue are worth n (1 - r) / (1 + r) independent ones, as in a first-order process
(Bayley and Hammersley 1946), r clipped to 0 ... 0.95; repeats add up. A queue near its limit remembers for longer than its
lag-1 correlation tells, since service times hide it: a nominal 95 % bound over three windows of 300 covered 50 to 79 % at 80
to 95 % load by that rule alone. So all windows together are worth no more than n / inefficiency either: 1 + 2 x the sum of the
autocorrelations, as far as they stay positive in pairs (Geyer 1992, the initial positive sequence), over 1 - 2 m / n for m lags
summed, because a window's own mean takes m / n of its correlation away; its mean over the windows. That covers 94 % and more.
Both are of the ranks, with failures above every time (equal ones share their mean rank): an outlier or an infinite time cannot
hide or feign a correlation.

**Misses.** "The quantile is under the limit" holds when P(Binomial(n_eff, 1 - q) <= misses_eff) <= alpha, n_eff rounded down
and misses_eff = misses x n_eff / n rounded up: the share of misses stays, every rounding is against the claim, and one miss
stays at least one. That is the same statement as "the upper bound is under the limit" where the bound is the order statistic
of rank n x u / n_eff, rounded up, u being the rank among n_eff independent values.

**Repeats.** Two runs of the same cell differ by more than chance within each. So beside the bound by requests stands the
bound by repeats, mean + t(k - 1, 1 - alpha) s / sqrt(k) of the repeats' own quantiles, and the wider of the two is the
bound. One repeat has no spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.stats.estimates import Estimate
from benchmarks.stats.packed import MOST_US, US, pack, unpack
from benchmarks.stats.quantiles import (
    GATE_ALPHA,
    RANK_SLACK,
    TWO_SIDED_ALPHA,
    lower_rank,
    nearest_rank,
    needed_for_bound,
    smallest_sample,
    upper_rank,
)
from benchmarks.stats.student import t_quantile

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_CORRELATED = 0.95
LEAST_LEFT = 0.2  # of a correlation, where it lasts so long that the window's own mean hides most of it
LAST_BITS = 1e-9  # sums that are zero but for them, and may differ between versions of numpy
BY_REQUESTS, BY_REPEATS = "requests", "repeats"


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """One time of one class in one cell. `n` counts failed requests, `failed` are those without a finite time;
    `autocorrelation` is lag-1, of ranks, None where nothing varies, and `inefficiency` 1 + 2 x the sum of all; `over` counts
    those over `limit_s`, failures included, both None where no limit was set. `times` are the finite ones, packed."""

    n: int
    failed: int
    autocorrelation: float | None
    inefficiency: float = 1.0
    limit_s: float | None = None
    over: int | None = None
    times: bytes = b""


class Pooled(msgspec.Struct, frozen=True, kw_only=True):
    """One quantile of all repeats together, in seconds. `estimate` has the nearest rank of the pooled sample, and bounds that
    are the wider of those by requests and by repeats: two-sided 95 % as `lower` and `upper`, one-sided 1 - alpha as `bound`;
    a None bound does not exist yet, and `estimate.needs` says how many more requests would give one.

    `by` names which of the two `bound` is. `values` are the repeats' own nearest ranks. `holds` is the gate's answer, None
    without a limit; `misses` are the requests over it and `needs` how many more without a miss would prove it, 0 where more
    requests alone would not.
    """

    estimate: Estimate
    n_effective: int
    values: tuple[float, ...]
    by_requests: float | None
    by_repeats: float | None
    by: str
    misses: int | None = None
    is_over: bool | None = None
    holds: bool | None = None
    needs: int = 0

    @property
    def spread_share(self) -> float | None:
        """Standard deviation of the repeats' own values as a share of their mean; None of one, or among failures."""
        if len(self.values) < 2 or not all(map(math.isfinite, self.values)) or fmean(self.values) <= 0:
            return None
        return _stdev(self.values) / fmean(self.values)


def pool(values_s: Floats, limit_s: float | None) -> Pool:
    """Of times in seconds in the order of issue, shape (n,); a failed request is infinite."""
    finite = values_s[values_s * US <= MOST_US]
    correlations = autocorrelations(values_s)
    return Pool(
        n=len(values_s),
        failed=len(values_s) - len(finite),
        autocorrelation=None if correlations is None else float(correlations[1]),
        inefficiency=1.0 if correlations is None else inefficiency(correlations),
        limit_s=limit_s,
        over=None if limit_s is None else int((values_s > limit_s).sum()),
        times=pack(finite),
    )


def autocorrelations(values: Floats) -> Floats | None:
    """Of the ranks of `values` in their order, by lag from 0, shape (n,); None of fewer than 3 or where all are equal."""
    n = len(values)
    if n < 3:
        return None
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(counts) == 1:
        return None
    middle = np.cumsum(counts) - counts / 2  # the mean rank of equal values, less 1/2
    spectrum = np.fft.rfft(middle[place] - n / 2, 2 * n)
    products = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, 2 * n)[:n]
    return np.asarray(products / products[0], dtype=np.float64)


def inefficiency(correlations: Floats) -> float:
    """How many requests with these autocorrelations are worth one independent one."""
    n, last = len(correlations), (len(correlations) - 1) // 2 * 2
    pairs = correlations[1:last:2] + correlations[2 : last + 1 : 2]
    ends = np.flatnonzero(pairs <= LAST_BITS)
    summed = int(ends[0]) if ends.size else len(pairs)
    return float(1 + 2 * pairs[:summed].sum()) / max(LEAST_LEFT, 1 - 2 * (2 * summed) / n)


def effective(n: int, autocorrelation: float | None) -> float:
    """How many independent requests `n` are worth by their lag-1 autocorrelation alone."""
    r = min(max(autocorrelation or 0.0, 0.0), MOST_CORRELATED)
    return n * (1 - r) / (1 + r)


def worth(pools: Sequence[Pool]) -> float:
    """How many independent requests all of them are worth. The inefficiency is their mean: one window that happened to look
    calm would else count for more than the others together."""
    n = sum(one.n for one in pools)
    if not n:
        return 0.0
    mean = math.fsum(one.n * one.inefficiency for one in pools) / n
    return min(math.fsum(effective(one.n, one.autocorrelation) for one in pools), n / mean)


def pooled(pools: Sequence[Pool], q: float, *, limit_s: float | None = None, alpha: float = GATE_ALPHA) -> Pooled:
    """The q-quantile of all repeats, one Pool each. Without any request everything is unknown."""
    used = tuple(one for one in pools if one.n)
    n, n_eff = sum(one.n for one in used), math.floor(worth(used) + RANK_SLACK)
    misses = None if limit_s is None else tuple(_over(one, limit_s) for one in used)

    def at(rank: int | None) -> float | None:
        return None if rank is None else _at(used, _among(rank, n, n_eff), limit_s, misses)

    own = tuple(
        _at((one,), nearest_rank(one.n, q), limit_s, None if misses is None else misses[i : i + 1])
        for i, one in enumerate(used)
    )
    by_requests = at(upper_rank(n_eff, q, alpha))
    by_repeats, low_repeats, high_repeats = _by_repeats(own, alpha)
    bound = _wider(by_requests, by_repeats)
    value = _at(used, nearest_rank(n, q), limit_s, misses) if n >= max(1, smallest_sample(q)) else None
    low, high = at(lower_rank(n_eff, q, TWO_SIDED_ALPHA / 2)), at(upper_rank(n_eff, q, TWO_SIDED_ALPHA / 2))
    estimate = Estimate(
        q=q,
        n=n,
        value=value,
        lower=low if low is None or low_repeats is None else min(low, max(0.0, low_repeats)),
        upper=_wider(high, high_repeats),
        bound=bound,
        needs=_raw(needed_for_bound(q, 0, alpha) - n_eff, n, n_eff),
    )
    found = Pooled(
        estimate=estimate,
        n_effective=n_eff,
        values=own,
        by_requests=by_requests,
        by_repeats=by_repeats,
        by=BY_REPEATS if bound is not None and bound != by_requests else BY_REQUESTS,
        misses=None if misses is None else sum(misses),
    )
    return found if limit_s is None or misses is None or not n else _judged(found, limit_s, alpha)


def _judged(found: Pooled, limit_s: float, alpha: float) -> Pooled:
    estimate, misses, n_eff = found.estimate, found.misses or 0, found.n_effective
    n, bound = estimate.n, estimate.bound
    scaled = math.ceil(misses * n_eff / n - RANK_SLACK)
    is_over = None if estimate.value is None else estimate.value > limit_s
    holds = bound is not None and bound <= limit_s and not is_over
    is_settled = is_over or (found.by_requests is not None and found.by_requests <= limit_s)
    needs = 0 if is_settled else _raw(needed_for_bound(estimate.q, scaled, alpha) - n_eff, n, n_eff)
    return msgspec.structs.replace(found, is_over=is_over, holds=holds, needs=needs)


@lru_cache(maxsize=256)
def _merged(pools: tuple[Pool, ...]) -> tuple[Floats, Ints]:
    """(finite times ascending, how many lie at or below each); kept, for a page asks for many quantiles of the same."""
    parts = [unpack(one.times) for one in pools]
    if not parts:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    values, counts = np.concatenate([v for v, _ in parts]), np.concatenate([c for _, c in parts])
    order = np.argsort(values, kind="stable")
    return values[order], np.cumsum(counts[order])


def _at(pools: tuple[Pool, ...], rank: int, limit_s: float | None, misses: tuple[int, ...] | None) -> float:
    """The time of that rank among all of them. Times are kept to a microsecond, or to 0.05 % where there are many; on which
    side of the limit one lies is known exactly, from the count of `misses`."""
    values, upto = _merged(pools)
    place = int(np.searchsorted(upto, rank))
    value = float(values[place]) if place < len(values) else math.inf
    if limit_s is None or misses is None:
        return value
    if rank <= sum(one.n for one in pools) - sum(misses):
        return min(value, limit_s)
    return value if value > limit_s else math.nextafter(limit_s, math.inf)


def _among(rank: int, n: int, n_eff: int) -> int:
    """The rank among n that stands where `rank` stands among n_eff, rounded up."""
    return min(n, -(-rank * n // n_eff))


def _over(one: Pool, limit_s: float) -> int:
    """Exactly where it was counted against this limit, else from the kept times, which are never below the truth by more
    than half a microsecond."""
    if one.over is not None and one.limit_s == limit_s:
        return one.over
    values, upto = _merged((one,))
    inside = int(np.searchsorted(values, limit_s, side="right"))
    return one.n - (int(upto[inside - 1]) if inside else 0)


def _by_repeats(values: Sequence[float], alpha: float) -> tuple[float | None, float | None, float | None]:
    """(one-sided upper bound, two-sided lower, two-sided upper) of the mean of the repeats' own values."""
    k = len(values)
    if k < 2:
        return None, None, None
    if not all(map(math.isfinite, values)):
        return math.inf, None, math.inf
    mean, error = fmean(values), _stdev(values) / math.sqrt(k)
    half = t_quantile(k - 1, 1 - TWO_SIDED_ALPHA / 2) * error
    return mean + t_quantile(k - 1, 1 - alpha) * error, mean - half, mean + half


def _stdev(values: Sequence[float]) -> float:
    """That of the statistics module reckons in fractions, which takes a page's worth of time."""
    mean = fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _wider(by_requests: float | None, by_repeats: float | None) -> float | None:
    """No bound without one by requests: the spread of few repeats alone does not say enough."""
    if by_requests is None or by_repeats is None:
        return by_requests
    return max(by_requests, by_repeats)


def _raw(missing: int, n: int, n_eff: int) -> int:
    """How many requests like the seen ones `missing` independent ones are."""
    return max(0, math.ceil(missing * n / n_eff - RANK_SLACK)) if n_eff else max(0, missing)
