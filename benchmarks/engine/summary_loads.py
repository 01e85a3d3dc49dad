"""What only some kinds of load have: an open loop's punctuality, the cost of gathering, the progress of a known set."""

from __future__ import annotations

import numpy as np

from benchmarks.engine.attempts import Issued
from benchmarks.engine.column_types import Bools, Columns, Floats
from benchmarks.engine.load import MicroBatch, OpenLoop, StaticBatch
from benchmarks.engine.summary_types import MicroBatchSummary, OpenLoopSummary, StaticBatchSummary
from benchmarks.engine.times import NS, Times
from benchmarks.stats.quantiles import tail
from benchmarks.stats.shares import share

ON_TIME_S = 0.002
NS_PER_MS = 1e6


def open_loop(columns: Columns, issued: Issued, inside: Bools) -> OpenLoopSummary | None:
    """None unless arrivals had times of their own."""
    if not isinstance(columns.plan.load, OpenLoop | MicroBatch):
        return None
    late_s = _late_s(issued)[inside]
    due = 0 if columns.end is None or columns.end.planned is None else columns.end.planned
    planned = max(due, len(late_s))
    never = np.full(planned - len(late_s), np.inf)
    late_s = np.concatenate((late_s, never))
    window, sent = columns.window, issued.first_sent
    length_s = 0.0 if window is None else (window.end_ns - window.start_ns) / NS
    written = 0
    if window is not None:
        written = int((sent.known & (sent.values >= window.start_ns) & (sent.values < window.end_ns)).sum())
    finite = late_s[np.isfinite(late_s)]
    return OpenLoopSummary(
        planned=planned,
        requested_per_s=planned / length_s if length_s > 0 else None,
        sent_per_s=written / length_s if length_s > 0 else None,
        on_time=share(int((late_s <= ON_TIME_S).sum()), planned),
        late_s=tail(late_s),
        late_max_s=float(finite.max()) if finite.size else None,
    )


def _late_s(issued: Issued) -> Floats:
    """Seconds from due to first written, infinite where it never was. What a micro-batch waits for is not lateness."""
    gathered, sent = issued.requests.masked["gathered_ns"], issued.first_sent
    due = np.where(gathered.known, gathered.values, issued.requests.plain["t_scheduled_ns"])
    return np.where(sent.known, np.maximum(sent.values - due, 0) / NS, np.inf)


def micro_batch(columns: Columns, issued: Issued, inside: Bools) -> MicroBatchSummary | None:
    load = columns.plan.load
    if not isinstance(load, MicroBatch):
        return None
    requests = issued.requests
    gathered, batch = requests.masked["gathered_ns"], requests.masked["batch"]
    rows = inside & gathered.known
    wait_ns = (gathered.values - requests.plain["t_scheduled_ns"])[rows]
    wait_s = wait_ns / NS
    # A batch at the window's edge counts with all its items, not with those inside alone.
    numbers = np.unique(batch.values[rows & batch.known])
    items = int((batch.known & np.isin(batch.values, numbers)).sum())
    return MicroBatchSummary(
        batches=len(numbers),
        items_per_batch=items / len(numbers) if len(numbers) else None,
        added_wait_s=tail(wait_s),
        added_wait_max_s=float(wait_s.max()) if wait_s.size else None,
        over_max_wait=int((wait_ns > load.max_wait_ms * NS_PER_MS).sum()),
    )


def static_batch(columns: Columns, times: Times) -> StaticBatchSummary | None:
    load = columns.plan.load
    if not isinstance(load, StaticBatch):
        return None
    done = int(times.ok.sum())
    span_s = _makespan_s(columns)
    numbers = columns.requests.masked["batch"]
    batches = set(columns.batches.plain["batch"].tolist()) | set(np.unique(numbers.values[numbers.known]).tolist())
    return StaticBatchSummary(
        items=load.items,
        done=done,
        failed=len(times.ok) - done,
        open=max(0, load.items - len(times.ok)),
        batches=len(batches),
        makespan_s=span_s,
        items_per_s=done / span_s if span_s else None,
        resumed=len(columns.resumed),
    )


def _makespan_s(columns: Columns) -> float | None:
    closed = columns.requests.masked["t_closed_ns"]
    if not closed.known.any():
        return None
    return float(closed.values[closed.known].max() - columns.requests.plain["t_scheduled_ns"].min()) / NS
