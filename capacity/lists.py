"""The judge's lists: objectives, approvals, statements; and what it adds to the list of grids: setting and grade."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Case, Count, F, FloatField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models import When as Where
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from benchmarks.access import person
from benchmarks.grid_lists import GridFilter, GridTable
from benchmarks.listing import Col, ListFilter, ListTable, When, choice, day, link, part, two
from benchmarks.models import Grid, Hardware
from benchmarks.queries import grids_of
from benchmarks.registry_lists import VersionFilter
from benchmarks.templatetags.headroom import NOTHING, f0, f1, f2, missing, pct, pill, seconds, when
from capacity.assessment.verdict import Grade
from capacity.models import Choice, Objective, Statement

GRADES = tuple((grade.value, grade.value.capitalize()) for grade in Grade)
UNSHOWN = (
    "declared", "calibration", "baseline", "answer", "workload__arrivals_s", "runtime__geometry", "runtime__flags",
    "hardware__offers",
)  # fmt: skip
"""Large columns that no line of the list needs."""
BEYOND = 1e300
"""The worst p95 falls among failed requests: sorted after every other; not every database takes an infinity."""
UNPROPOSED = ("none", gettext_lazy("Not proposed yet"))
STANDING = (
    ("valid", gettext_lazy("Valid")),
    ("expired", gettext_lazy("Expired")),
)


# --- grids, with what was decided about them -------------------------------------------------------------------------


def judged_grids(team_id: int) -> QuerySet[Grid]:
    """Grids with the newest choice of each: what was proposed, its grade and how it was decided."""
    newest = Choice.objects.filter(grid=OuterRef("pk")).order_by("-pk")
    rate, ratio = (Cast(KeyTextTransform(name, "verdict"), FloatField()) for name in ("good_per_min", "worst_ratio"))
    return (
        grids_of(team_id)
        .defer(*UNSHOWN)
        .annotate(
            setting=Subquery(newest.values("setting")[:1]),
            grade=Subquery(newest.values("grade")[:1]),
            choice_status=Subquery(newest.values("status")[:1]),
            good_per_min=Subquery(newest.annotate(rate=rate).values("rate")[:1], output_field=FloatField()),
            ratio_there=Subquery(newest.annotate(ratio=ratio).values("ratio")[:1], output_field=FloatField()),
            choice_id=Subquery(newest.values("pk")[:1]),
        )
        .annotate(
            ratio_shown=Coalesce(
                "ratio_there",
                Case(Where(figures__among_failures=True, then=Value(BEYOND)), default=F("figures__worst_ratio")),
            )
        )
    )


class JudgedGridTable(GridTable):
    setting = Col(gettext_lazy("Setting"), num=True)
    rate = Col(gettext_lazy("Successful a minute"), accessor="good_per_min", num=True)
    ratio = Col(gettext_lazy("p95 ÷ objective"), order_by=("ratio_shown",), num=True)
    grade = Col(gettext_lazy("Grade"))

    out = GridTable.out | {
        "setting": "setting",
        "good_per_min": "good_per_min",
        "p95_over_objective": "ratio_there",
        "grade": "grade",
        "decision": "choice_status",
    }

    hidden: ClassVar[tuple[str, ...]] = (*GridTable.hidden, "grade")

    class Meta(GridTable.Meta):
        sequence = (
            "pick",
            "name",
            "cells",
            "setting",
            "rate",
            "ratio",
            "vram",
            "conditions",
            "state",
            "grade",
            "...",
            "drawn",
            "started",
            "ended",
        )

    def render_state(self, record: Any) -> SafeString:
        """The grade of what was decided, which says more than that it was measured."""
        return _grade(record.grade) if record.grade else super().render_state(record)

    def render_ratio(self, record: Any) -> SafeString:
        """That at the setting which was decided, above the worst of all."""
        said, line = super().render_ratio(record), self.lines[record.pk]
        if not line.measured:
            return NOTHING
        if line.worst_ratio is None:
            return format_html('<span class="hr-muted">{}</span>', said)
        return two(
            NOTHING if record.ratio_there is None else f2(record.ratio_there), _("worst %(ratio)s") % {"ratio": said}
        )

    def render_setting(self, record: Any) -> SafeString:
        if record.choice_id is None:
            return two(NOTHING, _("not proposed")) if record.status in Grid.OVER else NOTHING
        words = _setting(record.setting)
        href = reverse("choice-detail", args=[record.choice_id])
        return two(
            format_html('<a href="{}">{}</a>', href, words), str(Choice.Status(record.choice_status).label).lower()
        )

    def render_rate(self, value: object) -> object:
        return f1(value) if isinstance(value, int | float) else NOTHING

    def render_grade(self, record: Any) -> SafeString:
        return _grade(record.grade) if record.grade else _nothing_yet(record)


class JudgedGridFilter(GridFilter):
    band = choice(gettext_lazy("Grade"), method="with_band", choices=(*GRADES, UNPROPOSED))
    field_order = ("q", "host", "workload", "status", "since", "band", "mode", "power")

    def with_band(self, rows: QuerySet[Any], _name: str, value: str) -> QuerySet[Any]:
        return rows.filter(grade=None) if value == "none" else rows.filter(grade=value)


# --- objectives ------------------------------------------------------------------------------------------------------


def objectives_of(team_id: int) -> QuerySet[Objective]:
    return Objective.objects.filter(team=team_id).prefetch_related("classes")


def objectives_said(_rows: QuerySet[Objective], total: int) -> str:
    return ngettext("%(n)s objective", "%(n)s objectives", total) % {"n": f0(total)}


class ObjectiveTable(ListTable):
    name = Col(gettext_lazy("Objective"), lead=True, order_by=("name", "version"))
    e2e = Col(gettext_lazy("End to end"), orderable=False)
    success = Col(gettext_lazy("Successful requests"), accessor="success_share", num=True)
    validity = Col(gettext_lazy("Valid answers"), accessor="validity_share", num=True)
    vram = Col(gettext_lazy("VRAM, at most"), accessor="max_vram_share", num=True)
    temperature = Col(gettext_lazy("GPU, at most"), accessor="max_temperature_c", num=True)
    set_at = When(gettext_lazy("Set"))

    stem, first, hidden = "objectives", "name", ("vram", "temperature")
    out = {
        "objective": "slug", "version": "version", "name": "name", "percentile": "percentile",
        "classes": lambda row: [each.class_name for each in row.classes.all()],
        "e2e_s": lambda row: [_bare(each.e2e_s) for each in row.classes.all()],
        "ttft_s": lambda row: [_bare(each.ttft_s) for each in row.classes.all()],
        "tpot_s": lambda row: [_bare(each.tpot_s) for each in row.classes.all()],
        "success_share": "success_share", "validity_share": "validity_share", "max_vram_share": "max_vram_share",
        "max_temperature_c": "max_temperature_c", "max_power_w": "max_power_w", "set_at": "set_at", "digest": "digest",
    }  # fmt: skip

    def render_name(self, record: Objective) -> SafeString:
        return link(record, record.name, _("%(slug)s, version %(n)s") % {"slug": record.slug, "n": record.version})

    def render_e2e(self, record: Objective) -> SafeString:
        limits = ((c.class_name, _("no limit") if c.e2e_s is None else seconds(c.e2e_s)) for c in record.classes.all())
        return format_html("p{} {}", f"{record.percentile:g}", format_html_join(", ", "{} {}", limits))

    def render_success(self, value: float) -> str:
        return _("%(share)s or more") % {"share": pct(value)}

    def render_validity(self, value: float) -> str:
        return _("%(share)s or more") % {"share": pct(value)}

    def render_vram(self, value: float) -> str:
        return pct(value)

    def render_temperature(self, value: float) -> str:
        return f"{f0(value)}\u00a0°C"


class ObjectiveFilter(VersionFilter):
    text_in = ("name", "slug")
    field_order = ("q", "versions")


# --- approvals -------------------------------------------------------------------------------------------------------


def choices_of(team_id: int) -> QuerySet[Choice]:
    related = ("grid__hardware", "grid__runtime", "objective", "proposed_by", "measured_by", "decided_by")
    return Choice.objects.filter(grid__team=team_id).select_related(*related)


def choices_said(rows: QuerySet[Choice], total: int) -> str:
    said = ngettext("%(n)s proposal", "%(n)s proposals", total) % {"n": f0(total)}
    if not total:
        return said
    found = rows.order_by().aggregate(
        waiting=Count("pk", filter=Q(status=Choice.Status.PROPOSED)),
        done=Count("pk", filter=Q(status=Choice.Status.APPROVED)),
    )
    waits = ngettext("%(n)s waits for its decision", "%(n)s wait for their decision", found["waiting"])
    parts = [waits % {"n": f0(found["waiting"])}] if found["waiting"] else []
    parts += [_("%(n)s approved") % {"n": f0(found["done"])}] if found["done"] else []
    return ", ".join([said, *parts])


class ChoiceTable(ListTable):
    service = Col(gettext_lazy("Service"), lead=True, accessor="grid__name")
    setting = Col(gettext_lazy("Setting"))
    state = Col(gettext_lazy("State"), accessor="status")
    grade = Col(gettext_lazy("Grade"))
    proposed = When(gettext_lazy("Proposed"), accessor="proposed_at", order_by=("pk",))
    decided = When(gettext_lazy("Decided"), accessor="decided_at")
    rollback = Col(gettext_lazy("Rolls back to"), accessor="rollback_setting")
    objective = Col(gettext_lazy("Objective"), accessor="objective__name")

    stem, first, hidden = "approvals", "-proposed", ("rollback", "objective")
    out = {
        "choice": "pk", "grid": "grid_id", "grid_name": "grid.name", "host": "grid.hardware.slug",
        "simulated": "grid.simulated", "setting": "setting", "rollback_setting": "rollback_setting", "grade": "grade",
        "status": "status", "reason": "reason", "measured_by": "measured_by.username", "proposed_by": "proposed_by.username",
        "proposed_at": "proposed_at", "decided_by": "decided_by.username", "decided_at": "decided_at",
        "decision_reason": "decision_reason", "objective": "objective.slug", "objective_version": "objective.version",
        "digest": "digest",
    }  # fmt: skip

    def render_service(self, record: Choice) -> SafeString:
        words = _("grid %(n)s on %(host)s") % {"n": record.grid_id, "host": record.grid.hardware.name}
        return link(record, record.grid.name, _simulated(words, record.grid.simulated))

    def render_setting(self, record: Choice) -> str:
        return _setting(record.setting)

    def render_state(self, record: Choice) -> SafeString:
        return part("capacity/parts/choice_state.html", choice=record)

    def render_grade(self, record: Choice) -> SafeString:
        return _grade(record.grade)

    def render_proposed(self, record: Choice) -> SafeString:
        return two(when(record.proposed_at), record.proposed_by)

    def render_decided(self, record: Choice) -> SafeString:
        if record.decided_at is None:
            return format_html('<span class="hr-muted">{}</span>', _("waits"))
        return two(when(record.decided_at), record.decided_by)

    def render_rollback(self, record: Choice) -> str:
        return str(missing(None)) if record.rollback_setting is None else _setting(record.rollback_setting)


class ChoiceFilter(ListFilter):
    text_in = ("grid__name", "reason", "decision_reason")
    host = choice(gettext_lazy("Host"), field_name="grid__hardware__slug")
    status = choice(gettext_lazy("State"), choices=Choice.Status.choices)
    band = choice(gettext_lazy("Grade"), field_name="grade", choices=GRADES)
    since = day(gettext_lazy("Proposed since"), field_name="proposed_at")

    def __init__(self, *args: Any, request: HttpRequest, **options: Any) -> None:
        super().__init__(*args, request=request, **options)
        self.offer("host", Hardware.objects.filter(team=person(request).team).values_list("slug", "name"))


# --- statements ------------------------------------------------------------------------------------------------------


def statements_of(team_id: int) -> QuerySet[Statement]:
    related = ("choice__grid__hardware", "issued_by", "key")
    return Statement.objects.filter(choice__grid__team=team_id).select_related(*related).defer("pdf", "envelope")


def statements_said(rows: QuerySet[Statement], total: int) -> str:
    said = ngettext("%(n)s statement", "%(n)s statements", total) % {"n": f0(total)}
    valid = rows.filter(valid_until__gte=timezone.now()).order_by().count() if total else 0
    return _("%(all)s, %(n)s not expired") % {"all": said, "n": f0(valid)} if total else said


class StatementTable(ListTable):
    number = Col(gettext_lazy("Number"), lead=True, initial_sort_descending=True)
    about = Col(gettext_lazy("About"), accessor="choice__grid__name")
    setting = Col(gettext_lazy("Setting"), accessor="choice__setting")
    grade = Col(gettext_lazy("Grade"), accessor="choice__grade")
    issued = When(gettext_lazy("Issued"), accessor="issued_at")
    until = When(gettext_lazy("Valid until"), accessor="valid_until")
    key = Col(gettext_lazy("Key"), accessor="key__name")
    files = Col(gettext_lazy("Files"), orderable=False)

    stem, first, hidden = "statements", "-issued", ("key",)
    out = {
        "statement": "number", "grid": "choice.grid_id", "grid_name": "choice.grid.name", "host": "choice.grid.hardware.slug",
        "setting": "choice.setting", "grade": "choice.grade", "simulated": "simulated", "demonstration": "demonstration",
        "issued_by": "issued_by.username", "issued_at": "issued_at", "valid_until": "valid_until", "key": "key.name",
        "key_sha256": "key.keyid", "payload_sha256": "digest",
    }  # fmt: skip

    def render_number(self, record: Statement) -> SafeString:
        marks = [_("demonstration")] if record.demonstration else []
        return link(record, record.number, ", ".join(marks))

    def render_about(self, record: Statement) -> SafeString:
        grid = record.choice.grid
        return two(grid.name, _simulated(grid.hardware.name, record.simulated))

    def render_setting(self, record: Statement) -> str:
        return _setting(record.choice.setting)

    def render_grade(self, record: Statement) -> SafeString:
        return _grade(record.choice.grade)

    def render_issued(self, record: Statement) -> SafeString:
        return two(when(record.issued_at), record.issued_by)

    def render_until(self, record: Statement) -> SafeString:
        over = pill("warn", _("Expired")) if record.valid_until < timezone.now() else ""
        return format_html("{} {}", when(record.valid_until), over)

    def render_files(self, record: Statement) -> SafeString:
        pdf, envelope = (reverse(f"statement-{kind}", args=[record.number]) for kind in ("pdf", "json"))
        return format_html('<a href="{}">PDF</a> · <a href="{}">JSON</a>', pdf, envelope)


class StatementFilter(ListFilter):
    text_in = ("number", "choice__grid__name")
    host = choice(gettext_lazy("Host"), field_name="choice__grid__hardware__slug")
    standing = choice(gettext_lazy("Validity"), method="with_standing", choices=STANDING)
    since = day(gettext_lazy("Issued since"), field_name="issued_at")

    def __init__(self, *args: Any, request: HttpRequest, **options: Any) -> None:
        super().__init__(*args, request=request, **options)
        self.offer("host", Hardware.objects.filter(team=person(request).team).values_list("slug", "name"))

    def with_standing(self, rows: QuerySet[Any], _name: str, value: str) -> QuerySet[Any]:
        now = timezone.now()
        return rows.filter(valid_until__gte=now) if value == "valid" else rows.filter(valid_until__lt=now)


# --- words -----------------------------------------------------------------------------------------------------------


def _setting(setting: int | None) -> str:
    return _("No safe setting") if setting is None else _("%(n)s in flight") % {"n": setting}


def _grade(grade: str) -> SafeString:
    return part("capacity/parts/grade.html", grade=grade)


def _simulated(words: str, simulated: bool) -> str:
    return _("%(words)s, simulated") % {"words": words} if simulated else words


def _nothing_yet(grid: Grid) -> SafeString:
    """Why a grid has no setting and no grade: it is not measured, or nobody has proposed one."""
    measured = grid.status in (Grid.Status.MEASURED, Grid.Status.STOPPED)
    return format_html(
        '<span class="hr-muted hr-nowrap">{}</span>', _("not proposed") if measured else _("not measured")
    )


def _bare(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
