"""Requests on several slots at once, against a server that is already there."""

from __future__ import annotations

import asyncio
import time

from benchmarks.engine.dialects.base import Ask
from benchmarks.engine.exchange import Due
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.prompts import Workload
from benchmarks.engine.terms import Phase, RequestRecord
from benchmarks.engine.wire import Slot, Target

APART_S = 0.02


def at_once(plan: CellPlan, count: int, *, first: int = 0) -> list[RequestRecord]:
    """Requests `first` and on, each on a slot of its own, sent in that order a little apart; their records in order."""

    async def run() -> list[RequestRecord]:
        target, workload = Target(plan), Workload(plan)
        slots = [Slot(target, number) for number in range(count)]
        for slot in slots:
            await slot.open()

        async def one(slot: Slot, number: int) -> RequestRecord:
            await asyncio.sleep(number * APART_S)
            prepared = workload.build(first + number)
            exchange = await slot.ask((Due(prepared, time.monotonic_ns(), Phase.WINDOW),), prepared.body)
            return exchange.records()[0]

        records = await asyncio.gather(*(one(slot, number) for number, slot in enumerate(slots)))
        for slot in slots:
            await slot.close()
        return list(records)

    return asyncio.run(run())


def together(plan: CellPlan, count: int) -> list[RequestRecord]:
    """`count` items as one list in one request; their records in order."""

    async def run() -> list[RequestRecord]:
        target, workload = Target(plan), Workload(plan)
        items = [Due(workload.build(number), time.monotonic_ns(), Phase.WINDOW) for number in range(count)]
        asks = [
            Ask(model=plan.model, messages=(), text=item.prepared.text, max_tokens=item.prepared.asked_output_tokens)
            for item in items
        ]
        slot = Slot(target)
        exchange = await slot.ask(items, target.dialect.body(asks))
        await slot.close()
        return exchange.records()

    return asyncio.run(run())
