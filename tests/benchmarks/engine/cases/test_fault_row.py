"""A server that fails in six ways at once, 5 % each: every failure in its own class, none of them a success, none lost.

The engine runs as the program it is, over real sockets, against the simulated runtime, whose dice and written truth say
what became of each request.
"""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.engine import plan as plans
from benchmarks.engine.columns import Columns, from_log
from benchmarks.engine.log import read_frames
from benchmarks.engine.plan import CellPlan, Fixed, Guard
from benchmarks.engine.prompts import Workload
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import CellSummary
from benchmarks.engine.terms import Outcome, RequestRecord
from benchmarks.simulator.faults import Fault, FaultMix
from benchmarks.simulator.truth import Truth, prompt_digest
from tests.benchmarks.engine.plans import S, a_class, a_plan
from tests.benchmarks.engine.simulated import simulator, truths

SEED, SLOTS, REQUESTS, TOKENS, SHARE = 11, 12, 400, 6, 0.05
# what is done to a request, its class, and a word that its record holds
ROW = {
    Fault.HTTP_500: (Outcome.SERVER_ERROR, "HTTP 500"),
    Fault.HTTP_429: (Outcome.REJECTED, "HTTP 429"),
    Fault.RESET: (Outcome.TRUNCATED, "Error"),
    Fault.TRUNCATED: (Outcome.TRUNCATED, "without a terminal marker"),
    Fault.ERROR_IN_STREAM: (Outcome.IN_STREAM_ERROR, "on purpose"),
    Fault.STALL: (Outcome.IDLE_TIMEOUT, "client limit: 0.5 s without an event"),
}
PAUSE_S = {Outcome.REJECTED: 1.0, Outcome.SERVER_ERROR: 0.25}  # as its Retry-After says; as the engine does without one


class Row:
    """What a run left, and what the server knows of it."""

    def __init__(self, columns: Columns, records: list[RequestRecord], seen: list[Truth]) -> None:
        self.summary: CellSummary = summarise(columns, columns.plan)
        self.records = records
        self.workload = Workload(columns.plan)
        self.truths = {truth.prompt_digest: truth for truth in seen}
        self.drawn = Counter(drawn_faults(len(records)))

    def truth_of(self, record: RequestRecord) -> Truth | None:
        """None for what was refused before anything was computed."""
        return self.truths.get(prompt_digest(self.workload.build(record.index).text))


def drawn_faults(count: int) -> list[Fault | None]:
    """The server's own dice, one throw for each request that arrives."""
    mix = FaultMix(dict.fromkeys(ROW, SHARE), dice=random.Random(SEED + 1))
    return [mix.draw() for _ in range(count)]


def run_engine(plan: CellPlan, folder: Path) -> tuple[Columns, list[RequestRecord]]:
    (folder / "plan.json").write_bytes(plans.encode(plan))
    command = [sys.executable, "-m", "benchmarks.engine", str(folder / "plan.json"), str(folder / "cell.log")]
    # Its stdin is held open, since the engine ends with it.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as engine:
        assert engine.wait(120) == 0
    log = folder / "cell.log"
    return from_log(log), [frame for frame in read_frames(log) if isinstance(frame, RequestRecord)]


@pytest.fixture(scope="module")
def row(tmp_path_factory) -> Row:
    shares = [word for fault in ROW for word in ("--fault", f"{fault}={SHARE}")]
    with simulator("--seed", str(SEED), "--active", "16", *shares) as (url, model):
        plan = a_plan(
            base_url=url, model=model, classes=(a_class(output_tokens=Fixed(TOKENS)),), offered_concurrency=SLOTS,
            window_s=100.0, max_requests=REQUESTS, max_wall_s=110.0, idle_timeout_s=0.5, guard=Guard(max_error_share=None),
        )  # fmt: skip
        columns, records = run_engine(plan, tmp_path_factory.mktemp("row"))
        return Row(columns, records, truths(url))


def test_every_request_has_its_one_record_and_the_sum_is_what_was_sent(row):
    assert sorted(record.index for record in row.records) == list(range(REQUESTS))
    found = row.summary
    assert (found.conserved, found.sent, found.recorded, found.scheduled) == (True, REQUESTS, REQUESTS, REQUESTS)
    assert sum(found.outcomes.values()) == REQUESTS
    assert found.end_reason == f"ceiling: {REQUESTS} requests"


def test_the_classes_are_as_many_as_the_server_failed_in_each_way(row):
    assert all(row.drawn[fault] >= 5 for fault in ROW)  # of 400 at 5 %: else this row would show little
    failed = Counter(outcome for fault, (outcome, _) in ROW.items() for _ in range(row.drawn[fault]))
    assert Counter(record.outcome for record in row.records) == failed | Counter({Outcome.OK: row.drawn[None]})
    assert row.summary.outcomes == {outcome.value: n for outcome, n in (failed | {Outcome.OK: row.drawn[None]}).items()}


def test_each_request_is_in_the_class_of_what_the_server_did_to_it(row):
    told = Counter()
    for record in row.records:
        truth = row.truth_of(record)
        if truth is None:  # refused at once, and known by its status
            fault = {500: Fault.HTTP_500, 429: Fault.HTTP_429}[record.http_status]
        elif truth.fault == "":
            assert (record.outcome, record.output_tokens, truth.outcome) == (Outcome.OK, TOKENS, "finished")
            told[None] += 1
            continue
        else:
            fault = Fault(truth.fault)
        outcome, word = ROW[fault]
        assert (record.outcome, word in record.detail) == (outcome, True), (fault, record.detail)
        told[fault] += 1
    assert told == row.drawn


def test_a_broken_answer_keeps_what_had_come_of_it(row):
    broken = [(record, row.truth_of(record)) for record in row.records if record.outcome is not Outcome.OK]
    begun = [(record, truth) for record, truth in broken if truth is not None]
    assert len(begun) == sum(row.drawn[fault] for fault in ROW) - row.drawn[Fault.HTTP_500] - row.drawn[Fault.HTTP_429]
    for record, truth in begun:
        assert (len(record.gaps_us) // 4 + 1, record.valid, record.http_status) == (truth.tokens_sent, None, 200)
        assert record.t_first_ns >= truth.t_first_ns  # nothing is heard before it was said
        assert record.t_end_ns is None or record.outcome is Outcome.IN_STREAM_ERROR


def test_times_are_over_valid_completions_with_the_failed_as_infinite_beside(row):
    short, ok = row.summary.of_class("short"), row.drawn[None]
    assert (short.success.hits, short.success.n) == (ok, REQUESTS)
    assert (short.valid.hits, short.valid.n, short.good.hits, short.good.n) == (ok, ok, ok, REQUESTS)
    for of_successes in (short.e2e_ok_s, short.ttft_ok_s, short.server_e2e_ok_s):
        assert of_successes.p99.n == ok
        assert math.isfinite(of_successes.p99.value)
    for of_all in (short.e2e_s, short.ttft_s, short.server_e2e_s):
        assert of_all.p95.n == REQUESTS
        assert of_all.p95.value == math.inf  # near a third failed: the p95 lies among them
    assert math.isfinite(short.e2e_s.p50.value)
    assert row.summary.completed_per_s == pytest.approx(ok / row.summary.window_s)


def test_who_was_refused_waits_as_long_as_told_before_asking_again(row):
    by_slot: dict[int, list[RequestRecord]] = {}
    for record in sorted(row.records, key=lambda r: r.t_scheduled_ns):
        by_slot.setdefault(record.slot, []).append(record)
    waits = [
        (before.outcome, before.retry_after_s, (after.t_scheduled_ns - before.t_closed_ns) / S)
        for records in by_slot.values()
        for before, after in itertools.pairwise(records)
        if before.outcome in PAUSE_S
    ]
    assert {(outcome, told) for outcome, told, _ in waits} == {(Outcome.REJECTED, 1.0), (Outcome.SERVER_ERROR, None)}
    # The loop counts in whole milliseconds, from a time that its turn began with.
    early_s = [PAUSE_S[outcome] - wait_s for outcome, _, wait_s in waits]
    assert max(early_s) < 0.02


@pytest.mark.parametrize(
    ("way", "retry_after_s", "pause_s"),
    [("503", 1, 1.0), ("429", 0, 0.25)],
    ids=["as the server says", "a stated pause"],
)
def test_a_bounded_queue_that_refuses_does_not_burn_the_offered_count(tmp_path, way, retry_after_s, pause_s):
    slots, window_s = 10, 2.0
    full = ("--active", "1", "--queue-cap", "2", "--reject", way, "--retry-after", str(retry_after_s))
    with simulator(*full) as (url, model):
        plan = a_plan(
            base_url=url, model=model, classes=(a_class(output_tokens=Fixed(40)),), offered_concurrency=slots,
            window_s=window_s, max_requests=400, guard=Guard(max_error_share=None),
        )  # fmt: skip
        columns, records = run_engine(plan, tmp_path)
    found = summarise(columns, plan)
    assert (found.end_reason, found.conserved) == ("window completed", True)
    assert set(found.outcomes) == {"ok", "rejected"}
    refused = Counter(record.slot for record in records if record.outcome is Outcome.REJECTED)
    assert 1 <= max(refused.values()) <= window_s / pause_s + 1  # at once it would be hundreds
    assert found.of_class("short").success.n == len(records)


def test_a_queue_that_refuses_inside_the_stream_is_paused_for_too(tmp_path):
    slots, window_s = 10, 2.0
    with simulator("--active", "1", "--queue-cap", "2", "--reject", "in_stream") as (url, model):
        plan = a_plan(
            base_url=url, model=model, classes=(a_class(output_tokens=Fixed(40)),), offered_concurrency=slots,
            window_s=window_s, max_requests=400, guard=Guard(max_error_share=None),
        )  # fmt: skip
        _, records = run_engine(plan, tmp_path)
    refused = Counter(record.slot for record in records if record.outcome is Outcome.REJECTED)
    assert {record.http_status for record in records if record.outcome is Outcome.REJECTED} == {200}
    assert 1 <= max(refused.values()) <= window_s / 0.25 + 1
