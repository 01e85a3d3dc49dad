"""What host and runtime did while the cells ran: aligned rows over the same time, one unit each, stages shaded.

The windows stand one after the other in running order; what lay between them, warm-up and rests, is left out. A row that
nothing reported is not drawn and is named in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go

from benchmarks import readings
from benchmarks.queries import CellEvidence
from benchmarks.records.kept_readings import CellReadings
from capacity.chart_parts import GIB, LIMIT, MAIN, axis, layout, note
from capacity.chart_types import Chart, ChartTable, Column
from capacity.queries import Result, provenance

LINES = {"runtime_running": MAIN, "runtime_waiting": "var(--k-long)"}
GAP_SHARE = 0.04
SILENT_S = 5.0
ROW_PX, TOP_PX, BOTTOM_PX = 92, 40, 46


@dataclass(frozen=True, slots=True)
class Row:
    """One axis: readings by name with their words, a factor to the unit, and the limit in that unit."""

    title: str
    unit: str
    names: tuple[str, ...]
    factor: float = 1.0
    limit: float | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    cell_id: int
    setting: int
    class_name: str
    at_min: float
    long_s: float
    values: dict[str, float | None]


@dataclass(slots=True)
class Track:
    """The windows laid end to end, in minutes: `stages` are (from, to, setting), `spans` the middle of each span, with its
    cell and the highest of each reading in it."""

    stages: list[tuple[float, float, int]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    @property
    def read(self) -> set[str]:
        return {name for span in self.spans for name, value in span.values.items() if value is not None}

    def line(self, name: str, factor: float) -> tuple[list[float | None], list[float | None]]:
        """x and y, with a break between windows and wherever nothing was read for SILENT_S."""
        x: list[float | None] = []
        y: list[float | None] = []
        before: Span | None = None
        for span in self.spans:
            value = span.values.get(name)
            if value is None:
                continue
            apart = before is not None and (
                span.cell_id != before.cell_id or (span.at_min - before.at_min) * 60 > max(SILENT_S, 1.5 * span.long_s)
            )
            x += [None, span.at_min] if apart else [span.at_min]
            y += [None, float(f"{value * factor:.4g}")] if apart else [float(f"{value * factor:.4g}")]
            before = span
        return x, y


def telemetry(result: Result) -> Chart | None:
    """None where no cell's readings are stored here, or none of them was of a row that is drawn."""
    cells = [cell for cell in result.evidence.measured if cell.evidence_sha256]
    found = readings.of_cells([cell.cell_id for cell in cells if cell.evidence_sha256])
    track = _track(cells, found)
    read = track.read
    rows = [row for row in _rows(result, read) if read.intersection(row.names)]
    if not rows:
        return None
    absent = len(cells) - len(found)
    return Chart(
        key="telemetry", kind="telemetry", title="Host and runtime while measuring", figure=_figure(result, track, rows, read),
        aria=_aria(track, rows, read), caption=_caption(absent), table=_points(track, rows, read),
        size=(760, TOP_PX + BOTTOM_PX + ROW_PX * len(rows)), rows=len(rows),
    )  # fmt: skip


def _rows(result: Result, read: set[str]) -> list[Row]:
    limits, verdict = result.facts.limits, result.verdict
    ceilings = [row.memory.limit_bytes for row in verdict.rows if row.memory.limit_bytes is not None]
    is_vram = "vram_used_bytes" in read
    cap_w = result.evidence.grid.declared.get("power_cap_w")
    memory = Row("VRAM", "GiB", ("vram_used_bytes",), 1 / GIB, min(ceilings) / GIB if ceilings else None)
    if not is_vram:
        memory = Row("Host RAM of the runtime", "GiB", ("runtime_rss_bytes",), 1 / GIB)
    return [
        Row("GPU power", "W", ("gpu_power_w",), limit=float(cap_w) if cap_w else None),
        Row("GPU temperature", "°C", ("gpu_temperature_c",), limit=limits.max_temperature_c),
        memory,
        Row("KV cache in use", "%", ("runtime_kv_usage_share",), 100.0),
        Row("Requests in the server", "", ("runtime_running", "runtime_waiting"), words=("running", "waiting")),
        *([] if read & {"gpu_power_w", "gpu_temperature_c"} else [Row("Host CPU", "%", ("host_cpu_share",), 100.0)]),
    ]


def _track(cells: Sequence[CellEvidence], found: dict[int, CellReadings]) -> Track:
    lengths = [one.window_s for one in found.values() if one.window_s]
    gap_min = GAP_SHARE * max(lengths, default=0.0) / 60
    track, at_min = Track(), 0.0
    for cell in cells:
        one = found.get(cell.cell_id)
        if one is None or not one.window_s:
            continue
        track.stages.append((at_min, at_min + one.window_s / 60, cell.setting))
        track.spans += _spans(cell, one, at_min)
        at_min += one.window_s / 60 + gap_min
    return track


def _spans(cell: CellEvidence, one: CellReadings, at_min: float) -> list[Span]:
    count, window_s = max((len(values) for values in one.spans.values()), default=0), one.window_s or 0.0
    return [
        Span(
            cell.cell_id, cell.setting, cell.class_name, round(at_min + window_s / 60 * (place + 0.5) / count, 3),
            window_s / count, {name: values[place] for name, values in one.spans.items()},
        )
        for place in range(count)
    ]  # fmt: skip


def _figure(result: Result, track: Track, rows: Sequence[Row], read: set[str]) -> str:
    figure = go.Figure()
    right = track.stages[-1][1] if track.stages else 1.0
    count = len(rows)
    space = 0.32 / count if count > 1 else 0.0
    height = (1 - space * (count - 1)) / count
    made: dict[str, Any] = {}
    notes, shapes = _stages(track)
    for place, row in enumerate(rows):
        suffix = "" if place == 0 else str(place + 1)
        top = 1 - place * (height + space)
        values = _drawn(track, row, read)
        made[f"yaxis{suffix}"] = axis(
            domain=[max(0.0, top - height), top],
            range=_range(row, [y for _, y in values.values()]),
            nticks=3,
            anchor="x",
        )
        notes.append(_row_name(row, top, read))
        for name, (x, y) in values.items():
            figure.add_scatter(
                x=x, y=y, yaxis=f"y{suffix}", name=_line_name(row, name), connectgaps=False, **_pen(y, LINES.get(name, MAIN)),
                line={"color": LINES.get(name, MAIN), "width": 1.5},
                hovertemplate=f"{_line_name(row, name)} %{{y:.3g}} {row.unit}<extra></extra>",
            )  # fmt: skip
        if row.limit is not None:
            shapes.append({
                "type": "line", "xref": "paper", "yref": f"y{suffix}", "x0": 0, "x1": 1, "y0": row.limit, "y1": row.limit,
                "line": {"color": LIMIT, "width": 1.25, "dash": "6px,4px"},
            })  # fmt: skip
            notes.append(
                note(0, row.limit, f"limit {row.limit:.3g}", xref="paper", yref=f"y{suffix}", xanchor="left", yanchor="top",
                     xshift=6, yshift=-1, font={"size": 11, "color": LIMIT})
            )  # fmt: skip
    lowest = f"y{count}" if count > 1 else "y"
    made["xaxis"] = axis("Minutes of measuring", range=[0, right], nticks=8, anchor=lowest, showgrid=False)
    figure.update_layout(
        **layout(margin={"l": 44, "r": 10, "t": TOP_PX, "b": BOTTOM_PX}, hovermode="x unified", annotations=notes, shapes=shapes,
                 meta={"conditions": provenance(result.evidence).words}, **made)
    )  # fmt: skip
    return str(figure.to_json())


def _stages(track: Track) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Shaded windows; the setting stands once above the first of its neighbours."""
    shapes = [
        {"type": "rect", "xref": "x", "yref": "paper", "x0": start, "x1": end, "y0": 0, "y1": 1, "layer": "below",
         "fillcolor": "var(--grid)", "opacity": 0.6, "line": {"width": 0}}
        for start, end, _ in track.stages
    ]  # fmt: skip
    notes, before = [], None
    for start, _end, setting in track.stages:
        if setting != before:
            words = f"{setting} in flight" if before is None else f"{setting}"
            notes.append(
                note(start, 1, words, xref="x", yref="paper", xanchor="left", yanchor="bottom", xshift=2, yshift=21,
                     font={"size": 11, "color": "var(--text-3)"})
            )  # fmt: skip
        before = setting
    return notes, shapes


def _row_name(row: Row, top: float, read: set[str]) -> dict[str, Any]:
    title = f"{row.title} ({row.unit})" if row.unit else row.title
    said = [
        f"<span style='color:{LINES[name]}'>{words}</span>"
        for name, words in zip(row.names, row.words, strict=False) if name in read
    ]  # fmt: skip
    text = f"{title}, {' and '.join(said)}" if said else title
    return note(0, top, text, xref="paper", yref="paper", xanchor="left", yanchor="bottom", xshift=-40, yshift=3)


def _drawn(track: Track, row: Row, read: set[str]) -> dict[str, tuple[list[float | None], list[float | None]]]:
    return {name: track.line(name, row.factor) for name in row.names if name in read}


def _pen(line: Sequence[float | None], colour: str) -> dict[str, object]:
    """How a line is drawn: a reading without a neighbour is a point, which no line would show."""
    known = [False, *(value is not None for value in line), False]
    alone = [known[at] and not (known[at - 1] or known[at + 1]) for at in range(1, len(known) - 1)]
    if not any(alone):
        return {"mode": "lines"}
    return {"mode": "lines+markers", "marker": {"size": [4 if point else 0 for point in alone], "color": colour}}


def _range(row: Row, lines: Iterable[Sequence[float | None]]) -> list[float]:
    known = [value for line in lines for value in line if value is not None]
    return [0, max([*known, row.limit or 0.0], default=1.0) * 1.14 or 1.0]


def _line_name(row: Row, name: str) -> str:
    if not row.words:
        return row.title
    return row.words[row.names.index(name)].capitalize()


def _aria(track: Track, rows: Sequence[Row], read: set[str]) -> str:
    said = []
    for row in rows:
        for name, (_, line) in _drawn(track, row, read).items():
            highest = max(value for value in line if value is not None)
            limit = f", limit {row.limit:.3g}" if row.limit is not None else ""
            which = f", {_line_name(row, name).lower()}" if row.words else ""
            said.append(f"{row.title}{which}: at most {highest:.3g} {row.unit}{limit}".strip())
    return f"Telemetry over the windows. {'. '.join(said)}."


def _caption(absent: int) -> str:
    text = (
        "Each point is the highest reading of its span, of any card; a line breaks where nothing was read for 5 s. The "
        "shaded windows stand in running order; warm-up and rests between them are left out."
    )
    return text + (f" Of {absent} cells no readings are stored here." if absent else "")


def _points(track: Track, rows: Sequence[Row], read: set[str]) -> ChartTable:
    shown = [(row, name) for row in rows for name in row.names if name in read]
    columns = (
        Column("minute", "Minute", digits=2), Column("setting", "In flight", digits=0), Column("cell_class", "Class"),
        *(Column(name, _line_name(row, name), row.unit, 1) for row, name in shown),
    )  # fmt: skip
    return ChartTable(
        columns,
        tuple(
            (span.at_min, span.setting, span.class_name, *(span.values.get(name) for _, name in shown)) for span in track.spans
        ),
    )  # fmt: skip
