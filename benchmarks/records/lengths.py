"""What a registered length distribution says: checked, put into words, its percentiles, and warnings about a workload.

In scope: distributions as they are kept in a row (plain JSON). Not in scope: drawing lengths, which is engine.lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from benchmarks.engine.lengths import quantile as quantile
from benchmarks.engine.plan import Distribution, Fixed, Lognormal, Normal, Quantiles, Uniform
from benchmarks.stats.per_cent import per_cent

MOST_TOKENS = 1_000_000
MOST_PAIRS = 1_000
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.95
_FEW_PAIRS = 20
_SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ClassLengths:
    """One length class: its share of the requests (any positive weight) and both distributions. Where there are pairs
    the two lengths are drawn together, and the distributions describe them."""

    name: str
    weight: float
    prompt_tokens: Distribution
    output_tokens: Distribution
    pairs: Pairs | None = None


def read(value: object) -> Distribution:
    """A distribution from plain JSON; raises ValueError with a sentence when it is not one."""
    try:
        distribution: Distribution = msgspec.convert(value, Distribution)
    except msgspec.ValidationError as error:
        raise ValueError(f"This is not a length distribution: {error}.") from error
    wrong = fault(distribution)
    if wrong:
        raise ValueError(wrong)
    return distribution


def read_pairs(value: object) -> Pairs | None:
    """Pairs of (prompt, output) tokens from plain JSON; None where there are none. Raises ValueError with a sentence."""
    if not value:
        return None
    try:
        pairs = msgspec.convert(value, Pairs)
    except msgspec.ValidationError as error:
        raise ValueError(f"These are not pairs of lengths: {error}.") from error
    if len(pairs) > MOST_PAIRS:
        raise ValueError(f"A class has at most {MOST_PAIRS:,} pairs of lengths, not {len(pairs):,}.")
    wrong = next((fault for pair in pairs for tokens in pair if (fault := _outside(tokens))), None)
    if wrong:
        raise ValueError(wrong)
    return pairs


def points_of_pairs(pairs: Pairs) -> tuple[Quantiles, Quantiles]:
    """The quantiles of prompts and of answers that describe pairs, in whole tokens."""
    prompt, output = ((sorted(column)) for column in zip(*pairs, strict=True))
    return _described(prompt), _described(output)


def _described(ordered: Sequence[int]) -> Quantiles:
    places = [round(share * (len(ordered) - 1)) for share in _SHARES]
    return Quantiles(tuple((share, float(ordered[place])) for share, place in zip(_SHARES, places, strict=True)))


def plain(distribution: Distribution) -> dict[str, object]:
    """The JSON form that a row keeps, as it comes back from the database: points are lists."""
    value: dict[str, object] = msgspec.json.decode(msgspec.json.encode(distribution))
    return value


def fault(distribution: Distribution) -> str | None:
    """What is wrong with the numbers, as a sentence; None when nothing is."""
    match distribution:
        case Fixed(tokens=tokens):
            return _outside(tokens)
        case Uniform(low=low, high=high):
            return _order(low, high)
        case Normal(mean=mean, sd=sd, low=low, high=high):
            return _order(low, high) or _inside("The mean", mean, (low, high)) or _spread(sd)
        case Lognormal(median=median, sigma=sigma, low=low, high=high):
            return _order(low, high) or _inside("The median", median, (low, high)) or _spread(sigma)
        case Quantiles(points=points):
            return _points(points)


def _outside(tokens: float) -> str | None:
    return None if 1 <= tokens <= MOST_TOKENS else f"A length is between 1 and {MOST_TOKENS:,} tokens."


def _order(low: float, high: float) -> str | None:
    if low > high:
        return f"The least length, {low:,}, is above the most, {high:,}."
    return _outside(low) or _outside(high)


def _inside(what: str, value: float, bounds: tuple[float, float]) -> str | None:
    low, high = bounds
    return None if low <= value <= high else f"{what}, {value:g}, is not between {low:,} and {high:,}."


def _spread(spread: float) -> str | None:
    return (
        None if spread > 0 and math.isfinite(spread) else "The spread must be above 0; choose fixed for equal lengths."
    )


def _points(points: tuple[tuple[float, float], ...]) -> str | None:
    if len(points) < 2:
        return "Quantiles need at least two points."
    shares = [share for share, _tokens in points]
    tokens = [tokens for _share, tokens in points]
    if shares[0] != 0 or shares[-1] != 1:
        return "Quantiles run from p0, the least length, to p100, the most."
    if any(a >= b for a, b in pairwise(shares)):
        return "Each quantile must stand above the one before it."
    if any(a > b for a, b in pairwise(tokens)):
        return "The tokens of the quantiles must not fall."
    return _outside(tokens[0]) or _outside(tokens[-1])


def p10_p50_p90(distribution: Distribution) -> tuple[int, int, int]:
    low, middle, high = (round(quantile(distribution, share)) for share in (0.1, 0.5, 0.9))
    return low, middle, high


def in_words(distribution: Distribution) -> str:
    match distribution:
        case Fixed(tokens=tokens):
            return f"always {tokens:,}"
        case Uniform(low=low, high=high):
            return f"uniform, {low:,} to {high:,}"
        case Normal(mean=mean, sd=sd, low=low, high=high):
            return f"normal, mean {mean:,g}, standard deviation {sd:,g}, {low:,} to {high:,}"
        case Lognormal(median=median, sigma=sigma, low=low, high=high):
            return f"lognormal, median {median:,g}, sigma {sigma:g}, {low:,} to {high:,}"
        case Quantiles(points=points):
            return f"quantiles, {len(points)} points, {points[0][1]:,.0f} to {points[-1][1]:,.0f}"


def warnings_about(classes: Sequence[ClassLengths]) -> list[str]:
    """What makes a test of these lengths look better, or tell less, than production would."""
    found = [text for c in classes if (text := _same_lengths(c))]
    if len(classes) == 1:
        found.append("One length class only: whether short requests suffer beside long ones will not be seen.")
    total = sum(c.weight for c in classes)
    for c in classes if total > 0 else ():
        share = c.weight / total
        if share < _LEAST_SHARE:
            found.append(
                f"{c.name}: {per_cent(share, 1)} of the requests. Too few will be in a window to say anything about its tail."
            )
        elif share > _MOST_SHARE and len(classes) > 1:
            found.append(f"{c.name}: {per_cent(share, 1)} of the requests. The mix is nearly this one class.")
    return found + _twins(classes)


def never_changes(distribution: Distribution) -> bool:
    return quantile(distribution, 0.01) == quantile(distribution, 0.99)


def _same_lengths(c: ClassLengths) -> str | None:
    """Identical lengths, or so few different ones that they nearly are."""
    prompt, output = never_changes(c.prompt_tokens), never_changes(c.output_tokens)
    if c.pairs is not None and 1 < len(set(c.pairs)) < _FEW_PAIRS:
        return f"{c.name}: only {len(set(c.pairs))} different pairs of lengths. Production varies more."
    if prompt and output:
        return f"{c.name}: every prompt and every answer has the same length. Production varies."
    if prompt or output:
        return f"{c.name}: every {'prompt' if prompt else 'answer'} has the same length. Production varies."
    return None


def _twins(classes: Sequence[ClassLengths]) -> list[str]:
    seen: dict[tuple[Distribution, Distribution, Pairs | None], str] = {}
    found = []
    for c in classes:
        first = seen.setdefault((c.prompt_tokens, c.output_tokens, c.pairs), c.name)
        if first != c.name:
            found.append(f"{first} and {c.name} have the same lengths: they measure one class twice.")
    return found
