"""An open loop: requests are due at times known before the window, whatever the server does.

What is late stays due: lateness is debt, worked off as soon as a slot is free, never skipped and never sent early. The
user view counts from the time it was due.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from typing import NamedTuple

from benchmarks.engine import schedule
from benchmarks.engine.alarm import Alarm
from benchmarks.engine.exchange import Due
from benchmarks.engine.load import OpenLoop
from benchmarks.engine.prompts import Prepared
from benchmarks.engine.runner import Cell
from benchmarks.engine.wire import Slot

NS = 1_000_000_000
OPENED_AHEAD = 128
# Connections that nothing has used for a while are opened anew in the quiet, so that the next burst finds them open.
FRESHEN_EVERY_S = 1.0
KEPT_FRESH = 32


class Turn(NamedTuple):
    """A request that follows on another: due after the thinking."""

    t_ns: int
    after: Prepared


class Slots:
    """Free slots, the last used first; new ones up to the plan's most in flight."""

    def __init__(self, cell: Cell, most: int) -> None:
        self._cell = cell
        self._left = most
        self._free: list[Slot] = []
        self._debt: deque[asyncio.Future[Slot]] = deque()

    async def open_ahead(self) -> None:
        count = min(OPENED_AHEAD, self._left)
        slots = [self._new() for _ in range(count)]
        await asyncio.gather(*(slot.open() for slot in slots))
        self._free += slots

    def free(self) -> Slot | None:
        if self._free:
            return self._free.pop()
        return self._new() if self._left > 0 else None

    def give(self, slot: Slot) -> None:
        self._free.append(slot)

    async def freshen(self) -> None:
        while not self._cell.stopping:
            await self._cell.pause(FRESHEN_EVERY_S)
            for slot in [slot for slot in self._free[-KEPT_FRESH:] if not slot.is_open]:
                if slot in self._free:
                    self._free.remove(slot)
                    await slot.open()
                    self._free.insert(0, slot)

    def _new(self) -> Slot:
        self._left -= 1
        return self._cell.new_slot()


class Dispatcher:
    """Sends what is due, the oldest first."""

    def __init__(self, cell: Cell, load: OpenLoop) -> None:
        self._cell = cell
        self._load = load
        self._slots = Slots(cell, cell.shard.part(cell.plan.offered_concurrency))
        self._turns: list[Turn] = []
        self._waiting: deque[Due] = deque()
        self._alarm = Alarm()
        self._asking: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        cell = self._cell
        offsets = schedule.offsets_ns(self._load.arrivals, cell.horizon_s, cell.arrival_seed)
        offsets = offsets[cell.shard.number :: cell.shard.of]
        cell.build_ahead(at_most=min(len(offsets), 256))
        await self._slots.open_ahead()
        await cell.begin(window_from_s=cell.plan.warmup_s)
        cell.plan_window_of(offsets)
        freshen = asyncio.create_task(self._slots.freshen())
        cell.on_stop(self._alarm.ring)
        try:
            await self._send_all(cell.began_ns, offsets.tolist())
            await self._work_off()
        finally:
            freshen.cancel()
            self._alarm.close()
            await asyncio.gather(*self._asking, return_exceptions=True)

    async def _send_all(self, began_ns: int, offsets: list[int]) -> None:
        """Every arrival at its time, and the turns that follow on them, until the window's end."""
        arrivals = iter(offsets)
        following = next(arrivals, None)
        while not self._cell.stopping:
            due_ns = None if following is None else began_ns + following
            if self._turns and (due_ns is None or self._turns[0].t_ns < due_ns):
                turn_ns, after = self._turns[0]
                await self._alarm.until(turn_ns)
                if not self._cell.stopping and time.monotonic_ns() >= turn_ns:
                    heapq.heappop(self._turns)
                    self._due(turn_ns, after)
            elif due_ns is None:
                await self._alarm.until(self._cell.window_end_ns)
                if time.monotonic_ns() >= self._cell.window_end_ns:
                    return
            else:
                await self._alarm.until(due_ns)
                if not self._cell.stopping and time.monotonic_ns() >= due_ns:
                    following = next(arrivals, None)
                    self._due(due_ns, None)

    def _due(self, t_ns: int, after: Prepared | None) -> None:
        prepared = self._cell.take(after)
        if prepared is not None:
            self._waiting.append(Due(prepared, t_ns, self._cell.phase_at(t_ns)))
            self._send()

    def _send(self) -> None:
        while self._waiting and not self._cell.interrupted:
            slot = self._slots.free()
            if slot is None:
                return
            task = asyncio.create_task(self._ask(slot, self._waiting.popleft()))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, slot: Slot, due: Due) -> None:
        exchange = await slot.ask((due,), due.prepared.body)
        self._cell.finished(exchange)
        self._slots.give(slot)
        if self._cell.has_next_turn(due.prepared) and not self._cell.stopping:
            think_s = self._cell.plan.sessions.think_s if self._cell.plan.sessions else 0.0
            heapq.heappush(self._turns, Turn(time.monotonic_ns() + round(think_s * NS), due.prepared))
            self._alarm.ring()
        self._send()

    async def _work_off(self) -> None:
        """After the window what is still due is sent; the cell's end interrupts it."""
        while (self._waiting or self._asking) and not self._cell.interrupted:
            if self._asking:
                done, _ = await asyncio.wait(self._asking, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            else:
                self._send()
                await asyncio.sleep(0.01)
        for due in self._waiting:
            self._cell.never_sent(due)
        self._waiting.clear()


async def drive(cell: Cell) -> None:
    load = cell.plan.load
    assert isinstance(load, OpenLoop)
    await Dispatcher(cell, load).run()
