"""The pages around the work: overview, sign-in, health, words, errors."""

from __future__ import annotations

import shutil

from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, allow, person, public
from capacity import overview_tables
from capacity.attention import attention
from capacity.standing import standing

MIN_FREE_BYTES = 200 * 1024**2
APPROVED = 8


@allow(EVERYONE)
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """What needs attention, what is approved and how far from its limits, the latest grids and the hosts."""
    who = person(request)
    stands = standing(who.team.pk)
    hosts = overview_tables.hosts_of(who.team.pk)
    grids = overview_tables.latest_grids(who.team.pk)
    changed = {one.choice.grid.hardware_id: one.changed_words for one in stands if one.changed}
    steps = [] if grids else overview_tables.first_steps(who)
    context = {
        "attention": attention(who, stands, hosts),
        "approved": stands[:APPROVED],
        "grids": grids,
        "hosts": [overview_tables.host_line(host, changed.get(host.pk, "")) for host in hosts[: overview_tables.HOSTS]],
        "steps": steps,
        "next_step": next((step for step in steps if not step.done), None),
    }
    return render(request, "capacity/overview.html", context)


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
