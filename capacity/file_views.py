"""Tables of a grid as files; the page is the result's. One way to hand any of them out."""

from __future__ import annotations

from typing import Protocol

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, allow, person
from benchmarks.queries import grids_of
from capacity import (
    batch_tables,
    behaviour_tables,
    confirm_tables,
    exports,
    policy_tables,
    rubric_tables,
    validity_tables,
)
from capacity.downloads import table
from capacity.queries import Result, result_of


class Table(Protocol):
    """A module that writes one table of a result."""

    def as_csv(self, result: Result) -> str: ...

    def as_json(self, result: Result) -> str: ...


TABLES: dict[str, Table] = {
    "cells": exports,
    "batch": batch_tables,
    "behaviour": behaviour_tables,
    "rubric": rubric_tables,
    "policy": policy_tables,
    "checks": validity_tables,
    "queue": confirm_tables,
}


@allow(EVERYONE)
@require_safe
def grid_table(request: HttpRequest, pk: int, fmt: str, part: str) -> HttpResponse:
    result = result_of(get_object_or_404(grids_of(person(request).team.pk), pk=pk))
    wanted = TABLES[part]
    body = wanted.as_csv(result) if fmt == "csv" else wanted.as_json(result)
    return table(body, fmt, f"grid-{pk}-{part}", simulated=result.facts.simulated)
