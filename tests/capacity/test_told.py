"""What the judge is told of lengths, whatever law they follow."""

from __future__ import annotations

import math

import pytest

from benchmarks.engine.plan import Distribution, Fixed, Lognormal, Normal, Quantiles, Uniform
from benchmarks.records.lengths import ClassLengths
from capacity import told


@pytest.mark.parametrize(
    ("distribution", "tokens"),
    [
        (Fixed(64), 64.0),
        (Uniform(10, 90), 90.0),
        (Normal(100, 10, 1, 1000), 130.9),
        (Lognormal(100, 0.5, 1, 10_000), 100 * math.exp(0.5 * 3.0902)),
        (Lognormal(100, 0.5, 1, 200), 200.0),
        (Quantiles(((0.0, 5.0), (0.5, 50.0), (1.0, 500.0))), 500.0),
    ],
)
def test_the_longest_is_the_end_of_a_law_or_what_one_in_a_thousand_passes(
    distribution: Distribution, tokens: float
) -> None:
    assert told.longest(distribution) == pytest.approx(tokens, rel=1e-3)
    assert told.shortest(distribution) <= tokens
    prompts = told.drawn_prompts(ClassLengths("short", 1.0, distribution, Fixed(8)), turns=1)
    assert max(prompt for prompt, _ in prompts) == pytest.approx(tokens, rel=1e-3)
    assert sum(weight for _, weight in prompts) == pytest.approx(1.0)
