"""A session is a conversation: each turn begins with all before it, and the seed alone gives every word of it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from benchmarks.engine.load import Sessions
from benchmarks.engine.plan import Fixed, Uniform
from benchmarks.engine.prompts import TASKS, UNIQUE_WORDS, Prepared, Workload
from benchmarks.engine.tasks import TASKS as BY_NAME
from tests.benchmarks.engine.plans import a_class, a_plan


def messages_of(request: Prepared) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in json.loads(request.body)["messages"]]


def a_workload(turns: int = 3, **changes) -> Workload:
    classes = (a_class(prompt_tokens=Uniform(50, 60), output_tokens=Uniform(64, 80)),)
    return Workload(a_plan(sessions=Sessions(turns=turns), **({"classes": classes} | changes)))


@pytest.mark.parametrize("index, session, turn", [(0, 0, 0), (2, 0, 2), (3, 1, 0), (11, 3, 2)])
def test_requests_in_a_row_are_the_turns_of_a_session(index, session, turn):
    request = a_workload().build(index)
    assert (request.session, request.turn, len(messages_of(request))) == (session, turn, 2 * turn + 1)


def test_without_sessions_there_is_neither_a_session_nor_a_turn():
    request = Workload(a_plan()).build(3)
    assert (request.session, request.turn) == (None, None)


@pytest.mark.parametrize("task", TASKS)
def test_each_turn_begins_with_the_messages_of_the_last_and_roles_alternate(task):
    workload = a_workload(turns=4, task=task)
    for session in range(5):
        turns = [messages_of(workload.build(session * 4 + turn)) for turn in range(4)]
        for earlier, later in pairwise(turns):
            assert later[: len(earlier)] == earlier
        assert [role for role, _ in turns[-1]] == ["user", "assistant"] * 3 + ["user"]


@pytest.mark.parametrize("task", TASKS)
def test_the_earlier_answers_of_a_conversation_are_right_ones(task):
    workload = a_workload(turns=3, task=task)
    first, last = workload.build(0), workload.build(2)
    answer = messages_of(last)[1][1]
    assert BY_NAME[task].check(first.expected, first.asked_output_tokens, answer)


def test_prompt_tokens_count_every_message():
    workload = a_workload()
    for index in range(9):
        request = workload.build(index)
        assert request.intended_prompt_tokens == sum(len(text.split()) for _, text in messages_of(request))
        assert request.text == "\n".join(text for _, text in messages_of(request))
    assert workload.build(2).intended_prompt_tokens > 2 * (50 + 64)


def test_a_turn_does_not_depend_on_what_was_built_before_it():
    one, other = a_workload(), a_workload()
    for index in (8, 3, 0):
        one.build(index)
    assert one.build(5) == other.build(5)


def test_sessions_begin_apart_and_a_session_keeps_to_its_class():
    classes = (a_class("short", prompt_tokens=Fixed(20)), a_class("long", prompt_tokens=Fixed(90)))
    workload = a_workload(classes=classes, class_name="mixed")
    begun = {tuple(messages_of(workload.build(3 * n))[0][1].split()[:UNIQUE_WORDS]) for n in range(300)}
    assert len(begun) == 300
    names = [{workload.build(3 * n + turn).class_name for turn in range(3)} for n in range(60)]
    assert {len(each) for each in names} == {1}
    assert set().union(*names) == {"short", "long"}


def test_a_shared_prefix_is_part_of_the_first_message_only():
    workload = a_workload(shared_prefix_share=0.5, classes=(a_class(prompt_tokens=Fixed(40), output_tokens=Fixed(5)),))
    last = [messages_of(workload.build(3 * n + 2)) for n in range(20)]
    assert len({tuple(messages[0][1].split()[:20]) for messages in last}) == 1
    assert len({tuple(messages[2][1].split()[:4]) for messages in last}) == 20
    assert [len(text.split()) for _, text in last[0]] == [40, 5, 40, 5, 40]


def test_one_turn_per_session_is_the_same_workload_as_no_sessions():
    assert a_workload(turns=1).digest(10) == Workload(a_plan(classes=a_workload()._classes)).digest(10)
