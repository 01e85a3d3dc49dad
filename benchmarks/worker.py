"""Runs one claimed cell: checks that it may, proves the client, has a child process load the target, stores the result."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from django.conf import settings
from django.utils import timezone

from benchmarks import (
    calibrating,
    claims,
    comparable,
    cooling,
    disk,
    engine_child,
    foreseen,
    holding,
    managed,
    plans,
    preflight,
    storing,
)
from benchmarks.claims import Claim
from benchmarks.engine.plan import CellPlan
from benchmarks.engine_child import Watch
from benchmarks.models import Cell, Grid
from benchmarks.permits import Permit, worker_permit
from benchmarks.records.calibration import Calibration
from benchmarks.surroundings import Around

log = logging.getLogger(__name__)

CALIBRATING: dict[str, object] = {"phase": "calibrating"}
"""Progress of a calibration: it loads no target, so nothing of it counts against the authorisation."""

NO_TIME_LEFT = (
    "What the authorisation allows of minutes went into what comes before the load: starting the runtime, cooling down and "
    "calibrating. Authorise the grid again, for more minutes."
)


def run_cell(claim: Claim) -> bool:
    """Runs the claimed attempt to its end: recorded, given back, or interrupted and queued again.

    False when this worker could not heartbeat for half of the time after which others take it for dead: it has finished
    this cell and starts no other for now, as another worker may be about to load the host.
    """
    cell = Cell.objects.select_related("grid__runtime", "grid__workload", "grid__hardware").get(pk=claim.cell_id)
    leave = worker_permit(cell.grid, cell, at=timezone.now())
    if not isinstance(leave, Permit):
        claims.give_back(claim=claim, reason=leave.reason)
        return True
    preflight.freeze_probe(cell.grid)
    if too_much := foreseen.refusal(cell):
        holding.hold_back(claim=claim, reason=too_much)
        return True
    if refused := preflight.refusal(cell.grid):  # asks the target what it is
        claims.give_back(claim=claim, reason=refused)
        return True
    try:
        plan = plans.cell_plan(cell=cell, permit=leave)
    except ValueError as error:
        claims.give_back(claim=claim, reason=f"The workload cannot be read: {error}")
        return True
    conditions, refused = comparable.before(claim, cell)
    if refused := refused or disk.refusal(plan):
        claims.give_back(claim=claim, reason=refused)
        return True
    try:
        return _carried_out(claim, cell, plan, conditions)
    except OSError as error:
        words = f"{disk.full_words()}This host did not keep the cell's files: {error}"
        claims.interrupt(claim=claim, reason=words)
        return True


def _carried_out(claim: Claim, cell: Cell, plan: CellPlan, conditions: dict[str, object]) -> bool:
    """Whether this worker was in touch throughout. Raises OSError where its own files cannot be written."""
    began_s = time.monotonic()
    with _folder(claim) as folder, Around(conditions) as around, managed.runtime(claim, cell, folder) as running:
        if not running.ready:
            return not running.watch.out_of_touch
        settled = cooling.settle(claim, cell)
        around.conditions |= settled.conditions
        if not settled.ok:
            return not settled.watch.out_of_touch
        proved, watch = _calibrated(claim, cell.grid, folder)
        out_of_touch = settled.watch.out_of_touch | watch.out_of_touch
        if proved:
            left = shortened(running.told(plan), time.monotonic() - began_s)
            if left is None:
                claims.give_back(claim=claim, reason=NO_TIME_LEFT)
            else:
                out_of_touch |= _run_plan(claim, left, folder, running, around).out_of_touch
        return not out_of_touch


def shortened(plan: CellPlan, spent_s: float) -> CellPlan | None:
    """Less the time that went into starting a runtime, cooling down and calibrating: the authorisation counts it too. None
    where nothing is left for the load."""
    left_s = plan.max_wall_s - spent_s
    return msgspec.structs.replace(plan, max_wall_s=left_s) if left_s > 0 else None


def _calibrated(claim: Claim, grid: Grid, folder: Path) -> tuple[bool, Watch]:
    """Whether the client of this grid is proved, and what was seen meanwhile; where it is not, the attempt has ended."""
    need = calibrating.need_of(grid)
    if calibrating.settled(grid, need, at=timezone.now()):
        return True, Watch()
    watch, tries, version = Watch(), list[Calibration](), ""
    while not watch.pulse.lost and not watch.pulse.stop and len(tries) < calibrating.TRIES:
        inside = folder / f"calibration-{len(tries) + 1}"
        inside.mkdir()
        try:
            with calibrating.simulator(inside, engine_child.environment(None)) as address:
                watch, _ = engine_child.run(claim, calibrating.plan_for(need, address), inside, told=CALIBRATING)
                found, version = calibrating.compared(inside / "log", address)
        except calibrating.CalibrationFailedError as error:
            found = calibrating.failed(f"{error}; the engine said: {engine_child.last_words(inside)}")
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


def _run_plan(claim: Claim, plan: CellPlan, folder: Path, running: managed.Running, around: Around) -> Watch:
    watch, returncode = engine_child.run(claim, plan, folder, alarm=lambda: around.alarm)
    if returncode == 0:
        # The watch looks each second: the last one of the load is looked at here.
        watch.alarm = watch.alarm or around.look()
    gone = running.finish(watch)
    if watch.pulse.lost and returncode != 0:
        log.warning("cell %s: attempt %s was taken over before it had finished", claim.cell_id, claim.attempt)
    elif gone:
        claims.interrupt(claim=claim, reason=gone)
    else:
        storing.conclude(claim, folder, watch, returncode, around.ended())
    return watch


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
