"""Length distributions, their warnings; presets of public traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.engine.dice import Dice
from benchmarks.engine.lengths import sample
from benchmarks.engine.plan import Distribution, Fixed, Lognormal, Normal, Quantiles, Uniform
from benchmarks.imports.classes import cut
from benchmarks.imports.preset_table import PRESETS
from benchmarks.imports.presets import classes_of
from benchmarks.lengths_forms import pairs_as_text, pairs_from_text, points_as_text, points_from_text
from benchmarks.records.lengths import ClassLengths, fault, in_words, p10_p50_p90, plain, read, warnings_about


@pytest.mark.parametrize(
    "distribution, wrong",
    [
        (Fixed(1), None),
        (Fixed(0), "A length is between 1 and 1,000,000 tokens."),
        (Uniform(5, 5), None),
        (Uniform(6, 5), "The least length, 6, is above the most, 5."),
        (Normal(10, 1, 1, 20), None),
        (Normal(21, 1, 1, 20), "The mean, 21, is not between 1 and 20."),
        (Lognormal(10, 0, 1, 20), "The spread must be above 0; choose fixed for equal lengths."),
        (Quantiles(((0, 5), (1, 5))), None),
        (Quantiles(((0, 5),)), "Quantiles need at least two points."),
        (Quantiles(((0.1, 5), (1, 6))), "Quantiles run from p0, the least length, to p100, the most."),
        (Quantiles(((0, 5), (0.5, 9), (0.5, 9), (1, 9))), "Each quantile must stand above the one before it."),
        (Quantiles(((0, 5), (1, 4))), "The tokens of the quantiles must not fall."),
    ],
)
def test_numbers_that_do_not_fit_together_are_named(distribution: Distribution, wrong: str | None) -> None:
    assert fault(distribution) == wrong


@pytest.mark.parametrize(
    "distribution, expected",
    [
        (Fixed(7), (7, 7, 7)),
        (Uniform(0 + 1, 101), (11, 51, 91)),
        (Normal(100, 10, 95, 105), (95, 100, 105)),
        (Quantiles(((0, 10), (0.5, 20), (1, 120))), (12, 20, 100)),
    ],
)
def test_percentiles_follow_from_the_distribution(distribution: Distribution, expected: tuple[int, int, int]) -> None:
    assert p10_p50_p90(distribution) == expected


@pytest.mark.parametrize(
    "distribution",
    [Uniform(10, 500), Normal(200, 60, 50, 400), Lognormal(180, 0.6, 20, 2000), Quantiles(PRESETS[0].prompt_points)],
)
def test_percentiles_agree_with_what_the_engine_draws(distribution: Distribution) -> None:
    drawn = np.percentile([sample(distribution, Dice(7, "test", n).share()) for n in range(4000)], [10, 50, 90])
    assert p10_p50_p90(distribution) == pytest.approx(drawn.tolist(), rel=0.08)


@pytest.mark.parametrize(
    "value",
    [
        plain(d)
        for d in (Fixed(3), Uniform(1, 2), Normal(2, 1, 1, 3), Lognormal(2, 1, 1, 3), Quantiles(((0, 1), (1, 2))))
    ],
)
def test_a_kept_distribution_reads_back_as_it_was(value: dict[str, object]) -> None:
    assert plain(read(value)) == value
    assert in_words(read(value))


@pytest.mark.parametrize(
    "value", [{}, {"kind": "fixed"}, {"kind": "guess", "tokens": 1}, {"kind": "fixed", "tokens": 0}, None]
)
def test_anything_else_is_not_a_distribution(value: Any) -> None:
    with pytest.raises(ValueError, match=r"length"):
        read(value)


def lengths_of(name: str, weight: float, tokens: int = 0) -> ClassLengths:
    shape: Distribution = Fixed(tokens) if tokens else Uniform(10, 20 + len(name))
    return ClassLengths(name, weight, shape, shape)


@pytest.mark.parametrize(
    "classes, expected",
    [
        ([lengths_of("a", 0.5), lengths_of("bb", 0.5)], []),
        (
            [lengths_of("a", 0.02), lengths_of("bb", 0.98)],
            ["bb: 98.0\u00a0% of the requests. The mix is nearly this one class."],
        ),
        (
            [lengths_of("a", 1)],
            ["One length class only: whether short requests suffer beside long ones will not be seen."],
        ),
        (
            [lengths_of("a", 1, 5), lengths_of("bb", 1)],
            ["a: every prompt and every answer has the same length. Production varies."],
        ),
        ([lengths_of("a", 1), lengths_of("b", 1)], ["a and b have the same lengths: they measure one class twice."]),
    ],
)
def test_a_workload_that_flatters_is_warned_about(classes: list[ClassLengths], expected: list[str]) -> None:
    assert warnings_about(classes) == expected


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.key)
def test_every_preset_is_whole_and_says_where_it_comes_from(preset: Any) -> None:
    classes = classes_of(preset)
    assert [(c.name, c.weight) for c in classes] == [("short", 0.25), ("median", 0.5), ("long", 0.25)]
    assert [fault(Quantiles(points)) for c in classes for points in (c.prompt_points, c.output_points)] == [None] * 6
    assert preset.attribution in preset.source
    assert preset.licence in preset.source


def test_a_cut_quantile_function_meets_itself_at_the_cuts() -> None:
    points = ((0.0, 0.0), (0.5, 100.0), (1.0, 300.0))
    assert cut(points, 0.25, 0.75) == ((0.0, 50.0), (0.5, 100.0), (1.0, 200.0))


@pytest.mark.parametrize("text", ["p0 10, p50 180, p100 900", "P0:10;p50=180\np100 900"])
def test_quantiles_are_read_from_text_and_written_back(text: str) -> None:
    points = points_from_text(text)
    assert (points, points_as_text(points)) == (((0.0, 10.0), (0.5, 180.0), (1.0, 900.0)), "p0 10, p50 180, p100 900")


@pytest.mark.parametrize("text", ["", "p0", "10 p0", "p0 10, x"])
def test_text_that_is_no_quantile_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantile"):
        points_from_text(text)


@pytest.mark.parametrize("text", ["480:12, 3100:8", "480:12;3100:8", " 480:12\n3100:8 ", "480:12 3100:8,"])
def test_pairs_are_read_from_text_and_written_back(text: str) -> None:
    pairs = pairs_from_text(text)
    assert (pairs, pairs_as_text(pairs)) == (((480, 12), (3100, 8)), "480:12, 3100:8")


@pytest.mark.parametrize("text", ["480", "480:", "480 : 12", "a:b", "480:12:3", "-1:5", "480.5:12"])
def test_text_that_is_no_pair_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a pair of lengths\. Write prompt:answer, like 480:12, 3100:8\."):
        pairs_from_text(text)


def test_no_text_is_no_pairs() -> None:
    assert (pairs_from_text(""), pairs_as_text(None)) == (None, "")


@pytest.mark.parametrize("tokens", [1.0, 999_999.0, 1_000_000.0, 123_456.0])
def test_quantiles_are_written_without_losing_a_digit(tokens: float) -> None:
    points = ((0.0, 1.0), (0.123456, tokens), (1.0, 1_000_000.0))
    assert points_from_text(points_as_text(points)) == points
