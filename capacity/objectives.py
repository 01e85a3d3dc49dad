"""Write verbs for objectives, and the limits that a grid copies from one.

An objective that a grid was drawn with, or a choice was judged by, never changes: an edit makes the next version. What it
asks beyond latency and the host's safety are its terms: plain JSON of what differs from the defaults, so that an older
objective, which has none, keeps its digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from benchmarks import audit, registry
from benchmarks.engine.plan import ClassLimits, GridLimits, ObjectiveTerms
from benchmarks.models import Grid, Team
from capacity.assessment import terms_words
from capacity.models import Choice, ClassObjective, Objective

LIMITS = (
    "percentile", "success_share", "validity_share", "max_vram_share", "max_temperature_c", "max_power_w",
    "reserve_growth", "reserve_variance", "reserve_loss",
)  # fmt: skip
FIELDS = ("name", *LIMITS, "notes")
NO_TERMS = ObjectiveTerms()
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
    *,
    team: Team,
    by: AbstractBaseUser,
    slug: str,
    values: Values,
    classes: Sequence[ClassValues],
    terms: ObjectiveTerms = NO_TERMS,
) -> Objective:
    with transaction.atomic():
        row = Objective(team=team, slug=slug, version=1, created_by_id=by.pk, terms=plain(terms), **_only(values))
        row.digest = _digest(row, classes)
        row.save(force_insert=True)
        _write_classes(row, classes)
        registry.said(row, by=by, verb="set", after=_told(row, _kept(row, classes)))
    return row


def revise_objective(
    *,
    objective: Objective,
    by: AbstractBaseUser,
    values: Values,
    classes: Sequence[ClassValues],
    terms: ObjectiveTerms | None = None,
    reason: str = "",
) -> Objective:
    """The same row changed in place, or the next version where this one is in use; itself if nothing changed. Without
    `terms` they stay as they are."""
    with transaction.atomic():
        old = Objective.objects.select_for_update(of=("self",)).select_related("team").get(pk=objective.pk)
        before, told = _kept(old, classes_of(old)), _told(old, _kept(old, classes_of(old)))
        row = registry.next_version(old, by) if in_use(old) else old
        for name, value in _only(values).items():
            setattr(row, name, value)
        if terms is not None and terms != terms_of(old):
            row.terms = plain(terms)
        row.digest = _digest(row, classes)
        after = _kept(row, classes)
        if after == before:
            return objective
        if row is not old or any(before[name] != after[name] for name in (*LIMITS, "terms", "classes")):
            row.set_at = timezone.now()
        row.save()
        row.classes.all().delete()
        _write_classes(row, classes)
        registry.said(row, by=by, verb=registry.revised(row, old), before=told, after=_told(row, after), reason=reason)
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
        terms=terms_of(objective),
    )


def terms_of(objective: Objective) -> ObjectiveTerms:
    """Raises msgspec.ValidationError with the path of what is no term: only a row that was written past this module."""
    return msgspec.convert(objective.terms, ObjectiveTerms)


def plain(terms: ObjectiveTerms) -> Kept:
    """What differs from the defaults, as a row keeps it; tuples are lists, as they come back from the database."""
    return {
        field.name: msgspec.json.decode(msgspec.json.encode(value))
        for field in msgspec.structs.fields(terms)
        if (value := getattr(terms, field.name)) != getattr(NO_TERMS, field.name)
    }


def classes_of(objective: Objective) -> list[ClassValues]:
    return [ClassValues(c.class_name, c.e2e_s, c.ttft_s, c.tpot_s) for c in objective.classes.all()]


def _digest(objective: Objective, classes: Sequence[ClassValues]) -> str:
    """SHA-256 over every limit, the team's name for it and its version; notes are left out, and terms where it has none."""
    kept = _kept(objective, classes)
    names = (*LIMITS, "classes", *(["terms"] if objective.terms else []))
    return audit.digest_of({"slug": objective.slug, "version": objective.version, **{n: kept[n] for n in names}})


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
    return {**{name: getattr(row, name) for name in FIELDS}, "terms": row.terms, "classes": limits}


def _told(row: Objective, kept: Kept) -> Kept:
    """What an event says: each term in words, so that the history shows what it was and what it is."""
    return {name: value for name, value in kept.items() if name != "terms"} | terms_words.told(terms_of(row))
