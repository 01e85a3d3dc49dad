"""The open loops that were drawn to confirm a grid's settings, and whether they are of the same thing."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from benchmarks.conditions import alike
from benchmarks.models import Cell, Conditions, Grid, HardwareProbe
from benchmarks.records.modes import Mode
from capacity.assessment import compare_key
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
READ = {"driver": "GPU driver", "power_cap_w": "power cap in W", "vbios": "VBIOS", "gpus": "GPUs", "cpu": "CPU"}


def confirmations_of(grid: Grid) -> tuple[ConfirmFact, ...]:
    """Every cell of every confirming grid that was not withdrawn, in one query; none for a grid of another mode."""
    if grid.mode != Mode.CLOSED:
        return ()
    cells = (
        Cell.objects.filter(grid__confirms=grid, probe="")
        .exclude(grid__status=Grid.Status.WITHDRAWN)
        .select_related("grid__runtime", "grid__workload", "grid__probe", "grid__confirms__probe")
        .annotate(
            power=_before("grid", "power_source"),
            room_c=_before("grid", "ambient_c"),
            after=Exists(_conditions("grid", Conditions.Phase.AFTER)),
            refused_at=_refused_at(),
            power_then=_before("grid__confirms", "power_source"),
            room_then_c=_before("grid__confirms", "ambient_c"),
        )
        .order_by("grid_id", "position")
    )
    return tuple(_fact(grid, cell) for cell in cells)


def differences(confirmed: Grid, confirming: Grid) -> tuple[str, ...]:
    """What is not as it was in the confirmed grid, in words: runtime, work, objective and host as they are registered."""
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


def surroundings(cell: Cell) -> tuple[str, ...]:
    """What the worker read of the host, and people of room and power, that was not so in the confirmed grid. What one of
    the two did not record is no difference. `cell` is one of `confirmations_of`, with what it asks beside."""
    then = alike.Facts(power_source=cell.power_then, room_c=cell.room_then_c)  # type: ignore[attr-defined]
    now = alike.Facts(power_source=cell.power, room_c=cell.room_c)  # type: ignore[attr-defined]
    before, after = (_read(grid.probe if grid else None) for grid in (cell.grid.confirms, cell.grid))
    parts = [
        f"{words} ({_short(new)}, not {_short(old)})"
        for name, words in READ.items()
        if (old := getattr(before, name)) is not None and (new := getattr(after, name)) is not None and old != new
    ]
    return (*parts, *alike.differences(then, now))


def _read(probe: HardwareProbe | None) -> compare_key.Key:
    return compare_key.key_of(declared={}, read=probe.facts if probe else {})


def _before(grid: str, field: str) -> Subquery:
    return Subquery(_conditions(grid, Conditions.Phase.BEFORE).values(field)[:1])


def _conditions(grid: str, phase: str) -> QuerySet[Conditions]:
    return Conditions.objects.filter(grid=OuterRef(grid), phase=phase)


def _refused_at() -> Subquery:
    """The newest overload probe of the same runtime that was answered with refusals."""
    probes = Cell.objects.filter(
        probe="overload", status=Cell.Status.MEASURED, verdict__verdict__startswith="refused",
        grid__runtime=OuterRef("grid__runtime"), grid__team=OuterRef("grid__team"),
    )  # fmt: skip
    return Subquery(probes.order_by("-pk").values("pk")[:1])


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
        summary=cell.read_summary,
        differs=(*differences(grid, cell.grid), *surroundings(cell)),
        recorded=cell.power is not None and cell.after,  # type: ignore[attr-defined]
        probed=(cell.refused_at,) if cell.refused_at else (),  # type: ignore[attr-defined]
    )
