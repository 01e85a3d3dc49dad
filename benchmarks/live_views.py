"""The live page of a grid, and what can be done there: pause, stop, go on, withdraw."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import ptag

from benchmarks import facts, live_events, live_host, live_next, live_tables, probe_tables, queries, runs, tasks
from benchmarks.access import EVERYONE, RUN, STOP, allow, person
from benchmarks.gates import NOT_SAFE
from benchmarks.grid_views import grid_of_team
from benchmarks.models import Cell, Conditions, Grid, Hardware
from benchmarks.records import kept_calibration, search_answer
from benchmarks.run_forms import StopForm

LOOK_EVERY_S = 6
"""A beat of the worker is shown at most so often; the polls between find nothing new and cost one read."""
WAITS = (Grid.Status.DRAFT, *Grid.OPEN)
"""States of a grid whose page has something to wait for."""


_STATE = f"""
    SELECT g.progress_version, g.status, h.worker_seen_at,
        (SELECT c.heartbeat_at FROM {Cell._meta.db_table} c WHERE c.grid_id = g.id AND c.status = 'running' LIMIT 1)
    FROM {Grid._meta.db_table} g JOIN {Hardware._meta.db_table} h ON h.id = g.hardware_id
    WHERE g.id = %s AND g.team_id = %s
"""
"""What every poll asks first, as it is: putting this query together anew each time would cost more than its answer."""


def _tag(request: HttpRequest, pk: int) -> str | None:
    """The polling tag, by one indexed read; None for somebody whose team does not own the grid."""
    with connection.cursor() as cursor:
        cursor.execute(_STATE, [pk, person(request).team.pk])
        found = cursor.fetchone()
    if found is None:
        return None
    version, status, seen_at, beat_at = found[0], found[1], _moment(found[2]), _moment(found[3])
    if status not in WAITS:
        return f"{version}-{status}"
    now = timezone.now()
    beaten = int(beat_at.timestamp() // LOOK_EVERY_S) if beat_at else ""
    return f"{version}-{status}-{beaten}-{live_tables.is_silent(beat_at, now):d}-{facts.is_fresh(seen_at, now):d}"


def _moment(value: datetime | str | None) -> datetime | None:
    """SQLite answers with the text of a time in UTC."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


@allow(EVERYONE)
@require_safe
@ptag(_tag)
def grid_live(request: HttpRequest, pk: int) -> HttpResponse:
    """The page; the same address answers htmx with its changing part, or with 304 when nothing changed."""
    tag = _tag(request, pk)  # before what it stands for: a change in between is then seen by the next poll
    grid = grid_of_team(request, pk)
    every = list(grid.cells.order_by("position"))
    for cell in every:
        cell.grid = grid
    context = _always(grid, every) | _now(grid, every) | _past(grid, every)
    htmx = bool(getattr(request, "htmx", False))
    context |= {"tag": tag}
    response = render(request, f"benchmarks/{'parts/grid_live_now' if htmx else 'grid_live'}.html", context)
    patch_vary_headers(response, ["HX-Request"])
    return response


def _always(grid: Grid, every: list[Cell]) -> dict[str, object]:
    """What stands on the page in every state."""
    cells = [c for c in every if not c.probe]
    return {
        "grid": grid,
        "polls_every_s": _polls_every_s(grid, every),
        "ended": grid.status not in WAITS,
        "open": grid.status in Grid.OPEN,
        "progress": queries.progress_of(grid, every),
        "kept": sum(c.status == Cell.Status.MEASURED for c in every),
        "stages": live_tables.stage_states(grid, cells),
        "rows": live_tables.stage_rows(grid, cells),
        "probes": probe_tables.lines([c for c in every if c.probe]),
        "next": live_next.what_next(grid, every),
        "authorization": (leave := queries.live_authorization(grid)),
        "left": live_tables.what_is_left(grid, every, leave, timezone.now()),
        "conditions": grid.conditions.filter(phase=Conditions.Phase.BEFORE).first(),
        "calibration": kept_calibration.read(grid.calibration),
        "answer": search_answer.words(answer) if (answer := search_answer.read(grid.answer)) else "",
        "resumable": _resumable(grid, every),
    }


def _now(grid: Grid, every: list[Cell]) -> dict[str, object]:
    """The cell that runs, with its live values, and what is known of the worker."""
    running = next((c for c in every if c.status == Cell.Status.RUNNING), None)
    now = timezone.now()
    silent = running is not None and live_tables.is_silent(running.heartbeat_at, now)
    return {
        "running": running,
        "running_probe": probe_tables.lines([running])[0] if running and running.probe else None,
        "share": live_tables.cell_share(grid, running) if running else None,
        "cell_s": grid.window_s + grid.warmup_s,
        "values": live_tables.live_values(grid, running) if running else [],
        "silent_since": running.heartbeat_at if running and silent else None,
        "interrupted_at": _interrupted_at(running) if running and silent else None,
        "worker": facts.worker_state(grid.hardware),
        "updated": now,
    }


def _past(grid: Grid, every: list[Cell]) -> dict[str, object]:
    return {
        "events": live_events.of_grid(grid, every),
        "host": live_host.rows_of(grid, every, timezone.now()),
        "interrupted": [c for c in every if c.attempt > 1 and c.status != Cell.Status.MEASURED],
    }


def _polls_every_s(grid: Grid, every: Iterable[Cell]) -> int | None:
    """Every 2 s while a cell runs or could; every 10 s where the page waits for a person; not at all once all is over."""
    if grid.status not in WAITS:
        return None
    waits = grid.status == Grid.Status.DRAFT or grid.paused_at is not None
    return 10 if waits and not any(c.status == Cell.Status.RUNNING for c in every) else 2


def _interrupted_at(cell: Cell) -> datetime | None:
    return cell.heartbeat_at + timedelta(seconds=live_tables.stale_after_s()) if cell.heartbeat_at else None


@allow(STOP)
@require_POST
def grid_stop(request: HttpRequest, pk: int) -> HttpResponse:
    grid = grid_of_team(request, pk)
    form = StopForm(request.POST)
    if not form.is_valid():
        messages.error(
            request, _("Say whether the running cell or its requests shall finish or not. Nothing was stopped.")
        )
        return redirect("grid-live", pk)
    return _tried(
        request, grid, _("Stopping. Finished cells are kept."),
        lambda: runs.stop(grid=grid, how=form.cleaned_data["how"], by=person(request).user),
    )  # fmt: skip


@allow(STOP)
@require_POST
def grid_pause(request: HttpRequest, pk: int) -> HttpResponse:
    grid = grid_of_team(request, pk)
    said = _("Paused. A running cell ends and is kept; no other is taken until somebody goes on.")
    return _tried(request, grid, said, lambda: runs.pause(grid=grid, by=person(request).user))


@allow(RUN)
@require_POST
def grid_resume(request: HttpRequest, pk: int) -> HttpResponse:
    grid = grid_of_team(request, pk)

    def resume() -> None:
        runs.resume(grid=grid, by=person(request).user, paused=request.POST.get("of") == "pause")
        tasks.ring_bell(grid.hardware.slug)

    return _tried(request, grid, _("Going on with the cells that did not run."), resume)


@allow(RUN)
@require_POST
def grid_withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    grid = grid_of_team(request, pk)
    return _tried(
        request, grid, _("Withdrawn. It will not run."), lambda: runs.withdraw(grid=grid, by=person(request).user)
    )


def _tried(request: HttpRequest, grid: Grid, done: str, verb: Any) -> HttpResponse:
    """Does one verb and says how it went, on the live page."""
    try:
        verb()
    except runs.RunRefused as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, done)
    return redirect("grid-live", grid.pk)


def _resumable(grid: Grid, cells: Iterable[Cell]) -> bool:
    if grid.status in Grid.OPEN:
        return grid.paused_at is not None and not grid.stop_requested
    left = (Cell.Status.NOT_RUN, Cell.Status.INTERRUPTED)
    return grid.status == Grid.Status.STOPPED and any(
        c.status in left and not c.reason.startswith(NOT_SAFE) for c in cells
    )
