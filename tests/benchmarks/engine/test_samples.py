"""Which answers are kept follows from the plan alone, is bounded, and is the same at every setting."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.engine import expected_words
from benchmarks.engine.plan import CellPlan, Fixed, Sessions
from benchmarks.engine.probe_plan import Idle
from benchmarks.engine.prompts import MARKER_WORDS, TASKS, Workload
from benchmarks.engine.samples import FIRST, OF_A_DOUBLING, OF_THE_FIRST, sampled
from tests.benchmarks.engine.plans import a_class, a_plan

THREE = tuple(a_class(name, prompt_tokens=Fixed(60), output_tokens=Fixed(80)) for name in ("short", "median", "long"))


def at(setting: int, **changes: object) -> CellPlan:
    """Cells of one grid: another place, so another marker, and the same content."""
    return a_plan(
        offered_concurrency=setting, seed=100 + setting, content_seed=5, classes=THREE, class_name="mixed", **changes
    )


def test_every_setting_keeps_the_same_requests_as_far_as_it_gets() -> None:
    few, many = sampled(at(1, max_requests=1000)), sampled(at(8, max_requests=100_000))
    assert few == {number for number in many if number < 1024}


def test_the_sample_is_bounded_whatever_the_number_of_requests() -> None:
    found = sampled(at(1, max_requests=1_000_000))
    assert len([n for n in found if n < FIRST]) == OF_THE_FIRST
    for low in (32, 64, 1024, 2**19):
        assert len([n for n in found if low <= n < 2 * low]) <= OF_A_DOUBLING
    assert len(found) <= OF_THE_FIRST + 15 * OF_A_DOUBLING


def test_each_class_has_about_as_many() -> None:
    plan = at(4, max_requests=5000)
    classes = Counter(Workload(plan).class_name_of(number) for number in sampled(plan))
    assert set(classes) == {"short", "median", "long"}
    assert max(classes.values()) <= 1.5 * min(classes.values())


def test_a_request_of_the_sample_is_the_same_at_every_setting_but_for_its_marker() -> None:
    one, four = Workload(at(1, task="arithmetic")), Workload(at(4, task="arithmetic"))
    for number in range(40):
        left, right = one.build(number), four.build(number)
        assert left.text.split()[:MARKER_WORDS] != right.text.split()[:MARKER_WORDS]
        assert left.text.split()[MARKER_WORDS:] == right.text.split()[MARKER_WORDS:]
        assert (left.class_name, left.expected, left.asked_output_tokens) == (
            right.class_name, right.expected, right.asked_output_tokens,
        )  # fmt: skip
        assert one.class_name_of(number) == left.class_name


def test_a_plan_from_before_there_was_a_content_of_its_own_asks_what_it_did() -> None:
    assert Workload(a_plan(seed=3)).digest(5) == Workload(a_plan(seed=3, content_seed=3)).digest(5)


def test_a_behaviour_probe_keeps_no_sample() -> None:
    assert sampled(a_plan(probe=Idle())) == frozenset()


def test_turns_of_sessions_are_numbered_by_conversation() -> None:
    found = sampled(a_plan(sessions=Sessions(turns=3, think_s=0.0), max_requests=10))
    assert max(found) < 32


@pytest.mark.parametrize("task", TASKS)
def test_the_words_say_what_a_right_answer_is_and_a_wrong_one_is_not_called_right(task: str) -> None:
    request = Workload(a_plan(task=task, classes=(THREE[0],))).build(7)
    asked = request.asked_output_tokens
    words = expected_words.verdict_words(task, request.expected, asked, "a", valid=False)
    assert words.startswith(f"Not valid: the validator of the task {task} expected ")
    if task in ("echo", "label", "arithmetic"):
        assert request.expected in words
    assert expected_words.by_construction(task) is (task == "words")


@pytest.mark.parametrize(
    ("task", "expected", "answer", "words"),
    [
        ("arithmetic", "579", "It is 580.", "its last number is 580"),
        ("arithmetic", "579", "I do not know.", "it holds no number"),
        ("arithmetic", "579", "579", ""),
        ("words", "", "hello world", "it has 2, of which 2 are not of the vocabulary"),
        ("label", "kappa", " ", "it is empty"),
        ("label", "kappa", "Kappa", ""),
        ("unknown", "", "", ""),
    ],
)
def test_a_wrong_answer_is_told_in_a_few_words(task: str, expected: str, answer: str, words: str) -> None:
    assert expected_words.found_words(task, expected, 3, answer) == words


def test_a_schema_is_told_in_words_also_where_it_was_cut() -> None:
    request = Workload(a_plan(task="json", classes=(THREE[0],))).build(7)
    assert expected_words.expected_words("json", request.expected, 80).startswith(
        'one JSON object and nothing around it, with "name" as '
    )
    assert expected_words.expected_words("json", request.expected[:20], 80) == (
        "one JSON object of the asked keys and nothing around it"
    )
