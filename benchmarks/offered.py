"""What a host's own file offers, as its worker last told: which runtimes it may start itself, and whether a grid fits that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from benchmarks.models import Grid, Hardware, Runtime, RuntimeKind
from benchmarks.records.modes import Mode, Terms, mode_of
from benchmarks.runtimes import launch, terms


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """One launch profile as it may be told to the web. `settings` are the least and the most active sequences."""

    kind: str
    endpoint: str
    settings: tuple[int, int]
    context_per_sequence: int | None = None
    ready_within_s: float = 0.0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartedCell:
    """A cell with what its worker kept of the runtime: asked, effective, ready_after_s, ended, log_tail where it failed.
    `words` say what its setting means."""

    name: str
    setting: int
    runtime: dict[str, Any]
    words: str


class _Offers(msgspec.Struct, frozen=True):
    profiles: dict[str, Offered] = {}


def profiles_of(hardware: Hardware) -> dict[str, Offered]:
    """By name; none where no worker of this host has told of its file."""
    try:
        return msgspec.convert(hardware.offers, _Offers).profiles
    except msgspec.ValidationError:
        return {}


def managed_fault(load: Terms, runtime: Runtime, settings: Sequence[int]) -> str | None:
    """Why the worker cannot start this runtime with each of these settings; None when it can."""
    name, host = runtime.launch_profile, runtime.hardware.slug
    if not name:
        return f"{runtime.name} names no launch profile. Enter one in its registration, or load it as it runs."
    if mode_of(load) != Mode.CLOSED:
        return (
            "A runtime that the worker starts with each setting is loaded in a closed loop. Choose that way of loading."
        )
    profile = profiles_of(runtime.hardware).get(name)
    if profile is None:
        return (
            f"{host} offers no launch profile called {name}. Its operator writes it into the host's file; the worker there "
            "tells of it within a minute."
        )
    if (profile.kind, profile.endpoint.rstrip("/")) != (runtime.kind, runtime.endpoint.rstrip("/")):
        kind = dict(RuntimeKind.choices).get(profile.kind, profile.kind)
        return (
            f"Profile {name} of {host} starts {kind} at {profile.endpoint}; {runtime.name} is registered as "
            f"{runtime.get_kind_display()} at {runtime.endpoint}."
        )
    least, most = profile.settings
    outside = [setting for setting in settings if not least <= setting <= most]
    if outside:
        return f"Profile {name} of {host} allows {least} to {most} active sequences, not {outside[0]}."
    return None


def launch_warnings(runtime: Runtime, *, managed: bool) -> tuple[str, ...]:
    """What makes measurements of this runtime doubtful: of its profile where the worker starts it, else of its flags."""
    if not managed:
        return launch.warnings_of_flags(runtime.kind, runtime.flags)
    profile = profiles_of(runtime.hardware).get(runtime.launch_profile)
    return profile.warnings if profile else ()


def starts_within_s(grid: Grid) -> float:
    """How long each cell may wait for its runtime to be ready; 0 for a runtime that runs already."""
    profile = profiles_of(grid.hardware).get(grid.runtime.launch_profile) if grid.managed else None
    return profile.ready_within_s if profile else 0.0


def read_backs(grid: Grid, cell_id: int | None = None) -> list[StartedCell]:
    """Every cell, or this one, whose runtime the worker started, in running order: what was asked for and what it had."""
    if not grid.managed:
        return []
    rows = grid.cells.filter(progress__has_key="runtime").order_by("position")
    rows = rows if cell_id is None else rows.filter(pk=cell_id)
    words = managed_words(grid.runtime)
    return [
        StartedCell(str(cell).partition(" of grid")[0], cell.setting, cell.progress["runtime"], words) for cell in rows
    ]


def managed_words(runtime: Runtime) -> str:
    """What a setting of a managed grid means, in our words beside the tool's own."""
    term = next((t for t in terms.terms_of(runtime.kind) if t.setting == "active_sequences"), None)
    word = f", which it calls {term.tools_word}" if term and term.tools_word else ""
    return (
        f"Active sequences of {runtime.get_kind_display()}{word}: the worker starts it with each setting, reads back what it "
        "has, and offers as many requests."
    )
