"""Write verbs for objectives, and the limits that a grid copies from one.

An objective that a grid was drawn with, or a choice was judged by, never changes: an edit makes the next version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from benchmarks import audit, registry
from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.models import Grid, Team
from capacity.models import Choice, ClassObjective, Objective

LIMITS = (
    "percentile", "success_share", "validity_share", "max_vram_share", "max_temperature_c", "max_power_w",
    "reserve_growth", "reserve_variance", "reserve_loss",
)  # fmt: skip
FIELDS = ("name", *LIMITS, "notes")
Values = Mapping[str, object]
Kept = dict[str, object]


@dataclass(frozen=True, slots=True)
class ClassValues:
    """Limits of one length class in seconds; None where there is none, but never all three."""

    class_name: str
    e2e_s: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None


def set_objective(
    *, team: Team, by: AbstractBaseUser, slug: str, values: Values, classes: Sequence[ClassValues]
) -> Objective:
    with transaction.atomic():
        row = Objective(team=team, slug=slug, version=1, created_by_id=by.pk, **_only(values))
        row.digest = _digest(row, classes)
        row.save(force_insert=True)
        _write_classes(row, classes)
        registry.said(row, by=by, verb="set", after=_kept(row, classes))
    return row


def revise_objective(
    *, objective: Objective, by: AbstractBaseUser, values: Values, classes: Sequence[ClassValues], reason: str = ""
) -> Objective:
    """The same row changed in place, or the next version where this one is in use; itself if nothing changed."""
    with transaction.atomic():
        old = Objective.objects.select_for_update(of=("self",)).select_related("team").get(pk=objective.pk)
        before = _kept(old, classes_of(old))
        row = registry.next_version(old, by) if in_use(old) else old
        for name, value in _only(values).items():
            setattr(row, name, value)
        row.digest = _digest(row, classes)
        after = _kept(row, classes)
        if after == before:
            return objective
        if row is not old or any(before[name] != after[name] for name in (*LIMITS, "classes")):
            row.set_at = timezone.now()
        row.save()
        row.classes.all().delete()
        _write_classes(row, classes)
        registry.said(row, by=by, verb=registry.revised(row, old), before=before, after=after, reason=reason)
    return row


def in_use(objective: Objective) -> bool:
    """Whether a grid copied these limits or a choice was judged by them."""
    drawn = Grid.objects.filter(team_id=objective.team_id, objective_digest=objective.digest)
    return drawn.exists() or Choice.objects.filter(objective_id=objective.pk).exists()


def limits_of(objective: Objective) -> GridLimits:
    """Everything the guard and the judge need, as values."""
    classes = {
        c.class_name: ClassLimits(e2e_s=c.e2e_s, ttft_s=c.ttft_s, tpot_s=c.tpot_s) for c in objective.classes.all()
    }
    return GridLimits(
        percentile=objective.percentile,
        success_share=objective.success_share,
        validity_share=objective.validity_share,
        max_vram_share=objective.max_vram_share,
        max_temperature_c=objective.max_temperature_c,
        max_power_w=objective.max_power_w,
        reserve_growth=objective.reserve_growth,
        reserve_variance=objective.reserve_variance,
        reserve_loss=objective.reserve_loss,
        classes=classes,
    )


def classes_of(objective: Objective) -> list[ClassValues]:
    return [ClassValues(c.class_name, c.e2e_s, c.ttft_s, c.tpot_s) for c in objective.classes.all()]


def _digest(objective: Objective, classes: Sequence[ClassValues]) -> str:
    """SHA-256 over every limit, the team's name for it and its version; notes are left out."""
    kept = _kept(objective, classes)
    return audit.digest_of(
        {"slug": objective.slug, "version": objective.version, **{n: kept[n] for n in (*LIMITS, "classes")}}
    )


def _write_classes(objective: Objective, classes: Sequence[ClassValues]) -> None:
    ClassObjective.objects.bulk_create(
        ClassObjective(
            objective=objective, position=i, class_name=c.class_name, e2e_s=c.e2e_s, ttft_s=c.ttft_s, tpot_s=c.tpot_s
        )
        for i, c in enumerate(classes)
    )


def _only(values: Values) -> Kept:
    return {name: values[name] for name in FIELDS if name in values}


def _kept(row: Objective, classes: Sequence[ClassValues]) -> Kept:
    limits = [[c.class_name, c.e2e_s, c.ttft_s, c.tpot_s] for c in classes]
    return {**{name: getattr(row, name) for name in FIELDS}, "classes": limits}
