"""What each way of loading is shown by, in its own terms: columns with their unit and definition, a line for each cell.

A static batch's items a second and a loop's successful requests a minute are not the same quantity, so no table here
holds grids of two batching modes, and nothing is ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isinf, isnan

from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.engine.summary_types import CellSummary, ClassSummary
from benchmarks.models import Grid
from benchmarks.queries import CellEvidence, limits_of
from benchmarks.records import search_answer
from benchmarks.records.modes import Mode
from benchmarks.stats.estimates import Estimate

Value = str | float | int | bool | None
UNKNOWN, TOO_FEW, FAILED = "not recorded", "too few", "failed"


@dataclass(frozen=True, slots=True)
class Seen:
    """One class in one measured cell, with the limits it is held to and the grid's window in seconds."""

    cell: CellEvidence
    summary: CellSummary
    part: ClassSummary | None
    limits: ClassLimits
    window_s: float

    @property
    def label(self) -> str:
        if self.part is None or self.part.class_name == self.cell.class_name:
            return self.cell.class_name
        return f"{self.part.class_name} in the mix"


@dataclass(frozen=True, slots=True)
class Column:
    """`key` is its name in files, with the unit; `take` gives a value in that unit, `scale` makes it that of the page.
    `none` is what a page says where there is no value."""

    key: str
    head: str
    unit: str
    take: Callable[[Seen], Value]
    digits: int = 2
    scale: float = 1.0
    none: str = UNKNOWN


@dataclass(frozen=True, slots=True)
class Table:
    """A grid in the terms of its mode. `repeated` is whether a line stands for several repeats, `answer` what a search
    found, in words."""

    grid: Grid
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    definition: str
    answer: str = ""

    @property
    def repeated(self) -> bool:
        return any(line.repeats > 1 for line in self.lines)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: a setting and a class over its repeats, the values of each column in words. `limited` is in
    how many of the repeats the load client was the bottleneck."""

    setting: int
    label: str
    repeats: int
    values: tuple[str, ...]
    limited: int = 0


def table(grid: Grid, cells: Sequence[CellEvidence]) -> Table:
    """The grid's measured cells in the terms of its mode."""
    columns = COLUMNS[Mode(grid.mode)]
    found = seen(cells, limits_of(grid), grid.window_s, grid.mode)
    answer = search_answer.read(grid.answer)
    said = search_answer.words(answer) if answer else ""
    return Table(grid, columns, tuple(lines(found, columns)), DEFINITIONS[Mode(grid.mode)], said)


def seen(cells: Sequence[CellEvidence], limits: GridLimits, window_s: float, mode: str) -> list[Seen]:
    """Every class of every cell that has a summary, in running order. A static batch is one line whatever its classes."""
    found = []
    for cell in cells:
        if cell.summary is None:
            continue
        parts: tuple[ClassSummary | None, ...] = cell.summary.classes or (None,)
        if mode == Mode.STATIC and len(parts) > 1:
            parts = (None,)
        found += [
            Seen(cell, cell.summary, part, limits.classes.get(part.class_name if part else "", ClassLimits()), window_s)
            for part in parts
        ]
    return found


def lines(found: Sequence[Seen], columns: Sequence[Column]) -> list[Line]:
    """One line for each class of each setting; several repeats show from the least to the most."""
    groups: dict[tuple[int, str], list[Seen]] = {}
    for one in sorted(found, key=lambda s: (s.cell.setting, s.cell.position)):
        groups.setdefault((one.cell.setting, one.label), []).append(one)
    return [
        Line(
            setting, label, len(group), tuple(_words(column, group) for column in columns),
            limited=sum(one.summary.client.client_limited for one in group),
        )
        for (setting, label), group in groups.items()
    ]  # fmt: skip


def plain(one: Seen, columns: Sequence[Column]) -> dict[str, Value]:
    """The values of one cell and class for a file: infinite reads "inf", unknown is empty."""
    return {column.key: _finite(column.take(one)) for column in columns}


HEALTH: tuple[Column, ...] = (
    Column("client_limited", "Client", "", lambda s: "limited" if s.summary.client.client_limited else "not the limit"),
    Column("client_loop_lag_p99_ms", "Loop lag p99", "ms", lambda s: s.summary.client.loop_lag_p99_ms),
    Column("client_cpu_share", "Core busy", "%", lambda s: s.summary.client.cpu_share, digits=0, scale=100),
    Column("client_send_late_p99_ms", "Sent late p99", "ms", lambda s: s.summary.client.send_late_p99_ms),
    Column("client_dispatch_p99_ms", "Dispatch p99", "ms", lambda s: s.summary.client.dispatch_p99_ms),
    Column("client_connect_p99_ms", "Connecting p99", "ms", lambda s: s.summary.client.connect_p99_ms),
    Column(
        "client_connection_wait_share", "Waited for a connection", "%",
        lambda s: s.summary.client.connection_wait_share, digits=1, scale=100,
    ),
    Column("client_stalls", "Stalls", "", lambda s: s.summary.client.stalls, digits=0),
    Column("client_processes", "Processes", "", lambda s: s.summary.client.processes, digits=0),
    Column("client_why", "Why", "", lambda s: s.summary.client.why or "", none=""),
)  # fmt: skip
"""The client's own health over each cell's window, the same for every mode."""


def health_lines(cells: Sequence[CellEvidence]) -> list[Line]:
    """One line a cell: a client that was the bottleneck in one window was so in that one."""
    found = [Seen(cell, cell.summary, None, ClassLimits(), 0.0) for cell in cells if cell.summary is not None]
    return [
        Line(one.cell.setting, one.cell.class_name, one.cell.repeat, tuple(_words(column, [one]) for column in HEALTH))
        for one in found
    ]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _estimate(estimate: Estimate | None, factor: float = 1.0) -> Value:
    """The value; the words where too few points give none."""
    if estimate is None or estimate.n == 0:
        return None
    return TOO_FEW if estimate.value is None else estimate.value * factor


def _ratio(one: Seen) -> Value:
    """The worst of the class's p95 over its limits; None where the objective has none."""
    if one.part is None:
        return None
    pairs = (
        (one.part.e2e_s.p95, one.limits.e2e_s), (one.part.ttft_s.p95, one.limits.ttft_s),
        (one.part.tpot_s.p95, one.limits.tpot_s),
    )  # fmt: skip
    known = [p95.value / limit for p95, limit in pairs if limit and p95.value is not None]
    few = any(limit and p95.n for p95, limit in pairs)
    return max(known, default=TOO_FEW if few else None)


def _good(one: Seen) -> Value:
    window_s = one.summary.window_s
    return one.part.good.hits * 60 / window_s if one.part and window_s else None


def _good_share(one: Seen) -> Value:
    shares = [one.part.good] if one.part else [part.good for part in one.summary.classes]
    scheduled = sum(share.n for share in shares)
    return sum(share.hits for share in shares) / scheduled if scheduled else None


def _inside(one: Seen) -> Value:
    batch = one.summary.static_batch
    if batch is None or batch.makespan_s is None:
        return None
    if batch.open or batch.failed:
        return f"no, {batch.open + batch.failed:,} items not done"
    return "yes" if batch.makespan_s <= one.window_s else f"no, {batch.makespan_s - one.window_s:,.1f} s over"


_N = Column("scheduled_requests", "n", "", lambda s: s.part.scheduled if s.part else None, digits=0)
_TTFT = Column(
    "ttft_p95_s", "TTFT p95", "s", lambda s: _estimate(s.part.ttft_s.p95) if s.part else None, none="not timed"
)
_E2E = Column("e2e_p95_s", "End to end p95", "s", lambda s: _estimate(s.part.e2e_s.p95) if s.part else None)
_RATIO = Column("p95_over_objective", "p95 ÷ objective", "", _ratio, none="no limit")
_GOOD_SHARE = Column("good_share", "Good", "%", _good_share, digits=1, scale=100)
_GOOD = Column("good_per_min", "Successful", "requests a minute", _good, digits=1)
_GOOD_ITEMS = Column("good_items_per_min", "Successful", "items a minute", _good, digits=1)
_ITEMS_SEEN = Column("scheduled_items", "Items", "", lambda s: s.part.scheduled if s.part else None, digits=0)
_ITEM_TIME = Column("item_p95_s", "Item p95", "s", lambda s: _estimate(s.part.e2e_s.p95) if s.part else None)
_OPEN = (
    Column(
        "requested_per_min", "Asked for", "a minute",
        lambda s: _times(s.summary.open_loop.requested_per_s, 60) if s.summary.open_loop else None, digits=1,
    ),
    Column(
        "sent_per_min", "Sent", "a minute",
        lambda s: _times(s.summary.open_loop.sent_per_s, 60) if s.summary.open_loop else None, digits=1,
    ),
    Column(
        "on_time_share", "On time", "%",
        lambda s: s.summary.open_loop.on_time.value if s.summary.open_loop else None, scale=100,
    ),
    Column(
        "late_p99_ms", "Late p99", "ms",
        lambda s: _estimate(s.summary.open_loop.late_s.p99, 1000) if s.summary.open_loop else None,
    ),
)  # fmt: skip
_MICRO = (
    Column("batches", "Requests", "", lambda s: s.summary.micro_batch.batches if s.summary.micro_batch else None, digits=0),
    Column(
        "items_per_batch", "Items a request", "mean",
        lambda s: s.summary.micro_batch.items_per_batch if s.summary.micro_batch else None,
    ),
    Column(
        "added_wait_p50_ms", "Added wait p50", "ms",
        lambda s: _estimate(s.summary.micro_batch.added_wait_s.p50, 1000) if s.summary.micro_batch else None,
    ),
    Column(
        "added_wait_p95_ms", "Added wait p95", "ms",
        lambda s: _estimate(s.summary.micro_batch.added_wait_s.p95, 1000) if s.summary.micro_batch else None,
    ),
    Column(
        "added_wait_max_ms", "Longest", "ms",
        lambda s: _times(s.summary.micro_batch.added_wait_max_s, 1000) if s.summary.micro_batch else None,
    ),
    Column(
        "over_max_wait_items", "Waited too long", "items",
        lambda s: s.summary.micro_batch.over_max_wait if s.summary.micro_batch else None, digits=0,
    ),
)  # fmt: skip
_STATIC = (
    Column("items", "Items", "", lambda s: s.summary.static_batch.items if s.summary.static_batch else None, digits=0),
    Column("done_items", "Done", "", lambda s: s.summary.static_batch.done if s.summary.static_batch else None, digits=0),
    Column("failed_items", "Failed", "", lambda s: s.summary.static_batch.failed if s.summary.static_batch else None, digits=0),
    Column("open_items", "Not begun", "", lambda s: s.summary.static_batch.open if s.summary.static_batch else None, digits=0),
    Column("makespan_s", "Time for all", "s", lambda s: s.summary.static_batch.makespan_s if s.summary.static_batch else None),
    Column("inside_window", "Inside the window", "", _inside),
    Column("items_per_s", "Items a second", "", lambda s: s.summary.static_batch.items_per_s if s.summary.static_batch else None),
    Column("resumed", "Gone on", "times", lambda s: s.summary.static_batch.resumed if s.summary.static_batch else None, digits=0),
)  # fmt: skip
COLUMNS: dict[Mode, tuple[Column, ...]] = {
    Mode.CLOSED: (_N, _TTFT, _E2E, _RATIO, _GOOD_SHARE, _GOOD),
    Mode.SEARCH: (_N, _TTFT, _E2E, _RATIO, _GOOD_SHARE, _GOOD),
    Mode.OPEN: (_N, *_OPEN, _TTFT, _E2E, _RATIO, _GOOD_SHARE, _GOOD),
    Mode.MICRO: (_ITEMS_SEEN, *_MICRO, _ITEM_TIME, _RATIO, _GOOD_SHARE, _GOOD_ITEMS),
    Mode.STATIC: (*_STATIC, _GOOD_SHARE),
}
OWN: tuple[Column, ...] = (*_OPEN, *_MICRO, *_STATIC)
"""Columns that only one mode has."""
DEFINITIONS: dict[Mode, str] = {
    Mode.OPEN: "Asked for and sent are rates inside the window; on time is sent within 2 ms of when it was due. All times run "
    "from when a request was due, so what the client or the server made wait is in them.",
    Mode.MICRO: "The added wait is from an item's arrival to when its request was closed; it is inside the item's time. Items "
    "that share a request end together.",
    Mode.STATIC: "Time for all is from the first item's start to the last one's end, with every interruption between. Items a "
    "second are done items over it.",
    Mode.CLOSED: "Times run from the planned start; failures count as infinite. Good is successful, valid and inside every "
    "limit, of all that were scheduled.",
    Mode.SEARCH: "Times run from the planned start; failures count as infinite. Good is successful, valid and inside every "
    "limit, of all that were scheduled: what the search looks at.",
}


def _words(column: Column, group: Sequence[Seen]) -> str:
    """One value, or from the least to the most of several repeats; words where a repeat has no number."""
    values = [column.take(one) for one in group]
    numbers = sorted(float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool))
    if len(numbers) < len(values):
        said = dict.fromkeys(column.none if v is None else v for v in values if not isinstance(v, int | float))
        return ", ".join([*(_number(column, n) for n in dict.fromkeys(numbers)), *said])
    low, high = _number(column, numbers[0]), _number(column, numbers[-1])
    return low if low == high else f"{low} to {high}"


def _number(column: Column, value: float) -> str:
    return FAILED if isinf(value) else f"{value * column.scale:,.{column.digits}f}"


def _finite(value: Value) -> Value:
    if isinstance(value, float) and isnan(value):
        return None
    return "inf" if isinstance(value, float) and isinf(value) else value
