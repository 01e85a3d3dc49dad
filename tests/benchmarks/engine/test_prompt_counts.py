"""A server that counts words as tokens counts what was intended, in every dialect; no prompt is empty, none repeats."""

from __future__ import annotations

import pytest

from benchmarks.engine.dialects.table import DIALECTS
from benchmarks.engine.load import Sessions
from benchmarks.engine.plan import Fixed, Uniform
from benchmarks.engine.prompts import TASKS, Workload
from benchmarks.simulator.asks import Api, Ask, read_ask
from tests.benchmarks.engine.plans import a_class, a_plan

API = {dialect.NAME: Api(dialect.PATH) for dialect in DIALECTS.values()}
CLASSES = (a_class("short", prompt_tokens=Uniform(50, 90), output_tokens=Uniform(64, 90)), a_class(
    "long", prompt_tokens=Uniform(700, 900), output_tokens=Uniform(64, 300)))  # fmt: skip


def received(workload: Workload, index: int, dialect: str) -> Ask:
    asked = read_ask(workload.build(index).body, api=API[dialect], model="tiny", seed=0)
    assert isinstance(asked, Ask)
    return asked


@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_server_counts_the_prompt_tokens_that_were_intended(dialect: str, task: str, turns: int) -> None:
    plan = a_plan(dialect=dialect, task=task, class_name="mixed", classes=CLASSES, sessions=Sessions(turns=turns))
    workload = Workload(plan)
    for index in range(9):
        intended = workload.build(index)
        asked = received(workload, index, dialect)
        assert (asked.prompt_tokens, len(asked.items)) == (intended.intended_prompt_tokens, 1)
        assert asked.items[0].prompt == intended.text


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("tokens", [1, 2, 7, 8, 9, 40])
@pytest.mark.parametrize("task", TASKS)
def test_no_prompt_is_empty_and_the_count_holds_however_short_it_is(task: str, tokens: int, share: float) -> None:
    plan = a_plan(task=task, shared_prefix_share=share, classes=(a_class(prompt_tokens=Fixed(tokens)),))
    workload = Workload(plan)
    for index in range(30):
        asked = received(workload, index, "openai_chat")
        assert asked.prompt_tokens == workload.build(index).intended_prompt_tokens >= tokens


@pytest.mark.parametrize("task", TASKS)
def test_no_prompt_of_a_cell_is_sent_twice(task: str) -> None:
    workload = Workload(a_plan(task=task, classes=(a_class(prompt_tokens=Fixed(60), output_tokens=Fixed(64)),)))
    assert len({workload.build(index).text for index in range(2000)}) == 2000


def test_the_simulator_answers_an_echo_of_any_turn_rightly() -> None:
    """The last line that prescribes an answer is the one of this turn, not of an earlier one."""
    plan = a_plan(task="echo", classes=CLASSES, class_name="short", sessions=Sessions(turns=3))
    workload = Workload(plan)
    for index in range(9):
        request = workload.build(index)
        answer = " ".join(received(workload, index, "openai_chat").items[0].words)
        assert TASKS["echo"].check(request.expected, request.asked_output_tokens, answer)
