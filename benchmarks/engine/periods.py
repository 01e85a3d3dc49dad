"""How often each source of telemetry is asked, and from which silence on there is a gap. Times are seconds."""

from __future__ import annotations

from benchmarks.engine.plan import CellPlan
from benchmarks.runtimes.metrics import poll_every_s

HOST_EVERY_S = 1.0
GAP_PERIODS = 3
SILENT_AT_LEAST_S = 10.0  # a source that a busy host holds up for a moment has not gone silent
LOCAL_SOURCES = frozenset({"psutil", "nvml"})


def metrics_period_s(plan: CellPlan) -> float:
    """Never faster than the runtime bears; the simulator bears more than any."""
    return max(plan.metrics_every_s, poll_every_s("simulator" if plan.simulated else plan.runtime_kind))


def host_period_s(plan: CellPlan) -> float:
    return min(HOST_EVERY_S, metrics_period_s(plan))


def gap_s(plan: CellPlan, source: str) -> float:
    """A source that says nothing for longer than this has a gap. `source` as a reading names it."""
    local = source.split(",")[0] in LOCAL_SOURCES
    return GAP_PERIODS * (host_period_s(plan) if local else metrics_period_s(plan))


def silent_after_s(plan: CellPlan) -> float:
    """A limited reading that has not come for longer than this is watched by nobody any more."""
    return max(SILENT_AT_LEAST_S, GAP_PERIODS * metrics_period_s(plan))
