"""Shares with their denominators, and the Wilson score interval (Wilson 1927)."""

from __future__ import annotations

import math

from benchmarks.stats.estimates import Share

Z_95 = 1.959963984540054  # 97.5 % point of the standard normal distribution


def wilson(hits: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """(lower, upper) of the Wilson score interval for `hits` of `n`, n >= 1; `z` is the normal point of each side."""
    value = hits / n
    z2 = z * z
    centre = (value + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(value * (1 - value) / n + z2 / (4 * n * n))
    lower = 0.0 if hits == 0 else max(0.0, centre - half)
    return lower, 1.0 if hits == n else min(1.0, centre + half)


def share(hits: int, n: int) -> Share:
    """`hits` of `n` with the two-sided 95 % Wilson interval; everything None when n is 0."""
    if not 0 <= hits <= n:
        raise ValueError(f"hits must lie between 0 and n: {hits=} {n=}")
    if n == 0:
        return Share(hits=0, n=0)
    lower, upper = wilson(hits, n)
    return Share(hits=hits, n=n, value=hits / n, lower=lower, upper=upper)
