"""What a grid's cells come to, kept so that a list of grids need not read every summary of every cell. Made by the scheduler
once a grid has ended, never by a page; what is not kept yet a page works out for the rows that it shows."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence

import msgspec
from django.db.models import F

from benchmarks.engine.summary_types import CellSummary
from benchmarks.gates import worst_ratio
from benchmarks.models import Cell, Grid, GridFigures
from benchmarks.queries import limits_of
from benchmarks.records.modes import Mode
from benchmarks.templatetags.headroom import level

log = logging.getLogger(__name__)

AT_ONCE = 200
ENDED = (Grid.Status.MEASURED, Grid.Status.STOPPED, Grid.Status.WITHDRAWN)
_KEPT = [
    "version", "levels", "settings_shown", "cells_measured", "cells_total", "worst_ratio", "among_failures",
    "vram_peak_bytes", "host_memory_peak_bytes",
]  # fmt: skip


def keep() -> int:
    """The figures of ended grids that have none, or went on since; the newest first, AT_ONCE in one go. How many there
    were."""
    stale = Grid.objects.filter(status__in=ENDED).exclude(figures__version=F("progress_version")).order_by("-pk")
    found = figures_of(list(stale[:AT_ONCE]))
    GridFigures.objects.bulk_create(found.values(), update_conflicts=True, unique_fields=["grid"], update_fields=_KEPT)
    return len(found)


def figures_of(grids: Sequence[Grid]) -> dict[int, GridFigures]:
    """What the cells of each grid come to, read from their summaries; one query for however many grids."""
    if not grids:
        return {}
    wanted = ("grid_id", "position", "setting", "class_name", "repeat", "status", "summary")
    cells = Cell.objects.filter(probe="", grid__in=[grid.pk for grid in grids]).only(*wanted).order_by("position")
    by_grid: dict[int, list[Cell]] = {grid.pk: [] for grid in grids}
    for cell in cells:
        by_grid[cell.grid_id].append(cell)
    return {grid.pk: _figures(grid, by_grid[grid.pk]) for grid in grids}


def _figures(grid: Grid, cells: Sequence[Cell]) -> GridFigures:
    limits = limits_of(grid)
    summaries = {cell.pk: summary for cell in cells if (summary := _readable(cell))}
    ratios = {pk: worst_ratio(limits, summary) for pk, summary in summaries.items()}
    worst = max((r for r in ratios.values() if r is not None), default=None)
    beyond = worst is not None and math.isinf(worst)
    return GridFigures(
        grid_id=grid.pk,
        version=grid.progress_version,
        levels=list(_levels(grid, cells, ratios)),
        settings_shown=settings_of(grid, cells),
        cells_measured=sum(cell.status == Cell.Status.MEASURED for cell in cells),
        cells_total=len(cells),
        worst_ratio=None if beyond else worst,
        among_failures=beyond,
        vram_peak_bytes=_peak(summaries.values(), "vram_used_bytes"),
        host_memory_peak_bytes=_peak(summaries.values(), "host_memory_used_bytes"),
    )


def settings_of(grid: Grid, cells: Sequence[Cell]) -> list[int]:
    """The settings of the grid, ascending; of a search those that it came to."""
    return sorted({c.setting for c in cells}) if grid.mode == Mode.SEARCH else list(grid.setting_values)


def _readable(cell: Cell) -> CellSummary | None:
    """One damaged row does not keep all others from a list: it has no figures, and the log says which it is."""
    try:
        return cell.read_summary
    except msgspec.ValidationError as error:
        log.error("cell %s: its stored summary cannot be read: %s", cell.pk, error)
        return None


def _levels(grid: Grid, cells: Sequence[Cell], ratios: dict[int, float | None]) -> Iterable[str]:
    for name in grid.class_names:
        for setting in settings_of(grid, cells):
            here = [c for c in cells if c.class_name == name and c.setting == setting]
            known = [r for c in here if (r := ratios.get(c.pk)) is not None]
            if any(c.status == Cell.Status.RUNNING for c in here):
                yield "now"
            elif known:
                # An infinite p95 falls among failed requests: the far end of the scale, not "no result".
                yield "q6" if math.isinf(max(known)) else level(max(known))
            else:
                yield "qn"


def _peak(summaries: Iterable[CellSummary], name: str) -> float | None:
    return max((gauge.peak for s in summaries if (gauge := s.gauge(name))), default=None)
