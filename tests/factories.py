"""Plain functions that make rows for tests: each returns a saved row and fills in what the test does not care about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Model

from benchmarks import audit, registry
from benchmarks.drafts import GridSpec, RoomConditions, draft_grid
from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.models import Grid, Hardware, LengthClass, Membership, Role, Runtime, Team, Workload
from capacity.models import ClassObjective, Objective

PASSWORD = "a long enough password"
CLASSES: dict[str, tuple[int, int]] = {"short": (16, 16), "median": (48, 32), "long": (128, 48)}
"""Length classes of make_workload: prompt tokens, output tokens."""
OBJECTIVE_SET_AT = datetime(2026, 11, 14, 9, 0, tzinfo=UTC)


def _free(model: type[Model], field: str, wanted: str) -> str:
    """`wanted`, or wanted-2, wanted-3 … where that is taken."""
    name, number = wanted, 1
    while model._default_manager.filter(**{field: name}).exists():
        number += 1
        name = f"{wanted}-{number}"
    return name


def make_team(name: str = "Demonstration", *, slug: str | None = None) -> Team:
    return Team.objects.create(name=name, slug=slug or _free(Team, "slug", name.lower().replace(" ", "-")))


def make_user(team: Team | None, *roles: str, username: str | None = None, password: str = PASSWORD) -> User:
    """A person with these roles in the team; named after the first role unless told otherwise."""
    wanted = username or _free(User, "username", str(roles[0]).replace("_", "-") if roles else "stranger")
    user = User.objects.create_user(wanted, password=password)
    if team is not None:
        Membership.objects.bulk_create(Membership(user=user, team=team, role=role) for role in roles)
    return user


def make_hardware(team: Team | None = None, *, slug: str | None = None, **fields: Any) -> Hardware:
    chosen = {"name": "Host without GPU", "place": "Room 1, ground floor", "cpu": "2 cores", "ram_gib": 16.0} | fields
    return Hardware.objects.create(team=team or make_team(), slug=slug or _free(Hardware, "slug", "host"), **chosen)


def make_runtime(hardware: Hardware | None = None, *, slug: str | None = None, **fields: Any) -> Runtime:
    """A simulated runtime on `hardware`, whose endpoint nobody serves unless the test says otherwise."""
    host = hardware or make_hardware()
    chosen: dict[str, Any] = {
        "name": "Simulated runtime",
        "kind": "simulator",
        "runtime_version": "0.1.0",
        "endpoint": "http://127.0.0.1:9",
        "model_name": "simulated",
        "max_active_sequences": 4,
    } | fields
    row = Runtime(team=host.team, hardware=host, slug=slug or _free(Runtime, "slug", "runtime"), **chosen)
    row.digest = registry.digest_of_runtime(row)
    row.save(force_insert=True)
    return row


def make_workload(
    team: Team | None = None,
    *,
    classes: dict[str, tuple[int, int]] | None = None,
    slug: str | None = None,
    **fields: Any,
) -> Workload:
    """Words of a fixed vocabulary in length classes of fixed lengths: name -> (prompt tokens, output tokens)."""
    wanted = classes or CLASSES
    chosen = {"name": "Short, median, long", "seed": 7, "task": "words"} | fields
    workload = Workload(team=team or make_team(), slug=slug or _free(Workload, "slug", "workload"), **chosen)
    lengths = [
        registry.ClassValues(name, 1.0, {"kind": "fixed", "tokens": prompt}, {"kind": "fixed", "tokens": output})
        for name, (prompt, output) in wanted.items()
    ]
    workload.digest = registry.digest_of_workload(workload, lengths)
    workload.save(force_insert=True)
    LengthClass.objects.bulk_create(
        LengthClass(
            workload=workload,
            position=position,
            name=c.name,
            weight=c.weight,
            prompt_tokens=dict(c.prompt_tokens),
            output_tokens=dict(c.output_tokens),
        )
        for position, c in enumerate(lengths)
    )
    return workload


def make_limits(*, classes: Sequence[str] = tuple(CLASSES), e2e_s: float | None = 2.0, **fields: Any) -> GridLimits:
    """The same end-to-end limit for every class, everything else as an objective has it by default."""
    return GridLimits(classes={name: ClassLimits(e2e_s=e2e_s) for name in classes}, **fields)


def make_objective(
    team: Team | None = None,
    *,
    classes: Sequence[str] = tuple(CLASSES),
    e2e_s: float = 2.0,
    slug: str | None = None,
    **fields: Any,
) -> Objective:
    chosen = {"name": "p95 within the limit"} | fields
    objective = Objective.objects.create(
        team=team or make_team(),
        slug=slug or _free(Objective, "slug", "objective"),
        digest=audit.digest_of([chosen, list(classes), e2e_s]),
        **chosen,
    )
    ClassObjective.objects.bulk_create(
        ClassObjective(objective=objective, position=position, class_name=name, e2e_s=e2e_s)
        for position, name in enumerate(classes)
    )
    return objective


def make_room(**fields: Any) -> RoomConditions:
    chosen: dict[str, Any] = {
        "at": datetime(2026, 11, 14, 9, 55, tzinfo=UTC),
        "room": "Room 1, ground floor",
        "power_source": "grid",
        "ambient_c": 21.0,
        "ambient_source": "hand",
    } | fields
    return RoomConditions(**chosen)


def make_grid(
    runtime: Runtime | None = None,
    workload: Workload | None = None,
    drawn_by: User | None = None,
    *,
    settings: Sequence[int] = (1, 2, 4, 8),
    class_names: Sequence[str] | None = None,
    repeats: int = 1,
    limits: GridLimits | None = None,
    conditions: RoomConditions | None = None,
    recorded: bool = True,
    reason: str = "",
    **fields: Any,
) -> Grid:
    """A draft, drawn through the one door; its cells are planned and nothing runs before somebody authorises it."""
    chosen_runtime = runtime or make_runtime()
    team = chosen_runtime.team
    chosen_workload = workload or make_workload(team)
    names = list(class_names or chosen_workload.classes.values_list("name", flat=True))
    spec: dict[str, Any] = {
        "team": team,
        "name": "Demonstration grid",
        "runtime": chosen_runtime,
        "workload": chosen_workload,
        "setting_values": settings,
        "class_names": names,
        "repeats": repeats,
        "window_s": 5.0,
        "warmup_s": 1.0,
        "limits": limits or make_limits(classes=tuple(chosen_workload.classes.values_list("name", flat=True))),
        "objective_digest": "0" * 64,
        "objective_set_at": OBJECTIVE_SET_AT,
        "conditions": (conditions or make_room()) if recorded else None,
    } | fields
    return draft_grid(spec=GridSpec(**spec), drawn_by=drawn_by or make_user(team, Role.OPERATOR), reason=reason)
