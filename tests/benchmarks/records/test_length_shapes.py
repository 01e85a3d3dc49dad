"""The drawn lengths of a workload: shares add up, all classes share one scale, nothing lies outside the picture."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.engine.plan import Distribution, Fixed, Lognormal, Normal, Quantiles, Uniform
from benchmarks.records.length_shapes import HEIGHT, SHARES, WIDTH, picture_of
from benchmarks.records.lengths import ClassLengths, p10_p50_p90

SHAPES: dict[str, Distribution] = {
    "fixed": Fixed(16),
    "uniform": Uniform(1, 100),
    "normal": Normal(mean=100, sd=30, low=1, high=400),
    "lognormal": Lognormal(median=300, sigma=0.7, low=1, high=100_000),
    "quantiles": Quantiles(((0.0, 4.0), (0.5, 90.0), (1.0, 900.0))),
}


def one(distribution: Distribution, name: str = "short", weight: float = 1.0) -> ClassLengths:
    return ClassLengths(name, weight, distribution, Fixed(1))


@pytest.mark.parametrize("distribution", SHAPES.values(), ids=SHAPES.keys())
def test_shares_of_a_shape_add_up_and_its_bars_stay_inside(distribution: Distribution) -> None:
    [drawn] = picture_of([one(distribution)]).classes
    for shape in (drawn.prompt, drawn.output):
        assert sum(bar.share for bar in shape.bars) == pytest.approx(1)
        assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH + 1 for bar in shape.bars)
        assert all(bar.y >= 0 and bar.y + bar.height == pytest.approx(HEIGHT, abs=0.02) for bar in shape.bars)
        assert max(bar.height for bar in shape.bars) == HEIGHT


@pytest.mark.parametrize("distribution", SHAPES.values(), ids=SHAPES.keys())
def test_the_quantiles_of_the_picture_are_those_of_the_table(distribution: Distribution) -> None:
    quantiles = picture_of([one(distribution)]).classes[0].prompt.quantiles
    at = dict(zip(SHARES, quantiles, strict=True))
    assert (at[0.1], at[0.5], at[0.9]) == pytest.approx(p10_p50_p90(distribution), rel=0.01, abs=1)
    assert list(quantiles) == sorted(quantiles)


def test_pairs_are_drawn_as_they_are_and_not_as_the_distributions_that_describe_them() -> None:
    paired = ClassLengths("short", 1.0, Uniform(1, 9), Uniform(1, 9), pairs=((2, 50), (4, 50), (8, 50)))
    [drawn] = picture_of([paired]).classes
    assert [(bar.low <= length < bar.high) for bar, length in zip(drawn.prompt.bars, (2, 4, 8), strict=True)] == [
        True
    ] * 3
    assert drawn.output.quantiles == (50,) * len(SHARES)


def test_classes_share_one_scale_and_their_weights_become_shares() -> None:
    short, long = picture_of([one(Fixed(10), "short", 3.0), one(Fixed(10_000), "long", 1.0)]).classes
    assert (short.share, long.share) == (0.75, 0.25)
    assert short.prompt.middle < long.prompt.middle <= WIDTH


@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 2), (7, 7), (1, 1_000_000), (900_000, 1_000_000)])
def test_ticks_are_round_rise_and_can_be_read_beside_each_other(low: int, high: int) -> None:
    ticks = picture_of([ClassLengths("short", 1.0, Uniform(low, high), Fixed(high))]).ticks
    places = [place for place, _tokens in ticks]
    assert all(b - a >= 38 for a, b in pairwise(places))
    assert all(0 <= place <= WIDTH for place in places)
