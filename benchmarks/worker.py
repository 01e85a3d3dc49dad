"""Runs one claimed cell: a child process that loads no Django does the load, this one watches, then stores the result.

The child ends when its stdin closes, so it cannot outlive the worker. This process beats every HEARTBEAT_S, and passes
a stop on to the child: "drain" or "cancel" as a line on stdin.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from benchmarks import calibrating, claims, plans, preflight
from benchmarks.claims import Claim, Pulse
from benchmarks.engine import columns as engine_columns
from benchmarks.engine import plan as engine_plan
from benchmarks.engine import summary as engine_summary
from benchmarks.engine.load import StaticBatch
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.summary_types import CellSummary
from benchmarks.models import Cell, Grid
from benchmarks.permits import Permit, permit
from benchmarks.records import parquet
from benchmarks.records.calibration import Calibration

log = logging.getLogger(__name__)

DRAIN_AT_MOST_S = 60.0
CANCEL_AT_MOST_S = 10.0
STORE_TRIES = 10
CALIBRATING: dict[str, object] = {"phase": "calibrating"}
"""Progress of a calibration: it loads no target, so nothing of it counts against the authorisation."""


_PASSED_ON = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH"}
)

_BAD_PLAN, _UNREACHABLE = 2, 3
"""Exit codes of the engine that say why it did not load anything; asking again would not help."""


@dataclass(slots=True)
class _Watch:
    """What the watching loop knows about the child."""

    pulse: Pulse = field(default_factory=Pulse)
    progress: dict[str, object] = field(default_factory=dict)
    asked: str = ""
    asked_at: float = 0.0
    heard_at: float = field(default_factory=time.monotonic)
    out_of_touch: bool = False


def run_cell(claim: Claim) -> bool:
    """Runs the claimed attempt to its end: recorded, given back, or interrupted and queued again.

    False when this worker could not heartbeat for half of the time after which others take it for dead: it has finished
    this cell and starts no other for now, as another worker may be about to load the host.
    """
    cell = Cell.objects.select_related("grid__runtime", "grid__workload", "grid__hardware").get(pk=claim.cell_id)
    leave = permit(cell.grid, setting=cell.setting, at=timezone.now())
    if not isinstance(leave, Permit):
        claims.give_back(claim=claim, reason=leave.reason)
        return True
    preflight.freeze_probe(cell.grid)
    if refused := preflight.refusal(cell.grid):
        claims.give_back(claim=claim, reason=refused)
        return True
    try:
        plan = plans.cell_plan(cell=cell, permit=leave)
    except ValueError as error:
        claims.give_back(claim=claim, reason=f"The workload cannot be read: {error}")
        return True
    with _folder(claim) as folder:
        proved, watch = _calibrated(claim, cell.grid, folder)
        out_of_touch = watch.out_of_touch
        if proved:
            out_of_touch |= _run_plan(claim, plan, folder).out_of_touch
        return not out_of_touch


def _calibrated(claim: Claim, grid: Grid, folder: Path) -> tuple[bool, _Watch]:
    """Whether the client of this grid is proved, and what was seen meanwhile; where it is not, the attempt has ended."""
    need = calibrating.need_of(grid)
    if calibrating.settled(grid, need, at=timezone.now()):
        return True, _Watch()
    watch, tries, version = _Watch(), list[Calibration](), ""
    while not watch.pulse.lost and not watch.pulse.stop and len(tries) < calibrating.TRIES:
        inside = folder / f"calibration-{len(tries) + 1}"
        inside.mkdir()
        try:
            with calibrating.simulator(inside, _environment(None)) as address:
                watch, _ = _run_engine(claim, calibrating.plan_for(need, address), inside, told=CALIBRATING)
                found, version = calibrating.compared(inside / "log", address)
        except calibrating.CalibrationFailedError as error:
            found = calibrating.failed(f"{error}; the engine said: {_last_words(inside)}")
        tries.append(found)
        if found.ok:
            break
    if watch.pulse.lost:
        return False, watch
    if watch.pulse.stop:
        claims.give_back(claim=claim, reason=watch.pulse.reason)
        return False, watch
    kept = calibrating.keep(grid, need, tries, engine_version=version, worker=claim.worker)
    if not kept.agrees:
        claims.give_back(claim=claim, reason=calibrating.refusal(kept))
    return kept.agrees, watch


def _run_plan(claim: Claim, plan: CellPlan, folder: Path) -> _Watch:
    watch, returncode = _run_engine(claim, plan, folder)
    if watch.pulse.lost:
        log.warning("cell %s: attempt %s was taken over, its result is dropped", claim.cell_id, claim.attempt)
    else:
        _conclude(claim, folder, watch, returncode)
    return watch


def _run_engine(
    claim: Claim, plan: CellPlan, folder: Path, *, told: dict[str, object] | None = None
) -> tuple[_Watch, int | None]:
    """Runs the engine as a child to its end; what was seen of it, and its exit code. `told` stands for its progress."""
    (folder / "plan.json").write_bytes(engine_plan.encode(plan))
    ledger = ledger_of(claim) if isinstance(plan.load, StaticBatch) else None
    if ledger:
        _remove_stored(ledger.parent)
    arguments = [str(folder / "plan.json"), str(ledger or folder / "log"), *(["--resume"] if ledger else [])]
    with (folder / "stderr").open("wb") as stderr:
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.engine", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=settings.BASE_DIR,
            env=_environment(plan),
        )
    try:
        watch = _watched(claim, child, told)
    finally:
        _end(child)
    return watch, child.returncode


def _watched(claim: Claim, child: subprocess.Popen[bytes], told: dict[str, object] | None = None) -> _Watch:
    """Beats and passes stops on until the child ends, its attempt is lost, or it does not heed a stop."""
    watch = _Watch(progress=told or {})
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=_read_lines, args=(child, lines), daemon=True)
    reader.start()
    while child.poll() is None and not watch.pulse.lost:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(settings.HEARTBEAT_S)
        if told is None:
            _take_progress(watch, lines)
        _beat(claim, watch)
        _pass_on(watch, child)
        if _overdue(watch):
            break
    return watch


def _beat(claim: Claim, watch: _Watch) -> None:
    try:
        watch.pulse = claims.beat(claim=claim, progress=watch.progress)
        heard_at = time.monotonic()
    except DatabaseError as error:
        log.warning("cell %s: no heartbeat (%s)", claim.cell_id, error)
        close_old_connections()
        heard_at = watch.heard_at
    # A beat that came through late counts too: until then nobody knew that this worker lives.
    watch.out_of_touch |= time.monotonic() - watch.heard_at >= settings.STALE_AFTER_S / 2
    watch.heard_at = heard_at


def _pass_on(watch: _Watch, child: subprocess.Popen[bytes]) -> None:
    wanted = watch.pulse.stop
    if not wanted or wanted == watch.asked or watch.asked == "cancel":
        return
    watch.asked, watch.asked_at = wanted, time.monotonic()
    if child.stdin:
        with contextlib.suppress(OSError):
            child.stdin.write(f"{wanted}\n".encode())
            child.stdin.flush()


def _overdue(watch: _Watch) -> bool:
    allowed_s = {"drain": DRAIN_AT_MOST_S, "cancel": CANCEL_AT_MOST_S}.get(watch.asked)
    return allowed_s is not None and time.monotonic() - watch.asked_at > allowed_s


def _end(child: subprocess.Popen[bytes]) -> None:
    """Closes stdin, which ends the child; kills it when that does not help."""
    if child.stdin:
        with contextlib.suppress(OSError):
            child.stdin.close()
    try:
        child.wait(CANCEL_AT_MOST_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout:
        child.stdout.close()


def _read_lines(child: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    # The file is closed by the other thread once the child has ended.
    with contextlib.suppress(ValueError, OSError):
        for line in child.stdout or ():
            lines.put(line)


def _take_progress(watch: _Watch, lines: queue.SimpleQueue[bytes]) -> None:
    """Keeps the newest of the JSON lines that the child wrote."""
    with contextlib.suppress(queue.Empty):
        while True:
            line = lines.get_nowait()
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    watch.progress = found


def _conclude(claim: Claim, folder: Path, watch: _Watch, returncode: int | None) -> None:
    stopped = watch.pulse.stop
    if returncode in (_BAD_PLAN, _UNREACHABLE) and not stopped:
        claims.give_back(claim=claim, reason=_why_not(claim, folder, returncode))
        return
    if returncode != 0 and not stopped:
        claims.interrupt(claim=claim, reason=f"The load engine ended with {returncode}: {_last_words(folder)}")
        return
    try:
        cols = engine_columns.from_log(_log_of(claim, folder))
        summary = engine_summary.summarise(cols, cols.plan)
    except (ValueError, OSError) as error:
        if stopped:
            claims.give_back(claim=claim, reason=watch.pulse.reason)
        else:
            claims.interrupt(claim=claim, reason=f"The log of the cell cannot be read: {error}")
        return
    if stopped and not summary.complete:
        claims.give_back(claim=claim, reason=watch.pulse.reason)
        return
    tokens = sum(_known_sum(cols.requests.masked[name]) for name in ("prompt_tokens", "output_tokens"))
    # A ledger holds earlier attempts too; what they sent was counted when they ended.
    spent = {
        "sent": max(0, len(cols.requests) - claim.spent_requests), "tokens": max(0, tokens - claim.spent_tokens)
    } if ledger_of(claim).exists() else {"sent": len(cols.requests), "tokens": tokens}  # fmt: skip
    if _store(claim, parquet.write(cols), summary, watch.progress | spent | {"recorded": len(cols.requests)}):
        ledger_of(claim).unlink(missing_ok=True)


def _store(claim: Claim, content: bytes, summary: CellSummary, progress: dict[str, object]) -> bool:
    """Records the result, trying again for a while when the database does not answer. Whether it is kept."""
    for attempt in range(STORE_TRIES):
        try:
            kept = claims.record(
                claim=claim, parquet=content, schema_version=parquet.SCHEMA_VERSION, requests=int(str(progress["recorded"])),
                summary=summary, progress=progress,
            )  # fmt: skip
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
        return f"The engine refused the plan: {_last_words(folder)}"
    try:
        end = engine_columns.from_log(_log_of(claim, folder)).end
    except ValueError:
        end = None
    return f"The {end.reason}" if end else "The target cannot be reached."


def _environment(plan: CellPlan | None) -> dict[str, str]:
    """Only what the child needs: of all secrets of this worker it sees the one API key that its plan names."""
    wanted = set(_PASSED_ON)
    if plan is not None and plan.api_key_env:
        wanted.add(plan.api_key_env)
    return {name: value for name, value in os.environ.items() if name in wanted} | {"PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def _folder(claim: Claim) -> Iterator[Path]:
    """A folder for this attempt; those that killed workers left of earlier attempts go first."""
    base: Path = settings.VAR / "cells"
    for old in base.glob(f"{claim.cell_id}-*"):
        shutil.rmtree(old, ignore_errors=True)
    folder = base / f"{claim.cell_id}-{claim.attempt}"
    folder.mkdir(parents=True, mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ledger_of(claim: Claim) -> Path:
    """The log of a static cell, kept from attempt to attempt: each goes on where the last one ended."""
    folder: Path = settings.VAR / "ledgers"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / f"{claim.grid_id}-{claim.cell_id}.log"


def _remove_stored(ledgers: Path) -> None:
    """Removes ledgers whose result is stored: a worker that died in between left them."""
    for path in ledgers.glob("*-*.log"):
        cell_id = path.stem.rpartition("-")[2]
        if cell_id.isdigit() and Cell.objects.filter(pk=cell_id, status=Cell.Status.MEASURED).exists():
            path.unlink(missing_ok=True)


def _log_of(claim: Claim, folder: Path) -> Path:
    ledger = ledger_of(claim)
    return ledger if ledger.exists() else folder / "log"


def _last_words(folder: Path) -> str:
    path = folder / "stderr"
    text = path.read_text(encoding="utf-8", errors="replace").strip() if path.exists() else ""
    return text.splitlines()[-1][:200] if text else "it said nothing"
