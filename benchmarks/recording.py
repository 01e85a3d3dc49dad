"""What a finished attempt leaves becomes the cell's result: evidence, digest and summary in one transaction, once.

A result may come late, after its attempt was given up for dead. It still becomes the cell's result unless a newer attempt
has finished or had begun to load the host beside it; then it is kept as superseded evidence, with the reason.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

import msgspec
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchmarks import audit, claims, gates, plans, probe, probing, searching
from benchmarks.claims import Claim
from benchmarks.engine.summary_types import CellSummary
from benchmarks.models import Attempt, Cell, Evidence, EvidenceChunk, Grid, SupersededEvidence
from benchmarks.queries import limits_of, load_cells
from benchmarks.records import kept_readings
from benchmarks.records.mode_words import stage_words
from benchmarks.records.modes import Mode
from benchmarks.records.result import Result

CHUNK_BYTES = 16 * 1024 * 1024

_GROWING = (*Grid.OPEN, Grid.Status.STOPPED)
"""Grids to which a cell may still be added: a stopped one can be resumed."""


Readings = dict[str, object] | None


class Delivery(StrEnum):
    """What became of a result."""

    RESULT = "result"
    SUPERSEDED = "superseded"
    KNOWN = "known already"
    UNKNOWN = "of no attempt in this database"
    REFUSED = "refused by the database"


def deliver(*, claim: Claim, result: Result) -> Delivery:
    """Stores what an attempt left, whenever it comes; delivered twice, it is stored once. Nothing is dropped silently."""
    own = Attempt.objects.filter(
        cell_id=claim.cell_id, number=claim.attempt, worker=claim.worker, cell__grid=claim.grid_id
    )
    if not own.exists():
        return Delivery.UNKNOWN
    return Delivery.RESULT if record(claim=claim, result=result) else _late(claim, result)


def record(*, claim: Claim, result: Result) -> bool:
    """Stores evidence, its digest and the summary, for the current attempt only, in one transaction.

    False when another attempt has taken over: nothing is stored then. A cell that a guard stopped keeps what it
    measured, and holds back the higher settings.
    """
    readings = kept_readings.as_json(result.parquet)  # before the lock: a whole file is read for it
    with transaction.atomic():
        claims.lock_grid(claim.grid_id)
        if not claims.held_by(claim).update(**_outcome(result, claims.spent_by(claim, result.progress))):
            return False
        _store_evidence(claim, result, readings)
        claims.end_attempt(claim, _status(result), result.end_reason)
        _keep_conditions(claim, result)
        _tell(claim, f"recorded {_status(result)} cell", result)
        _go_on(claim, result)
    return True


def _late(claim: Claim, result: Result) -> Delivery:
    readings = kept_readings.as_json(result.parquet)
    with transaction.atomic():
        claims.lock_grid(claim.grid_id)
        if _known(claim, result):
            return Delivery.KNOWN
        refused = _why_not_the_result(claim, result)
        if refused:
            _supersede(claim, result, refused)
            return Delivery.SUPERSEDED
        _take_over(claim, result, readings)
    return Delivery.RESULT


def _known(claim: Claim, result: Result) -> bool:
    wanted = {"cell_id": claim.cell_id, "attempt": claim.attempt, "sha256": result.sha256}
    return Evidence.objects.filter(**wanted).exists() or SupersededEvidence.objects.filter(**wanted).exists()


def _why_not_the_result(claim: Claim, result: Result) -> str:
    """Empty where it may still become the cell's result."""
    kept = Evidence.objects.filter(cell_id=claim.cell_id).first()
    if kept is not None:
        return f"Attempt {kept.attempt} had finished before this result of attempt {claim.attempt} arrived."
    beside = _beside(claim, result)
    if beside is not None:
        return f"Attempt {beside.number} had begun to load the host before attempt {claim.attempt} ended."
    grid = Grid.objects.get(pk=claim.grid_id)
    if grid.status not in _GROWING:
        return f"The grid was closed ({grid.get_status_display().lower()}) before this result arrived."
    return ""


def _beside(claim: Claim, result: Result) -> Attempt | None:
    """A newer attempt that loaded the host while this one still ran: then neither of them had it alone."""
    if result.finished_at is None:
        return None
    ended = datetime.fromtimestamp(result.finished_at, UTC)
    newer = Attempt.objects.filter(cell_id=claim.cell_id, number__gt=claim.attempt, started_at__lt=ended)
    return newer.order_by("number").first()


def _supersede(claim: Claim, result: Result, reason: str) -> None:
    SupersededEvidence.objects.create(
        cell_id=claim.cell_id, attempt=claim.attempt, schema_version=result.schema_version, sha256=result.sha256,
        requests=result.requests, content=result.parquet, reason=reason[:300], signature=result.signature,
        key_id=result.key_id,
    )  # fmt: skip
    _keep_conditions(claim, result)
    _tell(claim, "kept superseded evidence", result, reason)
    claims.bump(claim.grid_id)


def _take_over(claim: Claim, result: Result, readings: Readings) -> None:
    """The late result is the cell's; a newer attempt that runs ends, and hears of it by its next heartbeat."""
    cell = Cell.objects.get(pk=claim.cell_id)
    Cell.objects.filter(pk=cell.pk).update(**_outcome(result, _spent_with(cell, claim, result)))
    _store_evidence(claim, result, readings)
    reason = f"The finished result of attempt {claim.attempt} arrived meanwhile."
    Attempt.objects.filter(cell_id=cell.pk, number__gt=claim.attempt, ended_at__isnull=True).update(
        ended_at=timezone.now(), outcome=Cell.Status.INTERRUPTED, reason=reason
    )
    own = Attempt.objects.filter(cell_id=cell.pk, number=claim.attempt)
    own.update(outcome=_status(result), reason=f"{result.end_reason[:250]} (delivered late)".strip())
    _keep_conditions(claim, result)
    _tell(claim, f"recorded {_status(result)} cell", result, "delivered late")
    _go_on(claim, result)


def _status(result: Result) -> Cell.Status:
    return Cell.Status.MEASURED if result.complete else Cell.Status.STOPPED


def _outcome(result: Result, spent: dict[str, int]) -> dict[str, object]:
    """The columns of a cell that has this result."""
    return {
        "status": _status(result),
        "finished_at": timezone.now(),
        "summary": claims.storable(msgspec.to_builtins(result.summary)),
        "verdict": claims.storable(result.verdict),
        "progress": claims.storable(result.progress | {"spent": spent}),
        "reason": "" if result.complete else result.end_reason[:300],
    }


def _spent_with(cell: Cell, claim: Claim, result: Result) -> dict[str, int]:
    """What counts against the authorisation: where newer attempts sent something too, rather twice than not at all."""
    own = claims.spent_by(claim, result.progress)
    if cell.attempt == claim.attempt:
        return own
    before = cell.progress.get("spent", {})
    base = {"requests": claim.spent_requests, "tokens": claim.spent_tokens}
    return {name: own[name] - base[name] + max(base[name], int(before.get(name, 0))) for name in own}


def _keep_conditions(claim: Claim, result: Result) -> None:
    if result.conditions:
        own = Attempt.objects.filter(cell_id=claim.cell_id, number=claim.attempt)
        own.update(conditions=claims.storable(result.conditions))


def _tell(claim: Claim, verb: str, result: Result, reason: str = "") -> None:
    cell = Cell.objects.select_related("grid__team").get(pk=claim.cell_id)
    audit.record(
        actor=f"worker {probe.claimant_host(claim.worker)}", verb=verb, subject=f"grid {claim.grid_id}", team=cell.grid.team,
        after=result.sha256, reason=reason,
        changes={"cell": str(cell), "attempt": claim.attempt, "sha256": result.sha256},
    )  # fmt: skip


def _go_on(claim: Claim, result: Result) -> None:
    """What follows for the other cells of the grid; a probe's verdict says nothing about a higher setting."""
    cell = Cell.objects.select_related("grid").get(pk=claim.cell_id)
    if cell.probe:
        probing.hold_back(cell, result.end_reason)
    elif cell.grid.mode == Mode.SEARCH:
        searching.advance(cell.grid)
    elif result.summary is not None:
        _hold_back(cell, result.summary)
    claims.after_cell(claim.grid_id)


def _store_evidence(claim: Claim, result: Result, readings: Readings) -> None:
    evidence = Evidence.objects.create(
        cell_id=claim.cell_id, attempt=claim.attempt, schema_version=result.schema_version, sha256=result.sha256,
        size_bytes=len(result.parquet), requests=result.requests, signature=result.signature, key_id=result.key_id,
        readings=readings,
    )  # fmt: skip
    for number, start in enumerate(range(0, len(result.parquet), CHUNK_BYTES)):
        content = result.parquet[start : start + CHUNK_BYTES]
        EvidenceChunk.objects.create(evidence=evidence, number=number, content=content)


def _hold_back(cell: Cell, summary: CellSummary) -> None:
    """Marks what may not run after this cell: higher settings after a failed gate, its own too after a guard's stop."""
    waiting = load_cells(cell.grid).filter(status__in=claims.WAITING)
    stage = stage_words(cell.grid.mode, cell.setting)
    guard = plans.mode_guard(cell.grid.mode, confirms=cell.grid.confirms_id is not None)
    stopped = gates.guard_stop(summary, stage)
    refused = stopped or gates.refusal(limits_of(cell.grid), summary, guard, stage)
    if refused is None:
        return
    beyond = Q(setting__gte=cell.setting) if stopped else Q(setting__gt=cell.setting)
    reason = f"{gates.NOT_SAFE}{refused}"[:300]
    waiting.filter(beyond).update(status=Cell.Status.NOT_RUN, reason=reason)
    probing.lower(cell, reason)
