"""One grid in a file of its own, with all that it rests on, taken into another installation: from SQLite to PostgreSQL, or
from a GPU host's own installation to the office's.

Numbers of rows are the target's own; people are found by their user name, registry rows by slug, version and digest.
What was decided about the grid (choices, statements) stays where it was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from django.contrib.auth.models import User
from django.db import models, transaction
from django.utils import timezone

from benchmarks import audit
from benchmarks.models import (
    Attempt,
    Authorization,
    Cell,
    Conditions,
    Evidence,
    EvidenceChunk,
    Grid,
    Hardware,
    HardwareProbe,
    LengthClass,
    Runtime,
    SupersededEvidence,
    Team,
    WorkerKey,
    Workload,
)
from benchmarks.records.digest import sha256
from capacity import backups, rows
from capacity.models import ClassObjective, Objective
from capacity.rows import Row

MOVABLE = (Grid.Status.MEASURED, Grid.Status.STOPPED, Grid.Status.WITHDRAWN)
_PERSON = ("id", "username", "first_name", "last_name")
Model = type[models.Model]
Numbers = dict[Model, dict[int, int]]


def write(grid: Grid, path: Path) -> int:
    """How many rows. Raises BackupRefused where the grid is not over, or the file is there already."""
    if grid.status not in MOVABLE:
        raise backups.BackupRefused(
            f"Grid {grid.pk} is {grid.get_status_display().lower()}. Stop it, or let it end, first."
        )
    found = {model: list(part) for model, part in _parts(grid).items()}
    parts = ((model, map(_row, part)) for model, part in ({User: _people(found)} | found).items())
    return backups.pack(
        path, parts, lambda: {"grid": grid.pk, "name": grid.name, "digest": grid.digest} | _confirms(grid)
    )


def read(path: Path) -> Grid:
    """The grid as it now stands here, all or nothing. Raises BackupRefused where the file is no grid's or was changed,
    where evidence does not have its digest, where the grid is here already, or where it confirms one that is not."""
    with backups.opened(path) as (folder, manifest), transaction.atomic():
        if "grid" not in manifest:
            raise backups.BackupRefused(
                f"{path} is no grid's file; a whole backup is taken back by `manage.py restore`."
            )
        backups.check_evidence(folder, manifest)
        numbers: Numbers = {Grid: _confirmed(manifest)}
        people: tuple[Model, ...] = (User,)
        for model in people + _ORDER:
            numbers.setdefault(model, {})
            for row in backups.rows_of(folder, manifest, model):
                numbers[model][row["id"]] = _taken(model, row, numbers)
        grid = Grid.objects.get(pk=numbers[Grid][manifest["grid"]])
        audit.record(
            actor="command", verb="imported", subject=f"grid {grid.pk}", team=grid.team, after=grid.digest,
            changes={"file_sha256": sha256(path.read_bytes()), "number_there": manifest["grid"], "made_at": manifest["made_at"]},
        )  # fmt: skip
    return grid


def _confirms(grid: Grid) -> dict[str, object]:
    """By what the grid that this one confirms is known anywhere."""
    other = grid.confirms
    return {"confirms": [other.pk, other.digest, other.drawn_at.isoformat(), other.name]} if other else {}


def _confirmed(manifest: dict[str, Any]) -> dict[int, int]:
    """The number here of the grid that this one confirms."""
    if "confirms" not in manifest:
        return {}
    number, digest, drawn_at, name = manifest["confirms"]
    found = Grid.objects.filter(digest=digest, drawn_at=drawn_at).first()
    if found is None:
        raise backups.BackupRefused(
            f"It confirms grid {number} there, {name}, which is not here. Import that one first."
        )
    return {number: found.pk}


def _parts(grid: Grid) -> dict[Model, Iterable[models.Model]]:
    """What a grid rests on and what it left, those that are pointed at first."""
    cells = grid.cells.all()
    evidence = Evidence.objects.filter(cell__grid=grid)
    objectives = Objective.objects.filter(team=grid.team, digest=grid.objective_digest)
    return {
        Team: [grid.team],
        Hardware: [grid.hardware],
        HardwareProbe: [grid.probe] if grid.probe else [],
        WorkerKey: WorkerKey.objects.filter(pk__in=evidence.exclude(key=None).values("key_id")),
        Runtime: [grid.runtime],
        Workload: [grid.workload],
        LengthClass: grid.workload.classes.order_by("pk"),
        Objective: objectives,
        ClassObjective: ClassObjective.objects.filter(objective__in=objectives).order_by("pk"),
        Grid: [grid],
        Authorization: grid.authorizations.order_by("pk"),
        Conditions: grid.conditions.order_by("pk"),
        Cell: cells.order_by("pk"),
        Attempt: Attempt.objects.filter(cell__grid=grid).order_by("pk"),
        Evidence: evidence.order_by("pk"),
        EvidenceChunk: EvidenceChunk.objects.filter(evidence__cell__grid=grid).order_by("pk"),
        SupersededEvidence: SupersededEvidence.objects.filter(cell__grid=grid).order_by("pk"),
    }


_ORDER: tuple[Model, ...] = (
    Team, Hardware, HardwareProbe, WorkerKey, Runtime, Workload, LengthClass, Objective, ClassObjective, Grid, Authorization,
    Conditions, Cell, Attempt, Evidence, EvidenceChunk, SupersededEvidence,
)  # fmt: skip


def _people(found: dict[Model, list[models.Model]]) -> list[models.Model]:
    wanted = {
        getattr(one, field.attname)
        for part in found.values() for one in part for field in rows.columns(type(one)) if field.related_model is User
    }  # fmt: skip
    return list(User.objects.filter(pk__in=wanted - {None}).order_by("pk"))


def _row(one: models.Model) -> Row:
    """Of a person only the name goes along: no password, no address, no right."""
    row = rows.as_row(one)
    return {name: row[name] for name in _PERSON} if isinstance(one, User) else row


def _taken(model: Model, row: Row, numbers: Numbers) -> int:
    """The number here of a row from there: of the one that is the same, else of a new one."""
    if model is User:
        return _person(row)
    there = dict(row)
    for field in rows.columns(model):
        if field.related_model in numbers and there[field.attname] is not None:
            there[field.attname] = numbers[field.related_model][there[field.attname]]
    one = rows.from_row(model, there)
    if (same := _SAME.get(model, _none)(one)) is not None:
        return int(same.pk)
    one.pk = None
    rows.insert(one)
    return int(one.pk)


def _person(row: Row) -> int:
    """An account that cannot be used stands for a person who has none here, so that the record keeps its names."""
    person, is_new = User.objects.get_or_create(
        username=row["username"],
        defaults={"first_name": row["first_name"], "last_name": row["last_name"], "is_active": False},
    )
    if is_new:
        person.set_unusable_password()
        person.save(update_fields=["password"])
    return int(person.pk)


def _none(_one: models.Model) -> None:
    return None


def _same_team(one: models.Model) -> models.Model | None:
    return Team.objects.filter(slug=cast(Team, one).slug).first()


def _same_host(one: models.Model) -> models.Model | None:
    return Hardware.objects.filter(slug=cast(Hardware, one).slug).first()


def _same_probe(one: models.Model) -> models.Model | None:
    probe = cast(HardwareProbe, one)
    return HardwareProbe.objects.filter(hardware_id=probe.hardware_id, digest=probe.digest, at=probe.at).first()


def _same_key(one: models.Model) -> models.Model | None:
    """A key that came in a file verifies what it signed, and opens nothing here."""
    key = cast(WorkerKey, one)
    key.revoked_at = key.revoked_at or timezone.now()
    return WorkerKey.objects.filter(token_sha256=key.token_sha256).first()


def _same_version(one: models.Model) -> models.Model | None:
    """The version of the same digest; where there is none, `one` becomes the next version of its slug."""
    row = cast(Runtime, one)
    kin = type(row).objects.filter(team_id=row.team_id, slug=row.slug)
    same = kin.filter(digest=row.digest).first()
    if same is None and kin.filter(version=row.version).exists():
        row.version = 1 + max(kin.values_list("version", flat=True))
    return same


def _same_part(parent: str) -> Callable[[models.Model], models.Model | None]:
    """Parts of a row that was found here are here too."""

    def same(one: models.Model) -> models.Model | None:
        name = "class_name" if hasattr(one, "class_name") else "name"
        kin = {parent: getattr(one, parent), name: getattr(one, name)}
        return type(one)._base_manager.filter(**kin).first()

    return same


def _same_grid(one: models.Model) -> None:
    grid = cast(Grid, one)
    if found := Grid.objects.filter(digest=grid.digest, drawn_at=grid.drawn_at).first():
        raise backups.BackupRefused(f"This grid is here already, as grid {found.pk}.")


_SAME: dict[Model, Callable[[Any], models.Model | None]] = {
    Team: _same_team,
    Hardware: _same_host,
    HardwareProbe: _same_probe,
    WorkerKey: _same_key,
    Runtime: _same_version,
    Workload: _same_version,
    Objective: _same_version,
    LengthClass: _same_part("workload_id"),
    ClassObjective: _same_part("objective_id"),
    Grid: _same_grid,
}
