"""A queue with a cap before a server whose rate depends on how many it serves: a birth-death chain.

Requests arrive as a Poisson stream. With n inside, n <= active, the server completes X(n) a second; more wait, first come
first served, and with `cap` waiting the next one is refused. The balance of each step up and down gives the stationary
probabilities (Kleinrock, *Queueing Systems* I, chapter 3); an arrival sees them as they are (Wolff 1982). A request that
finds active + j inside waits for j + 1 completions at X(active): an Erlang time, so waiting is a mixture of those.

M/M/1/K, Erlang's loss formula and M/M/m are special cases. Erlang C takes X(n) as n X(active) / active, which is a bound
on how often a request waits where X is concave, and says nothing of refusals: it is kept as a bound only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

HALVINGS = 60
AT_ONCE = 2_000_000  # values in one piece of the (times x places) table


@dataclass(frozen=True)
class Chain:
    """`shares[n]` is the share of time with n inside, shape (active + cap + 1,). Times are seconds, rates a second."""

    completions_per_s: tuple[float, ...]
    arrivals_per_s: float
    cap: int
    shares: Floats

    @property
    def active(self) -> int:
        return len(self.completions_per_s)

    @property
    def full_per_s(self) -> float:
        """Completions a second with every place of the server taken."""
        return self.completions_per_s[-1]

    @property
    def refused_share(self) -> float:
        """Of all that arrive."""
        return float(self.shares[-1])

    @cached_property
    def places(self) -> Floats:
        """Share of the admitted that find j waiting and must wait themselves, shape (cap,)."""
        waiting = self.shares[self.active : self.active + self.cap]
        admitted = float(self.shares[:-1].sum())
        return np.asarray(waiting / admitted if admitted > 0 else np.zeros(self.cap), dtype=np.float64)

    @property
    def waiting_share(self) -> float:
        """Of the admitted, those that wait at all."""
        return float(self.places.sum())

    @property
    def mean_wait_s(self) -> float:
        """Over all admitted, those that do not wait too."""
        return float((self.places * np.arange(1, self.cap + 1)).sum() / self.full_per_s)

    def wait_over(self, seconds: Floats) -> Floats:
        """Share of the admitted that wait longer than each of `seconds`, any shape; 1 where seconds are negative.

        An Erlang time of j + 1 steps is over t while a Poisson count of mean X t is at most j.
        """
        flat = np.atleast_1d(np.asarray(seconds, dtype=np.float64)).ravel()
        found = np.ones_like(flat)
        found[flat == 0] = self.waiting_share
        later = np.flatnonzero(flat > 0)
        piece = max(1, AT_ONCE // max(self.cap, 1))
        for start in range(0, len(later), piece):
            rows = later[start : start + piece]
            found[rows] = self._wait_over(flat[rows])
        return found.reshape(np.shape(seconds))

    def _wait_over(self, seconds: Floats) -> Floats:
        if not self.cap:
            return np.zeros_like(seconds)
        k = np.arange(self.cap)
        mean = self.full_per_s * seconds
        logs = k * np.log(mean)[:, None] - mean[:, None] - _log_factorials(self.cap)
        from_here = np.cumsum(self.places[::-1])[::-1]
        return np.asarray(np.minimum(np.exp(logs) @ from_here, 1.0), dtype=np.float64)

    def wait_quantile_s(self, q: float) -> float:
        """Wait that a share q of the admitted does not exceed; 0 where so many do not wait at all."""
        if not 0 < q < 1:
            raise ValueError(f"q must lie between 0 and 1: {q=}")
        if self.waiting_share <= 1 - q:
            return 0.0
        low, high = 0.0, 1.0 / self.full_per_s
        while self._is_over(high, q):
            low, high = high, 2 * high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._is_over(middle, q) else (low, middle)
        return high

    def _is_over(self, seconds: float, q: float) -> bool:
        return float(self.wait_over(np.array([seconds]))[0]) > 1 - q


def chain(completions_per_s: Sequence[float], arrivals_per_s: float, cap: int) -> Chain:
    """The chain of a server that completes `completions_per_s[n - 1]` with n inside, and a queue of `cap`.

    In logarithms, so that a thousand waiting neither overflow nor vanish. Raises ValueError where a rate is not above 0 or
    the cap is negative.
    """
    rates = np.asarray(completions_per_s, dtype=np.float64)
    if rates.ndim != 1 or not rates.size or not (np.isfinite(rates) & (rates > 0)).all():
        raise ValueError("completions a second must be above 0 for every number active")
    if not 0 < arrivals_per_s < math.inf or cap < 0:
        raise ValueError(f"arrivals a second must be above 0 and the cap not negative: {arrivals_per_s=} {cap=}")
    down = np.concatenate((rates, np.full(cap, rates[-1])))
    logs = np.concatenate(([0.0], np.cumsum(math.log(arrivals_per_s) - np.log(down))))
    weights = np.exp(logs - logs.max())
    return Chain(
        completions_per_s=tuple(float(rate) for rate in rates),
        arrivals_per_s=arrivals_per_s,
        cap=cap,
        shares=weights / weights.sum(),
    )


def erlang_b(offered: float, servers: int) -> float:
    """Share refused by `servers` without a queue that are offered `offered` Erlang, by the recursion in 1 / B."""
    inverse = 1.0
    for n in range(1, servers + 1):
        inverse = 1.0 + inverse * n / offered
    return 1.0 / inverse


def erlang_c(offered: float, servers: int) -> float:
    """Share that waits at `servers` with a queue that has no end; 1 where the load is as much as they can do."""
    if offered >= servers:
        return 1.0
    lost = erlang_b(offered, servers)
    return lost / (1 - offered / servers * (1 - lost))


def _log_factorials(count: int) -> Floats:
    """ln k! for k = 0 ... count - 1."""
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, count))))).astype(np.float64)
