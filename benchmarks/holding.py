"""Ends a claimed cell that must not be tried because its memory is foreseen not to suffice, and those that need more.

A stop is a result: each such cell says why, with the figures, and what was measured below stays.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from benchmarks import audit, claims, gates, probe, probing, searching
from benchmarks.claims import Claim
from benchmarks.models import Cell
from benchmarks.queries import load_cells
from benchmarks.records.modes import Mode


def hold_back(*, claim: Claim, reason: str) -> bool:
    """The claimed cell and those at its setting or above become not run. False when another attempt has taken over."""
    why = f"{gates.NOT_SAFE}{reason}"[:300]
    with transaction.atomic():
        claims.lock_grid(claim.grid_id)
        if not claims.held_by(claim).update(status=Cell.Status.NOT_RUN, finished_at=timezone.now(), reason=why):
            return False
        claims.end_attempt(claim, Cell.Status.STOPPED, why)
        cell = Cell.objects.select_related("grid__team").get(pk=claim.cell_id)
        audit.record(
            actor=f"worker {probe.claimant_host(claim.worker)}", verb="held back cell", subject=f"grid {claim.grid_id}",
            team=cell.grid.team, reason=why, changes={"cell": str(cell), "attempt": claim.attempt},
        )  # fmt: skip
        if cell.grid.mode == Mode.SEARCH:
            searching.close(cell.grid, reason)
        _waiting(cell).update(status=Cell.Status.NOT_RUN, reason=why)
        probing.lower(cell, why)
        claims.after_cell(claim.grid_id)
    return True


def _waiting(cell: Cell) -> QuerySet[Cell]:
    """Cells of the same class that need as much memory or more; each other class is foreseen in its turn. A search, which
    has drawn only the cells of one try, ends."""
    waiting = load_cells(cell.grid).filter(status__in=claims.WAITING)
    if cell.grid.mode == Mode.SEARCH:
        return waiting
    return waiting.filter(setting__gte=cell.setting, class_name=cell.class_name)
