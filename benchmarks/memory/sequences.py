"""From a KV budget to sequences: how many if all were long, and how many by the workload's own lengths. Never by the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

OVERFLOW_SHARE = 0.001
"""The sequences that a workload's lengths let fit: their sum exceeds the pool in at most this share of draws."""
MOST_SEQUENCES = 4096
BINS = 256


@dataclass(frozen=True, slots=True)
class Fit:
    """`all_long`: every sequence at the longest. `by_lengths`: independent draws of whole requests, each at its full length,
    which is more than it holds for most of its time; None where no lengths are known."""

    all_long: int
    by_lengths: int | None


def fit(pool_tokens: int, longest_tokens: int, lengths: Sequence[int], weights: Sequence[float] = ()) -> Fit:
    """`lengths` are whole requests, prompt and answer, in tokens, equally often or by weight. At most 4,096 sequences."""
    all_long = min(MOST_SEQUENCES, pool_tokens // max(1, longest_tokens))
    if not lengths or max(lengths) < 1:
        return Fit(all_long, None)
    shares, step = _shares(lengths, weights)
    bins = pool_tokens // step
    least, most = 0, min(MOST_SEQUENCES, bins)
    while least < most:
        middle = (least + most + 1) // 2
        if _overflow(shares, middle, bins) <= OVERFLOW_SHARE:
            least = middle
        else:
            most = middle - 1
    return Fit(all_long, least)


def _shares(lengths: Sequence[int], weights: Sequence[float]) -> tuple[NDArray[np.float64], int]:
    """The probability of each number of steps, and tokens of a step. Lengths are rounded up, so that the sum is a bound."""
    step = max(1, -(-max(lengths) // BINS))
    steps = -(-np.asarray(lengths, dtype=np.int64) // step)
    counts = np.bincount(np.maximum(steps, 1), weights=np.asarray(weights, dtype=np.float64) if len(weights) else None)
    return counts / counts.sum(), step


def _overflow(shares: NDArray[np.float64], sequences: int, bins: int) -> float:
    """Probability that so many draws sum to more than `bins` steps: the shares' own convolution, by Fourier transform."""
    if sequences == 0 or (len(shares) - 1) * sequences <= bins:
        return 0.0
    size = 1 << ((len(shares) - 1) * sequences).bit_length()
    transformed = np.fft.rfft(shares, size)
    total = np.fft.irfft(transformed**sequences, size)
    return float(total[bins + 1 :].clip(min=0.0).sum())
