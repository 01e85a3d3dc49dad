"""Lengths and dice: inside their distribution, with its percentiles, and the same from the same seed, purpose, number."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.engine import lengths
from benchmarks.engine.dice import Dice
from benchmarks.engine.plan import Fixed, Lognormal, Normal, Quantiles, Uniform
from benchmarks.runtimes.vocabulary import WORD_COUNT


def drawn(distribution, count: int = 4000) -> list[int]:
    return [lengths.sample(distribution, Dice(1, "test", number).share()) for number in range(count)]


@pytest.mark.parametrize(
    "distribution, low, high, mean",
    [
        (Fixed(7), 7, 7, (7, 7)),
        (Uniform(1, 3), 1, 3, (1.95, 2.05)),
        (Normal(100.0, 10.0, 80, 120), 80, 120, (99, 101)),
        (Lognormal(100.0, 0.5, 10, 1000), 10, 1000, (110, 117)),
        (Quantiles(((0.0, 10.0), (0.5, 20.0), (1.0, 100.0))), 10, 100, (36, 39)),
    ],
)
def test_lengths_stay_inside_their_distribution(distribution, low, high, mean):
    found = drawn(distribution)
    assert low <= min(found)
    assert max(found) <= high
    assert mean[0] <= np.mean(found) <= mean[1]


def test_each_length_of_a_uniform_class_comes_equally_often():
    found = drawn(Uniform(1, 4), 8000)
    assert [1850 < found.count(length) < 2150 for length in (1, 2, 3, 4)] == [True] * 4


def test_what_lies_outside_a_truncated_shape_sits_on_its_edge():
    found = drawn(Normal(100.0, 10.0, 100, 110))
    assert 0.47 < found.count(100) / len(found) < 0.54  # half of the shape, and what rounds to it
    assert 0.15 < found.count(110) / len(found) < 0.20  # 16 % above one deviation, and what rounds to it


@pytest.mark.parametrize("share, tokens", [(1e-9, 10), (0.25, 15), (0.5, 20), (0.75, 60), (1 - 1e-9, 100)])
def test_between_two_quantiles_lengths_lie_on_a_straight_line(share, tokens):
    assert lengths.sample(Quantiles(((0.0, 10.0), (0.5, 20.0), (1.0, 100.0))), share) == tokens


def test_a_length_is_never_below_one():
    assert lengths.sample(Fixed(0), 0.5) == 1


def test_the_dice_of_a_number_are_the_same_whatever_was_drawn_before():
    one, other = Dice(1, "prompts", 5), Dice(1, "prompts", 5)
    other.numbers(10)
    assert [one.share() for _ in range(20)] == [other.share() for _ in range(20)]
    assert (
        len({Dice(*name).share() for name in ((1, "a", 1), (1, "a", 2), (1, "b", 1), (2, "a", 1), (11, "a", 1))}) == 5
    )


def test_shares_are_spread_evenly_and_never_touch_the_ends():
    found = np.array([Dice(9, "spread", n).share() for n in range(4000)])
    assert (found.min() > 0, found.max() < 1) == (True, True)
    assert np.abs(np.quantile(found, (0.1, 0.5, 0.9)) - (0.1, 0.5, 0.9)).max() < 0.03
    within_one = Dice(9, "one", 0)
    assert 0.47 < np.mean([within_one.share() for _ in range(4000)]) < 0.53


def test_a_longer_run_of_word_numbers_begins_with_the_shorter_one_and_a_second_run_differs():
    assert Dice(1, "a", 0).numbers(300)[:100] == Dice(1, "a", 0).numbers(100)
    dice = Dice(1, "a", 0)
    assert dice.numbers(100) != dice.numbers(100)
    assert dice.numbers(0) == dice.numbers(-3) == b""
    assert len(set(Dice(1, "a", 0).numbers(5000))) == WORD_COUNT


@pytest.mark.parametrize("count", [1, 5, WORD_COUNT])
def test_different_word_numbers_are_different(count):
    for number in range(50):
        assert len(set(Dice(1, "different", number).different(count))) == count


def test_every_number_of_a_range_comes_and_none_outside():
    dice = Dice(1, "range", 0)
    assert {dice.between(3, 6) for _ in range(500)} == {3, 4, 5, 6}
    assert {dice.between(7, 7) for _ in range(5)} == {7}
