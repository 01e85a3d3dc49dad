"""Which driver offers which load."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from benchmarks.engine import closed_loop, micro_batch, open_loop, static_batch
from benchmarks.engine.load import Closed, MicroBatch, OpenLoop
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.runner import Cell
from benchmarks.engine.static_batch import Ledger

Driver = Callable[[Cell], Awaitable[None]]


def driver_of(plan: CellPlan, ledger: Ledger | None = None) -> Driver:
    """`ledger`: what earlier runs of a static batch left."""
    if plan.probe is not None:
        from benchmarks.engine.probes.table import drive_of  # numpy for the judges, which plain load starts without

        return drive_of(plan.probe)
    if isinstance(plan.load, Closed):
        return closed_loop.drive
    if isinstance(plan.load, OpenLoop):
        return open_loop.drive
    if isinstance(plan.load, MicroBatch):
        return micro_batch.drive
    return functools.partial(static_batch.drive, ledger=ledger or static_batch.NOTHING)
