"""A figure as SVG, drawn here without a browser: for downloads, for paper and for pages without JavaScript.

It takes the same plotly JSON that the page draws, so that both show the same; only what our figures use is known: scatter
and horizontal bars, whiskers, lines and rectangles, notes, aligned axes. What was measured on what, where and when stands
below the axes. Colours are the theme's light ones: a file is read on white.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from django.conf import settings

from capacity.chart_axes import Axes, Scale
from capacity.chart_types import Chart

FONT = "Inter, system-ui, 'Segoe UI', Roboto, sans-serif"
LINE_PX, HEAD_PX, LETTER = 16, 34, 6.1
ANCHORS = {"left": "start", "center": "middle", "right": "end"}
TAGS = re.compile(r"<(/?)(b|span)(?: style='color:([^']*)')?>")
Json = Mapping[str, Any]


@functools.cache
def tokens() -> dict[str, str]:
    """The light theme's colours, from the style sheet itself."""
    sheet = (Path(settings.BASE_DIR) / "static" / "css" / "theme.css").read_text(encoding="utf-8")
    root = sheet.split(":root {", 1)[1].split("}", 1)[0]
    return dict(re.findall(r"(--[\w-]+):\s*(#[0-9a-fA-F]+)", root))


def colour(value: object) -> str:
    """A token as its light colour; black where it is none of ours."""
    name = re.fullmatch(r"var\((--[\w-]+)\)", str(value))
    return tokens().get(name[1], "#14181f") if name else str(value)


def draw(chart: Chart, lines: Sequence[str]) -> str:
    """One SVG with the chart's name above and `lines`, its conditions, below."""
    figure = json.loads(chart.figure)
    layout = figure["layout"]
    width, height = chart.size
    # The page's own trade-off figure has the conditions on it; here they stand below every figure alike.
    notes = [one for one in layout.get("annotations", ()) if one.get("name") != "conditions"]
    margin = {"l": 44, "r": 16, "t": 34, "b": 50} | layout.get("margin", {}) | {"b": 52, "r": 18}
    caption = _wrapped(chart.caption, int((width - 32) / 5.6))
    bottom = HEAD_PX + height + LINE_PX * (len(caption) + len(lines)) + 18
    axes = Axes(layout, width=width, top=HEAD_PX, height=height, margin=margin)
    parts = [f'<rect width="{width}" height="{bottom}" fill="{colour("var(--surface)")}"/>']
    parts.append(text(16, 22, chart.title, size=14, weight=600, fill="var(--text)"))
    below, above = _shapes(layout.get("shapes", ()), axes)
    parts += below + axes.frame(text, line)
    parts += above
    for trace in figure["data"]:
        parts += _bars(trace, axes) if trace["type"] == "bar" else _scatter(trace, axes)
    parts += [_note(one, axes) for one in notes]
    at = HEAD_PX + height + 14
    for words in caption:
        parts.append(text(16, at, words, size=11, fill="var(--text-3)"))
        at += LINE_PX
    for words in lines:
        parts.append(text(16, at, words, size=11, weight=500, fill="var(--text-2)"))
        at += LINE_PX
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom}" viewBox="0 0 {width} {bottom}" '
        f'font-family="{FONT}"><title>{escape(chart.title)}</title><desc>{escape(chart.aria)}</desc>'
        f'<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M0 6L6 0" stroke="#ffffff" '
        f'stroke-width="1.5"/></pattern></defs>{"".join(parts)}</svg>'
    )


def text(
    x: float, y: float, words: str, *, anchor: str = "start", size: float = 12, weight: int = 400, fill: str = "var(--text-2)"
) -> str:  # fmt: skip
    """Words with plotly's <b> and coloured <span>, nothing else."""
    inner = _styled(words)
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" font-weight="{weight}" fill="{colour(fill)}" '
        f'text-anchor="{anchor}">{inner}</text>'
    )


def line(x0: float, y0: float, x1: float, y1: float, *, stroke: str, width: float = 1.0, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{escape(dash.replace("px", ""))}"' if dash and dash != "solid" else ""
    ends = f'x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"'
    return f'<line {ends} stroke="{colour(stroke)}" stroke-width="{width:g}"{dashed}/>'


def _styled(words: str) -> str:
    out, last = [], 0
    for tag in TAGS.finditer(words):
        out.append(escape(words[last : tag.start()]))
        closes, name, fill = tag.groups()
        if closes:
            out.append("</tspan>")
        else:
            out.append('<tspan font-weight="600">' if name == "b" else f'<tspan fill="{colour(fill)}">')
        last = tag.end()
    return "".join([*out, escape(words[last:])])


def _wrapped(words: str, letters: int) -> list[str]:
    found: list[str] = []
    for word in words.split():
        if found and len(found[-1]) + len(word) < letters:
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _shapes(shapes: Sequence[Json], axes: Axes) -> tuple[list[str], list[str]]:
    """What lies below the traces, and what is ruled over them."""
    below, above = [], []
    for shape in shapes:
        x0, x1 = (axes.x(shape[key], shape["xref"]) for key in ("x0", "x1"))
        y0, y1 = (axes.y(shape[key], shape["yref"]) for key in ("y0", "y1"))
        if shape["type"] == "rect":
            below.append(
                f'<rect x="{min(x0, x1):.1f}" y="{min(y0, y1):.1f}" width="{abs(x1 - x0):.1f}" height="{abs(y1 - y0):.1f}" '
                f'fill="{colour(shape["fillcolor"])}" opacity="{shape.get("opacity", 1):g}"/>'
            )
        else:
            pen = shape["line"]
            above.append(line(x0, y0, x1, y1, stroke=pen["color"], width=pen.get("width", 1), dash=pen.get("dash", "")))
    return below, above


def _scatter(trace: Json, axes: Axes) -> list[str]:
    x, y = axes.of(trace, "x"), axes.of(trace, "y")
    points = [
        (x.at(one), y.at(two)) if _known(one, two) else None for one, two in zip(trace["x"], trace["y"], strict=True)
    ]
    pen, parts = trace.get("line", {}), []
    if "lines" in trace["mode"]:
        parts += [_path(run, pen, steps=pen.get("shape") == "hv", clip=axes.inside(trace)) for run in _runs(points)]
    parts += _whiskers(trace, x, y)
    if "markers" in trace["mode"]:
        marker = trace.get("marker", {})
        for place, point in enumerate(points):
            if point is not None and _each(marker.get("size"), place) != 0:
                parts.append(_dot(point, marker, place))
    return parts


def _known(*values: object) -> bool:
    return all(value is not None for value in values)


def _runs(points: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """Points that a line joins: it does not run through what is not known."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return [run for run in runs if len(run) > 1]


def _path(run: Sequence[tuple[float, float]], pen: Json, *, steps: bool, clip: tuple[float, float]) -> str:
    low, high = clip
    out: list[str] = []
    before: tuple[float, float] | None = None
    for x, y in run:
        if before is not None and before[0] >= high:
            break
        at = min(max(x, low), high)
        if steps and before is not None:
            out.append(f"{at:.1f},{before[1]:.1f}")
        if x <= high:
            out.append(f"{at:.1f},{y:.1f}")
        before = (x, y)
    dash = f' stroke-dasharray="{escape(str(pen["dash"]).replace("px", ""))}"' if pen.get("dash") else ""
    return (
        f'<polyline points="{" ".join(out)}" fill="none" stroke="{colour(pen.get("color", "var(--text)"))}" '
        f'stroke-width="{pen.get("width", 1.5):g}" stroke-linejoin="round"{dash}/>'
    )


def _whiskers(trace: Json, x: Scale, y: Scale) -> list[str]:
    parts = []
    for key, scale, is_x in (("error_x", x, True), ("error_y", y, False)):
        bars = trace.get(key)
        if not bars:
            continue
        for one, two, up, down in zip(trace["x"], trace["y"], bars["array"], bars["arrayminus"], strict=False):
            if not _known(one, two):
                continue
            value, across = (one, y.at(two)) if is_x else (two, x.at(one))
            for end in (value + up if up is not None else None, value - down if down is not None else None):
                if end is not None:
                    parts += _whisker(scale.at(value), scale.at(end), across, bars["color"], is_x=is_x)
    return parts


def _whisker(start: float, end: float, across: float, stroke: str, *, is_x: bool) -> list[str]:
    """The line to the bound, and its end."""
    ends = [(start, across, end, across), (end, across - 4, end, across + 4)]
    if not is_x:
        ends = [(y0, x0, y1, x1) for x0, y0, x1, y1 in ends]
    return [line(*each, stroke=stroke, width=1.25) for each in ends]


def _dot(at: tuple[float, float], marker: Json, place: int) -> str:
    size, fill, edge = (_each(marker.get(key), place) for key in ("size", "color", "line"))
    pen = edge or {}
    stroke = colour(_each(pen.get("color"), place) or fill)
    width = pen.get("width", 0) or 0
    if marker.get("symbol") == "square":
        side = size or 6
        return (
            f'<rect x="{at[0] - side / 2:.1f}" y="{at[1] - side / 2:.1f}" width="{side:g}" height="{side:g}" '
            f'fill="{colour(fill)}" stroke="{stroke}" stroke-width="{width:g}"/>'
        )
    return (
        f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{(size or 6) / 2:g}" fill="{colour(fill)}" stroke="{stroke}" '
        f'stroke-width="{width:g}"/>'
    )


def _each(value: Any, place: int) -> Any:
    return value[place] if isinstance(value, list) else value


def _bars(trace: Json, axes: Axes) -> list[str]:
    x, y = axes.of(trace, "x"), axes.of(trace, "y")
    marker, parts = trace["marker"], []
    thick = abs(y.at(1) - y.at(0)) * trace.get("width", 0.5)
    for place, (size, name) in enumerate(zip(trace["x"], trace["y"], strict=True)):
        middle, start, end = y.at(name), x.at(0), x.at(size)
        shape = f'x="{start:.1f}" y="{middle - thick / 2:.1f}" width="{max(end - start, 0):.1f}" height="{thick:.1f}"'
        parts.append(f'<rect {shape} fill="{colour(_each(marker["color"], place))}"/>')
        if _each(marker.get("pattern", {}).get("shape"), place):
            parts.append(f'<rect {shape} fill="url(#hatch)" opacity="0.45"/>')
        words = str(_each(trace.get("text"), place) or "")
        if words and end - start > len(words) * LETTER + 12:
            parts.append(text(start + 6, middle + 4, words, weight=500, fill="var(--surface)"))
        elif words:
            parts.append(text(end + 5, middle + 4, words, weight=500))
    return parts


def _note(one: Json, axes: Axes) -> str:
    """Where plotly would put it: about its point, moved by its shift, which grows upwards."""
    font = one.get("font", {})
    size = font.get("size", 12)
    rows = str(one["text"]).split("<br>")
    x = axes.x(one["x"], one.get("xref", "x")) + one.get("xshift", 0)
    y = axes.y(one["y"], one.get("yref", "y")) - one.get("yshift", 0)
    lift = {"bottom": -0.3, "top": 1.0}.get(one.get("yanchor", "middle"), 0.35)
    anchor = ANCHORS.get(one.get("xanchor", "center"), "middle")
    fill = font.get("color", "var(--text-2)")
    return "".join(
        text(x, y + size * lift + place * LINE_PX, words, anchor=anchor, size=size, fill=fill)
        for place, words in enumerate(rows)
    )
