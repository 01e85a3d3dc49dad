"""Pages that list what the measuring side has: hosts, runtimes, workloads, authorisations, the audit log."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from benchmarks import audit, grid_lists, registry_lists
from benchmarks.access import EVERYONE, allow, person
from benchmarks.imports.preset_table import PRESETS
from benchmarks.listing import answer
from benchmarks.models import Event

CHECKED_AT_ONCE = 1000


@allow(EVERYONE)
@require_safe
def hardware_list(request: HttpRequest) -> HttpResponseBase:
    return answer(
        request, "benchmarks/hardware_list.html", registry_lists.hosts_of(person(request).team.pk),
        table=registry_lists.HostTable, filters=registry_lists.HostFilter, sentence=registry_lists.hosts_said,
    )  # fmt: skip


@allow(EVERYONE)
@require_safe
def runtime_list(request: HttpRequest) -> HttpResponseBase:
    return answer(
        request, "benchmarks/runtime_list.html", registry_lists.runtimes_of(person(request).team.pk),
        table=registry_lists.RuntimeTable, filters=registry_lists.RuntimeFilter, sentence=registry_lists.runtimes_said,
    )  # fmt: skip


@allow(EVERYONE)
@require_safe
def workload_list(request: HttpRequest) -> HttpResponseBase:
    return answer(
        request, "benchmarks/workload_list.html", registry_lists.workloads_of(person(request).team.pk),
        table=registry_lists.WorkloadTable, filters=registry_lists.WorkloadFilter,
        sentence=registry_lists.workloads_said, presets=PRESETS,
    )  # fmt: skip


@allow(EVERYONE)
@require_safe
def authorization_list(request: HttpRequest) -> HttpResponseBase:
    team_id = person(request).team.pk
    return answer(
        request, "benchmarks/authorization_list.html", grid_lists.leaves_of(team_id), table=grid_lists.LeaveTable,
        filters=grid_lists.LeaveFilter, sentence=grid_lists.leaves_said, waiting=grid_lists.waiting_of(team_id),
    )  # fmt: skip


@allow(EVERYONE)
@require_safe
def audit_list(request: HttpRequest) -> HttpResponseBase:
    """Events of the team. The chain runs over the events of all teams, so it is checked whole: a short one with each view,
    a long one when somebody asks."""
    total = Event.objects.count()
    whole = "check" in request.GET or total <= CHECKED_AT_ONCE
    return answer(
        request, "benchmarks/audit_list.html", Event.objects.filter(team=person(request).team),
        table=registry_lists.EventTable, filters=registry_lists.EventFilter, sentence=registry_lists.events_said,
        checked=whole, broken=audit.broken_links() if whole else [], head=audit.head(),
        total=total,
    )  # fmt: skip
