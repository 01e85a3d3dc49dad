"""Whether the client itself was the bottleneck: event-loop lag, its share of a core, lateness of its sends."""

from __future__ import annotations

import asyncio
import math
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.engine.exchange import Exchange
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.terms import ClientHealth, RequestRecord

LAG_EVERY_S = 0.01
MAX_LAG_MS = 5.0
MAX_LAG_OF_OBJECTIVE = 0.05
MAX_CPU_SHARE = 0.80
MAX_LATE_MS = 5.0
MAX_CONNECTION_WAIT_SHARE = 0.01
NS_PER_MS = 1e6
RANK_SLACK = 1e-9  # 0.99 x 100 is 99, whatever binary fractions say


@dataclass(frozen=True, slots=True)
class Seen:
    """What was watched over a window, in milliseconds but for the share and the counts."""

    lags_ms: Sequence[float]
    cpu_share: float | None
    send_late_ms: Sequence[float]
    dispatch_ms: Sequence[float] = ()
    connect_ms: Sequence[float] = ()
    waited_for_connection: int = 0


class Monitor:
    """Watches the loop and the process between `start` and `stop`; the numbers are turned into a verdict afterwards."""

    def __init__(self) -> None:
        self._lags_ms = array("d")
        self._late_ms = array("d")
        self._dispatch_ms = array("d")
        self._connect_ms = array("d")
        self._waited = 0
        self._task: asyncio.Task[None] | None = None
        self._began: tuple[float, float] | None = None
        self._cpu_share: float | None = None

    def start(self) -> None:
        self._began = (time.monotonic(), time.process_time())
        self._task = asyncio.create_task(self._watch())

    def stop(self) -> None:
        if self._task is None or self._began is None:
            return
        self._task.cancel()
        self._task = None
        wall_s = time.monotonic() - self._began[0]
        self._cpu_share = (time.process_time() - self._began[1]) / wall_s if wall_s > 0 else None

    def sent(self, exchange: Exchange, record: RequestRecord, slot_wait_ns: int = 0) -> None:
        """One request of the window that was sent. A connection that had to be opened is counted apart, and so is the
        wait for a free slot, which is the server's answers against the plan's most in flight: what passed otherwise
        between the plan and the last written byte was ours."""
        assert record.t_sent_ns is not None
        ours_ns = record.t_sent_ns - exchange.t_ready_ns - exchange.connect_ns
        self._dispatch_ms.append(ours_ns / NS_PER_MS)
        due_ns = record.t_scheduled_ns if record.gathered_ns is None else record.gathered_ns
        self._late_ms.append((exchange.t_ready_ns - due_ns - slot_wait_ns + ours_ns) / NS_PER_MS)
        if exchange.connect_ns:
            self._connect_ms.append(exchange.connect_ns / NS_PER_MS)
            self._waited += exchange.wanted_connection

    def readings(self) -> Seen:
        return Seen(
            self._lags_ms, self._cpu_share, self._late_ms, self._dispatch_ms, self._connect_ms, self._waited
        )  # fmt: skip

    async def _watch(self) -> None:
        while True:
            due = time.monotonic() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self._lags_ms.append(max(0.0, time.monotonic() - due) * 1000)  # a loop may count in whole milliseconds


def lag_limit_ms(plan: CellPlan) -> float:
    """5 ms, or 5 % of the tightest objective if that is less. TPOT is left out: lag shifts it by its part per token
    only."""
    times = [t for c in plan.classes for t in (c.limits.e2e_s, c.limits.ttft_s) if t is not None]
    return min([MAX_LAG_MS, *(MAX_LAG_OF_OBJECTIVE * 1000 * t for t in times)])


def verdict(plan: CellPlan, seen: Seen, *, sends_are_due: bool) -> ClientHealth:
    """Client-limited where lag, CPU, waiting for connections or, in an open loop, lateness is above its limit; `why`
    names each.

    In a closed loop lateness is recorded and not judged: no request is due at a time of its own, the next one starts
    when a slot is free, and what passes until it is written stands in the user view.
    """
    lag_p99, late_p99, lag_limit = _p99(seen.lags_ms), _p99(seen.send_late_ms), lag_limit_ms(plan)
    sent = len(seen.send_late_ms)
    waited = seen.waited_for_connection / sent if sent else None
    why = []
    if lag_p99 is not None and lag_p99 > lag_limit:
        why.append(f"event-loop lag p99 {lag_p99:.1f} ms, limit {lag_limit:g} ms")
    if seen.cpu_share is not None and seen.cpu_share > MAX_CPU_SHARE:
        why.append(f"client used {seen.cpu_share:.0%} of a core, limit {MAX_CPU_SHARE:.0%}")
    if sends_are_due and late_p99 is not None and late_p99 > MAX_LATE_MS:
        why.append(f"sends late by p99 {late_p99:.1f} ms, limit {MAX_LATE_MS:g} ms")
    if waited is not None and waited > MAX_CONNECTION_WAIT_SHARE:
        why.append(f"{waited:.1%} of requests waited for a connection, limit {MAX_CONNECTION_WAIT_SHARE:.0%}")
    return ClientHealth(
        loop_lag_p99_ms=lag_p99,
        cpu_share=seen.cpu_share,
        send_late_p99_ms=late_p99,
        client_limited=bool(why),
        why="; ".join(why),
        dispatch_p99_ms=_p99(seen.dispatch_ms),
        connect_p99_ms=_p99(seen.connect_ms),
        connection_wait_share=waited,
        loop_lag_max_ms=max(seen.lags_ms, default=None),
        stalls=sum(lag > MAX_LAG_MS for lag in seen.lags_ms),
    )


def _p99(values: Sequence[float]) -> float | None:
    """Nearest rank."""
    return sorted(values)[math.ceil(0.99 * len(values) - RANK_SLACK) - 1] if len(values) else None
