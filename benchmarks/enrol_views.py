"""Pages of enrolment: a host owner makes the one-time key that a worker is enrolled with, and takes trust back."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from benchmarks import enrolling
from benchmarks.access import AUTHORIZE, allow, confirmed_by_password, person
from benchmarks.models import Hardware, WorkerKey

UNPROCESSABLE = 422
WRONG_PASSWORD = "This is not your password."


@allow(AUTHORIZE)
@never_cache
@require_http_methods(["GET", "POST"])
def hardware_enrol(request: HttpRequest, slug: str) -> HttpResponse:
    """Makes a one-time key after the person typed their password again. The answer shows it; no other page can."""
    who = person(request)
    host = get_object_or_404(Hardware, team=who.team, slug=slug)
    context: dict[str, object] = {"hardware": host, "live": enrolling.live_key(host.pk)}
    if request.method != "POST":
        return render(request, "benchmarks/hardware_enrol.html", context)
    if not confirmed_by_password(request, request.POST.get("password", "")):
        context["wrong"] = WRONG_PASSWORD
        return render(request, "benchmarks/hardware_enrol.html", context, status=UNPROCESSABLE)
    key, token = enrolling.make_key(hardware=host, by=who.user)
    return render(request, "benchmarks/hardware_enrol.html", context | {"key": key, "token": token})


@allow(AUTHORIZE)
@require_POST
def worker_key_revoke(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    who = person(request)
    key = get_object_or_404(
        WorkerKey.objects.select_related("hardware__team"), pk=pk, hardware__slug=slug, hardware__team=who.team
    )
    try:
        enrolling.revoke_key(key=key, by=who.user)
    except enrolling.EnrolRefused as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, f"{key} is revoked. What it signed stays signed; it measures nothing more.")
    return redirect(key.hardware)
