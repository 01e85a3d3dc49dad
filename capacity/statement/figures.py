"""The two charts of the page as SVG, drawn from the document alone: requests per minute against p95 over objective, and
peak VRAM. Colour never carries meaning alone: failing points are hollow, bars past their limit are hatched, the stated
setting is named. Lengths are PDF points."""

from __future__ import annotations

import itertools
import math
from html import escape

import msgspec

from capacity.statement import words
from capacity.statement.document import Document, Row
from capacity.statement.phrases import GIB

WIDTH, HEIGHT = 504.0, 158.0
INK, SOFT, GRID, LINE, BAD, FILL, BAR, GHOST = (
    "#14181f",
    "#475160",
    "#e2e6ec",
    "#7c8696",
    "#b3261e",
    "#163f96",
    "#4a6fab",
    "#98a3b3",
)
_LETTER = 4.3


class _Box(msgspec.Struct, frozen=True):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class _Axis(msgspec.Struct, frozen=True):
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


class _Point(msgspec.Struct, frozen=True, kw_only=True):
    """One setting in the trade-off chart: rates per minute, ratio of p95 to objective with its upper bound."""

    setting: int
    rate: float
    lower: float
    upper: float
    every: float | None
    ratio: float
    bound: float
    chosen: bool
    failed: bool


def charts_svg(document: Document) -> str:
    """Both charts side by side; only the first, wider, where memory is not applicable."""
    memory = words.has_memory(document)
    parts = _trade_off(document, 352.0 if memory else WIDTH)
    if memory:
        parts += _memory(document)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
    hatch = (
        '<defs><pattern id="h" width="4" height="4" patternUnits="userSpaceOnUse">'
        f'<rect width="4" height="4" fill="{BAR}"/>'
        '<path d="M0 4L4 0" stroke="#ffffff" stroke-width="1"/></pattern></defs>'
    )
    return head + hatch + "".join(parts) + "</svg>"


def _trade_off(document: Document, right: float) -> list[str]:
    points = _points(document)
    top = max([1.0, *(max(point.upper, point.every or 0.0) for point in points)])
    widest = max([1.25, *(point.bound for point in points)])
    narrow = min([0.75, *(point.ratio for point in points)])
    x = _axis(narrow * 0.85, min(widest * 1.06, 6.0), start=44, end=right - 12)
    y = _axis(0.0, top * 1.12, start=124, end=8)
    parts = _shade(x, y) + _frame(x, y, words.CHART_RATIO, words.CHART_RATE)
    parts += _curves(document, points, x, y)
    missing = [row.setting for row in document.rows if row.setting not in {point.setting for point in points}]
    if missing:
        names = ", ".join(str(setting) for setting in missing)
        parts.append(
            _text(x.end - 4, y.end + 9, f"without a p95, not drawn: {names}", anchor="end", colour=BAD, size=7.2)
        )
    return parts


def _points(document: Document) -> list[_Point]:
    points = []
    for row in document.rows:
        ratio, rate = words.worst_ratio(document, row), row.successful_per_minute
        if ratio is None or rate is None:
            continue
        points.append(
            _Point(
                setting=row.setting,
                rate=rate.value,
                lower=rate.value if rate.lower is None else rate.lower,
                upper=rate.value if rate.upper is None else rate.upper,
                every=row.all_per_minute,
                ratio=ratio,
                bound=_bound(document, row, ratio),
                chosen=row.chosen,
                failed=row.verdict in ("fails", "not tested"),
            )
        )
    return points


def _bound(document: Document, row: Row, ratio: float) -> float:
    """The upper bound of the tail that decides the ratio, over its limit."""
    pairs = zip(document.limits, row.tails, strict=True)
    worst = max(pairs, key=lambda pair: (pair[1].value_s or 0.0) / pair[0].limit_s)
    return max(ratio, (worst[1].bound_s or 0.0) / worst[0].limit_s)


def _axis(low: float, high: float, *, start: float, end: float) -> _Axis:
    """An axis whose ends and ticks are round numbers; 4 to 8 steps."""
    rough = (high - low) / 6
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * scale for factor in (1, 2, 2.5, 5, 10) if factor * scale >= rough)
    first = math.floor(low / step + 1e-9) * step
    last = math.ceil(high / step - 1e-9) * step
    return _Axis(first, last, step, start, end)


def _shade(x: _Axis, y: _Axis) -> list[str]:
    edge = x.at(1.0)
    return [
        f'<rect x="{edge:.2f}" y="{y.end}" width="{x.end - edge:.2f}" height="{y.start - y.end}" fill="#fdf1f0"/>',
        _line(edge, y.start, edge, y.end, BAD, 1.0, dash="4 3"),
        _text(edge + 3, y.start - 5, words.CHART_OBJECTIVE, colour=BAD),
    ]


def _frame(x: _Axis, y: _Axis, x_title: str, y_title: str) -> list[str]:
    parts = []
    for tick in y.ticks():
        parts += [_line(x.start, y.at(tick), x.end, y.at(tick), GRID, 0.5)]
        parts += [_text(x.start - 6, y.at(tick) + 2.8, f"{tick:g}", anchor="end", colour=SOFT)]
    for tick in x.ticks():
        parts += [_line(x.at(tick), y.start, x.at(tick), y.start + 3, LINE, 0.75)]
        parts += [
            _text(x.at(tick), y.start + 12, f"{tick:.2f}" if x.step < 1 else f"{tick:g}", anchor="middle", colour=SOFT)
        ]
    parts += [_line(x.start, y.start, x.end, y.start, LINE, 0.75), _line(x.start, y.start, x.start, y.end, LINE, 0.75)]
    parts.append(_text((x.start + x.end) / 2, y.start + 27, x_title, anchor="middle", colour=SOFT))
    middle = (y.start + y.end) / 2
    parts.append(_text(10, middle, y_title, anchor="middle", colour=SOFT, turn=True))
    return parts


def _curves(document: Document, points: list[_Point], x: _Axis, y: _Axis) -> list[str]:
    every = [(x.at(point.ratio), y.at(point.every)) for point in points if point.every is not None]
    good = [(x.at(point.ratio), y.at(point.rate)) for point in points]
    parts = [_path(every, GHOST, 1.0, dash="2 2"), _path(good, FILL, 1.6)]
    parts += [_dot(at, 2.0, "#ffffff", GHOST, 1.0) for at in every]
    for point, at in zip(points, good, strict=True):
        parts += _whiskers(point, x, y)
        radius = 4.2 if point.chosen else 3.2
        parts.append(_dot(at, radius, "#ffffff" if point.failed else FILL, FILL, 1.4))
    taken = [_Box(px - 5, py - 5, px + 5, py + 5) for px, py in good + every]
    taken += [_Box(px - 1, py - 1, px + 1, py + 1) for px, py in _along(good) + _along(every)]
    taken += [
        _Box(x.at(point.ratio), py - 3, x.at(point.bound), py + 3) for point, (_, py) in zip(points, good, strict=True)
    ]
    for point, at in zip(points, good, strict=True):
        text = words.point_label(document, point.setting) if len(points) < 5 else f"{point.setting}"
        parts.append(_place(text, at, taken, x, y, bold=point.chosen))
    if every and points[-1].every is not None and every[-1][1] < good[-1][1] - 8:
        parts.append(_place(words.CHART_ALL, every[-1], taken, x, y, bold=False, colour=SOFT))
    return parts


def _along(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places on the line, near enough to each other that no label passes between."""
    steps = [place / 24 for place in range(24)]
    pairs = list(itertools.pairwise(points))
    return [(a[0] + (b[0] - a[0]) * step, a[1] + (b[1] - a[1]) * step) for a, b in pairs for step in steps]


def _whiskers(point: _Point, x: _Axis, y: _Axis) -> list[str]:
    px, py = x.at(point.ratio), y.at(point.rate)
    parts = []
    if point.bound > point.ratio:
        end = x.at(point.bound)
        parts += [_line(px, py, end, py, FILL, 1.0), _line(end, py - 2.5, end, py + 2.5, FILL, 1.0)]
    if point.upper > point.lower:
        low, high = y.at(point.lower), y.at(point.upper)
        parts += [_line(px, low, px, high, FILL, 1.0)]
        parts += [_line(px - 2.5, level, px + 2.5, level, FILL, 1.0) for level in (low, high)]
    return parts


def _place(
    text: str, at: tuple[float, float], taken: list[_Box], x: _Axis, y: _Axis, *, bold: bool, colour: str = INK
) -> str:
    """A label beside its point, at the first place that meets no other mark; the place is then taken."""
    px, py = at
    width = len(text) * _LETTER
    places = [
        (8, 12, "start"),
        (-8, -6, "end"),
        (8, -6, "start"),
        (-8, 12, "end"),
        (0, 17, "middle"),
        (0, -10, "middle"),
    ]
    places += [(0, 26, "middle"), (0, -19, "middle")]
    for dx, dy, anchor in places:
        left = px + dx - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        box = _Box(left, py + dy - 6, left + width, py + dy + 2)
        inside = box.left > x.start and box.right < x.end and box.top > y.end and box.bottom < y.start
        if inside and not any(box.meets(other) for other in taken):
            break
    taken.append(box)
    return _text(px + dx, py + dy, text, anchor=anchor, colour=colour, weight=600 if bold else 400)


def _memory(document: Document) -> list[str]:
    limit = None if document.memory.limit_bytes is None else document.memory.limit_bytes / GIB
    peaks = [row.peak_vram_bytes / GIB for row in document.rows if isinstance(row.peak_vram_bytes, int)]
    start, end, top, bottom = 400.0, WIDTH - 6, 8.0, 124.0
    axis = _axis(0.0, max([*peaks, limit or 0.0]) * 1.04, start=start, end=end)
    slot = (bottom - top) / len(document.rows)
    parts = []
    for tick in axis.ticks()[:: 2 if len(axis.ticks()) > 5 else 1]:
        parts.append(_line(axis.at(tick), top, axis.at(tick), bottom, GRID, 0.5))
        parts.append(_text(axis.at(tick), bottom + 12, f"{tick:g}", anchor="middle", colour=SOFT))
    for place, row in enumerate(document.rows):
        parts += _bar(row, axis, top + slot * (place + 0.5), min(13.0, slot * 0.62), limit)
    if limit is not None:
        parts.append(_line(axis.at(limit), top, axis.at(limit), bottom, BAD, 1.0, dash="4 3"))
    title = words.CHART_MEMORY + ("" if limit is None else f", limit {limit:.3g}")
    parts.append(_text((start + end) / 2, bottom + 27, title, anchor="middle", colour=SOFT))
    parts.append(_line(start, top, start, bottom, LINE, 0.75))
    parts.append(
        _text(374, (top + bottom) / 2, document.setting.term.capitalize(), anchor="middle", colour=SOFT, turn=True)
    )
    return parts


def _bar(row: Row, axis: _Axis, middle: float, thick: float, limit: float | None) -> list[str]:
    label = _text(
        axis.start - 5, middle + 2.8, f"{row.setting}", anchor="end", colour=SOFT, weight=600 if row.chosen else 400
    )
    if not isinstance(row.peak_vram_bytes, int):
        return [label, _text(axis.start + 4, middle + 2.8, row.peak_vram_bytes, colour=SOFT)]
    peak = row.peak_vram_bytes / GIB
    past = limit is not None and peak > limit
    fill = "url(#h)" if past else FILL if row.chosen else BAR
    width = axis.at(peak) - axis.start
    rect = (
        f'<rect x="{axis.start}" y="{middle - thick / 2:.2f}" width="{width:.2f}" height="{thick:.2f}" fill="{fill}"/>'
    )
    text = f"{peak:.1f}"
    if width < len(text) * _LETTER + 10:
        return [label, rect, _text(axis.start + width + 3, middle + 2.8, text)]
    back = (
        f'<rect x="{axis.start}" y="{middle - thick / 2:.2f}" width="26" height="{thick:.2f}" fill="{BAR}"/>'
        if past
        else ""
    )
    return [label, rect, back, _text(axis.start + 4, middle + 2.8, text, colour="#ffffff")]


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = INK,
    size: float = 8.0,
    weight: int = 400,
    turn: bool = False,
) -> str:
    turned = f' transform="rotate(-90 {x:.2f} {y:.2f})"' if turn else ""
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" font-family="Inter" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}"{turned}>{escape(text)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float, *, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    at = f'x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
    return f'<line {at} stroke="{colour}" stroke-width="{width}"{dashed}/>'


def _path(points: list[tuple[float, float]], colour: str, width: float, *, dash: str = "") -> str:
    if len(points) < 2:
        return ""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    along = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    pen = f'stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"{dashed}'
    return f'<polyline points="{along}" fill="none" {pen}/>'


def _dot(at: tuple[float, float], radius: float, fill: str, edge: str, width: float) -> str:
    return (
        f'<circle cx="{at[0]:.2f}" cy="{at[1]:.2f}" r="{radius}" fill="{fill}" stroke="{edge}" stroke-width="{width}"/>'
    )
