"""What becomes of a finished child: its log read, summarised and stored, or the attempt ended with a reason."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import numpy as np

from benchmarks import claims, delivering, disk, preflight, signing, spool, surroundings
from benchmarks.claims import Claim
from benchmarks.delivering import NotTakenError
from benchmarks.engine import columns as engine_columns
from benchmarks.engine import summary as engine_summary
from benchmarks.engine import verdicts
from benchmarks.engine.column_types import OUTCOMES, Bools, Columns, Ints, MaskedInts, Requests
from benchmarks.engine.summary_types import CellSummary
from benchmarks.engine.terms import Outcome
from benchmarks.engine.verdicts import ProbeVerdict
from benchmarks.engine_child import Watch, last_words, ledger_of
from benchmarks.recording import Delivery
from benchmarks.records import parquet
from benchmarks.records.probes import verdict_json
from benchmarks.records.result import Result

log = logging.getLogger(__name__)

STORE_TRIES = 10
_WITHOUT_WORK = [
    OUTCOMES.index(one) for one in (Outcome.REJECTED, Outcome.REFUSED, Outcome.CONNECT_ERROR, Outcome.CLIENT_FAULT)
]

_BAD_PLAN, _UNREACHABLE = 2, 3
"""Exit codes of the engine that say why it did not load anything; asking again would not help."""


def conclude(
    claim: Claim, folder: Path, watch: Watch, returncode: int | None, conditions: dict[str, object]
) -> None:  # fmt: skip
    """`conditions` are what surrounded the attempt, its end included."""
    stopped, ended_at = watch.pulse.stop, time.time()
    if watch.alarm and not stopped:
        surroundings.keep(claim, conditions)
        claims.interrupt(claim=claim, reason=watch.alarm)
        return
    if returncode in (_BAD_PLAN, _UNREACHABLE) and not stopped:
        claims.give_back(claim=claim, reason=_why_not(claim, folder, returncode))
        return
    if returncode != 0 and not stopped:
        claims.interrupt(
            claim=claim, reason=f"{disk.full_words()}The load engine ended with {returncode}: {last_words(folder)}"
        )
        return
    try:
        cols = engine_columns.from_log(_log_of(claim, folder), counter=preflight.counting_if_there)
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
    tokens = tokens_spent(cols.requests)
    # A ledger holds earlier attempts too; what they sent was counted when they ended.
    spent = {
        "sent": max(0, len(cols.requests) - claim.spent_requests), "tokens": max(0, tokens - claim.spent_tokens)
    } if ledger_of(claim).exists() else {"sent": len(cols.requests), "tokens": tokens}  # fmt: skip
    spent["attempts"] = spent["sent"]
    recorded = len(cols.requests)
    result = Result(
        parquet=parquet.write(cols), schema_version=parquet.SCHEMA_VERSION, requests=recorded, summary=summary,
        verdict=None if verdict is None else verdict_json(verdict),
        progress=watch.progress | spent | {"recorded": recorded}, finished_at=ended_at,
        conditions=conditions,
    )  # fmt: skip
    store(claim, result)


def _told_by(cols: Columns) -> tuple[CellSummary | None, ProbeVerdict | None]:
    """The summary of plain load, or the verdict of a behaviour probe: what that sends is no load at its setting, and a
    summary of it would be compared with those that are."""
    verdict = verdicts.verdict_of(cols)
    return (engine_summary.summarise(cols, cols.plan) if verdict is None else None), verdict


def store(claim: Claim, result: Result) -> bool:
    """Brings the result to this host's disk and then to the database, trying again for a while where that does not
    answer. Whether it is the cell's now; what is not stays in the spool, and is delivered later."""
    result = signing.signed(
        result, hardware=claim.hardware_slug, grid_digest=claim.grid_digest, cell=claim.cell_name, attempt=claim.attempt
    )
    path, tried = _spooled(claim, result), 0
    while True:
        try:
            return delivering.deliver(claim, result, path) in (Delivery.RESULT, Delivery.KNOWN)
        except NotTakenError as error:
            log.warning("cell %s: result not stored yet (%s)", claim.cell_id, error)
        tried += 1
        path = path or _spooled(claim, result)
        if path and tried >= STORE_TRIES:
            log.error("cell %s: the database took no result in %s tries; it lies at %s", claim.cell_id, tried, path)
            return False
        time.sleep(min(5.0, 0.5 * tried))


def _spooled(claim: Claim, result: Result) -> Path | None:
    """Where the result now lies on this host's disk; None where the disk does not take it, and it is in memory alone."""
    try:
        return spool.put(claim, result)
    except OSError as error:
        log.error("cell %s: %sthe spool did not take the result (%s)", claim.cell_id, disk.full_words(), error)
        return None


def tokens_spent(requests: Requests) -> int:
    """What counts against an authorisation: as the server counted, and where it did not, what was asked of it. Only a request
    that was never sent, or answered before any work, is taken to have cost nothing then."""
    worked = requests.masked["t_sent_ns"].known & ~np.isin(requests.codes["outcome"], _WITHOUT_WORK)
    pairs = (("prompt_tokens", "intended_prompt_tokens"), ("output_tokens", "asked_output_tokens"))
    return sum(_counted(requests.masked[told], requests.plain[asked], worked) for told, asked in pairs)


def _counted(told: MaskedInts, asked: Ints, worked: Bools) -> int:
    return int(np.where(told.known, told.values, np.where(worked, asked, 0)).sum())


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
