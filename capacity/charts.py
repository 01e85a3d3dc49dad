"""Plotly figures as JSON. Colours are var(--token): charts.js puts in the theme's value when it draws.

Rules: nothing is drawn that was not measured, axes start at zero, whiskers are two-sided 95 % bounds, hollow markers
and hatched bars are indicative, and the conditions of the measurement stand on the figure itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import plotly.graph_objects as go

from capacity.assessment import rates
from capacity.assessment.verdict import ClassRow, SettingRow, Verdict
from capacity.chart_parts import (
    GHOST,
    GIB,
    LIMIT,
    MAIN,
    axis,
    axis_name,
    conditions_note,
    finite,
    horizontal,
    layout,
    line,
    note,
    shade,
    vertical,
    whisker,
)
from capacity.queries import Result, provenance

IN_ORDER = {"type": "category", "showgrid": False, "categoryorder": "array"}
HATCH = {"fillmode": "overlay", "fgcolor": "var(--surface)", "fgopacity": 0.35, "size": 8, "solidity": 0.25}
SPLIT = 0.72  # where the memory panel begins, as a share of the figure's width


@dataclass(frozen=True, slots=True)
class ClassFigure:
    """One small multiple: what it shows, its n in words, and the (setting, row) that it is drawn from."""

    label: str
    tokens: str
    figure: str
    aria: str
    caption: str
    points: tuple[tuple[int, ClassRow], ...]


def trade_off(result: Result) -> str:
    """Successful and all requests a minute against the worst p95 ÷ objective, beside peak memory where it is known."""
    verdict = result.verdict
    drawn, beside = drawable(verdict), has_memory(verdict)
    figure = go.Figure()
    _all_requests(figure, drawn)
    _successful(figure, drawn, verdict.recommended)
    right = _right_end(drawn)
    top = max([_top(row) for row in drawn], default=1.0) * 1.28 or 1.0
    percentile = result.facts.limits.percentile
    notes, shapes = _trade_notes(verdict, drawn), [vertical(1.0, "x"), shade(right)]
    figure.update_layout(
        **layout(
            margin={"l": 44, "r": 14, "t": 34, "b": 50 + 15 * len(provenance(result.evidence).lines)},
            annotations=[*notes, conditions_note(provenance(result.evidence))],
            shapes=shapes,
            xaxis=axis(
                f"p{percentile:g} ÷ objective, worst class (ratio)", domain=[0, SPLIT - 0.085 if beside else 1], range=[0, right],
            ),
            yaxis=axis(range=[0, top], rangemode="tozero"),
        )
    )  # fmt: skip
    if beside:
        _memory(figure, verdict)
    return str(figure.to_json())


def has_memory(verdict: Verdict) -> bool:
    """Whether any setting's peak memory was reported."""
    return any(row.memory.peak_bytes is not None for row in verdict.rows)


def _memory(figure: Any, verdict: Verdict) -> None:
    """The panel of peak memory, on the same figure."""
    _memory_bars(figure, verdict)
    notes, shapes = _memory_notes(verdict)
    figure.layout.annotations += tuple(notes)
    figure.layout.shapes += tuple(shapes)
    figure.update_layout(
        barmode="overlay",
        xaxis2=axis(_memory_title(verdict), domain=[SPLIT, 1], range=[0, _memory_end(verdict)], anchor="y2", nticks=4),
        yaxis2=axis(
            anchor="x2", type="category", showgrid=False, ticks="", categoryorder="array",
            categoryarray=[str(row.setting) for row in reversed(verdict.rows)], range=[-0.5, len(verdict.rows) - 0.5],
        ),
    )  # fmt: skip


def latency_by_class(result: Result) -> list[ClassFigure]:
    """One small chart a class: p50, p95 with its bounds, p99, and the limit."""
    order: dict[tuple[str, bool], list[tuple[int, ClassRow]]] = {}
    for row in result.verdict.rows:
        for of_class in row.latency:
            order.setdefault((of_class.class_name, of_class.in_mix), []).append((row.setting, of_class))
    settings = [str(row.setting) for row in result.verdict.rows]
    return [_class_figure(points, settings, result) for points in order.values()]


def drawable(verdict: Verdict) -> list[SettingRow]:
    """Rows with a rate and a finite ratio; the others are named in the caption."""
    return [row for row in verdict.rows if row.good.value is not None and isfinite(_ratio(row))]


def trade_off_caption(result: Result) -> str:
    """n of each setting, what the marks mean, and which settings have no point."""
    verdict = result.verdict
    counts = ", ".join(f"{row.n} at {row.setting}" for row in verdict.rows if row.n)
    absent = [str(row.setting) for row in verdict.rows if row not in drawable(verdict)]
    text = f"n = {counts} in flight. " if counts else ""
    text += rates.SUCCESS
    text += " Whiskers are two-sided 95 % bounds; hollow marks and hatched bars are indicative."
    if absent:
        text += (
            f" No point for {', '.join(absent)} in flight: not measured, or its percentile falls among failed requests."
        )
    if not has_memory(verdict):
        text += " Peak memory is not drawn: nothing reported it."
    return text


def trade_off_aria(result: Result) -> str:
    points = [
        f"{row.setting} in flight: {row.good.value:.1f} a minute at {row.worst.ratio:.2f} of the objective"
        for row in drawable(result.verdict)
        if row.good.value is not None and row.worst is not None and row.worst.ratio is not None
    ]
    return f"Successful requests a minute against latency as a share of the objective. {'. '.join(points) or 'No point yet'}."


def _all_requests(figure: Any, rows: Sequence[SettingRow]) -> None:
    shown = [row for row in rows if row.completed_per_min is not None]
    figure.add_scatter(
        x=[_ratio(row) for row in shown], y=[row.completed_per_min for row in shown], mode="lines+markers",
        name="All requests", line={"color": GHOST, "width": 1.5, "dash": "2px,3px"},
        marker={"size": 7, "color": "var(--surface)", "line": {"color": GHOST, "width": 1.5}},
        customdata=[[row.setting] for row in shown],
        hovertemplate="<b>%{customdata[0]} in flight</b><br>all requests %{y:.1f} a minute<extra></extra>",
    )  # fmt: skip


def _successful(figure: Any, rows: Sequence[SettingRow], recommended: int | None) -> None:
    figure.add_scatter(
        x=[_ratio(row) for row in rows], y=[row.good.value for row in rows], mode="lines+markers",
        name="Successful requests", line={"color": MAIN, "width": 2},
        error_y=whisker([(row.good.value, row.good.lower, row.good.upper) for row in rows]),
        error_x=whisker([(r.worst.ratio, r.worst.ratio_lower, r.worst.ratio_upper) for r in rows if r.worst]),
        marker={
            "size": [15 if row.setting == recommended else 10 for row in rows],
            "color": ["var(--surface)" if row.indicative else MAIN for row in rows], "opacity": 1,
            "line": {"color": [MAIN if row.indicative else "var(--surface)" for row in rows], "width": 2},
        },
        customdata=[
            [row.setting, row.worst.label if row.worst else "", row.n, row.word, _interval(row)] for row in rows
        ],
        hovertemplate=(
            "<b>%{customdata[0]} in flight</b> · %{customdata[3]}<br>successful %{y:.1f} a minute%{customdata[4]}<br>"
            "%{x:.2f} of the objective (%{customdata[1]})<br>n = %{customdata[2]}<extra></extra>"
        ),
    )  # fmt: skip


def _memory_bars(figure: Any, verdict: Verdict) -> None:
    """One trace a colour: plotly.js draws a hatch over one colour, not over a list of them."""
    known = [row for row in verdict.rows if row.memory.peak_bytes is not None]
    _bars(figure, [row for row in known if row.setting != verdict.recommended], "var(--bar)")
    _bars(figure, [row for row in known if row.setting == verdict.recommended], MAIN)


def _bars(figure: Any, rows: Sequence[SettingRow], colour: str) -> None:
    sizes = [(row.memory.peak_bytes or 0.0) / GIB for row in rows]
    figure.add_bar(
        orientation="h", xaxis="x2", yaxis="y2", width=0.5,
        y=[str(row.setting) for row in rows], x=[round(size, 4) for size in sizes],
        text=[f"{size:.1f}" if size >= 10 else f"{size:.2f}" for size in sizes], textposition="outside",
        textangle=0, constraintext="none", cliponaxis=False, textfont={"size": 12, "color": "var(--text)"},
        marker={"color": colour, "pattern": {"shape": ["/" if row.indicative else "" for row in rows], **HATCH}},
        customdata=[[row.memory.words] for row in rows],
        hovertemplate="<b>%{y} in flight</b><br>%{customdata[0]}: %{x:.2f} GiB<extra></extra>",
    )  # fmt: skip


def _trade_notes(verdict: Verdict, rows: Sequence[SettingRow]) -> list[dict[str, Any]]:
    notes = []
    right = _right_end(rows)
    for before, row in zip([None, *rows], rows, strict=False):
        chosen = row.setting == verdict.recommended
        words = f"{row.setting} in flight"
        notes.append(
            note(
                _ratio(row), row.good.value, f"<b>{words}</b>" if chosen else words,
                font={"size": 12, "color": "var(--text)" if chosen else "var(--text-2)"},
            )
            | _beside_the_line(before, row, right)
        )  # fmt: skip
    last = rows[-1] if rows else None
    if (
        last
        and last.completed_per_min
        and last.good.value is not None
        and last.completed_per_min > 1.12 * last.good.value
    ):
        notes.append(
            note(_ratio(last), last.completed_per_min, "all requests", name="wide", xanchor="right", yshift=13,
                  font={"size": 12, "color": "var(--text-3)"})
        )  # fmt: skip
    small = {"size": 12, "color": LIMIT}
    notes.append(note(1, 1, "objective", xref="x", yref="paper", xanchor="left", yanchor="top", xshift=6, font=small))
    return [*notes, axis_name("Requests a minute", left=-40)]


def _beside_the_line(before: SettingRow | None, row: SettingRow, right: float) -> dict[str, Any]:
    """Where a point's name stands free of the line: under the first point, above a rising line, under a falling one."""
    rate, was = row.good.value or 0.0, (before.good.value or 0.0) if before else 0.0
    if before is None:
        return {"xanchor": "left", "xshift": 6, "yshift": -15}
    if rate < was:
        return {"xanchor": "center", "xshift": 0, "yanchor": "top", "yshift": -6, "y": row.good.lower or rate}
    if _ratio(row) < 0.25 * right:
        return {"xanchor": "left", "xshift": 10, "yshift": -13}
    return {"xanchor": "right", "xshift": -10, "yshift": 13}


def _memory_notes(verdict: Verdict) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Words where no bar stands, and the limit of the memory where there is one."""
    notes = [
        note(0, len(verdict.rows) - 1 - index, "not measured" if not row.cells else "not reported", xref="x2", yref="y2",
              xanchor="left", xshift=6, font={"size": 11, "color": "var(--text-3)"})
        for index, row in enumerate(verdict.rows) if row.memory.peak_bytes is None
    ]  # fmt: skip
    notes.append(axis_name("In flight", x=SPLIT, left=-16))
    limit = _memory_limit(verdict)
    if limit is None:
        return notes, []
    notes.append(
        note(limit, 1, f"limit {limit:.1f}", xref="x2", yref="paper", xanchor="right", yanchor="bottom",
             xshift=4, yshift=2, font={"size": 12, "color": LIMIT})
    )  # fmt: skip
    return notes, [vertical(limit, "x2")]


def _memory_title(verdict: Verdict) -> str:
    found = [row.memory for row in verdict.rows if row.memory.peak_bytes is not None]
    return "Peak VRAM (GiB)" if found[0].is_vram else "Peak host RAM of the runtime (GiB)"


def _memory_limit(verdict: Verdict) -> float | None:
    limits = [row.memory.limit_bytes for row in verdict.rows if row.memory.limit_bytes is not None]
    return min(limits) / GIB if limits else None


def _memory_end(verdict: Verdict) -> float:
    peaks = [row.memory.peak_bytes / GIB for row in verdict.rows if row.memory.peak_bytes is not None]
    return max([*peaks, _memory_limit(verdict) or 0.0], default=1.0) * 1.24 or 1.0


def _class_figure(points: list[tuple[int, ClassRow]], settings: list[str], result: Result) -> ClassFigure:
    first = points[0][1]
    figure = go.Figure()
    x = [str(setting) for setting, _ in points]
    rows = [row for _, row in points]
    thin = {"color": "var(--text-3)", "width": 1.5}
    dotted = {"color": GHOST, "width": 1.25, "dash": "2px,3px"}
    figure.add_scatter(**line(x, [row.p99_s for row in rows], "p99", dotted, size=5))
    figure.add_scatter(
        **line(x, [row.p95_s for row in rows], "p95", {"color": MAIN, "width": 2}, size=8)
        | {
            "error_y": whisker([(row.p95_s, row.p95_lower_s, row.p95_upper_s) for row in rows]),
            "marker": {
                "size": 8, "color": ["var(--surface)" if row.indicative else MAIN for row in rows],
                "line": {"color": [MAIN if row.indicative else "var(--surface)" for row in rows], "width": 1.5},
            },
            "customdata": [[row.n, _bounds(row)] for row in rows],
            "hovertemplate": "p95 %{y:.3g} s%{customdata[1]}<br>n = %{customdata[0]}<extra></extra>",
        }
    )  # fmt: skip
    figure.add_scatter(**line(x, [row.p50_s for row in rows], "p50", thin, size=5))
    known = [v for r in rows for v in (r.p99_s, r.p95_upper_s, r.p95_s) if v is not None and isfinite(v)]
    label = note(
        0, first.limit_s, f"objective {first.limit_s:g} s", xref="paper", xanchor="left", yanchor="bottom", xshift=4,
        font={"size": 11, "color": LIMIT},
    )  # fmt: skip
    figure.update_layout(
        **layout(
            margin={"l": 40, "r": 8, "t": 30, "b": 42},
            shapes=[horizontal(first.limit_s)],
            annotations=[axis_name(f"{first.limit_name.capitalize()} (s)", left=-36), label],
            xaxis=axis("Requests in flight", categoryarray=settings, range=[-0.5, len(settings) - 0.5], **IN_ORDER),
            yaxis=axis(range=[0, max([*known, first.limit_s]) * 1.12], nticks=5),
            meta={"conditions": provenance(result.evidence).words},
        )
    )  # fmt: skip
    return ClassFigure(
        points=tuple(points), label=first.label, tokens=_tokens(result, first), figure=str(figure.to_json()),
        aria=_class_aria(first, points), caption=_class_caption(rows),
    )  # fmt: skip


def _class_aria(first: ClassRow, points: list[tuple[int, ClassRow]]) -> str:
    said = [
        f"{setting} in flight {row.p95_s:.2f} s"
        for setting, row in points
        if row.p95_s is not None and isfinite(row.p95_s)
    ]
    return f"{first.label}: {first.limit_name}, objective {first.limit_s:g} s. p95 at {', '.join(said) or 'no setting known'}."


def _class_caption(rows: Sequence[ClassRow]) -> str:
    low, high = min(row.n for row in rows), max(row.n for row in rows)
    text = f"n = {low}" if low == high else f"n = {low} to {high}"
    repeats = max(row.repeats for row in rows)
    together = all(row.n_effective is not None for row in rows)
    of = (
        f", {'' if together else 'the worst of '}{repeats} repeats{' together' if together else ''}"
        if repeats > 1
        else ""
    )
    text += f" a setting{of}."
    covers = sorted({row.bound_words for row in rows if row.bound_words and row.n_effective is not None})
    text += f" Upper bounds are {' or '.join(covers)}." if covers else ""
    short = [row for row in rows if row.p95_s is None]
    failed = [row for row in rows if row.p95_s is not None and not isfinite(row.p95_s)]
    text += " Too few for a p95 where no point stands." if short else ""
    return text + (" No point where the p95 falls among failed requests." if failed else "")


def _tokens(result: Result, first: ClassRow) -> str:
    """Median lengths as received, where they were counted."""
    for cell in result.evidence.measured:
        part = cell.summary.of_class(first.class_name) if cell.summary else None
        if part and part.prompt_tokens_p50 is not None and part.output_tokens_p50 is not None:
            return f"{part.prompt_tokens_p50:,.0f} in, {part.output_tokens_p50:,.0f} out tokens"
    return ""


def _ratio(row: SettingRow) -> float:
    """Worst ratio of a row; NaN, which is not drawn, where there is none."""
    return row.worst.ratio if row.worst and row.worst.ratio is not None else nan


def _right_end(rows: Sequence[SettingRow]) -> float:
    ends = [finite(row.worst.ratio_upper) or _ratio(row) for row in rows if row.worst]
    return max([1.25, *(end * 1.08 for end in ends)])


def _top(row: SettingRow) -> float:
    return max(row.good.upper or row.good.value or 0.0, row.completed_per_min or 0.0)


def _interval(row: SettingRow) -> str:
    return (
        "" if row.good.lower is None or row.good.upper is None else f" ({row.good.lower:.1f} to {row.good.upper:.1f})"
    )


def _bounds(row: ClassRow) -> str:
    low, high = finite(row.p95_lower_s), finite(row.p95_upper_s)
    return f"<br>95 % bounds {low:.3g} to {high:.3g} s" if low is not None and high is not None else ""
