"""A static batch: a known set of items, in rounds of a size, each of them done once whatever is killed on the way.

The cell's log is the ledger. After each round it is on the disk; a run that finds an unfinished one reads which items
have ended and goes on with the others. An item has ended when it succeeded or failed as often as the plan allows; what
was under way when a run was killed is asked again, and only its record of then counts.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from benchmarks.engine.exchange import Due, Exchange
from benchmarks.engine.load import StaticBatch
from benchmarks.engine.micro_batch import batch_record, evened, list_body
from benchmarks.engine.runner import Cell
from benchmarks.engine.terms import BatchRecord, Frame, Header, Outcome, Phase, RequestRecord, Resumed
from benchmarks.engine.wire import Slot

PAUSE_AFTER_FAILURES_S = 0.25
MAX_RETRY_AFTER_S = 30.0


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier runs left: of every item asked so far the records and the tries that count, which items have ended,
    the tokens of all of them against the plan's ceiling, batches so far, and when the first run began, on this run's
    monotonic clock."""

    records: dict[int, int]
    tries: dict[int, int]
    ended: frozenset[int]
    tokens: int
    batches: int
    began_ns: int | None


# What we ended ourselves was no try of the server.
NOT_A_TRY = frozenset({Outcome.CANCELLED, Outcome.UNFINISHED})
NOTHING = Ledger(records={}, tries={}, ended=frozenset(), tokens=0, batches=0, began_ns=None)


def ledger_of(frames: Iterable[Frame], *, tries: int, wall_ns: int, monotonic_ns: int) -> Ledger:
    """Reads a log; the clocks are this run's."""
    records: dict[int, int] = {}
    counted: dict[int, int] = {}
    ended: set[int] = set()
    tokens, batches, began_ns, shift_ns = 0, 0, None, 0
    for frame in frames:
        if isinstance(frame, (Header, Resumed)):
            shift_ns = (frame.wall_ns - frame.monotonic_ns) - (wall_ns - monotonic_ns)
        elif isinstance(frame, RequestRecord):
            index = frame.index
            records[index] = records.get(index, 0) + 1
            counted[index] = counted.get(index, 0) + (frame.outcome not in NOT_A_TRY)
            began_ns = frame.t_scheduled_ns + shift_ns if began_ns is None else began_ns
            tokens += frame.intended_prompt_tokens + frame.asked_output_tokens
            batches = max(
                batches, 0 if frame.batch is None else frame.batch + 1
            )  # a killed round has no record of its own
            if frame.outcome is Outcome.OK or counted[index] >= tries:
                ended.add(index)
        elif isinstance(frame, BatchRecord):
            batches = max(batches, frame.batch + 1)
    return Ledger(
        records=records, tries=counted, ended=frozenset(ended), tokens=tokens, batches=batches, began_ns=began_ns
    )  # fmt: skip


class Rounds:
    """Hands out rounds of items: first those never tried, then those that failed, until all have ended."""

    def __init__(self, load: StaticBatch, ledger: Ledger) -> None:
        self._load = load
        self._waiting = deque(index for index in range(load.items) if index not in ledger.ended)
        self._records = dict(ledger.records)
        self._tries = dict(ledger.tries)
        self._batches = ledger.batches
        self.left = len(self._waiting)

    def take(self) -> tuple[int, list[tuple[int, int]]] | None:
        """The next round's number and its (item, attempt); None while nothing waits."""
        if not self._waiting:
            return None
        items = [self._waiting.popleft() for _ in range(min(self._load.batch_size, len(self._waiting)))]
        self._batches += 1
        return self._batches - 1, [(index, self._records.get(index, 0) + 1) for index in items]

    @property
    def asked(self) -> int:
        """How many items have a record."""
        return len(self._records)

    def note(self, index: int, outcome: Outcome) -> None:
        """One try of an item has ended."""
        self._records[index] = self._records.get(index, 0) + 1
        if outcome in NOT_A_TRY:
            self._waiting.append(index)
            return
        self._tries[index] = self._tries.get(index, 0) + 1
        if outcome is Outcome.OK or self._tries[index] >= self._load.tries:
            self.left -= 1
        else:
            self._waiting.append(index)


class Lane:
    """Runs rounds one after the other; a round is one list, or as many requests beside each other as it has items."""

    def __init__(self, cell: Cell, load: StaticBatch, rounds: Rounds) -> None:
        self._cell, self._rounds = cell, rounds
        self._as_list = cell.target.dialect.LISTS
        self._slots = [cell.new_slot() for _ in range(1 if self._as_list else min(load.batch_size, load.items))]

    async def open(self) -> None:
        await asyncio.gather(*(slot.open() for slot in self._slots))

    async def run(self) -> None:
        cell = self._cell
        while not cell.stopping and self._rounds.left:
            taken = self._rounds.take()
            if taken is None:
                await cell.pause(0.01)  # another lane's failures may come back
                continue
            number, tries = taken
            items = cell.items([index for index, _ in tries])
            if items is None:
                return
            t_ns = time.monotonic_ns()
            dues = [Due(item, t_ns, Phase.WINDOW, n) for item, (_, n) in zip(items, tries, strict=True)]
            exchanges = await self._ask(dues)
            await self._settle(number, exchanges)
            await self._pause_after(exchanges)

    async def _ask(self, dues: list[Due]) -> list[Exchange]:
        if self._as_list:
            dues = evened(self._cell, dues)
            return [await self._slots[0].ask(dues, list_body(self._cell, dues))]
        asked = (self._one(slot, due) for slot, due in zip(self._slots, dues, strict=False))
        return list(await asyncio.gather(*asked))

    async def _one(self, slot: Slot, due: Due) -> Exchange:
        return await slot.ask((due,), due.prepared.body)

    async def _settle(self, number: int, exchanges: Sequence[Exchange]) -> None:
        """Records first, on the disk, then the round counts."""
        for exchange in exchanges:
            exchange.batch = number
            for due, outcome in zip(exchange.items, exchange.outcomes(), strict=True):
                self._rounds.note(due.prepared.index, outcome)
            self._cell.finished(exchange)
        self._cell.note_batch(_round_record(number, exchanges))
        await self._cell.settle(self._rounds.asked)

    async def _pause_after(self, exchanges: Sequence[Exchange]) -> None:
        """A server that refuses is not asked again at once."""
        asked_s = [e.retry_after_s for e in exchanges if e.retry_after_s is not None]
        if asked_s or all(e.outcome is not Outcome.OK for e in exchanges):
            await self._cell.pause(min(max(asked_s, default=PAUSE_AFTER_FAILURES_S), MAX_RETRY_AFTER_S))
            if not self._cell.stopping:
                await asyncio.gather(*(slot.renew() for slot in self._slots))


def _round_record(number: int, exchanges: Sequence[Exchange]) -> BatchRecord:
    first = exchanges[0]
    if len(exchanges) == 1:
        return batch_record(first, number, first.t_ready_ns)
    ends = [e.answer.t_end_ns for e in exchanges]
    failed = [e.outcome for e in exchanges if e.outcome is not Outcome.OK and e.outcome is not None]
    return BatchRecord(
        batch=number,
        items=len(exchanges),
        t_gathered_ns=min(e.t_ready_ns for e in exchanges),
        t_sent_ns=min((e.t_sent_ns for e in exchanges if e.t_sent_ns is not None), default=None),
        t_end_ns=None if None in ends else max(t for t in ends if t is not None),
        outcome=failed[0] if failed else Outcome.OK,
        prompt_tokens=_sum([e.answer.prompt_tokens for e in exchanges]),
        output_tokens=_sum([e.answer.output_tokens for e in exchanges]),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


async def drive(cell: Cell, ledger: Ledger = NOTHING) -> None:
    """Ends with the last item, or with the plan's wall time."""
    load = cell.plan.load
    assert isinstance(load, StaticBatch)
    rounds = Rounds(load, ledger)
    lanes = [Lane(cell, load, rounds) for _ in range(cell.plan.offered_concurrency)]
    await asyncio.gather(*(lane.open() for lane in lanes))
    cell.spent(requests=sum(ledger.records.values()), tokens=ledger.tokens)
    await cell.begin_whole(ledger.began_ns)
    await cell.settle(rounds.asked)
    await cell.all_of(lane.run() for lane in lanes)
    cell.whole_is_over()
    if rounds.left:
        cell.end(f"stopped: {rounds.left} of {load.items} items are left")
    await cell.settle(rounds.asked)
