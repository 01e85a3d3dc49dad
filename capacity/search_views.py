"""One field that finds what a team has: grids, hosts, runtimes, workloads, objectives, statements, and the docs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from benchmarks.access import EVERYONE, allow, person
from benchmarks.models import Hardware, Runtime, Workload
from benchmarks.queries import grids_of
from benchmarks.templatetags.headroom import when
from capacity import docs_index
from capacity.models import Objective, Statement

SHOWN = 8
"""So many of each kind; more words narrow it down."""
LONGEST = 80
Text = str | Promise


@dataclass(frozen=True, slots=True)
class Hit:
    title: str
    url: str
    about: str = ""
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The hits of one kind. `more`: there are others that are not shown, and `url` is where all stand."""

    title: Text
    icon: str
    hits: tuple[Hit, ...]
    more: bool = False
    url: str = ""


@allow(EVERYONE)
@require_safe
def search(request: HttpRequest) -> HttpResponse:
    """What is found of `q`, kind by kind; every word of it must be found in the row."""
    asked = " ".join(request.GET.get("q", "").split())[:LONGEST]
    groups = _found(person(request).team.pk, asked.split()) if asked else []
    return render(request, "capacity/search.html", {"asked": asked, "groups": groups})


def _found(team_id: int, words: list[str]) -> list[Group]:
    kinds: tuple[Callable[[int, list[str]], Group], ...] = (
        _grids, _statements, _hosts, _runtimes, _workloads, _objectives,
    )  # fmt: skip
    return [group for group in (*(kind(team_id, words) for kind in kinds), _docs(words)) if group.hits]


def _each(words: list[str], *fields: str) -> Q:
    """Every word stands in one of the fields."""
    found = Q()
    for word in words:
        one = Q()
        for field in fields:
            one |= Q(**{f"{field}__icontains": word})
        found &= one
    return found


def _group(title: Text, icon: str, hits: list[Hit], url_name: str) -> Group:
    return Group(title=title, icon=icon, hits=tuple(hits[:SHOWN]), more=len(hits) > SHOWN, url=reverse(url_name))


def _grids(team_id: int, words: list[str]) -> Group:
    """By what they are called, on what and of what; a number alone is also a grid's own."""
    wanted = _each(words, "name", "reason", "hardware__name", "runtime__name", "runtime__model_name", "workload__name")
    number = words[-1].removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < 10 and [w.lower() for w in words[:-1]] in ([], ["grid"]):
        wanted |= Q(pk=int(number))
    rows = grids_of(team_id).filter(wanted).order_by("-pk")[: SHOWN + 1]
    hits = [
        Hit(
            title=f"{grid.pk} · {grid.name}", url=grid.get_absolute_url(), simulated=grid.simulated,
            about=f"{grid.get_status_display()}. {grid.hardware.name}, {grid.runtime.name}, {grid.workload.name}",
        )
        for grid in rows
    ]  # fmt: skip
    return _group(_("Grids"), "grid-3x3", hits, "grid-list")


def _statements(team_id: int, words: list[str]) -> Group:
    rows = Statement.objects.filter(
        _each(words, "number", "choice__grid__name", "choice__grid__workload__name", "choice__grid__hardware__name"),
        choice__grid__team_id=team_id,
    )
    rows = rows.select_related("choice__grid").defer("pdf", "envelope").order_by("-issued_at")[: SHOWN + 1]
    hits = [
        Hit(
            title=row.number, url=row.get_absolute_url(), simulated=row.simulated,
            about=f"{row.choice.grid.name}, {when(row.issued_at)}",
        )
        for row in rows
    ]  # fmt: skip
    return _group(_("Statements"), "file-check", hits, "statement-list")


def _hosts(team_id: int, words: list[str]) -> Group:
    rows = Hardware.objects.filter(_each(words, "name", "slug", "gpu", "cpu", "place"), team_id=team_id)[: SHOWN + 1]
    parts = [(row, [part for part in (row.gpu or row.cpu, row.place) if part]) for row in rows]
    hits = [Hit(title=row.name, url=row.get_absolute_url(), about=", ".join(known)) for row, known in parts]
    return _group(_("Hosts"), "server", hits, "hardware-list")


def _runtimes(team_id: int, words: list[str]) -> Group:
    rows = Runtime.objects.filter(_each(words, "name", "slug", "model_name", "flags"), team_id=team_id)
    newest = rows.select_related("hardware").order_by("slug", "-version")[: SHOWN + 1]
    hits = [
        Hit(
            title=f"{row.name}, version {row.version}", url=row.get_absolute_url(),
            about=f"{row.model_name} on {row.hardware.name}",
        )
        for row in newest
    ]  # fmt: skip
    return _group(_("Runtimes"), "cpu", hits, "runtime-list")


def _workloads(team_id: int, words: list[str]) -> Group:
    rows = Workload.objects.filter(_each(words, "name", "slug"), team_id=team_id).order_by("slug", "-version")
    hits = [_versioned(row) for row in rows[: SHOWN + 1]]
    return _group(_("Workloads"), "chart-column-increasing", hits, "workload-list")


def _objectives(team_id: int, words: list[str]) -> Group:
    rows = Objective.objects.filter(_each(words, "name", "slug"), team_id=team_id).order_by("slug", "-version")
    hits = [_versioned(row) for row in rows[: SHOWN + 1]]
    return _group(_("Objectives"), "target", hits, "objective-list")


def _versioned(row: Workload | Objective) -> Hit:
    return Hit(title=f"{row.name}, version {row.version}", url=row.get_absolute_url())


def _docs(words: list[str]) -> Group:
    """Pages that hold every word; those that are called so stand first."""
    pages = [page for section in docs_index.found(" ".join(words)) for page in section.pages]
    named = [page for page in pages if all(word.casefold() in gettext(page.title).casefold() for word in words)]
    ordered = [*named, *(page for page in pages if page not in named)]
    hits = [Hit(gettext(page.title), reverse("docs-page", args=[page.slug]), gettext(page.lead)) for page in ordered]
    return _group(_("Docs"), "book-open", hits, "docs")
