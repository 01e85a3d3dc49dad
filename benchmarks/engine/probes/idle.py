"""Idle: what the host draws, holds and how warm it is when nobody asks it anything."""

from __future__ import annotations

import numpy as np

from benchmarks.engine.column_types import Columns, Floats
from benchmarks.engine.probe_plan import Idle
from benchmarks.engine.probes.asking import Asking
from benchmarks.engine.probes.seen import Series, cut_short, series, why_absent, window_s
from benchmarks.engine.runner import Cell
from benchmarks.engine.verdicts import NOT_JUDGED, Figure, ProbeVerdict, said
from benchmarks.stats.per_cent import per_cent

# Reading, its unit, and whether the host must hold it to be called at rest.
READINGS = (
    ("gpu_power_w", "W", True),
    ("gpu_temperature_c", "degC", True),
    ("vram_used_bytes", "bytes", True),
    ("gpu_utilization_share", "share", False),
    ("host_memory_used_bytes", "bytes", True),
    ("host_cpu_share", "share", False),
)


async def drive(cell: Cell) -> None:
    probe = cell.plan.probe
    assert isinstance(probe, Idle)
    asking = Asking(cell)
    await asking.begin()
    await cell.pause(probe.idle_s)
    asking.end()


def judge(columns: Columns) -> ProbeVerdict:
    probe, window = columns.plan.probe, window_s(columns)
    assert isinstance(probe, Idle)
    if window is None:
        return said(columns, NOT_JUDGED, {}, (cut_short(columns) or "No time without load was watched.",))
    figures: dict[str, Figure] = {"watched": Figure(value=window[1] - window[0], unit="s")}
    reasons, moved, judged = [], [], 0
    for name, unit, must_hold in READINGS:
        found = series(columns, name, from_s=window[0], to_s=window[1])
        if not found:
            figures[name] = Figure(value=None, unit=unit)
            reasons.append(f"{name}: {why_absent(columns, name)}.")
        for one in found:
            key = f"{name} {one.device}".strip()
            figures[key] = Figure(value=float(one.values.mean()), unit=unit, n=len(one.values))
            figures[f"{key} peak"] = Figure(value=float(one.values.max()), unit=unit, n=len(one.values))
            if must_hold and len(one.values) >= probe.least_readings:
                judged += 1
                if not _holds(one, probe.steady_within):
                    moved.append(f"{key} moved by more than {per_cent(probe.steady_within)} between its halves.")
    short = cut_short(columns)
    if short or not judged:
        few = f"No reading came {probe.least_readings} times or more."
        return said(columns, NOT_JUDGED, figures, (short or few, *reasons))
    return said(columns, "moving" if moved else "steady", figures, (*moved, *reasons))


def _holds(one: Series, within: float) -> bool:
    """Whether the later half is within a share of the earlier one."""
    half = len(one.values) // 2
    early, late = _mean(one.values[:half]), _mean(one.values[-half:])
    return abs(late - early) <= within * abs(early)


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else 0.0
