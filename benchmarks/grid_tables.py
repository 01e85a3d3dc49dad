"""What the grid pages show, computed from rows: the list's lines, the stage table, live values with their limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
from django.db.models import Prefetch, QuerySet
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from benchmarks.engine.plan import ClassLimits, GridLimits, Guard
from benchmarks.engine.summary_types import CellSummary
from benchmarks.gates import NOT_SAFE, worst_ratio
from benchmarks.models import Cell, Conditions, Grid
from benchmarks.plans import mode_guard
from benchmarks.queries import FINISHED, grids_of, in_flight_of, limits_of
from benchmarks.records.mode_words import stage_words
from benchmarks.records.modes import Mode
from benchmarks.records.probes import WORDS as PROBES
from benchmarks.templatetags.headroom import level

EXPORT_COLUMNS = (
    "grid", "name", "host", "runtime", "model", "workload", "status", "simulated", "mode", "settings", "classes", "repeats",
    "cells_measured", "cells_total", "worst_p95_over_objective", "vram_peak_bytes", "host_memory_peak_bytes", "room",
    "ambient_c", "power_source", "drawn_by", "drawn_at", "finished_at", "stop_reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GridLine:
    """One grid in the list. `levels` go class by class, settings ascending; None means not recorded."""

    grid: Grid
    levels: tuple[str, ...]
    columns: int
    label: str
    measured: int
    total: int
    worst_ratio: float | None
    vram_peak_bytes: float | None
    host_memory_peak_bytes: float | None
    conditions: Conditions | None

    def export(self) -> dict[str, object]:
        """The line under the stable names of EXPORT_COLUMNS; times are ISO 8601 with offset."""
        grid, room = self.grid, self.conditions
        values = (
            grid.pk, grid.name, grid.hardware.slug, f"{grid.runtime.slug} {grid.runtime.version}", grid.runtime.model_name,
            f"{grid.workload.slug} {grid.workload.version}", grid.status, grid.simulated,
            grid.mode, " ".join(map(str, grid.setting_values)), " ".join(grid.class_names), grid.repeats,
            self.measured, self.total, _finite(self.worst_ratio),
            self.vram_peak_bytes, self.host_memory_peak_bytes, room.room if room else None,
            room.ambient_c if room else None, room.power_source if room else None, grid.drawn_by.get_username(),
            grid.drawn_at.isoformat(), grid.finished_at.isoformat() if grid.finished_at else None, grid.stop_reason,
        )  # fmt: skip
        return dict(zip(EXPORT_COLUMNS, values, strict=True))


@dataclass(frozen=True, slots=True)
class StageCell:
    """One square of the stage table. `kind`: done, now, wait (also: held back by a gate) or bad."""

    kind: str
    text: str
    note: str = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class StageRow:
    name: str
    objective: str
    cells: tuple[StageCell, ...]


@dataclass(frozen=True, slots=True)
class LiveValue:
    """One live value with the limit it is held to; `value` None reads "not recorded"."""

    title: str
    value: float | None
    shown: str
    unit: str
    limit: float | None
    top: float | None
    note: str
    limit_note: str


def lines_of(team_id: int, chosen: dict[str, str]) -> QuerySet[Grid]:
    """Grids of a team that the chosen filters let through, with all that a line needs, newest first."""
    rows = grids_of(team_id).order_by("-pk")
    if text := chosen.get("q"):
        rows = rows.filter(name__icontains=text)
    if host := chosen.get("host"):
        rows = rows.filter(hardware__slug=host)
    if status := chosen.get("status"):
        rows = rows.filter(status=status)
    if mode := chosen.get("mode"):
        rows = rows.filter(mode=mode)
    if power := chosen.get("power"):
        rows = rows.filter(conditions__phase=Conditions.Phase.BEFORE, conditions__power_source=power)
    wanted = ("grid_id", "position", "setting", "class_name", "repeat", "status", "summary")
    cells = Prefetch("cells", queryset=Cell.objects.filter(probe="").only(*wanted).order_by("position"))
    return rows.prefetch_related(cells, "conditions")


def line(grid: Grid) -> GridLine:
    """One line; needs the prefetches of `lines_of`."""
    cells = list(grid.cells.all())
    limits = limits_of(grid)
    summaries = {cell.pk: summary for cell in cells if (summary := summary_of(cell))}
    ratios = {pk: worst_ratio(limits, summary) for pk, summary in summaries.items()}
    measured = sum(cell.status == Cell.Status.MEASURED for cell in cells)
    return GridLine(
        grid=grid,
        levels=tuple(_levels(grid, cells, ratios)),
        columns=len(settings_of(grid, cells)),
        label=_("%(measured)s of %(total)s cells measured, settings %(settings)s by %(classes)s") % {
            "measured": measured, "total": len(cells), "settings": ", ".join(map(str, settings_of(grid, cells))),
            "classes": ", ".join(grid.class_names),
        },
        measured=measured,
        total=len(cells),
        worst_ratio=max((r for r in ratios.values() if r is not None), default=None),
        vram_peak_bytes=_peak(summaries.values(), "vram_used_bytes"),
        host_memory_peak_bytes=_peak(summaries.values(), "host_memory_used_bytes"),
        conditions=next((c for c in grid.conditions.all() if c.phase == Conditions.Phase.BEFORE), None),
    )  # fmt: skip


def stage_rows(grid: Grid, cells: Sequence[Cell]) -> list[StageRow]:
    """The grid itself filling up: a row a class, a column a setting; the worst of its repeats stands for a square."""
    limits = limits_of(grid)
    return [
        StageRow(
            name=name,
            objective=_objective_words(limits.classes.get(name)),
            cells=tuple(
                _stage_cell(grid, limits, [c for c in cells if c.class_name == name and c.setting == setting])
                for setting in settings_of(grid, cells)
            ),
        )
        for name in grid.class_names
    ]


def stage_states(grid: Grid, cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """For each setting, in words: done, running, held or waiting."""
    return [
        (stage_words(grid.mode, setting), _stage_state([c for c in cells if c.setting == setting]))
        for setting in settings_of(grid, cells)
    ]


def settings_of(grid: Grid, cells: Sequence[Cell]) -> list[int]:
    """The settings of the grid, ascending; of a search those that it came to."""
    return sorted({c.setting for c in cells}) if grid.mode == Mode.SEARCH else list(grid.setting_values)


def what_next(grid: Grid, cells: Sequence[Cell]) -> str:
    """What will happen next and why, in words; empty when the grid has ended."""
    limits = limits_of(grid)
    if grid.stop_requested:
        return _("The worker is stopping this grid: %(reason)s") % {"reason": grid.stop_reason}
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
    if following.setting == running.setting:
        return _("Next: %(name)s requests, %(at)s.") % {"at": following.stage, "name": following.class_name}
    guard = mode_guard(grid.mode, confirms=grid.confirms_id is not None)
    slow = (
        _("p95 of every class is at most %(times)g times its objective, ") % {"times": guard.max_p95_over_objective}
        if guard.max_p95_over_objective
        else ""
    )
    return _(
        "The stage of %(at)s starts only if failures stay at or under %(errors)s, %(slow)sVRAM stays under %(vram)s and the "
        "GPU under %(temp)s C."
    ) % {
        "at": following.stage, "errors": f"{guard.max_error_share or 0:.0%}", "slow": slow,
        "vram": f"{limits.max_vram_share:.0%}", "temp": f"{limits.max_temperature_c:g}",
    }  # fmt: skip


def live_values(grid: Grid, cell: Cell) -> list[LiveValue]:
    """Eight values of the running cell, each with its limit. A behaviour probe is held to the host's limits alone."""
    limits, now = limits_of(grid), cell.progress
    guard = Guard(max_error_share=None) if cell.probe else mode_guard(grid.mode, confirms=grid.confirms_id is not None)
    goal = ClassLimits() if cell.probe else limits.classes.get(cell.class_name, _loosest(limits))
    sent, ok = _number(now.get("finished")), _number(now.get("ok"))
    failed = sent - ok if sent is not None and ok is not None else None
    share = failed / sent if sent and failed is not None else None
    read = _readings(now)
    memory, vram = read.get("host_memory_total_bytes"), read.get("vram_total_bytes")
    most, waves = in_flight_of(cell), bool(cell.probe) or grid.mode not in (Mode.CLOSED, Mode.SEARCH)
    return [
        _so_far(_("End to end"), now, "e2e_s", goal.e2e_s),
        _so_far(_("Time to first token"), now, "ttft_s", goal.ttft_s),
        LiveValue(
            _("In flight"), _number(now.get("in_flight")), _plain(now.get("in_flight")), "", float(most), most * 1.2,
            _queued(now), _("at most %(n)s") % {"n": most} if waves else _("offered %(n)s") % {"n": most},
        ),
        LiveValue(
            _("Failed"), share, _plain(failed), _("of %(n)s") % {"n": _plain(sent)} if sent is not None else "",
            guard.max_error_share, 0.1, "",
            _("stop at %(share)s") % {"share": f"{guard.max_error_share:.0%}"} if guard.max_error_share else "",
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


def updated_at(cell: Cell | None) -> datetime | None:
    """When the worker last said something about a running cell."""
    said = cell.progress.get("at") if cell else None
    return parse_datetime(said) if isinstance(said, str) else None


def summary_of(cell: Cell) -> CellSummary | None:
    return msgspec.convert(cell.summary, CellSummary, strict=False) if cell.summary else None


def _levels(grid: Grid, cells: Sequence[Cell], ratios: dict[int, float | None]) -> Iterable[str]:
    for name in grid.class_names:
        for setting in settings_of(grid, cells):
            here = [c for c in cells if c.class_name == name and c.setting == setting]
            known = [r for c in here if (r := ratios.get(c.pk)) is not None]
            if any(c.status == Cell.Status.RUNNING for c in here):
                yield "now"
            elif known:
                # An infinite p95 falls among failed requests: the far end of the scale, not "no result".
                yield "q6" if math.isinf(max(known)) else level(max(known))
            else:
                yield "qn"


def _stage_cell(grid: Grid, limits: GridLimits, repeats: Sequence[Cell]) -> StageCell:
    running = next((c for c in repeats if c.status == Cell.Status.RUNNING), None)
    if running is not None:
        share = cell_share(grid, running)
        return StageCell("now", f"{share:.0%}" if share is not None else _("running"), share=share)
    if any(c.status in (Cell.Status.QUEUED, Cell.Status.PLANNED) for c in repeats):
        return StageCell("wait", _("Waits"), repeats[0].reason)
    measured = [summary for c in repeats if (summary := summary_of(c))]
    if not measured:
        reason = next((c.reason for c in repeats if c.reason), "")
        kind = "wait" if reason.startswith(NOT_SAFE) else "bad"
        return StageCell(kind, _("Not run"), reason.removeprefix(NOT_SAFE))
    worst = max(measured, key=lambda s: worst_ratio(limits, s) or 0.0)
    ratio = worst_ratio(limits, worst)
    stopped = next((c.reason for c in repeats if c.status == Cell.Status.STOPPED), "")
    return StageCell("bad" if stopped else "done", _p95_words(worst), stopped or _ratio_words(ratio))


def _p95_words(summary: CellSummary) -> str:
    times = [c.e2e_s.p95.value if c.e2e_s.p95.value is not None else c.e2e_s.p95.bound for c in summary.classes]
    known = [t for t in times if t is not None]
    if not known:
        return _("too few for p95")
    worst = max(known)
    return _("p95 among failures") if math.isinf(worst) else f"{worst:.2f} s"


def _ratio_words(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return _("over the objective") if math.isinf(ratio) else f"{ratio:.2f}"


def _stage_state(cells: Sequence[Cell]) -> str:
    if any(c.status == Cell.Status.RUNNING for c in cells):
        return "running"
    if cells and all(c.status in FINISHED for c in cells):
        return "held" if any(c.status != Cell.Status.MEASURED for c in cells) else "done"
    return "waiting"


def _objective_words(limits: ClassLimits | None) -> str:
    if limits is None:
        return ""
    parts = [("", limits.e2e_s), ("TTFT ", limits.ttft_s), ("TPOT ", limits.tpot_s)]
    return ", ".join(f"{name}{value:g} s" for name, value in parts if value is not None)


def _loosest(limits: GridLimits) -> ClassLimits:
    """For the mix of classes: its p95 so far is shown against the loosest class, since long requests make the tail."""
    return max(limits.classes.values(), key=lambda c: c.e2e_s or 0.0, default=ClassLimits())


def _readings(now: dict[str, object]) -> dict[str, float]:
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
    top = limit * 1.2 if limit else number
    return LiveValue(
        title,
        number,
        shown,
        "s" if number is not None else "",
        limit,
        top,
        note,
        _("objective %(s)g s") % {"s": limit} if limit else "",
    )


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
    return _("%(n)d waiting in the runtime") % {"n": waiting} if waiting is not None else ""


def _n(value: object) -> str:
    number = _number(value)
    return f"n = {number:.0f}" if number is not None else ""


def _plain(value: object) -> str:
    number = _number(value)
    return f"{number:,.0f}" if number is not None else _("not yet")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _finite(value: float | None) -> float | str | None:
    return "inf" if value is not None and math.isinf(value) else value


def _peak(summaries: Iterable[CellSummary], name: str) -> float | None:
    return max((gauge.peak for s in summaries if (gauge := s.gauge(name))), default=None)
