"""An open loop: requests are due at times known before the window, whatever the server does.

What is late stays due: lateness is debt, worked off as soon as a slot is free, never skipped and never sent early. The
user view counts from the time it was due.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from benchmarks.engine.alarm import Alarm
from benchmarks.engine.exchange import Due
from benchmarks.engine.load import Arrivals, OpenLoop
from benchmarks.engine.prompts import Prepared
from benchmarks.engine.runner import FAR_NS, Cell
from benchmarks.engine.wire import Slot

NS = 1_000_000_000
BUILT_AHEAD = 256
OPENED_AHEAD = 128
# So many free slots are kept open: opened anew after a quiet in which their connections expired, so that the next burst
# finds them open, and more of them where the server holds its answers, before they are wanted.
FRESHEN_EVERY_S = 0.25
REFUSED_EVERY_S = 1.0  # where none of them could be opened: the server has enough to do
SPARE = 32
MOST_AT_ONCE = 16
WORK_OFF_EVERY_S = 0.01


class Turn(NamedTuple):
    """A request that follows on another: due after the thinking. No two have the same `number`, so they have an order."""

    t_ns: int
    number: int
    after: Prepared


class Slots:
    """Free slots, the last used first; new ones up to the plan's most in flight."""

    def __init__(self, cell: Cell, most: int) -> None:
        self._cell = cell
        self._left = most
        self._free: list[Slot] = []
        self._opening: asyncio.Task[None] | None = None

    async def open_ahead(self) -> None:
        await self._open_some(OPENED_AHEAD)

    def free(self) -> Slot | None:
        if self._is_short() and (self._opening is None or self._opening.done()):
            self._opening = asyncio.create_task(self._open_some(SPARE))
        if self._free:
            return self._free.pop()
        return self._new() if self._left > 0 else None

    def give(self, slot: Slot) -> None:
        """One that the server has closed, as many do with a refusal, is the last to be taken again."""
        self._free.insert(len(self._free) if slot.is_open else 0, slot)

    async def freshen(self) -> None:
        """Runs as long as the load does."""
        pause_s = FRESHEN_EVERY_S
        try:
            while not self._cell.stopping:
                await self._cell.pause(pause_s)
                pause_s = FRESHEN_EVERY_S
                if not all(slot.is_open for slot in self._free[-SPARE:]):
                    await self._open_some(SPARE)
                    if not any(slot.is_open for slot in self._free[-SPARE:]):
                        pause_s = REFUSED_EVERY_S
        finally:
            if self._opening is not None:
                self._opening.cancel()

    def _is_short(self) -> bool:
        """Whether the next ones to be taken would soon be ones to be opened."""
        if len(self._free) < SPARE:
            return self._left > 0
        return not self._free[-SPARE].is_open

    async def _open_some(self, at_most: int) -> None:
        """Those that were open once first; the newest are the next to be taken, so that older ones may expire unused."""
        slots = [slot for slot in self._free if not slot.is_open][-at_most:]
        chosen = set(slots)
        self._free = [slot for slot in self._free if slot not in chosen]
        slots += [self._new() for _ in range(min(at_most - len(slots), self._left))]
        await asyncio.gather(*(slot.open() for slot in slots))
        self._free = sorted(self._free + slots, key=lambda slot: slot.is_open)

    def _new(self) -> Slot:
        self._left -= 1
        return self._cell.new_slot()


class Waiting(NamedTuple):
    """Due, and ready to be sent since `since_ns`: from there on it is a slot that is waited for."""

    due: Due
    since_ns: int


class Dispatcher:
    """Sends what is due, the oldest first."""

    def __init__(self, cell: Cell, load: OpenLoop) -> None:
        self._cell = cell
        self._load = load
        self._slots = Slots(cell, cell.shard.part(cell.plan.offered_concurrency))
        self._turns: list[Turn] = []
        self._waiting: deque[Waiting] = deque()
        self._alarm = Alarm()
        self._asking = asyncio.TaskGroup()

    async def run(self) -> None:
        await run_arrivals(self._cell, self._load.arrivals, self._slots, self._alarm, self._work)

    async def _work(self, due: deque[int]) -> None:
        async with self._asking:
            await self._send_all(due)
            await self._work_off()

    async def _send_all(self, arrivals: deque[int]) -> None:
        """Every arrival at its time, and the turns that follow on them, up to the stop: what was due by then too."""
        while not self._cell.stopping:
            await self._alarm.until(min(self._next_ns(arrivals), self._cell.window_end_ns))
            self._take_due(arrivals, time.monotonic_ns())
        self._take_due(arrivals, self._cell.stopped_ns - 1)

    def _next_ns(self, arrivals: deque[int]) -> int:
        first_turn_ns = self._turns[0].t_ns if self._turns else FAR_NS
        return min(arrivals[0] if arrivals else FAR_NS, first_turn_ns)

    def _take_due(self, arrivals: deque[int], until_ns: int) -> None:
        """At most MOST_AT_ONCE, so that a client far behind still reads its answers; all of them once stopped. Nothing that
        is due after the window, however late its end is noticed."""
        most = FAR_NS if self._cell.stopping else MOST_AT_ONCE
        until_ns = min(until_ns, self._cell.stopped_ns - 1, self._cell.window_end_ns - 1)
        while most and (t_ns := self._next_ns(arrivals)) <= until_ns:
            most -= 1
            if self._turns and self._turns[0].t_ns == t_ns:
                taken = self._due(t_ns, heapq.heappop(self._turns).after)
            else:
                taken = self._due(arrivals.popleft(), None)
            if not taken:
                return

    def _due(self, t_ns: int, after: Prepared | None) -> bool:
        prepared = self._cell.take(after)
        if prepared is None:
            return False
        self._waiting.append(Waiting(Due(prepared, t_ns, self._cell.phase_at(t_ns)), time.monotonic_ns()))
        self._send()
        return True

    def _send(self) -> None:
        while self._waiting and self._cell.may_send:
            slot = self._slots.free()
            if slot is None:
                return
            due, since_ns = self._waiting.popleft()
            self._asking.create_task(self._ask(slot, due, time.monotonic_ns() - since_ns))

    async def _ask(self, slot: Slot, due: Due, waited_ns: int) -> None:
        exchange = await slot.ask((due,), due.prepared.body)
        self._cell.finished(exchange, slot_wait_ns=waited_ns)
        self._slots.give(slot)
        if self._cell.has_next_turn(due.prepared) and not self._cell.stopping:
            think_s = self._cell.plan.sessions.think_s if self._cell.plan.sessions else 0.0
            turn = Turn(time.monotonic_ns() + round(think_s * NS), due.prepared.index, due.prepared)
            heapq.heappush(self._turns, turn)
            self._alarm.ring()
        self._send()

    async def _work_off(self) -> None:
        """What was due before the stop is still sent, unless a person wants the end; then it is told as never sent."""
        while self._waiting and self._cell.may_send:
            self._send()
            await asyncio.sleep(WORK_OFF_EVERY_S)
        for due, _ in self._waiting:
            self._cell.never_sent(due)
        self._waiting.clear()


async def run_arrivals(
    cell: Cell, arrivals: Arrivals, slots: Slots, alarm: Alarm, work: Callable[[deque[int]], Awaitable[None]]
) -> None:
    """Opens connections, begins, and does `work` on the arrivals' times on the clock; a stop rings the alarm."""
    offsets = arrivals_ns(cell, arrivals)
    cell.build_ahead(at_most=min(len(offsets), BUILT_AHEAD))
    await slots.open_ahead()
    await cell.begin(window_from_s=cell.plan.warmup_s)
    due = cell.due_at(offsets)
    freshen = asyncio.create_task(slots.freshen())
    cell.on_stop(alarm.ring)
    try:
        await work(due)
    finally:
        freshen.cancel()
        alarm.close()


def arrivals_ns(cell: Cell, arrivals: Arrivals) -> list[int]:
    """This process's, in nanoseconds after the beginning, ascending."""
    from benchmarks.engine.schedule import offsets_ns  # numpy, which a closed loop starts without

    offsets: list[int] = offsets_ns(arrivals, cell.horizon_s, cell.arrival_seed).tolist()
    return offsets[cell.shard.number :: cell.shard.of]


async def drive(cell: Cell) -> None:
    load = cell.plan.load
    assert isinstance(load, OpenLoop)
    await Dispatcher(cell, load).run()
