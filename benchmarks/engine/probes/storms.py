"""Light load, more than the runtime can do, light load again: how overload and retry storm offer it.

Requests are due at times of their own, whatever the server does, and each lives until its last attempt has ended. Their
connections are opened as they are needed: a runtime that gives each connection a thread would be full of idle ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable

import numpy as np

from benchmarks.engine.alarm import Alarm
from benchmarks.engine.closed_loop import pause_after_s
from benchmarks.engine.exchange import Due, Exchange
from benchmarks.engine.load import Poisson
from benchmarks.engine.probe_plan import MEASURED_STRETCH, Overload, RetryStorm
from benchmarks.engine.probes.asking import NS, Asking
from benchmarks.engine.probes.storm_figures import CAPACITY, back_at_s, back_limit_s, capacity_per_s
from benchmarks.engine.prompts import Prepared
from benchmarks.engine.retrying import Retries
from benchmarks.engine.runner import Cell
from benchmarks.engine.schedule import offsets_ns
from benchmarks.engine.terms import Outcome
from benchmarks.engine.wire import Slot

TURNS = 3  # a client's answers, in the mean, before its rate is one
GRACE_S = 2.0  # for answers under way once the probe has seen what it wanted


class Places:
    """At most `most` requests in flight, each on an open connection where there is one to be had."""

    def __init__(self, cell: Cell, most: int) -> None:
        self.busy: set[Slot] = set()
        self._cell = cell
        self._free: list[Slot] = []
        self._room = asyncio.Semaphore(most)

    async def take(self) -> Slot:
        await self._room.acquire()
        slot = self._free.pop() if self._free else self._cell.new_slot()
        self.busy.add(slot)
        if not slot.is_open:
            await slot.open()
        return slot

    def give(self, slot: Slot) -> None:
        self.busy.remove(slot)
        self._free.append(slot)
        self._room.release()


class Crowd:
    """Clients of one retry policy, through one storm. `took_s` holds, by role, when each request was due and how long it
    took, in seconds: infinite while it has no good answer."""

    def __init__(self, asking: Asking, places: Places, retries: Retries, tasks: asyncio.TaskGroup) -> None:
        self.took_s: dict[str, dict[float, float]] = {}
        self._asking = asking
        self._cell = asking.cell
        self._places = places
        self._retries = retries
        self._tasks = tasks
        self._alarm = Alarm()
        self._over = asyncio.Event()
        self._cell.on_stop(self.end)

    def end(self) -> None:
        """No more attempts; those under way go on."""
        self._over.set()
        self._alarm.ring()

    async def leave(self) -> None:
        """Ends what is still under way after a moment, unless a stop lets it finish or has ended it."""
        self.end()
        await self._asking.until(lambda: not self._places.busy, GRACE_S)
        if not self._cell.stopping:
            for slot in list(self._places.busy):
                slot.interrupt(Outcome.CANCELLED)
        self._alarm.close()

    async def offer(
        self, role: str, rate_per_s: float, lasts_s: float, seed: int, *, until: Callable[[], bool] | None = None
    ) -> None:
        """Independent arrivals for so long, or until that is so; a rate of 0 is a pause."""
        began_ns = time.monotonic_ns()
        self.took_s[role] = {}
        offsets = offsets_ns(Poisson(rate_per_s), lasts_s, seed).tolist() if rate_per_s > 0 else []
        for offset_ns in offsets:
            if not await self._reached(began_ns + offset_ns) or (until is not None and until()):
                return
            prepared = self._asking.prepare()
            if prepared is None:
                return
            self._retries.scheduled()
            self._tasks.create_task(self._request(prepared, began_ns + offset_ns, role))
        await self._reached(began_ns + round(lasts_s * NS))

    def is_back(self, calm: str, after: str, probe: Overload | RetryStorm) -> bool:
        limit_s = back_limit_s(np.array(list(self.took_s[calm].values())), probe.back_within)
        due_s, took_s = (np.array(list(part)) for part in (self.took_s[after].keys(), self.took_s[after].values()))
        return limit_s is not None and back_at_s(due_s, took_s, limit_s, probe.steady) is not None

    async def _reached(self, t_ns: int) -> bool:
        """False at a stop."""
        while time.monotonic_ns() < t_ns and not self._cell.stopping:
            await self._alarm.until(t_ns)
        return not self._cell.stopping

    async def _request(self, prepared: Prepared, due_ns: int, role: str) -> None:
        first_ns, attempt = due_ns, 1
        self.took_s[role][first_ns / NS] = math.inf
        while True:
            exchange = await self._attempt(prepared, due_ns, role, attempt)
            if exchange is None:
                return
            assert exchange.outcome is not None
            assert exchange.t_closed_ns is not None
            if exchange.outcome is Outcome.OK and exchange.answer.t_end_ns is not None:
                self.took_s[role][first_ns / NS] = (exchange.answer.t_end_ns - first_ns) / NS
            age_s = (exchange.t_closed_ns - first_ns) / NS
            after_s = self._retries.next_s(
                prepared.index, attempt, exchange.outcome, exchange.retry_after_s, age_s=age_s
            )
            if after_s is None or not await self._waited(after_s) or not self._asking.may_try_again(prepared):
                return
            attempt, due_ns = attempt + 1, exchange.t_closed_ns + round(after_s * NS)

    async def _attempt(self, prepared: Prepared, due_ns: int, role: str, attempt: int) -> Exchange | None:
        """None where the end came before a place was free; its record says so."""
        slot = await self._places.take()
        try:
            if self._over.is_set():
                self._cell.never_sent(Due(prepared, due_ns, self._cell.phase_at(due_ns), attempt, role))
                return None
            return await self._asking.ask(slot, prepared, role, due_ns=due_ns, attempt=attempt)
        finally:
            self._places.give(slot)

    async def _waited(self, seconds: float) -> bool:
        """False where the end came first."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)
        return not self._over.is_set()


async def storm(
    asking: Asking, probe: Overload | RetryStorm, retries: Retries, roles: tuple[str, str, str], capacity: float
) -> None:
    """`roles` are those of the requests before, in and after it; `capacity` is in requests per second. The same seed gives
    the same arrivals, whatever the clients' policy."""
    calm, load, after = roles
    light, seed = probe.calm_share * capacity, asking.cell.arrival_seed
    places = Places(asking.cell, probe.most_in_flight)
    async with asyncio.TaskGroup() as tasks:
        crowd = Crowd(asking, places, retries, tasks)
        try:
            await crowd.offer(calm, light, probe.calm_s, seed)
            await crowd.offer(load, probe.times_capacity * capacity, probe.storm_s, seed + 1)
            await crowd.offer(after, light, probe.recovery_s, seed + 2, until=lambda: crowd.is_back(calm, after, probe))
        finally:
            await crowd.leave()


async def capacity(asking: Asking, probe: Overload | RetryStorm) -> float | None:
    """Requests per second, stated or measured now; None ends the cell with the reason."""
    if probe.capacity_per_s is not None:
        return probe.capacity_per_s
    due_s: list[float] = []
    end_s: list[float] = []
    began_s = time.monotonic()
    wanted = TURNS * probe.measure_clients

    def is_over() -> bool:
        passed_s = time.monotonic() - began_s
        enough = passed_s >= probe.measure_s and len(end_s) - end_s.count(math.nan) >= wanted
        return asking.cell.stopping or enough or passed_s >= MEASURED_STRETCH * probe.measure_s

    async def client(slot: Slot) -> None:
        while not is_over():
            prepared = asking.prepare()
            if prepared is None:
                return
            exchange = await asking.ask(slot, prepared, CAPACITY)
            due_s.append(exchange.items[0].t_scheduled_ns / NS)
            end_ns = exchange.answer.t_end_ns if exchange.outcome is Outcome.OK else None
            end_s.append(math.nan if end_ns is None else end_ns / NS)
            await asking.cell.pause(pause_after_s(exchange))

    slots = await asking.slots(probe.measure_clients)
    await asking.cell.all_of(client(slot) for slot in slots)
    found = capacity_per_s(np.array(due_s), np.array(end_s), probe.measure_clients)
    if found is None and not asking.cell.stopping:
        asking.cell.end("stopped: too few good answers to measure the capacity, state it in its place")
    return found
