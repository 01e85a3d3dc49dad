"""When requests are due: absolute times from a seed, known before the window. The dice are an argument."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.engine.load import Arrivals, Constant, Gamma, Poisson, Replay, Steps

NS = 1_000_000_000
MOST_ARRIVALS = 5_000_000
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Drawn = Callable[[int], Floats]


class TooManyError(ValueError):
    """More arrivals than a plan can hold."""


def offsets_ns(arrivals: Arrivals, horizon_s: float, seed: int) -> Ints:
    """Due times in nanoseconds after the start, ascending, shape (n,), all below the horizon; the same for the same
    seed, and a longer horizon begins with the shorter one's. Raises TooManyError, ValueError."""
    dice = np.random.default_rng([seed, 3])
    match arrivals:
        case Constant(rate_per_s=rate):
            seconds = np.arange(_count(rate, horizon_s), dtype=np.float64) / rate
        case Poisson(rate_per_s=rate):
            seconds = _summed(lambda n: dice.exponential(1 / _rate(rate), n), rate, horizon_s)
        case Gamma(rate_per_s=rate, burstiness=shape):
            if not 0 < shape < np.inf:
                raise ValueError(f"burstiness must be above 0, not {shape:g}")
            seconds = _summed(lambda n: dice.gamma(shape, 1 / (_rate(rate) * shape), n), rate, horizon_s)
        case Steps(steps=steps):
            seconds = _stepped(steps, horizon_s, dice)
        case Replay(offsets_s=offsets):
            seconds = np.asarray(offsets, dtype=np.float64)
            _fits(seconds.size)
            if seconds.size and (not np.isfinite(seconds).all() or seconds[0] < 0 or (np.diff(seconds) < 0).any()):
                raise ValueError("a replayed trace needs finite offsets that ascend from 0")
    times = np.rint(seconds[seconds < horizon_s] * NS).astype(np.int64)
    return times[times < round(horizon_s * NS)]


def _rate(rate: float) -> float:
    if not 0 < rate < float("inf"):
        raise ValueError(f"an arrival rate must be above 0 per second, not {rate:g}")
    return rate


def _count(rate: float, horizon_s: float) -> int:
    if not 0 <= horizon_s < np.inf:
        raise ValueError(f"a schedule needs an end, not {horizon_s:g} s")
    return _fits(np.ceil(_rate(rate) * horizon_s))


def _fits(count: float) -> int:
    if not count <= MOST_ARRIVALS:
        raise TooManyError(f"{count:.0f} arrivals are more than the {MOST_ARRIVALS} that a plan can hold")
    return int(count)


def _summed(draw: Drawn, rate: float, horizon_s: float) -> Floats:
    """Gaps drawn in pieces of a fixed size, so that the horizon does not change what is drawn."""
    piece, total, pieces = 4096, 0.0, []
    _count(rate, horizon_s)
    while total < horizon_s:
        times = total + np.cumsum(draw(piece))
        total = float(times[-1])
        pieces.append(times)
        if len(pieces) * piece > MOST_ARRIVALS:
            raise TooManyError(f"more than {MOST_ARRIVALS} arrivals")
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _stepped(steps: tuple[tuple[float, float], ...], horizon_s: float, dice: np.random.Generator) -> Floats:
    """A Poisson process of rate 1 whose clock runs at the step's rate."""
    if not steps:
        raise ValueError("steps need at least one (seconds, rate)")
    edges, served = [0.0], [0.0]
    for number, (seconds, rate) in enumerate(steps):
        last = number == len(steps) - 1
        if not (0 <= seconds < np.inf and 0 <= rate < np.inf):
            raise ValueError("steps need finite lengths and rates that are not negative")
        left = max(0.0, horizon_s - edges[-1])
        length = left if last else min(seconds, left)
        edges.append(edges[-1] + length)
        served.append(served[-1] + length * rate)
    _fits(served[-1])
    ticks = _summed(lambda n: dice.exponential(1.0, n), 1.0, served[-1])
    ticks = ticks[ticks < served[-1]]
    place = np.searchsorted(np.asarray(served), ticks, side="right") - 1
    rates = np.asarray([rate for _, rate in steps], dtype=np.float64)[place]
    found: Floats = np.asarray(edges)[place] + (ticks - np.asarray(served)[place]) / rates
    return found
