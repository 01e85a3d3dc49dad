"""Length distributions as pictures: bars on a logarithmic scale that all classes of a workload share, and their quantiles.

What is drawn are the lengths that a run draws: each distribution's own quantile function at evenly spaced shares, or the
pairs of a class. In scope: numbers of a picture, in its own units. Not in scope: colours and words.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.engine.lengths import sample
from benchmarks.engine.plan import Distribution
from benchmarks.records.lengths import ClassLengths, Pairs

WIDTH, HEIGHT, BINS = 320.0, 56.0, 32
SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_DRAWN = 999
_STEPS = (1, 2, 5)
_APART = 38.0


@dataclass(frozen=True, slots=True)
class Bar:
    """`share` of the requests has `low` to below `high` tokens; the rest is its place in the picture."""

    x: float
    y: float
    width: float
    height: float
    low: int
    high: int
    share: float


@dataclass(frozen=True, slots=True)
class Shape:
    """The lengths of the prompts, or of the answers, of one class. `quantiles` stand at SHARES; `middle` and `most` are the
    places of p50 and p90."""

    bars: tuple[Bar, ...]
    quantiles: tuple[int, ...]
    middle: float
    most: float


@dataclass(frozen=True, slots=True)
class ClassShapes:
    name: str
    share: float
    prompt: Shape
    output: Shape


@dataclass(frozen=True, slots=True)
class Picture:
    """All classes on one scale: `ticks` are places and tokens."""

    classes: tuple[ClassShapes, ...]
    ticks: tuple[tuple[float, int], ...]


def picture_of(classes: Sequence[ClassLengths]) -> Picture:
    drawn = [(c, _drawn(c.prompt_tokens, c.pairs, 0), _drawn(c.output_tokens, c.pairs, 1)) for c in classes]
    every = [tokens for _c, prompt, output in drawn for tokens in (prompt[0], prompt[-1], output[0], output[-1])]
    scale = _Scale(math.log(min(every)), math.log(max(every) + 1))
    total = sum(c.weight for c in classes)
    return Picture(
        tuple(
            ClassShapes(c.name, c.weight / total, _shape(prompt, scale), _shape(output, scale))
            for c, prompt, output in drawn
        ),
        scale.ticks(),
    )


def _drawn(distribution: Distribution, pairs: Pairs | None, side: int) -> list[int]:
    """Lengths as a run draws them, ascending."""
    if pairs:
        return sorted(max(1, pair[side]) for pair in pairs)
    return [sample(distribution, (number + 0.5) / _DRAWN) for number in range(_DRAWN)]


@dataclass(frozen=True, slots=True)
class _Scale:
    start: float
    end: float

    def at(self, tokens: float) -> float:
        return round((math.log(max(tokens, 1)) - self.start) / (self.end - self.start) * WIDTH, 2)

    def edges(self) -> list[float]:
        step = (self.end - self.start) / BINS
        return [math.exp(self.start + number * step) for number in range(BINS + 1)]

    def ticks(self) -> tuple[tuple[float, int], ...]:
        """Round numbers of tokens, as many as can be read beside each other."""
        found: list[tuple[float, int]] = []
        for power in range(7):
            for step in _STEPS:
                tokens = step * 10**power
                inside = self.start - 1e-9 <= math.log(tokens) <= self.end
                if inside and (not found or self.at(tokens) - found[-1][0] >= _APART):
                    found.append((self.at(tokens), tokens))
        return tuple(found)


def _shape(lengths: Sequence[int], scale: _Scale) -> Shape:
    places = [bisect_right(lengths, edge - 1e-9) for edge in scale.edges()]
    places[0], places[-1] = 0, len(lengths)
    counts = [b - a for a, b in pairwise(places)]
    bars = [
        _bar(scale, (low, high), count / len(lengths), count / max(counts) * HEIGHT)
        for count, (low, high) in zip(counts, pairwise(scale.edges()), strict=True)
        if count
    ]
    quantiles = tuple(lengths[min(len(lengths) - 1, round(share * (len(lengths) - 1)))] for share in SHARES)
    return Shape(tuple(bars), quantiles, scale.at(quantiles[3]), scale.at(quantiles[5]))


def _bar(scale: _Scale, edges: tuple[float, float], share: float, height: float) -> Bar:
    low, high = edges
    x, end = scale.at(low), scale.at(high)
    tall = round(max(height, 0.5), 2)
    return Bar(
        x=x, y=round(HEIGHT - tall, 2), width=round(max(1.0, end - x - 1), 2), height=tall,
        low=math.ceil(low - 1e-9), high=math.ceil(high - 1e-9), share=share,
    )  # fmt: skip
