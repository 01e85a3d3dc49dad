"""A sample in whole microseconds, small enough to keep in every summary: ascending values with their counts, as bytes.

Each value is written as its distance from the one before, then how many there were of it, both in base 128 with the high bit
set on all but the last byte (LEB128). Up to EXACT_VALUES different values stand as they are; more are put into buckets of
at most 0.05 % and stand at the bucket's largest value, never below the truth. So a thousand requests take about 4 kB and a
million some 40 kB.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.stats import histograms

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

EXACT_VALUES = 1000
MOST_US = 2**32 - 1
US = 1e6
LOW_BITS, MORE = 0x7F, 0x80
MOST_BYTES = 5  # of 7 bits each: distances are below 2 ** 32, and so are counts


def pack(values_s: Floats) -> bytes:
    """Of values in seconds from 0 to MOST_US microseconds, any order, shape (n,)."""
    us = np.rint(values_s * US).astype(np.int64)
    values, counts = np.unique(us, return_counts=True)
    if len(values) > EXACT_VALUES:
        values, counts = _in_buckets(us)
    pairs = np.column_stack((np.diff(values, prepend=0), counts)).ravel()
    return _written(pairs)


def unpack(packed: bytes) -> tuple[Floats, Ints]:
    """(values in seconds, ascending; how many of each), both of shape (different values,). Raises ValueError for bytes that
    hold no such pairs."""
    numbers = _read(packed)
    if len(numbers) % 2:
        raise ValueError("a packed sample has a count for every value")
    return np.cumsum(numbers[0::2]) / US, numbers[1::2]


def _in_buckets(us: Ints) -> tuple[Ints, Ints]:
    found = histograms.count(us.astype(np.uint32))
    used = np.flatnonzero(found)
    tops = [histograms.ends_us(int(bucket), histograms.FINE) for bucket in used]
    return np.array(tops, dtype=np.int64), found[used]


def _written(numbers: Ints) -> bytes:
    groups = numbers[:, None] >> (7 * np.arange(MOST_BYTES))
    is_used = groups > 0
    is_used[:, 0] = True
    follows = np.zeros_like(is_used)
    follows[:, :-1] = is_used[:, 1:]
    octets = (groups & LOW_BITS) | np.where(follows, MORE, 0)
    return octets[is_used].astype(np.uint8).tobytes()


def _read(packed: bytes) -> Ints:
    octets = np.frombuffer(packed, dtype=np.uint8).astype(np.int64)
    if not octets.size:
        return octets
    is_last = octets < MORE
    if not is_last[-1]:
        raise ValueError("a packed sample ends within a number")
    starts = np.concatenate(([0], np.flatnonzero(is_last)[:-1] + 1))
    place = np.arange(len(octets)) - np.repeat(starts, np.diff(np.append(starts, len(octets))))
    if place.max() >= MOST_BYTES:
        raise ValueError("a packed sample holds a number that is too long")
    return np.asarray(np.add.reduceat((octets & LOW_BITS) << (7 * place), starts), dtype=np.int64)
