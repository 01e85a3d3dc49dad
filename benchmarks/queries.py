"""Read verbs: evidence and progress of a grid as frozen records, so that no reader holds a row it could change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.db import connection
from django.db.models import Count, F, IntegerField, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from benchmarks.audit import digest_of
from benchmarks.engine.plan import GridLimits
from benchmarks.engine.probe_plan import Probe
from benchmarks.engine.summary_types import CellSummary
from benchmarks.engine.verdicts import ProbeVerdict
from benchmarks.models import (
    Attempt,
    Authorization,
    Cell,
    Conditions,
    EvidenceChunk,
    Grid,
    Hardware,
    HardwareProbe,
    WorkerKey,
)
from benchmarks.records import kept_calibration, probes
from benchmarks.records.kept_calibration import Kept
from benchmarks.records.modes import Mode, SearchTerms, Terms, in_flight, terms_of


@dataclass(frozen=True, slots=True)
class CellEvidence:
    """One cell as it stands; `summary` is None until it is measured, and of a behaviour probe, which has a verdict.
    `signed_by` is the worker's key that the evidence names, such as W-7; whether its signature holds is not looked at."""

    cell_id: int
    position: int
    setting: int
    class_name: str
    repeat: int
    status: str
    reason: str
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    summary: CellSummary | None
    evidence_sha256: str | None
    requests: int | None
    probe: str = ""
    verdict: ProbeVerdict | None = None
    signed_by: str | None = None


@dataclass(frozen=True, slots=True)
class GridEvidence:
    """A grid with everything a judge or a statement may say about it. `cells` are its load; `probes` are kept apart from
    it, so that nothing is compared with them.

    `leaves` are the authorisations that the kept attempts ran under, in the order they were given; `authorization` is
    the last of them, or the one in force where nothing has run. `probe` is what the worker read before the first cell.
    """

    grid: Grid
    limits: GridLimits
    setting_values: tuple[int, ...]
    class_names: tuple[str, ...]
    cells: tuple[CellEvidence, ...]
    conditions: tuple[Conditions, ...]
    leaves: tuple[Authorization, ...]
    authorization: Authorization | None
    probe: HardwareProbe | None
    probes: tuple[CellEvidence, ...] = ()

    @property
    def measured(self) -> tuple[CellEvidence, ...]:
        return tuple(c for c in self.cells if c.summary is not None)

    @property
    def calibration(self) -> Kept | None:
        """How true the load client was shown to be before the first cell; None where that was not recorded."""
        return kept_calibration.read(self.grid.calibration)

    def manifest(self) -> list[dict[str, object]]:
        """The evidence manifest: every measured cell with the SHA-256 of its Parquet file."""
        return [
            {"cell": c.cell_id, "setting": c.setting, "class": c.class_name, "repeat": c.repeat,
             "requests": c.requests, "sha256": c.evidence_sha256}
            for c in self.cells if c.evidence_sha256
        ]  # fmt: skip

    def manifest_sha256(self) -> str:
        return digest_of(self.manifest())


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a grid is: its load in `cells_`, its behaviour probes in `probes_`. `eta_s` is None when nothing is left to
    run, and for a search, which may end at any time."""

    version: int
    status: str
    cells_total: int
    cells_finished: int
    cells_measured: int
    cells_stopped: int
    cells_not_run: int
    running: Cell | None
    eta_s: float | None
    probes_total: int = 0
    probes_finished: int = 0


def database_now() -> datetime:
    """The time by the database's clock, which all workers and sweeps share; SQLite's is the clock of this host."""
    if connection.vendor == "sqlite":
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT STATEMENT_TIMESTAMP()")
        found: datetime = cursor.fetchone()[0]
    return found


def grids_of(team_id: int) -> QuerySet[Grid]:
    return Grid.objects.filter(team_id=team_id).select_related("hardware", "runtime", "workload", "drawn_by")


def count_of(rows: QuerySet[Any, Any]) -> Coalesce:
    """How many rows there are, as a part of another query: no join widens what is grouped. Nobody's rows are none."""
    if rows.query.is_empty():
        return Coalesce(Value(0), Value(0), output_field=IntegerField())
    counted = rows.order_by().select_related(None).annotate(one=Value(1)).values("one").annotate(n=Count("pk"))
    return Coalesce(Subquery(counted.values("n"), output_field=IntegerField()), Value(0))


def limits_of(grid: Grid) -> GridLimits:
    return msgspec.convert(grid.limits, GridLimits)


def terms(grid: Grid) -> Terms:
    """The terms of the grid's mode. Raises ValueError where the row keeps none of this mode's."""
    return terms_of(grid.mode, grid.load)


def most_in_flight(grid: Grid) -> int:
    """Requests or items that the grid has in flight at most, at whichever setting and in whichever behaviour probe."""
    wanted = terms(grid)
    of_load = max(in_flight(wanted, setting) for setting in grid.setting_values)
    return max([of_load, *(one.in_flight for one in probe_costs(grid))])


def probe_costs(grid: Grid) -> list[probes.Cost]:
    """What each behaviour probe may come to at most, in running order."""
    highest = max(grid.setting_values)
    return [probes.cost(_with_facts(probe, grid, highest), highest) for probe in probes.read(grid.probes)]


def probe_of(cell: Cell) -> Probe | None:
    """The behaviour probe that a cell is, with what is registered of its runtime; None for plain load.

    Raises ValueError where the grid keeps none such.
    """
    if not cell.probe:
        return None
    return _with_facts(probes.probe_of(cell.grid.probes, cell.probe, cell.repeat), cell.grid, cell.setting)


def in_flight_of(cell: Cell) -> int:
    """Requests or items that a cell has in flight at most. Raises ValueError where its terms cannot be read."""
    probe = probe_of(cell)
    return probes.cost(probe, cell.setting).in_flight if probe else in_flight(terms(cell.grid), cell.setting)


def _with_facts(probe: Probe, grid: Grid, setting: int) -> Probe:
    """A runtime that the worker starts has as many slots as the setting says."""
    slots = setting if grid.managed else grid.runtime.max_active_sequences
    return probes.with_facts(probe, slots=slots, context_tokens=grid.runtime.context_per_sequence_tokens)


def most_cells(grid: Grid, cells: int) -> int:
    """Cells that the grid may come to have: those it has, or the budget of a search."""
    wanted = terms(grid)
    return max(cells, wanted.most_cells) if isinstance(wanted, SearchTerms) else cells


def digest_of_grid(grid: Grid) -> str:
    """SHA-256 of all that an authorisation allows; an edit of any of it voids the authorisation.

    What is plain is left out, as grids did before there was anything else: their digests stay what they were.
    """
    mode = {"mode": grid.mode, "load": grid.load} if grid.mode != Mode.CLOSED or grid.load else {}
    asked = {
        "managed": grid.managed,
        "probes": list(grid.probes),
        "drain": grid.on_guard == "drain",
        "confirms": _confirmed(grid),
    }
    return digest_of(
        mode
        | {name: value for name, value in asked.items() if value}
        | {
            "runtime": grid.runtime.digest,
            "workload": grid.workload.digest,
            "hardware": grid.declared,
            "endpoint": grid.runtime.endpoint,
            "settings": list(grid.setting_values),
            "classes": list(grid.class_names),
            "repeats": grid.repeats,
            "window_s": float(grid.window_s),
            "warmup_s": float(grid.warmup_s),
            "limits": grid.limits,
            "objective": grid.objective_digest,
        }
    )


def _confirmed(grid: Grid) -> list[object] | None:
    """Which setting of which plan an open loop confirms: its guard lets more of its requests fail than others' do. By the
    plan's digest, which is the same in every database that the grid is moved to."""
    confirmed = grid.confirms
    return [confirmed.digest, grid.confirms_setting, grid.confirms_queue_cap] if confirmed else None


DECLARED = ("slug", "name", "place", "cpu", "ram_gib", "gpu", "gpu_count", "vram_gib", "power_cap_w")
"""What a grid keeps of its host as people declared it."""

_PHYSICAL = ("cpu", "ram_gib", "gpu", "gpu_count", "vram_gib", "power_cap_w")


def declared_of(hardware: Hardware) -> dict[str, object]:
    """The host's declared facts, to be frozen into a grid."""
    return {name: getattr(hardware, name) for name in DECLARED}


def plan_changed(grid: Grid) -> bool:
    """Whether the plan, its runtime, or what is declared of the host's parts is not what was drawn."""
    declared = any(grid.declared.get(name) != getattr(grid.hardware, name) for name in _PHYSICAL)
    return declared or digest_of_grid(grid) != grid.digest


def live_authorization(grid: Grid) -> Authorization | None:
    """The one that nobody revoked. Its people are not read with it: a worker asks too, and may not read accounts."""
    return Authorization.objects.filter(grid=grid, revoked_at__isnull=True).first()


def load_cells(grid: Grid) -> QuerySet[Cell]:
    """The grid's cells without its behaviour probes."""
    return grid.cells.filter(probe="")


def evidence(grid: Grid) -> GridEvidence:
    """Everything about one grid in a few queries, whatever its size; raw samples stay where they are."""
    every = [cell_evidence(cell) for cell in grid.cells.select_related("evidence").order_by("position")]
    cells = tuple(cell for cell in every if not cell.probe)
    searched = tuple(sorted({cell.setting for cell in cells})) if grid.mode == Mode.SEARCH else None
    leaves = leaves_of(grid)
    return GridEvidence(
        grid=grid,
        limits=limits_of(grid),
        setting_values=searched or tuple(grid.setting_values),
        class_names=tuple(grid.class_names),
        cells=cells,
        conditions=tuple(grid.conditions.select_related("recorded_by")),
        leaves=leaves,
        authorization=leaves[-1] if leaves else live_authorization(grid),
        probe=grid.probe,
        probes=tuple(cell for cell in every if cell.probe),
    )


def leaves_of(grid: Grid) -> tuple[Authorization, ...]:
    """The authorisations under which the evidence of the load that is kept came about, oldest first."""
    of_load = Attempt.objects.filter(cell__grid=grid, cell__probe="", cell__evidence__attempt=F("number"))
    kept = of_load.values("authorization")
    found = Authorization.objects.filter(pk__in=kept).select_related("authorized_by", "requested_by")
    return tuple(found.order_by("authorized_at", "pk"))


def cell_evidence(cell: Cell) -> CellEvidence:
    """One cell as a frozen record; select its evidence with it, or this asks once more."""
    kept = getattr(cell, "evidence", None)
    return CellEvidence(
        cell_id=cell.pk,
        position=cell.position,
        setting=cell.setting,
        class_name=cell.class_name,
        repeat=cell.repeat,
        status=cell.status,
        reason=cell.reason,
        attempt=cell.attempt,
        started_at=cell.started_at,
        finished_at=cell.finished_at,
        summary=cell.read_summary,
        evidence_sha256=kept.sha256 if kept else None,
        signed_by=str(WorkerKey(pk=kept.key_id)) if kept and kept.signature and kept.key_id else None,
        requests=kept.requests if kept else None,
        probe=cell.probe,
        verdict=msgspec.convert(cell.verdict, ProbeVerdict, strict=False) if cell.verdict else None,
    )


def evidence_bytes(cell_id: int) -> bytes:
    """The cell's Parquet file; raises LookupError when there is none."""
    chunks = (
        EvidenceChunk.objects.filter(evidence__cell_id=cell_id).order_by("number").values_list("content", flat=True)
    )
    parts = [bytes(c) for c in chunks]
    if not parts:
        raise LookupError(f"cell {cell_id} has no stored evidence")
    return b"".join(parts)


MIXED = "mixed"
"""The class that is production's mix of all length classes."""

FINISHED = (Cell.Status.MEASURED, Cell.Status.STOPPED, Cell.Status.NOT_RUN)


def progress(grid: Grid) -> Progress:
    wanted = ("status", "setting", "class_name", "repeat", "probe", "progress", "started_at")
    return progress_of(grid, list(grid.cells.order_by("position").only(*wanted)))


def progress_of(grid: Grid, every: Sequence[Cell]) -> Progress:
    """The same from cells that are read already, in running order."""
    cells, probed = [c for c in every if not c.probe], [c for c in every if c.probe]
    found = Counter(c.status for c in cells)
    finished = sum(found[status] for status in FINISHED)
    open_probes = [c.probe for c in probed if c.status not in FINISHED]
    left_s = (len(cells) - finished) * grid.cell_s + probes.seconds(grid.probes, open_probes)
    known = grid.mode != Mode.SEARCH and grid.finished_at is None
    return Progress(
        version=grid.progress_version,
        status=grid.status,
        cells_total=len(cells),
        cells_finished=finished,
        cells_measured=found[Cell.Status.MEASURED],
        cells_stopped=found[Cell.Status.STOPPED],
        cells_not_run=found[Cell.Status.NOT_RUN],
        running=next((c for c in every if c.status == Cell.Status.RUNNING), None),
        eta_s=left_s if left_s and known else None,
        probes_total=len(probed),
        probes_finished=len(probed) - len(open_probes),
    )
