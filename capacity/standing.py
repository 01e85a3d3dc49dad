"""Which approved settings stand, until when, and what has changed under them since they were measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Max, OuterRef, Prefetch, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from benchmarks.models import Cell, Grid, HardwareProbe, Runtime
from benchmarks.queries import count_of
from capacity import duties
from capacity.assessment import compare_key
from capacity.models import Choice, Statement

SOON = timedelta(days=14)
"""From here on somebody is told that a statement ends."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is no longer as it was measured: its name, and a sentence with both values."""

    name: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class Standing:
    """One approved choice that no newer one of the same service replaced. `cells` are those of plain load, by which `retest`
    says what measuring again costs."""

    choice: Choice
    statement: Statement | None
    changed: tuple[Change, ...]
    cells: int
    now: datetime

    @property
    def retest(self) -> str:
        return retest_words(self.choice.grid, self.cells)

    @property
    def retest_minutes(self) -> int:
        return retest_minutes(self.choice.grid, self.cells)

    @property
    def changed_words(self) -> str:
        """What changed, by name: "GPU driver"."""
        return ", ".join(change.name for change in self.changed)

    @property
    def ended(self) -> bool:
        return self.statement is not None and self.statement.valid_until <= self.now

    @property
    def ends_soon(self) -> bool:
        return self.statement is not None and self.now < self.statement.valid_until <= self.now + SOON

    @property
    def left(self) -> str:
        """How long its statement is still in force, in whole days; empty without one or after its end."""
        return "" if self.statement is None or self.ended else days_left(self.statement.valid_until, self.now)

    @property
    def queue_cap(self) -> str:
        """The queue cap that was approved with the setting; empty where none was derived."""
        lines: list[dict[str, str]] = self.choice.verdict.get("policy") or []
        value = next((line.get("value", "") for line in lines if line.get("key") == "queue_cap"), "")
        return value if value.isdigit() else ""

    @property
    def memory_top(self) -> float | None:
        """The end of the memory bar: a little past whatever is larger."""
        told = [self.choice.verdict.get(name) for name in ("memory_peak_bytes", "memory_limit_bytes")]
        known = [float(value) for value in told if value]
        return max(known) * 1.08 if known else None

    @property
    def ratio_top(self) -> float | None:
        """The end of the latency bar, so that the objective stands at the same place unless it is far exceeded."""
        ratio = self.choice.verdict.get("worst_ratio")
        return None if ratio is None else max(1.2, float(ratio) * 1.05)


def days_left(until: datetime, now: datetime) -> str:
    days = (timezone.localtime(until).date() - timezone.localtime(now).date()).days
    if days <= 0:
        return _("today")
    return ngettext("in %(days)d day", "in %(days)d days", days) % {"days": days}


def standing(team_id: int) -> list[Standing]:
    """The newest approved choice of each service, newest first; the number of queries does not grow with them."""
    issued = Prefetch("statements", queryset=Statement.objects.defer("pdf", "envelope").order_by("-issued_at"))
    rows = duties.choices_of(team_id).filter(pk__in=_newest(team_id)).select_related("grid__probe")
    plain = Cell.objects.filter(grid=OuterRef("grid"), probe="")
    rows = rows.annotate(cells=count_of(plain)).prefetch_related(issued)
    kept = list(rows.order_by("-decided_at"))
    changes = _changes([choice.grid for choice in kept])
    now = timezone.now()
    return [
        Standing(
            choice=choice, statement=next(iter(choice.statements.all()), None), changed=changes[choice.grid_id],
            cells=getattr(choice, "cells", 0), now=now,
        )
        for choice in kept
    ]  # fmt: skip


def _newest(team_id: int) -> QuerySet[Choice, int]:
    """The key of the newest approved choice of each service, a runtime with a workload, whichever versions; found inside the
    database, where the older ones stay."""
    service = (F("grid__runtime__slug"), F("grid__workload__slug"))
    place = Window(RowNumber(), partition_by=service, order_by=(F("decided_at").desc(), F("pk").desc()))
    approved = Choice.objects.filter(grid__team=team_id, status=Choice.Status.APPROVED)
    return approved.annotate(place=place).filter(place=1).values_list("pk", flat=True)


def retest_minutes(grid: Grid, cells: int) -> int:
    return max(1, round(grid.planned_s(cells) / 60))


def retest_words(grid: Grid, cells: int) -> str:
    """What measuring again costs, in words; `cells` are those of plain load."""
    minutes = retest_minutes(grid, cells)
    counted = ngettext("%(n)d cell", "%(n)d cells", cells) % {"n": cells}
    lasting = ngettext("about %(n)d minute", "about %(n)d minutes", minutes) % {"n": minutes}
    return _("A re-test is %(cells)s, %(minutes)s.") % {"cells": counted, "minutes": lasting}


def changed_since(grid: Grid) -> tuple[Change, ...]:
    """What is no longer as it was when the grid was measured."""
    return _changes([grid])[grid.pk]


def _changes(grids: Sequence[Grid]) -> dict[int, tuple[Change, ...]]:
    """Per grid what its host or its runtime's registration is by now and was not when it was measured."""
    hosts = {grid.hardware_id for grid in grids}
    newest = HardwareProbe.objects.filter(hardware__in=hosts).values("hardware").annotate(last=Max("pk")).values("last")
    probes = {probe.hardware_id: probe for probe in HardwareProbe.objects.filter(pk__in=newest)} if hosts else {}
    slugs = {grid.runtime.slug for grid in grids}
    versions = dict(
        Runtime.objects.filter(slug__in=slugs, team__in={grid.team_id for grid in grids})
        .values_list("slug").annotate(last=Max("version"))
    ) if slugs else {}  # fmt: skip
    return {
        grid.pk: (*_of_host(grid, probes.get(grid.hardware_id)), *_of_runtime(grid, versions.get(grid.runtime.slug)))
        for grid in grids
    }


def _of_host(grid: Grid, now: HardwareProbe | None) -> Iterable[Change]:
    """Parts that both readings know; what one of them could not read is no change."""
    if grid.probe is None or now is None or now.pk == grid.probe_id:
        return ()
    keys = (compare_key.key_of(declared={}, read=probe.facts) for probe in (grid.probe, now))
    return [
        Change(
            field.name,
            _("%(name)s was %(before)s and is %(now)s.")
            % {"name": field.name, "before": field.left, "now": field.right},
        )
        for field in compare_key.differing(*keys)
        if compare_key.NOT_KNOWN not in (field.left, field.right)
    ]


def _of_runtime(grid: Grid, newest: int | None) -> Iterable[Change]:
    if newest is None or newest <= grid.runtime.version:
        return ()
    told = {"name": grid.runtime.name, "now": newest, "before": grid.runtime.version}
    sentence = _("%(name)s is registered as version %(now)d; version %(before)d was measured.") % told
    return [Change(_("The registration"), sentence)]
