"""Write verbs for the registry: hosts, runtimes, workloads, looks at an endpoint. Each leaves an event of what changed.

A runtime or workload that a grid uses never changes: an edit makes the next version. Before that it changes in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.contrib.auth.models import AbstractBaseUser
from django.db import models, transaction
from django.db.models import Max

from benchmarks import audit
from benchmarks.models import (
    Dialect,
    EndpointCheck,
    Event,
    Grid,
    Hardware,
    LengthClass,
    Runtime,
    Team,
    Versioned,
    Workload,
)

Values = Mapping[str, object]
Changes = dict[str, object]
Row = TypeVar("Row", bound=Versioned)

HARDWARE_FIELDS = ("name", "place", "cpu", "ram_gib", "gpu", "gpu_count", "vram_gib", "power_cap_w", "notes")
RUNTIME_MEASURED = (
    "kind", "runtime_version", "endpoint", "api_key_name", "model_name", "model_digest", "tokenizer_sha256", "flags", "dialect",
    "batching_mode", "max_active_sequences", "context_per_sequence_tokens", "metrics_url", "gpu_metrics_url",
    "launch_profile", "geometry", "geometry_source",
)  # fmt: skip
_LATER = {
    "dialect": Dialect.OPENAI_CHAT, "launch_profile": "", "geometry": None, "geometry_source": "", "tokenizer_sha256": "",
}  # fmt: skip
"""Fields that came later, with the value that every older row has: as such they leave the digest as it was."""
RUNTIME_FIELDS = ("name", "hardware", *RUNTIME_MEASURED, "notes")
WORKLOAD_MEASURED = ("seed", "task", "source")
# Later than the first workloads: at their defaults they are left out of a digest, so that older digests stay what they are.
WORKLOAD_LATER = ("shared_prefix_share", "turns", "think_s", "arrivals_s")
WORKLOAD_FIELDS = ("name", *WORKLOAD_MEASURED, *WORKLOAD_LATER, "notes")


@dataclass(frozen=True, slots=True)
class ClassValues:
    """One length class as it is kept; the distributions are plain JSON. Pairs are (prompt tokens, output tokens)."""

    name: str
    weight: float
    prompt_tokens: Mapping[str, object]
    output_tokens: Mapping[str, object]
    pairs: Sequence[Sequence[int]] | None = None


# --- hosts -----------------------------------------------------------------------------------------------------------


def register_hardware(*, team: Team, by: AbstractBaseUser, slug: str, values: Values) -> Hardware:
    with transaction.atomic():
        row = Hardware(team=team, slug=slug, created_by_id=by.pk, **_only(values, HARDWARE_FIELDS))
        row.save(force_insert=True)
        after = _kept(row, HARDWARE_FIELDS)
        audit.record(actor=by.get_username(), verb="registered", subject=f"hardware {slug}", team=team, after=after)
    return row


def edit_hardware(*, hardware: Hardware, by: AbstractBaseUser, values: Values, reason: str = "") -> Changes:
    """Changes declared facts in place; probed facts are never touched. Returns what changed, empty when nothing did."""
    with transaction.atomic():
        row = Hardware.objects.select_for_update().get(pk=hardware.pk)
        before = _kept(row, HARDWARE_FIELDS)
        _assign(row, _only(values, HARDWARE_FIELDS))
        after = _kept(row, HARDWARE_FIELDS)
        changes = differences(before, after)
        if changes:
            row.save(update_fields=HARDWARE_FIELDS)
            audit.record(
                actor=by.get_username(), verb="edited", subject=f"hardware {row.slug}", team=row.team,
                before=before, after=after, changes=changes, reason=reason,
            )  # fmt: skip
    return changes


# --- runtimes --------------------------------------------------------------------------------------------------------


def register_runtime(*, team: Team, by: AbstractBaseUser, slug: str, values: Values) -> Runtime:
    with transaction.atomic():
        row = Runtime(team=team, slug=slug, version=1, created_by_id=by.pk, **_only(values, RUNTIME_FIELDS))
        row.digest = digest_of_runtime(row)
        row.save(force_insert=True)
        said(row, by=by, verb="registered", after=_kept(row, RUNTIME_FIELDS))
    return row


def revise_runtime(*, runtime: Runtime, by: AbstractBaseUser, values: Values, reason: str = "") -> Runtime:
    """The same row changed in place, or the next version where a grid uses this one; itself if nothing changed."""
    with transaction.atomic():
        old = Runtime.objects.select_for_update(of=("self",)).select_related("team", "hardware").get(pk=runtime.pk)
        before = _kept(old, RUNTIME_FIELDS)
        row = next_version(old, by) if runtime_in_use(old) else old
        _assign(row, _only(values, RUNTIME_FIELDS))
        row.digest = digest_of_runtime(row)
        after = _kept(row, RUNTIME_FIELDS)
        if after == before:
            return runtime
        row.save()
        said(row, by=by, verb=revised(row, old), before=before, after=after, reason=reason)
    return row


def runtime_in_use(runtime: Runtime) -> bool:
    return Grid.objects.filter(runtime_id=runtime.pk).exists()


def digest_of_runtime(runtime: Runtime) -> str:
    """SHA-256 over everything that a measurement depends on; name and notes are left out."""
    kept = _kept(runtime, ("hardware", *RUNTIME_MEASURED))
    return audit.digest_of({name: value for name, value in kept.items() if name not in _LATER or _LATER[name] != value})


# --- workloads -------------------------------------------------------------------------------------------------------


def register_workload(
    *, team: Team, by: AbstractBaseUser, slug: str, values: Values, classes: Sequence[ClassValues]
) -> Workload:
    with transaction.atomic():
        row = Workload(team=team, slug=slug, version=1, created_by_id=by.pk, **_only(values, WORKLOAD_FIELDS))
        row.digest = digest_of_workload(row, classes)
        row.save(force_insert=True)
        _write_classes(row, classes)
        said(row, by=by, verb="registered", after=_workload_kept(row, classes))
    return row


def revise_workload(
    *, workload: Workload, by: AbstractBaseUser, values: Values, classes: Sequence[ClassValues], reason: str = ""
) -> Workload:
    """As `revise_runtime`, with the length classes."""
    with transaction.atomic():
        old = Workload.objects.select_for_update(of=("self",)).select_related("team").get(pk=workload.pk)
        before = _workload_kept(old, classes_of(old))
        row = next_version(old, by) if workload_in_use(old) else old
        _assign(row, _only(values, WORKLOAD_FIELDS))
        row.digest = digest_of_workload(row, classes)
        after = _workload_kept(row, classes)
        if after == before:
            return workload
        row.save()
        row.classes.all().delete()
        _write_classes(row, classes)
        said(row, by=by, verb=revised(row, old), before=before, after=after, reason=reason)
    return row


def workload_in_use(workload: Workload) -> bool:
    return Grid.objects.filter(workload_id=workload.pk).exists()


def classes_of(workload: Workload) -> list[ClassValues]:
    return [ClassValues(c.name, c.weight, c.prompt_tokens, c.output_tokens, c.pairs) for c in workload.classes.all()]


def digest_of_workload(workload: Workload, classes: Sequence[ClassValues]) -> str:
    """SHA-256 over all that is sent: seed, task, source, sessions, every length class in its order."""
    kept = _workload_kept(workload, classes)
    defaults = Workload()
    later = [name for name in WORKLOAD_LATER if kept[name] != getattr(defaults, name)]
    return audit.digest_of({name: kept[name] for name in (*WORKLOAD_MEASURED, *later, "classes")})


def _write_classes(workload: Workload, classes: Sequence[ClassValues]) -> None:
    LengthClass.objects.bulk_create(
        LengthClass(
            workload=workload, position=i, name=c.name, weight=c.weight,
            prompt_tokens=dict(c.prompt_tokens), output_tokens=dict(c.output_tokens), pairs=_plain_pairs(c),
        )
        for i, c in enumerate(classes)
    )  # fmt: skip


def _workload_kept(workload: Workload, classes: Sequence[ClassValues]) -> Changes:
    lengths = [
        [
            c.name,
            float(c.weight),
            dict(c.prompt_tokens),
            dict(c.output_tokens),
            *([pairs] if (pairs := _plain_pairs(c)) else []),
        ]
        for c in classes
    ]
    return {**_kept(workload, WORKLOAD_FIELDS), "arrivals_s": _arrivals_line(workload), "classes": lengths}


def _arrivals_line(workload: Workload) -> str | None:
    """The arrivals by their digest: ten thousand numbers have no place in an event."""
    if not workload.arrivals_s:
        return None
    return f"{len(workload.arrivals_s):,} arrivals, SHA-256 {audit.digest_of(workload.arrivals_s)}"


def _plain_pairs(values: ClassValues) -> list[list[int]] | None:
    return [list(pair) for pair in values.pairs] if values.pairs else None


# --- looks at an endpoint --------------------------------------------------------------------------------------------


def ask_endpoint(*, team: Team, by: AbstractBaseUser, hardware: Hardware, check: str, values: Values) -> EndpointCheck:
    """One question to an endpoint, for the host's worker to answer; the caller rings."""
    row = EndpointCheck(
        team=team, hardware=hardware, kind=check, asked_by_id=by.pk,
        **_only(values, ("runtime_kind", "endpoint", "model_name", "api_key_name")),
    )  # fmt: skip
    with transaction.atomic():
        row.save(force_insert=True)
        audit.record(
            actor=by.get_username(), verb=f"asked for a {check}", subject=f"endpoint {row.endpoint}"[:120], team=team,
            changes={"hardware": hardware.slug, "model": row.model_name},
        )  # fmt: skip
    return row


# --- history ---------------------------------------------------------------------------------------------------------


_FIELD_WORDS = {
    "cpu": "CPU", "ram_gib": "RAM, GiB", "gpu": "GPU", "gpu_count": "GPUs", "vram_gib": "VRAM, GiB",
    "power_cap_w": "power cap, W", "api_key_name": "API key name", "model_name": "model", "hardware": "host",
    "classes": "length classes", "shared_prefix_share": "shared beginning, share of the prompt",
    "turns": "turns of a conversation", "think_s": "pause between turns, s", "arrivals_s": "arrivals of the trace",
    "max_temperature_c": "GPU temperature, °C", "max_power_w": "GPU power, W",
    "geometry": "memory of the model", "geometry_source": "memory read from",
    "metrics_url": "runtime metrics", "tokenizer_sha256": "tokeniser", "gpu_metrics_url": "GPU metrics",
    "max_vram_share": "VRAM share",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One event with its changes as (what, before, after); a list says only that it changed."""

    event: Event
    changes: tuple[tuple[str, object, object], ...]


def history(team_id: int, subject: str, *, limit: int = 50) -> list[HistoryLine]:
    """Newest first: the events of "hardware <slug>", or of every version of "runtime <slug>" and "workload <slug>"."""
    mine = models.Q(subject=subject) | models.Q(subject__startswith=f"{subject} v")
    return [HistoryLine(e, _readable(e.changes)) for e in Event.objects.filter(mine, team_id=team_id)[:limit]]


def _readable(changes: Mapping[str, object]) -> tuple[tuple[str, object, object], ...]:
    lines: list[tuple[str, object, object]] = []
    for name, change in changes.items():
        words = _FIELD_WORDS.get(name, name.replace("_", " "))
        if not isinstance(change, Mapping):
            lines.append((words, None, change))
        elif any(isinstance(change.get(side), list | dict) for side in ("before", "after")):
            lines.append((words, "as before", "changed"))
        else:
            lines.append((words, change.get("before"), change.get("after")))
    return tuple(lines)


# --- versions, of objectives above the wall too -----------------------------------------------------------------------


def said(
    row: Versioned,
    *,
    by: AbstractBaseUser,
    verb: str,
    after: Changes,
    before: Changes | None = None,
    reason: str = "",
) -> None:
    """One event of a versioned row, with what changed."""
    audit.record(
        actor=by.get_username(), verb=verb, subject=f"{row._meta.model_name} {row.slug} v{row.version}", team=row.team,
        before=before, after=after, changes=differences(before, after) if before is not None else None, reason=reason,
    )  # fmt: skip


def revised(row: Versioned, old: Versioned) -> str:
    """The verb of an event: changed in place, or made from an older version."""
    return "edited" if row is old else f"made from v{old.version}"


def next_version(old: Row, by: AbstractBaseUser) -> Row:
    """An unsaved copy under the next free version; the unique constraint settles a race."""
    newest = type(old)._default_manager.filter(team_id=old.team_id, slug=old.slug).aggregate(n=Max("version"))["n"]
    skipped = ("id", "version", "created_by", "created_at", "set_at")
    copied = {f.name: getattr(old, f.name) for f in old._meta.concrete_fields if f.name not in skipped}
    return type(old)(version=newest + 1, created_by_id=by.pk, **copied)


def _only(values: Values, names: Sequence[str]) -> Changes:
    return {name: values[name] for name in names if name in values}


def _assign(row: models.Model, values: Changes) -> None:
    for name, value in values.items():
        setattr(row, name, value)


def _kept(row: models.Model, names: Sequence[str]) -> Changes:
    """Plain values as history shows them; a host by its slug."""
    values = {name: getattr(row, name) for name in names}
    return {name: value.slug if isinstance(value, Hardware) else value for name, value in values.items()}


def differences(before: Changes, after: Changes) -> Changes:
    return {name: {"before": before[name], "after": after[name]} for name in after if before.get(name) != after[name]}
