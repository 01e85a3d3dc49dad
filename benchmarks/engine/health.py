"""Whether the client itself was the bottleneck: event-loop lag, its share of a core, lateness of its sends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.engine.plan import CellPlan
from benchmarks.engine.terms import ClientHealth

LAG_EVERY_S = 0.01
MAX_LAG_MS = 5.0
MAX_LAG_OF_OBJECTIVE = 0.05
MAX_CPU_SHARE = 0.80


class Monitor:
    """Watches the loop and the process between `start` and `stop`; the numbers are turned into a verdict afterwards."""

    def __init__(self) -> None:
        self.lags_ms: list[float] = []
        self.send_late_ms: list[float] = []
        self._task: asyncio.Task[None] | None = None
        self._began: tuple[float, float] | None = None
        self.cpu_share: float | None = None

    def start(self) -> None:
        self._began = (time.monotonic(), time.process_time())
        self._task = asyncio.create_task(self._watch())

    def stop(self) -> None:
        if self._task is None or self._began is None:
            return
        self._task.cancel()
        self._task = None
        wall_s = time.monotonic() - self._began[0]
        self.cpu_share = (time.process_time() - self._began[1]) / wall_s if wall_s > 0 else None

    def sent(self, t_scheduled_ns: int, t_sent_ns: int) -> None:
        """One request on an open connection: what passed between its plan and its last written byte was ours."""
        self.send_late_ms.append((t_sent_ns - t_scheduled_ns) / 1e6)

    async def _watch(self) -> None:
        while True:
            due = time.monotonic() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self.lags_ms.append(max(0.0, time.monotonic() - due) * 1000)  # a loop may count in whole milliseconds


def lag_limit_ms(plan: CellPlan) -> float:
    """5 ms, or 5 % of the tightest objective if that is less. TPOT is left out: lag shifts it by its part per token
    only."""
    times = [t for c in plan.classes for t in (c.limits.e2e_s, c.limits.ttft_s) if t is not None]
    return min([MAX_LAG_MS, *(MAX_LAG_OF_OBJECTIVE * 1000 * t for t in times)])


def verdict(
    plan: CellPlan, *, lags_ms: Sequence[float], cpu_share: float | None, send_late_ms: Sequence[float]
) -> ClientHealth:
    """Client-limited where lag or CPU is above its limit; `why` names each.

    Lateness of sends is recorded and not judged here: in a closed loop no request is due at a time of its own, the next
    one starts when a slot is free, and what passes until it is written stands in the user view.
    """
    lag_p99, late_p99, lag_limit = _p99(lags_ms), _p99(send_late_ms), lag_limit_ms(plan)
    why = []
    if lag_p99 is not None and lag_p99 > lag_limit:
        why.append(f"event-loop lag p99 {lag_p99:.1f} ms, limit {lag_limit:g} ms")
    if cpu_share is not None and cpu_share > MAX_CPU_SHARE:
        why.append(f"client used {cpu_share:.0%} of a core, limit {MAX_CPU_SHARE:.0%}")
    return ClientHealth(
        loop_lag_p99_ms=lag_p99,
        cpu_share=cpu_share,
        send_late_p99_ms=late_p99,
        client_limited=bool(why),
        why="; ".join(why),
    )


def _p99(values: Sequence[float]) -> float | None:
    return float(np.quantile(np.asarray(values), 0.99, method="inverted_cdf")) if values else None
