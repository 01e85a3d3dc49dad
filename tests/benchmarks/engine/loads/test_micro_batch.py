"""Gathering: at once where nothing is gained by waiting, else at most so many and so long, and charged to the request."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.engine.exchange import Due
from benchmarks.engine.load import Constant, Gamma, MicroBatch, OpenLoop, Poisson, Replay
from benchmarks.engine.micro_batch import Gatherer
from benchmarks.engine.plan import Uniform
from benchmarks.engine.prompts import Workload
from benchmarks.engine.runner import Cell
from benchmarks.engine.terms import Outcome, Phase
from tests.benchmarks.engine.loads.running import MODEL, MS, NO_ERROR_LIMIT, Left, S, embeddings, run_cell, simulator
from tests.benchmarks.engine.plans import a_class, a_plan
from tests.benchmarks.engine.scripted import Hang, Pause, Scripted, plain

A_HUNDRED = Constant(100.0)
DIALECTS = ["openai_embeddings", "openai_completions"]
PREPARED = Workload(a_plan(dialect="openai_embeddings")).build(0)


@pytest.fixture(scope="module")
def url():
    with simulator() as address:
        yield address


def gathered(tmp_path, *scripts, arrivals=A_HUNDRED, max_items=8, max_wait_ms=30.0, **changes) -> Left:
    load = MicroBatch(arrivals=arrivals, max_items=max_items, max_wait_ms=max_wait_ms)
    defaults = {"offered_concurrency": 16, "stream": False, "dialect": "openai_embeddings", "model": MODEL}
    return run_cell(tmp_path, *scripts, load=load, **(defaults | changes))


# ── the rule alone ─────────────────────────────────────────────────────────────────────────────────────────────────


def due(t_ns: int) -> Due:
    return Due(PREPARED, t_ns, Phase.WINDOW)


@given(
    gaps=st.lists(st.integers(0, 60 * MS), min_size=1, max_size=60),
    idle=st.lists(st.booleans(), min_size=60, max_size=60),
    max_items=st.integers(1, 5),
    max_wait_ns=st.integers(0, 40 * MS),
)
def test_no_arrival_is_lost_held_too_long_or_in_too_large_a_batch(gaps, idle, max_items, max_wait_ns):
    gatherer, now_ns, batches = Gatherer(max_items=max_items, max_wait_ns=max_wait_ns), 0, []
    times = []
    for gap_ns, is_idle in zip(gaps, idle, strict=False):
        now_ns += gap_ns
        times.append(now_ns)
        if gatherer.due_ns is not None and gatherer.due_ns <= now_ns:
            batches.append((gatherer.due_ns, gatherer.take()))
        if batch := gatherer.arrive(due(now_ns), idle=is_idle):
            batches.append((now_ns, batch))
    if gatherer.due_ns is not None:
        batches.append((gatherer.due_ns, gatherer.take()))
    assert [item.t_scheduled_ns for _, batch in batches for item in batch] == times
    assert all(1 <= len(batch) <= max_items for _, batch in batches)
    assert all(0 <= closed_ns - item.t_scheduled_ns <= max_wait_ns for closed_ns, batch in batches for item in batch)


@pytest.mark.parametrize(
    ("before_ms", "idle", "held"),
    [
        ([], False, False),  # the first of all
        ([10], False, False),  # two may fall together by chance
        ([29, 29], False, True),  # three are traffic
        ([30, 29], False, False),  # after a gap as long as the longest wait
        ([29, 30], False, False),
        ([29, 29], True, False),  # nothing in flight: nothing is gained by waiting
    ],
)
def test_at_low_traffic_an_arrival_goes_at_once(before_ms, idle, held):
    gatherer, now_ms = Gatherer(max_items=8, max_wait_ns=30 * MS), 0
    for gap_ms in before_ms:
        gatherer.arrive(due(now_ms * MS), idle=True)
        now_ms += gap_ms
    sent = gatherer.arrive(due(now_ms * MS), idle=idle)
    assert (len(sent), gatherer.due_ns is not None) == ((0, True) if held else (1, False))


@pytest.mark.parametrize(("max_wait_ms", "close_after_ms"), [(100, 95), (30, 25), (20, 15), (10, 7.5), (4, 3), (0, 0)])
def test_what_is_held_goes_a_little_before_the_longest_wait_of_its_first_arrival(max_wait_ms, close_after_ms):
    gatherer = Gatherer(max_items=3, max_wait_ns=max_wait_ms * MS)
    for _ in range(2):
        gatherer.arrive(due(0), idle=True)
    gatherer.arrive(due(0), idle=False)
    if max_wait_ms:
        assert gatherer.due_ns == round(close_after_ms * MS)
        assert gatherer.arrive(due(1 * MS), idle=True) == []  # with others held it belongs to them
        assert gatherer.due_ns == round(close_after_ms * MS)
        assert len(gatherer.arrive(due(2 * MS), idle=False)) == 3
    assert gatherer.due_ns is None


@pytest.mark.parametrize(("max_items", "max_wait_ns"), [(0, 1), (1, -1)])
def test_a_rule_that_makes_no_sense_is_refused(max_items, max_wait_ns):
    with pytest.raises(ValueError, match="at least one item"):
        Gatherer(max_items=max_items, max_wait_ns=max_wait_ns)


# ── over sockets ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("arrivals", [Poisson(150.0), Gamma(150.0, 0.2)], ids=["poisson", "bursts"])
def test_batches_conserve_items_and_none_is_too_large(tmp_path, url, dialect, arrivals):
    left = gathered(tmp_path, url=url, dialect=dialect, arrivals=arrivals, warmup_s=0.2, window_s=1.0, max_items=5)
    assert left.outcomes == {Outcome.OK: len(left.records)}
    of_batch = defaultdict(list)
    for record in left.records:
        of_batch[record.batch].append(record)
    assert {batch.batch: batch.items for batch in left.batches} == {n: len(found) for n, found in of_batch.items()}
    assert sorted(of_batch) == list(range(len(of_batch)))
    assert max(len(found) for found in of_batch.values()) == 5
    assert sum(batch.items for batch in left.batches) == len(left.records) == left.columns.end.sent
    assert sorted(record.index for record in left.records) == list(range(len(left.records)))
    assert left.summary.conserved
    for batch in left.batches:
        found = of_batch[batch.batch]
        assert {r.gathered_ns for r in found} == {batch.t_gathered_ns}
        assert {(r.t_sent_ns, r.slot) for r in found} == {(batch.t_sent_ns, found[0].slot)}
        intended = sum(r.intended_prompt_tokens for r in found)
        assert batch.prompt_tokens == intended  # the server's total; its count is that of the words
        assert batch.t_end_ns == found[0].t_end_ns


def test_no_item_is_gathered_before_it_was_due_and_the_wait_is_in_the_users_times(tmp_path, url):
    left = gathered(tmp_path, url=url, arrivals=Constant(200.0), max_items=64, max_wait_ms=60.0)
    assert all(r.t_scheduled_ns <= r.gathered_ns <= r.t_sent_ns for r in left.records)
    held = [r for r in left.records if r.gathered_ns - r.t_scheduled_ns > 20 * MS]
    assert len(held) > len(left.records) / 4
    found = left.summary
    assert found.micro_batch.items_per_batch > 5
    only = found.of_class("short")
    assert only.e2e_ok_s.p50.value > only.server_e2e_ok_s.p50.value + 0.02
    assert found.open_loop.planned == 200


def test_at_one_request_a_second_nothing_is_gathered(tmp_path, url):
    left = gathered(tmp_path, url=url, arrivals=Constant(1.0), window_s=3.0, max_wait_ms=900.0)
    assert [batch.items for batch in left.batches] == [1, 1, 1]
    assert all(r.gathered_ns - r.t_scheduled_ns < 900 * MS / 2 for r in left.records)


def test_arrivals_at_one_time_go_together_up_to_the_most(tmp_path, url):
    left = gathered(tmp_path, url=url, arrivals=Replay((0.0, *[0.4] * 20)), max_items=8, max_wait_ms=300.0)
    sizes = sorted(batch.items for batch in left.batches)
    assert sizes == [1, 1, 1, 2, 8, 8]  # the first two of the burst may be chance, the last two wait in vain
    assert left.summary.conserved


def test_what_is_held_at_the_end_of_the_window_goes_at_once(tmp_path, url):
    left = gathered(tmp_path, url=url, arrivals=Replay((0.0, *[0.95] * 4)), window_s=1.0, max_wait_ms=9000.0)
    assert left.outcomes == {Outcome.OK: 5}
    last = max(left.records, key=lambda record: record.gathered_ns)
    assert left.columns.window.end_ns <= last.gathered_ns < left.columns.window.end_ns + 4 * S


@pytest.mark.parametrize("max_wait_ms", [0.0, 25.0])
def test_one_item_at_most_is_an_open_loop_of_lists_of_one(tmp_path, url, max_wait_ms):
    left = gathered(tmp_path, url=url, max_items=1, max_wait_ms=max_wait_ms, window_s=0.5)
    assert Counter(batch.items for batch in left.batches) == {1: 50}


def test_a_list_goes_out_with_its_items_in_order_and_one_alone_as_it_was_built(tmp_path):
    answers = [*[[embeddings(1)]] * 3, [embeddings(3)]]
    left = gathered(tmp_path, *answers, arrivals=Replay((0.0, *[0.3] * 5)), max_items=3, max_wait_ms=200.0)
    workload = Workload(left.columns.plan)
    assert left.outcomes == {Outcome.OK: 6}
    of_batch = defaultdict(list)
    for record in sorted(left.records, key=lambda record: record.index):
        of_batch[record.batch].append(workload.build(record.index).text)
    sent = [json.loads(body)["input"] for body in left.server.bodies]
    assert [text if isinstance(text, list) else [text] for text in sent] == [of_batch[n] for n in sorted(of_batch)]


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ([plain(500, b'{"error": {"message": "boom"}}')], Outcome.SERVER_ERROR),
        ([plain(503, b"{}", "retry-after: 1")], Outcome.REJECTED),
        ([plain(200, b'{"data": []}')], Outcome.MALFORMED),
        ([Pause(0.02), b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"], None),
    ],
    ids=["500", "503", "no vectors", "cut short"],
)
def test_what_fails_a_list_fails_each_of_its_items(tmp_path, script, outcome):
    left = gathered(
        tmp_path, script, arrivals=Constant(100.0), max_items=4, max_wait_ms=80.0, window_s=0.5, guard=NO_ERROR_LIMIT,
        idle_timeout_s=0.3,
    )  # fmt: skip
    assert len(left.records) == 50
    assert Outcome.OK not in left.outcomes
    if outcome is not None:
        assert left.outcomes == {outcome: 50}
    assert {batch.outcome for batch in left.batches} == set(left.outcomes)
    assert left.summary.conserved


@pytest.mark.parametrize(
    ("fault", "bad"), [("not_finite", Outcome.MALFORMED), ("missing_item", Outcome.MALFORMED), ("shuffled", Outcome.OK)]
)
def test_one_bad_item_is_its_own_and_a_list_that_lacks_one_is_nobodys(tmp_path, fault, bad):
    with simulator("--fault", f"{fault}=1") as address:
        left = gathered(
            tmp_path, url=address, arrivals=Constant(80.0), max_items=4, max_wait_ms=200.0, guard=NO_ERROR_LIMIT,
        )  # fmt: skip
    full = [batch.batch for batch in left.batches if batch.items == 4]
    outcomes = {n: Counter(r.outcome for r in left.records if r.batch == n) for n in full}
    assert len(full) > 5
    if fault == "not_finite":
        assert all(found == {Outcome.OK: 3, bad: 1} for found in outcomes.values())
    else:
        assert all(set(found) == {bad} for found in outcomes.values())
    assert left.summary.conserved


def stop(word: str):
    async def at_work(cell: Cell, server: Scripted) -> None:
        while not server.requests:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.3)
        cell.command(word)

    return at_work


@pytest.mark.parametrize("word", ["drain", "cancel"])
def test_a_stop_leaves_a_record_of_each_item_sent_waiting_or_held(tmp_path, word):
    left = gathered(
        tmp_path, [Pause(0.6), embeddings(1)], arrivals=Constant(100.0), offered_concurrency=1, max_items=4,
        max_wait_ms=50.0, window_s=30.0, at_work=stop(word), guard=NO_ERROR_LIMIT,
    )  # fmt: skip
    assert left.summary.conserved
    assert len(left.server.requests) == 1
    sent = [record for record in left.records if record.t_sent_ns is not None]
    assert [record.index for record in sent] == [0]
    assert len(left.records) > 20
    assert {r.outcome for r in left.records if r.t_sent_ns is None} == {
        Outcome.UNFINISHED if word == "drain" else Outcome.CANCELLED
    }
    assert left.summary.open_loop.planned == len(left.records)


def test_a_hanging_server_ends_as_unfinished_for_each_item(tmp_path):
    left = gathered(
        tmp_path, [Hang()], offered_concurrency=2, max_items=4, window_s=0.5, total_timeout_s=0.8,
        first_byte_timeout_s=60.0,
    )  # fmt: skip
    assert len(left.records) == 50
    assert set(left.outcomes) <= {Outcome.UNFINISHED, Outcome.TOTAL_TIMEOUT}
    assert left.summary.conserved


def test_a_dialect_without_lists_is_refused(tmp_path):
    with pytest.raises(ValueError, match="sends no lists"):
        gathered(tmp_path, dialect="openai_chat")


def test_the_workload_is_that_of_an_open_loop(tmp_path, url):
    batched = gathered(tmp_path, url=url, window_s=0.5)
    alone = run_cell(
        tmp_path, url=url, load=OpenLoop(Constant(100.0)), offered_concurrency=16, stream=False,
        dialect="openai_embeddings", model=MODEL, window_s=0.5,
    )  # fmt: skip
    assert batched.due_s == alone.due_s
    assert Workload(batched.columns.plan).digest(50) == Workload(alone.columns.plan).digest(50)


def test_items_of_one_list_are_asked_for_one_length_and_right_answers_are_valid(tmp_path, url):
    classes = (a_class(prompt_tokens=Uniform(16, 24), output_tokens=Uniform(6, 14)),)
    left = gathered(
        tmp_path, url=url, dialect="openai_completions", arrivals=Poisson(150.0), window_s=1.0, classes=classes
    )
    shared = [record for record in left.records if record.batch is not None]
    asked = {record.batch: set() for record in shared}
    for record in shared:
        asked[record.batch].add(record.asked_output_tokens)
    assert max(Counter(record.batch for record in shared).values()) > 1
    assert {len(lengths) for lengths in asked.values()} == {1}
    assert {record.valid for record in left.records} == {True}
