"""What a grid would be, before anybody draws it: cells, time, and what stands in its way. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.drafts import MIXED, dialect_fault, probes_fault, turns_fault
from benchmarks.engine.load import Constant
from benchmarks.engine.plan import GridLimits
from benchmarks.engine.probe_plan import Probe
from benchmarks.facts import worker_state
from benchmarks.foreseen import Asked, chosen
from benchmarks.foreseen_words import plan_lines
from benchmarks.models import Membership, Role, Runtime, Workload
from benchmarks.offered import launch_warnings, managed_fault, profiles_of
from benchmarks.records import lengths, linter, probes
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
    requests_of,
)
from benchmarks.runtimes import terms
from capacity.assessment import terms_words
from capacity.models import Objective
from capacity.objectives import terms_of

BETWEEN_CELLS_S = 1.0
_FILLED = (Mode.CLOSED, Mode.STATIC)
"""Modes that keep as much in flight as they may; an open loop or a search need not come to it."""
STATEMENT_REPEATS = 3


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


@dataclass(frozen=True, slots=True)
class Tick:
    """One line of *Before it starts*; `kind` is ok, warn, bad or info."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    """`cells` and `time_s` are None while the form does not say enough. `highest` is what is in flight at most.

    `requests` (items, where they travel together) and `tokens` are None too where the server's speed decides them; they are
    of the load alone. `probes` are so many behaviour probes, which take at most `probes_s` together.
    """

    cells: int | None
    shape: str
    time_s: float | None
    highest: int | None
    requests: float | None
    tokens: float | None
    ticks: tuple[Tick, ...]
    probes: int = 0
    probes_s: float = 0.0

    @property
    def minutes(self) -> float | None:
        return None if self.time_s is None else self.time_s / 60


def plan_of(wish: Wish, *, team_id: int, person_id: int) -> Plan:
    settings = sorted(set(wish.settings))
    cells, shape = _cells(wish, settings)
    each_s = None if wish.window_s is None or wish.warmup_s is None else wish.window_s + wish.warmup_s
    sent = _sent(wish, settings, each_s) if cells and each_s is not None else None
    probed = [probes.cost(probe, max(settings, default=1)) for probe in wish.probes]
    probes_s = sum(one.seconds + BETWEEN_CELLS_S for one in probed)
    return Plan(
        cells=cells,
        shape=shape,
        time_s=cells * (each_s + BETWEEN_CELLS_S) + probes_s if cells and each_s is not None else None,
        highest=max([*(in_flight(wish.load, s) for s in settings), *(one.in_flight for one in probed)], default=None),
        requests=sent[0] if sent else None,
        tokens=sent[1] if sent else None,
        ticks=tuple(_ticks(wish, settings, team_id=team_id, person_id=person_id)),
        probes=len(probed),
        probes_s=probes_s,
    )


def _cells(wish: Wish, settings: list[int]) -> tuple[int | None, str]:
    """How many cells there are, of a search at most, and what makes them."""
    classes, repeats = len(wish.class_names), wish.repeats or 0
    if isinstance(wish.load, SearchTerms):
        whole = bool(settings and classes and repeats)
        return (wish.load.most_cells, f"{classes} × {repeats} a try") if whole else (None, "")
    cells = len(settings) * classes * repeats or None
    return cells, f"{len(settings)} × {classes} × {repeats}" if cells else ""


def _sent(wish: Wish, settings: list[int], each_s: float) -> tuple[float, float | None] | None:
    """(requests or items, their tokens) of the whole grid; None where the server's speed decides it."""
    found = [requests_of(wish.load, setting, each_s) for setting in settings]
    if any(count is None for count in found):
        return None
    each = sum(count or 0.0 for count in found) * (wish.repeats or 0)
    if wish.workload is not None and isinstance(wish.load, OpenTerms):
        each *= wish.workload.turns
    if wish.workload is None:
        return each * len(wish.class_names), None
    lengths_of = _mean_tokens(_classes(wish.workload), wish.workload.turns)
    return each * len(wish.class_names), each * sum(lengths_of.get(name, 0.0) for name in wish.class_names)


def _mean_tokens(classes: Sequence[lengths.ClassLengths], turns: int = 1) -> dict[str, float]:
    """Prompt and answer of a class together, from a hundred quantiles; the mix by its weights. A turn holds all before
    it, so on average a request of a conversation is (turns + 1) / 2 times as long as one message with its answer."""
    found = {
        c.name: sum(
            lengths.quantile(d, (i + 0.5) / 100) / 100 for d in (c.prompt_tokens, c.output_tokens) for i in range(100)
        )
        * (turns + 1)
        / 2
        for c in classes
    }
    total = sum(c.weight for c in classes) or 1.0
    return found | {MIXED: sum(found[c.name] * c.weight / total for c in classes)}


def _ticks(wish: Wish, settings: list[int], *, team_id: int, person_id: int) -> list[Tick]:
    found: list[Tick] = []
    if wish.runtime is not None:
        found += [_worker(wish.runtime), *_started(wish, settings)]
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
            Tick("warn", f"Repeats: {wish.repeats}. A statement wants {STATEMENT_REPEATS}, to see runs that differ.")
        )
    if not wish.conditions:
        found.append(
            Tick("warn", "No conditions yet. Without them no statement can be signed; they can be added on the grid.")
        )
    if mode_of(wish.load) == Mode.STATIC:
        found.append(_batch(wish.objective))
    elif mode_of(wish.load) != Mode.CLOSED:
        found.append(Tick("info", "Measured and shown, not judged yet: no recommendation and no statement come of it."))
    found.append(_authorizer(team_id, person_id))
    return found


def _batch(objective: Objective | None) -> Tick:
    """Whether the time of a static batch will be held to anything."""
    asked = terms_of(objective).batch if objective is not None else None
    if asked is None:
        said = "The objective says nothing of a batch: set its items and window, or the time is held to nothing"
        return Tick("warn", f"{said}; no recommendation and no statement come of it either way.")
    said = f"Held to its window: {terms_words.batch(asked)}"
    return Tick("info", f"{said}; no recommendation and no statement come of it.")


def _refused(wish: Wish) -> list[Tick]:
    """What the draft would be refused for, said before it is drawn."""
    faults = (
        turns_fault(wish.load, wish.workload) if wish.workload is not None else None,
        dialect_fault(wish.load, wish.runtime) if wish.runtime is not None else None,
        probes_fault(wish.load, wish.runtime, wish.probes) if wish.runtime is not None else None,
    )
    return [Tick("bad", fault) for fault in faults if fault]


def _worker(runtime: Runtime) -> Tick:
    state, slug = worker_state(runtime.hardware), runtime.hardware.slug
    if state.kind == "ok":
        return Tick("ok", f"Worker on {slug} is running")
    how = f"start it on the host with {state.command}"
    return Tick("warn", f"No worker on {slug} now: the grid will wait. To run it, {how}.")


def _started(wish: Wish, settings: list[int]) -> list[Tick]:
    """What is known of the runtime's start: whether the worker can do it, and what is doubtful in how it is done."""
    assert wish.runtime is not None
    found = [Tick("warn", text) for text in launch_warnings(wish.runtime, managed=wish.managed)]
    if not wish.managed:
        return found
    if fault := managed_fault(wish.load, wish.runtime, settings):
        return [Tick("bad", fault), *found]
    profile = profiles_of(wish.runtime.hardware)[wish.runtime.launch_profile]
    return [
        Tick(
            "info",
            f"The runtime is started anew for every cell, ready within {profile.ready_within_s:g} s or the grid stops. That "
            "time comes on top and counts against the authorised minutes.",
        ),
        *found,
    ]


def _queue(runtime: Runtime, load: Terms, settings: list[int]) -> list[Tick]:
    found = []
    most, mode = runtime.max_active_sequences, mode_of(load)
    above = [s for s in settings if most is not None and mode in _FILLED and in_flight(load, s) > most]
    if above and mode == Mode.STATIC:
        words = " and ".join(str(s) for s in above)
        found.append(
            Tick("warn", f"In batches of {words}, items above {most} active sequences wait in the runtime's queue.")
        )
    elif above:
        words = " and ".join(str(s) for s in above)
        found.append(
            Tick("warn", f"At {words} offered, requests above {most} active sequences wait in the runtime's queue.")
        )
    if most is None:
        found.append(
            Tick("info", "Active sequences of the runtime are not recorded: waiting shows in its own metrics only.")
        )
    queue = terms.queue_is_bounded(runtime.kind)
    if queue.bounded is not True:
        found.append(Tick("warn", queue.sentence))
    return found


def _read(runtime: Runtime) -> list[Tick]:
    newer = terms.newer_than_read(runtime.kind, runtime.runtime_version)
    return [Tick("info", newer)] if newer else []


def _lengths(workload: Workload) -> list[Tick]:
    classes = _classes(workload)
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
    return [Tick("ok", f"{len(classes)} length classes, none identical")]


def _arrivals(load: Terms) -> list[Tick]:
    """A trace's own arrivals are looked at with its workload."""
    if not isinstance(load, OpenTerms | MicroTerms) or load.arrivals != ArrivalKind.CONSTANT:
        return []
    return [Tick("warn", text) for text in linter.about_arrivals(Constant(1.0))]


def _classes(workload: Workload) -> list[lengths.ClassLengths]:
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
        return Tick(
            "bad", f"The objective says nothing about {', '.join(missing)}. Add limits for it, or leave it out."
        )
    return Tick("ok", "The objective has limits for every class chosen")


def _answerable(runtime: Runtime, workload: Workload) -> list[Tick]:
    """The simulated runtime speaks in made-up words and repeats what it is told to; it cannot add or choose."""
    if not runtime.simulated or workload.task in ("words", "echo"):
        return []
    return [
        Tick("warn", "The simulated runtime cannot do this task: every answer will be invalid. Choose words or echo.")
    ]


def _context(runtime: Runtime, workload: Workload, chosen: Sequence[str]) -> list[Tick]:
    room = runtime.context_per_sequence_tokens
    if room is None:
        return []
    picked = [c for c in _classes(workload) if MIXED in chosen or c.name in chosen]
    over = [c.name for c in picked if linter.longest(c, workload.turns) > room]
    text = (
        f"{', '.join(over)}: the longest prompts with their answers exceed the context of {room:,} tokens a sequence."
    )
    return [Tick("warn", text)] if over else []


def _memory(wish: Wish, settings: list[int]) -> list[Tick]:
    """What the highest setting would need of the host's memory; the simulated runtime has none that could run out."""
    if wish.runtime is None or wish.workload is None or wish.runtime.simulated or not settings or not wish.class_names:
        return []
    asked = Asked(
        classes=chosen(wish.workload, wish.class_names),
        turns=wish.workload.turns,
        in_flight=max(in_flight(wish.load, setting) for setting in settings),
        max_vram_share=wish.objective.max_vram_share if wish.objective is not None else GridLimits().max_vram_share,
        managed=wish.managed,
    )
    return [Tick(line.kind, line.text) for line in plan_lines(wish.runtime, asked)]


def _authorizer(team_id: int, person_id: int) -> Tick:
    others = Membership.objects.filter(team_id=team_id, role=Role.HOST_OWNER).exclude(user_id=person_id)
    if not others.exists():
        return Tick("bad", "Nobody but you is a host owner in this team. Another person must authorise the grid.")
    return Tick("info", "Starts after a host owner other than you has authorised it")
