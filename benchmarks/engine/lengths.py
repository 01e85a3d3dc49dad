"""Lengths in whole tokens from a plan's distributions. Chance is an argument: a share from 0 to 1, both excluded.

Every length is the distribution's own quantile function at that share, so what is drawn has the percentiles that the
pages print. Truncated shapes are clipped at `low` and `high`, not drawn again: what would lie outside sits on the edge.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from statistics import NormalDist

from benchmarks.engine.dice import Dice
from benchmarks.engine.plan import ClassPlan, Distribution, Fixed, Lognormal, Normal, Quantiles, Uniform

_STANDARD = NormalDist()
MOST_EXPONENT = 100.0  # beyond every length, and within what exp holds


def quantile(distribution: Distribution, share: float) -> float:
    """Length in tokens below which `share` (0 to 1, both excluded) of the requests lie; clipped to least and most."""
    match distribution:
        case Fixed(tokens=tokens):
            return float(tokens)
        case Uniform(low=low, high=high):
            return low + share * (high - low)
        case Normal(mean=mean, sd=sd, low=low, high=high):
            return min(max(mean + sd * _STANDARD.inv_cdf(share), low), high)
        case Lognormal(median=median, sigma=sigma, low=low, high=high):
            exponent = min(sigma * _STANDARD.inv_cdf(share), MOST_EXPONENT)
            return min(max(median * math.exp(exponent), low), high)
        case Quantiles(points=points):
            return _between(points, share)


def _between(points: tuple[tuple[float, float], ...], share: float) -> float:
    place = bisect_left(points, share, key=lambda point: point[0])
    if place >= len(points):
        return points[-1][1]
    if place == 0:
        return points[0][1]
    (left, low), (right, high) = points[place - 1], points[place]
    return low + (share - left) / (right - left) * (high - low)


def sample(distribution: Distribution, share: float) -> int:
    """The whole number of tokens at `share`, at least 1. A uniform one has each of its lengths equally often."""
    if isinstance(distribution, Uniform):
        drawn = distribution.low + int(share * (distribution.high - distribution.low + 1))
    else:
        drawn = round(quantile(distribution, share))
    return max(1, drawn)


def draw(length_class: ClassPlan, dice: Dice) -> tuple[int, int]:
    """Prompt and answer tokens of one request: a pair of the class where it has pairs, else each by itself."""
    if length_class.pairs:
        prompt, output = length_class.pairs[dice.between(0, len(length_class.pairs) - 1)]
        return max(1, prompt), max(1, output)
    return sample(length_class.prompt_tokens, dice.share()), sample(length_class.output_tokens, dice.share())
