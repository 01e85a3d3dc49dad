"""Histograms of whole microseconds in buckets of equal ratio: they merge by adding, and cost the same for a thousand
values as for a billion.

A value's bucket is the leading bits of its float32 form: the exponent and some bits of the mantissa. FINE keeps 11 bits
(at most 0.05 % wide, and exact below 4096 us), COARSE 3 (eight buckets to each doubling), for keeping and for drawing.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from benchmarks.stats.quantiles import nearest_rank

Values = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int64]

FINE, COARSE = 11, 3
FLOAT_BITS, BIAS = 23, 127
DOUBLINGS = 32
WHOLE_BITS = 24  # a float32 holds so many; the others of a longer number are cut, so that it is not rounded up
CUT = np.uint32(0xFFFFFF00)
AT_ONCE = 1_000_000


def bucket_count(bits: int) -> int:
    """One for zero, then 2 ** bits for each doubling from 1 on."""
    return 1 + (DOUBLINGS << bits)


def count(values: Values, bits: int = FINE) -> Counts:
    """How many values lie in each bucket, shape (bucket_count(bits),). Goes through them in pieces."""
    found = np.zeros(bucket_count(bits), dtype=np.int64)
    for start in range(0, len(values), AT_ONCE):
        part = values[start : start + AT_ONCE]
        part = np.where(part >> WHOLE_BITS, part & CUT, part).astype(np.float32)
        places = (part.view(np.uint32) >> (FLOAT_BITS - bits)).astype(np.int64) - (BIAS << bits) + 1
        found += np.bincount(np.maximum(places, 0), minlength=len(found))
    return found


def coarser(counts: Counts, bits: int = FINE, to: int = COARSE) -> Counts:
    """The same values in wider buckets."""
    return np.concatenate((counts[:1], counts[1:].reshape(-1, 1 << (bits - to)).sum(axis=1)))


def begins_us(bucket: int, bits: int) -> int:
    """The smallest whole value that can be in the bucket or above it."""
    if bucket == 0:
        return 0
    doubling, part = divmod(bucket - 1, 1 << bits)
    return math.ceil(math.ldexp(1 + part / (1 << bits), doubling))


def ends_us(bucket: int, bits: int) -> int:
    """The largest whole value that is in the bucket, or its begin where none is."""
    return max(begins_us(bucket, bits), begins_us(bucket + 1, bits) - 1)


def quantile_us(counts: Counts, q: float, bits: int = FINE) -> int | None:
    """The largest whole value of the bucket that holds the nearest rank: never below the exact quantile, and above it
    by at most a bucket's width. None of no values."""
    total = int(counts.sum())
    if not total:
        return None
    return ends_us(int(np.searchsorted(np.cumsum(counts), nearest_rank(total, q))), bits)


def sparse(counts: Counts, bits: int = COARSE) -> tuple[tuple[int, int], ...]:
    """(smallest value of the bucket in microseconds, how many) of every bucket in use, ascending."""
    return tuple((begins_us(int(bucket), bits), int(counts[bucket])) for bucket in np.flatnonzero(counts))


def merged(*parts: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Sparse histograms of the same width as one."""
    found: dict[int, int] = {}
    for part in parts:
        for begin, number in part:
            found[begin] = found.get(begin, 0) + number
    return tuple(sorted(found.items()))
