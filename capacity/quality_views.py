"""Sampled answers of two settings side by side, as page and files."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, allow, person
from benchmarks.queries import grids_of
from benchmarks.records.mode_words import setting_words
from capacity import quality_tables
from capacity.downloads import table
from capacity.quality_tables import Quality
from capacity.queries import Result, provenance, result_of


@allow(EVERYONE)
@require_safe
def grid_quality(request: HttpRequest, pk: int) -> HttpResponse:
    """`at`: the setting beside the lowest measured one."""
    result, found = _found(request, pk)
    grid = result.evidence.grid
    context = {
        "grid": grid,
        "quality": found,
        "low_words": setting_words(grid.mode, found.low) if found.low else "",
        "at_words": setting_words(grid.mode, found.at) if found.at else "",
        "others": [(setting, setting_words(grid.mode, setting)) for setting in found.others],
        "recommended": result.verdict.recommended,
        "provenance": provenance(result.evidence),
    }
    return render(request, "capacity/quality.html", context)


@allow(EVERYONE)
@require_safe
def grid_quality_file(request: HttpRequest, pk: int, fmt: str) -> HttpResponse:
    result, found = _found(request, pk)
    body = quality_tables.as_csv(result, found) if fmt == "csv" else quality_tables.as_json(result, found)
    at = f"-at-{found.at}" if found.at else ""
    return table(body, fmt, f"grid-{pk}-quality{at}", simulated=result.facts.simulated)


def _found(request: HttpRequest, pk: int) -> tuple[Result, Quality]:
    result = result_of(get_object_or_404(grids_of(person(request).team.pk), pk=pk))
    wanted = request.GET.get("at", "")
    if wanted and not (wanted.isascii() and wanted.isdecimal() and len(wanted) < 10):
        raise Http404("no such setting")
    try:
        return result, quality_tables.quality(result, int(wanted) if wanted else None)
    except LookupError as error:
        raise Http404(str(error)) from error
