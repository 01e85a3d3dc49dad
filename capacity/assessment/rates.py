"""Requests a minute of the mix, from cells that each ran one class.

A cell of one class measures how many requests of that class succeed a minute, when only they are sent. Serving a mix
with weights w takes, for one request, sum(w_c / x_c) minutes, so the mix runs at the weighted harmonic combination

    rate = 1 / sum(w_c / x_c),   weights normalised to 1.

One class at zero makes the rate zero; one class without a measured cell leaves it unknown. Where the mix itself was
measured, its own cells are taken instead.

The interval is the wider of two: the Wilson interval of the share of good requests, and, over two or more repeats, mean
+- t x s / sqrt(k). It is per class; the combination of lower ends is the lower end, so the result is wider than 95 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

from benchmarks.engine.summary_types import CellSummary
from benchmarks.stats.student import t_quantile
from capacity.assessment.facts import MEASURED, MIXED, CellFact
from capacity.assessment.verdict import Rate

PER_MINUTE = 60.0

SUCCESS = "Successful means complete, valid and inside every limit of its class."
WORDS = (
    f"{SUCCESS} The rate is that of the request mix: each class was measured alone, and the classes are combined as "
    "1 ÷ sum(weight ÷ rate of the class), so a slow class counts by the time it takes."
)
ONCE = "Measured once, so the interval holds the share of good requests and not the spread between runs."
MIX_WORDS = f"{SUCCESS} The rate was measured on the request mix itself."


def harmonic(rates: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    """Rate of the mix in the unit of `rates`; None when a class with weight has no rate."""
    total = sum(weights.get(name, 0.0) for name in rates)
    if total <= 0 or any(rate is None for rate in rates.values()):
        return None
    known = {name: rate for name, rate in rates.items() if rate is not None and weights.get(name, 0.0) > 0}
    if any(rate <= 0 for rate in known.values()):
        return 0.0
    return 1.0 / sum(weights[name] / total / rate for name, rate in known.items())


def summaries(cells: Sequence[CellFact], class_name: str) -> list[CellSummary]:
    """Summaries of the finished cells of one class (or of the mix)."""
    return [c.summary for c in cells if c.class_name == class_name and c.status == MEASURED and c.summary is not None]


def good_rate(found: Sequence[CellSummary]) -> Rate:
    """Successful requests a minute over the repeats of one kind of cell."""
    opened = [s for s in found if s.good_per_s is not None]  # a window that never opened has no rate, not a rate of 0
    per_s = [(s.good_per_s or 0.0, s.window_s) for s in opened]
    seconds = sum(window_s for _, window_s in per_s)
    if seconds <= 0:
        return Rate()
    value = sum(rate * window_s for rate, window_s in per_s) / seconds
    low, high = _wilson(opened, value)
    spread = spread_of([rate for rate, _ in per_s])
    if spread is not None:
        low, high = min(low, value - spread), max(high, value + spread)
    return Rate(value=value * PER_MINUTE, lower=max(low, 0.0) * PER_MINUTE, upper=high * PER_MINUTE)


def completed_rate(found: Sequence[CellSummary]) -> float | None:
    per_s = [(s.completed_per_s, s.window_s) for s in found if s.completed_per_s is not None]
    seconds = sum(window_s for _, window_s in per_s)
    return PER_MINUTE * sum(rate * window_s for rate, window_s in per_s) / seconds if seconds > 0 else None


def mix_good(cells: Sequence[CellFact], class_names: Sequence[str], weights: Mapping[str, float]) -> Rate:
    """Successful requests a minute of the mix at one setting."""
    if MIXED in class_names:
        return good_rate(summaries(cells, MIXED))
    parts = {name: good_rate(summaries(cells, name)) for name in class_names}
    return Rate(
        value=harmonic({name: rate.value for name, rate in parts.items()}, weights),
        lower=harmonic({name: rate.lower for name, rate in parts.items()}, weights),
        upper=harmonic({name: rate.upper for name, rate in parts.items()}, weights),
    )


def mix_completed(cells: Sequence[CellFact], class_names: Sequence[str], weights: Mapping[str, float]) -> float | None:
    """Completed requests a minute of the mix, successful or not."""
    if MIXED in class_names:
        return completed_rate(summaries(cells, MIXED))
    return harmonic({name: completed_rate(summaries(cells, name)) for name in class_names}, weights)


def _wilson(found: Sequence[CellSummary], value: float) -> tuple[float, float]:
    hits = sum(c.good.hits for s in found for c in s.classes)
    n = sum(c.good.n for s in found for c in s.classes)
    if n == 0:
        return 0.0, value
    share, z = hits / n, 1.959964
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # The rate at which requests were issued is known; what varies is the share of them that is good.
    issued = value / share if hits else n / sum(s.window_s for s in found)
    return issued * max(centre - half, 0.0), max(issued * min(centre + half, 1.0), value)


def spread_of(rates: Sequence[float]) -> float | None:
    """Half the 95 % interval of the mean of k repeats, t x s / sqrt(k); None for one."""
    k = len(rates)
    if k < 2:
        return None
    mean = sum(rates) / k
    deviation = sqrt(sum((rate - mean) ** 2 for rate in rates) / (k - 1))
    return t_quantile(k - 1, 0.975) * deviation / sqrt(k)
