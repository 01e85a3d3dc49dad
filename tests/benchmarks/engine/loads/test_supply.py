"""The next request comes from the one workload, inside the ceilings, whoever asks for it and whatever was built ahead."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.engine.load import Sessions
from benchmarks.engine.plan import Uniform
from benchmarks.engine.prompts import Prepared, Workload
from benchmarks.engine.supply import Shard, Supply
from tests.benchmarks.engine.plans import a_class, a_plan

LENGTHS = (a_class(prompt_tokens=Uniform(8, 12), output_tokens=Uniform(2, 9)),)


def all_of(supply: Supply) -> list[Prepared]:
    taken = []
    while (prepared := supply.take()) is not None:
        taken.append(prepared)
    return taken


@given(st.integers(0, 10_000), st.integers(1, 64))
def test_the_parts_of_all_processes_add_up_and_differ_by_one_at_most(whole, of):
    parts = [Shard(number, of).part(whole) for number in range(of)]
    assert sum(parts) == whole
    assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_the_processes_together_ask_what_one_would_have_asked(of):
    plan = a_plan(max_requests=50, classes=LENGTHS)
    taken = [prepared for number in range(of) for prepared in all_of(Supply(plan, Shard(number, of)))]
    expected = [Workload(plan).build(index) for index in range(50)]
    assert sorted(taken, key=lambda prepared: prepared.index) == expected


@pytest.mark.parametrize("ahead", [0, 3, 1000])
def test_what_was_built_ahead_does_not_change_what_is_asked(ahead):
    plan = a_plan(max_requests=20, classes=LENGTHS)
    supply = Supply(plan, Shard())
    supply.build_ahead(until_s=time.monotonic() + 10, at_most=ahead)
    assert all_of(supply) == [Workload(plan).build(index) for index in range(20)]
    supply.build_ahead(until_s=time.monotonic() + 10, at_most=5)
    assert supply.take() is None


def test_turns_follow_their_session_and_the_numbers_count_what_was_asked():
    plan = a_plan(sessions=Sessions(turns=2), max_requests=5)
    supply, workload = Supply(plan, Shard()), Workload(plan)
    one = supply.take()
    other = supply.take()
    after_other = supply.take(other)
    after_one = supply.take(one)
    third = supply.take(after_one)  # its session is over: a new one
    taken = [one, other, after_other, after_one, third]
    assert [(p.index, p.session, p.turn) for p in taken] == [(0, 0, 0), (1, 1, 0), (2, 1, 1), (3, 0, 1), (4, 2, 0)]
    assert [p.body for p in taken] == [workload.build(index).body for index in (0, 2, 3, 1, 4)]
    assert (supply.take(third), supply.sent, supply.ended) == (None, 5, "ceiling: 5 requests")


@pytest.mark.parametrize(
    ("ceiling", "words", "taken"),
    [
        ({"max_requests": 4}, "ceiling: 4 requests", 4),
        ({"max_tokens": 40}, "ceiling: 40 tokens", 4),  # 8 + 2 each
        ({"max_tokens": 39}, "ceiling: 39 tokens", 3),
        ({"max_requests": 0}, "ceiling: 0 requests", 0),
    ],
)
def test_a_ceiling_is_reached_and_never_passed(ceiling, words, taken):
    supply = Supply(a_plan(**ceiling), Shard())
    assert (len(all_of(supply)), supply.sent, supply.ended) == (taken, taken, words)
    assert supply.take() is None
    assert supply.sent == taken


@pytest.mark.parametrize(
    ("changes", "asked", "given", "words"),
    [
        ({}, 10, 10, ""),
        ({"max_requests": 12}, 10, 10, ""),  # two were taken before
        ({"max_requests": 11}, 10, None, "ceiling: 11 requests"),
        ({"max_tokens": 120}, 10, 10, ""),
        ({"max_tokens": 119}, 10, None, "ceiling: 119 tokens"),
    ],
)
def test_items_of_a_set_count_against_the_ceilings_with_what_earlier_runs_took(changes, asked, given, words):
    supply = Supply(a_plan(**({"max_requests": 100} | changes)), Shard())
    supply.spent(2, 20)
    items = supply.items(range(5, 5 + asked))
    assert (None if items is None else [item.index for item in items]) == (given and list(range(5, 15)))
    assert supply.ended == words


def test_what_was_taken_of_the_ceilings_counts_each_try_and_not_what_earlier_runs_took():
    supply = Supply(a_plan(max_requests=100), Shard())
    supply.spent(2, 20)
    first = supply.take_of(None)
    assert first is not None
    assert supply.take_again(first)
    supply.take()
    assert (supply.sent, supply.attempts, supply.asked_tokens) == (2, 3, 30)
