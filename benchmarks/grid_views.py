"""Pages of grids: the list, the live page, authorising, stopping, resuming, conditions, evidence, authorisations."""

from __future__ import annotations

from datetime import timedelta
from math import ceil

from django.contrib import messages
from django.db import IntegrityError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchmarks import drafts, offered, plans, probe_tables, queries, runs, surroundings, tasks
from benchmarks.access import AUTHORIZE, EVERYONE, OPERATE, allow, confirmed_by_password, person, posted
from benchmarks.facts import worker_state
from benchmarks.models import Authorization, Conditions, Grid, Membership, Role
from benchmarks.permits import in_force, used
from benchmarks.records import modes
from benchmarks.records.modes import Mode
from benchmarks.run_forms import (
    HOURS_OFFERED,
    AuthorizeForm,
    ConditionsForm,
    RevokeForm,
)

WRONG_PASSWORD = "That is not your password. Nothing was recorded."


def grid_of_team(request: HttpRequest, pk: int) -> Grid:
    """A grid of the person's team, or 404: another team's grid does not exist for them."""
    return get_object_or_404(queries.grids_of(person(request).team.pk).select_related("team"), pk=pk)


@allow(AUTHORIZE)
@require_http_methods(["GET", "POST"])
def grid_authorize(request: HttpRequest, pk: int) -> HttpResponse:
    """What exactly would run, and leave for it; the person types their password again."""
    grid, who = grid_of_team(request, pk), person(request)
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
        "minutes": grid.planned_s(cells) / 60,
        "probes": probe_tables.asked(grid),
        "in_flight": queries.most_in_flight(grid),
        "managed_words": offered.managed_words(grid.runtime) if grid.managed else "",
        "limits": queries.limits_of(grid),
        "classes": grid.workload.classes.all(),
        "conditions": grid.conditions.all(),
        "owners": _owners(grid),
        "asked": _offered(grid),
        "worker": worker_state(grid.hardware),
    }
    return render(request, "benchmarks/grid_authorize.html", context, status=422 if form.errors else 200)


@allow(OPERATE | AUTHORIZE)
@require_http_methods(["GET", "POST"])
def grid_conditions(request: HttpRequest, pk: int, phase: str) -> HttpResponse:
    """Room and power before or after a grid, once each."""
    grid = grid_of_team(request, pk)
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
    cell = get_object_or_404(
        grid_of_team(request, pk).cells.select_related("evidence"), pk=cell_id, evidence__isnull=False
    )
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
def authorization_detail(request: HttpRequest, pk: int) -> HttpResponse:
    leave = get_object_or_404(_leaves(request), pk=pk)
    context = {"leave": leave, "in_force": in_force(leave, timezone.now()), "now": timezone.now(), "form": RevokeForm()}
    context |= {"used": used(leave)}
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


def _owners(grid: Grid) -> list[str]:
    """Who may authorise this grid: host owners of its team who did not draw it."""
    owners = Membership.objects.filter(team_id=grid.team_id, role=Role.HOST_OWNER).exclude(user_id=grid.drawn_by_id)
    return list(owners.order_by("user__username").values_list("user__username", flat=True))


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
        return gettext("This grid has started; conditions before it can no longer be recorded.")
    if phase == Conditions.Phase.AFTER and not grid.started_at:
        return gettext("This grid has not started; there is nothing to record after it yet.")
    return ""


def _room_before(grid: Grid) -> dict[str, object]:
    before = grid.conditions.filter(phase=Conditions.Phase.BEFORE).first()
    if before is None:
        return {}
    return {"room": before.room, "power_source": before.power_source, "ambient_source": before.ambient_source}
