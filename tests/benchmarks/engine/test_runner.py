"""The closed loop: load, phases, pauses, ceilings, stops; and every issued request leaves exactly one record."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Callable

import pytest

from benchmarks.engine.columns import Columns, from_frames
from benchmarks.engine.drivers import driver_of
from benchmarks.engine.log import LogWriter, read_frames
from benchmarks.engine.plan import ClassLimits, Guard
from benchmarks.engine.progress import Progress, Stage
from benchmarks.engine.prompts import Workload
from benchmarks.engine.runner import Cell
from benchmarks.engine.samples import sampled
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import CellSummary
from benchmarks.engine.terms import Outcome, Phase, Reading, RequestRecord
from tests.benchmarks.engine.plans import a_class, a_header, a_plan
from tests.benchmarks.engine.scripted import (
    DONE,
    GOOD,
    LAST_CHUNK,
    SSE_HEAD,
    Close,
    Hang,
    Pause,
    Reset,
    Script,
    Scripted,
    delta,
    event,
    finish,
    piece,
    plain,
    stream,
)

SLOW_GOOD = [SSE_HEAD + piece(delta(content="bebo")), Pause(0.15), piece(finish() + DONE) + LAST_CHUNK]
NO_ERROR_LIMIT = Guard(max_error_share=None)


class Run:
    """What one cell left behind."""

    def __init__(self, columns: Columns, records: list[RequestRecord], shown: list[Progress], server: Scripted) -> None:
        self.columns, self.records, self.shown, self.server = columns, records, shown, server
        self.summary: CellSummary = summarise(columns, columns.plan)
        self.end = columns.end
        self.outcomes = Counter(r.outcome for r in records)


@pytest.fixture
def run(tmp_path) -> Callable[..., Run]:
    """Runs one cell against a server that plays `scripts`; `command` is given once a request is in flight."""

    def cell(*scripts: Script, command: str = "", readings=(), **plan_changes) -> Run:
        shown: list[Progress] = []
        waiting = list(readings)

        def take() -> list[Reading]:
            taken, waiting[:] = waiting[:], []
            return taken

        async def go() -> Scripted:
            async with Scripted(scripts) as server:
                plan = a_plan(**({"base_url": server.url, "max_requests": 1000} | plan_changes))
                with LogWriter(path) as writer:
                    writer.append(a_header(plan))
                    running = Cell(plan, writer, take_readings=take, show=shown.append)
                    task = asyncio.create_task(running.run(driver_of(plan)))
                    while command and not server.requests:
                        await asyncio.sleep(0.01)
                    running.command(command)
                    await task
                return server

        path = tmp_path / "cell.log"
        server = asyncio.run(go())
        frames = list(read_frames(path))
        return Run(from_frames(frames), [f for f in frames if isinstance(f, RequestRecord)], shown, server)

    return cell


def test_a_window_completes_and_all_is_conserved(run):
    done = run(SLOW_GOOD, offered_concurrency=3, window_s=0.8)
    assert (done.end.complete, done.end.reason) == (True, "window completed")
    assert done.outcomes == {Outcome.OK: len(done.records)}
    assert done.summary.conserved
    assert done.summary.scheduled == len(done.server.requests) == len(done.records)
    assert done.shown[-1].phase is Stage.ENDED
    assert done.shown[-1].in_flight == 0


def test_a_bounded_sample_of_answers_is_kept_word_for_word_beside_its_records(run):
    done = run([GOOD], [SSE_HEAD + piece(delta(content="a")), Close()], [GOOD], window_s=10.0, max_requests=40)
    kept = {one.index: one for one in done.columns.samples}
    assert len(done.records) == 40
    assert kept.keys() == sampled(done.columns.plan) & set(range(40))
    assert (kept[0].answer, kept[0].answer_characters) == ("bebo loli", 9)
    prompt = Workload(done.columns.plan).build(0).text
    assert (kept[0].prompt, kept[0].prompt_characters) == (prompt, len(prompt))


def test_a_long_answer_is_kept_in_part_with_its_true_length(run):
    done = run([stream(*[delta(content="x" * 500)] * 10, finish(), DONE)], window_s=10.0, max_requests=1)
    assert (done.columns.samples[0].answer, done.columns.samples[0].answer_characters) == ("x" * 4000, 5000)


def test_each_slot_keeps_one_connection_and_the_offered_concurrency_is_not_exceeded(run):
    done = run(SLOW_GOOD, offered_concurrency=3, window_s=0.8)
    assert done.server.connections == 3
    assert {r.slot for r in done.records} == {0, 1, 2}
    assert done.summary.mean_in_flight <= 3


def test_phase_goes_by_the_time_of_issue_and_warm_up_is_handed_over(run):
    done = run(SLOW_GOOD, offered_concurrency=2, warmup_s=0.4, window_s=0.6)
    start, end = done.columns.window.start_ns, done.columns.window.end_ns
    for r in done.records:
        expected = Phase.WARMUP if r.t_scheduled_ns < start else Phase.WINDOW
        assert r.phase is expected
        assert r.t_scheduled_ns < end
    warm = [r for r in done.records if r.phase is Phase.WARMUP]
    assert len(warm) >= 2 * 2
    assert done.summary.warmup_requests == len(warm)
    assert any(r.t_scheduled_ns < start < r.t_closed_ns for r in warm)  # load did not fall between the two


def test_requests_in_flight_at_the_end_of_the_window_finish(run):
    done = run([SSE_HEAD + piece(delta(content="a")), Pause(0.5), piece(finish() + DONE) + LAST_CHUNK], window_s=0.3)
    assert done.outcomes == {Outcome.OK: 1}
    assert done.records[0].t_end_ns > done.columns.window.end_ns


def test_what_the_bounded_drain_does_not_see_end_is_unfinished(run):
    done = run([SSE_HEAD + piece(delta(content="a")), Hang()], window_s=0.2, max_wall_s=1.5, idle_timeout_s=9.0)
    assert done.outcomes == {Outcome.UNFINISHED: 1}
    assert done.end.complete


@pytest.mark.parametrize("header, at_least_s, at_most", [("retry-after: 1", 0.9, 2), ("x-none: 1", 0.2, 5)])
def test_a_rejected_slot_waits_before_it_asks_again(run, header, at_least_s, at_most):
    done = run([plain(503, b"{}", header)], window_s=1.1, guard=NO_ERROR_LIMIT)
    starts = [r.t_scheduled_ns for r in done.records]
    assert len(starts) <= at_most
    assert all((b - a) / 1e9 >= at_least_s for a, b in itertools.pairwise(starts))
    assert done.outcomes == {Outcome.REJECTED: len(starts)}


@pytest.mark.parametrize(
    "body, outcome",
    [
        (event({"error": {"message": "out of memory"}}), Outcome.IN_STREAM_ERROR),
        (delta(content="bebo"), Outcome.TRUNCATED),
        (finish() + DONE, Outcome.EMPTY),
        (b"data: {\n\n", Outcome.MALFORMED),
    ],
)
def test_a_server_that_fails_at_once_does_not_burn_the_offered_count(run, body, outcome):
    done = run([SSE_HEAD + piece(body) + LAST_CHUNK], window_s=1.0, guard=NO_ERROR_LIMIT)
    assert set(done.outcomes) == {outcome}
    assert 2 <= len(done.records) <= 5


def test_ten_requests_with_mixed_faults_are_all_accounted_for(run):
    error = {"error": {"message": "boom"}}
    scripts = [
        [GOOD], [plain(500, b"{}")], [SSE_HEAD + piece(delta(content="a")), Pause(0.02), Reset()], [GOOD],
        [stream(delta(content="a"), event(error), DONE)], [plain(400, b"{}")], [stream(delta(content="a"))],
        [stream(finish(), DONE)], [stream(b"data: {\n\n")], [GOOD, Close()],
    ]  # fmt: skip
    done = run(*scripts, window_s=10.0, max_requests=10, guard=NO_ERROR_LIMIT)
    assert sum(done.outcomes.values()) == 10 == done.summary.scheduled
    assert done.outcomes == {
        Outcome.OK: 3,
        Outcome.SERVER_ERROR: 1,
        Outcome.TRUNCATED: 2,
        Outcome.IN_STREAM_ERROR: 1,
        Outcome.REFUSED: 1,
        Outcome.EMPTY: 1,
        Outcome.MALFORMED: 1,
    }
    assert done.summary.conserved
    assert done.summary.outcomes == {outcome.value: n for outcome, n in done.outcomes.items()}


@pytest.mark.parametrize(
    "ceiling, reason, issued",
    [
        ({"max_requests": 4}, "ceiling: 4 requests", 4),
        ({"max_tokens": 35}, "ceiling: 35 tokens", 3),  # 8 + 2 tokens each: a fourth would exceed it
    ],
)
def test_a_ceiling_ends_the_cell_before_it_is_exceeded(run, ceiling, reason, issued):
    done = run([GOOD], window_s=10.0, **ceiling)
    assert (done.end.complete, done.end.reason, len(done.server.requests)) == (False, reason, issued)


def test_the_wall_time_ceiling_ends_everything(run):
    done = run([SSE_HEAD, Hang()], window_s=10.0, max_wall_s=0.5)
    assert (done.end.complete, done.end.reason) == (False, "ceiling: 0.5 s of wall time")
    assert done.outcomes == {Outcome.UNFINISHED: 1}


def test_drain_lets_answers_finish(run):
    slow = [SSE_HEAD + piece(delta(content="a")), Pause(0.6), piece(finish() + DONE) + LAST_CHUNK]
    drained = run(slow, window_s=10.0, command="drain")
    assert (drained.end.reason, drained.outcomes) == ("stopped: drain was asked for", {Outcome.OK: 1})


def test_cancel_ends_the_requests_in_flight(run):
    done = run([SSE_HEAD + piece(delta(content="a")), Hang()], window_s=10.0, command="cancel")
    assert (done.end.complete, done.end.reason) == (False, "stopped: cancel was asked for")
    assert done.outcomes == {Outcome.CANCELLED: 1}
    assert done.columns.window.end_ns - done.columns.window.start_ns < 5e9


def test_a_hot_card_stops_the_cell_and_the_reason_is_kept(run):
    hot = [Reading(t_ns=1, name="gpu_temperature_c", value=99.0, source="nvml", device="GPU-1")]
    done = run([SSE_HEAD, Hang()], window_s=10.0, readings=hot)
    assert (done.end.complete, done.end.reason) == (False, "guard: GPU-1 at 99 °C, limit 85 °C")


def test_errors_stop_the_cell_and_leave_a_summary_without_numbers(run):
    body = json.dumps({"error": {"message": "no"}}).encode()
    done = run([plain(400, body)], offered_concurrency=2, window_s=10.0)
    assert done.end.reason == "guard: 6 of the last 6 requests failed, limit 5\u00a0% of 100"
    short = done.summary.of_class("short")
    assert done.summary.completed_per_s == 0.0
    assert (short.success.hits, short.e2e_ok_s.p50.value, short.tpot_ok_s.p50.value) == (0, None, None)
    assert short.output_tokens_p50 is None
    assert done.summary.output_tokens_per_s is None
    assert short.e2e_s.p50.value == float("inf")


def test_only_requests_inside_their_limits_are_good(run):
    tight = a_class(limits=ClassLimits(e2e_s=0.01))
    done = run(SLOW_GOOD, window_s=0.5, classes=(tight,))
    assert (done.summary.completed_per_s > 0, done.summary.good_per_s) == (True, 0.0)


def test_the_client_watches_itself(run):
    done = run(SLOW_GOOD, window_s=0.5)
    health = done.columns.health
    assert health.loop_lag_p99_ms > 0
    assert health.cpu_share > 0
    assert health.send_late_p99_ms > 0
