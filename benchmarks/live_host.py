"""The host over a grid so far: a few aligned rows of what was read in each cell, each with its limit. Computed from rows.

Of a finished cell the few points that are kept beside its evidence are drawn, and where there are none the lowest, the mean and
the highest reading of its window; of the running one what its worker said last. Raw samples are never read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from benchmarks import readings
from benchmarks.engine.summary_types import CellSummary
from benchmarks.models import Cell, Grid
from benchmarks.plans import mode_guard
from benchmarks.queries import limits_of
from benchmarks.records.kept_readings import CellReadings

GIB = 2**30
WIDTH, HEIGHT = 560.0, 64.0
"""Of a row's drawing, in its own units; the page scales it."""


@dataclass(frozen=True, slots=True)
class Box:
    """One cell in a row: from its lowest to its highest reading, with a line at the mean."""

    x: float
    width: float
    y: float
    height: float
    mean_y: float

    @property
    def end(self) -> float:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Band:
    """One stage behind the rows, every second one shaded; `middle` is where its name stands, in % of the width."""

    x: float
    width: float
    middle: float
    words: str
    shaded: bool


@dataclass(frozen=True, slots=True)
class Row:
    """`lines` are points of polylines over the windows, `joins` lead from one to the next, `boxes` stand for cells of which no
    points are kept, `newest` is the dot of the running cell; all are empty where nothing was read, and `absent` then says
    why. `words` are the same in words. `limit_y` is None without a limit."""

    title: str
    unit: str
    top: str
    lines: tuple[str, ...]
    boxes: tuple[Box, ...]
    joins: tuple[str, ...]
    newest: str
    words: tuple[str, ...]
    limit_y: float | None
    limit_words: str
    highest: str
    absent: str = ""


@dataclass(frozen=True, slots=True)
class _Wanted:
    name: str
    title: object
    unit: str
    scale: float
    digits: int


_ROWS = (
    _Wanted("gpu_power_w", gettext_lazy("GPU board power"), "W", 1, 0),
    _Wanted("gpu_temperature_c", gettext_lazy("GPU temperature"), "°C", 1, 0),
    _Wanted("vram_used_bytes", gettext_lazy("VRAM"), "GiB", 1 / GIB, 1),
    _Wanted("host_memory_used_bytes", gettext_lazy("Host memory"), "GiB", 1 / GIB, 1),
)


@dataclass(frozen=True, slots=True)
class Host:
    """`minutes` is the length of the shared axis; `cells` how many have ended, `running` whether one more runs."""

    rows: tuple[Row, ...]
    bands: tuple[Band, ...]
    minutes: float
    cells: int
    running: bool
    width: float = WIDTH
    height: float = HEIGHT

    @property
    def middle_min(self) -> float:
        return self.minutes / 2


@dataclass(frozen=True, slots=True)
class _Read:
    """What one cell says of one row; `points` are the highest readings of equal spans of its window, which ended with it."""

    cell: Cell
    low: float
    mean: float
    peak: float
    points: tuple[float | None, ...] = ()
    window_s: float = 0.0

    @property
    def has_points(self) -> bool:
        return any(value is not None for value in self.points)


def rows_of(grid: Grid, cells: Sequence[Cell], now: datetime) -> Host | None:
    """None before a cell with readings has ended."""
    plain = [c for c in cells if c.started_at and not c.probe]
    found = [(c, s) for c in plain if c.finished_at and (s := c.read_summary) is not None]
    if not found:
        return None
    running = next((c for c in plain if c.status == Cell.Status.RUNNING), None)
    shown = [c for c, _s in found] + ([running] if running else [])
    start = min(c.started_at for c in shown if c.started_at)
    axis = _Axis(start, now, max((_end(c, now) - start).total_seconds() for c in shown) or 1.0)
    limits = _limits(grid, [s for _c, s in found], cells)
    kept = readings.of_cells([c.pk for c, _s in found])
    rows = tuple(_row(wanted, _read_of(wanted.name, found, kept, running), axis, limits, found) for wanted in _ROWS)
    return Host(
        rows=rows,
        bands=tuple(_bands(shown, axis)),
        minutes=axis.whole_s / 60,
        cells=len(found),
        running=running is not None,
    )


def _read_of(
    name: str, found: Sequence[tuple[Cell, CellSummary]], kept: Mapping[int, CellReadings], running: Cell | None
) -> list[_Read]:
    read = []
    for cell, summary in found:
        gauge, points = summary.gauge(name), kept.get(cell.pk)
        if gauge is not None:
            row = points.spans.get(name, ()) if points else ()
            read.append(_Read(cell, gauge.low, gauge.mean, gauge.peak, row, (points and points.window_s) or 0.0))
    last = _said_last(running).get(name) if running else None
    if running and isinstance(last, int | float):
        read.append(_Read(running, last, last, last))
    return read


@dataclass(frozen=True, slots=True)
class _Axis:
    start: datetime
    now: datetime
    whole_s: float

    def span(self, cell: Cell) -> tuple[float, float]:
        """From where to where a cell stands, in the drawing's own units."""
        assert cell.started_at is not None
        seconds = (cell.started_at - self.start).total_seconds(), (_end(cell, self.now) - self.start).total_seconds()
        return WIDTH * seconds[0] / self.whole_s, WIDTH * seconds[1] / self.whole_s


def _end(cell: Cell, now: datetime) -> datetime:
    return cell.finished_at or now


def _row(
    wanted: _Wanted,
    read: Sequence[_Read],
    axis: _Axis,
    limits: Mapping[str, float],
    found: Sequence[tuple[Cell, CellSummary]],
) -> Row:
    title, limit = str(wanted.title), limits.get(wanted.name)
    if not read:
        why = next((s.not_reported[wanted.name] for _c, s in found if wanted.name in s.not_reported), "")
        return Row(title, wanted.unit, "", (), (), (), "", (), None, "", "", why or _("no cell so far has a reading"))
    highest = max(one.peak for one in read)
    top = _round_up(max(highest, limit or 0.0) * wanted.scale * 1.04) / wanted.scale

    def y(value: float) -> float:
        return round(HEIGHT * (1 - min(value, top) / top), 1)

    return Row(
        title=title,
        unit=wanted.unit,
        top=f"{top * wanted.scale:,g}",
        lines=(lines := tuple(line for one in read for line in _lines(one, axis, y))),
        boxes=tuple(_box(one, axis, y) for one in read if not one.has_points and one.cell.finished_at),
        joins=tuple(_joins(lines, read, axis, y)),
        newest=next(
            (f"M{axis.span(one.cell)[1]:.1f} {y(one.peak):g}h.01" for one in read if not one.cell.finished_at), ""
        ),
        words=tuple(_words(one, wanted) for one in read),
        limit_y=y(limit) if limit else None,
        limit_words=_("limit %(n)s %(unit)s") % {"n": _said(limit, wanted), "unit": wanted.unit} if limit else "",
        highest=_("highest %(n)s %(unit)s") % {"n": _said(highest, wanted), "unit": wanted.unit},
    )


def _round_up(value: float) -> float:
    """The end of an axis: the next of 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * power >= value)


def _lines(one: _Read, axis: _Axis, y: Callable[[float], float]) -> Iterator[str]:
    """A polyline for each run of spans with a reading; a span without one is a gap, and one alone is drawn as long as it is."""
    begun, ended = axis.span(one.cell)
    begun = max(begun, ended - WIDTH * one.window_s / axis.whole_s) if one.window_s else begun
    step = (ended - begun) / max(len(one.points), 1)
    middles = [(begun + step * (place + 0.5), value) for place, value in enumerate(one.points)]
    for known, run in groupby(middles, key=lambda point: point[1] is not None):
        points = [(x, value) for x, value in run if value is not None]
        if len(points) == 1:
            (x, value), half = points[0], step / 2
            points = [(x - half, value), (x + half, value)]
        if known:
            yield " ".join(f"{x:.1f},{y(value):g}" for x, value in points)


def _joins(lines: Sequence[str], read: Sequence[_Read], axis: _Axis, y: Callable[[float], float]) -> Iterator[str]:
    """From the end of each line to the start of the next, and to the newest reading: nothing was read there for the page."""
    ends = [(line.split()[0], line.split()[-1]) for line in lines]
    last = [f"{axis.span(one.cell)[1]:.1f},{y(one.peak):g}" for one in read if not one.cell.finished_at]
    ends += [(point, point) for point in last]
    for (_begun, before), (after, _ended) in pairwise(ends):
        yield f"{before} {after}"


def _box(one: _Read, axis: _Axis, y: Callable[[float], float]) -> Box:
    begun, ended = axis.span(one.cell)
    return Box(
        x=round(begun, 1),
        width=round(max(1.5, ended - begun - 1), 1),
        y=y(one.peak),
        height=round(max(1.5, y(one.low) - y(one.peak)), 1),
        mean_y=y(one.mean),
    )


def _words(one: _Read, wanted: _Wanted) -> str:
    told = _said(one.peak, wanted) if one.low == one.peak else f"{_said(one.low, wanted)} – {_said(one.peak, wanted)}"
    return f"{one.cell.stage}, {one.cell.class_name}: {told} {wanted.unit}"


def _bands(cells: Sequence[Cell], axis: _Axis) -> Iterator[Band]:
    """Cells of one setting after each other are a stage."""
    for number, (_setting, found) in enumerate(groupby(cells, key=lambda cell: cell.setting)):
        stage = list(found)
        begun, ended = axis.span(stage[0])[0], axis.span(stage[-1])[1]
        yield Band(
            x=round(begun, 1),
            width=round(ended - begun, 1),
            middle=round(50 * (begun + ended) / WIDTH, 1),
            words=stage[0].stage,
            shaded=number % 2 == 0,
        )


def _limits(grid: Grid, summaries: Sequence[CellSummary], cells: Sequence[Cell]) -> dict[str, float]:
    """The guard's limits in the readings' own units; a share of memory needs the size that was read."""
    limits = limits_of(grid)
    found = {"gpu_temperature_c": limits.max_temperature_c}
    if limits.max_power_w:
        found["gpu_power_w"] = limits.max_power_w
    of_host = mode_guard(grid.mode, confirms=grid.confirms_id is not None).max_host_memory_share
    shares = {"vram": limits.max_vram_share, "host_memory": of_host}
    for kind, share in shares.items():
        size = _size(f"{kind}_total_bytes", summaries, cells)
        if size and share:
            found[f"{kind}_used_bytes"] = size * share
    return found


def _size(name: str, summaries: Sequence[CellSummary], cells: Sequence[Cell]) -> float | None:
    said = [size for c in cells if isinstance(size := _said_last(c).get(name), int | float)]
    return max(said or [g.peak for s in summaries if (g := s.gauge(name)) is not None], default=None)


def _said_last(cell: Cell) -> dict[str, object]:
    found = cell.progress.get("readings")
    return found if isinstance(found, dict) else {}


def _said(value: float, wanted: _Wanted) -> str:
    return f"{value * wanted.scale:,.{wanted.digits}f}"
