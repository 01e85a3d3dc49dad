"""What earlier measurements on the same host say of a plan: the power its GPUs drew, and how quickly a closed loop answered.

Nothing is made up: where nothing was measured the plan says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from benchmarks.engine.summary_types import CellSummary, from_json
from benchmarks.models import Cell, Runtime, Workload
from benchmarks.records.modes import Mode

MOST_CELLS = 48
POWER = "gpu_power_w"
JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Past:
    """By setting: mean power of all GPUs together in watts. By class and setting: requests answered each second.
    `rates_of` is the newest grid that the rates come from."""

    power_w: Mapping[int, float]
    rates: Mapping[str, Mapping[int, float]]
    power_of: int | None = None
    rates_of: int | None = None

    def energy_kwh(self, settings: Sequence[int], each_s: float, probes_s: float) -> float | None:
        """Of the GPUs, at the power that the nearest measured setting drew; None where none was measured."""
        if not self.power_w or not settings:
            return None
        watts = [nearest(self.power_w, setting) for setting in settings]
        return (sum(one * each_s for one in watts) + max(watts) * probes_s) / JOULES_PER_KWH

    def requests(self, settings: Sequence[int], class_names: Sequence[str], each_s: float) -> dict[str, float] | None:
        """Requests of each class over all settings, once each; None where one of the classes was never measured."""
        if not settings or any(not self.rates.get(name) for name in class_names):
            return None
        return {name: sum(nearest(self.rates[name], s) * each_s for s in settings) for name in class_names}


def past_of(runtime: Runtime, workload: Workload | None) -> Past:
    """From the newest measured cells of the host: two queries at most, and no raw sample."""
    rows = Cell.objects.filter(
        hardware_id=runtime.hardware_id, status=Cell.Status.MEASURED, probe="", summary__isnull=False
    )
    wanted = rows.select_related("grid__runtime", "grid__workload").order_by("-finished_at")[:MOST_CELLS]
    power: dict[int, list[float]] = {}
    rates: dict[str, dict[int, list[float]]] = {}
    power_of = rates_of = None
    for cell in wanted:
        summary = from_json(cell.summary)
        if (watts := _power(summary)) is not None and power_of in (None, cell.grid_id):
            power_of = cell.grid_id
            power.setdefault(cell.setting, []).append(watts)
        if _alike(cell, runtime, workload) and summary.completed_per_s and rates_of in (None, cell.grid_id):
            rates_of = cell.grid_id
            rates.setdefault(cell.class_name, {}).setdefault(cell.setting, []).append(summary.completed_per_s)
    return Past(
        power_w={setting: _mean(found) for setting, found in power.items()},
        rates={name: {s: _mean(found) for s, found in by.items()} for name, by in rates.items()},
        power_of=power_of,
        rates_of=rates_of,
    )


def nearest(found: Mapping[int, float], setting: int) -> float:
    """The value of the setting whose ratio to this one is nearest to 1."""
    return found[min(found, key=lambda one: abs(log(one / setting)))]


def _alike(cell: Cell, runtime: Runtime, workload: Workload | None) -> bool:
    grid = cell.grid
    if workload is None or grid.mode != Mode.CLOSED:
        return False
    return grid.runtime.slug == runtime.slug and grid.workload.slug == workload.slug


def _power(summary: CellSummary) -> float | None:
    """Of all cards together."""
    read = [gauge.mean for gauge in summary.gauges if gauge.name == POWER]
    return sum(read) if read else None


def _mean(found: Sequence[float]) -> float:
    return sum(found) / len(found)
