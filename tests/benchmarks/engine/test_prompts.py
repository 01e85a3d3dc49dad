"""The same seed is the same workload; every request is unique, sized as drawn, and its answer can be checked."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.engine import lengths
from benchmarks.engine.plan import Fixed, Lognormal, Normal, Quantiles, Uniform
from benchmarks.engine.prompts import Workload
from benchmarks.engine.validity import is_valid
from benchmarks.runtimes.vocabulary import WORDS
from tests.benchmarks.engine.plans import a_class, a_plan


def text_of(request) -> str:
    return json.loads(request.body)["messages"][0]["content"]


def test_the_same_seed_is_the_same_workload_and_another_seed_is_not():
    digests = [Workload(a_plan(seed=seed)).digest(20) for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_a_request_does_not_depend_on_what_was_built_before_it():
    straight, other = Workload(a_plan()), Workload(a_plan())
    for index in range(5):
        straight.build(index)
    assert straight.build(5) == other.build(5)


def test_no_two_prompts_of_a_cell_begin_alike():
    workload = Workload(a_plan())
    assert len({tuple(text_of(workload.build(i)).split()[:4]) for i in range(3000)}) == 3000


@pytest.mark.parametrize("task", ["words", "echo", "arithmetic"])
def test_a_prompt_has_as_many_words_as_it_says(task):
    workload = Workload(a_plan(task=task, classes=(a_class(prompt_tokens=Fixed(50), output_tokens=Fixed(8)),)))
    request = workload.build(3)
    assert request.intended_prompt_tokens == len(text_of(request).split()) == 50


def test_the_mix_follows_its_weights_and_one_class_keeps_to_itself():
    classes = (a_class("short", weight=3.0), a_class("long", weight=1.0))
    mixed = Workload(a_plan(class_name="mixed", classes=classes))
    alone = Workload(a_plan(class_name="long", classes=classes))
    share = sum(mixed.build(i).class_name == "short" for i in range(2000)) / 2000
    assert 0.71 < share < 0.79
    assert {alone.build(i).class_name for i in range(50)} == {"long"}


def test_a_class_that_the_plan_does_not_have_is_refused():
    with pytest.raises(ValueError, match="not among the plan's classes"):
        Workload(a_plan(class_name="huge"))


WORD_A, WORD_B = WORDS[:2]


@pytest.mark.parametrize(
    "answer, valid",
    [
        (f" {WORD_A} {WORD_B}", True),
        (f"{WORD_A}\n{WORD_B}\n", True),
        (WORD_A, False),
        (f"{WORD_A} {WORD_B} {WORD_A}", False),
        (f"{WORD_A} hello", False),
        ("", False),
    ],
)
def test_a_words_answer_has_the_asked_number_all_from_the_vocabulary(answer, valid):
    assert is_valid(Workload(a_plan()).build(0), answer) is valid


def test_an_echo_must_be_exact_but_for_white_space():
    request = Workload(a_plan(task="echo", classes=(a_class(output_tokens=Fixed(16)),))).build(0)
    assert is_valid(request, f"  {request.expected}\n")
    assert not is_valid(request, f"{request.expected} {WORD_A}")
    assert not is_valid(request, "")


def test_arithmetic_takes_the_last_number_of_the_answer():
    request = Workload(a_plan(task="arithmetic")).build(0)
    assert is_valid(request, f"The sum is {int(request.expected):,}.")
    assert not is_valid(request, str(int(request.expected) + 1))
    assert not is_valid(request, "no number")


@pytest.mark.parametrize(
    "distribution, low, high, mean",
    [
        (Fixed(7), 7, 7, (7, 7)),
        (Uniform(1, 3), 1, 3, (1.9, 2.1)),
        (Normal(100.0, 10.0, 80, 120), 80, 120, (98, 102)),
        (Lognormal(100.0, 0.5, 10, 1000), 10, 1000, (108, 119)),
        (Quantiles(((0.0, 10.0), (0.5, 20.0), (1.0, 100.0))), 10, 100, (35, 40)),
    ],
)
def test_lengths_stay_inside_their_distribution(distribution, low, high, mean):
    dice = np.random.default_rng(1)
    drawn = [lengths.sample(distribution, dice) for _ in range(3000)]
    assert low <= min(drawn)
    assert max(drawn) <= high
    assert mean[0] <= np.mean(drawn) <= mean[1]


def test_a_length_is_never_below_one():
    assert lengths.sample(Fixed(0), np.random.default_rng(1)) == 1
