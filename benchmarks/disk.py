"""Room on this host's disk: asked before a cell starts, named when it ran out during one."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

from django.conf import settings

from benchmarks.engine.load import Arrivals, MicroBatch, OpenLoop, Replay, StaticBatch, Steps
from benchmarks.engine.plan import CellPlan
from benchmarks.plans import largest

MIB = 1024 * 1024
LEAST_BYTES = 256 * MIB
"""What must be free whatever the cell is: room for the system, the broker's files and an embedded database."""
FULL_BYTES = 8 * MIB
"""Below this a disk is called full: a log writer needs more for its next minute."""
RECORD_BYTES = 600
TOKEN_BYTES = 12
"""A request's frame in the log, and what each of its tokens may add to it."""
COPIES = 3
"""The engine's log, the Parquet file in the spool, and in an embedded database."""
ANSWERS_PER_S = 20
"""Answers that one slot of a closed loop is taken to give in a second, at most; quicker ones are short ones."""


def refusal(plan: CellPlan) -> str | None:
    """Why this cell may not start for want of room, in words; None when there is enough."""
    free, need = free_bytes(), needed_bytes(plan)
    if free >= need:
        return None
    return (
        f"This host's disk has {free / MIB:,.0f} MiB free under {settings.VAR}; the cell may need {need / MIB:,.0f} MiB "
        f"for its log and its evidence. Free some room, then resume the grid."
    )


def needed_bytes(plan: CellPlan) -> int:
    """What the cell may write, from its plan: an estimate from above, and never less than LEAST_BYTES."""
    each = RECORD_BYTES + TOKEN_BYTES * min(max(largest(c.output_tokens) for c in plan.classes), plan.max_tokens)
    by_tokens = RECORD_BYTES * plan.max_requests + TOKEN_BYTES * plan.max_tokens
    return LEAST_BYTES + COPIES * min(_most_requests(plan) * each, by_tokens)


def free_bytes() -> int:
    """Free where logs and results are written; the folders may lie on disks of their own."""
    return min(
        shutil.disk_usage(_nearest(Path(settings.VAR) / name)).free for name in ("", "cells", "ledgers", "spool")
    )


def full_words() -> str:
    """A sentence when the disk is full now, to stand before what an engine or a file said; else empty."""
    free = free_bytes()
    return f"This host's disk is full ({free / MIB:.1f} MiB free under {settings.VAR}). " if free < FULL_BYTES else ""


def _nearest(where: Path) -> Path:
    """The folder itself, or the nearest above it that is there."""
    while not where.exists():
        where = where.parent
    return where


def _most_requests(plan: CellPlan) -> int:
    seconds = plan.warmup_s + plan.window_s
    if isinstance(plan.load, StaticBatch):
        return min(plan.max_requests, plan.load.items * plan.load.tries)
    if isinstance(plan.load, OpenLoop | MicroBatch):
        return min(plan.max_requests, math.ceil(_peak_per_s(plan.load.arrivals) * seconds * 2))
    return min(plan.max_requests, math.ceil(plan.offered_concurrency * seconds * ANSWERS_PER_S))


def _peak_per_s(arrivals: Arrivals) -> float:
    if isinstance(arrivals, Replay):
        return len(arrivals.offsets_s) / max(1.0, arrivals.offsets_s[-1] if arrivals.offsets_s else 1.0)
    if isinstance(arrivals, Steps):
        return max(rate for _, rate in arrivals.steps)
    return arrivals.rate_per_s
