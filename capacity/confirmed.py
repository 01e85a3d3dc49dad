"""The open loops that were drawn to confirm a grid's settings, and whether they are of the same thing."""

from __future__ import annotations

from benchmarks.engine.summary_types import from_json
from benchmarks.models import Cell, Grid
from benchmarks.records.modes import Mode
from capacity.assessment.facts import ConfirmFact

PHYSICAL = ("cpu", "ram_gib", "gpu", "gpu_count", "vram_gib", "power_cap_w")
RUNTIME = {
    "kind": "runtime",
    "runtime_version": "runtime version",
    "model_name": "model",
    "model_digest": "model digest",
    "flags": "runtime flags",
    "dialect": "dialect",
}


def confirmations_of(grid: Grid) -> tuple[ConfirmFact, ...]:
    """Every cell of every confirming grid that was not withdrawn, in one query; none for a grid of another mode."""
    if grid.mode != Mode.CLOSED:
        return ()
    cells = (
        Cell.objects.filter(grid__confirms=grid, probe="")
        .exclude(grid__status=Grid.Status.WITHDRAWN)
        .select_related("grid__runtime", "grid__workload")
        .order_by("grid_id", "position")
    )
    return tuple(_fact(grid, cell) for cell in cells)


def differences(confirmed: Grid, confirming: Grid) -> tuple[str, ...]:
    """What is not as it was in the confirmed grid, in words; conditions of the room are told of each grid by itself."""
    found = [
        f"{words} ({_short(after)}, not {_short(before)})"
        for name, words in RUNTIME.items()
        if (before := getattr(confirmed.runtime, name)) != (after := getattr(confirming.runtime, name))
    ]
    if confirmed.workload.digest != confirming.workload.digest:
        found.append("workload")
    if confirmed.objective_digest != confirming.objective_digest:
        found.append("objective")
    if confirmed.hardware_id != confirming.hardware_id:
        found.append("host")
    elif any(confirmed.declared.get(name) != confirming.declared.get(name) for name in PHYSICAL):
        found.append("declared hardware")
    if confirmed.simulated != confirming.simulated:
        found.append("simulated")
    return tuple(found)


def _short(value: object) -> str:
    text = str(value) or "none"
    return text if len(text) <= 40 else f"{text[:39]}…"


def _fact(grid: Grid, cell: Cell) -> ConfirmFact:
    return ConfirmFact(
        grid_id=cell.grid_id,
        cell_id=cell.pk,
        setting=cell.grid.confirms_setting or 0,
        queue_cap=cell.grid.confirms_queue_cap,
        rate_per_min=float(cell.setting),
        status=cell.status,
        reason=cell.reason,
        summary=from_json(cell.summary) if cell.summary else None,
        differs=differences(grid, cell.grid),
    )
