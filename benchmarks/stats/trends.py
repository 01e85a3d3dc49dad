"""How surely a measure rises: the bounds of Theil and Sen's slope, by exact order statistics (Sen 1968).

Take the true slope away, and blocks whose errors are independent and alike in law stand in any order with the same
chance. So the count of pairs whose own slope lies below the true one is the count of inversions of a random permutation,
whose law is exact (Kendall's, from Mahonian numbers): a bound is the r-th smallest slope, with the largest r that is
still sure enough.

Waiting times of neighbouring requests are anything but independent, so medians of blocks are judged, not requests.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ALPHA = 0.05
MOST_BLOCKS = 16
LEAST_PER_BLOCK = 5


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """The slope in units per second, and its one-sided 95 % bounds; None where `blocks` are too few for one."""

    slope: float | None
    lower: float | None
    upper: float | None
    blocks: int


def trend(at_s: Floats, values: Floats) -> Trend:
    """Of finite `values` that came about at `at_s`, both of shape (n,), any order."""
    at_s, values = _medians(at_s, values)
    slopes = _slopes(at_s, values)
    if not slopes.size:
        return Trend(slope=None, lower=None, upper=None, blocks=len(at_s))
    rank, slope = lower_rank(len(at_s)), float(np.median(slopes))
    if rank is None or slopes.size < len(at_s) * (len(at_s) - 1) // 2:
        return Trend(slope=slope, lower=None, upper=None, blocks=len(at_s))
    return Trend(slope=slope, lower=float(slopes[rank - 1]), upper=float(slopes[-rank]), blocks=len(at_s))


@lru_cache(maxsize=256)
def lower_rank(n: int, alpha: float = ALPHA) -> int | None:
    """The largest rank, from 1, whose slope among all pairs of n blocks lies at or below the true one with 1 - `alpha`;
    None where not even the smallest does (n below 4 at 5 %)."""
    below = np.flatnonzero(np.cumsum(_inversions(n)) <= alpha)
    return int(below[-1]) + 1 if below.size else None


def _inversions(n: int) -> Floats:
    """P(a random permutation of n has k inversions), shape (n (n - 1) / 2 + 1,)."""
    law = np.ones(1)
    for length in range(2, n + 1):
        law = np.convolve(law, np.full(length, 1 / length))
    return law


def _medians(at_s: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Of blocks of equal counts, in the order of time: at most MOST_BLOCKS, of LEAST_PER_BLOCK each at the least."""
    count = min(MOST_BLOCKS, len(at_s) // LEAST_PER_BLOCK)
    if count == 0:
        return np.zeros(0), np.zeros(0)
    order = np.argsort(at_s, kind="stable")
    parts = np.array_split(order, count)
    return np.array([np.median(at_s[part]) for part in parts]), np.array([np.median(values[part]) for part in parts])


def _slopes(at_s: Floats, values: Floats) -> Floats:
    """Of all pairs of different times, ascending."""
    later, earlier = np.tril_indices(len(at_s), k=-1)
    apart_s = at_s[later] - at_s[earlier]
    return np.sort((values[later] - values[earlier])[apart_s > 0] / apart_s[apart_s > 0])
