"""Application micro-batching: the client gathers arrivals into one request, for at most so many and so long.

At low traffic nothing is gained by waiting, so an arrival goes out at once: when nothing is in flight, or when of the
two gaps before it one was as long as the longest wait. Two arrivals may fall together by chance, three are traffic. The
wait is charged to the request: its clock runs from arrival.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from benchmarks.engine.alarm import Alarm
from benchmarks.engine.dialects.base import Ask
from benchmarks.engine.exchange import Due, Exchange
from benchmarks.engine.load import MicroBatch
from benchmarks.engine.open_loop import MOST_AT_ONCE, WORK_OFF_EVERY_S, Slots, run_arrivals
from benchmarks.engine.runner import FAR_NS, Cell
from benchmarks.engine.terms import BatchRecord
from benchmarks.engine.wire import Slot

NS_PER_MS = 1_000_000
CLOSED_EARLY_NS = 5 * NS_PER_MS  # an alarm may wake late beside others' work; at most a quarter of the longest wait


class Gatherer:
    """The rule alone; times are arguments."""

    def __init__(self, *, max_items: int, max_wait_ns: int) -> None:
        if max_items < 1 or max_wait_ns < 0:
            raise ValueError("a micro-batch holds at least one item and waits no negative time")
        self._max_items = max_items
        self._max_wait_ns = max_wait_ns
        self._close_after_ns = max_wait_ns - min(CLOSED_EARLY_NS, max_wait_ns // 4)
        self._held: list[Due] = []
        self._last_two_ns: deque[int] = deque(maxlen=2)

    def arrive(self, due: Due, *, idle: bool) -> list[Due]:
        """The batch that this arrival completes, empty while it is still gathered. `idle`: nothing is in flight."""
        times = (*self._last_two_ns, due.t_scheduled_ns)
        sparse = len(times) < 3 or any(after - before >= self._max_wait_ns for before, after in pairwise(times))
        self._last_two_ns.append(due.t_scheduled_ns)
        self._held.append(due)
        full = len(self._held) >= self._max_items
        return self.take() if full or ((idle or sparse) and len(self._held) == 1) else []

    @property
    def due_ns(self) -> int | None:
        """When what is held must go, None while nothing is: so much before the longest wait that waking up for it does
        not pass it."""
        return self._held[0].t_scheduled_ns + self._close_after_ns if self._held else None

    def take(self) -> list[Due]:
        held, self._held = self._held, []
        return held


class Gathered(NamedTuple):
    """A batch on its way: when it was closed, and how long it waited for a free slot then."""

    number: int
    t_ns: int
    slot_wait_ns: int


class Batcher:
    """Arrivals at their times, gathered, sent as lists."""

    def __init__(self, cell: Cell, load: MicroBatch) -> None:
        """Raises ValueError where the dialect sends no lists."""
        if not cell.target.dialect.LISTS:
            raise ValueError(f"dialect {cell.plan.dialect} sends no lists, so nothing can be gathered into one request")
        self._cell = cell
        self._load = load
        self._gatherer = Gatherer(max_items=load.max_items, max_wait_ns=round(load.max_wait_ms * NS_PER_MS))
        self._slots = Slots(cell, cell.shard.part(cell.plan.offered_concurrency))
        self._waiting: deque[tuple[list[Due], int]] = deque()
        self._asking = asyncio.TaskGroup()
        self._in_flight = 0
        self._alarm = Alarm()
        self._batches = 0

    async def run(self) -> None:
        await run_arrivals(self._cell, self._load.arrivals, self._slots, self._alarm, self._work)

    async def _work(self, due: deque[int]) -> None:
        async with self._asking:
            await self._gather(due)
            await self._work_off()

    async def _gather(self, coming: deque[int]) -> None:
        """Every arrival at its time up to the stop, and what was due by then; what is held then goes at once."""
        while not self._cell.stopping:
            next_ns = min(coming[0] if coming else FAR_NS, self._gatherer.due_ns or FAR_NS)
            await self._alarm.until(min(next_ns, self._cell.window_end_ns))
            self._take_due(coming, time.monotonic_ns())
        self._take_due(coming, self._cell.stopped_ns - 1)
        self._send(self._gatherer.take())

    def _take_due(self, coming: deque[int], until_ns: int) -> None:
        """In the order of the times: what must go before the next arrival goes without it. At most MOST_AT_ONCE, so that
        a client far behind still reads its answers; all of them once stopped."""
        most = FAR_NS if self._cell.stopping else MOST_AT_ONCE
        until_ns = min(until_ns, self._cell.stopped_ns - 1)
        while most and coming and coming[0] <= until_ns:
            most -= 1
            self._send_expired(coming[0])
            if not self._arrived(coming.popleft()):
                return
        self._send_expired(until_ns)

    def _send_expired(self, t_ns: int) -> None:
        gathered_ns = self._gatherer.due_ns
        if gathered_ns is not None and gathered_ns <= t_ns:
            self._send(self._gatherer.take())

    def _arrived(self, t_ns: int) -> bool:
        prepared = self._cell.take()
        if prepared is None:
            return False
        due = Due(prepared, t_ns, self._cell.phase_at(t_ns))
        self._send(self._gatherer.arrive(due, idle=not self._in_flight and not self._waiting))
        return True

    def _send(self, batch: list[Due]) -> None:
        """Off with it: where no slot is free it waits for one, which is no gathering any more."""
        if batch:
            self._waiting.append((batch, time.monotonic_ns()))
        while self._waiting and self._cell.may_send:
            slot = self._slots.free()
            if slot is None:
                return
            items, gathered_ns = self._waiting.popleft()
            waited_ns = time.monotonic_ns() - gathered_ns
            number = self._cell.shard.number + self._batches * self._cell.shard.of
            self._batches += 1
            self._in_flight += 1
            self._asking.create_task(self._ask(slot, items, Gathered(number, gathered_ns, waited_ns)))

    async def _ask(self, slot: Slot, items: list[Due], gathered: Gathered) -> None:
        items = evened(self._cell, items)
        body = list_body(self._cell, items)
        exchange = await slot.ask(items, body, gathered_ns=gathered.t_ns)
        exchange.batch = gathered.number
        self._in_flight -= 1
        self._cell.finished(exchange, slot_wait_ns=gathered.slot_wait_ns)
        self._cell.note_batch(batch_record(exchange, gathered.number, gathered.t_ns))
        self._slots.give(slot)
        self._send([])

    async def _work_off(self) -> None:
        """What was gathered before the stop is still sent, unless a person wants the end; then it is told as never
        sent."""
        while self._waiting and self._cell.may_send:
            self._send([])
            await asyncio.sleep(WORK_OFF_EVERY_S)
        for items, _ in self._waiting:
            for due in items:
                self._cell.never_sent(due)
        self._waiting.clear()


def evened(cell: Cell, items: list[Due]) -> list[Due]:
    """A list is asked for one length of answers: that of its longest, which is then what each was asked for."""
    most = max(due.prepared.asked_output_tokens for due in items)
    more = sum(most - due.prepared.asked_output_tokens for due in items)
    if not more:
        return items
    cell.spent(requests=0, tokens=more)
    return [
        due._replace(prepared=msgspec.structs.replace(due.prepared, asked_output_tokens=most)) for due in items
    ]  # fmt: skip


def list_body(cell: Cell, items: Sequence[Due]) -> bytes:
    """One request for all items; a single one goes out as it was built."""
    if len(items) == 1:
        return items[0].prepared.body
    model, ignore_eos = cell.plan.model, cell.plan.ignore_eos
    asks = [
        Ask(
            model=model,
            messages=(),
            text=due.prepared.text,
            max_tokens=due.prepared.asked_output_tokens,
            stream=False,
            ignore_eos=ignore_eos,
        )
        for due in items
    ]
    return cell.target.dialect.body(asks)


def batch_record(exchange: Exchange, number: int, gathered_ns: int) -> BatchRecord:
    """What the server told of the whole request; of a single item that is the item's own."""
    first, alone = exchange.answer, len(exchange.items) == 1
    assert exchange.outcome is not None
    return BatchRecord(
        batch=number,
        items=len(exchange.items),
        t_gathered_ns=gathered_ns,
        t_sent_ns=exchange.t_sent_ns,
        t_end_ns=first.t_end_ns,
        outcome=exchange.outcome,
        prompt_tokens=first.prompt_tokens if alone else first.batch_prompt_tokens,
        output_tokens=first.output_tokens if alone else first.batch_output_tokens,
    )


async def drive(cell: Cell) -> None:
    load = cell.plan.load
    assert isinstance(load, MicroBatch)
    await Batcher(cell, load).run()
