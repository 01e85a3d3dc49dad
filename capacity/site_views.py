"""The pages around the work: overview, sign-in, health, words, errors."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, Person, allow, person, public
from benchmarks.models import Grid, Hardware
from benchmarks.queries import grids_of
from capacity.models import Choice, Statement

WORKER_LATE_AFTER = timedelta(minutes=2)
MIN_FREE_BYTES = 200 * 1024**2


@dataclass(frozen=True, slots=True)
class Attention:
    """One row of "needs attention": what, what follows from it, and the one thing to do."""

    kind: str
    title: str
    consequence: str
    action: str
    url: str


@allow(EVERYONE)
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    who = person(request)
    open_choices = Choice.objects.filter(grid__team=who.team).select_related("grid", "grid__hardware", "proposed_by")
    return render(
        request,
        "capacity/overview.html",
        {
            "attention": _attention(who),
            "approved": open_choices.filter(status=Choice.Status.APPROVED)[:8],
            "grids": grids_of(who.team.pk)[:6],
            "hosts": Hardware.objects.filter(team=who.team)[:8],
            "late_before": timezone.now() - WORKER_LATE_AFTER,
            "statements": Statement.objects.filter(choice__grid__team=who.team).select_related("choice__grid")[:4],
        },
    )


def _attention(who: Person) -> list[Attention]:
    """What waits for somebody, the person's own duties first."""
    rows = [*_waiting_grids(who), *_waiting_choices(who)]
    return sorted(rows, key=lambda row: row.kind != "yours")[:8]


def _waiting_grids(who: Person) -> list[Attention]:
    rows = []
    for grid in grids_of(who.team.pk).filter(status=Grid.Status.DRAFT)[:5]:
        mine = "authorize" if grid.drawn_by_id != who.user.pk else ""
        rows.append(
            Attention(
                kind="yours" if mine and "host_owner" in who.roles else "others",
                title=f"{grid} waits for authorisation",
                consequence="Nothing is sent to the host until its owner authorises exactly this plan.",
                action="Read and authorise" if mine else "Look at the plan",
                url=reverse("grid-authorize", args=[grid.pk])
                if mine and "host_owner" in who.roles
                else grid.get_absolute_url(),
            )
        )
    done = grids_of(who.team.pk).filter(status=Grid.Status.MEASURED, choices__isnull=True)[:5]
    for grid in done:
        rows.append(
            Attention(
                kind="yours" if "operator" in who.roles else "others",
                title=f"{grid} is measured, nothing is proposed yet",
                consequence="Its result decides nothing until somebody proposes it.",
                action="See the result",
                url=grid.get_absolute_url(),
            )
        )
    return rows


def _waiting_choices(who: Person) -> list[Attention]:
    rows = []
    choices = Choice.objects.filter(grid__team=who.team).select_related("grid")
    for choice in choices.filter(status=Choice.Status.PROPOSED)[:5]:
        may = "approver" in who.roles and who.user.pk not in (choice.proposed_by_id, choice.measured_by_id)
        rows.append(
            Attention(
                kind="yours" if may else "others",
                title=f"{choice.title} is proposed for {choice.grid.name}",
                consequence="It holds for nobody until a person who neither ran nor proposed it approves.",
                action="Review" if may else "Look at it",
                url=choice.get_absolute_url(),
            )
        )
    for choice in choices.filter(status=Choice.Status.APPROVED, statements__isnull=True)[:5]:
        rows.append(
            Attention(
                kind="yours" if "signer" in who.roles else "others",
                title=f"{choice.title} is approved for {choice.grid.name}",
                consequence="No capacity statement says so yet.",
                action="Issue the statement" if "signer" in who.roles else "Look at it",
                url=choice.get_absolute_url(),
            )
        )
    return rows


login = public(LoginView.as_view(template_name="capacity/login.html", redirect_authenticated_user=True))
logout = public(LogoutView.as_view())


@public
@require_safe
def healthz_live(_request: HttpRequest) -> HttpResponse:
    """Alive: the process answers. Asks nothing of the database."""
    return HttpResponse("live\n", content_type="text/plain")


@public
@require_safe
def healthz_ready(_request: HttpRequest) -> HttpResponse:
    """Ready: the database answers and there is room on the disk; 503 names what is not."""
    checks = {"database": _database_answers(), "disk": shutil.disk_usage(settings.VAR).free > MIN_FREE_BYTES}
    return JsonResponse(checks, status=200 if all(checks.values()) else 503)


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return bool(cursor.fetchone())
    except DatabaseError:
        return False


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "403.html", {"reason": str(exception or "")}, status=403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "404.html", {"reason": str(exception or "")}, status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    return render(request, "500.html", status=500)
