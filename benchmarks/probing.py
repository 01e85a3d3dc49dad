"""At which setting a grid's behaviour probes run, and when they no longer may.

They come after all load, at the highest setting whose cells passed their gates: they are drawn at the highest that is
asked, and fall below one that was found not safe. Without any that passed they do not run.
"""

from __future__ import annotations

from django.db.models import Max, QuerySet

from benchmarks import gates
from benchmarks.models import Cell
from benchmarks.queries import load_cells
from benchmarks.records.probes import WORDS

_WAITING = (Cell.Status.PLANNED, Cell.Status.QUEUED)


def lower(refused: Cell, reason: str) -> None:
    """After a cell of load that failed its gate or was stopped: waiting probes fall to the highest setting below it."""
    below = load_cells(refused.grid).filter(setting__lt=refused.setting, status=Cell.Status.MEASURED)
    safe = below.aggregate(highest=Max("setting"))["highest"]
    beyond = _waiting_probes(refused).filter(setting__gte=refused.setting)
    if safe is None:
        beyond.update(status=Cell.Status.NOT_RUN, reason=reason)
    else:
        beyond.update(setting=safe)


def hold_back(probe: Cell, end_reason: str) -> None:
    """After a probe: where a guard of the host stopped it, those that wait do not run. Its verdict alone stops none."""
    if end_reason.startswith(gates.GUARD):
        why = end_reason.removeprefix(gates.GUARD).strip()
        reason = f"{gates.NOT_SAFE}the guard stopped the probe {WORDS[probe.probe].name.lower()}: {why}"
        _waiting_probes(probe).update(status=Cell.Status.NOT_RUN, reason=reason[:300])


def _waiting_probes(cell: Cell) -> QuerySet[Cell]:
    return Cell.objects.filter(grid_id=cell.grid_id, status__in=_WAITING).exclude(probe="")
