"""The trade-off chart: successful and all requests a minute against p95 over objective, each setting a point."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from capacity.statement import svg
from capacity.statement.document import Claim, Document, Rate, Tail, open_loop
from capacity.statement.result_table import point_label, worst_ratio
from capacity.statement.sentences import Sentences
from capacity.statement.svg import BAD, FILL, GHOST, GRID, INK, LETTER, LINE, PLOT_END, PLOT_TOP, SOFT, Axis, Box

_MANY = 5
"""From so many settings on a point is named by its number alone."""
_SPOTS = (
    (8, 12, "start"), (-8, -6, "end"), (8, -6, "start"), (-8, 12, "end"), (0, 17, "middle"), (0, -10, "middle"),
    (0, 26, "middle"), (0, -19, "middle"), (14, 22, "start"), (-14, -16, "end"), (14, -16, "start"), (-14, 22, "end"),
)  # fmt: skip


class _Point(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: rates per minute, ratio of p95 to objective with its upper bound."""

    name: str
    rate: float
    lower: float
    upper: float
    every: float | None
    ratio: float
    bound: float
    stated: bool
    failed: bool = False


def trade_off(document: Document, right: float, say: Sentences) -> list[str]:
    """The chart from 0 to `right`."""
    points, confirmed = _points(document, say), _confirmed(document, say)
    every = [*points, *([confirmed] if confirmed else [])]
    top = max([1.0, *(max(point.upper, point.every or 0.0) for point in every)])
    widest = max([1.25, *(point.bound for point in every)])
    least = min([0.75, *(point.ratio for point in every)])
    x = svg.axis(least * 0.85, min(widest * 1.06, 6.0), start=30, end=right - 12)
    y = svg.axis(0.0, top * 1.12, start=PLOT_END, end=PLOT_TOP)
    parts = _shade(x, y, say) + _frame(x, y, say)
    parts += _curves(points, confirmed, x, y, say)
    drawn = {point.name for point in points}
    missing = [f"{row.setting}" for row in document.rows if _name(document, row.setting, say) not in drawn]
    if missing:
        text = say("chart.missing", settings=", ".join(missing))
        parts.append(svg.text(x.end - 4, y.end + 9, text, anchor="end", colour=BAD, size=7.2))
    return parts


def _points(document: Document, say: Sentences) -> list[_Point]:
    points = []
    for row in document.rows:
        ratio, rate = worst_ratio(document, row.tails), row.successful_per_minute
        if ratio is None or rate is None:
            continue
        failed = row.verdict in ("fails", "not tested")
        stated = row.chosen and open_loop(document) is None
        name, bound = _name(document, row.setting, say), _bound(document, row.tails, ratio)
        points.append(_point(name, rate, row.all_per_minute, ratio, bound, stated=stated, failed=failed))
    return points


def _confirmed(document: Document, say: Sentences) -> _Point | None:
    """The open loop, where every claim has a time to draw."""
    one = open_loop(document)
    ratio = None if one is None else worst_ratio(document, one.claims)
    if one is None or ratio is None:
        return None
    name, bound = (
        say("chart.confirmed", setting=f"{document.setting.value}"),
        _bound(document, one.claims, ratio),
    )
    return _point(name, one.successful_per_minute, None, ratio, bound, stated=True)


def _point(
    name: str, rate: Rate, every: float | None, ratio: float, bound: float, *, stated: bool, failed: bool = False
) -> _Point:
    return _Point(
        name=name,
        rate=rate.value,
        lower=rate.value if rate.lower is None else rate.lower,
        upper=rate.value if rate.upper is None else rate.upper,
        every=every,
        ratio=ratio,
        bound=bound,
        stated=stated,
        failed=failed,
    )


def _name(document: Document, setting: int, say: Sentences) -> str:
    return point_label(document, setting, say) if len(document.rows) < _MANY else f"{setting}"


def _bound(document: Document, tails: Sequence[Tail | Claim], ratio: float) -> float:
    """The upper bound of the tail that decides the ratio, over its limit."""
    pairs = zip(document.limits, tails, strict=True)
    worst = max(pairs, key=lambda pair: (pair[1].value_s or 0.0) / pair[0].limit_s)
    return max(ratio, (worst[1].bound_s or 0.0) / worst[0].limit_s)


def _shade(x: Axis, y: Axis, say: Sentences) -> list[str]:
    edge = x.at(1.0)
    return [
        svg.rect(edge, y.end, x.end - edge, y.start - y.end, "#fdf1f0"),
        svg.line(edge, y.start, edge, y.end, BAD, 1.0, dash="4 3"),
        svg.text(edge + 3, y.start - 5, say("chart.objective"), colour=BAD),
    ]


def _frame(x: Axis, y: Axis, say: Sentences) -> list[str]:
    parts = []
    for tick in y.ticks():
        parts.append(svg.line(x.start, y.at(tick), x.end, y.at(tick), GRID, 0.5))
        parts.append(svg.text(x.start - 6, y.at(tick) + 2.8, f"{round(tick, 6):,g}", anchor="end", colour=SOFT))
    for tick in x.ticks():
        words = f"{tick:.2f}" if x.step < 1 else f"{tick:g}"
        parts.append(svg.line(x.at(tick), y.start, x.at(tick), y.start + 3, LINE, 0.75))
        parts.append(svg.text(x.at(tick), y.start + 12, words, anchor="middle", colour=SOFT))
    parts.append(svg.line(x.start, y.start, x.end, y.start, LINE, 0.75))
    parts.append(svg.line(x.start, y.start, x.start, y.end, LINE, 0.75))
    parts.append(svg.text((x.start + x.end) / 2, y.start + 26, say("chart.ratio"), anchor="middle", colour=SOFT))
    parts.append(svg.text(0, y.end - 8, say("chart.rate"), colour=SOFT))
    return parts


def _curves(points: list[_Point], confirmed: _Point | None, x: Axis, y: Axis, say: Sentences) -> list[str]:
    every = [(x.at(point.ratio), y.at(point.every)) for point in points if point.every is not None]
    good = [(x.at(point.ratio), y.at(point.rate)) for point in points]
    parts = [svg.path(every, GHOST, 1.0, dash="2 2"), svg.path(good, FILL, 1.6)]
    parts += [svg.dot(at, 2.0, "#ffffff", GHOST, 1.0) for at in every]
    for point, at in zip(points, good, strict=True):
        parts += _whiskers(point, x, y)
        parts.append(svg.dot(at, 4.2 if point.stated else 3.2, "#ffffff" if point.failed else FILL, FILL, 1.4))
    named = [*zip(points, good, strict=True)]
    if confirmed is not None:
        at = (x.at(confirmed.ratio), y.at(confirmed.rate))
        parts += [*_whiskers(confirmed, x, y), svg.diamond(at, 5.6, FILL, "#ffffff", 1.0)]
        named.append((confirmed, at))
    taken = _marks(named, every, good, x)
    for point, at in reversed(named):
        parts.append(_label(point.name, at, taken, x, y, bold=point.stated))
    if every and points[-1].every is not None and every[-1][1] < good[-1][1] - 8:
        parts.append(_label(say("chart.all"), every[-1], taken, x, y, bold=False, colour=SOFT))
    return parts


def _marks(
    named: list[tuple[_Point, tuple[float, float]]], every: list[tuple[float, float]], good: list[tuple[float, float]], x: Axis
) -> list[Box]:  # fmt: skip
    """Where no label may stand: points, lines and whiskers."""
    taken = [Box(px - 5, py - 5, px + 5, py + 5) for px, py in [*(at for _, at in named), *every]]
    taken += [Box(px - 1, py - 1, px + 1, py + 1) for px, py in _along(good) + _along(every)]
    taken.append(Box(x.at(1.0) - 1, 0.0, x.at(1.0) + 1, PLOT_END))
    return taken + [Box(px, py - 3, x.at(point.bound), py + 3) for point, (px, py) in named]


def _along(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places on the line, near enough to each other that no label passes between."""
    steps = [place / 24 for place in range(24)]
    pairs = list(itertools.pairwise(points))
    return [(a[0] + (b[0] - a[0]) * step, a[1] + (b[1] - a[1]) * step) for a, b in pairs for step in steps]


def _whiskers(point: _Point, x: Axis, y: Axis) -> list[str]:
    px, py = x.at(point.ratio), y.at(point.rate)
    parts = []
    if point.bound > point.ratio:
        end = x.at(point.bound)
        parts += [svg.line(px, py, end, py, FILL, 1.0), svg.line(end, py - 2.5, end, py + 2.5, FILL, 1.0)]
    if point.upper > point.lower:
        low, high = y.at(point.lower), y.at(point.upper)
        parts.append(svg.line(px, low, px, high, FILL, 1.0))
        parts += [svg.line(px - 2.5, level, px + 2.5, level, FILL, 1.0) for level in (low, high)]
    return parts


def _label(
    words: str, at: tuple[float, float], taken: list[Box], x: Axis, y: Axis, *, bold: bool, colour: str = INK
) -> str:
    """A label beside its point, at the first place that meets no other mark; the place is then taken."""
    width = len(words) * (LETTER + 0.3 * bold)
    spots = [_spot(at, width, *spot) for spot in _SPOTS]
    inside = [
        one for one in spots
        if one[0].left > x.start and one[0].right < x.end and one[0].top > y.end and one[0].bottom < y.start
    ]  # fmt: skip
    free = [one for one in inside if not any(one[0].meets(other) for other in taken)]
    box, px, py, anchor = (free or inside or spots)[0]
    taken.append(box)
    return svg.text(px, py, words, anchor=anchor, colour=colour, weight=600 if bold else 400)


def _spot(at: tuple[float, float], width: float, dx: int, dy: int, anchor: str) -> tuple[Box, float, float, str]:
    """The box of a label that is set so far from its point, with the place of its letters."""
    px, py = at[0] + dx, at[1] + dy
    left = px - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return Box(left, py - 6, left + width, py + 2), px, py, anchor
