"""What a finished attempt leaves becomes the cell's result: evidence, digest and summary in one transaction, once."""

from __future__ import annotations

import msgspec
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchmarks import audit, claims, gates, plans, probe, searching
from benchmarks.claims import Claim
from benchmarks.engine.summary_types import CellSummary
from benchmarks.models import Cell, Evidence, EvidenceChunk
from benchmarks.queries import limits_of
from benchmarks.records.mode_words import stage_words
from benchmarks.records.modes import Mode
from benchmarks.records.result import Result

CHUNK_BYTES = 16 * 1024 * 1024


def record(*, claim: Claim, result: Result) -> bool:
    """Stores evidence, its digest and the summary, for the current attempt only, in one transaction.

    False when another attempt has taken over: nothing is stored then. A cell that a guard stopped keeps what it
    measured, and holds back the higher settings.
    """
    with transaction.atomic():
        claims.lock_grid(claim.grid_id)
        status = Cell.Status.MEASURED if result.complete else Cell.Status.STOPPED
        held = claims.held_by(claim).update(
            status=status,
            finished_at=timezone.now(),
            summary=claims.storable(msgspec.to_builtins(result.summary)),
            verdict=claims.storable(result.verdict),
            progress=claims.storable(result.progress | {"spent": claims.spent_by(claim, result.progress)}),
            reason="" if result.complete else result.end_reason[:300],
        )
        if not held:
            return False
        _store_evidence(claim, result)
        claims.end_attempt(claim, status, result.end_reason)
        _tell(claim, status, result)
        _go_on(claim, result)
    return True


def _tell(claim: Claim, status: str, result: Result) -> None:
    cell = Cell.objects.select_related("grid__team").get(pk=claim.cell_id)
    audit.record(
        actor=f"worker {probe.claimant_host(claim.worker)}", verb=f"recorded {status} cell", subject=f"grid {claim.grid_id}",
        team=cell.grid.team, after=result.sha256,
        changes={"cell": str(cell), "attempt": claim.attempt, "sha256": result.sha256},
    )  # fmt: skip


def _go_on(claim: Claim, result: Result) -> None:
    """What follows for the other cells of the grid; a probe's verdict alone says nothing about a higher setting."""
    cell = Cell.objects.select_related("grid").get(pk=claim.cell_id)
    if cell.grid.mode == Mode.SEARCH:
        searching.advance(cell.grid)
    elif result.summary is not None and not cell.probe:
        _hold_back(cell, result.summary)
    claims.after_cell(claim.grid_id)


def _store_evidence(claim: Claim, result: Result) -> None:
    evidence = Evidence.objects.create(
        cell_id=claim.cell_id, attempt=claim.attempt, schema_version=result.schema_version, sha256=result.sha256,
        size_bytes=len(result.parquet), requests=result.requests, signature=result.signature, key_id=result.key_id,
    )  # fmt: skip
    for number, start in enumerate(range(0, len(result.parquet), CHUNK_BYTES)):
        content = result.parquet[start : start + CHUNK_BYTES]
        EvidenceChunk.objects.create(evidence=evidence, number=number, content=content)


def _hold_back(cell: Cell, summary: CellSummary) -> None:
    """Marks what may not run after this cell: higher settings after a failed gate, its own too after a guard's stop."""
    waiting = Cell.objects.filter(grid_id=cell.grid_id, status__in=claims.WAITING)
    stage, guard = stage_words(cell.grid.mode, cell.setting), plans.mode_guard(cell.grid.mode)
    stopped = gates.guard_stop(summary, stage)
    refused = stopped or gates.refusal(limits_of(cell.grid), summary, guard, stage)
    if refused is None:
        return
    beyond = Q(setting__gte=cell.setting) if stopped else Q(setting__gt=cell.setting)
    waiting.filter(beyond).update(status=Cell.Status.NOT_RUN, reason=f"{gates.NOT_SAFE}{refused}"[:300])
