"""Files of the policy that goes with a grid's recommended setting; the page is the result's."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, allow, person
from benchmarks.queries import grids_of
from capacity import policy_tables
from capacity.queries import result_of


@allow(EVERYONE)
@require_safe
def grid_policy(request: HttpRequest, pk: int, fmt: str) -> HttpResponse:
    result = result_of(get_object_or_404(grids_of(person(request).team.pk), pk=pk))
    if fmt == "csv":
        body, kind = policy_tables.as_csv(result), "text/csv; charset=utf-8"
    else:
        body, kind = policy_tables.as_json(result), "application/json"
    name = f"grid-{pk}-policy{'-simulated' if result.facts.simulated else ''}.{fmt}"
    return HttpResponse(body, content_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
