"""Two grids as two frontiers on one figure: good requests a minute against the worst p95 ÷ objective. A is dashed with
orange squares, B solid with blue circles, so that they differ in black and white too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from django.utils.translation import gettext as _

from capacity.assessment.verdict import SettingRow
from capacity.chart_parts import LIMIT, axis, axis_name, finite, layout, note, shade, vertical, whisker
from capacity.chart_types import Chart, ChartTable, Column
from capacity.charts import drawable
from capacity.compare_tables import Comparison


def _columns() -> tuple[Column, ...]:
    rate, ratio = _("a minute"), _("ratio")
    return (
        Column("side", _("Grid")), Column("in_flight", _("In flight"), digits=0),
        Column("good_per_min", _("Good requests"), rate, 1), Column("good_lower_per_min", _("at least"), rate, 1),
        Column("good_upper_per_min", _("at most"), rate, 1), Column("ratio", _("Worst p95 ÷ objective"), ratio, 2),
        Column("ratio_lower", _("at least"), ratio, 2), Column("ratio_upper", _("at most"), ratio, 2),
        Column("n", "n", _("requests"), 0),
    )  # fmt: skip


# letter, colour, dash, symbol
STYLES = (("A", "var(--k-long)", "5px,3px", "square"), ("B", "var(--k-median)", "solid", "circle"))
Style = tuple[str, str, str, str]
ABOVE, BELOW = (16, -14), (-16, 15)
"""Where a point's number stands, px up and along: that of the faster side above its line, that of the slower one below."""


def frontiers(found: Comparison) -> Chart | None:
    """None where a grid has no point: its loop is not closed, or nothing of it was measured."""
    sides = [drawable(result.verdict) for result in (found.left, found.right)]
    if not all(sides):
        return None
    percentile = found.left.facts.limits.percentile
    figure = go.Figure()
    notes = [_objective_note(), axis_name(_("Good requests a minute"), left=-36)]
    for style, rows, place in zip(STYLES, sides, _places(*sides), strict=True):
        _add(figure, style, rows)
        notes += [_number(style[1], row, place) for row in rows]
    right = max(
        [1.25, *((finite(row.worst.ratio_upper) or _ratio(row)) * 1.08 for side in sides for row in side if row.worst)]
    )
    top = max((row.good.upper or row.good.value or 0) for side in sides for row in side) * 1.15 or 1.0
    told = " ".join(f"{style[0]}: {side.words}" for style, side in zip(STYLES, found.sides, strict=True))
    figure.update_layout(
        **layout(
            margin={"l": 44, "r": 14, "t": 34, "b": 48}, annotations=notes, shapes=[vertical(1.0, "x"), shade(right)],
            xaxis=axis(_("p%(p)s ÷ objective, worst class (ratio)") % {"p": f"{percentile:g}"}, range=[0, right]),
            yaxis=axis(range=[0, top], rangemode="tozero"),
            meta={"conditions": told},
        )
    )  # fmt: skip
    return Chart(
        key="frontiers", kind="frontiers", title=_("Good requests a minute against latency"), figure=str(figure.to_json()),
        aria=_aria(found, sides), caption=_caption(sides), table=ChartTable(_columns(), _rows(found, sides)),
    )  # fmt: skip


def _ratio(row: SettingRow) -> float:
    assert row.worst is not None  # such rows are not drawable
    assert row.worst.ratio is not None
    return row.worst.ratio


def _add(figure: Any, style: Style, rows: Sequence[SettingRow]) -> None:
    letter, colour, dash, symbol = style
    figure.add_scatter(
        x=[_ratio(row) for row in rows], y=[row.good.value for row in rows], mode="lines+markers", name=letter,
        line={"color": colour, "width": 2, "dash": dash},
        error_y=whisker([(row.good.value, row.good.lower, row.good.upper) for row in rows]) | {"color": colour},
        error_x=whisker([(r.worst.ratio, r.worst.ratio_lower, r.worst.ratio_upper) for r in rows if r.worst])
        | {"color": colour},
        marker={
            "symbol": symbol, "size": 9, "color": ["var(--surface)" if row.indicative else colour for row in rows],
            "line": {"color": [colour if row.indicative else "var(--surface)" for row in rows], "width": 1.5},
        },
        customdata=[[row.setting, row.n] for row in rows],
        hovertemplate=f"<b>{letter}, %{{customdata[0]}} in flight</b><br>%{{y:.1f}} good requests a minute<br>"
        "%{x:.2f} of the objective<br>n = %{customdata[1]}<extra></extra>",
    )  # fmt: skip


def _places(left: Sequence[SettingRow], right: Sequence[SettingRow]) -> tuple[tuple[int, int], tuple[int, int]]:
    """By the settings of both: numbers between the two lines would stand in each other's way."""
    slower = {row.setting: _ratio(row) for row in left}
    ahead = sum(_ratio(row) - slower[row.setting] for row in right if row.setting in slower)
    return (ABOVE, BELOW) if ahead >= 0 else (BELOW, ABOVE)


def _number(colour: str, row: SettingRow, place: tuple[int, int]) -> dict[str, Any]:
    up, along = place
    return note(
        _ratio(row), row.good.value, str(row.setting), yshift=up, xshift=along, font={"size": 12, "color": colour}
    )


def _objective_note() -> dict[str, Any]:
    font = {"size": 12, "color": LIMIT}
    return note(1, 1, _("objective"), xref="x", yref="paper", xanchor="left", yanchor="top", xshift=6, font=font)


def _aria(found: Comparison, sides: Sequence[Sequence[SettingRow]]) -> str:
    point = _("%(n)d in flight %(rate)s a minute at %(ratio)s")
    told = []
    for (letter, *_rest), rows in zip(STYLES, sides, strict=True):
        points = [point % {"n": r.setting, "rate": f"{r.good.value:.1f}", "ratio": f"{_ratio(r):.2f}"} for r in rows]
        told.append(f"{letter}: {', '.join(points)}")
    finding = f"{found.overall.heading}. " if found.overall else ""
    return f"{finding}{_('Good requests a minute against p95 as a share of the objective.')} {'. '.join(told)}."


def _caption(sides: Sequence[Sequence[SettingRow]]) -> str:
    counts = []
    for (letter, *_rest), rows in zip(STYLES, sides, strict=True):
        each = [_("%(n)d at %(setting)d") % {"n": row.n, "setting": row.setting} for row in rows]
        counts.append(f"{letter} {', '.join(each)}")
    return _(
        "Numbers at the points are requests in flight. n = %(counts)s. Whiskers are two-sided 95 %% bounds; hollow marks are "
        "indicative. A good request succeeded inside every limit of its class."
    ) % {"counts": "; ".join(counts)}


def _rows(found: Comparison, sides: Sequence[Sequence[SettingRow]]) -> tuple[tuple[str | float | int | None, ...], ...]:
    grids = found.left.evidence.grid.pk, found.right.evidence.grid.pk
    return tuple(
        (
            _("%(letter)s, grid %(n)d") % {"letter": letter, "n": grid},
            row.setting, row.good.value, row.good.lower, row.good.upper, _ratio(row),
            row.worst.ratio_lower if row.worst else None, row.worst.ratio_upper if row.worst else None, row.n,
        )
        for (letter, *_rest), grid, rows in zip(STYLES, grids, sides, strict=True)
        for row in rows
    )  # fmt: skip
