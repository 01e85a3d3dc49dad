"""Two grids beside each other: the change of each cell with its interval, and that of the whole mix at one setting.

Only what is alike in every field of the key (compare_key) may be put down to chance or to what a person changed; unlike
grids may stand together under the list of what differs, and nothing is said of causes then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Protocol

import msgspec

from benchmarks.engine.summary_types import ClassSummary
from benchmarks.stats import ratios
from benchmarks.stats.estimates import Estimate, Interval
from benchmarks.stats.per_cent import per_cent
from benchmarks.stats.shares import share
from capacity.assessment.facts import MIXED, CellFact
from capacity.assessment.latency import seconds

PER_MINUTE = 60.0
BY_BOUNDS = "bounds of one repeat each"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of one cell in one grid: `value` over `repeats`, `n` requests. None and 0 where it was not measured."""

    value: float | None = None
    n: int = 0
    repeats: int = 0


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """From left to right. Relative for rates and times, in shares of 1 for the success share. `clear` only where the
    interval lies wholly on one side of no change."""

    measure: str
    title: str
    unit: str
    left: Side
    right: Side
    change: Interval
    clear: bool
    words: str

    @property
    def left_words(self) -> str:
        return _side_words(self.measure, self.left)

    @property
    def right_words(self) -> str:
        return _side_words(self.measure, self.right)


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One class at one setting. `missing` says in which grid it was not measured; there are no changes then."""

    setting: int
    label: str
    changes: tuple[Change, ...] = ()
    missing: str = ""


def cells(left: Sequence[CellFact], right: Sequence[CellFact], *, names: tuple[str, str]) -> tuple[Cell, ...]:
    """Every class at every setting that either grid has, settings upward. `names` are what the grids are called."""
    one, other = _by_class(left), _by_class(right)
    order = {label: place for place, (_, label) in enumerate(dict.fromkeys([*one, *other]))}
    every = sorted({*one, *other}, key=lambda key: (key[0], order[key[1]]))
    return tuple(_cell(key, one.get(key, []), other.get(key, []), names) for key in every)


class Bounded(Protocol):
    """What stands for a value with its two-sided bounds: a rate of a setting's row, an estimate of one repeat."""

    @property
    def value(self) -> float | None: ...
    @property
    def lower(self) -> float | None: ...
    @property
    def upper(self) -> float | None: ...


def rate_change(left: Bounded, right: Bounded, *, n: tuple[int, int]) -> Change:
    """Of the whole mix at one setting: good requests a minute with the bounds that each grid's own row has."""
    sides = tuple(Side(value=one.value, n=count) for one, count in zip((left, right), n, strict=True))
    change = _by_bounds([left], [right])
    return _change("good_per_min", "Good requests", "a minute", sides, change, ("more", "fewer"))


class _Run(msgspec.Struct, frozen=True):
    """One repeat of one class."""

    part: ClassSummary
    window_s: float


def _by_class(facts: Sequence[CellFact]) -> dict[tuple[int, str], list[_Run]]:
    """(setting, class) -> its repeats; planned cells that have no summary stand there too, without any."""
    found: dict[tuple[int, str], list[_Run]] = {}
    for cell in facts:
        if cell.summary is None:
            found.setdefault((cell.setting, "the mix" if cell.class_name == MIXED else cell.class_name), [])
            continue
        for part in cell.summary.classes:
            label = f"{part.class_name} in the mix" if cell.class_name == MIXED else part.class_name
            found.setdefault((cell.setting, label), []).append(_Run(part, cell.summary.window_s))
    return found


def _cell(key: tuple[int, str], left: Sequence[_Run], right: Sequence[_Run], names: tuple[str, str]) -> Cell:
    lacking = [name for name, runs in zip(names, (left, right), strict=True) if not runs]
    if lacking:
        return Cell(setting=key[0], label=key[1], missing=f"Not measured in {' and '.join(lacking)}.")
    changes = (_rate(left, right), _time("p95", left, right), _time("p50", left, right), _success(left, right))
    return Cell(setting=key[0], label=key[1], changes=changes)


def _rate(left: Sequence[_Run], right: Sequence[_Run]) -> Change:
    """Good requests a minute. Of single repeats the counts alone say how far chance goes."""
    rates = tuple(
        [run.part.good.hits / run.window_s * PER_MINUTE for run in side if run.window_s > 0] for side in (left, right)
    )
    sides = tuple(
        Side(value=fmean(r) if r else None, n=_n(s), repeats=len(r)) for r, s in zip(rates, (left, right), strict=True)
    )
    change = ratios.relative_change(rates[1], rates[0])
    if change.value is not None and change.lower is None and fmean(rates[0]) > 0:
        hits = tuple(sum(run.part.good.hits for run in side) for side in (right, left))
        found = ratios.paired_ratio([fmean(rates[1])], [fmean(rates[0])], counts=(hits[0], hits[1]))
        change = _less_one(found)
    return _change("good_per_min", "Good requests", "a minute", sides, change, ("more", "fewer"))


def _less_one(ratio: Interval) -> Interval:
    lower, value, upper = (None if v is None else v - 1 for v in (ratio.lower, ratio.value, ratio.upper))
    return Interval(value=value, lower=lower, upper=upper, n=ratio.n, how=ratio.how)


def _time(name: str, left: Sequence[_Run], right: Sequence[_Run]) -> Change:
    """A percentile of end to end, failed requests at infinity. Of single repeats by their order-statistic bounds, else by
    the spread of the repeats."""
    found = tuple([_estimate(run, name) for run in side] for side in (left, right))
    values = tuple([e.value for e in side if e.value is not None] for side in found)
    sides = tuple(
        Side(value=fmean(v) if v and len(v) == len(s) else None, n=_n(s), repeats=len(v))
        for v, s in zip(values, (left, right), strict=True)
    )
    if any(one.value is None for one in sides):
        change = Interval(n=0, how=ratios.NO_VALUE)
    elif min(len(side) for side in values) >= 2:
        change = ratios.relative_change(values[1], values[0])
    else:
        change = _by_bounds(found[0], found[1])
    return _change(f"e2e_{name}_s", f"{name} end to end", "s", sides, change, ("slower", "faster"))


def _estimate(run: _Run, name: str) -> Estimate:
    found: Estimate = getattr(run.part.e2e_s, name)
    return found


def _by_bounds(left: Sequence[Bounded], right: Sequence[Bounded]) -> Interval:
    """On the scale of logarithms, each side with the widest bounds of its repeats."""
    one, other = _on_logs(left), _on_logs(right)
    found = ratios.of_bounds(other, one)
    lower, value, upper = (None if v is None else math.exp(v) - 1 for v in (found.lower, found.value, found.upper))
    return Interval(value=value, lower=lower, upper=upper, n=found.n, how=BY_BOUNDS)


def _on_logs(side: Sequence[Bounded]) -> Interval:
    def log(value: float | None) -> float | None:
        return math.log(value) if value is not None and 0 < value < math.inf else None

    values = [log(e.value) for e in side]
    known = [v for v in values if v is not None]
    if len(known) < len(side):
        return Interval(n=len(side))
    lower, upper = [log(e.lower) for e in side], [log(e.upper) for e in side]
    return Interval(
        value=fmean(known),
        lower=None if None in lower else min(v for v in lower if v is not None),
        upper=None if None in upper else max(v for v in upper if v is not None),
        n=len(side),
    )


def _success(left: Sequence[_Run], right: Sequence[_Run]) -> Change:
    """The share of scheduled requests that succeeded, pooled over the repeats: difference of two shares by their Wilson
    bounds (Newcombe 1998)."""
    pooled = [share(sum(run.part.success.hits for run in side), _n(side)) for side in (left, right)]
    sides = tuple(
        Side(value=one.value, n=one.n, repeats=len(side)) for one, side in zip(pooled, (left, right), strict=True)
    )
    told = [Interval(value=one.value, lower=one.lower, upper=one.upper, n=one.n) for one in pooled]
    return _change(
        "success_share", "Success share", "share", sides, ratios.of_bounds(told[1], told[0]), ("higher", "lower")
    )


def _change(
    measure: str, title: str, unit: str, sides: Sequence[Side], change: Interval, verbs: tuple[str, str]
) -> Change:
    clear = ratios.clear(change)
    points = measure == "success_share"
    return Change(
        measure=measure, title=title, unit=unit, left=sides[0], right=sides[1], change=change, clear=clear,
        words=_said(sides, change, verbs, clear=clear, points=points),
    )  # fmt: skip


def _said(sides: Sequence[Side], change: Interval, verbs: tuple[str, str], *, clear: bool, points: bool) -> str:
    """ "12 % faster (8 to 16 %)", or that there is no clear difference, and by what it cannot be told."""
    unit = "points" if points else "%"
    if any(side.value is not None and math.isinf(side.value) for side in sides):
        return "not comparable: it falls among failed requests"
    if any(side.value is None for side in sides):
        return "not comparable: too few requests"
    if change.value is None:
        return "no clear difference: both are 0" if sides[0].value == sides[1].value else "not comparable: one is 0"
    if change.lower is None and change.upper is None:
        why = change.how if change.how == ratios.ONE_REPEAT else "too few requests for bounds"
        return f"no clear difference: {why}"
    if not clear and (change.lower is None or change.upper is None):
        return "no clear difference: too few requests for both bounds"
    if not clear:
        low, high = (_number(end, sign=True) for end in (change.lower, change.upper))
        return f"no clear difference ({low} to {high} {unit})"
    verb = verbs[0] if change.value > 0 else verbs[1]
    near, far = sorted((_size(change.lower), _size(change.upper)))
    ends = f"at least {_number(near)}" if math.isinf(far) else f"{_number(near)} to {_number(far)}"
    return f"{_number(abs(change.value))} {unit} {verb} ({ends} {unit})"


def _side_words(measure: str, side: Side) -> str:
    """ "0.45 s, n = 120 in 3 repeats"."""
    times = f" in {side.repeats} repeats" if side.repeats > 1 else ""
    return f"{_value_words(measure, side.value)}, n = {side.n}{times}"


def _value_words(measure: str, value: float | None) -> str:
    if value is None:
        return "too few"
    if math.isinf(value):
        return "among failures"
    if measure == "success_share":
        return per_cent(value, 1)
    return f"{value:,.1f}" if measure == "good_per_min" else seconds(value)


def _size(value: float | None) -> float:
    return math.inf if value is None else abs(value)


def _number(value: float | None, *, sign: bool = False) -> str:
    """A share as a percentage: one decimal below 10, none above; an end that nobody knows is said."""
    if value is None or math.isinf(value):
        return "no bound"
    percent = value * 100
    text = f"{percent:,.1f}" if abs(percent) < 9.95 else f"{percent:.0f}"
    return f"+{text}" if sign and percent > 0 else text.replace("-", "−")


def _n(side: Sequence[_Run]) -> int:
    return sum(run.part.scheduled for run in side)
