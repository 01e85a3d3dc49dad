"""Prompt lengths of a whole mix: the classes of a workload by their weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.engine.lengths import quantile
from benchmarks.records.lengths import ClassLengths

STEPS = 400  # of a written distribution: p95 of the mix to a quarter per cent of the requests


def prompt_quantiles(classes: Sequence[ClassLengths], shares: Sequence[float]) -> tuple[float, ...]:
    """Prompt tokens below which these shares (0 to 1) of the mix's requests lie, by nearest rank over pairs as they are and
    over 400 even quantiles of every other class. Raises ValueError without classes."""
    if not classes:
        raise ValueError("a mix without classes has no lengths")
    tokens: list[float] = []
    weights: list[float] = []
    for one in classes:
        drawn = _drawn(one)
        tokens += drawn
        weights += [one.weight / len(drawn)] * len(drawn)
    order = np.argsort(tokens, kind="stable")
    reached = np.cumsum(np.array(weights)[order])
    places = np.searchsorted(reached, np.array(shares) * reached[-1] * (1 - 1e-12))
    return tuple(float(np.array(tokens)[order][place]) for place in places)


def _drawn(one: ClassLengths) -> list[float]:
    if one.pairs:
        return [float(prompt) for prompt, _ in one.pairs]
    return [quantile(one.prompt_tokens, (i + 0.5) / STEPS) for i in range(STEPS)]
