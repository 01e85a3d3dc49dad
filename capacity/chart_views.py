"""One chart of a grid as a file: drawn, or its points as a table; both carry hardware, room, power and date. As JSON it is
the figure that the page draws when another class is chosen."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, allow, person
from benchmarks.queries import grids_of
from capacity import chart_set, chart_svg, exports
from capacity.chart_types import Chart
from capacity.downloads import attachment, table
from capacity.queries import Result, provenance, result_of


@allow(EVERYONE)
@require_safe
def grid_chart(request: HttpRequest, pk: int, chart: str, kind: str) -> HttpResponse:
    result = result_of(get_object_or_404(grids_of(person(request).team.pk), pk=pk))
    found = chart_set.one(result, chart)
    if found is None:
        raise Http404("no such chart")
    if kind == "json":
        return HttpResponse(found.figure, content_type="application/json")
    simulated, stem = result.facts.simulated, f"grid-{pk}-{chart}"
    if kind == "csv":
        return table(as_csv(result, found), "csv", stem, simulated=simulated)
    name = f"{stem}{'-simulated' if simulated else ''}.svg"
    return attachment(as_svg(result, found), "image/svg+xml", name)


def as_svg(result: Result, chart: Chart) -> str:
    grid, found = result.evidence.grid, provenance(result.evidence)
    return chart_svg.draw(chart, [f"Grid {grid.pk}, {grid.name}", *found.lines])


def as_csv(result: Result, chart: Chart) -> str:
    """Every point that is drawn; where it was measured stands in each row."""
    points = chart.points
    columns = (*exports.WHERE, *(column.key for column in points.columns))
    head = exports.where(result)
    rows = [dict(zip(columns, (*head, *map(exports.plain, row)), strict=True)) for row in points.rows]
    return exports.csv_of(rows, columns)
