"""What the overview shows beside what needs attention: the latest grids, the hosts, and the first steps of a new team."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, FloatField, OuterRef, Prefetch, Q, Subquery
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from benchmarks import grid_tables
from benchmarks.access import OPERATE, REGISTER_HOST, RUN, Person
from benchmarks.facts import is_fresh
from benchmarks.grid_tables import GridLine
from benchmarks.models import Cell, Grid, Hardware, Runtime, Workload
from benchmarks.queries import FINISHED, count_of, grids_of
from benchmarks.templatetags.headroom import f1, f2, since
from capacity.models import Choice, Objective

LATEST, HOSTS = 6, 8
WORK = (Cell.Status.QUEUED, Cell.Status.RUNNING)


@dataclass(frozen=True, slots=True)
class LatestGrid:
    """A line of the list of grids, what came of it in two short texts, and the grade of what was decided about it."""

    line: GridLine
    result: str
    detail: str
    grade: str


def latest_grids(team_id: int) -> list[LatestGrid]:
    choices = Prefetch("choices", queryset=Choice.objects.exclude(status=Choice.Status.WITHDRAWN).order_by("-id"))
    grids = list(grids_of(team_id).prefetch_related(choices).order_by("-pk")[:LATEST])
    lines = grid_tables.lines_of(grids)
    return [_latest(lines[grid.pk], next(iter(grid.choices.all()), None)) for grid in grids]


def _latest(line: GridLine, choice: Choice | None) -> LatestGrid:
    grid = line.grid
    if choice is not None:
        rate = choice.verdict.get("good_per_min")
        detail = "" if rate is None else _("%(rate)s successful a minute") % {"rate": f1(rate)}
        setting = _("No safe setting") if choice.setting is None else _("%(n)d in flight") % {"n": choice.setting}
        return LatestGrid(line, setting, detail or choice.get_status_display(), choice.grade)
    if grid.status == Grid.Status.RUNNING:
        told = {"n": min(line.measured + 1, line.total), "total": line.total}
        return LatestGrid(line, _("Cell %(n)d of %(total)d") % told, "", "")
    counted = _("%(n)d of %(total)d cells") % {"n": line.measured, "total": line.total}
    if grid.status == Grid.Status.STOPPED:
        return LatestGrid(line, _("Ended early"), counted, "")
    if line.worst_ratio is not None and math.isinf(line.worst_ratio):
        return LatestGrid(line, _("Nothing proposed"), _("worst p95 among failed requests"), "")
    if line.worst_ratio is None:
        return LatestGrid(line, _("No result yet") if not line.measured else counted, "", "")
    worst = _("worst p95 %(ratio)s of its objective") % {"ratio": f2(line.worst_ratio)}
    return LatestGrid(line, _("Nothing proposed"), worst, "")


@dataclass(frozen=True, slots=True)
class HostLine:
    """A host with its state: run, ok, warn or idle, in words too; of one that runs what its hottest GPU said last."""

    host: Hardware
    kind: str
    parts: str
    state: str
    temperature_c: float | None = None


def hosts_of(team_id: int) -> list[Hardware]:
    """All hosts with the number of cells that wait or run on them, and the running grid: one that is not shown may still
    need attention."""
    work = Count("grids__cells", filter=Q(grids__cells__status__in=WORK), distinct=True)
    plain = Cell.objects.filter(grid=OuterRef("pk"), probe="")
    heat = KeyTextTransform("gpu_temperature_c", KeyTransform("readings", "progress"))
    now = plain.filter(status=Cell.Status.RUNNING).annotate(heat=Cast(heat, FloatField()))
    grids = Grid.objects.filter(status=Grid.Status.RUNNING).annotate(
        total=count_of(plain),
        over=count_of(plain.filter(status__in=FINISHED)),
        temperature_c=Subquery(now.values("heat")[:1]),
    )
    running = Prefetch("grids", queryset=grids, to_attr="running_grids")
    return list(Hardware.objects.filter(team_id=team_id).annotate(work=work).prefetch_related(running))


def host_line(host: Hardware, changed: str = "") -> HostLine:
    """`changed` names what is no longer as approvals rest on it."""
    running: list[Grid] = getattr(host, "running_grids", [])
    parts = host.gpu or host.cpu
    if host.worker_seen_at is None:
        return HostLine(host, "idle", parts, _("No worker has been seen."))
    seen = since(host.worker_seen_at)
    if not is_fresh(host.worker_seen_at, timezone.now()):
        return HostLine(host, "warn", parts, _("Its worker was last seen %(ago)s.") % {"ago": seen})
    if running:
        grid: Any = running[0]
        told = {"n": grid.pk, "at": min(grid.over + 1, grid.total), "all": grid.total}
        return HostLine(
            host, "run", parts, _("Runs grid %(n)d, cell %(at)d of %(all)d.") % told, temperature_c=grid.temperature_c
        )
    if changed:
        return HostLine(host, "warn", parts, _("Idle. %(what)s changed since it was measured.") % {"what": changed})
    return HostLine(host, "ok", parts, _("Idle, its worker runs."))


@dataclass(frozen=True, slots=True)
class Step:
    """One step to the first grid. `url` is empty for who may not take it."""

    title: str | Promise
    why: str | Promise
    done: bool
    url: str


_STEPS = (
    ("hardware-new", REGISTER_HOST, Hardware, gettext_lazy("Register a host"),
     gettext_lazy("The machine that is loaded, and the room it stands in.")),
    ("runtime-new", OPERATE, Runtime, gettext_lazy("Register a runtime"),
     gettext_lazy("What answers there, with its model and flags. A probe of the address fills in what it says of itself.")),
    ("workload-new", OPERATE, Workload, gettext_lazy("Describe a workload"),
     gettext_lazy("How long prompts and answers are, in classes with weights. No prompt text is ever taken.")),
    ("objective-new", OPERATE, Objective, gettext_lazy("Set an objective"),
     gettext_lazy("What must hold, set before anything is measured.")),
    ("grid-new", RUN, Grid, gettext_lazy("Draw the first grid"),
     gettext_lazy("Settings times length classes. The host's owner authorises it before anything is sent.")),
)  # fmt: skip


def first_steps(who: Person) -> list[Step]:
    """From nothing to the first grid, in the order in which they need each other."""
    return [
        Step(
            title=title, why=why, done=model._default_manager.filter(team_id=who.team.pk).exists(),
            url=reverse(name) if who.may(roles) else "",
        )
        for name, roles, model, title, why in _STEPS
    ]  # fmt: skip
