"""Length classes out of a trace or a preset: short, median and long by its prompts, answers drawn with them.

The cuts are at p25 and p75 of the prompts, not of prompt and answer together: where the two run against each other, a
common rank would put every request in the middle. That they depend on each other is kept by pairs instead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from benchmarks.imports.servegen import Densities, Points
from benchmarks.imports.trace_facts import FEW_REQUESTS, points_of
from benchmarks.imports.trace_values import Whole
from benchmarks.imports.traces import Trace

CUTS = (("short", 0.0, 0.25), ("median", 0.25, 0.75), ("long", 0.75, 1.0))
MOST_PAIRS = 256  # in each class: enough for a p95, and a plan of some kilobytes
_GOLDEN = (5**0.5 - 1) / 2  # its multiples fill 0 to 1 evenly however many there are


@dataclass(frozen=True, slots=True)
class TracedClass:
    """One class: points are (share from 0 to 1, tokens), pairs (prompt tokens, answer tokens), None where each length is
    drawn by itself."""

    name: str
    weight: float
    prompt_points: Points
    output_points: Points
    pairs: tuple[tuple[int, int], ...] | None = None


def classes_of_trace(trace: Trace) -> list[TracedClass]:
    """A quarter, a half and a quarter of the requests, to within one of them; one class called all where they are few."""
    order = np.lexsort((trace.output_tokens, trace.prompt_tokens))
    prompt, output = trace.prompt_tokens[order], trace.output_tokens[order]
    if len(trace) < FEW_REQUESTS:
        return [_class("all", 1.0, prompt, output)]
    places = [(name, high - low, round(low * len(trace)), round(high * len(trace))) for name, low, high in CUTS]
    return [_class(name, weight, prompt[begin:end], output[begin:end]) for name, weight, begin, end in places]


def _class(name: str, weight: float, prompt: Whole, output: Whole) -> TracedClass:
    """From requests in the order of their prompts: every k-th becomes a pair, so long and short prompts keep their share."""
    count = min(MOST_PAIRS, len(prompt))
    kept = ((np.arange(count) + 0.5) * len(prompt) / count).astype(np.int64)
    pairs = tuple(zip(prompt[kept].tolist(), output[kept].tolist(), strict=True))
    return TracedClass(name, weight, points_of(prompt), points_of(output), pairs)


def classes_of_densities(found: Densities) -> list[TracedClass]:
    return classes_of_points(found.prompt_points, found.output_points)


def classes_of_points(prompt: Points, output: Points) -> list[TracedClass]:
    """All classes keep the whole answer distribution: nothing is known of how it depends on the prompt."""
    return [TracedClass(name, high - low, cut(prompt, low, high), output) for name, low, high in CUTS]


def classes_of_shares(prompt: Points, output: Points, shares: Sequence[Sequence[float]]) -> list[TracedClass]:
    """Pairs that have the quantiles of both lengths and the measured shares of prompt class by answer class.

    Inside one such class the two lengths are taken as independent: its share is all that was measured.
    """
    columns = [sum(column) for column in zip(*shares, strict=True)]
    reached = list(accumulate(sum(row) for row in shares))
    classes = []
    for name, low, high in CUTS:
        pairs = []
        for number in range(MOST_PAIRS):
            share = low + (number + 0.5) / MOST_PAIRS * (high - low)
            row = shares[min(bisect_left(reached, share * reached[-1]), len(shares) - 1)]
            answers = _through(row, columns, (number + 1) * _GOLDEN % 1)
            pairs.append((max(1, round(at(prompt, share))), max(1, round(at(output, answers)))))
        outputs = np.array([pair[1] for pair in pairs], dtype=np.int64)
        classes.append(TracedClass(name, high - low, cut(prompt, low, high), points_of(outputs), tuple(pairs)))
    return classes


def _through(row: Sequence[float], columns: Sequence[float], drawn: float) -> float:
    """The share of all answers that lies at `drawn` of the answers to prompts of this row."""
    total, total_columns = sum(row), sum(columns)
    if total == 0:
        return drawn
    rest = drawn * total
    for place, (here, before) in enumerate(zip(row, accumulate(columns, initial=0.0), strict=False)):
        if rest <= here and here > 0:
            return (before + rest / here * columns[place]) / total_columns
        rest -= here
    return 1.0


def cut(points: Points, low: float, high: float) -> Points:
    """The part of a quantile function between two of its shares, stretched to run from 0 to 1."""
    inner = [((share - low) / (high - low), tokens) for share, tokens in points if low < share < high]
    return ((0.0, at(points, low)), *((round(share, 6), tokens) for share, tokens in inner), (1.0, at(points, high)))


def at(points: Points, share: float) -> float:
    """The quantile function between its points, in tokens."""
    for (left, below), (right, above) in pairwise(points):
        if share <= right:
            return below + (share - left) / (right - left) * (above - below)
    return points[-1][1]
