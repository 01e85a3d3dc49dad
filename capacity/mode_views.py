"""One page for a workload: grids of each way of batching side by side, each in its own terms, never ranked as one number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, allow, person
from benchmarks.models import Cell, Grid, Workload
from benchmarks.queries import CellEvidence, cell_evidence, grids_of, limits_of
from benchmarks.records.mode_words import WORDS, ModeWords
from benchmarks.records.modes import Mode
from capacity import mode_tables
from capacity.downloads import table
from capacity.exports import csv_of, json_of
from capacity.mode_tables import HEALTH, OWN, Column, Table, Value

MOST_GRIDS = 6
"""Of each way of batching; older ones are in the list of grids and in the file."""
BATCHING = (
    ("continuous", _("Continuous batching"),
     _("Requests arrive at different times and the runtime batches them itself. Judged by "
     "latency objectives and by how many requests a minute keep them."), (Mode.CLOSED, Mode.OPEN, Mode.SEARCH)),
    ("micro", _("Application micro-batching"), _("The client gathers items into one request for a while. Judged by the wait that "
     "this adds, and by the time of each item from its arrival."), (Mode.MICRO,)),
    ("static", _("Static batches"),
     _("A known set of items. Judged by completion inside a window: how many are done, and when the "
     "last one is."), (Mode.STATIC,)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Section:
    """One way of batching: its modes in words, its grids, and how many more there are."""

    key: str
    title: str
    sentence: str
    modes: tuple[tuple[Mode, ModeWords], ...]
    tables: tuple[Table, ...]
    more: int


@allow(EVERYONE)
@require_safe
def workload_modes(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    workload = _workload(request, slug, version)
    grids = _measured(request, workload)
    context = {"workload": workload, "sections": [_section(grids, *row) for row in BATCHING]}
    return render(request, "capacity/workload_modes.html", context)


@allow(EVERYONE)
@require_safe
def workload_modes_file(request: HttpRequest, slug: str, version: int, fmt: str) -> HttpResponse:
    """One row for each class of each measured cell; a column that a mode does not have is empty."""
    workload = _workload(request, slug, version)
    rows = [row for grid in _measured(request, workload) for row in _rows(grid)]
    body = csv_of(rows, list(rows[0]) if rows else ["grid"]) if fmt == "csv" else json_of(rows)
    return table(body, fmt, f"{workload.slug}-v{workload.version}-modes")


def _workload(request: HttpRequest, slug: str, version: int) -> Workload:
    return get_object_or_404(Workload, team=person(request).team, slug=slug, version=version)


def _measured(request: HttpRequest, workload: Workload) -> list[Grid]:
    """Grids of the same workload digest that have something measured, newest first, with their cells."""
    cells = Prefetch("cells", queryset=Cell.objects.filter(probe="").select_related("evidence").order_by("position"))
    rows = grids_of(person(request).team.pk).filter(workload__digest=workload.digest, cells__summary__isnull=False)
    return list(rows.distinct().order_by("-pk").prefetch_related(cells))


def _section(grids: Iterable[Grid], key: str, title: str, sentence: str, modes: tuple[Mode, ...]) -> Section:
    mine = [grid for grid in grids if grid.mode in modes]
    shown = tuple(mode_tables.table(grid, _cells(grid)) for grid in mine[:MOST_GRIDS])
    return Section(key, title, sentence, tuple((mode, WORDS[mode]) for mode in modes), shown, len(mine) - len(shown))


def _cells(grid: Grid) -> list[CellEvidence]:
    return [cell_evidence(cell) for cell in grid.cells.all()]


def _rows(grid: Grid) -> list[dict[str, Value]]:
    own = mode_tables.COLUMNS[Mode(grid.mode)]
    found = mode_tables.seen(_cells(grid), limits_of(grid), grid.window_s, grid.mode)
    return [_row(grid, one, own) for one in found]


def _row(grid: Grid, one: mode_tables.Seen, own: tuple[Column, ...]) -> dict[str, Value]:
    words = WORDS[Mode(grid.mode)]
    empty: dict[str, Value] = {
        column.key: None for columns in (*mode_tables.COLUMNS.values(), OWN) for column in columns
    }
    return {
        "grid": grid.pk, "grid_name": grid.name, "simulated": grid.simulated, "hardware": grid.hardware.slug,
        "runtime": f"{grid.runtime.slug} {grid.runtime.version}", "batching": words.batching, "mode": grid.mode,
        "mode_terms": grid.load_words, "setting": one.cell.setting, "setting_means": words.setting,
        "cell": one.cell.cell_id, "class_name": one.label, "repeat": one.cell.repeat, "status": one.cell.status,
        "started_at": one.cell.started_at.isoformat() if one.cell.started_at else None, "window_s": grid.window_s,
        **empty, **mode_tables.plain(one, own), **mode_tables.plain(one, HEALTH),
        "evidence_sha256": one.cell.evidence_sha256,
    }  # fmt: skip
