"""Two grids of a team beside each other."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, allow, person
from benchmarks.models import Cell, Grid
from benchmarks.queries import grids_of
from capacity import chart_svg, compare_charts, compare_tables
from capacity.compare_tables import Comparison
from capacity.downloads import attachment, table
from capacity.queries import result_of

OFFERED = 100


@allow(EVERYONE)
@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """`grid` twice in the query: A, what is compared with, then B, what is compared. With fewer the page asks for them."""
    chosen = _chosen(request)
    both = len(chosen) == 2 and chosen[0] != chosen[1]
    context: dict[str, Any] = {
        "offered": _offered(request, chosen[0] if chosen else None),
        "picked": [grid.pk for grid in chosen[:2]],
        "same": len(chosen) == 2 and not both,
    }
    if both:
        context |= _page(request, chosen)
    return render(request, "capacity/compare.html", context)


def _page(request: HttpRequest, chosen: list[Grid]) -> dict[str, Any]:
    """What the page of two grids shows beside what it asks for."""
    found = _comparison(chosen)
    chart = compare_charts.frontiers(found)
    measure = request.GET.get("measure", "")
    measure = measure if measure in compare_tables.MEASURES else next(iter(compare_tables.MEASURES))
    return {
        "found": found,
        "chart": chart,
        "figures": {chart.figure_id: chart.figure} if chart else {},
        "measure": measure,
        "measures": compare_tables.MEASURES.items(),
        "cells": compare_tables.cell_lines(found, measure),
        "missing": compare_tables.missing_cells(found),
        "query": _query(chosen[0], chosen[1]),
        "swapped": _query(chosen[1], chosen[0]),
        "link": request.build_absolute_uri(f"{request.path}?{_query(chosen[0], chosen[1])}"),
        "other_loading": compare_tables.OTHER_LOADING if not found.rows and _loads_apart(found) else "",
    }


def _query(left: Grid, right: Grid) -> str:
    return f"grid={left.pk}&grid={right.pk}"


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


@allow(EVERYONE)
@require_safe
def compare_chart(request: HttpRequest, kind: str) -> HttpResponse:
    """The figure of both frontiers as it is drawn, with what was measured where, or its points."""
    chosen = _chosen(request)
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise Http404("two different grids are compared")
    found = _comparison(chosen)
    chart = compare_charts.frontiers(found)
    if chart is None:
        raise Http404("nothing of these grids can be drawn")
    stem, simulated = f"compare-{chosen[0].pk}-{chosen[1].pk}-frontiers", any(s.simulated for s in found.sides)
    if kind == "svg":
        sides = zip("AB", chosen, found.sides, strict=True)
        lines = [f"{letter}: grid {grid.pk}, {grid.name}. {side.words}" for letter, grid, side in sides]
        name = f"{stem}{'-simulated' if simulated else ''}.svg"
        return attachment(chart_svg.draw(chart, [found.sentence, *lines]), "image/svg+xml", name)
    return table(compare_tables.chart_csv(found, chart), "csv", stem, simulated=simulated)


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


def _offered(request: HttpRequest, first: Grid | None) -> list[tuple[str, list[tuple[int, str]]]]:
    """The newest grids that have something measured, as number and words; those most like the first one stand first."""
    measured = Cell.objects.filter(grid=OuterRef("pk"), probe="", status=Cell.Status.MEASURED)
    of_team = Grid.objects.filter(Exists(measured), team=person(request).team).select_related("runtime")
    rows = list(of_team.only("name", "mode", "workload_id", "runtime__name")[:OFFERED])
    if not rows:
        return []
    if first is None:
        return [("", [_option(grid) for grid in rows])]
    alike = [grid for grid in rows if (grid.workload_id, grid.mode) == (first.workload_id, first.mode)]
    others = [grid for grid in rows if grid not in alike]
    groups = [(_("Same workload and way of loading"), alike), (_("Others"), others)]
    return [(label, [_option(grid) for grid in group]) for label, group in groups if group]


def _option(grid: Grid) -> tuple[int, str]:
    return grid.pk, f"{grid.pk} · {grid.name}, {grid.runtime.name}"


def _loads_apart(found: Comparison) -> bool:
    return found.left.evidence.grid.mode != found.right.evidence.grid.mode
