"""Several attempts are one request; open loops tell whether they were punctual, gathering what it cost, sets how far."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from benchmarks.engine.columns import from_frames
from benchmarks.engine.load import MicroBatch, OpenLoop, Poisson, StaticBatch
from benchmarks.engine.summary import SUMMARY_SCHEMA, summarise
from benchmarks.engine.summary_types import as_json, from_json
from benchmarks.engine.terms import BatchRecord, End, Outcome, Phase, RequestRecord, Resumed, Window
from tests.benchmarks.engine.plans import FAILED, MS, S, a_header, a_plan, a_record

STORED = Path(__file__).resolve().parents[2] / "data" / "evidence" / "schema1_summary.json"


def summary(*frames, planned: int | None = None, window_s: int = 1, sent: int | None = None, **changes):
    plan = a_plan(**changes)
    if sent is None:
        sent = len({frame.index for frame in frames if isinstance(frame, RequestRecord)})
    end = End(t_ns=2 * S, complete=True, reason="done", sent=sent, planned=planned)
    window = Window(start_ns=0, end_ns=window_s * S)
    return summarise(from_frames([a_header(plan), *frames, window, end]), plan)


def failed(index: int, attempt: int, outcome: Outcome = Outcome.REJECTED, **changes) -> RequestRecord:
    return a_record(index, **({"attempt": attempt, "outcome": outcome} | FAILED | changes))


# ── attempts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def again(index: int, attempt: int, after_ms: int = 0, **changes) -> RequestRecord:
    """A good attempt that was written `after_ms` after the request was due."""
    at = index * MS
    names = ("t_sent_ns", "t_headers_ns", "t_first_ns", "t_answer_ns", "t_last_ns", "t_end_ns", "t_closed_ns")
    moved = {name: getattr(a_record(index), name) + after_ms * MS for name in names}
    return a_record(index, **({"attempt": attempt, "t_scheduled_ns": at + after_ms * MS} | moved | changes))


def test_the_last_attempt_is_what_became_of_a_request_and_the_first_is_when_it_was_due():
    found = summary(failed(0, 1), failed(0, 2), again(0, 3, after_ms=500), a_record(1))
    assert (found.scheduled, found.outcomes, found.attempts, found.attempts_per_request) == (2, {"ok": 2}, 4, 2.0)
    only = found.of_class("short")
    assert (only.success.hits, only.success.n) == (2, 2)
    slowest = max(only.e2e_s.p50.value, only.e2e_s.p50.upper or 0)
    assert slowest == pytest.approx(0.1)
    assert summary(failed(0, 1), again(0, 2, after_ms=500)).of_class("short").e2e_s.p50.value == pytest.approx(0.6)
    assert summary(failed(0, 1), again(0, 2, after_ms=500)).of_class("short").server_e2e_s.p50.value == pytest.approx(
        0.099
    )


def test_a_request_whose_last_attempt_failed_has_failed():
    found = summary(again(0, 1, valid=False), failed(0, 2, Outcome.SERVER_ERROR))
    assert (found.outcomes, found.completed_per_s) == ({"server_error": 1}, 0.0)


def test_a_retry_after_the_window_belongs_to_the_window_of_its_first_attempt():
    found = summary(
        failed(0, 1), again(0, 2, after_ms=2000, phase=Phase.AFTER), failed(1, 1, phase=Phase.WARMUP), again(1, 2)
    )
    assert (found.scheduled, found.warmup_requests, found.outcomes) == (1, 1, {"ok": 1})


CONSERVED = {
    "three tries of one": ([(0, 1), (0, 2), (0, 3), (1, 1)], 2, True),
    "in any order": ([(1, 1), (0, 2), (0, 1)], 2, True),
    "an attempt twice": ([(0, 1), (0, 1), (0, 2)], 1, False),
    "an attempt missing": ([(0, 1), (0, 3)], 1, False),
    "the first missing": ([(0, 2)], 1, False),
    "an index missing": ([(0, 1), (2, 1), (2, 2)], 3, False),
    "one more was sent": ([(0, 1), (0, 2)], 2, False),
    "nobody counted": ([(0, 1), (0, 2)], None, None),
}


@pytest.mark.parametrize("name", CONSERVED)
def test_every_request_is_there_with_every_attempt(name):
    pairs, sent, conserved = CONSERVED[name]
    plan = a_plan()
    records = [again(index, attempt) for index, attempt in pairs]
    end = End(t_ns=2 * S, complete=True, reason="done", sent=sent)
    found = summarise(from_frames([a_header(plan), *records, Window(start_ns=0, end_ns=S), end]), plan)
    assert (found.conserved, found.recorded) == (conserved, len({index for index, _ in pairs}))


def test_the_order_of_the_log_changes_nothing():
    records = [failed(i, 1) for i in range(0, 30, 3)] + [again(i, 2, after_ms=7) for i in range(0, 30, 3)]
    records += [a_record(i, gaps_us=bytes([i, 0, 0, 0]) * i) for i in range(30) if i % 3]
    mixed = random.Random(3).sample(records, len(records))
    assert as_json(summary(*records)) == as_json(summary(*mixed))


def test_without_a_second_try_there_is_one_attempt_for_each():
    assert (summary(a_record(0), a_record(1)).attempts_per_request, summary().attempts_per_request) == (1.0, None)


# ── open loops ─────────────────────────────────────────────────────────────────────────────────────────────────────

OPEN = {"load": OpenLoop(arrivals=Poisson(rate_per_s=4.0)), "window_s": 1}


def late(index: int, us: int) -> RequestRecord:
    return again(index, 1, t_sent_ns=index * MS + us * 1000)


def test_an_open_loop_tells_what_it_was_asked_for_and_what_it_sent():
    found = summary(late(0, 0), late(1, 2000), late(2, 2001), planned=4, **OPEN).open_loop
    assert (found.planned, found.requested_per_s, found.sent_per_s) == (4, 4.0, 3.0)
    assert (found.on_time.hits, found.on_time.n) == (2, 4)
    assert found.late_max_s == pytest.approx(0.002001)


def test_what_was_due_and_never_sent_is_infinitely_late():
    found = summary(*[late(i, 10) for i in range(50)], planned=100, **OPEN).open_loop
    assert (found.late_s.p99.value, found.late_s.p99.n, found.on_time.n) == (math.inf, 100, 100)
    unsent = summary(failed(0, 1, Outcome.CLIENT_FAULT, t_sent_ns=None), **OPEN).open_loop
    assert (unsent.planned, unsent.sent_per_s, unsent.late_max_s, unsent.on_time.hits) == (1, 0.0, None, 0)


def test_a_retry_is_not_late_by_the_wait_before_it():
    found = summary(failed(0, 1, t_sent_ns=MS), again(0, 2, after_ms=900), **OPEN).open_loop
    assert (found.late_max_s, found.on_time.hits, found.on_time.n) == (pytest.approx(0.001), 1, 1)


def test_what_the_window_sent_late_counts_by_when_it_was_sent():
    handed_over = late(0, 500).__class__(**{**_fields(late(0, 500)), "phase": Phase.WARMUP})
    beyond = late(1, 5_000_000)
    found = summary(handed_over, beyond, **OPEN).open_loop
    assert (found.planned, found.requested_per_s, found.sent_per_s) == (1, 1.0, 1.0)


def _fields(record: RequestRecord) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_a_closed_loop_has_no_arrivals_to_be_late_for():
    found = summary(a_record(0))
    assert (found.open_loop, found.micro_batch, found.static_batch) == (None, None, None)


def test_an_open_loop_that_never_opened_its_window_has_no_rates():
    plan = a_plan(**OPEN)
    found = summarise(from_frames([a_header(plan)]), plan).open_loop
    assert (found.planned, found.requested_per_s, found.sent_per_s, found.on_time.value) == (0, None, None, None)


# ── micro-batches ──────────────────────────────────────────────────────────────────────────────────────────────────

GATHER = {"load": MicroBatch(arrivals=Poisson(rate_per_s=9.0), max_items=4, max_wait_ms=50.0)}


def gathered(index: int, batch: int, wait_ms: float, **changes) -> RequestRecord:
    at = index * MS
    closed = at + round(wait_ms * MS)
    return again(index, 1, batch=batch, gathered_ns=closed, t_sent_ns=closed + 100_000, t_first_ns=None, **changes)


def test_the_wait_for_others_is_told_and_is_inside_the_users_time():
    found = summary(gathered(0, 0, 2.0), gathered(1, 0, 1.0), gathered(2, 1, 0.0), stream=False, **GATHER)
    batch = found.micro_batch
    assert (batch.batches, batch.items_per_batch, batch.over_max_wait) == (2, 1.5, 0)
    assert (batch.added_wait_s.p50.value, batch.added_wait_max_s) == (0.001, 0.002)
    only = found.of_class("short")
    assert only.e2e_s.p50.value - only.server_e2e_s.p50.value == pytest.approx(0.0011)


@pytest.mark.parametrize("wait_ms, over", [(50.0, 0), (50.001, 1)])
def test_a_wait_beyond_the_plans_is_counted(wait_ms, over):
    assert summary(gathered(0, 0, wait_ms, t_end_ns=100 * S), stream=False, **GATHER).micro_batch.over_max_wait == over


def test_gathering_is_not_lateness():
    found = summary(gathered(0, 0, 40.0), stream=False, **GATHER).open_loop
    assert (found.on_time.hits, found.late_max_s) == (1, 0.0001)


def test_a_batch_at_the_windows_edge_counts_with_all_its_items():
    found = summary(gathered(0, 0, 2.0, phase=Phase.WARMUP), gathered(1, 0, 1.0), stream=False, **GATHER)
    assert (found.micro_batch.batches, found.micro_batch.items_per_batch) == (1, 2.0)
    assert found.micro_batch.added_wait_s.p50.n == 1


def test_no_batch_no_numbers():
    found = summary(**GATHER).micro_batch
    assert (found.batches, found.items_per_batch, found.added_wait_max_s) == (0, None, None)


# ── static batches ─────────────────────────────────────────────────────────────────────────────────────────────────


def item(index: int, batch: int, **changes) -> RequestRecord:
    return again(index, 1, batch=batch, **changes)


def test_a_known_set_tells_how_far_it_came():
    load = StaticBatch(items=10, batch_size=2)
    records = [item(i, i // 2) for i in range(4)] + [failed(4, 1, batch=2, t_closed_ns=50 * MS), failed(5, 1, batch=2)]
    records += [again(5, 2, after_ms=897, batch=3)]
    found = summary(*records, load=load).static_batch
    assert (found.items, found.done, found.failed, found.open, found.batches) == (10, 5, 1, 4, 4)
    assert (found.makespan_s, found.items_per_s, found.resumed) == (pytest.approx(1.002), pytest.approx(5 / 1.002), 0)


def test_rounds_are_counted_by_their_own_records_too():
    rounds = [
        BatchRecord(batch=n, items=2, t_gathered_ns=0, t_sent_ns=0, t_end_ns=S, outcome=Outcome.OK) for n in (0, 7)
    ]
    assert summary(item(0, 0), *rounds, load=StaticBatch(items=1, batch_size=2)).static_batch.batches == 2


def test_an_interruption_is_inside_the_makespan():
    later = Resumed(wall_ns=1_796_000_060 * S, monotonic_ns=0)
    found = summary(item(0, 0), later, item(1, 1), load=StaticBatch(items=2, batch_size=1))
    assert (found.static_batch.resumed, found.static_batch.done) == (1, 2)
    assert found.static_batch.makespan_s == pytest.approx(60.101)
    assert found.conserved


def test_a_set_that_nobody_began_has_no_makespan():
    found = summary(load=StaticBatch(items=3, batch_size=1)).static_batch
    assert (found.done, found.open, found.makespan_s, found.items_per_s) == (0, 3, None, None)


# ── older summaries ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_summary_of_an_older_schema_still_loads():
    old = from_json(json.loads(STORED.read_text()))
    assert (old.schema, SUMMARY_SCHEMA) == (2, 5)
    assert (old.scheduled, old.attempts, old.open_loop, old.steadiness) == (223, None, None, {})
    only = old.of_class("short")
    assert (only.success.hits, only.server_e2e_s, only.chunk_gap_s, only.buffered) == (140, None, None, False)
    assert (old.closed_per_s, old.mean_e2e_s, only.pools) == (None, None, {})


@pytest.mark.parametrize("load", [OPEN["load"], GATHER["load"], StaticBatch(items=2, batch_size=1)])
def test_a_summary_of_each_kind_of_load_survives_json(load):
    found = summary(gathered(0, 0, 2.0), failed(1, 1), load=load)
    assert from_json(json.loads(json.dumps(as_json(found)))) == found
