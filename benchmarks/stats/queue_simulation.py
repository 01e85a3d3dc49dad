"""The same queue as `birth_death`, request by request, with service times that are not exponential.

All that are active share the server: with n of them each advances at X(n) / n, so n together complete X(n) a second
whatever their lengths. A request carries work of mean 1, drawn from recorded times. The dice are an argument.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.stats.quantiles import nearest_rank

Floats = npt.NDArray[np.float64]
REFUSED = -1.0
EMPTIES_BY = 0.1  # of what is simulated, left out at the start: it begins with nobody inside


@dataclass(frozen=True)
class Windows:
    """One figure for each window, shape (windows,). `refused` are shares of all that arrived, waits are of the admitted,
    NaN where a window admitted nobody."""

    refused: Floats
    mean_wait_s: Floats
    wait_quantile_s: Floats


class _Server:
    """Served requests lie in a heap by how far the common progress must have come when they end."""

    def __init__(self, completions_per_s: Sequence[float], cap: int) -> None:
        self._each_per_s = [rate / n for n, rate in enumerate(completions_per_s, start=1)]
        self._cap = cap
        self._now_s = self._progress = 0.0
        self._ends: list[float] = []
        self._waiting: deque[tuple[int, float, float]] = deque()
        self.waits_s: dict[int, float] = {}

    def arrive(self, number: int, at_s: float, work: float) -> None:
        self.advance(at_s)
        if len(self._ends) < len(self._each_per_s):
            heapq.heappush(self._ends, self._progress + work)
            self.waits_s[number] = 0.0
        elif len(self._waiting) < self._cap:
            self._waiting.append((number, at_s, work))
        else:
            self.waits_s[number] = REFUSED

    def advance(self, until_s: float) -> None:
        """Everything that ends by then; who waited longest takes the free place."""
        while self._ends:
            each_per_s = self._each_per_s[len(self._ends) - 1]
            end_s = self._now_s + (self._ends[0] - self._progress) / each_per_s
            if end_s > until_s:
                self._progress += (until_s - self._now_s) * each_per_s
                break
            self._progress, self._now_s = heapq.heappop(self._ends), end_s
            if self._waiting:
                number, came_s, work = self._waiting.popleft()
                self.waits_s[number] = end_s - came_s
                heapq.heappush(self._ends, self._progress + work)
        self._now_s = until_s


def waits_s(completions_per_s: Sequence[float], due_s: Sequence[float], cap: int, works: Sequence[float]) -> Floats:
    """Seconds that each request waits before it is served, REFUSED where it was; `due_s` ascend, `works` have mean 1."""
    server = _Server(completions_per_s, cap)
    for number, (at_s, work) in enumerate(zip(due_s, works, strict=True)):
        server.arrive(number, at_s, work)
    server.advance(math.inf)
    return np.array([server.waits_s[number] for number in range(len(due_s))])


def simulate_queue(
    completions_per_s: Sequence[float],
    arrivals_per_s: float,
    cap: int,
    works: Sequence[float],
    *,
    windows: int,
    requests: int,
    seed: int,
    q: float = 0.95,
) -> Windows:
    """So many windows of so many Poisson arrivals, one after the other, with works drawn from `works` (any scale)."""
    dice = np.random.default_rng([seed, cap])
    first = math.ceil(EMPTIES_BY * windows * requests)
    count = first + windows * requests
    due_s = np.cumsum(dice.exponential(1 / arrivals_per_s, count)).tolist()
    drawn = dice.choice(np.asarray(works, dtype=np.float64) / float(np.mean(works)), count).tolist()
    waited = waits_s(completions_per_s, due_s, cap, drawn)[first:].reshape(windows, requests)
    admitted = [np.sort(row[row >= 0]) for row in waited]
    return Windows(
        refused=np.array([1 - len(row) / requests for row in admitted]),
        mean_wait_s=np.array([row.mean() if row.size else math.nan for row in admitted]),
        wait_quantile_s=np.array([row[nearest_rank(row.size, q) - 1] if row.size else math.nan for row in admitted]),
    )
