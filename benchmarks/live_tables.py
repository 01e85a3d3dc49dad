"""What the live page shows, computed from rows: the stage table, live values with their limits, what happens next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from django.conf import settings
from django.utils.translation import gettext as _

from benchmarks.engine.plan import ClassLimits, GridLimits, Guard
from benchmarks.engine.summary_types import CellSummary
from benchmarks.gates import NOT_SAFE, worst_ratio
from benchmarks.grid_figures import settings_of
from benchmarks.models import Authorization, Cell, Dialect, Grid
from benchmarks.plans import mode_guard
from benchmarks.queries import FINISHED, in_flight_of, limits_of
from benchmarks.records import probes
from benchmarks.records.mode_words import stage_words
from benchmarks.records.modes import Mode
from benchmarks.stats.per_cent import per_cent

SILENT_AFTER = timedelta(seconds=15)
"""A worker beats every few seconds; a page says that it is silent long before its cell counts as interrupted."""


@dataclass(frozen=True, slots=True)
class StageCell:
    """One square of the stage table. `kind`: done, now, wait (also: held back by a gate) or bad; `ratio` its worst."""

    kind: str
    text: str
    note: str = ""
    share: float | None = None
    ratio: str = ""


@dataclass(frozen=True, slots=True)
class StageRow:
    """`objective` is the class's first limit, `others` the rest of them."""

    name: str
    objective: str
    others: str
    cells: tuple[StageCell, ...]


@dataclass(frozen=True, slots=True)
class LiveValue:
    """One live value with the limit it is held to; `value` None reads "not recorded", `idle` is as full as it shall be."""

    title: str
    value: float | None
    shown: str
    unit: str
    limit: float | None
    top: float | None
    note: str
    limit_note: str
    idle: bool = False


def stage_rows(grid: Grid, cells: Sequence[Cell]) -> list[StageRow]:
    """The grid itself filling up: a row a class, a column a setting; the worst of its repeats stands for a square."""
    limits = limits_of(grid)
    follows = next((c for c in cells if c.status in (Cell.Status.PLANNED, Cell.Status.QUEUED)), None)
    return [
        StageRow(
            name=name,
            objective=next(iter(_objectives(limits.classes.get(name))), ""),
            others=", ".join(_objectives(limits.classes.get(name))[1:]),
            cells=tuple(
                _stage_cell(grid, limits, follows, [c for c in cells if c.class_name == name and c.setting == setting])
                for setting in settings_of(grid, cells)
            ),
        )
        for name in grid.class_names
    ]


def stage_states(grid: Grid, cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """For each setting, in words: done, running, held, waiting, or gated behind a lower one."""
    found = [
        (stage_words(grid.mode, setting), _stage_state([c for c in cells if c.setting == setting]))
        for setting in settings_of(grid, cells)
    ]
    first = next((place for place, (_words, state) in enumerate(found) if state in ("running", "waiting")), len(found))
    if grid.status not in Grid.OPEN:
        return found
    return [
        (words, "gated" if state == "waiting" and place > first else state)
        for place, (words, state) in enumerate(found)
    ]


def is_silent(beat_at: datetime | None, now: datetime) -> bool:
    """Whether a running cell's worker has said nothing for longer than a page may take for granted."""
    return beat_at is not None and now - beat_at > SILENT_AFTER


def stale_after_s() -> float:
    """Seconds of silence after which a cell counts as interrupted."""
    return float(settings.STALE_AFTER_S)


def live_values(grid: Grid, cell: Cell) -> list[LiveValue]:
    """Eight values of the running cell, each with its limit. A behaviour probe is held to the host's limits alone."""
    limits, now = limits_of(grid), cell.progress
    guard = Guard(max_error_share=None) if cell.probe else mode_guard(grid.mode, confirms=grid.confirms_id is not None)
    goal = ClassLimits() if cell.probe else limits.classes.get(cell.class_name, _loosest(limits))
    sent, ok = _number(now.get("finished")), _number(now.get("ok"))
    failed = sent - ok if sent is not None and ok is not None else None
    share = failed / sent if sent and failed is not None else None
    read = readings_of(now)
    memory, vram = read.get("host_memory_total_bytes"), read.get("vram_total_bytes")
    most, waves = in_flight_of(cell), bool(cell.probe) or grid.mode not in (Mode.CLOSED, Mode.SEARCH)
    return [
        _so_far(_("End to end"), now, "e2e_s", goal.e2e_s),
        _so_far(_("Time to first token"), now, "ttft_s", goal.ttft_s)
        if bool(cell.probe) or is_streamed(grid)
        else _not_streamed(),
        LiveValue(
            _("In flight"), _number(now.get("in_flight")), _plain(now.get("in_flight")),
            _("at most %(n)s") % {"n": most} if waves else _("of %(n)s offered") % {"n": most},
            float(most) if waves else None, most * (1.2 if waves else 1.0), _queued(now), "", idle=not waves,
        ),
        LiveValue(
            _("Failed"), share, _plain(failed), _("of %(n)s") % {"n": _plain(sent)} if sent is not None else "",
            guard.max_error_share, (guard.max_error_share or 0.08) * 1.2, "",
            _("stop at %(share)s") % {"share": per_cent(guard.max_error_share)} if guard.max_error_share else "",
        ),
        _bytes(_("VRAM"), read.get("vram_used_bytes"), vram, limits.max_vram_share, _("no GPU reading")),
        _plain_limit(_("GPU temperature"), read.get("gpu_temperature_c"), "°C", limits.max_temperature_c),
        _plain_limit(_("GPU board power"), read.get("gpu_power_w"), "W", limits.max_power_w),
        _bytes(_("Host memory"), read.get("host_memory_used_bytes"), memory, guard.max_host_memory_share or 1.0, ""),
    ]  # fmt: skip


def cell_share(grid: Grid, cell: Cell) -> float | None:
    """How much of warm-up and window has passed, 0 to 1, as the engine last said; None before it said anything, and for a
    behaviour probe, which ends when it has seen enough."""
    elapsed_s = None if cell.probe else _number(cell.progress.get("elapsed_s"))
    return min(1.0, elapsed_s / (grid.window_s + grid.warmup_s)) if elapsed_s is not None else None


def is_streamed(grid: Grid) -> bool:
    """Whether answers come token by token, so that there is a first one: micro-batches and embeddings come whole."""
    return grid.mode != Mode.MICRO and grid.runtime.dialect != Dialect.OPENAI_EMBEDDINGS


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a grid: minutes by the pace so far or by the plan, when that would be over, and what ends it earlier.
    `minutes` is None where it cannot be said; `words` then says why."""

    minutes: int | None
    by_pace: int
    ends_at: datetime | None
    words: str


def what_is_left(grid: Grid, every: Sequence[Cell], leave: Authorization | None, now: datetime) -> Left | None:
    """None for a grid that is over."""
    if grid.status not in (Grid.Status.DRAFT, *Grid.OPEN):
        return None
    if grid.mode == Mode.SEARCH:
        return Left(None, 0, None, _("A search ends when it knows, so its end cannot be said."))
    pace, count = _pace_s(grid, [c for c in every if not c.probe])
    waiting = [c for c in every if c.status in (Cell.Status.PLANNED, Cell.Status.QUEUED)]
    running = next((c for c in every if c.status == Cell.Status.RUNNING), None)
    left_s = pace * sum(not c.probe for c in waiting) + probes.seconds(
        grid.probes, [c.probe for c in waiting if c.probe]
    )
    if running is not None and not running.probe:
        left_s += pace * (1 - (cell_share(grid, running) or 0.0))
    moving = grid.paused_at is None and grid.status == Grid.Status.RUNNING
    ends_at = now + timedelta(seconds=left_s) if moving else None
    late = ends_at is not None and leave is not None and ends_at > leave.valid_until
    words = _("The authorisation ends before that; the grid is then stopped.") if late else ""
    return Left(math.ceil(left_s / 60), count, ends_at, words)


def _pace_s(grid: Grid, cells: Sequence[Cell]) -> tuple[float, int]:
    """Seconds from the start of a cell to its end, with its cool-down, and from how many cells; the plan's before any."""
    took = [(c.finished_at - c.started_at).total_seconds() for c in cells if c.finished_at and c.started_at]
    return (median(took), len(took)) if took else (grid.cell_s, 0)


def _stage_cell(grid: Grid, limits: GridLimits, follows: Cell | None, repeats: Sequence[Cell]) -> StageCell:
    running = next((c for c in repeats if c.status == Cell.Status.RUNNING), None)
    if running is not None:
        share = cell_share(grid, running)
        return StageCell("now", per_cent(share) if share is not None else _("running"), share=share)
    if any(c.status in (Cell.Status.QUEUED, Cell.Status.PLANNED) for c in repeats):
        return StageCell("wait", _waits(grid, follows, repeats), repeats[0].reason)
    measured = [summary for c in repeats if (summary := c.read_summary)]
    if not measured:
        reason = next((c.reason for c in repeats if c.reason), "")
        kind = "wait" if reason.startswith(NOT_SAFE) else "bad"
        return StageCell(kind, _("Not run"), reason.removeprefix(NOT_SAFE))
    worst = max(measured, key=lambda s: worst_ratio(limits, s) or 0.0)
    ratio = worst_ratio(limits, worst)
    stopped = next((c.reason for c in repeats if c.status == Cell.Status.STOPPED), "")
    over = ratio is not None and ratio > 1
    kind = "bad" if stopped or over else "done"
    if stopped or ratio is None or math.isinf(ratio):
        return StageCell(kind, p95_words(worst), stopped or (_("over the objective") if ratio else ""))
    return StageCell(kind, p95_words(worst), ratio=f"{ratio:.2f}")


def _waits(grid: Grid, follows: Cell | None, repeats: Sequence[Cell]) -> str:
    if follows is None or grid.status == Grid.Status.DRAFT:
        return _("Waits")
    if any(c.pk == follows.pk for c in repeats):
        return _("Next")
    return _("Waits")


def p95_words(summary: CellSummary) -> str:
    times = [c.e2e_s.p95.value if c.e2e_s.p95.value is not None else c.e2e_s.p95.bound for c in summary.classes]
    known = [t for t in times if t is not None]
    if not known:
        return _("too few for p95")
    worst = max(known)
    return _("p95 among failures") if math.isinf(worst) else f"{worst:.2f} s"


def _stage_state(cells: Sequence[Cell]) -> str:
    if any(c.status == Cell.Status.RUNNING for c in cells):
        return "running"
    if cells and all(c.status in FINISHED for c in cells):
        return "held" if any(c.status != Cell.Status.MEASURED for c in cells) else "done"
    return "waiting"


def _objectives(limits: ClassLimits | None) -> list[str]:
    if limits is None:
        return []
    parts = [("", limits.e2e_s), ("TTFT\u00a0", limits.ttft_s), ("TPOT\u00a0", limits.tpot_s)]
    return [f"{name}{value:g}\u00a0s" for name, value in parts if value is not None]


def _loosest(limits: GridLimits) -> ClassLimits:
    """For the mix of classes: its p95 so far is shown against the loosest class, since long requests make the tail."""
    return max(limits.classes.values(), key=lambda c: c.e2e_s or 0.0, default=ClassLimits())


def readings_of(now: dict[str, object]) -> dict[str, float]:
    """The newest telemetry by its canonical name, as far as the engine said it."""
    found = now.get("readings")
    return {k: n for k, v in found.items() if (n := _number(v)) is not None} if isinstance(found, dict) else {}


def _so_far(title: str, now: dict[str, object], name: str, limit: float | None) -> LiveValue:
    """The p95 of the recent requests, or their median while that is all there is."""
    only_median = _number(now.get(f"p95_{name}")) is None and _number(now.get(f"p50_{name}")) is not None
    quantile = "p50" if only_median else "p95"
    number = _number(now.get(f"{quantile}_{name}"))
    title, note = f"{title}, {quantile}", _n(now.get("finished"))
    shown = f"{number:.2f}" if number is not None else _("not yet")
    top = limit * 1.2 if limit else None
    return LiveValue(
        title,
        number,
        shown,
        "s" if number is not None else "",
        limit,
        top,
        note,
        _("objective %(s)g s") % {"s": limit} if limit else _("no objective"),
    )


def _not_streamed() -> LiveValue:
    return LiveValue(
        _("Time to first token"), None, _("not streamed"), "", None, None, _("answers come whole, so there is no first token"), ""
    )  # fmt: skip


def _bytes(title: str, value: object, total: float | None, share: float, absent: str) -> LiveValue:
    number = _number(value)
    shown = f"{number / 2**30:.1f}" if number is not None else _("not recorded")
    limit = total * share if total else None
    note = _("of %(n).1f GiB") % {"n": total / 2**30} if total else absent
    words = _("limit %(n).1f GiB") % {"n": limit / 2**30} if limit else ""
    return LiveValue(title, number, shown, "GiB" if number is not None else "", limit, total, note, words)


def _plain_limit(title: str, value: object, unit: str, limit: float | None) -> LiveValue:
    number = _number(value)
    shown = f"{number:.0f}" if number is not None else _("not recorded")
    words = _("limit %(n)g %(unit)s") % {"n": limit, "unit": unit} if limit else _("no limit set")
    return LiveValue(
        title, number, shown, unit if number is not None else "", limit, limit * 1.1 if limit else None, "", words
    )


def _queued(now: dict[str, object]) -> str:
    waiting = _number(now.get("waiting"))
    return _("%(n)d waiting") % {"n": waiting} if waiting is not None else ""


def _n(value: object) -> str:
    number = _number(value)
    return f"n = {number:.0f}" if number is not None else ""


def _plain(value: object) -> str:
    number = _number(value)
    return f"{number:,.0f}" if number is not None else _("not yet")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
