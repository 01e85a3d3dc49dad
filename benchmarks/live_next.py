"""What happens next to a grid, in words: which cell is taken, what its gate asks, and whether it would pass as it stands."""

from __future__ import annotations

from collections.abc import Sequence

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


def what_next(grid: Grid, cells: Sequence[Cell]) -> str:
    """What will happen next and why, in words; empty when the grid has ended."""
    if grid.status == Grid.Status.DRAFT:
        return _("A host owner who did not draw this grid looks at it and authorises it. Until then nothing is sent.")
    if grid.stop_requested:
        return _("The worker is stopping this grid: %(reason)s") % {"reason": grid.stop_reason}
    if grid.paused_at and grid.status in Grid.OPEN:
        return _next_while_paused(cells)
    return _next_cell(grid, cells)


def _next_while_paused(cells: Sequence[Cell]) -> str:
    if any(c.status == Cell.Status.RUNNING for c in cells):
        return _("The running cell ends and is kept; then the grid waits until somebody goes on.")
    return _("Nothing is sent until somebody goes on. When the authorisation ends first, the grid is stopped.")


def _next_cell(grid: Grid, cells: Sequence[Cell]) -> str:
    waiting = [c for c in cells if c.status == Cell.Status.QUEUED]
    running = next((c for c in cells if c.status == Cell.Status.RUNNING), None)
    if not waiting:
        search = running is not None and grid.mode == Mode.SEARCH
        return _("After this measurement the search decides which setting it tries next.") if search else ""
    following = waiting[0]
    if following.probe and (running is None or not following.reason):
        name = PROBES[following.probe].name
        return following.reason or _("Next: the behaviour probe %(name)s.") % {"name": name.lower()}
    if running is None:
        return following.reason or _("A worker of this host will take the next cell: %(at)s, %(name)s.") % {
            "at": following.stage, "name": following.class_name,
        }  # fmt: skip
    higher = next((c for c in waiting if not c.probe and c.setting > running.setting), None)
    next_stage = higher if following.setting == running.setting else following
    now = _gate_now(grid, [c for c in cells if c.setting == running.setting], running, next_stage)
    if following.setting == running.setting:
        said = _("%(name)s requests, %(at)s.") % {"at": following.stage, "name": following.class_name.capitalize()}
        return (
            " ".join(filter(None, [said, now, _gate_words(grid, higher)]))
            if higher and grid.mode != Mode.SEARCH
            else said
        )
    return f"{now} {_gate_words(grid, following)}".strip()


def _gate_now(grid: Grid, stage: Sequence[Cell], running: Cell, higher: Cell | None) -> str:
    """Whether the next stage might start as it stands, from what is known of the running one; empty before anything is."""
    limits, read = limits_of(grid), readings_of(running.progress)
    ratios = [r for c in stage if (s := c.read_summary) and (r := worst_ratio(limits, s)) is not None]
    used, size, heat = (read.get(n) for n in ("vram_used_bytes", "vram_total_bytes", "gpu_temperature_c"))
    share = used / size if used and size else None
    most = mode_guard(grid.mode, confirms=grid.confirms_id is not None).max_p95_over_objective
    asked = [
        (max(ratios, default=None), most, _("p95 at %(value).2f of its objective"), 1),
        (share, limits.max_vram_share, _("VRAM at %(value).0f\u00a0%%"), 100),
        (heat, limits.max_temperature_c, _("GPU at %(value).0f\u00a0°C"), 1),
    ]
    known = [
        (value, limit, words % {"value": value * scale}) for value, limit, words, scale in asked if value is not None
    ]
    if not known or higher is None:
        return ""
    holds = all(limit is None or value <= limit for value, limit, _said in known)
    words = (
        _("As it stands %(at)s would start: %(known)s.")
        if holds
        else _("As it stands %(at)s would be held back: %(known)s.")
    )
    return words % {"at": higher.stage, "known": ", ".join(said for *_rest, said in known)}


def _gate_words(grid: Grid, following: Cell) -> str:
    """What has to hold before the stage of this cell starts, and what is foreseen of its memory already."""
    limits = limits_of(grid)
    guard = mode_guard(grid.mode, confirms=grid.confirms_id is not None)
    slow = (
        _("p95 of every class is at most %(times)g times its objective, ") % {"times": guard.max_p95_over_objective}
        if guard.max_p95_over_objective
        else ""
    )
    words = _(
        "The stage of %(at)s starts only if failures stay at or under %(errors)s, %(slow)sVRAM stays under %(vram)s and the "
        "GPU under %(temp)s °C; else it is held back, and what is measured stays."
    ) % {
        "at": following.stage, "errors": per_cent(guard.max_error_share or 0), "slow": slow,
        "vram": per_cent(limits.max_vram_share), "temp": f"{limits.max_temperature_c:g}",
    }  # fmt: skip
    foreseen = "" if grid.simulated else refusal(following)
    held = _("%(at)s will be held back: %(why)s") % {"at": following.stage, "why": foreseen}
    return f"{held} {words}" if foreseen else words
