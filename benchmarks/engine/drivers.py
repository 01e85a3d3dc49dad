"""Which driver offers which load."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from benchmarks.engine import closed_loop, micro_batch, open_loop, static_batch
from benchmarks.engine.load import Closed, Load, MicroBatch, OpenLoop
from benchmarks.engine.runner import Cell
from benchmarks.engine.static_batch import Ledger

Driver = Callable[[Cell], Awaitable[None]]


def driver_of(load: Load, ledger: Ledger | None = None) -> Driver:
    """`ledger`: what earlier runs of a static batch left."""
    if isinstance(load, Closed):
        return closed_loop.drive
    if isinstance(load, OpenLoop):
        return open_loop.drive
    if isinstance(load, MicroBatch):
        return micro_batch.drive
    return functools.partial(static_batch.drive, ledger=ledger or static_batch.NOTHING)
