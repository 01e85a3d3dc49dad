"""Two grids of a team beside each other."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, allow, person
from benchmarks.models import Cell, Grid
from benchmarks.queries import grids_of
from capacity import compare_tables
from capacity.compare_tables import Comparison
from capacity.downloads import table
from capacity.queries import result_of

OFFERED = 100


@allow(EVERYONE)
@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """`grid` twice in the query: what is compared with, then what is compared. With fewer the page asks for them."""
    chosen = _chosen(request)
    both = len(chosen) == 2 and chosen[0] != chosen[1]
    found = _comparison(chosen) if both else None
    context = {
        "found": found,
        "query": request.GET.urlencode(),
        "offered": _offered(request),
        "picked": [grid.pk for grid in chosen[:2]],
        "same": len(chosen) == 2 and not both,
        "other_loading": compare_tables.OTHER_LOADING if found and not found.rows and _loads_apart(found) else "",
    }
    return render(request, "capacity/compare.html", context)


@allow(EVERYONE)
@require_safe
def compare_file(request: HttpRequest, fmt: str) -> HttpResponse:
    chosen = _chosen(request)
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise Http404("two different grids are compared")
    found = _comparison(chosen)
    simulated = any(side.simulated for side in found.sides)
    body = compare_tables.as_csv(found) if fmt == "csv" else compare_tables.as_json(found)
    return table(body, fmt, f"compare-{chosen[0].pk}-{chosen[1].pk}", simulated=simulated)


def _chosen(request: HttpRequest) -> list[Grid]:
    """The grids of the query in its order, empty fields left out. Raises Http404 for a grid that is not the team's, for
    what is no number, and for more than two."""
    told = [value for value in request.GET.getlist("grid") if value]
    if len(told) > 2 or not all(value.isascii() and value.isdigit() and len(value) < 10 for value in told):
        raise Http404("two grids are compared, each by its number")
    known = {grid.pk: grid for grid in grids_of(person(request).team.pk).filter(pk__in=told)} if told else {}
    if any(int(value) not in known for value in told):
        raise Http404("no such grid")
    return [known[int(value)] for value in told]


def _comparison(chosen: list[Grid]) -> Comparison:
    return compare_tables.comparison(result_of(chosen[0]), result_of(chosen[1]))


def _offered(request: HttpRequest) -> list[tuple[int, str]]:
    """The newest grids that have something measured, as number and words."""
    measured = Cell.objects.filter(probe="", status=Cell.Status.MEASURED).values("grid")
    rows = grids_of(person(request).team.pk).filter(pk__in=measured)[:OFFERED]
    return [(grid.pk, f"{grid.pk} · {grid.name}, {grid.runtime.name}") for grid in rows]


def _loads_apart(found: Comparison) -> bool:
    return found.left.evidence.grid.mode != found.right.evidence.grid.mode
