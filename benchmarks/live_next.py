"""What happens next to a grid, in words: which cell is taken, what its gate asks, and whether it would pass as it stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from benchmarks.foreseen import refusal
from benchmarks.gates import worst_ratio
from benchmarks.live_tables import readings_of
from benchmarks.models import Cell, Grid
from benchmarks.plans import mode_guard
from benchmarks.queries import limits_of
from benchmarks.records.modes import Mode
from benchmarks.records.probes import WORDS as PROBES
from benchmarks.stats.per_cent import per_cent


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that the gate of the next stage asks: how it stands, the most it may be, and whether that holds, if known."""

    name: str
    now: str
    most: str
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Gate:
    """What has to hold before the next stage starts, and what is foreseen of its memory already."""

    at: str
    foreseen: str
    asked: tuple[Asked, ...]

    @property
    def words(self) -> str:
        """Whether that stage would start as it stands."""
        if self.foreseen:
            return _("%(at)s will be held back: %(why)s") % {"at": self.at, "why": self.foreseen}
        known = [one.holds for one in self.asked if one.holds is not None]
        if not known:
            return ""
        would = _("As it stands %(at)s would start.") if all(known) else _("As it stands %(at)s would be held back.")
        return would % {"at": self.at}


@dataclass(frozen=True, slots=True)
class Next:
    """What will happen next, in words, and the gate before the next stage where one is near; both empty after the end."""

    said: str = ""
    gate: Gate | None = None


def what_next(grid: Grid, cells: Sequence[Cell]) -> Next:
    if grid.status == Grid.Status.DRAFT:
        return Next(
            _("A host owner who did not draw this grid looks at it and authorises it. Until then nothing is sent.")
        )
    if grid.stop_requested:
        return Next(_("The worker is stopping this grid: %(reason)s") % {"reason": grid.stop_reason})
    if grid.paused_at and grid.status in Grid.OPEN:
        return Next(_next_while_paused(cells))
    return _next_cell(grid, cells)


def _next_while_paused(cells: Sequence[Cell]) -> str:
    if any(c.status == Cell.Status.RUNNING for c in cells):
        return _("The running cell ends and is kept; then the grid waits until somebody goes on.")
    return _("Nothing is sent until somebody goes on. When the authorisation ends first, the grid is stopped.")


def _next_cell(grid: Grid, cells: Sequence[Cell]) -> Next:
    waiting = [c for c in cells if c.status == Cell.Status.QUEUED]
    running = next((c for c in cells if c.status == Cell.Status.RUNNING), None)
    if not waiting:
        search = running is not None and grid.mode == Mode.SEARCH
        return Next(_("After this measurement the search decides which setting it tries next.") if search else "")
    following = waiting[0]
    if following.probe and (running is None or not following.reason):
        name = PROBES[following.probe].name
        return Next(following.reason or _("Next: the behaviour probe %(name)s.") % {"name": name.lower()})
    if running is None:
        return Next(following.reason or _("A worker of this host will take the next cell: %(at)s, %(name)s.") % {
            "at": following.stage, "name": following.class_name,
        })  # fmt: skip
    stage = [c for c in cells if c.setting == running.setting]
    if following.setting != running.setting:
        return Next(gate=_gate(grid, stage, running, following))
    said = _("%(name)s requests, %(at)s.") % {"at": following.stage, "name": following.class_name.capitalize()}
    higher = next((c for c in waiting if not c.probe and c.setting > running.setting), None)
    return Next(said, _gate(grid, stage, running, higher) if higher and grid.mode != Mode.SEARCH else None)


def _gate(grid: Grid, stage: Sequence[Cell], running: Cell, following: Cell) -> Gate:
    """Asked of the worst of the stage's finished cells, and of the host as it was last read."""
    limits, read = limits_of(grid), readings_of(running.progress)
    guard = mode_guard(grid.mode, confirms=grid.confirms_id is not None)
    finished = [summary for c in stage if (summary := c.read_summary) is not None]
    failed = [1 - s.outcomes.get("ok", 0) / s.scheduled for s in finished if s.scheduled]
    ratios = [ratio for s in finished if (ratio := worst_ratio(limits, s)) is not None]
    used, size = (read.get(name) for name in ("vram_used_bytes", "vram_total_bytes"))
    asked = [
        _asked(_("Failures"), max(failed, default=None), guard.max_error_share, per_cent),
        _asked(_("Worst p95 ÷ objective"), max(ratios, default=None), guard.max_p95_over_objective, _two),
        _asked(_("VRAM"), used / size if used and size else None, limits.max_vram_share, per_cent),
        _asked(_("GPU temperature"), read.get("gpu_temperature_c"), limits.max_temperature_c, _degrees),
    ]
    foreseen = "" if grid.simulated else refusal(following) or ""
    return Gate(at=following.stage, foreseen=foreseen, asked=tuple(one for one in asked if one is not None))


def _asked(name: str, now: float | None, most: float | None, words: Callable[[float], str]) -> Asked | None:
    """None where the gate sets no limit."""
    if most is None:
        return None
    if now is None:
        return Asked(name, _("not known yet"), words(most), None)
    return Asked(name, words(now) if math.isfinite(now) else _("among failures"), words(most), now <= most)


def _two(ratio: float) -> str:
    return f"{ratio:.2f}"


def _degrees(celsius: float) -> str:
    return f"{celsius:.0f}\u00a0°C"
