"""Claiming, holding and ending cells: each verb states its precondition in the UPDATE, the row count is the lock."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from benchmarks import audit, enrolling, gates, probe, searching, signing
from benchmarks.models import Attempt, Authorization, Cell, Grid
from benchmarks.permits import Refusal, in_force, vouched, worker_permit
from benchmarks.queries import database_now, plan_changed
from benchmarks.records.modes import Mode

MOST_INTERRUPTIONS = 5
"""After so many interruptions in a row a cell is left for a person to look at, so that it cannot loop for ever."""
MOST_OF_A_LEDGER = 50
"""The same for a static batch, whose next attempt goes on where the last one ended."""

WAITING = (Cell.Status.PLANNED, Cell.Status.QUEUED)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run one attempt of one cell. `spent_*` are what earlier attempts of the cell used up; the digest
    of the plan and the cell's name in it are part of what a worker signs."""

    cell_id: int
    grid_id: int
    attempt: int
    worker: str
    hardware_slug: str
    spent_requests: int = 0
    spent_tokens: int = 0
    grid_digest: str = ""
    cell_name: str = ""


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a worker learns by its heartbeat. `lost`: another attempt took over. `stop`: "", "drain" or "cancel"."""

    lost: bool = False
    stop: str = ""
    reason: str = ""


def claim_next_cell(
    *, hardware_slugs: Sequence[str], worker: str, wait_for: Callable[[Grid], str] = lambda _: ""
) -> Claim | None:
    """The next queued cell on one of these hosts, now running in the caller's name; None when there is none to run.

    A paused grid is passed over. So is one whose authorisation does not hold, or that `wait_for` has a reason to let wait:
    its cell stays queued, with the reason. One of a host that trusts another worker is left to that worker.
    """
    waiting = Grid.objects.filter(
        status__in=Grid.OPEN, stop_requested="", paused_at=None, hardware__slug__in=hardware_slugs,
        cells__status=Cell.Status.QUEUED,
    )  # fmt: skip
    for grid in waiting.distinct().select_related("hardware", "runtime", "workload").order_by("pk"):
        cell = grid.cells.filter(status=Cell.Status.QUEUED).order_by("position").first()
        if cell is None:
            continue
        enrolling.enrol_beside_the_web(grid.hardware, worker=probe.claimant_host(worker), at=timezone.now())
        if enrolling.trusts_another(grid.hardware):
            continue
        answer = worker_permit(grid, cell, at=timezone.now())
        if isinstance(answer, Refusal):
            _tell(cell, answer.reason)
        elif reason := wait_for(grid):
            _tell(cell, reason)
        elif claim := _take(grid, cell, worker, answer.authorization):
            return claim
    return None


def beat(*, claim: Claim, progress: dict[str, object]) -> Pulse:
    """Says that the attempt lives, with what the engine last reported, and hears whether it should stop.

    "sent" and "tokens" of `progress` count against the authorisation, even if the attempt dies.
    """
    now = timezone.now()
    kept = progress | {"spent": spent_by(claim, progress), "at": now.isoformat()}
    # By the database's clock: whoever looks for silent workers may have another one than this host.
    held = held_by(claim).update(heartbeat_at=Now(), progress=storable(kept))
    if not held:
        return Pulse(lost=True)
    # Watching pages hear of a beat by the cell's own heartbeat, every few seconds: the grid's row is not written for it.
    grid = Grid.objects.select_related("hardware", "runtime", "workload").get(pk=claim.grid_id)
    if grid.status not in Grid.OPEN or grid.stop_requested not in ("", "finish"):
        return Pulse(stop=grid.stop_requested or "cancel", reason=grid.stop_reason)
    leave = grid.authorizations.filter(grid_digest=grid.digest).first()
    # It has ended once either clock says so: a host's clock that was set back does not prolong it.
    if leave is None or not in_force(leave, now) or database_now() >= leave.valid_until:
        return Pulse(stop="cancel", reason=f"Authorisation {leave or ''} ended or was revoked during the run.")
    if plan_changed(grid):
        return Pulse(stop="cancel", reason=f"The plan changed after authorisation {leave} was given, during the run.")
    if refused := vouched(grid, leave):
        return Pulse(stop="cancel", reason=refused.reason)
    return Pulse()


def give_back(*, claim: Claim, reason: str) -> bool:
    """Ends the current attempt without a result because a person or the authorisation stopped the grid."""
    with transaction.atomic():
        lock_grid(claim.grid_id)
        held = held_by(claim).update(status=Cell.Status.NOT_RUN, finished_at=timezone.now(), reason=reason[:300])
        if not held:
            return False
        end_attempt(claim, Cell.Status.STOPPED, reason)
        close_grid(grid_id=claim.grid_id, status=Grid.Status.STOPPED, reason=reason)
    return True


def interrupt(*, claim: Claim, reason: str) -> bool:
    """Ends the current attempt as interrupted and queues the cell again, unless it was interrupted too often."""
    with transaction.atomic():
        lock_grid(claim.grid_id)
        held = held_by(claim).update(status=Cell.Status.QUEUED, claimed_by="", heartbeat_at=None, reason=reason[:300])
        if not held:
            return False
        end_attempt(claim, Cell.Status.INTERRUPTED, reason)
        grid = Grid.objects.select_related("team").get(pk=claim.grid_id)
        audit.record(
            actor=f"worker {probe.claimant_host(claim.worker)}", verb="interrupted cell", subject=f"grid {grid.pk}",
            team=grid.team, reason=reason, changes={"cell": claim.cell_id, "attempt": claim.attempt},
        )  # fmt: skip
        if _interrupted_too_often(claim.cell_id):
            why = f"Interrupted {Attempt.objects.filter(cell_id=claim.cell_id).count()} times, the last: {reason}"
            Cell.objects.filter(pk=claim.cell_id).update(status=Cell.Status.INTERRUPTED, reason=why[:300])
            close_grid(grid_id=grid.pk, status=Grid.Status.STOPPED, reason=why)
        after_cell(grid.pk)
    return True


def interrupt_stale(*, at: datetime) -> int:
    """Queues cells again whose worker is dead or silent; how many. A dead process on this host needs no waiting.

    `at` is the time by the database's clock, by which heartbeats are written: `queries.database_now()`.
    """
    silent = at - timedelta(seconds=settings.STALE_AFTER_S)
    found = 0
    for cell in Cell.objects.filter(status=Cell.Status.RUNNING).select_related("hardware"):
        if probe.claimant_gone(cell.claimed_by):
            reason = f"The worker ({probe.claimant_host(cell.claimed_by)}) ended during the cell."
        elif cell.heartbeat_at is None or cell.heartbeat_at < silent:
            reason = f"No heartbeat of {probe.claimant_host(cell.claimed_by)} for {settings.STALE_AFTER_S:g} s."
        else:
            continue
        found += interrupt(claim=_claim_of(cell), reason=reason)
    return found


def after_cell(grid_id: int) -> None:
    """Closes a grid that has nothing left to do or was asked to stop, inside the transaction that changed a cell."""
    grid = Grid.objects.get(pk=grid_id)
    cells = grid.cells.all()
    waits = cells.filter(status__in=WAITING).exists()
    if grid.status not in Grid.OPEN or cells.filter(status=Cell.Status.RUNNING).exists():
        bump(grid_id)
    elif grid.stop_requested and (waits or grid.stop_requested != "finish"):
        close_grid(grid_id=grid_id, status=Grid.Status.STOPPED, reason=grid.stop_reason)
    elif not waits:
        cells = cells.filter(probe="")
        measured = cells.filter(status=Cell.Status.MEASURED).exists()
        held = cells.filter(reason__startswith=gates.NOT_SAFE).values_list("reason", flat=True).first()
        guard = cells.filter(status=Cell.Status.STOPPED).values_list("reason", flat=True).first()
        status = Grid.Status.MEASURED if measured else Grid.Status.STOPPED
        close_grid(grid_id=grid_id, status=status, reason=held or guard or "")
    else:
        bump(grid_id)


def close_grid(*, grid_id: int, status: str, reason: str) -> bool:
    """Ends an open grid: cells that wait become not run, with the reason. False when it was not open."""
    with transaction.atomic():
        closed = Grid.objects.filter(pk=grid_id, status__in=Grid.OPEN).update(
            status=status, stop_requested="", stop_reason=reason[:300], paused_at=None, paused_by="",
            finished_at=timezone.now(), progress_version=F("progress_version") + 1,
        )  # fmt: skip
        if closed:
            waiting = Cell.objects.filter(grid_id=grid_id, status__in=WAITING)
            waiting.update(status=Cell.Status.NOT_RUN, reason=reason[:300])
            grid = Grid.objects.select_related("team").get(pk=grid_id)
            searching.close(grid, reason)
            subject = f"grid {grid_id}"
            audit.record(actor="system", verb=f"closed as {status}", subject=subject, team=grid.team, reason=reason)
    return bool(closed)


def bump(grid_id: int) -> None:
    """Tells watching pages that something they show has changed."""
    Grid.objects.filter(pk=grid_id).update(progress_version=F("progress_version") + 1)


def _take(grid: Grid, cell: Cell, worker: str, leave: Authorization) -> Claim | None:
    now = timezone.now()
    spent = cell.progress.get("spent", {})
    try:
        with transaction.atomic():
            held = lock_grid(grid.pk)
            if held.status not in Grid.OPEN or held.stop_requested or held.paused_at:
                return None
            taken = Cell.objects.filter(pk=cell.pk, status=Cell.Status.QUEUED, attempt=cell.attempt).update(
                status=Cell.Status.RUNNING, attempt=F("attempt") + 1, claimed_by=worker, heartbeat_at=Now(), started_at=now,
                reason="", progress={"spent": spent},
            )  # fmt: skip
            if not taken:
                return None
            number = cell.attempt + 1
            Attempt.objects.create(cell_id=cell.pk, number=number, authorization=leave, worker=worker, started_at=now)
            _started(grid, now, worker)
    except IntegrityError:
        # Another worker runs a cell on this host: the partial unique constraint allows one.
        return None
    return Claim(
        cell.pk, grid.pk, number, worker, grid.hardware.slug, int(spent.get("requests", 0)), int(spent.get("tokens", 0)),
        grid.digest, signing.cell_name(cell),
    )  # fmt: skip


def lock_grid(grid_id: int) -> Grid:
    """The grid's row, held to the end of the transaction. Every verb takes it first, so that no two can deadlock."""
    return Grid.objects.select_for_update().get(pk=grid_id)


def _started(grid: Grid, now: datetime, worker: str) -> None:
    first = Grid.objects.filter(pk=grid.pk, status=Grid.Status.AUTHORIZED).update(
        status=Grid.Status.RUNNING, started_at=now, stop_reason=""
    )
    if first:
        audit.record(
            actor=f"worker {probe.claimant_host(worker)}", verb="started", subject=f"grid {grid.pk}", team=grid.team,
            before=grid.digest,
        )  # fmt: skip
    bump(grid.pk)


def _tell(cell: Cell, reason: str) -> None:
    waiting = Cell.objects.filter(~Q(reason=reason[:300]), pk=cell.pk, status=Cell.Status.QUEUED)
    if waiting.update(reason=reason[:300]):
        bump(cell.grid_id)


def held_by(claim: Claim) -> QuerySet[Cell]:
    """The claimed cell, while this attempt still runs it; no row once another took over."""
    return Cell.objects.filter(pk=claim.cell_id, attempt=claim.attempt, status=Cell.Status.RUNNING)


def _claim_of(cell: Cell) -> Claim:
    return Claim(cell.pk, cell.grid_id, cell.attempt, cell.claimed_by, cell.hardware.slug)


def end_attempt(claim: Claim, outcome: str, reason: str) -> None:
    """Closes the row of this attempt, unless it is closed."""
    Attempt.objects.filter(cell_id=claim.cell_id, number=claim.attempt, ended_at__isnull=True).update(
        ended_at=timezone.now(), outcome=outcome, reason=reason[:300]
    )


def _interrupted_too_often(cell_id: int) -> bool:
    static = Cell.objects.filter(pk=cell_id, grid__mode=Mode.STATIC).exists()
    most = MOST_OF_A_LEDGER if static else MOST_INTERRUPTIONS
    last = Attempt.objects.filter(cell_id=cell_id).order_by("-number").values_list("outcome", flat=True)
    return list(last[:most]) == [Cell.Status.INTERRUPTED] * most


def spent_by(claim: Claim, progress: dict[str, object]) -> dict[str, int]:
    """Requests and tokens of the cell, with those of earlier attempts. A request that was tried again counts each time."""
    return {
        "requests": claim.spent_requests + max(_count(progress.get("sent")), _count(progress.get("attempts"))),
        "tokens": claim.spent_tokens + _count(progress.get("tokens")),
    }


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0


def storable(value: object) -> object:
    """JSON that PostgreSQL takes too: infinite numbers as the words "inf" and "-inf", not-a-number as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {key: storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value
