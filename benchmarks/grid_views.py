"""Pages of grids: the list, the live page, authorising, stopping, resuming, conditions, evidence, authorisations."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from math import ceil
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db import IntegrityError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import ptag

from benchmarks import drafts, grid_tables, offered, plans, probe_tables, queries, runs, surroundings, tasks
from benchmarks.access import AUTHORIZE, EVERYONE, OPERATE, RUN, STOP, allow, confirmed_by_password, person, posted
from benchmarks.gates import NOT_SAFE
from benchmarks.models import Authorization, Cell, Conditions, Grid
from benchmarks.permits import in_force
from benchmarks.records import kept_calibration, modes, probes, search_answer
from benchmarks.records.modes import Mode
from benchmarks.run_forms import (
    HOURS_OFFERED,
    AuthorizeForm,
    ConditionsForm,
    GridFilter,
    RevokeForm,
    StopForm,
)

PER_PAGE = 15
WRONG_PASSWORD = "That is not your password. Nothing was recorded."
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def _grid(request: HttpRequest, pk: int) -> Grid:
    """A grid of the person's team, or 404: another team's grid does not exist for them."""
    return get_object_or_404(queries.grids_of(person(request).team.pk).select_related("team"), pk=pk)


@allow(EVERYONE)
@require_safe
def grid_list(request: HttpRequest) -> HttpResponseBase:
    team = person(request).team
    form = GridFilter(request.GET, team_id=team.pk)
    chosen = form.chosen()
    rows = grid_tables.lines_of(team.pk, chosen)
    if (wanted := request.GET.get("format")) in ("csv", "json"):
        return _exported(rows, wanted, bom="bom" in request.GET)
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    lines = [grid_tables.line(grid) for grid in page.object_list]
    query = request.GET.copy()
    query.pop("page", None)
    return render(
        request,
        "benchmarks/grid_list.html",
        {"form": form, "chosen": _words(form, chosen), "page": page, "lines": lines, "query": query.urlencode()},
    )


def _grid_tag(request: HttpRequest, pk: int) -> str | None:
    """The polling tag: one indexed read; None for somebody whose team does not own the grid."""
    found = (
        Grid.objects.filter(pk=pk, team_id=person(request).team.pk).values_list("progress_version", "status").first()
    )
    return f"{found[0]}-{found[1]}" if found else None


@allow(EVERYONE)
@require_safe
@ptag(_grid_tag)
def grid_live(request: HttpRequest, pk: int) -> HttpResponse:
    """The page; the same address answers htmx with its changing part, or with 304 when nothing changed."""
    grid = _grid(request, pk)
    every = list(grid.cells.select_related("evidence").order_by("position"))
    cells = [c for c in every if not c.probe]
    running = next((c for c in every if c.status == Cell.Status.RUNNING), None)
    context = {
        "grid": grid,
        "tag": _grid_tag(request, pk),
        "ended": grid.status not in (Grid.Status.AUTHORIZED, Grid.Status.RUNNING),
        "open": grid.status in runs.OPEN,
        "progress": (progress := queries.progress(grid)),
        "minutes_left": ceil(progress.eta_s / 60) if progress.eta_s else None,
        "running": running,
        "share": grid_tables.cell_share(grid, running) if running else None,
        "updated": grid_tables.updated_at(running) or timezone.now(),
        "values": grid_tables.live_values(grid, running) if running else [],
        "stages": grid_tables.stage_states(grid, cells),
        "rows": grid_tables.stage_rows(grid, cells),
        "probes": (probed := probe_tables.lines([c for c in every if c.probe])),
        "running_probe": next((line for line in probed if running and line.cell.cell_id == running.pk), None),
        "next": grid_tables.what_next(grid, every),
        "interrupted": grid.cells.filter(attempt__gt=1).prefetch_related("attempts").order_by("position"),
        "authorization": queries.live_authorization(grid),
        "conditions": grid.conditions.filter(phase=Conditions.Phase.BEFORE).first(),
        "calibration": kept_calibration.read(grid.calibration),
        "answer": search_answer.words(answer) if (answer := search_answer.read(grid.answer)) else "",
        "resumable": _resumable(grid, every),
    }
    htmx = bool(getattr(request, "htmx", False))
    response = render(request, f"benchmarks/{'parts/grid_live_now' if htmx else 'grid_live'}.html", context)
    patch_vary_headers(response, ["HX-Request"])
    return response


@allow(AUTHORIZE)
@require_http_methods(["GET", "POST"])
def grid_authorize(request: HttpRequest, pk: int) -> HttpResponse:
    """What exactly would run, and leave for it; the person types their password again."""
    grid, who = _grid(request, pk), person(request)
    form = AuthorizeForm(posted(request), grid=grid, initial=_offered(grid))
    refused = runs.authorize_refusal(grid, who.user)
    if request.method == "POST":
        if refused:
            form.add_error(None, refused)
        elif form.is_valid() and not confirmed_by_password(request, form.cleaned_data["password"]):
            form.add_error("password", WRONG_PASSWORD)
        elif form.is_valid() and _authorized(request, grid, form):
            return redirect("grid-live", pk)
    context = {
        "grid": grid,
        "form": form,
        "refused": refused,
        "cells": (cells := queries.most_cells(grid, queries.load_cells(grid).count())),
        "minutes": (cells * (grid.window_s + grid.warmup_s) + probes.seconds(grid.probes)) / 60,
        "probes": probe_tables.asked(grid),
        "in_flight": queries.most_in_flight(grid),
        "managed_words": offered.managed_words(grid.runtime) if grid.managed else "",
        "limits": queries.limits_of(grid),
        "classes": grid.workload.classes.all(),
        "conditions": grid.conditions.all(),
    }
    return render(request, "benchmarks/grid_authorize.html", context, status=422 if form.errors else 200)


@allow(STOP)
@require_POST
def grid_stop(request: HttpRequest, pk: int) -> HttpResponse:
    grid = _grid(request, pk)
    form = StopForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Say whether running requests shall finish or not. Nothing was stopped.")
        return redirect("grid-live", pk)
    return _tried(
        request, grid, "Stopping. Finished cells are kept.",
        lambda: runs.stop(grid=grid, how=form.cleaned_data["how"], by=person(request).user),
    )  # fmt: skip


@allow(RUN)
@require_POST
def grid_resume(request: HttpRequest, pk: int) -> HttpResponse:
    grid = _grid(request, pk)

    def resume() -> None:
        runs.resume(grid=grid, by=person(request).user)
        tasks.ring_bell(grid.hardware.slug)

    return _tried(request, grid, "Going on with the cells that did not run.", resume)


@allow(RUN)
@require_POST
def grid_withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    grid = _grid(request, pk)
    return _tried(
        request, grid, "Withdrawn. It will not run.", lambda: runs.withdraw(grid=grid, by=person(request).user)
    )


@allow(OPERATE | AUTHORIZE)
@require_http_methods(["GET", "POST"])
def grid_conditions(request: HttpRequest, pk: int, phase: str) -> HttpResponse:
    """Room and power before or after a grid, once each."""
    grid = _grid(request, pk)
    if phase not in Conditions.Phase.values:
        raise Http404("Conditions are recorded before and after.")
    kept = grid.conditions.filter(phase=phase).select_related("recorded_by").first()
    refused = "" if kept else _conditions_refusal(grid, phase)
    known = _room_before(grid) | surroundings.suggested(grid, at=timezone.now())
    form = ConditionsForm(posted(request), initial={"at": timezone.localtime()} | known)
    if request.method == "POST" and (kept or refused):
        form.add_error(None, refused or "These conditions are recorded already.")
    elif request.method == "POST" and form.is_valid():
        try:
            drafts.record_conditions(
                grid=grid, phase=phase, conditions=form.room_conditions(), recorded_by=person(request).user
            )
        except IntegrityError:
            form.add_error(None, "Somebody has just recorded these conditions.")
        else:
            messages.success(request, "Recorded.")
            return redirect("grid-live", pk)
    context = {"grid": grid, "phase": phase, "kept": kept, "refused": refused, "form": form}
    return render(request, "benchmarks/grid_conditions.html", context, status=422 if form.errors else 200)


@allow(EVERYONE)
@require_safe
def evidence_download(request: HttpRequest, pk: int, cell_id: int) -> HttpResponse:
    """The cell's Parquet file, byte for byte as it was digested."""
    cell = get_object_or_404(_grid(request, pk).cells.select_related("evidence"), pk=cell_id, evidence__isnull=False)
    response = HttpResponse(queries.evidence_bytes(cell.pk), content_type="application/vnd.apache.parquet")
    simulated = "-simulated" if cell.grid.simulated else ""
    name = f"grid-{pk}-{cell.name}{simulated}.parquet"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["ETag"] = f'"{cell.evidence.sha256}"'
    return response


def _leaves(request: HttpRequest) -> QuerySet[Authorization]:
    related = ("grid__hardware", "grid__team", "requested_by", "authorized_by", "revoked_by")
    return Authorization.objects.filter(grid__team=person(request).team).select_related(*related)


@allow(EVERYONE)
@require_safe
def authorization_list(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    page = Paginator(_leaves(request), PER_PAGE).get_page(request.GET.get("page"))
    rows = [(leave, in_force(leave, now)) for leave in page.object_list]
    waiting = queries.grids_of(person(request).team.pk).filter(status=Grid.Status.DRAFT)
    return render(request, "benchmarks/authorization_list.html", {"page": page, "rows": rows, "waiting": waiting})


@allow(EVERYONE)
@require_safe
def authorization_detail(request: HttpRequest, pk: int) -> HttpResponse:
    leave = get_object_or_404(_leaves(request), pk=pk)
    context = {"leave": leave, "in_force": in_force(leave, timezone.now()), "now": timezone.now(), "form": RevokeForm()}
    return render(request, "benchmarks/authorization_detail.html", context)


@allow(AUTHORIZE)
@require_POST
def authorization_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    leave = get_object_or_404(_leaves(request), pk=pk)
    form = RevokeForm(request.POST)
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    try:
        runs.revoke(authorization=leave, by=person(request).user, reason=reason)
    except runs.RunRefused as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, "Revoked. A running cell is cancelled by its worker.")
    return redirect(leave)


def _tried(request: HttpRequest, grid: Grid, done: str, verb: Any) -> HttpResponse:
    """Does one verb and says how it went, on the live page."""
    try:
        verb()
    except runs.RunRefused as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, done)
    return redirect("grid-live", grid.pk)


def _authorized(request: HttpRequest, grid: Grid, form: AuthorizeForm) -> bool:
    data = form.cleaned_data
    try:
        runs.authorize(
            grid=grid, by=person(request).user, valid_from=data["valid_from"], valid_until=data["valid_until"],
            ceilings=form.ceilings(),
        )  # fmt: skip
    except runs.RunRefused as refused:
        form.add_error(None, str(refused))
        return False
    tasks.ring_bell(grid.hardware.slug)
    messages.success(request, "Authorised. A worker of this host begins when the time has come.")
    return True


def _offered(grid: Grid) -> dict[str, object]:
    """Ceilings that let this grid run and little more: half as long again, and what its mode can send at most."""
    terms, each_s = queries.terms(grid), grid.window_s + grid.warmup_s
    cells, probed = queries.most_cells(grid, queries.load_cells(grid).count()), queries.probe_costs(grid)
    at_each = [modes.most_requests(terms, setting, each_s) for setting in grid.setting_values]
    # A search may stay at its highest setting; elsewhere each setting has as many cells as the others.
    requests = ceil(max(at_each) * cells if grid.mode == Mode.SEARCH else sum(at_each) * cells / max(1, len(at_each)))
    # An open loop's arrivals are conversations, each of as many requests as it has turns.
    requests *= grid.workload.turns if grid.mode == Mode.OPEN else 1
    longest = max((plans.largest_tokens(row) for row in grid.workload.classes.all()), default=1)
    now = timezone.localtime()
    return {
        "valid_from": now,
        "valid_until": now + timedelta(hours=HOURS_OFFERED),
        "max_concurrency": queries.most_in_flight(grid),
        "max_requests": requests + sum(one.requests for one in probed),
        "max_tokens": requests * longest + sum(one.tokens(longest) for one in probed),
        "max_minutes": ceil(
            (cells * each_s * 1.5 + sum(one.seconds for one in probed)) / 60
            + (cells + len(probed)) * (0.5 + offered.starts_within_s(grid) / 60)
        ),
        "max_temperature_c": queries.limits_of(grid).max_temperature_c,
        "max_power_w": queries.limits_of(grid).max_power_w,
    }


def _conditions_refusal(grid: Grid, phase: str) -> str:
    if phase == Conditions.Phase.BEFORE and grid.started_at:
        return "This grid has started; conditions before it can no longer be recorded."
    if phase == Conditions.Phase.AFTER and not grid.started_at:
        return "This grid has not started; there is nothing to record after it yet."
    return ""


def _room_before(grid: Grid) -> dict[str, object]:
    before = grid.conditions.filter(phase=Conditions.Phase.BEFORE).first()
    if before is None:
        return {}
    return {"room": before.room, "power_source": before.power_source, "ambient_source": before.ambient_source}


def _resumable(grid: Grid, cells: Iterable[Cell]) -> bool:
    left = (Cell.Status.NOT_RUN, Cell.Status.INTERRUPTED)
    return grid.status == Grid.Status.STOPPED and any(
        c.status in left and not c.reason.startswith(NOT_SAFE) for c in cells
    )


def _words(form: GridFilter, chosen: dict[str, str]) -> str:
    """The filters in a sentence: "on Host 1, running, UPS power"."""
    labels = {
        name: str(dict(form.fields[name].choices).get(value, value))  # type: ignore[attr-defined]
        for name, value in chosen.items()
        if name != "q"
    }
    parts = [f"on {labels['host']}"] if "host" in labels else []
    parts += [labels["status"].lower()] if "status" in labels else []
    parts += [labels["mode"].lower()] if "mode" in labels else []
    parts += [f"{labels['power']} power"] if "power" in labels else []
    parts += [f"named like “{chosen['q']}”"] if "q" in chosen else []
    return ", ".join(parts)


class _Echo:
    """A file that hands back what is written to it, so that csv can stream."""

    def write(self, value: str) -> str:
        return value


def _exported(rows: QuerySet[Grid], wanted: str, *, bom: bool) -> HttpResponseBase:
    """Exactly the filtered rows, all pages, under stable names."""
    lines = (grid_tables.line(grid).export() for grid in rows.iterator(chunk_size=50))
    if wanted == "json":
        body = json.dumps({"grids": list(lines)}, indent=1)
        return HttpResponse(body, content_type="application/json; charset=utf-8")
    response = StreamingHttpResponse(_csv(lines, bom=bom), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="grids.csv"'
    return response


def _csv(lines: Iterable[dict[str, object]], *, bom: bool) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield ("\ufeff" if bom else "") + writer.writerow(grid_tables.EXPORT_COLUMNS)
    for found in lines:
        yield writer.writerow([_harmless(value) for value in found.values()])


def _harmless(value: object) -> object:
    """A text that a spreadsheet would run as a formula gets a leading apostrophe."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return "" if value is None else value
