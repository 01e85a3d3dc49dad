"""Which module tries and judges which behaviour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from benchmarks.engine.column_types import Columns
from benchmarks.engine.probe_plan import (
    Cancellation,
    Fairness,
    Idle,
    LimitsProbe,
    Overload,
    Probe,
    Recovery,
    RetryStorm,
)
from benchmarks.engine.probes import cancellation, fairness, idle, limits, overload, recovery, retry_storm
from benchmarks.engine.runner import Cell
from benchmarks.engine.verdicts import ProbeVerdict

Drive = Callable[[Cell], Awaitable[None]]
Judge = Callable[[Columns], ProbeVerdict]

TABLE: dict[type[Probe], tuple[Drive, Judge]] = {
    Fairness: (fairness.drive, fairness.judge),
    Cancellation: (cancellation.drive, cancellation.judge),
    LimitsProbe: (limits.drive, limits.judge),
    Recovery: (recovery.drive, recovery.judge),
    Overload: (overload.drive, overload.judge),
    RetryStorm: (retry_storm.drive, retry_storm.judge),
    Idle: (idle.drive, idle.judge),
}


def drive_of(probe: Probe) -> Drive:
    return TABLE[type(probe)][0]


def judge(columns: Columns) -> ProbeVerdict:
    """Of a cell that is a probe."""
    assert columns.plan.probe is not None
    return TABLE[type(columns.plan.probe)][1](columns)
