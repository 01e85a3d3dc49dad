"""Whole numbers of tokens drawn from a plan's distributions. The dice are an argument."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.engine.plan import Distribution, Fixed, Lognormal, Normal, Quantiles, Uniform


def sample(distribution: Distribution, dice: np.random.Generator) -> int:
    """One length, at least 1, inside the distribution's own `low` and `high`. Truncated shapes are clipped, not
    redrawn."""
    match distribution:
        case Fixed(tokens=tokens):
            drawn = float(tokens)
        case Uniform(low=low, high=high):
            drawn = float(dice.integers(low, high, endpoint=True))
        case Normal(mean=mean, sd=sd, low=low, high=high):
            drawn = min(max(dice.normal(mean, sd), low), high)
        case Lognormal(median=median, sigma=sigma, low=low, high=high):
            drawn = min(max(dice.lognormal(math.log(median), sigma), low), high)
        case Quantiles(points=points):
            shares, tokens_at = zip(*points, strict=True)
            drawn = float(np.interp(dice.random(), shares, tokens_at))
    return max(1, round(drawn))
