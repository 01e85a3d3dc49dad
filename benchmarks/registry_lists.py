"""The lists of the registry: hosts, runtimes, workloads, and the audit log. What a row shows and what it is in a file."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import Count, Exists, IntegerField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from benchmarks.access import person
from benchmarks.facts import fresh_since, worker_state
from benchmarks.listing import Col, ListFilter, ListTable, When, choice, day, link, two
from benchmarks.models import Event, Grid, Hardware, Runtime, RuntimeKind, Workload
from benchmarks.templatetags.headroom import f0, missing, pct, pill, since

WORKER_STATES = (
    ("running", gettext_lazy("Worker running")),
    ("late", gettext_lazy("Worker not seen")),
    ("never", gettext_lazy("No worker seen yet")),
)
VERSIONS = (("all", gettext_lazy("All versions")),)


def counted(rows: QuerySet[Any], field: str, *, of: str = "pk") -> Coalesce:
    """How many of `rows` belong to each row of the outer query by `field`, as one value: no join multiplies another."""
    mine = rows.filter(**{field: OuterRef("pk")}).order_by().values(field).annotate(n=Count(of, distinct=of != "pk"))
    return Coalesce(Subquery(mine.values("n"), output_field=IntegerField()), Value(0))


def newest_only(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Of each slug the newest version."""
    newer = rows.model._default_manager.filter(
        team=OuterRef("team"), slug=OuterRef("slug"), version__gt=OuterRef("version")
    )
    return rows.filter(~Exists(newer))


class VersionFilter(ListFilter):
    """Of what has versions the list shows the newest, unless all are asked for."""

    versions = choice(gettext_lazy("Versions"), method="with_versions", choices=VERSIONS)
    versions.extra["empty_label"] = gettext_lazy("Newest only")

    def with_versions(self, rows: QuerySet[Any], _name: str, _value: str) -> QuerySet[Any]:
        return rows

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        found: QuerySet[Any] = super().filter_queryset(queryset)
        return found if self.form.cleaned_data.get("versions") else newest_only(found)


# --- hosts -----------------------------------------------------------------------------------------------------------


def hosts_of(team_id: int) -> QuerySet[Hardware]:
    return Hardware.objects.filter(team=team_id).annotate(
        runtimes_count=counted(Runtime.objects.all(), "hardware", of="slug"),
        grids_count=counted(Grid.objects.all(), "hardware"),
        running_count=counted(Grid.objects.filter(status=Grid.Status.RUNNING), "hardware"),
    )


def hosts_said(rows: QuerySet[Hardware], total: int) -> str:
    said = ngettext("%(n)s host", "%(n)s hosts", total) % {"n": f0(total)}
    seen = rows.filter(worker_seen_at__gte=fresh_since(timezone.now())).order_by().count() if total else 0
    return _("%(hosts)s, %(n)s with a running worker") % {"hosts": said, "n": f0(seen)} if total else said


class HostTable(ListTable):
    name = Col(gettext_lazy("Host"), lead=True)
    cpu = Col(gettext_lazy("CPU, RAM"))
    gpu = Col(gettext_lazy("GPU"), order_by=("gpu", "gpu_count"))
    worker = When(gettext_lazy("Worker"), accessor="worker_seen_at")
    runtimes = Col(gettext_lazy("Runtimes"), accessor="runtimes_count", num=True)
    grids = Col(gettext_lazy("Grids"), accessor="grids_count", num=True)
    place = Col(gettext_lazy("Place"))
    power_cap_w = Col(gettext_lazy("Power cap"), num=True)
    registered = When(gettext_lazy("Registered"), accessor="created_at")

    stem, first, hidden = "hosts", "name", ("place", "power_cap_w", "registered")
    out = {
        "host": "slug", "name": "name", "place": "place", "cpu": "cpu", "ram_gib": "ram_gib", "gpu": "gpu",
        "gpu_count": "gpu_count", "vram_gib": "vram_gib", "power_cap_w": "power_cap_w", "worker": "worker_name",
        "worker_seen_at": "worker_seen_at", "runtimes": "runtimes_count", "grids": "grids_count",
        "grids_running": "running_count", "registered_at": "created_at", "notes": "notes",
    }  # fmt: skip

    def render_name(self, record: Hardware) -> SafeString:
        return link(record, record.name, f"{record.slug}, {record.place}" if record.place else record.slug)

    def render_cpu(self, record: Hardware) -> SafeString:
        return two(missing(record.cpu), f"{f0(record.ram_gib)} GiB" if record.ram_gib else "")

    def render_gpu(self, record: Hardware) -> SafeString:
        if not record.gpu:
            return two(_("none declared"))
        memory = f"{f0(record.vram_gib)} GiB" if record.vram_gib else ""
        return two(f"{record.gpu_count} × {record.gpu}", memory)

    def render_worker(self, record: Hardware) -> SafeString:
        state = worker_state(record)
        seen = _("seen %(age)s") % {"age": since(record.worker_seen_at)} if record.worker_seen_at else ""
        return two(pill(state.kind, state.words), seen)

    def render_grids(self, record: Any) -> SafeString:
        running = _("%(n)s running") % {"n": record.running_count} if record.running_count else ""
        return two(f0(record.grids_count), running)

    def render_power_cap_w(self, record: Hardware) -> str:
        return f"{f0(record.power_cap_w)}\u00a0W" if record.power_cap_w else str(missing(None))


class HostFilter(ListFilter):
    text_in = ("name", "slug", "place", "cpu", "gpu")
    worker = choice(gettext_lazy("Worker"), method="with_worker", choices=WORKER_STATES)
    gpu = choice(
        gettext_lazy("GPU"), method="with_gpu",
        choices=(("yes", gettext_lazy("Declared")), ("no", gettext_lazy("None declared"))),
    )  # fmt: skip

    def with_worker(self, rows: QuerySet[Any], _name: str, value: str) -> QuerySet[Any]:
        kept = {
            "running": Q(worker_seen_at__gte=fresh_since(timezone.now())),
            "late": Q(worker_seen_at__lt=fresh_since(timezone.now())),
            "never": Q(worker_seen_at=None),
        }
        return rows.filter(kept[value])

    def with_gpu(self, rows: QuerySet[Any], _name: str, value: str) -> QuerySet[Any]:
        return rows.exclude(gpu="") if value == "yes" else rows.filter(gpu="")


# --- runtimes --------------------------------------------------------------------------------------------------------


def runtimes_of(team_id: int) -> QuerySet[Runtime]:
    grids = counted(Grid.objects.all(), "runtime")
    return Runtime.objects.filter(team=team_id).select_related("hardware").annotate(grids_count=grids)


def runtimes_said(rows: QuerySet[Runtime], total: int) -> str:
    said = ngettext("%(n)s runtime configuration", "%(n)s runtime configurations", total) % {"n": f0(total)}
    hosts = rows.order_by().values("hardware").distinct().count() if total else 0
    on = ngettext("on %(n)s host", "on %(n)s hosts", hosts) % {"n": f0(hosts)}
    return f"{said} {on}" if total else said


class RuntimeTable(ListTable):
    name = Col(gettext_lazy("Runtime configuration"), lead=True, order_by=("name", "version"))
    kind = Col(gettext_lazy("Runtime"), order_by=("kind", "runtime_version"))
    model = Col(gettext_lazy("Model"), accessor="model_name")
    host = Col(gettext_lazy("Host, endpoint"), accessor="hardware__slug")
    sequences = Col(gettext_lazy("Active sequences"), accessor="max_active_sequences", num=True)
    context = Col(gettext_lazy("Context, tokens a sequence"), accessor="context_per_sequence_tokens", num=True)
    batching = Col(gettext_lazy("Batching"), accessor="batching_mode")
    grids = Col(gettext_lazy("Grids"), accessor="grids_count", num=True)
    registered = When(gettext_lazy("Registered"), accessor="created_at")

    stem, first, hidden = "runtimes", "name", ("context", "batching", "registered")
    out = {
        "runtime": "slug", "version": "version", "name": "name", "kind": "kind", "runtime_version": "runtime_version",
        "simulated": "simulated", "host": "hardware.slug", "endpoint": "endpoint", "model": "model_name",
        "model_sha256": "model_digest", "dialect": "dialect", "batching_mode": "batching_mode",
        "max_active_sequences": "max_active_sequences", "context_per_sequence_tokens": "context_per_sequence_tokens",
        "launch_profile": "launch_profile", "grids": "grids_count", "registered_at": "created_at", "digest": "digest",
    }  # fmt: skip

    def render_name(self, record: Runtime) -> SafeString:
        return link(record, record.name, _version(record))

    def render_kind(self, record: Runtime) -> SafeString:
        mark = pill("info", _("simulated")) if record.simulated else ""
        return two(format_html("{} {}", record.get_kind_display(), mark), missing(record.runtime_version))

    def render_host(self, record: Runtime) -> SafeString:
        return two(record.hardware.slug, format_html('<span class="hr-mono">{}</span>', record.endpoint))

    def render_batching(self, record: Runtime) -> str:
        return record.get_batching_mode_display()


class RuntimeFilter(VersionFilter):
    text_in = ("name", "slug", "model_name", "endpoint")
    host = choice(gettext_lazy("Host"), field_name="hardware__slug")
    kind = choice(gettext_lazy("Runtime"), choices=RuntimeKind.choices)
    field_order = ("q", "host", "kind", "versions")

    def __init__(self, *args: Any, request: HttpRequest, **options: Any) -> None:
        super().__init__(*args, request=request, **options)
        self.offer("host", Hardware.objects.filter(team=person(request).team).values_list("slug", "name"))


# --- workloads -------------------------------------------------------------------------------------------------------


def workloads_of(team_id: int) -> QuerySet[Workload]:
    grids = counted(Grid.objects.all(), "workload")
    return (
        Workload.objects.filter(team=team_id)
        .annotate(grids_count=grids)
        .defer("arrivals_s")
        .prefetch_related("classes")
    )


def workloads_said(_rows: QuerySet[Workload], total: int) -> str:
    return ngettext("%(n)s workload", "%(n)s workloads", total) % {"n": f0(total)}


class WorkloadTable(ListTable):
    name = Col(gettext_lazy("Workload"), lead=True, order_by=("name", "version"))
    classes = Col(gettext_lazy("Length classes, share of requests"), orderable=False)
    source = Col(gettext_lazy("Lengths from"))
    task = Col(gettext_lazy("Task"))
    turns = Col(gettext_lazy("Turns"), num=True)
    grids = Col(gettext_lazy("Grids"), accessor="grids_count", num=True)
    registered = When(gettext_lazy("Registered"), accessor="created_at")

    stem, first, hidden = "workloads", "name", ("task", "turns", "registered")
    out = {
        "workload": "slug", "version": "version", "name": "name", "task": "task", "seed": "seed", "source": "source",
        "classes": lambda row: [each.name for each in row.classes.all()],
        "class_weights": lambda row: [f"{each.weight:g}" for each in row.classes.all()],
        "shared_prefix_share": "shared_prefix_share", "turns": "turns", "think_s": "think_s", "grids": "grids_count",
        "registered_at": "created_at", "digest": "digest",
    }  # fmt: skip

    def render_name(self, record: Workload) -> SafeString:
        return link(record, record.name, _version(record))

    def render_classes(self, record: Workload) -> SafeString:
        classes = list(record.classes.all())
        total = sum(each.weight for each in classes)
        return format_html_join(", ", "{} {}", ((each.name, pct(each.weight / total)) for each in classes))

    def render_source(self, record: Workload) -> str:
        return record.source or _("set by hand")

    def render_task(self, record: Workload) -> str:
        return record.get_task_display()


class WorkloadFilter(VersionFilter):
    text_in = ("name", "slug", "source", "classes__name")
    task = choice(gettext_lazy("Task"), choices=Workload._meta.get_field("task").choices)
    field_order = ("q", "task", "versions")

    def with_text(self, rows: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return super().with_text(rows, name, value).distinct()


def _version(row: Any) -> str:
    return _("%(slug)s, version %(n)s") % {"slug": row.slug, "n": row.version}


# --- the audit log ---------------------------------------------------------------------------------------------------


def events_said(_rows: QuerySet[Event], total: int) -> str:
    return ngettext("%(n)s event of your team", "%(n)s events of your team", total) % {"n": f0(total)}


class EventTable(ListTable):
    sequence = Col(gettext_lazy("No."), num=True, initial_sort_descending=True)
    at = When(gettext_lazy("When"), order_by=("sequence",))
    actor = Col(gettext_lazy("Person"))
    what = Col(gettext_lazy("What"), order_by=("verb", "subject"))
    why = Col(gettext_lazy("Why, and what changed"), accessor="reason", orderable=False)
    hash = Col(gettext_lazy("Hash"), orderable=False)

    stem, first = "events", "-sequence"
    out = {
        "sequence": "sequence", "at": "at", "actor": "actor", "verb": "verb", "subject": "subject", "reason": "reason",
        "changed_fields": lambda event: sorted(event.changes), "before_sha256": "before_digest",
        "after_sha256": "after_digest", "previous_hash": "previous_hash", "hash": "hash",
    }  # fmt: skip

    def render_sequence(self, record: Event) -> str:
        return f0(record.sequence)

    def render_what(self, record: Event) -> str:
        return f"{record.verb} {record.subject}"

    def render_why(self, record: Event) -> SafeString:
        return two(record.reason, ", ".join(record.changes))

    def render_hash(self, record: Event) -> SafeString:
        return format_html('<span class="hr-mono hr-small">{}</span>', record.hash[:12])


class EventFilter(ListFilter):
    text_in = ("subject", "actor", "verb", "reason")
    actor = django_filters.CharFilter(label=gettext_lazy("Person"), lookup_expr="iexact", max_length=150)
    subject = django_filters.CharFilter(
        label=gettext_lazy("Subject, such as grid 12"), lookup_expr="iexact", max_length=120
    )
    since = day(gettext_lazy("Since"), field_name="at")
    until = day(gettext_lazy("Until"), field_name="at", until=True)
