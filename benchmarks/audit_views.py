"""The audit page: the events of one's team, and whether the chain holds."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import audit
from benchmarks.access import EVERYONE, allow, person
from benchmarks.models import Event


@allow(EVERYONE)
def audit_list(request: HttpRequest) -> HttpResponse:
    """Events of the team, newest first. The chain runs over the events of all teams, so it is checked whole."""
    events = Event.objects.filter(team=person(request).team)
    text = request.GET.get("q", "").strip()
    if text:
        events = (
            events.filter(subject__icontains=text)
            | events.filter(actor__icontains=text)
            | events.filter(verb__icontains=text)
        )
    context = {
        "page": Paginator(events, 50).get_page(request.GET.get("page")),
        "q": text,
        "broken": audit.broken_links(),
        "head": audit.head(),
        "total": Event.objects.count(),
    }
    return render(request, "benchmarks/audit_list.html", context)
