"""Doorbells: a task takes names, looks into the database for what is to be done, does one thing and rings again.

A doubled ring finds nothing to do; a lost one is made good by the sweep and when a worker starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
from celery import shared_task
from celery.signals import beat_embedded_init, worker_ready
from django.conf import settings
from django.db import DatabaseError, connection, connections
from django.utils import timezone
from kombu.exceptions import OperationalError

from benchmarks import claims, enrolling, grid_figures, host_file, probe, queries, runs
from benchmarks.engine.parent import die_with_parent
from benchmarks.models import Cell, EndpointCheck, Grid, Hardware
from benchmarks.permits import key_refusal, target_refusal

log = logging.getLogger(__name__)

RING_EXPIRES_S = 30
SEEN_EVERY = timedelta(seconds=25)
CHECK_RING_AFTER = timedelta(seconds=30)
CHECK_GIVE_UP_AFTER = timedelta(minutes=10)


def queue_for(slug: str) -> str:
    """Name of the queue that the workers of this hardware serve."""
    return str(settings.HARDWARE_QUEUE).format(slug=slug)


def serves(slug: str) -> bool:
    """Whether this worker may load that hardware: HEADROOM_HARDWARE lists slugs, `*` (the default) means all."""
    named = os.environ.get("HEADROOM_HARDWARE", "*").replace(",", " ").split()
    return "*" in named or slug in named


def ring_bell(slug: str) -> None:
    """Asks the workers of this hardware to look for a cell. A broker that does not answer only makes it later."""
    _send(ring, slug, queue_for(slug))


def ask_for_check(check: EndpointCheck) -> None:
    """Asks the worker of the check's hardware to look at its endpoint."""
    _send(check_endpoint, check.pk, queue_for(check.hardware.slug))


@shared_task(name="benchmarks.tasks.ring")
def ring(slug: str) -> None:
    """Claims and runs one cell of this hardware, then rings again."""
    if not serves(slug):
        log.warning("rung for %s, which this worker does not serve", slug)
        return
    # Imported late: the web process rings bells too, and does not need the columns and the Parquet writer.
    from benchmarks import comparable, worker

    with _one_load_here() as free:
        if free:
            _deliver()
        free = free and not resting()
        who = probe.claimant()
        claim = (
            claims.claim_next_cell(hardware_slugs=[slug], worker=who, wait_for=comparable.wait_reason) if free else None
        )
        if claim is None:
            return
        in_touch = worker.run_cell(claim)
    if not in_touch:
        log.error("no heartbeat for half of %g s during cell %s: resting", settings.STALE_AFTER_S, claim.cell_id)
        _rest_file().touch()
        return
    ring_bell(slug)


@shared_task(name="benchmarks.tasks.keep_figures")
def keep_figures() -> None:
    grid_figures.keep()


@shared_task(name="benchmarks.tasks.count_rows")
def count_rows() -> None:
    """SQLite learns how its tables have grown, from a sample of each, so that it begins a query where there are few rows.
    PostgreSQL does so by itself."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA analysis_limit = 400")
            cursor.execute("ANALYZE")


@shared_task(name="benchmarks.tasks.sweep")
def sweep() -> None:
    """Makes good what got lost: dead attempts, ended authorisations, bells nobody heard, checks nobody made."""
    now = timezone.now()
    # First what was measured, then what is missing: a result that lies here is of no dead attempt.
    _deliver()
    claims.interrupt_stale(at=queries.database_now())
    runs.close_unauthorized(at=now)
    waiting = Cell.objects.filter(
        status=Cell.Status.QUEUED, grid__status__in=Grid.OPEN, grid__stop_requested="", grid__paused_at=None
    ).values_list("hardware__slug", flat=True)
    busy = Cell.objects.filter(status=Cell.Status.RUNNING).values_list("hardware__slug", flat=True)
    for slug in sorted(set(waiting) - set(busy)):
        ring_bell(slug)
    unseen = Hardware.objects.exclude(worker_seen_at__gt=now - SEEN_EVERY)
    for slug in unseen.values_list("slug", flat=True):
        _send(probe_hardware, slug, queue_for(slug))
    _sweep_checks(now)


@shared_task(name="benchmarks.tasks.probe_hardware")
def probe_hardware(slug: str) -> None:
    """Stores what this host is, beside what a person declared, and what still lies in its spool; what ran before a grid that
    is over comes back. A worker that starts is asked for this, and again twice a minute: one of its own host alone
    runs no sweep.
    """
    if not serves(slug):
        return
    _deliver()
    _tidy()
    hardware = Hardware.objects.filter(slug=slug).first()
    if hardware is None:
        return
    if refused := _not_trusted(hardware):
        log.warning("nothing is told of %s: %s", slug, refused)
        return
    # Imported late, as the worker is: it loads the HTTP client.
    from benchmarks import preflight

    preflight.keep_probe(hardware)


@shared_task(name="benchmarks.tasks.check_endpoint")
def check_endpoint(pk: int) -> None:
    """Looks at an endpoint, or sends it one request, as a person asked."""
    check = EndpointCheck.objects.select_related("hardware").filter(pk=pk, status=EndpointCheck.Status.QUEUED).first()
    if check is None or not serves(check.hardware.slug):
        return
    refused = _not_trusted(check.hardware)
    if enrolling.trusts_another(check.hardware):
        # The sweep asks again, until the worker that the host trusts hears it.
        log.warning("an endpoint of %s is not looked at: %s", check.hardware.slug, refused)
        return
    refused = refused or target_refusal(check.endpoint) or key_refusal(check.api_key_name, check.endpoint)
    refused = refused or _measuring(check.hardware)
    with _one_load_here() as free:
        if not free and not refused:
            return  # a cell or another look has this machine now; the sweep asks again
        result = {"ok": False, "problem": refused} if refused else _looked(check)
    status = EndpointCheck.Status.DONE if not refused else EndpointCheck.Status.FAILED
    EndpointCheck.objects.filter(pk=pk, status=EndpointCheck.Status.QUEUED).update(
        status=status, result=result, finished_at=timezone.now()
    )
    if not refused:
        ring_bell(check.hardware.slug)  # a cell that was rung for meanwhile found the machine taken


@beat_embedded_init.connect
def end_with_the_worker(**_signal: object) -> None:
    """The scheduler inside a worker is a process of its own; left alone it outlives a killed worker and rings on."""
    die_with_parent()


@worker_ready.connect
def start_up(**_signal: object) -> None:
    """A starting worker takes up what a dead one left, and says what its host is."""
    try:
        slugs = [slug for slug in Hardware.objects.values_list("slug", flat=True) if serves(slug)]
    except DatabaseError as error:
        log.warning("the database does not answer yet (%s); the sweep will ring", error)
        return
    finally:
        # Children of the pool are forked from this process and must not share its connection.
        connections.close_all()
    for slug in slugs:
        _send(probe_hardware, slug, queue_for(slug))
    with contextlib.suppress(OperationalError):
        sweep.apply_async(queue=settings.CELERY_TASK_DEFAULT_QUEUE, expires=RING_EXPIRES_S)


def _deliver() -> None:
    # Imported late, as the worker is.
    from benchmarks import delivering

    delivering.deliver_all()


def _tidy() -> None:
    """A grid may end between two of its cells, or with a worker that died: then no cell is left to do this after it."""
    # Imported late, as the worker is.
    from benchmarks import leftovers

    leftovers.tidy()


def _send(task: object, argument: object, queue: str) -> None:
    try:
        task.apply_async(args=[argument], queue=queue, expires=RING_EXPIRES_S)  # type: ignore[attr-defined]
    except (OperationalError, OSError) as error:
        log.warning("the broker did not take a bell (%s); the sweep will ring again", error)


def _not_trusted(hardware: Hardware) -> str | None:
    """Why the host does not trust this worker; one that shares a folder with the web enrols itself first."""
    enrolling.enrol_beside_the_web(hardware, worker=probe.claimant_host(probe.claimant()), at=timezone.now())
    return enrolling.refusal(hardware)


def _measuring(hardware: Hardware) -> str | None:
    """Why an endpoint of this host is not looked at now: a request beside a cell would be in its figures."""
    cell = Cell.objects.filter(hardware=hardware, status=Cell.Status.RUNNING).first()
    if cell is None:
        return None
    return f"Grid {cell.grid_id} is running on this host, and a request beside it would be in its figures. Try again after it."


def _looked(check: EndpointCheck) -> dict[str, object]:
    from benchmarks.runtimes import look

    key = os.environ.get(host_file.key_variable(check.api_key_name), "") if check.api_key_name else ""
    if check.kind == EndpointCheck.Kind.LOOK:
        found: msgspec.Struct = look.look_at(check.endpoint, check.runtime_kind, api_key=key)
    else:
        found = look.test_request(check.endpoint, check.model_name, api_key=key)
    answer: dict[str, object] = msgspec.to_builtins(found)
    return answer


def _sweep_checks(now: object) -> None:
    waiting = EndpointCheck.objects.filter(status=EndpointCheck.Status.QUEUED)
    old = timezone.now() - CHECK_GIVE_UP_AFTER
    waiting.filter(asked_at__lt=old).update(
        status=EndpointCheck.Status.FAILED,
        result={"ok": False, "problem": "No worker of this host answered in ten minutes. Is one running?"},
        finished_at=now,
    )
    for check in waiting.filter(asked_at__lt=timezone.now() - CHECK_RING_AFTER).select_related("hardware"):
        ask_for_check(check)


def resting() -> bool:
    """Whether a worker here was lately out of touch with the database; it starts no cell until others had their time."""
    try:
        rested_s = time.time() - _rest_file().stat().st_mtime
    except FileNotFoundError:
        return False
    # A file of the future is of a clock that was set back since.
    return 0 <= rested_s < float(settings.STALE_AFTER_S)


def _rest_file() -> Path:
    return Path(settings.VAR) / "cells" / "out-of-touch"


@contextlib.contextmanager
def _one_load_here() -> Iterator[bool]:
    """True for the one process here that may load anything now: two cells on one machine disturb each other."""
    path = settings.VAR / "cells"
    path.mkdir(parents=True, exist_ok=True)
    with (path / "busy.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
