"""What a grid would be, before anybody draws it: cells, time, and what stands in its way. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.drafts import MIXED
from benchmarks.facts import worker_state
from benchmarks.models import Membership, Role, Runtime, Workload
from benchmarks.records import lengths
from benchmarks.runtimes import terms
from capacity.models import Objective

BETWEEN_CELLS_S = 1.0
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


@dataclass(frozen=True, slots=True)
class Tick:
    """One line of *Before it starts*; `kind` is ok, warn, bad or info."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    """`cells` and `time_s` are None while the form does not say enough."""

    cells: int | None
    shape: str
    time_s: float | None
    highest: int | None
    ticks: tuple[Tick, ...]

    @property
    def minutes(self) -> float | None:
        return None if self.time_s is None else self.time_s / 60


def plan_of(wish: Wish, *, team_id: int, person_id: int) -> Plan:
    settings, classes = sorted(set(wish.settings)), list(wish.class_names)
    counts = (len(settings), len(classes), wish.repeats or 0)
    cells = counts[0] * counts[1] * counts[2] or None
    each_s = None if wish.window_s is None or wish.warmup_s is None else wish.window_s + wish.warmup_s + BETWEEN_CELLS_S
    return Plan(
        cells=cells,
        shape=f"{counts[0]} × {counts[1]} × {counts[2]}" if cells else "",
        time_s=cells * each_s if cells and each_s is not None else None,
        highest=settings[-1] if settings else None,
        ticks=tuple(_ticks(wish, settings, team_id=team_id, person_id=person_id)),
    )


def _ticks(wish: Wish, settings: list[int], *, team_id: int, person_id: int) -> list[Tick]:
    found: list[Tick] = []
    if wish.runtime is not None:
        found += [_worker(wish.runtime), *_queue(wish.runtime, settings), *_read(wish.runtime)]
    if wish.workload is not None:
        found += _lengths(wish.workload)
    if wish.workload is not None and wish.objective is not None:
        found.append(_covered(wish.workload, wish.objective, wish.class_names))
    if wish.runtime is not None and wish.workload is not None:
        found += _context(wish.runtime, wish.workload, wish.class_names)
    if wish.repeats is not None and wish.repeats < STATEMENT_REPEATS:
        found.append(
            Tick("warn", f"Repeats: {wish.repeats}. A statement wants {STATEMENT_REPEATS}, to see runs that differ.")
        )
    if not wish.conditions:
        found.append(
            Tick("warn", "No conditions yet. Without them no statement can be signed; they can be added on the grid.")
        )
    found.append(_authorizer(team_id, person_id))
    return found


def _worker(runtime: Runtime) -> Tick:
    state, slug = worker_state(runtime.hardware), runtime.hardware.slug
    if state.kind == "ok":
        return Tick("ok", f"Worker on {slug} is running")
    how = f"start it on the host with {state.command}"
    return Tick("warn", f"No worker on {slug} now: the grid will wait. To run it, {how}.")


def _queue(runtime: Runtime, settings: list[int]) -> list[Tick]:
    found = []
    most = runtime.max_active_sequences
    above = [str(s) for s in settings if most is not None and s > most]
    if above:
        found.append(
            Tick(
                "warn",
                f"At {' and '.join(above)} offered, requests above {most} active sequences wait in the runtime's queue.",
            )
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
    warned = lengths.warnings_about(classes)
    if warned:
        return [Tick("warn", text) for text in warned]
    return [Tick("ok", f"{len(classes)} length classes, none identical")]


def _classes(workload: Workload) -> list[lengths.ClassLengths]:
    return [
        lengths.ClassLengths(c.name, c.weight, lengths.read(c.prompt_tokens), lengths.read(c.output_tokens))
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


def _context(runtime: Runtime, workload: Workload, chosen: Sequence[str]) -> list[Tick]:
    room = runtime.context_per_sequence_tokens
    if room is None:
        return []
    picked = [c for c in _classes(workload) if MIXED in chosen or c.name in chosen]
    longest = {
        c.name: lengths.quantile(c.prompt_tokens, 0.99) + lengths.quantile(c.output_tokens, 0.99) for c in picked
    }
    over = [name for name, tokens in longest.items() if tokens > room]
    text = (
        f"{', '.join(over)}: the longest prompts with their answers exceed the context of {room:,} tokens a sequence."
    )
    return [Tick("warn", text)] if over else []


def _authorizer(team_id: int, person_id: int) -> Tick:
    others = Membership.objects.filter(team_id=team_id, role=Role.HOST_OWNER).exclude(user_id=person_id)
    if not others.exists():
        return Tick("bad", "Nobody but you is a host owner in this team. Another person must authorise the grid.")
    return Tick("info", "Starts after a host owner other than you has authorised it")
