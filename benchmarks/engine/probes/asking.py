"""How a probe asks: any class at any moment, under a role, inside the plan's ceilings, ended by the plan's stops."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from benchmarks.engine.closed_loop import pause_after_s
from benchmarks.engine.exchange import Due, Exchange
from benchmarks.engine.plan import ClassPlan
from benchmarks.engine.prompts import Prepared
from benchmarks.engine.runner import Cell
from benchmarks.engine.terms import Outcome
from benchmarks.engine.wire import Slot

NS = 1_000_000_000
LOOK_EVERY_S = 0.005


class Asking:
    """Over one cell. The window is from `begin` to `end`: all of a probe's requests belong to it. `ended` counts what
    `keep_asking` asked, by role."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.ended: Counter[str] = Counter()

    async def begin(self) -> None:
        await self.cell.begin_whole(None)

    def end(self) -> None:
        """The probe is through: what it found is complete."""
        self.cell.whole_is_over()

    async def slots(self, count: int) -> list[Slot]:
        """With open connections, so that none waits for its own."""
        slots = [self.cell.new_slot() for _ in range(count)]
        await asyncio.gather(*(slot.open() for slot in slots))
        return slots

    def prepare(self, length_class: ClassPlan | None = None) -> Prepared | None:
        """Of this class, else of whichever the plan's dice say. None once a ceiling is reached, which ends the cell with
        it as the reason, or after a stop."""
        if self.cell.stopping:
            return None
        prepared = self.cell.supply.take_of(length_class)
        if prepared is None:
            self.cell.end(self.cell.supply.ended)
        return prepared

    def may_try_again(self, prepared: Prepared) -> bool:
        """Before another attempt at the same request: attempts count against the ceilings too."""
        again = not self.cell.stopping and self.cell.supply.take_again(prepared)
        if not again and not self.cell.stopping:
            self.cell.end(self.cell.supply.ended)
        return again

    async def ask(
        self, slot: Slot, prepared: Prepared, role: str, *, due_ns: int | None = None, attempt: int = 1
    ) -> Exchange:
        """To the end of the answer; its record is written."""
        t_ns = time.monotonic_ns() if due_ns is None else due_ns
        due = Due(prepared, t_ns, self.cell.phase_at(t_ns), attempt, role)
        exchange = await slot.ask((due,), prepared.body)
        self.cell.finished(exchange)
        return exchange

    async def keep_asking(self, slot: Slot, length_class: ClassPlan, role: str, enough: Callable[[], bool]) -> None:
        """A closed loop of one client, until there is enough or the cell stops; it pauses where it was refused."""
        while not enough() and not self.cell.stopping:
            prepared = self.prepare(length_class)
            if prepared is None:
                return
            exchange = await self.ask(slot, prepared, role)
            self.ended[role] += 1
            await self.cell.pause(max(0.0, pause_after_s(exchange)))

    def enough(self, role: str, count: int, least_s: float, stretch: float) -> Callable[[], bool]:
        """From now on: whether `least_s` have passed and so many of the role have ended, or `stretch` times as long."""
        began_s = time.monotonic()

        def is_enough() -> bool:
            passed_s = time.monotonic() - began_s
            return passed_s >= least_s * stretch or (passed_s >= least_s and self.ended[role] >= count)

        return is_enough

    async def until(self, came: Callable[[], bool], within_s: float) -> bool:
        """Whether it came true within the time, looked at every few milliseconds; False at a stop too."""
        until_s = time.monotonic() + within_s
        while not came():
            if time.monotonic() >= until_s or self.cell.stopping:
                return False
            await asyncio.sleep(LOOK_EVERY_S)
        return True


def leave(slot: Slot) -> int:
    """Ends the request in flight on it by closing its connection; the moment, in monotonic nanoseconds."""
    slot.interrupt(Outcome.CANCELLED)
    return time.monotonic_ns()
