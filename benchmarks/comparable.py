"""Whether the next cell of a grid would be measured under conditions like those of its first: else it is not measured.

A power supply that runs on battery is waited for. Any other difference stops the grid with its fields named; a host owner
who then authorises the grid again has accepted it, and every attempt from there on says how it differs from the first.
"""

from __future__ import annotations

import os

import msgspec
from django.db.models import F, QuerySet

from benchmarks import host_file, probe, surroundings
from benchmarks.claims import Claim
from benchmarks.conditions import alike, snapshot
from benchmarks.conditions.alike import Facts, Value
from benchmarks.models import Attempt, Cell, Grid, Runtime
from benchmarks.queries import live_authorization
from benchmarks.runtimes import look

NOT_ALIKE = "Not comparable with the first cell: "
_ELSEWHERE = frozenset({"host"})
"""The name of a host changes with its container, and says nothing of its parts."""
_RUNTIME = ("detected_kind", "version", "max_active_sequences", "context_per_sequence_tokens", "kv_capacity_tokens")


def wait_reason(grid: Grid) -> str:
    """Why the next cell of a grid should wait, in words; empty when it need not. Begun on mains, it goes on on mains."""
    if grid.started_at is None:
        return ""
    now = surroundings.power()
    if not now.on_battery:
        return ""
    on_mains = Attempt.objects.filter(cell__grid=grid, conditions__before__on_battery=False).exists()
    return f"Waits for the power to come back: {snapshot.words(now)} now." if on_mains else ""


def before(claim: Claim, cell: Cell) -> tuple[dict[str, object], str]:
    """What surrounds this attempt, kept with it, and why it may not run in words; empty when it may."""
    found = surroundings.read()
    now = Facts(
        power_source=found.power_source, room_c=found.room_c, host=alike.flat(probe.host_facts(), without=_ELSEWHERE),
        runtime=_runtime_facts(cell.grid.runtime, managed=cell.grid.managed),
    )  # fmt: skip
    kept: dict[str, object] = {"before": msgspec.to_builtins(found), "facts": msgspec.to_builtins(now)}
    reference, first = references(cell.grid)
    if first is not None:
        kept |= _told(first, now)
    differs = alike.differences(reference, now) if reference is not None else ()
    surroundings.keep(claim, kept)
    return kept, f"{NOT_ALIKE}{'; '.join(differs)[:150]}. {_REMEDY}" if differs else ""


_REMEDY = "Put it back and resume, have a host owner authorise the grid again, or draw a new one."


def references(grid: Grid) -> tuple[Facts | None, Facts | None]:
    """(what the next cell must be like, what surrounded the first cell of all); None where nothing was measured yet."""
    measured = Attempt.objects.filter(
        cell__grid=grid, cell__evidence__attempt=F("number"), conditions__has_key="facts"
    ).order_by("started_at", "pk")
    return _first(_since_accepted(grid, measured)), _first(measured)


def _since_accepted(grid: Grid, measured: QuerySet[Attempt]) -> QuerySet[Attempt]:
    """Those after the newest stop of this kind that a host owner has answered by authorising the grid again."""
    leave = live_authorization(grid)
    stopped = Attempt.objects.filter(cell__grid=grid, reason__startswith=NOT_ALIKE)
    accepted = stopped.filter(ended_at__lt=leave.authorized_at).order_by("-ended_at").first() if leave else None
    return measured.filter(started_at__gt=accepted.ended_at) if accepted else measured


def _first(found: QuerySet[Attempt]) -> Facts | None:
    attempt = found.first()
    return msgspec.convert(attempt.conditions["facts"], Facts) if attempt else None


def _told(first: Facts, now: Facts) -> dict[str, object]:
    """How this attempt differs from the first, for whoever reads its result."""
    found = {"differs": alike.differences(first, now), "not_compared": alike.not_compared(first, now)}
    return {name: list(words) for name, words in found.items() if words}


def _runtime_facts(runtime: Runtime, *, managed: bool) -> dict[str, Value]:
    """What the endpoint says of itself. One that is silent is left to the engine, and one that is started later to that."""
    if managed:
        return {}
    key = os.environ.get(host_file.key_variable(runtime.api_key_name), "") if runtime.api_key_name else ""
    found = look.look_at(runtime.endpoint, runtime.kind, api_key=key)
    if not found.reachable:
        return {}
    told: dict[str, Value] = {name: getattr(found, name) for name in _RUNTIME}
    served = runtime.model_name in found.models if found.models else None
    return {name: value for name, value in told.items() if value is not None} | {"serves the model": served}
