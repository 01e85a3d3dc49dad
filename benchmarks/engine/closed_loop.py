"""A closed loop: a fixed number of requests kept in flight, each slot asking again when its answer has ended."""

from __future__ import annotations

import asyncio
import time

from benchmarks.engine.exchange import Due, Exchange
from benchmarks.engine.prompts import Prepared
from benchmarks.engine.runner import Cell
from benchmarks.engine.terms import Outcome
from benchmarks.engine.wire import Slot

NS = 1_000_000_000
STAGGER_S = 0.5  # starts are spread over at most this long, so that the burst is not the measurement
STAGGER_PER_SLOT_S = 0.01
MAX_RETRY_AFTER_S = 30.0
REFUSED_PAUSE_S = 0.25  # without it a refusing server would burn the request ceiling in milliseconds
PAUSE_AFTER = frozenset(
    {Outcome.REJECTED, Outcome.REFUSED, Outcome.SERVER_ERROR, Outcome.CONNECT_ERROR, Outcome.CLIENT_FAULT}
)


async def drive(cell: Cell) -> None:
    slots = [cell.new_slot() for _ in range(cell.shard.part(cell.plan.offered_concurrency))]
    cell.build_ahead(at_most=len(slots))
    await asyncio.gather(*(slot.open() for slot in slots))  # so that no request waits for its connection
    await cell.begin()
    spread_s = 0.0 if cell.plan.burst_start else min(STAGGER_S, STAGGER_PER_SLOT_S * len(slots))
    await cell.all_of(_keep_asking(cell, slot, n * spread_s / len(slots)) for n, slot in enumerate(slots))


async def _keep_asking(cell: Cell, slot: Slot, after_s: float) -> None:
    """One slot's life: ask, record, pause where the server refused, think between the turns of a session, ask again."""
    if after_s:
        await cell.pause(after_s)
    last: Prepared | None = None
    while not cell.stopping:
        t_ns = time.monotonic_ns()  # due as soon as the slot is free
        prepared = cell.take(last) if t_ns < cell.window_end_ns else None
        if prepared is None:
            return
        exchange = await slot.ask((Due(prepared, t_ns, cell.phase_at(t_ns)),), prepared.body)
        cell.finished(exchange)
        last = prepared
        pause_s = max(0.0, pause_after_s(exchange))
        if cell.plan.sessions and cell.has_next_turn(prepared):
            pause_s += cell.plan.sessions.think_s
        if pause_s > 0:
            await cell.pause(pause_s)
            if not cell.stopping:
                await slot.renew()


def pause_after_s(exchange: Exchange) -> float:
    """How long a slot waits after what became of its request: as long as the server asked, or a stated pause. Any other
    failure pauses only where it came sooner than the pause would have ended."""
    if exchange.outcome in PAUSE_AFTER:
        return min(exchange.retry_after_s or REFUSED_PAUSE_S, MAX_RETRY_AFTER_S)
    if exchange.outcome is Outcome.OK or exchange.t_closed_ns is None:
        return 0.0
    return REFUSED_PAUSE_S - (exchange.t_closed_ns - exchange.t_ready_ns) / NS
