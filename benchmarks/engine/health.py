"""Whether the client itself was the bottleneck: event-loop lag, its share of a core, lateness of its sends."""

from __future__ import annotations

import asyncio
import math
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.alarm import Alarm
from benchmarks.engine.exchange import Exchange
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.terms import ClientHealth, RequestRecord
from benchmarks.stats.per_cent import per_cent

LAG_EVERY_NS = 20_000_000
GOLDEN = 0.6180339887498949  # its multiples fall evenly into every part of a step
MAX_LAG_MS = 5.0
MAX_LAG_OF_OBJECTIVE = 0.05
MAX_CPU_SHARE = 0.80
MAX_LATE_MS = 5.0
MAX_CONNECTION_WAIT_SHARE = 0.01
# One spinning process on the client's core has it for 40 to 50 % of the time in which the client has work, at 1 stream
# and at 256 alike; four of them for 80 %; a core of its own leaves under 10 %. Their turns are shorter than the lag limit
# (3 to 4 ms on Linux), so lag alone would just not see what moves TTFT by as much: beside a neighbour its limit is lower.
# Where the plan names no cores, the client shares those of all others and one of them is no surprise, two are.
MAX_CPU_WAIT_SHARE = 1 / 3
MAX_CPU_WAIT_SHARE_ON_SHARED_CORES = 2 / 3
MAX_LAG_BESIDE_A_NEIGHBOUR_MS = 2.0
SCHEDSTAT = Path("/proc/thread-self/schedstat")
NS_PER_MS = 1e6
RANK_SLACK = 1e-9  # 0.99 x 100 is 99, whatever binary fractions say


@dataclass(frozen=True, slots=True)
class Seen:
    """What was watched over a window, in milliseconds but for the shares and the counts."""

    lags_ms: Sequence[float]
    cpu_share: float | None
    send_late_ms: Sequence[float]
    dispatch_ms: Sequence[float] = ()
    connect_ms: Sequence[float] = ()
    waited_for_connection: int = 0
    cpu_wait_share: float | None = None


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
        self._scheduled: tuple[int, int] | None = None
        self._cpu_share: float | None = None
        self._cpu_wait_share: float | None = None

    def start(self) -> None:
        self._began = (time.monotonic(), time.process_time())
        self._scheduled = scheduled()
        self._task = asyncio.create_task(self._watch())

    def stop(self) -> None:
        if self._task is None or self._began is None:
            return
        self._task.cancel()
        self._task = None
        wall_s = time.monotonic() - self._began[0]
        self._cpu_share = (time.process_time() - self._began[1]) / wall_s if wall_s > 0 else None
        self._cpu_wait_share = wait_share(self._scheduled, scheduled())

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
            self._lags_ms, self._cpu_share, self._late_ms, self._dispatch_ms, self._connect_ms, self._waited,
            self._cpu_wait_share,
        )  # fmt: skip

    async def _watch(self) -> None:
        """By an alarm, which is exact where a loop counts in whole milliseconds, and in uneven steps: even ones fall in
        with the even steps of a server, and are then always looked at just when its events have woken the loop."""
        alarm, step = Alarm(), 0.5
        try:
            while True:
                step = (step + GOLDEN) % 1
                due_ns = time.monotonic_ns() + round((0.5 + step) * LAG_EVERY_NS)
                await alarm.until(due_ns)
                self._lags_ms.append(max(0, time.monotonic_ns() - due_ns) / NS_PER_MS)
        finally:
            alarm.close()


def scheduled() -> tuple[int, int] | None:
    """This thread's nanoseconds on a core, and ready to run without one; None where the system does not count them."""
    try:
        ran, waited, _ = SCHEDSTAT.read_text().split()
    except (OSError, ValueError):
        return None
    return int(ran), int(waited)


def wait_share(begin: tuple[int, int] | None, end: tuple[int, int] | None) -> float | None:
    """Of the time in which there was work, the part without a core; None where nothing was counted."""
    if begin is None or end is None:
        return None
    ran, waited = end[0] - begin[0], end[1] - begin[1]
    return waited / (ran + waited) if ran > 0 else None


def lag_limit_ms(plan: CellPlan) -> float:
    """5 ms, or 5 % of the tightest objective if that is less. TPOT is left out: lag shifts it by its part per token
    only."""
    times = [t for c in plan.classes for t in (c.limits.e2e_s, c.limits.ttft_s) if t is not None]
    return min([MAX_LAG_MS, *(MAX_LAG_OF_OBJECTIVE * 1000 * t for t in times)])


def verdict(plan: CellPlan, seen: Seen, *, sends_are_due: bool) -> ClientHealth:
    """Client-limited where lag, CPU, waiting for connections or, in an open loop, lateness is above its limit; `why`
    names each. The limit of lag is lower where others had the client's core.

    In a closed loop lateness is recorded and not judged: no request is due at a time of its own, the next one starts
    when a slot is free, and what passes until it is written stands in the user view.
    """
    lag_p99, late_p99, lag_limit = _p99(seen.lags_ms), _p99(seen.send_late_ms), lag_limit_ms(plan)
    sent = len(seen.send_late_ms)
    waited = seen.waited_for_connection / sent if sent else None
    why = []
    others = seen.cpu_wait_share
    wait_limit = MAX_CPU_WAIT_SHARE if plan.client_cpus else MAX_CPU_WAIT_SHARE_ON_SHARED_CORES
    if lag_p99 is not None and lag_p99 > lag_limit:
        why.append(f"event-loop lag p99 {lag_p99:.1f} ms, limit {lag_limit:g} ms")
    elif lag_p99 is not None and others is not None and others > wait_limit and lag_p99 > MAX_LAG_BESIDE_A_NEIGHBOUR_MS:
        limit = f"limit {MAX_LAG_BESIDE_A_NEIGHBOUR_MS:g} ms above {per_cent(wait_limit)}"
        why.append(
            f"others had its core for {per_cent(others)} of its work, event-loop lag p99 {lag_p99:.1f} ms, {limit}"
        )
    if seen.cpu_share is not None and seen.cpu_share > MAX_CPU_SHARE:
        why.append(f"client used {per_cent(seen.cpu_share)} of a core, limit {per_cent(MAX_CPU_SHARE)}")
    if sends_are_due and late_p99 is not None and late_p99 > MAX_LATE_MS:
        why.append(f"sends late by p99 {late_p99:.1f} ms, limit {MAX_LATE_MS:g} ms")
    if waited is not None and waited > MAX_CONNECTION_WAIT_SHARE:
        why.append(
            f"{per_cent(waited, 1)} of requests waited for a connection, limit {per_cent(MAX_CONNECTION_WAIT_SHARE)}"
        )
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
        cpu_wait_share=others,
    )


def _p99(values: Sequence[float]) -> float | None:
    """Nearest rank."""
    return sorted(values)[math.ceil(0.99 * len(values) - RANK_SLACK) - 1] if len(values) else None
