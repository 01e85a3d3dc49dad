"""The one door by which anyone, `capacity` too, may ask for a measurement. A draft runs only after a person authorised it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from benchmarks import audit, queries
from benchmarks.engine.plan import GridLimits
from benchmarks.engine.probe_plan import Probe
from benchmarks.models import Cell, Conditions, Dialect, Grid, Runtime, Team, Workload
from benchmarks.offered import managed_fault
from benchmarks.plans import trace_offsets_s
from benchmarks.records import mode_words, modes, probes
from benchmarks.records.modes import (
    LIST_DIALECTS,
    ArrivalKind,
    ClosedTerms,
    MicroTerms,
    Mode,
    OpenTerms,
    SearchTerms,
    StaticTerms,
    Terms,
)

MIXED = queries.MIXED
PROBED_NOT = (Dialect.OPENAI_EMBEDDINGS,)


class DraftRefused(ValueError):
    """The draft cannot be drawn; the message says what to change."""


@dataclass(frozen=True, slots=True)
class RoomConditions:
    """What the room and the power are like before a grid."""

    at: datetime
    room: str
    power_source: str
    ambient_c: float | None = None
    ambient_source: str = "unknown"
    ups_on_battery: bool = False
    other_loads: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Confirms:
    """The closed-loop grid whose setting an open loop shall confirm, through a queue in which `queue_cap` may wait."""

    grid: Grid
    setting: int
    queue_cap: int


@dataclass(frozen=True, slots=True)
class GridSpec:
    """What shall be measured. `objective_digest` and `objective_set_at` prove that the objective came first."""

    team: Team
    name: str
    runtime: Runtime
    workload: Workload
    setting_values: Sequence[int]
    class_names: Sequence[str]
    repeats: int
    window_s: float
    warmup_s: float
    limits: GridLimits
    objective_digest: str
    objective_set_at: datetime
    conditions: RoomConditions | None = None
    load: Terms = field(default_factory=ClosedTerms)
    probes: Sequence[Probe] = ()
    on_guard: str = "cancel"
    managed: bool = False
    confirms: Confirms | None = None


def draft_grid(*, spec: GridSpec, drawn_by: AbstractBaseUser, reason: str) -> Grid:
    """Draws a grid with its cells in running order: stages ascend, classes in the workload's order within a stage; then
    its behaviour probes, at the highest setting, which falls to the highest that passed its gates (probing.py).

    A search gets the cells of its first try only; the others come one after the other, each after what was measured.
    Raises DraftRefused with a sentence that says what to change.
    """
    _check(spec)
    with transaction.atomic():
        grid = Grid(
            team=spec.team,
            name=spec.name,
            reason=reason,
            hardware=spec.runtime.hardware,
            runtime=spec.runtime,
            workload=spec.workload,
            mode=modes.mode_of(spec.load),
            load=modes.plain(spec.load),
            probes=probes.plain(spec.probes),
            on_guard=spec.on_guard,
            managed=spec.managed,
            setting_values=sorted(set(spec.setting_values)),
            class_names=list(spec.class_names),
            repeats=spec.repeats,
            window_s=spec.window_s,
            warmup_s=spec.warmup_s,
            limits=msgspec.to_builtins(spec.limits),
            objective_digest=spec.objective_digest,
            objective_set_at=spec.objective_set_at,
            drawn_by_id=drawn_by.pk,
            declared=queries.declared_of(spec.runtime.hardware),
            simulated=spec.runtime.simulated,
            confirms=spec.confirms.grid if spec.confirms else None,
            confirms_setting=spec.confirms.setting if spec.confirms else None,
            confirms_queue_cap=spec.confirms.queue_cap if spec.confirms else None,
        )
        grid.digest = queries.digest_of_grid(grid)
        grid.save()
        Cell.objects.bulk_create(_cells(grid))
        if spec.conditions:
            record_conditions(
                grid=grid, phase=Conditions.Phase.BEFORE, conditions=spec.conditions, recorded_by=drawn_by
            )
        audit.record(
            actor=drawn_by.get_username(),
            verb="drew",
            subject=f"grid {grid.pk}",
            team=spec.team,
            after=grid.digest,
            reason=reason,
        )
    return grid


def record_conditions(
    *, grid: Grid, phase: str, conditions: RoomConditions, recorded_by: AbstractBaseUser
) -> Conditions:
    """Conditions of one phase, once."""
    row = Conditions.objects.create(
        grid=grid,
        phase=phase,
        at=conditions.at,
        room=conditions.room,
        ambient_c=conditions.ambient_c,
        ambient_source=conditions.ambient_source,
        power_source=conditions.power_source,
        ups_on_battery=conditions.ups_on_battery,
        other_loads=conditions.other_loads,
        notes=conditions.notes,
        recorded_by_id=recorded_by.pk,
    )
    audit.record(
        actor=recorded_by.get_username(), verb="recorded conditions", subject=f"grid {grid.pk}", team=grid.team,
        after=[row.phase, row.room, row.power_source, row.ambient_c],
    )  # fmt: skip
    return row


def _cells(grid: Grid) -> list[Cell]:
    settings = grid.setting_values[:1] if grid.mode == Mode.SEARCH else grid.setting_values
    order = [(s, r, c, "") for s in settings for r in range(1, grid.repeats + 1) for c in grid.class_names]
    order += [(settings[-1], number, MIXED, kind) for kind, number in probes.numbered(grid.probes)]
    return [
        Cell(grid=grid, hardware=grid.hardware, position=i, setting=s, repeat=r, class_name=c, probe=p)
        for i, (s, r, c, p) in enumerate(order)
    ]


def _check(spec: GridSpec) -> None:
    known = set(spec.workload.classes.values_list("name", flat=True))
    if wrong := mode_words.fault(spec.load, spec.setting_values) or _mode_fault(spec):
        raise DraftRefused(wrong)
    if spec.confirms and (wrong := _confirms_fault(spec, spec.confirms)):
        raise DraftRefused(wrong)
    if spec.managed and (wrong := managed_fault(spec.load, spec.runtime, spec.setting_values)):
        raise DraftRefused(wrong)
    if not spec.class_names:
        raise DraftRefused("Choose at least one length class.")
    for name in spec.class_names:
        if name != MIXED and name not in known:
            raise DraftRefused(f"The workload has no length class called {name}. It has {', '.join(sorted(known))}.")
    wanted = known if MIXED in spec.class_names else set(spec.class_names)
    missing = sorted(wanted - set(spec.limits.classes))
    if missing:
        raise DraftRefused(
            f"The objective says nothing about {', '.join(missing)}. Add limits for it, or leave the class out."
        )


def _mode_fault(spec: GridSpec) -> str | None:
    """What the mode wants of the runtime, the workload or the number of cells, and does not get."""
    found = turns_fault(spec.load, spec.workload) or dialect_fault(spec.load, spec.runtime)
    if found := found or probes_fault(spec.load, spec.runtime, spec.probes):
        return found
    match spec.load:
        case SearchTerms(most_cells=most) if most < (each := len(spec.class_names) * spec.repeats):
            return (
                f"One try of the search takes {each} cells, and it may run {most}. Allow more, or choose fewer classes."
            )
        case OpenTerms(arrivals=ArrivalKind.REPLAY):
            return _replay_fault(spec, max(spec.setting_values))
        case MicroTerms(arrivals=ArrivalKind.REPLAY, arrivals_per_min=rate_per_min):
            return _replay_fault(spec, rate_per_min)
    return None


def _confirms_fault(spec: GridSpec, confirmed: Confirms) -> str | None:
    """What keeps the grid from confirming another: it must be an open loop of the mix, on the same host, of this team."""
    if not isinstance(spec.load, OpenTerms):
        return "A setting is confirmed in an open loop, where requests arrive at their own times. Choose it."
    if confirmed.grid.mode != Mode.CLOSED or confirmed.grid.team_id != spec.team.pk:
        return "Only a setting of a closed-loop grid of this team can be confirmed."
    if confirmed.setting not in confirmed.grid.setting_values:
        return f"Grid {confirmed.grid.pk} has no setting {confirmed.setting} to confirm."
    if confirmed.grid.hardware_id != spec.runtime.hardware_id:
        return f"A setting of {confirmed.grid.hardware.slug} is confirmed there. Choose a runtime of that host."
    if list(spec.class_names) != [MIXED]:
        return (
            "A setting is confirmed on the mix of all length classes, as they arrive in production. Choose mixed alone."
        )
    if spec.load.max_in_flight <= confirmed.setting + confirmed.queue_cap:
        return (
            f"{confirmed.setting} served and {confirmed.queue_cap} waiting fill what the client may have in flight, so "
            "nobody would be refused. Allow more in flight."
        )
    return None


def turns_fault(load: Terms, workload: Workload) -> str | None:
    """What keeps the workload from being loaded so."""
    if not isinstance(load, MicroTerms | StaticTerms) or workload.turns == 1:
        return None
    return "Conversations of several turns run in a closed or open loop. Choose a workload of single requests."


def dialect_fault(load: Terms, runtime: Runtime) -> str | None:
    """What keeps the runtime from being loaded so."""
    if not isinstance(load, MicroTerms) or runtime.dialect in LIST_DIALECTS:
        return None
    return (
        f"Micro-batching sends several items in one request, which {runtime.get_dialect_display()} cannot carry. "
        "Register the runtime with the dialect of completions or embeddings."
    )


def probes_fault(load: Terms, runtime: Runtime, wanted: Sequence[Probe]) -> str | None:
    """What keeps these behaviour probes from being asked of this runtime, loaded so."""
    if not wanted:
        return None
    if not isinstance(load, ClosedTerms):
        return "Behaviour probes go with a closed loop, whose settings are requests in flight. Choose it, or leave them out."
    if runtime.dialect in PROBED_NOT:
        return (
            f"Behaviour probes need answers that are streamed, which {runtime.get_dialect_display()} does not have. "
            "Leave them out."
        )
    return probes.fault(wanted, mode_words.MOST_IN_FLIGHT)


def _replay_fault(spec: GridSpec, rate_per_min: int) -> str | None:
    """A trace that ends inside the window would leave the rest of it without load."""
    count = len(trace_offsets_s(spec.workload))
    if count < 2:
        return "The workload keeps no trace of arrivals to replay. Choose other arrivals, or import a trace."
    lasts_s, needs_s = count * 60 / rate_per_min, spec.warmup_s + spec.window_s
    if lasts_s >= needs_s:
        return None
    return (
        f"The {count:,} arrivals that the workload keeps last {lasts_s:,.1f} s at {rate_per_min:,} a minute; warm-up and "
        f"window take {needs_s:g} s. Choose fewer arrivals a minute, a shorter window, or a longer trace."
    )
