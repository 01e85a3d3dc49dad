"""A workload that would flatter, or tell less than production, is warned about; a sound one is not."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.engine.load import Arrivals, Constant, Gamma, Poisson, Replay
from benchmarks.engine.plan import Distribution, Fixed, Quantiles, Uniform
from benchmarks.records.lengths import ClassLengths, points_of_pairs, read_pairs
from benchmarks.records.linter import Sent, about_arrivals, longest, warnings_about
from benchmarks.stats.per_cent import per_cent


def length_class(name: str, prompt: Distribution, output: Distribution, **more: Any) -> ClassLengths:
    return ClassLengths(name, more.pop("weight", 0.5), prompt, output, **more)


SHORT = length_class("short", Uniform(60, 100), Uniform(64, 80))
LONG = length_class("long", Uniform(500, 900), Uniform(70, 200))
OVER = (
    "long: the longest prompts with their answers exceed the {} tokens a sequence of vLLM. They will be refused, or cut "
    "without a word."
)
ENDS = "This task's answers end by themselves: the answer lengths are ceilings, and fewer tokens will come than drawn."


def found(*classes: ClassLengths, contexts: dict[str, int] | None = None, **sent: Any) -> list[str]:
    return warnings_about(Sent(classes=classes or (SHORT, LONG), **sent), contexts)


@pytest.mark.parametrize(
    "sent", [{}, {"turns": 5}, {"shared_prefix_share": 0.5}, {"source": "Azure", "arrivals_s": (0.0, 1.0, 3.0)}]
)
def test_a_sound_workload_is_not_warned_about(sent: dict[str, Any]) -> None:
    assert found(**sent) == []


@pytest.mark.parametrize(
    "prompt, output, said",
    [
        (Fixed(50), Fixed(9), "x: every prompt and every answer has the same length. Production varies."),
        (Fixed(50), Uniform(1, 9), "x: every prompt has the same length. Production varies."),
        (Uniform(40, 60), Fixed(9), "x: every answer has the same length. Production varies."),
        (Uniform(50, 50), Uniform(9, 9), "x: every prompt and every answer has the same length. Production varies."),
    ],
)
def test_identical_lengths_are_named(prompt: Distribution, output: Distribution, said: str) -> None:
    assert found(length_class("x", prompt, output), LONG) == [said]


@pytest.mark.parametrize("different, warned", [(19, True), (20, False)])
def test_too_few_different_pairs_are_named(different: int, warned: bool) -> None:
    pairs = tuple((100 + n % different, 20 + n % different) for n in range(100))
    each = length_class("x", *points_of_pairs(pairs), pairs=pairs)
    expected = f"x: only {different} different pairs of lengths. Production varies more."
    assert found(each, LONG) == ([expected] if warned else [])


def test_a_source_whose_lengths_vary_and_a_class_that_does_not_do_not_fit() -> None:
    assert found(length_class("x", Fixed(50), Uniform(1, 9)), LONG, source="Azure 2023") == [
        "x: every prompt has the same length. Production varies.",
        "The lengths are said to come from Azure 2023, where prompts vary; in x they do not.",
    ]


@pytest.mark.parametrize("low, warned", [(3, True), (4, False)])
def test_prompts_too_short_to_differ_are_named(low: int, warned: bool) -> None:
    expected = "x: some prompts have fewer than 4 tokens. So short they can repeat, and a cache can serve them."
    assert found(length_class("x", Uniform(low, 90), Uniform(1, 9)), LONG) == ([expected] if warned else [])


@pytest.mark.parametrize(
    "task, prompt_low, output_low, said",
    [
        ("arithmetic", 15, 8, []),
        ("arithmetic", 14, 8, ["x: some prompts are shorter than the task needs. They are sent with 15 tokens, not as drawn."]),
        ("arithmetic", 15, 7, ["x: some answers are shorter than a right one. They may have 8 tokens, more than drawn."]),
        ("json", 48, 64, []),
        ("json", 47, 64, ["x: some prompts are shorter than the task needs. They are sent with 48 tokens, not as drawn."]),
    ],
)  # fmt: skip
def test_lengths_that_a_task_cannot_have_are_named(
    task: str, prompt_low: int, output_low: int, said: list[str]
) -> None:
    each = length_class("x", Uniform(prompt_low, prompt_low + 40), Uniform(output_low, output_low + 40))
    assert found(each, LONG, task=task) == [*said, ENDS]


def test_answers_that_end_by_themselves_are_named_and_words_do_not() -> None:
    assert (found(task="label"), found(task="words")) == ([ENDS], [])


@pytest.mark.parametrize("share, warned", [(0.9, False), (0.95, True)])
def test_a_shared_beginning_that_leaves_no_room_to_differ_is_named(share: float, warned: bool) -> None:
    expected = f"short: some prompts are too short to share {per_cent(share)} and still differ. They share less."
    assert found(shared_prefix_share=share) == ([expected] if warned else [])


@pytest.mark.parametrize(
    "tokens, turns, said",
    [
        (2000, 1, []),
        (1095, 1, []),
        (1094, 1, [OVER.format("1,094")]),
        (3285, 3, []),
        (3284, 3, [OVER.format("3,284")]),
    ],
)  # fmt: skip
def test_prompts_longer_than_a_runtimes_context_are_named(tokens: int, turns: int, said: list[str]) -> None:
    assert found(contexts={"vLLM": tokens}, turns=turns) == said


def test_the_longest_pair_is_not_the_sum_of_the_longest_halves() -> None:
    pairs = tuple((n, 1001 - n) for n in range(1, 1001))
    assert longest(length_class("x", *points_of_pairs(pairs), pairs=pairs)) == 1001
    assert longest(length_class("x", *points_of_pairs(pairs))) == 1980


@pytest.mark.parametrize(
    "arrivals, said",
    [
        (Constant(2.0), ["Requests come at equal distances. Users do not: choose Poisson, gamma or the arrivals of a trace."]),
        (Poisson(2.0), []),
        (Gamma(2.0, 0.5), []),
        (Replay((0.0, 1.0, 3.0)), []),
        (Replay((0.0, 0.5, 1.0)), ["The arrivals are 0.5 s apart, always: made by a program. Users do not arrive so."]),
        (Replay((0.0, 0.5)), []),
    ],
)  # fmt: skip
def test_artificial_arrivals_are_named(arrivals: Arrivals, said: list[str]) -> None:
    assert about_arrivals(arrivals) == said


def test_arrivals_that_a_workload_keeps_are_looked_at_too() -> None:
    assert found(arrivals_s=(0.0, 2.0, 4.0)) == [
        "The arrivals are 2 s apart, always: made by a program. Users do not arrive so."
    ]


@pytest.mark.parametrize(
    "value, pairs",
    [(None, None), ([], None), ([[5, 6]], ((5, 6),)), ([[1, 1_000_000]], ((1, 1_000_000),))],
)
def test_pairs_are_read_from_a_row(value: Any, pairs: Any) -> None:
    assert read_pairs(value) == pairs


@pytest.mark.parametrize(
    "value, said",
    [
        ([[5]], "These are not pairs of lengths"),
        ([[5, 6, 7]], "These are not pairs of lengths"),
        ([["5", 6]], "These are not pairs of lengths"),
        ([[5, 0]], "A length is between 1 and 1,000,000 tokens."),
        ([[1_000_001, 5]], "A length is between 1 and 1,000,000 tokens."),
        ([[1, 1]] * 1001, "A class has at most 1,000 pairs of lengths, not 1,001."),
    ],
)
def test_anything_else_is_no_pairs(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_pairs(value)


def test_pairs_are_described_by_the_quantiles_of_each_length() -> None:
    prompt, output = points_of_pairs(tuple((n, 200 - n) for n in range(1, 102)))
    assert isinstance(prompt, Quantiles)
    assert [tokens for share, tokens in prompt.points if share in (0, 0.5, 0.9, 1)] == [1, 51, 91, 101]
    assert [tokens for share, tokens in output.points if share in (0, 0.5, 0.9, 1)] == [99, 149, 189, 199]
