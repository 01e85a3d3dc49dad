"""The lists of grids and of authorisations. What the judge adds to the list of grids stands in capacity.lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from benchmarks import grid_tables
from benchmarks.access import person
from benchmarks.grid_models import MODES
from benchmarks.grid_tables import GridLine
from benchmarks.listing import Col, ListFilter, ListTable, When, at, choice, day, link, part, plain, two
from benchmarks.models import Authorization, Conditions, Grid, Hardware, PowerSource, Workload
from benchmarks.permits import in_force
from benchmarks.queries import grids_of
from benchmarks.records.spreadsheet import Value
from benchmarks.templatetags.headroom import NOTHING, f0, gib, glyph, missing, pill, when

LEAVE_STATES = (
    ("live", gettext_lazy("In force")),
    ("over", gettext_lazy("Not in force")),
    ("revoked", gettext_lazy("Revoked")),
)


def grids_said(rows: QuerySet[Grid], total: int) -> str:
    """ "12 grids, 3 running, 1 awaiting authorisation": what runs and what waits for somebody is said."""
    said = ngettext("%(n)s grid", "%(n)s grids", total) % {"n": f0(total)}
    if not total:
        return said
    found = dict(rows.order_by().values_list("status").annotate(n=Count("pk")))
    running, waiting = found.get(Grid.Status.RUNNING), found.get(Grid.Status.DRAFT)
    parts = [_("%(n)s running") % {"n": f0(running)}] if running else []
    if waiting:
        words = ngettext("%(n)s waits for its authorisation", "%(n)s wait for their authorisation", waiting)
        parts.append(words % {"n": f0(waiting)})
    return ", ".join([said, *parts])


class GridTable(ListTable):
    pick = Col(gettext_lazy("Compare"), orderable=False, lead=True, css="hr-pickc")
    name = Col(gettext_lazy("Grid"), lead=True, order_by=("name",))
    cells = Col(gettext_lazy("Cells"), orderable=False)
    state = Col(gettext_lazy("State"), accessor="status")
    ratio = Col(
        gettext_lazy("Worst p95 ÷ objective"), order_by=("figures__among_failures", "figures__worst_ratio"), num=True
    )
    vram = Col(gettext_lazy("Peak VRAM"), order_by=("figures__vram_peak_bytes",), num=True)
    host_memory = Col(gettext_lazy("Peak host memory"), order_by=("figures__host_memory_peak_bytes",), num=True)
    conditions = Col(gettext_lazy("Host, power, room"), orderable=False)
    host = Col(gettext_lazy("Host"), accessor="hardware__slug")
    workload = Col(gettext_lazy("Workload"), accessor="workload__slug")
    mode = Col(gettext_lazy("Loaded by"))
    drawn = When(gettext_lazy("Drawn"), accessor="drawn_at", order_by=("pk",))
    started = When(gettext_lazy("Started"), accessor="started_at")
    ended = When(gettext_lazy("Ended"), accessor="finished_at")

    stem, first = "grids", "-drawn"
    hidden: ClassVar[tuple[str, ...]] = ("host_memory", "host", "workload", "mode", "started", "ended")
    lines: dict[int, GridLine]
    out: ClassVar[dict[str, Any]] = {
        "grid": "pk", "name": "name", "host": "hardware.slug", "runtime": lambda g: f"{g.runtime.slug} {g.runtime.version}",
        "model": "runtime.model_name", "workload": lambda g: f"{g.workload.slug} {g.workload.version}", "status": "status",
        "simulated": "simulated", "mode": "mode", "settings": "setting_values", "classes": "class_names", "repeats": "repeats",
        "drawn_by": "drawn_by.username", "drawn_at": "drawn_at", "started_at": "started_at", "finished_at": "finished_at",
        "stop_reason": "stop_reason",
    }  # fmt: skip
    of_line: ClassVar[dict[str, str]] = {
        "cells_measured": "measured", "cells_total": "total", "worst_p95_over_objective": "worst_ratio",
        "vram_peak_bytes": "vram_peak_bytes", "host_memory_peak_bytes": "host_memory_peak_bytes", "room": "conditions.room",
        "ambient_c": "conditions.ambient_c", "power_source": "conditions.power_source",
    }  # fmt: skip

    def prepare(self, rows: Sequence[Grid]) -> None:
        self.lines = grid_tables.lines_of(rows)

    def names(self) -> list[str]:
        return [*self.out, *self.of_line]

    def row(self, record: Grid) -> dict[str, Value]:
        line = self.lines[record.pk]
        return super().row(record) | {name: plain(at(line, where)) for name, where in self.of_line.items()}

    def render_pick(self, record: Grid) -> SafeString:
        name = _("Choose grid %(n)s for comparing") % {"n": record.pk}
        box = '<input type="checkbox" name="grid" value="{}" form="tray" data-pick aria-label="{}">'
        return format_html(box, record.pk, name) if self.lines[record.pk].measured else SafeString("")

    def render_name(self, record: Grid) -> SafeString:
        runtime = record.runtime
        parts = [runtime.model_name, _("simulated") if record.simulated else runtime.get_kind_display()]
        parts += [record.words.name.lower()] if record.mode != "closed" else []
        page = "grid-detail" if self.lines[record.pk].measured else "grid-live"
        return link(record, f"{record.pk} · {record.name}", ", ".join(parts), url=reverse(page, args=[record.pk]))

    def render_cells(self, record: Grid) -> SafeString:
        line = self.lines[record.pk]
        return glyph(line.levels, line.label, line.columns)

    def render_state(self, record: Grid) -> SafeString:
        return part("benchmarks/parts/grid_state.html", grid=record)

    def render_ratio(self, record: Grid) -> SafeString:
        line = self.lines[record.pk]
        return part("benchmarks/parts/ratio.html", ratio=line.worst_ratio, measured=line.measured)

    def render_vram(self, record: Grid) -> object:
        line = self.lines[record.pk]
        return _size(line.vram_peak_bytes) if line.measured else NOTHING

    def render_host_memory(self, record: Grid) -> object:
        return _size(self.lines[record.pk].host_memory_peak_bytes)

    def render_drawn(self, value: datetime) -> object:
        told = timezone.localtime(value)
        return format_html('<span class="hr-muted hr-nowrap" title="{}">{}</span>', when(value), when(told.date()))

    def render_conditions(self, record: Grid) -> SafeString:
        room, host = (
            self.lines[record.pk].conditions,
            format_html('<span class="hr-nowrap">{}</span>', record.hardware.name),
        )
        if room is None:
            return two(host, _("conditions not recorded"))
        warmth = _("temperature not recorded") if room.ambient_c is None else f"{f0(room.ambient_c)}\u00a0°C"
        return two(host, format_html('<span class="hr-nowrap">{}, {}</span>', room.get_power_source_display(), warmth))

    def render_host(self, record: Grid) -> SafeString:
        return link(record.hardware, record.hardware.slug)

    def render_workload(self, record: Grid) -> SafeString:
        return link(record.workload, record.workload.slug, _("version %(n)s") % {"n": record.workload.version})

    def render_mode(self, record: Grid) -> str:
        return record.words.name


class GridFilter(ListFilter):
    text_in = ("name", "runtime__model_name", "reason")
    host = choice(gettext_lazy("Host"), field_name="hardware__slug")
    workload = choice(gettext_lazy("Workload"), field_name="workload__slug")
    status = choice(gettext_lazy("State"), choices=Grid.Status.choices)
    mode = choice(gettext_lazy("Loaded by"), choices=MODES)
    power = choice(gettext_lazy("Power"), method="with_power", choices=PowerSource.choices)
    since = day(gettext_lazy("Since"), field_name="drawn_at")

    def __init__(self, *args: Any, request: HttpRequest, **options: Any) -> None:
        super().__init__(*args, request=request, **options)
        team = person(request).team
        self.offer("host", Hardware.objects.filter(team=team).values_list("slug", "name"))
        names = Workload.objects.filter(team=team).order_by("slug", "version").values_list("slug", "name")
        self.offer("workload", dict(names).items())

    def with_power(self, rows: QuerySet[Any], _name: str, value: str) -> QuerySet[Any]:
        return rows.filter(conditions__phase=Conditions.Phase.BEFORE, conditions__power_source=value)


def _size(size: float | None) -> object:
    return gib(size) if size is not None else format_html('<span class="hr-muted">{}</span>', missing(None))


# --- authorisations --------------------------------------------------------------------------------------------------


def leaves_of(team_id: int) -> QuerySet[Authorization]:
    related = ("grid__hardware", "requested_by", "authorized_by", "revoked_by")
    return Authorization.objects.filter(grid__team=team_id).select_related(*related)


def waiting_of(team_id: int) -> QuerySet[Grid]:
    """Drafts that nobody has authorised."""
    return grids_of(team_id).filter(status=Grid.Status.DRAFT)


def leaves_said(rows: QuerySet[Authorization], total: int) -> str:
    said = ngettext("%(n)s authorisation", "%(n)s authorisations", total) % {"n": f0(total)}
    live = _live(rows).order_by().count() if total else 0
    return _("%(all)s, %(n)s in force") % {"all": said, "n": f0(live)} if total else said


def _live(rows: QuerySet[Any]) -> QuerySet[Any]:
    now = timezone.now()
    return rows.filter(revoked_at=None, valid_from__lte=now, valid_until__gt=now)


class LeaveTable(ListTable):
    name = Col(gettext_lazy("Authorisation"), lead=True, order_by=("pk",), initial_sort_descending=True)
    state = Col(gettext_lazy("State"), orderable=False)
    target = Col(gettext_lazy("Target"))
    given = When(gettext_lazy("Given"), accessor="authorized_at", order_by=("pk",))
    start = When(gettext_lazy("From"), accessor="valid_from")
    end = When(gettext_lazy("Until"), accessor="valid_until")
    ceilings = Col(gettext_lazy("At most"), orderable=False)
    asked = Col(gettext_lazy("Drawn by"), accessor="requested_by__username")

    stem, first, hidden = "authorisations", "-name", ("ceilings", "asked")
    out = {
        "authorisation": str, "grid": "grid_id", "grid_name": "grid.name", "host": "grid.hardware.slug", "target": "target",
        "in_force": lambda leave: in_force(leave, timezone.now()), "requested_by": "requested_by.username",
        "authorised_by": "authorized_by.username", "authorised_at": "authorized_at", "valid_from": "valid_from",
        "valid_until": "valid_until", "revoked_at": "revoked_at", "max_concurrency": "max_concurrency",
        "max_requests": "max_requests", "max_tokens": "max_tokens", "max_minutes": "max_minutes",
        "max_temperature_c": "max_temperature_c", "max_power_w": "max_power_w", "grid_sha256": "grid_digest",
    }  # fmt: skip

    def render_name(self, record: Authorization) -> SafeString:
        words = _("grid %(n)s, %(name)s") % {"n": record.grid_id, "name": record.grid.name}
        return link(record, record, words)

    def render_state(self, record: Authorization) -> SafeString:
        now = timezone.now()
        if record.revoked_at:
            return pill("bad", _("Revoked"))
        if in_force(record, now):
            return pill("ok", _("In force"))
        return pill("idle", _("Not yet") if record.valid_from > now else _("Ended"))

    def render_target(self, record: Authorization) -> SafeString:
        return two(format_html('<span class="hr-mono">{}</span>', record.target), record.grid.hardware.slug)

    def render_given(self, record: Authorization) -> SafeString:
        return two(when(record.authorized_at), record.authorized_by)

    def render_ceilings(self, record: Authorization) -> SafeString:
        first = _("%(n)s requests, %(at)s at a time") % {"n": f0(record.max_requests), "at": f0(record.max_concurrency)}
        return two(first, _("%(n)s minutes, %(tokens)s tokens") % {
            "n": f0(record.max_minutes), "tokens": f0(record.max_tokens)
        })  # fmt: skip


class LeaveFilter(ListFilter):
    text_in = ("grid__name", "target", "authorized_by__username")
    host = choice(gettext_lazy("Host"), field_name="grid__hardware__slug")
    state = choice(
        gettext_lazy("State"), method="with_state",
        choices=LEAVE_STATES,
    )  # fmt: skip
    since = day(gettext_lazy("Given since"), field_name="authorized_at")

    def __init__(self, *args: Any, request: HttpRequest, **options: Any) -> None:
        super().__init__(*args, request=request, **options)
        self.offer("host", Hardware.objects.filter(team=person(request).team).values_list("slug", "name"))

    def with_state(self, rows: QuerySet[Any], _name: str, value: str) -> QuerySet[Any]:
        if value == "revoked":
            return rows.filter(revoked_at__isnull=False)
        return _live(rows) if value == "live" else rows.exclude(pk__in=_live(rows).order_by().values("pk"))
