"""Small pieces of SVG for the statement's charts: text, lines, marks, an axis with round ticks. Lengths are points."""

from __future__ import annotations

import math
from html import escape

import msgspec

HEIGHT, PLOT_TOP, PLOT_END = 162.0, 18.0, 132.0
"""Of one chart, and where its plot begins and ends; titles and ticks stand around it."""
INK, SOFT, GRID, LINE, BAD = "#14181f", "#475160", "#e2e6ec", "#7c8696", "#b3261e"
FILL, BAR, GHOST = "#163f96", "#4a6fab", "#98a3b3"
LETTER = 4.3
"""Width of a letter of the charts' text, near enough to keep labels apart."""


class Box(msgspec.Struct, frozen=True):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class Axis(msgspec.Struct, frozen=True):
    """Values `low` to `high` laid from pixel `start` to `end`, with ticks every `step`."""

    low: float
    high: float
    step: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        count = round((self.high - self.low) / self.step)
        return [self.low + place * self.step for place in range(count + 1)]


def axis(low: float, high: float, *, start: float, end: float) -> Axis:
    """An axis whose ends and ticks are round numbers; 4 to 8 steps."""
    rough = (high - low) / 6
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * scale for factor in (1, 2, 2.5, 5, 10) if factor * scale >= rough)
    first = math.floor(low / step + 1e-9) * step
    last = math.ceil(high / step - 1e-9) * step
    return Axis(first, last, step, start, end)


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    colour: str = INK,
    size: float = 8.0,
    weight: int = 400,
) -> str:
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" font-family="Inter" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float, *, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    at = f'x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
    return f'<line {at} stroke="{colour}" stroke-width="{width}"{dashed}/>'


def path(points: list[tuple[float, float]], colour: str, width: float, *, dash: str = "") -> str:
    if len(points) < 2:
        return ""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    along = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    pen = f'stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"{dashed}'
    return f'<polyline points="{along}" fill="none" {pen}/>'


def dot(at: tuple[float, float], radius: float, fill: str, edge: str, width: float) -> str:
    return (
        f'<circle cx="{at[0]:.2f}" cy="{at[1]:.2f}" r="{radius}" fill="{fill}" stroke="{edge}" stroke-width="{width}"/>'
    )


def diamond(at: tuple[float, float], radius: float, fill: str, edge: str, width: float) -> str:
    """A mark that no dot is taken for, on any printer."""
    x, y = at
    corners = f"{x:.2f},{y - radius:.2f} {x + radius:.2f},{y:.2f} {x:.2f},{y + radius:.2f} {x - radius:.2f},{y:.2f}"
    return f'<polygon points="{corners}" fill="{fill}" stroke="{edge}" stroke-width="{width}"/>'


def rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    """A filled box."""
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{fill}"/>'
