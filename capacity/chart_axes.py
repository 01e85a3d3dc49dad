"""The axes of a plotly layout as places on paper: values to pixels, ticks, frames and titles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
Draw = Callable[..., str]
STEPS = (1, 2, 2.5, 5, 10)
GRID, AXIS = "var(--grid)", "var(--axis)"


@dataclass(frozen=True, slots=True)
class Scale:
    """Values `low` to `high`, or the names of `categories` by their place, laid from pixel `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    categories: tuple[str, ...] = ()

    def at(self, value: Any) -> float:
        number = float(self.categories.index(value)) if isinstance(value, str) else float(value)
        return self.start + (number - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


class Axes:
    """All axes of one layout: `x`, `y`, `x2`, `y2` and so on by their short names."""

    def __init__(self, layout: Json, *, width: float, top: float, height: float, margin: Mapping[str, float]) -> None:
        self._left, self._right = float(margin["l"]) + 12, width - margin["r"]
        self._top, self._bottom = top + margin["t"], top + height - margin["b"]
        self._axes = {_short(name): made for name, made in layout.items() if name[:5] in ("xaxis", "yaxis")}
        self._scales = {name: self._scale(name, made) for name, made in self._axes.items()}

    def of(self, trace: Json, kind: str) -> Scale:
        return self._scales[trace.get(f"{kind}axis", kind)]

    def x(self, value: Any, ref: str) -> float:
        return self._left + value * (self._right - self._left) if ref == "paper" else self._scales[ref].at(value)

    def y(self, value: Any, ref: str) -> float:
        return self._bottom - value * (self._bottom - self._top) if ref == "paper" else self._scales[ref].at(value)

    def inside(self, trace: Json) -> tuple[float, float]:
        """Left and right end of a trace's panel."""
        scale = self.of(trace, "x")
        return scale.start, scale.end

    def frame(self, text: Draw, line: Draw) -> list[str]:
        parts = []
        for name, made in self._axes.items():
            parts += self._sideways(name, made, text, line) if name[0] == "y" else self._along(name, made, text, line)
        return parts

    def _scale(self, name: str, made: Json) -> Scale:
        low, high = made.get("domain", (0.0, 1.0))
        ends = (
            (self.x(low, "paper"), self.x(high, "paper"))
            if name[0] == "x"
            else (self.y(low, "paper"), self.y(high, "paper"))
        )
        first, last = made["range"]
        return Scale(first, last, *ends, categories=tuple(str(one) for one in made.get("categoryarray", ())))

    def _span(self, name: str, made: Json) -> tuple[float, float]:
        """The pixels over which the axis across this one runs."""
        across = made.get("anchor", "y" if name[0] == "x" else "x")
        scale = self._scales[across]
        return scale.start, scale.end

    def _along(self, name: str, made: Json, text: Draw, line: Draw) -> list[str]:
        scale = self._scales[name]
        foot, head = self._span(name, made)
        parts = []
        for value, words in ticks(made):
            at = scale.at(value)
            if made.get("showgrid", True):
                parts.append(line(at, foot, at, head, stroke=GRID))
            parts += [
                line(at, foot, at, foot + 4, stroke=AXIS),
                text(at, foot + 17, words, anchor="middle", fill="var(--text-3)"),
            ]
        parts.append(line(scale.start, foot, scale.end, foot, stroke=AXIS))
        title = made.get("title", {}).get("text", "")
        return [*parts, text((scale.start + scale.end) / 2, foot + 36, title, anchor="middle")] if title else parts

    def _sideways(self, name: str, made: Json, text: Draw, line: Draw) -> list[str]:
        scale = self._scales[name]
        left, right = self._span(name, made)
        parts = []
        for value, words in ticks(made):
            at = scale.at(value)
            if made.get("showgrid", True):
                parts.append(line(left, at, right, at, stroke=GRID))
            parts.append(text(left - 7, at + 4, words, anchor="end", fill="var(--text-3)"))
        return [*parts, line(left, scale.start, left, scale.end, stroke=AXIS)]


def ticks(made: Json) -> list[tuple[Any, str]]:
    """(value, its words): the names of a category axis, the given ones, or round numbers."""
    if made.get("categoryarray") is not None:
        return [(str(one), str(one)) for one in made["categoryarray"]]
    values: Sequence[float] = made.get("tickvals") or _round(*made["range"], most=made.get("nticks", 6))
    return [(value, f"{value:,.10g}") for value in values]


def _round(low: float, high: float, *, most: int) -> list[float]:
    rough = (high - low) / max(most, 2) or 1.0
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * scale for factor in STEPS if factor * scale >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(place * step, 10) for place in range(first, math.floor(high / step + 1e-9) + 1)]


def _short(name: str) -> str:
    """ "yaxis2" is "y2" to traces, shapes and notes."""
    return name[0] + name[5:]
