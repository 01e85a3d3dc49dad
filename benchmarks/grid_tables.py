"""What the grid pages show, computed from rows: the list's lines, the stage table, live values with their limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import prefetch_related_objects
from django.utils.translation import gettext as _

from benchmarks.grid_figures import figures_of
from benchmarks.models import Conditions, Grid, GridFigures


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
    """The line of each grid, by its number. What an ended grid's cells come to is kept; the others' are read."""
    kept = {one.grid_id: one for one in GridFigures.objects.filter(grid__in=[grid.pk for grid in grids])}
    fresh = figures_of([g for g in grids if g.pk not in kept or kept[g.pk].version != g.progress_version])
    prefetch_related_objects(list(grids), "conditions")
    return {grid.pk: _line(grid, fresh.get(grid.pk) or kept[grid.pk]) for grid in grids}


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
