"""What the grid pages show, computed from rows: the list's lines, the stage table, live values with their limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
from django.db.models import QuerySet, prefetch_related_objects
from django.utils.translation import gettext as _

from benchmarks.engine.summary_types import CellSummary
from benchmarks.gates import worst_ratio
from benchmarks.models import Cell, Conditions, Grid, GridFigures
from benchmarks.queries import limits_of
from benchmarks.records.modes import Mode
from benchmarks.templatetags.headroom import level

_FIGURES = [
    "version", "levels", "settings_shown", "cells_measured", "cells_total", "worst_ratio", "among_failures",
    "vram_peak_bytes", "host_memory_peak_bytes",
]  # fmt: skip
ENDED = (Grid.Status.MEASURED, Grid.Status.STOPPED, Grid.Status.WITHDRAWN)


@dataclass(frozen=True, slots=True)
class GridLine:
    """One grid in a list. `levels` go class by class, settings ascending; None means not recorded, an infinite ratio that
    the worst p95 falls among failed requests."""

    grid: Grid
    levels: tuple[str, ...]
    settings: tuple[int, ...]
    measured: int
    total: int
    worst_ratio: float | None
    vram_peak_bytes: float | None
    host_memory_peak_bytes: float | None
    conditions: Conditions | None

    @property
    def columns(self) -> int:
        return len(self.settings)

    @property
    def label(self) -> str:
        """The picture of the grid in words."""
        return _("%(measured)s of %(total)s cells measured, settings %(settings)s by %(classes)s") % {
            "measured": self.measured, "total": self.total, "settings": ", ".join(map(str, self.settings)),
            "classes": ", ".join(self.grid.class_names),
        }  # fmt: skip


def lines_of(grids: Sequence[Grid]) -> dict[int, GridLine]:
    """The line of each grid, by its number. What an ended grid's cells come to is read from them once and kept."""
    kept = {one.grid_id: one for one in GridFigures.objects.filter(grid__in=[grid.pk for grid in grids])}
    stale = [grid for grid in grids if grid.pk not in kept or kept[grid.pk].version != grid.progress_version]
    fresh = figures_of(stale)
    GridFigures.objects.bulk_create(
        [fresh[grid.pk] for grid in stale if grid.status in ENDED],
        update_conflicts=True, unique_fields=["grid"], update_fields=_FIGURES,
    )  # fmt: skip
    prefetch_related_objects(list(grids), "conditions")
    return {grid.pk: _line(grid, fresh.get(grid.pk) or kept[grid.pk]) for grid in grids}


def fill(grids: QuerySet[Grid], *, most: int) -> None:
    """Makes what a list sorts by, for ended grids that have none yet."""
    lines_of(list(grids.filter(figures=None, status__in=ENDED).order_by("-pk")[:most]))


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
    summaries = {cell.pk: summary for cell in cells if (summary := summary_of(cell))}
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


def _line(grid: Grid, kept: GridFigures) -> GridLine:
    return GridLine(
        grid=grid,
        levels=tuple(kept.levels),
        settings=tuple(kept.settings_shown),
        measured=kept.cells_measured,
        total=kept.cells_total,
        worst_ratio=math.inf if kept.among_failures else kept.worst_ratio,
        vram_peak_bytes=kept.vram_peak_bytes,
        host_memory_peak_bytes=kept.host_memory_peak_bytes,
        conditions=next((c for c in grid.conditions.all() if c.phase == Conditions.Phase.BEFORE), None),
    )


def settings_of(grid: Grid, cells: Sequence[Cell]) -> list[int]:
    """The settings of the grid, ascending; of a search those that it came to."""
    return sorted({c.setting for c in cells}) if grid.mode == Mode.SEARCH else list(grid.setting_values)


def summary_of(cell: Cell) -> CellSummary | None:
    return msgspec.convert(cell.summary, CellSummary, strict=False) if cell.summary else None


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
