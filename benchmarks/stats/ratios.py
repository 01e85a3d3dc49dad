"""Differences and ratios of a measure at two settings, with intervals from the spread of the repeats.

Repeats are few, so every interval is Student's t over the repeats' own values; nothing here averages percentiles of
requests into one percentile. Settings that ran in the same repeats are paired, which takes away what the whole repeat did
to both; those of different grids are not (Welch 1947). One repeat has no spread: then only the counts can say something
(two Poisson counts, given their sum, are binomial: Przyborowski and Wilenski 1940), or nothing can and both bounds are
None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, variance

from benchmarks.stats.estimates import Interval
from benchmarks.stats.shares import wilson
from benchmarks.stats.student import t_quantile

EACH_SIDE = 0.025  # two-sided 95 %; a gate that is judged with one bound alone asks for 0.05
PAIRED, BY_COUNTS, WELCH = "paired repeats", "counts of one repeat", "repeats of both"
ONE_REPEAT, UNCERTAIN, NO_VALUE = "one repeat, so no interval", "the bounds of both", "nothing to compare"


def paired_ratio(
    over: Sequence[float],
    under: Sequence[float],
    *,
    counts: tuple[int, int] | None = None,
    each_side: float = EACH_SIDE,
) -> Interval:
    """`over` / `under`, both of shape (k,) with one value >= 0 for each repeat, in the same order of repeats.

    The geometric mean of the repeats' ratios, so that turning it round turns the interval round; where a repeat of `over`
    is 0, their plain mean. `counts` are the requests counted in each, of the one repeat: used where k = 1. Nothing is known
    where a repeat of `under` is 0. Raises ValueError for lengths that differ and for values that are no rates.
    """
    if len(over) != len(under):
        raise ValueError(f"paired repeats are as many on both sides: {len(over)} and {len(under)}")
    if any(not (math.isfinite(v) and v >= 0) for v in (*over, *under)):
        raise ValueError("a ratio of rates takes finite values from 0 on")
    k = len(over)
    if not k or min(under) == 0:
        return Interval(n=k, how=NO_VALUE)
    ratios = [a / b for a, b in zip(over, under, strict=True)]
    if k == 1:
        return _ratio_of_counts(ratios[0], counts, each_side)
    t = t_quantile(k - 1, 1 - each_side)
    if min(ratios) > 0:
        logs = [math.log(ratio) for ratio in ratios]
        middle, half = fmean(logs), t * math.sqrt(variance(logs) / k)
        return Interval(
            value=math.exp(middle), lower=math.exp(middle - half), upper=_exp(middle + half), n=k, how=PAIRED
        )
    middle, half = fmean(ratios), t * math.sqrt(variance(ratios) / k)
    return Interval(value=middle, lower=max(0.0, middle - half), upper=middle + half, n=k, how=PAIRED)


def difference(new: Sequence[float], old: Sequence[float], *, each_side: float = EACH_SIDE) -> Interval:
    """Mean of `new` - mean of `old`, one value for each repeat, not paired. `n` is the smaller number of repeats.

    Infinite where one side is (a percentile among failures), with no bounds; None where both are.
    """
    k = min(len(new), len(old))
    if not k:
        return Interval(n=0, how=NO_VALUE)
    value = fmean(new) - fmean(old)
    if not math.isfinite(value):
        return Interval(value=None if math.isnan(value) else value, n=k, how=NO_VALUE)
    half = _welch(new, old, each_side)
    if half is None:
        return Interval(value=value, n=k, how=ONE_REPEAT)
    return Interval(value=value, lower=value - half, upper=value + half, n=k, how=WELCH)


def relative_change(new: Sequence[float], old: Sequence[float], *, each_side: float = EACH_SIDE) -> Interval:
    """`new` / `old` - 1 as a share: 0.1 is 10 % more. By logarithms where every value is above 0, so that the interval
    never passes -1; else the difference as a share of the mean of `old`, None where that is 0."""
    k = min(len(new), len(old))
    if k and all(0 < v < math.inf for v in (*new, *old)):
        found = difference([math.log(v) for v in new], [math.log(v) for v in old], each_side=each_side)
        lower, value, upper = (None if v is None else _exp(v) - 1 for v in (found.lower, found.value, found.upper))
        return Interval(value=value, lower=lower, upper=upper, n=k, how=found.how)
    apart = difference(new, old, each_side=each_side)
    base = fmean(old) if old else 0.0
    if apart.value is None or not 0 < base < math.inf:
        return Interval(n=k, how=NO_VALUE)
    lower, upper = (None if v is None else v / base for v in (apart.lower, apart.upper))
    lower = None if lower is None else max(-1.0, lower)
    return Interval(value=apart.value / base, lower=lower, upper=upper, n=k, how=apart.how)


def of_bounds(new: Interval, old: Interval) -> Interval:
    """`new` - `old` where each has bounds of its own (of one repeat's percentile, say): their distances to the bounds add
    as squares (Zou and Donner 2008). A bound that is missing or infinite leaves that side unknown."""
    n = min(new.n, old.n)
    if new.value is None or old.value is None or not math.isfinite(new.value - old.value):
        return Interval(n=n, how=NO_VALUE)
    value = new.value - old.value
    down, up = _apart(new, old), _apart(old, new)
    lower, upper = None if down is None else value - down, None if up is None else value + up
    return Interval(value=value, lower=lower, upper=upper, n=n, how=UNCERTAIN)


def clear(interval: Interval, at: float = 0.0) -> bool:
    """Whether the interval lies wholly on one side of `at` (0 for a difference, 1 for a ratio). Without bounds it does
    not: no clear difference."""
    above = interval.lower is not None and interval.lower > at
    return above or (interval.upper is not None and interval.upper < at)


def _ratio_of_counts(value: float, counts: tuple[int, int] | None, each_side: float) -> Interval:
    """Given the sum, the count above is binomial with odds equal to the ratio of the rates, for windows as long as each
    other; others shift it by the ratio of their lengths. Completions of a closed loop are more even than Poisson's law,
    so the interval is rather too wide."""
    if counts is None or sum(counts) == 0:
        return Interval(value=value, n=1, how=ONE_REPEAT)
    above, below = counts
    lengths = value * below / above if above and below and value else 1.0
    low, high = wilson(above, above + below, NormalDist().inv_cdf(1 - each_side))
    upper = None if high >= 1 else lengths * high / (1 - high)
    return Interval(value=value, lower=lengths * low / (1 - low), upper=upper, n=1, how=BY_COUNTS)


def _welch(new: Sequence[float], old: Sequence[float], each_side: float) -> float | None:
    """Half the interval's width, with Welch and Satterthwaite's degrees of freedom; None where a side ran once."""
    if min(len(new), len(old)) < 2:
        return None
    parts = [(variance(side) / len(side), len(side) - 1) for side in (new, old)]
    total = sum(part for part, _ in parts)
    if total == 0:
        return 0.0
    df = 1 / sum((part / total) ** 2 / k for part, k in parts)
    return t_quantile(max(1.0, df), 1 - each_side) * math.sqrt(total)


def _apart(falls: Interval, rises: Interval) -> float | None:
    if falls.lower is None or rises.upper is None or math.isinf(rises.upper):
        return None
    assert falls.value is not None
    assert rises.value is not None
    return math.hypot(falls.value - falls.lower, rises.upper - rises.value)


def _exp(value: float) -> float:
    """Without the error of the largest numbers: two repeats that differ much have a bound beyond every number."""
    return math.exp(value) if value < 700 else math.inf
