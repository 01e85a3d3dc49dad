"""The page of one cell: what was recorded around it, its attempts, its evidence, and the verdict of a behaviour probe."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from benchmarks import around, offered, probe_tables, queries, signing
from benchmarks.access import EVERYONE, allow, person
from benchmarks.models import Cell


@allow(EVERYONE)
@require_safe
def cell_detail(request: HttpRequest, pk: int, cell_id: int) -> HttpResponse:
    grid = get_object_or_404(queries.grids_of(person(request).team.pk), pk=pk)
    cell = get_object_or_404(grid.cells.select_related("evidence__key"), pk=cell_id)
    found = queries.cell_evidence(cell)
    attempts = list(cell.attempts.select_related("authorization"))
    context = {
        "grid": grid,
        "cell": cell,
        "found": found,
        "signature_holds": found.evidence_sha256 is not None and signing.evidence_is_signed(cell.evidence),
        "status": Cell.Status(cell.status).label,
        "line": probe_tables.line(found) if cell.probe else None,
        "told": probe_tables.told(found),
        "around": around.of_cell(cell, attempts),
        "attempts": attempts,
        "superseded": cell.superseded.all(),
        "read_backs": offered.read_backs(grid, cell.pk),
    }
    return render(request, "benchmarks/cell_detail.html", context)
