"""How a probe asks: any class at any moment, under a role, inside the plan's ceilings, ended by the plan's stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from benchmarks.engine.exchange import Due, Exchange
from benchmarks.engine.plan import ClassPlan, Fixed
from benchmarks.engine.prompts import Prepared
from benchmarks.engine.runner import Cell
from benchmarks.engine.terms import Outcome
from benchmarks.engine.wire import Slot

NS = 1_000_000_000
LOOK_EVERY_S = 0.005
PROBE_CLASS = "probe"


class Asking:
    """Over one cell. The window is from `begin` to `end`: all of a probe's requests belong to it."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

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
        """Of this class, else of whichever the plan's dice say. None once a ceiling is reached, which ends the cell with it as the reason, or after a stop."""
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

    async def until(self, came: Callable[[], bool], within_s: float) -> bool:
        """Whether it came true within the time, looked at every few milliseconds; False at a stop too."""
        until_s = time.monotonic() + within_s
        while not came():
            if time.monotonic() >= until_s or self.cell.stopping:
                return False
            await asyncio.sleep(LOOK_EVERY_S)
        return True


def sized(prompt_tokens: int, output_tokens: int) -> ClassPlan:
    """The one class of a probe that names its lengths itself."""
    return ClassPlan(
        name=PROBE_CLASS, weight=1.0, prompt_tokens=Fixed(prompt_tokens), output_tokens=Fixed(output_tokens)
    )  # fmt: skip


def leave(slot: Slot) -> int:
    """Ends the request in flight on it by closing its connection; the moment, in monotonic nanoseconds."""
    slot.interrupt(Outcome.CANCELLED)
    return time.monotonic_ns()
