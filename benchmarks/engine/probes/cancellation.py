"""Cancellation: what a runtime does for a client that has left, seen by one who waits.

All slots are filled, so a fresh request has to wait. A client leaves; the fresh request's headers, or its first token
where headers come at once, tell when the slot was free. Nothing is polled: polling a runtime's metrics or slots faster
than it bears keeps some from noticing that a client has left.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.engine.column_types import Columns
from benchmarks.engine.exchange import Exchange
from benchmarks.engine.probe_plan import Cancellation
from benchmarks.engine.probes.asking import Asking, leave
from benchmarks.engine.probes.cells import sized
from benchmarks.engine.probes.seen import Attempts, cut_short, of_role, quantile, seconds_of
from benchmarks.engine.runner import Cell
from benchmarks.engine.verdicts import NOT_JUDGED, Figure, ProbeVerdict, said
from benchmarks.engine.wire import Slot

FILL, FREEING, CALM = "fill", "freeing", "calm"
LAST_WORDS_S = 5.0  # the fresh request's answer is short: it may end
STREAM, PREFILL, WAITING = "stream", "prefill", "waiting"
KINDS = (STREAM, PREFILL, WAITING)
WAITED_SHARE = 0.95  # of the time given: what ended sooner was ended by somebody else
IN_WORDS = {STREAM: "in mid-stream", PREFILL: "during its prefill", WAITING: "while it waited"}


async def drive(cell: Cell) -> None:
    probe = cell.plan.probe
    assert isinstance(probe, Cancellation)
    asking = Asking(cell)
    if probe.slots is None:
        await asking.begin()
        asking.end()
        return
    slots = await asking.slots(probe.slots + 2)
    await asking.begin()
    tries = [_Try(asking, probe, slots, kind) for kind in KINDS for _ in range(probe.tries)]
    for one in tries:
        if not cell.stopping:
            await one.run()
    asking.end()


class _Try:
    """One leave, and the request that waits for what it frees. `slots`: as many as the runtime has, one for a client that
    waits, and one for the fresh request."""

    def __init__(self, asking: Asking, probe: Cancellation, slots: list[Slot], kind: str) -> None:
        self._asking, self._probe, self._kind = asking, probe, kind
        self._tasks: dict[Slot, asyncio.Task[Exchange]] = {}
        *self._fills, self._waiter, self._fresh = slots

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            if await self._leave():
                await self._asking.until(lambda: self._has_text(self._fresh), self._probe.give_up_s)
                await self._asking.until(self._tasks[self._fresh].done, LAST_WORDS_S)
            for slot in self._tasks:
                leave(slot)
        await self._calm()

    async def _leave(self) -> bool:
        """Whether somebody left while a fresh request waited."""
        match self._kind:
            case "stream":
                return await self._in_mid_stream()
            case "prefill":
                return await self._during_prefill()
            case _:
                return await self._while_waiting()

    async def _in_mid_stream(self) -> bool:
        leaver, *others = self._fills
        filled = self._start(leaver, self._filling(), f"left_{STREAM}") and await self._fill(others)
        chunks = self._probe.stream_chunks
        if not filled or not await self._came(lambda: self._chunks(leaver) >= chunks) or not self._start_fresh():
            return False
        await self._asking.cell.pause(self._probe.queue_s / 2)
        leave(leaver)
        return True

    async def _during_prefill(self) -> bool:
        leaver, *others = self._fills
        if not await self._fill(others):
            return False
        length = (self._probe.prefill_prompt_tokens, self._probe.fill_output_tokens)
        if not self._start(leaver, length, f"left_{PREFILL}"):
            return False
        await self._asking.cell.pause(self._probe.prefill_after_s / 2)
        if not self._start_fresh():
            return False
        await self._asking.cell.pause(self._probe.prefill_after_s / 2)
        leave(leaver)
        return True

    async def _while_waiting(self) -> bool:
        """Whoever left must not have kept the place: the next slot to be free is the fresh request's."""
        first, *others = self._fills
        if not self._start(first, self._filling(), FREEING) or not await self._fill(others):
            return False
        if not await self._came(lambda: self._has_text(first)):
            return False
        if not self._start(self._waiter, self._filling(), f"left_{WAITING}"):
            return False
        await self._asking.cell.pause(self._probe.queue_s / 2)
        if not self._start_fresh():
            return False
        await self._asking.cell.pause(self._probe.queue_s / 2)
        leave(self._waiter)
        await self._asking.cell.pause(self._probe.queue_s)
        leave(first)
        return True

    async def _fill(self, slots: list[Slot]) -> bool:
        """Whether all of them are being answered."""
        started = [self._start(slot, self._filling(), FILL) for slot in slots]
        return all(started) and await self._came(lambda: all(self._has_text(slot) for slot in slots))

    async def _came(self, what: Callable[[], bool]) -> bool:
        """In time, and before any of the requests was over by itself."""

        def is_over() -> bool:
            return any(task.done() for task in self._tasks.values())

        return await self._asking.until(lambda: what() or is_over(), self._probe.fill_within_s) and not is_over()

    def _chunks(self, slot: Slot) -> int:
        """Of text, that have come to the request on its way."""
        exchange = slot.under_way
        return 0 if exchange is None else len(exchange.answer.stamps)

    def _has_text(self, slot: Slot) -> bool:
        return self._chunks(slot) > 0 or self._tasks[slot].done()

    def _filling(self) -> tuple[int, int]:
        return self._probe.fill_prompt_tokens, self._probe.fill_output_tokens

    def _start_fresh(self) -> bool:
        length = (self._probe.fresh_prompt_tokens, self._probe.fresh_output_tokens)
        return self._start(self._fresh, length, f"fresh_{self._kind}")

    def _start(self, slot: Slot, length: tuple[int, int], role: str) -> bool:
        """The request is on its way once the loop turns."""
        prepared = self._asking.prepare(sized(*length))
        if prepared is not None:
            self._tasks[slot] = self._group.create_task(self._asking.ask(slot, prepared, role))
        return prepared is not None

    async def _calm(self) -> None:
        """Until every slot answers again, so that one try does not stand in another's way."""
        async with asyncio.TaskGroup() as group:
            for slot in self._fills:
                prepared = self._asking.prepare(sized(self._probe.fresh_prompt_tokens, self._probe.fresh_output_tokens))
                if prepared is not None:
                    group.create_task(self._asking.ask(slot, prepared, CALM))


@dataclass(frozen=True)
class Seen:
    """One try: how long after the leave the slot was free, NaN where it never was in the time given, and why the try
    says nothing, empty where it does."""

    freed_s: float
    first_s: float
    void: str = ""


def judge(columns: Columns) -> ProbeVerdict:
    probe = columns.plan.probe
    assert isinstance(probe, Cancellation)
    if probe.slots is None:
        return said(
            columns, NOT_JUDGED, {}, ("How many slots the runtime has is not known, so they cannot be filled.",)
        )
    fills = of_role(columns, FILL)
    tries = {kind: _tries(columns, kind, fills, probe) for kind in KINDS}
    figures: dict[str, Figure] = {}
    for kind, found in tries.items():
        figures |= _figures(kind, [one for one in found if not one.void])
    sentences = tuple(_sentence(kind, found, probe, fills) for kind, found in tries.items())
    judged = np.array([one.freed_s for one in tries[STREAM] if not one.void])
    short = cut_short(columns)
    if not len(judged):
        return said(columns, NOT_JUDGED, figures, tuple(one for one in (short, *sentences) if one))
    word = "never_frees" if np.isnan(judged).any() else "frees_late"
    if (judged <= probe.frees_within_s).all():
        word = "frees_in_time"
    return said(columns, word, figures, tuple(one for one in (*sentences, short) if one))


def _tries(columns: Columns, kind: str, fills: Attempts, probe: Cancellation) -> list[Seen]:
    """In the order in which they were made. To each fresh request belongs the one that left last begun before it: one
    whose slots did not fill had no fresh one."""
    fresh = of_role(columns, f"fresh_{kind}")
    left = of_role(columns, f"left_{kind}").last_before(fresh.due_s)
    frees = of_role(columns, FREEING).last_before(fresh.due_s) if kind == WAITING else left
    found = []
    for row in range(min(len(left), len(fresh), len(frees))):
        t_s, headers_s, first_s = (float(one[row]) for one in (frees.closed_s, fresh.headers_s, fresh.first_s))
        started_s = headers_s if headers_s > t_s else first_s
        waited_s = float(fresh.closed_s[row]) - t_s
        void = _void(kind, left, fresh, row)
        if not void and first_s <= t_s:
            void = f"the fresh request was served while {probe.slots} slots were full, so there are more"
        if not void and (frees.ok[row] or _came_free(fills, float(fresh.due_s[row]), started_s)):
            void = "another slot came free by itself, so the requests that fill them must be longer"
        if not void and math.isnan(started_s) and not waited_s >= WAITED_SHARE * probe.give_up_s:
            void = "the run ended while it was waited for"
        found.append(Seen(started_s - t_s, first_s - t_s, void))
    return found


def _void(kind: str, left: Attempts, fresh: Attempts, row: int) -> str:
    """Why the two requests themselves say nothing; empty where they do."""
    if left.ok[row]:
        return "the request was over before its client could leave"
    if math.isnan(left.sent_s[row]) or math.isnan(fresh.sent_s[row]):
        return "a request could not be sent"
    if kind != STREAM and not math.isnan(left.first_s[row]):
        words = {PREFILL: "its prompt was through before it left", WAITING: "it did not wait"}
        return words[kind]
    if fresh.refused[row] or left.refused[row]:
        return "a request that should wait was refused"
    return ""


def _came_free(fills: Attempts, from_s: float, started_s: float) -> bool:
    """Whether one that filled a slot came to its own end while the fresh request waited."""
    until_s = math.inf if math.isnan(started_s) else started_s
    return bool((fills.ok & (fills.end_s > from_s) & (fills.end_s < until_s)).any())


def _figures(kind: str, found: list[Seen]) -> dict[str, Figure]:
    freed = np.array([math.inf if math.isnan(one.freed_s) else one.freed_s for one in found])
    first = np.array([math.inf if math.isnan(one.first_s) else one.first_s for one in found])
    return {
        f"{kind}_freed_median": seconds_of(quantile(freed, 0.5), len(found)),
        f"{kind}_freed_worst": seconds_of(quantile(freed, 1.0), len(found)),
        f"{kind}_first_token_median": seconds_of(quantile(first, 0.5), len(found)),
        f"{kind}_never_freed": Figure(value=float(np.isinf(freed).sum()), unit="tries", n=len(found)),
    }


def _sentence(kind: str, found: list[Seen], probe: Cancellation, fills: Attempts) -> str:
    judged = [one.freed_s for one in found if not one.void]
    if not found:
        return f"Leaving {IN_WORDS[kind]} was not tried: {_why_not_filled(probe, fills)}."
    voids = sorted({one.void for one in found if one.void})
    if not judged:
        return f"Leaving {IN_WORDS[kind]} says nothing: {'; '.join(voids)}."
    never = sum(math.isnan(one) for one in judged)
    told = f"A client that left {IN_WORDS[kind]} freed its slot "
    if kind == WAITING:
        told = "After a client had left while it waited, the next free slot came to the one behind it "
    tries = "1 try" if len(judged) == 1 else f"{len(judged)} tries"
    if never:
        return f"{told}not within {probe.give_up_s:g} s in {never} of {tries}."
    if len(judged) == 1:
        return f"{told}after {judged[0]:.2f} s in {tries}."
    return f"{told}after {min(judged):.2f} to {max(judged):.2f} s in {tries}."


def _why_not_filled(probe: Cancellation, fills: Attempts) -> str:
    if fills.refused.any():
        return "a request that should fill a slot was refused"
    if fills.ok.any():
        return "the answers that should fill the slots were over too soon"
    return f"the slots did not fill within {probe.fill_within_s:g} s"
