"""What stands in a plan's way, or speaks for it, before anybody draws it: one line each. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.utils.translation import gettext as _

from benchmarks.drafts import MIXED, dialect_fault, probes_fault, turns_fault
from benchmarks.engine.load import Constant
from benchmarks.engine.plan import GridLimits
from benchmarks.engine.probe_plan import Probe
from benchmarks.foreseen import Asked, chosen
from benchmarks.foreseen_words import plan_lines
from benchmarks.models import Runtime, Workload
from benchmarks.offered import launch_warnings, managed_fault, profiles_of
from benchmarks.records import lengths, linter
from benchmarks.records.modes import (
    ArrivalKind,
    ClosedTerms,
    MicroTerms,
    Mode,
    OpenTerms,
    SearchTerms,
    Terms,
    in_flight,
    mode_of,
)
from benchmarks.runtimes import terms
from capacity import plan_checks
from capacity.assessment import terms_words
from capacity.assessment.knee import STATEMENT_REPEATS
from capacity.models import Objective
from capacity.objectives import terms_of
from capacity.plan_checks import Tick

_FILLED = (Mode.CLOSED, Mode.STATIC)
"""Modes that keep as much in flight as they may; an open loop or a search need not come to it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the form says so far; None and empty where nothing is chosen yet."""

    runtime: Runtime | None
    workload: Workload | None
    objective: Objective | None
    settings: Sequence[int]
    class_names: Sequence[str]
    repeats: int | None
    window_s: float | None
    warmup_s: float | None
    conditions: bool
    load: Terms = field(default_factory=ClosedTerms)
    managed: bool = False
    probes: Sequence[Probe] = ()

    @property
    def load_ends(self) -> bool:
        """Whether the plan says when it would be over: a search may end at any time."""
        return not isinstance(self.load, SearchTerms)


def ticks_of(wish: Wish, settings: list[int], *, team_id: int, person_id: int, at: datetime) -> list[Tick]:
    found: list[Tick] = []
    if wish.runtime is not None:
        found += [
            plan_checks.worker(wish.runtime),
            *plan_checks.others(wish.runtime.hardware),
            *_started(wish, settings),
        ]
        found += [*_queue(wish.runtime, wish.load, [] if wish.managed else settings), *_read(wish.runtime)]
    if wish.workload is not None:
        found += _lengths(wish.workload)
    found += [*_refused(wish), *_arrivals(wish.load)]
    if wish.workload is not None and wish.objective is not None:
        found.append(_covered(wish.workload, wish.objective, wish.class_names))
    if wish.runtime is not None and wish.workload is not None:
        found += _context(wish.runtime, wish.workload, wish.class_names)
        found += _answerable(wish.runtime, wish.workload)
        found += _memory(wish, settings)
    if wish.repeats is not None and wish.repeats < STATEMENT_REPEATS:
        found.append(
            Tick(
                "warn",
                _("Repeats: %(n)s. A statement wants %(wanted)s, to see runs that differ.")
                % {"n": wish.repeats, "wanted": STATEMENT_REPEATS},
            )
        )
    if not wish.conditions:
        found.append(
            Tick(
                "warn",
                _("No conditions yet. Without them no statement can be signed; they can be added on the grid."),
            )
        )
    else:
        found.append(Tick("ok", _("Power and room are given")))
    if mode_of(wish.load) == Mode.STATIC:
        found.append(_batch(wish.objective))
    elif mode_of(wish.load) != Mode.CLOSED:
        found.append(
            Tick("info", _("Measured and shown, not judged yet: no recommendation and no statement come of it."))
        )
    found += [plan_checks.hours(at), plan_checks.authorizer(team_id, person_id)]
    return found


def _batch(objective: Objective | None) -> Tick:
    """Whether the time of a static batch will be held to anything."""
    asked = terms_of(objective).batch if objective is not None else None
    if asked is None:
        text = _(
            "The objective says nothing of a batch: set its items and window, or the time is held to nothing; no "
            "recommendation and no statement come of it either way."
        )
        return Tick("warn", text)
    text = _("Held to its window: %(window)s; no recommendation and no statement come of it.")
    return Tick("info", text % {"window": terms_words.batch(asked)})


def _refused(wish: Wish) -> list[Tick]:
    """What the draft would be refused for, said before it is drawn."""
    faults = (
        turns_fault(wish.load, wish.workload) if wish.workload is not None else None,
        dialect_fault(wish.load, wish.runtime) if wish.runtime is not None else None,
        probes_fault(wish.load, wish.runtime, wish.probes) if wish.runtime is not None else None,
    )
    return [Tick("bad", fault) for fault in faults if fault]


def _started(wish: Wish, settings: list[int]) -> list[Tick]:
    """What is known of the runtime's start: whether the worker can do it, and what is doubtful in how it is done."""
    assert wish.runtime is not None
    found = [Tick("warn", text, of_tool=True) for text in launch_warnings(wish.runtime, managed=wish.managed)]
    if not wish.managed:
        return found
    if fault := managed_fault(wish.load, wish.runtime, settings):
        return [Tick("bad", fault), *found]
    profile = profiles_of(wish.runtime.hardware)[wish.runtime.launch_profile]
    return [
        Tick(
            "info",
            _(
                "The runtime is started anew for every cell, ready within %(s)g s or the grid stops. That time comes on top "
                "and counts against the authorised minutes."
            )
            % {"s": profile.ready_within_s},
        ),
        *found,
    ]


def _queue(runtime: Runtime, load: Terms, settings: list[int]) -> list[Tick]:
    found = []
    most, mode = runtime.max_active_sequences, mode_of(load)
    above = [s for s in settings if most is not None and mode in _FILLED and in_flight(load, s) > most]
    if above and mode == Mode.STATIC:
        text = _("In batches of %(at)s, items above %(most)s active sequences wait in the runtime's queue.")
        found.append(Tick("warn", text % {"at": _(" and ").join(map(str, above)), "most": most}))
    elif above:
        text = _("At %(at)s offered, requests above %(most)s active sequences wait in the runtime's queue.")
        found.append(Tick("warn", text % {"at": _(" and ").join(map(str, above)), "most": most}))
    if most is None:
        found.append(
            Tick("info", _("Active sequences of the runtime are not recorded: waiting shows in its own metrics only."))
        )
    queue = terms.queue_is_bounded(runtime.kind)
    if queue.bounded is not True:
        found.append(Tick("warn", queue.sentence))
    return found


def _read(runtime: Runtime) -> list[Tick]:
    newer = terms.newer_than_read(runtime.kind, runtime.runtime_version)
    return [Tick("info", newer, of_tool=True)] if newer else []


def _lengths(workload: Workload) -> list[Tick]:
    classes = classes_of(workload)
    warned = linter.warnings_about(
        linter.Sent(
            classes=classes,
            task=workload.task,
            source=workload.source,
            shared_prefix_share=workload.shared_prefix_share,
            turns=workload.turns,
            arrivals_s=workload.arrivals_s or (),
        )
    )
    if warned:
        return [Tick("warn", text) for text in warned]
    return [Tick("ok", _("%(n)s length classes, none identical") % {"n": len(classes)})]


def _arrivals(load: Terms) -> list[Tick]:
    """A trace's own arrivals are looked at with its workload."""
    if not isinstance(load, OpenTerms | MicroTerms) or load.arrivals != ArrivalKind.CONSTANT:
        return []
    return [Tick("warn", text) for text in linter.about_arrivals(Constant(1.0))]


def classes_of(workload: Workload) -> list[lengths.ClassLengths]:
    return [
        lengths.ClassLengths(
            c.name, c.weight, lengths.read(c.prompt_tokens), lengths.read(c.output_tokens), lengths.read_pairs(c.pairs)
        )
        for c in workload.classes.all()
    ]


def _covered(workload: Workload, objective: Objective, chosen: Sequence[str]) -> Tick:
    """A class without limits cannot be judged; the draft would be refused too."""
    known = [c.name for c in workload.classes.all()]
    wanted = known if MIXED in chosen else [name for name in known if name in chosen]
    limits = {c.class_name for c in objective.classes.all()}
    missing = [name for name in wanted if name not in limits]
    if missing:
        text = _("The objective says nothing about %(names)s. Add limits for it, or leave it out.")
        return Tick("bad", text % {"names": ", ".join(missing)})
    return Tick("ok", _("The objective has limits for every class chosen"))


def _answerable(runtime: Runtime, workload: Workload) -> list[Tick]:
    """The simulated runtime speaks in made-up words and repeats what it is told to; it cannot add or choose."""
    if not runtime.simulated or workload.task in ("words", "echo"):
        return []
    text = _("The simulated runtime cannot do this task: every answer will be invalid. Choose words or echo.")
    return [Tick("warn", text)]


def _context(runtime: Runtime, workload: Workload, chosen: Sequence[str]) -> list[Tick]:
    room = runtime.context_per_sequence_tokens
    if room is None:
        return []
    picked = [c for c in classes_of(workload) if MIXED in chosen or c.name in chosen]
    over = [c.name for c in picked if linter.longest(c, workload.turns) > room]
    text = _("%(names)s: the longest prompts with their answers exceed the context of %(room)s tokens a sequence.")
    return [Tick("warn", text % {"names": ", ".join(over), "room": f"{room:,}"})] if over else []


def _memory(wish: Wish, settings: list[int]) -> list[Tick]:
    """What the highest setting would need of the host's memory; the simulated runtime has none that could run out."""
    if wish.runtime is None or wish.workload is None or wish.runtime.simulated or not settings or not wish.class_names:
        return []
    asked = Asked(
        classes=chosen(wish.workload, wish.class_names),
        turns=wish.workload.turns,
        in_flight=max(in_flight(wish.load, setting) for setting in settings),
        max_vram_share=vram_share(wish),
        managed=wish.managed,
    )
    return [Tick(line.kind, line.text) for line in plan_lines(wish.runtime, asked)]


def vram_share(wish: Wish) -> float:
    return wish.objective.max_vram_share if wish.objective is not None else GridLimits().max_vram_share
