"""What becomes of a finished child: its log read, summarised and stored, or the attempt ended with a reason."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import msgspec
from django.db import DatabaseError, close_old_connections

from benchmarks import claims, recording, signing
from benchmarks.claims import Claim
from benchmarks.engine import columns as engine_columns
from benchmarks.engine import summary as engine_summary
from benchmarks.engine import verdicts
from benchmarks.engine.column_types import Columns
from benchmarks.engine.summary_types import CellSummary
from benchmarks.engine.verdicts import ProbeVerdict
from benchmarks.engine_child import Watch, last_words, ledger_of
from benchmarks.records import parquet
from benchmarks.records.result import Result

log = logging.getLogger(__name__)

STORE_TRIES = 10

_BAD_PLAN, _UNREACHABLE = 2, 3
"""Exit codes of the engine that say why it did not load anything; asking again would not help."""


def conclude(claim: Claim, folder: Path, watch: Watch, returncode: int | None) -> None:
    stopped = watch.pulse.stop
    if returncode in (_BAD_PLAN, _UNREACHABLE) and not stopped:
        claims.give_back(claim=claim, reason=_why_not(claim, folder, returncode))
        return
    if returncode != 0 and not stopped:
        claims.interrupt(claim=claim, reason=f"The load engine ended with {returncode}: {last_words(folder)}")
        return
    try:
        cols = engine_columns.from_log(_log_of(claim, folder))
        summary, verdict = _told_by(cols)
    except (ValueError, OSError) as error:
        if stopped:
            claims.give_back(claim=claim, reason=watch.pulse.reason)
        else:
            claims.interrupt(claim=claim, reason=f"The log of the cell cannot be read: {error}")
        return
    if stopped and not (cols.end and cols.end.complete):
        claims.give_back(claim=claim, reason=watch.pulse.reason)
        return
    tokens = sum(_known_sum(cols.requests.masked[name]) for name in ("prompt_tokens", "output_tokens"))
    # A ledger holds earlier attempts too; what they sent was counted when they ended.
    spent = {
        "sent": max(0, len(cols.requests) - claim.spent_requests), "tokens": max(0, tokens - claim.spent_tokens)
    } if ledger_of(claim).exists() else {"sent": len(cols.requests), "tokens": tokens}  # fmt: skip
    recorded = len(cols.requests)
    result = Result(
        parquet=parquet.write(cols), schema_version=parquet.SCHEMA_VERSION, requests=recorded, summary=summary,
        verdict=None if verdict is None else msgspec.to_builtins(verdict),
        progress=watch.progress | spent | {"recorded": recorded},
    )  # fmt: skip
    if store(claim, result):
        ledger_of(claim).unlink(missing_ok=True)


def _told_by(cols: Columns) -> tuple[CellSummary | None, ProbeVerdict | None]:
    """The summary of plain load, or the verdict of a behaviour probe: what that sends is no load at its setting, and a
    summary of it would be compared with those that are."""
    verdict = verdicts.verdict_of(cols)
    return (engine_summary.summarise(cols, cols.plan) if verdict is None else None), verdict


def store(claim: Claim, result: Result) -> bool:
    """Records the result, trying again for a while when the database does not answer. Whether it is kept."""
    result = signing.signed(
        result,
        cell_id=claim.cell_id,
        attempt=claim.attempt,
        hardware=claim.hardware_slug,
        grid_digest=claim.grid_digest,
    )
    for attempt in range(STORE_TRIES):
        try:
            kept = recording.record(claim=claim, result=result)
        except DatabaseError as error:
            log.warning("cell %s: result not stored yet (%s)", claim.cell_id, error)
            close_old_connections()
            time.sleep(min(5.0, 0.5 * (attempt + 1)))
            continue
        if not kept:
            log.warning("cell %s: attempt %s came too late, its result is dropped", claim.cell_id, claim.attempt)
        return kept
    log.error("cell %s: the database took no result in %s tries; it will run again", claim.cell_id, STORE_TRIES)
    return False


def _known_sum(column: engine_columns.MaskedInts) -> int:
    return int(column.values[column.known].sum())


def _why_not(claim: Claim, folder: Path, returncode: int) -> str:
    if returncode == _BAD_PLAN:
        return f"The engine refused the plan: {last_words(folder)}"
    try:
        end = engine_columns.from_log(_log_of(claim, folder)).end
    except ValueError:
        end = None
    return f"The {end.reason}" if end else "The target cannot be reached."


def _log_of(claim: Claim, folder: Path) -> Path:
    ledger = ledger_of(claim)
    return ledger if ledger.exists() else folder / "log"
