"""The same seed is the same workload; every request is unique, sized as drawn, and its answer can be checked."""

from __future__ import annotations

import json

import pytest

from benchmarks.engine.dialects.table import DIALECTS
from benchmarks.engine.plan import Fixed, Lognormal, Uniform
from benchmarks.engine.prompts import MARKER_WORDS, TASKS, UNIQUE_WORDS, Workload
from benchmarks.runtimes.vocabulary import WORD_COUNT, WORDS
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


def test_the_table_that_makes_text_holds_the_vocabulary_in_its_order():
    from benchmarks.engine.prompts import _words

    assert _words(bytes(range(WORD_COUNT))) == " " + " ".join(WORDS)


def test_no_two_seeds_share_a_prompt_once_it_has_room_for_the_marker():
    """Also for numbers where the first half of the marker is the same by the arithmetic of it."""
    classes = (a_class(prompt_tokens=Fixed(MARKER_WORDS)),)
    built = [{text_of(Workload(a_plan(seed=s, classes=classes)).build(i)) for i in range(400)} for s in range(1, 9)]
    assert len(set().union(*built)) == sum(len(texts) for texts in built) == 8 * 400
    one, two = (Workload(a_plan(seed=s, classes=classes)) for s in (1, 2))
    assert text_of(one.build(1)).split()[:UNIQUE_WORDS] == text_of(two.build(0)).split()[:UNIQUE_WORDS]
    assert text_of(one.build(1)) != text_of(two.build(0))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("tokens", [48, 60, 2000])
def test_a_prompt_has_exactly_the_drawn_number_of_words_with_its_task(task, tokens):
    workload = Workload(a_plan(task=task, classes=(a_class(prompt_tokens=Fixed(tokens), output_tokens=Fixed(80)),)))
    for index in range(40):
        request = workload.build(index)
        assert request.intended_prompt_tokens == len(text_of(request).split()) == tokens


@pytest.mark.parametrize("task", TASKS)
def test_a_prompt_too_short_for_its_task_is_as_long_as_it_must_be_and_says_so(task):
    workload = Workload(a_plan(task=task, classes=(a_class(prompt_tokens=Fixed(1), output_tokens=Fixed(1)),)))
    for index in range(40):
        request = workload.build(index)
        least = TASKS[task].least_ask_words + UNIQUE_WORDS if task != "words" else 1
        assert request.intended_prompt_tokens == len(text_of(request).split())
        assert request.intended_prompt_tokens == least
        assert request.asked_output_tokens == TASKS[task].least_output_tokens


@pytest.mark.parametrize("task", TASKS)
def test_the_prompt_as_one_text_states_what_is_right(task):
    request = Workload(a_plan(task=task, classes=(a_class(prompt_tokens=Fixed(60), output_tokens=Fixed(80)),))).build(7)
    if task in ("echo", "label"):
        assert request.expected in text_of(request)
    assert (request.task, request.text) == (task, text_of(request))


@pytest.mark.parametrize("share, common", [(0.0, 0), (0.25, 10), (0.5, 20), (1.0, 32)])
def test_a_declared_share_of_each_prompt_is_one_text_and_the_marker_follows_it(share, common):
    plan = a_plan(shared_prefix_share=share, classes=(a_class(prompt_tokens=Fixed(40)),))
    prompts = [text_of(Workload(plan).build(index)).split() for index in range(300)]
    assert {tuple(words[:common]) for words in prompts} == {tuple(prompts[0][:common])}
    assert len({tuple(words[common : common + UNIQUE_WORDS]) for words in prompts}) == 300
    assert {len(words) for words in prompts} == {40}


def test_a_longer_class_shares_more_of_the_same_text_and_each_seed_has_its_own():
    classes = (a_class("short", prompt_tokens=Fixed(40)), a_class("long", prompt_tokens=Fixed(4000)))

    def first(name, seed=1):
        plan = a_plan(shared_prefix_share=0.5, class_name=name, classes=classes, seed=seed)
        return text_of(Workload(plan).build(0)).split()

    assert first("short")[:20] == first("long")[:20]
    assert first("long")[:2000] != first("long", seed=2)[:2000]
    assert first("short")[:20] != first("short", seed=2)[:20]


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match="is not a share from 0 to 1"):
        Workload(a_plan(shared_prefix_share=share))


@pytest.mark.parametrize("stream, ignore_eos", [(True, False), (False, True)])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_body_is_made_by_the_plans_dialect(dialect, stream, ignore_eos):
    body = Workload(a_plan(dialect=dialect, stream=stream, ignore_eos=ignore_eos)).build(0).body
    assert (b'"stream":true' in body) == (stream and DIALECTS[dialect].STREAMS)
    assert (b"ignore_eos" in body or b"EOS" in body) <= ignore_eos


def test_lengths_follow_their_class_and_arrivals_do_not_touch_them():
    classes = (
        a_class("short", prompt_tokens=Uniform(10, 20)),
        a_class("long", prompt_tokens=Lognormal(90, 0.2, 60, 150)),
    )
    one, other = (Workload(a_plan(class_name="mixed", classes=classes, arrival_seed=s)) for s in (1, 2))
    assert one.digest(50) == other.digest(50)
    for index in range(200):
        request = one.build(index)
        low, high = (10, 20) if request.class_name == "short" else (60, 150)
        assert low <= request.intended_prompt_tokens <= high


def test_lengths_that_depend_on_each_other_are_drawn_as_pairs():
    pairs = ((20, 200), (100, 10), (300, 1))
    workload = Workload(a_plan(classes=(a_class(pairs=pairs),)))
    seen = [(r.intended_prompt_tokens, r.asked_output_tokens) for r in map(workload.build, range(900))]
    assert {pair: 250 < seen.count(pair) < 350 for pair in set(seen)} == dict.fromkeys(pairs, True)


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
