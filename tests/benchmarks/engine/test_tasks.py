"""What counts as a right answer: each validator on both sides of its edge. None is bent to let an answer pass."""

from __future__ import annotations

import json

import pytest

from benchmarks.engine.dice import Dice
from benchmarks.engine.plan import Fixed
from benchmarks.engine.prompts import Workload
from benchmarks.engine.tasks import TASKS
from benchmarks.engine.validity import RIGHT_BY_CONSTRUCTION, is_valid
from benchmarks.runtimes.vocabulary import WORD_SET, WORDS
from tests.benchmarks.engine.plans import a_class, a_plan

A, B, C = WORDS[:3]


def judged(task: str, expected: str, answer: str, output_tokens: int = 2) -> bool:
    return TASKS[task].check(expected, output_tokens, answer)


@pytest.mark.parametrize("task", TASKS)
def test_the_right_answer_follows_from_the_prompt_and_is_valid_and_another_requests_is_not(task):
    workload = Workload(a_plan(task=task, classes=(a_class(prompt_tokens=Fixed(60), output_tokens=Fixed(80)),)))
    for index in range(300):
        request, other = workload.build(index), workload.build(index + 1)
        answer = TASKS[task].answer(request.expected, request.asked_output_tokens, Dice(1, "answer", index))
        assert is_valid(request, answer)
        assert not is_valid(request, "")
        assert is_valid(other, answer) == (task == "words" or other.expected == request.expected)


def test_only_the_words_task_is_right_by_construction():
    assert frozenset({"words"}) == RIGHT_BY_CONSTRUCTION < set(TASKS)
    assert {name for name, task in TASKS.items() if not task.ends_itself} == {"words"}


@pytest.mark.parametrize(
    "answer, valid",
    [
        (f" {A} {B}", True),
        (f"{A}\n{B}\n", True),
        (f"{A}\t \r\n{B}", True),
        (A, False),
        (f"{A} {B} {A}", False),
        (f"{A} hello", False),
        (f"{A} {B.upper()}", False),
        (f"{A}, {B}", False),
        (f"{A}\u00a0{B}", False),
        (f"{A}\u2028{B}", False),
        (f"{A} {B}\ufeff", False),
        (f"{A} \ud800", False),
        ("", False),
    ],
)
def test_a_words_answer_has_the_asked_number_all_from_the_vocabulary(answer, valid):
    assert judged("words", "", answer) is valid


@pytest.mark.parametrize(
    "answer, valid",
    [
        (f"{A} {B}", True),
        (f"  {A}\n{B}\n", True),
        (f"{A} {B} {C}", False),
        (f"Sure: {A} {B}", False),
        (f'"{A} {B}"', False),
        (f"{A} {B}.", False),
        (f"{A.capitalize()} {B}", False),
        (f"{B} {A}", False),
        (f"{A}{B}", False),
        (f"{A}\u00a0{B}", False),
        (f"{A}\u200b {B}", False),
        (A, False),
        ("", False),
    ],
)
def test_an_echo_must_be_exact_but_for_white_space(answer, valid):
    assert judged("echo", f"{A} {B}", answer) is valid


@pytest.mark.parametrize(
    "answer, valid",
    [
        ("1579", True),
        (" 1,579\n", True),
        ("The sum is 1,579.", True),
        ("907 + 672 = 1579", True),
        ("**1579**", True),
        ("1580", False),
        ("157", False),
        ("15790", False),
        ("1579.5", False),
        ("1579.0", False),
        ("5.1579", False),
        ("1e1579", False),
        ("-1579", False),
        ("\u22121579", False),
        ("15,79", False),
        ("1,57,9", False),
        ("12,1579", False),
        ("1579 is 907 + 672", False),
        ("１５７９", False),
        ("١٥٧٩", False),
        ("v1579", False),
        ("no number", False),
        ("", False),
    ],
)
def test_the_last_number_of_an_arithmetic_answer_is_the_sum_and_a_whole_number(answer, valid):
    assert judged("arithmetic", "1579", answer) is valid


SCHEMA = json.dumps({"name": A, "low": 10, "high": 20, "tags": [A, B, C], "how_many": 2})


def made(**changes: object) -> str:
    return json.dumps({"name": A, "count": 15, "share": 0.5, "tags": [B, C]} | changes)


@pytest.mark.parametrize(
    "answer, valid",
    [
        (made(), True),
        (f"\n {made()}\t\r\n", True),
        (json.dumps(json.loads(made()), indent=4), True),
        (made(count=10), True),
        (made(count=9), False),
        (made(count=20), True),
        (made(count=21), False),
        (made(count=15.0), False),
        (made(count="15"), False),
        (made(count=True), False),
        (made(count=None), False),
        (made(share=0), True),
        (made(share=1), True),
        (made(share=1.001), False),
        (made(share=-0.001), False),
        (made(share="0.5"), False),
        (made().replace("0.5", "NaN"), False),
        (made().replace("0.5", "1e-400"), True),
        (made().replace("0.5", "1e400"), False),
        (made(name=B), False),
        (made(name=A.upper()), False),
        (made(name=f"{A} "), False),
        (made(tags=[B]), False),
        (made(tags=[A, B, C]), False),
        (made(tags=[B, B]), False),
        (made(tags=[B, "hello"]), False),
        (made(tags=f"{B} {C}"), False),
        (made(extra=1), False),
        (json.dumps({"name": A, "count": 15, "share": 0.5}), False),
        (f"```json\n{made()}\n```", False),
        (f"Here it is: {made()}", False),
        (f"{made()} I hope this helps.", False),
        (f"{made()}{made()}", False),
        (f"[{made()}]", False),
        (f"\ufeff{made()}", False),
        (f"\u00a0{made()}", False),
        (made().replace('"', "'"), False),
        (made()[:-1], False),
        ("[" * 100_000, False),
        ("null", False),
        ("\ud800", False),
        ("", False),
    ],
)
def test_a_json_answer_is_one_object_of_the_schema_and_nothing_else(answer, valid):
    assert judged("json", SCHEMA, answer) is valid


@pytest.mark.parametrize(
    "answer, valid",
    [
        (A, True),
        (f" \n{A}\r\n", True),
        (f"{A}.", False),
        (f'"{A}"', False),
        (A.capitalize(), False),
        (f"The label is {A}", False),
        (f"{A} {B}", False),
        (B, False),
        (f"{A}\u00a0", False),
        (f"{A[0]}\u0430{A[2:]}", False),
        ("", False),
    ],
)
def test_a_label_answer_is_the_right_label_alone(answer, valid):
    assert judged("label", A, answer) is valid


def test_the_right_label_is_the_one_whose_range_holds_the_number_edges_included():
    seen = set()
    for index in range(2000):
        asked = TASKS["label"].ask(Dice(3, "label", index), 100, 8)
        ranges, _, question = asked.text.removeprefix("Labels: ").partition(". Which label has ")
        number = int(question.split()[0])
        holding = []
        for each in ranges.split(", "):
            label, _, low, _, high = each.split()
            if int(low) <= number <= int(high):
                holding.append(label)
                seen.add("low" if number == int(low) else "high" if number == int(high) else "inside")
        assert holding == [asked.expected]
        assert asked.expected in WORD_SET
    assert seen == {"low", "high", "inside"}


@pytest.mark.parametrize("room, output, words", [(100, 40, 10), (100, 4, 1), (6, 400, 4), (0, 400, 1)])
def test_an_echo_takes_a_quarter_of_the_answer_and_no_more_than_the_prompt_has_room_for(room, output, words):
    asked = TASKS["echo"].ask(Dice(1, "echo", 0), room, output)
    assert (len(asked.expected.split()), asked.words) == (words, words + 2)
    assert asked.text == f"Answer exactly: {asked.expected}"


@pytest.mark.parametrize("task", TASKS)
def test_an_ask_says_how_many_words_it_is(task):
    for index in range(200):
        asked = TASKS[task].ask(Dice(5, "ask", index), 60, 60)
        assert asked.words == len(asked.text.split()) >= TASKS[task].least_ask_words
