"""The pieces that every figure is made of: axes, notes, whiskers, limit lines. Plain dicts that plotly takes."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from capacity.queries import Provenance

GIB = 1024**3
FONT = {"family": "Inter, system-ui, sans-serif", "size": 12, "color": "var(--text-2)"}
MAIN, GHOST, LIMIT = "var(--k-median)", "var(--ghost)", "var(--limit)"
DASH = {"color": LIMIT, "width": 1.5, "dash": "6px,4px"}


def whisker(triples: Sequence[tuple[float | None, float | None, float | None]]) -> dict[str, Any]:
    """Asymmetric error bars; no whisker where a bound is missing or infinite."""
    up, down = [], []
    for value, lower, upper in triples:
        up.append(upper - value if upper is not None and value is not None and isfinite(upper - value) else None)
        down.append(value - lower if lower is not None and value is not None and isfinite(value - lower) else None)
    return {
        "type": "data",
        "symmetric": False,
        "array": up,
        "arrayminus": down,
        "thickness": 1.25,
        "width": 4,
        "color": MAIN,
    }


def finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def conditions_note(found: Provenance) -> dict[str, Any]:
    """Hardware, room, power and date, below the axes at the right end."""
    return note(
        1, 0, "<br>".join(found.lines), name="conditions", xref="paper", yref="paper", xanchor="right", yanchor="top",
        yshift=-48, align="right", font={"size": 11, "color": "var(--text-3)"},
    )  # fmt: skip


def axis(title: str | None = None, **more: Any) -> dict[str, Any]:
    built: dict[str, Any] = {
        "showgrid": True, "gridcolor": "var(--grid)", "gridwidth": 1, "zeroline": False, "showline": True,
        "linecolor": "var(--axis)", "linewidth": 1, "ticks": "outside", "ticklen": 4, "tickcolor": "var(--axis)",
        "tickfont": {"size": 12, "color": "var(--text-3)"}, "fixedrange": True,
    }  # fmt: skip
    if title:
        built["title"] = {"text": title, "font": {"size": 12, "color": "var(--text-2)"}, "standoff": 8}
    return built | more


def layout(**more: Any) -> dict[str, Any]:
    clear = "rgba(0,0,0,0)"
    return {
        "template": None, "font": FONT, "paper_bgcolor": clear, "plot_bgcolor": clear, "showlegend": False,
        "hovermode": "closest", "dragmode": False,
        "hoverlabel": {
            "bgcolor": "var(--surface)", "bordercolor": "var(--line-2)", "align": "left",
            "font": {"family": FONT["family"], "size": 12, "color": "var(--text)"},
        },
    } | more  # fmt: skip


def note(x: Any, y: Any, text: str, **more: Any) -> dict[str, Any]:
    return {"x": x, "y": y, "text": text, "showarrow": False, "font": {"size": 12, "color": "var(--text-2)"}} | more


def axis_name(text: str, *, x: float = 0, left: int) -> dict[str, Any]:
    """A y title flat above its axis."""
    return note(x, 1, text, xref="paper", yref="paper", xanchor="left", yanchor="bottom", xshift=left, yshift=8)


def vertical(x: float, axis: str) -> dict[str, Any]:
    return {"type": "line", "xref": axis, "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": DASH}


def horizontal(y: float) -> dict[str, Any]:
    return {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": DASH}


def shade(right: float) -> dict[str, Any]:
    return {
        "type": "rect", "xref": "x", "yref": "paper", "x0": 1, "x1": right, "y0": 0, "y1": 1, "layer": "below",
        "fillcolor": "var(--bad-soft)", "opacity": 0.45, "line": {"width": 0},
    }  # fmt: skip


def line(x: list[str], y: Sequence[float | None], name: str, stroke: dict[str, Any], *, size: int) -> dict[str, Any]:
    return {
        "x": x, "y": [finite(value) for value in y], "mode": "lines+markers", "name": name, "line": stroke,
        "marker": {"size": size, "color": stroke["color"]}, "hovertemplate": f"{name} %{{y:.3g}} s<extra></extra>",
    }  # fmt: skip
