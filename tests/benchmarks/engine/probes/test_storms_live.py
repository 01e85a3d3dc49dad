"""Overload and retry storm over real sockets against the simulated runtime: what the server counted is what was told, and
a storm ends when it should, however it is ended."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from benchmarks.engine.plan import Fixed
from benchmarks.engine.probe_plan import Overload, RetryStorm
from benchmarks.engine.runner import Cell
from benchmarks.engine.terms import Outcome
from benchmarks.engine.verdicts import NOT_JUDGED, ProbeVerdict, verdict_of
from tests.benchmarks.engine.loads.running import MODEL, NO_ERROR_LIMIT, Left, run_cell, simulator
from tests.benchmarks.engine.plans import a_class
from tests.benchmarks.engine.simulated import truths

CAPACITY = 26.0  # of the demonstration profile with these lengths, as its curve has it
OVERLOAD = Overload(
    capacity_per_s=CAPACITY, times_capacity=2.0, calm_s=1.5, overload_s=3.0, recovery_s=10.0, most_in_flight=400
)
STORM = RetryStorm(
    capacity_per_s=CAPACITY,
    times_capacity=3.0,
    calm_s=1.0,
    burst_s=2.5,
    recovery_s=4.0,
    backoff_base_s=0.2,
    backoff_most_s=2.0,
)
NO_LIGHT_LOAD = Overload(
    capacity_per_s=CAPACITY, times_capacity=3.0, calm_share=0.0, calm_s=0.0, overload_s=1.5, recovery_s=0.5
)
BOUNDED = ("--queue-cap", "8", "--retry-after", "2")


def run(tmp_path, url: str, probe, **changes) -> Left:
    short = a_class(prompt_tokens=Fixed(8), output_tokens=Fixed(16))
    plan = {
        "url": url, "model": MODEL, "probe": probe, "classes": (short,), "class_name": "mixed", "guard": NO_ERROR_LIMIT,
        "window_s": 30.0, "max_wall_s": 60.0,
    }  # fmt: skip
    return run_cell(tmp_path, **(plan | changes))


def verdict(left: Left) -> ProbeVerdict:
    found = verdict_of(left.columns)
    assert found is not None
    return found


def test_without_a_bound_on_its_queue_the_wait_grows_and_is_over_after_the_backlog(tmp_path):
    with simulator() as url:
        left = run(tmp_path, url, OVERLOAD)
    told = verdict(left)
    assert told.verdict == "queues_without_bound"
    assert told.figures["wait_growth_at_least"].value > 0.3
    assert set(left.outcomes) <= {Outcome.OK, Outcome.CANCELLED}
    assert 1 < told.figures["recovery"].value < 9  # three seconds at double load, less the calm part of it
    assert left.summary.conserved


def test_with_a_bound_it_refuses_at_once_and_says_when_to_come_back(tmp_path):
    probe = Overload(measure_s=1.0, calm_s=1.5, overload_s=2.5, recovery_s=6.0)
    with simulator(*BOUNDED, "--reject", "429") as url:
        left = run(tmp_path, url, probe)
    told = verdict(left)
    assert told.verdict == "refused_clearly"
    assert told.figures["capacity"].value == pytest.approx(CAPACITY, rel=0.25)  # measured by the probe itself
    assert told.figures["time_to_reject_p95"].value < 0.5
    assert told.figures["retry_after"].value == 2.0
    assert told.figures["recovery"].value is not None
    assert left.summary.conserved


def test_a_refusal_in_the_stream_counts_and_its_missing_retry_after_too(tmp_path):
    with simulator(*BOUNDED, "--reject", "in_stream") as url:
        told = verdict(run(tmp_path, url, NO_LIGHT_LOAD))
    assert told.verdict == "refused_without_retry_after"
    assert "in the stream" in told.reasons[0]


def test_retries_are_attempts_of_the_same_requests_and_the_server_saw_each_of_them(tmp_path):
    with simulator(*BOUNDED) as url:
        left = run(tmp_path, url, STORM)
        seen = len(truths(url))
    told = verdict(left)
    assert told.verdict == "contained"
    assert told.figures["immediate_attempts_per_request"].value > 2
    assert told.figures["budgeted_attempts_per_request"].value < 1.2
    assert seen == len([record for record in left.records if record.t_sent_ns is not None])
    assert left.summary.conserved
    tries = Counter(record.index for record in left.records)
    assert max(tries.values()) == STORM.tries
    for record in left.records:
        assert record.t_sent_ns is None or record.t_sent_ns >= record.t_scheduled_ns
    careful = [r for r in left.records if r.role == "budgeted storm" and r.attempt > 1]
    first = {r.index: r for r in left.records if r.attempt == 1}
    assert all(r.t_scheduled_ns - first[r.index].t_closed_ns >= 2e9 for r in careful if r.attempt == 2)


@pytest.mark.parametrize("word", ["drain", "cancel"])
def test_a_stop_in_the_middle_leaves_one_outcome_for_each_request_and_no_verdict(tmp_path, word):
    async def stop(cell: Cell, _server: object) -> None:
        await asyncio.sleep(2.0)
        cell.command(word)

    with simulator() as url:
        left = run(tmp_path, url, OVERLOAD, at_work=stop)
    told = verdict(left)
    assert told.verdict == NOT_JUDGED
    assert f"{word} was asked for" in told.reasons[0]
    assert left.summary.conserved
    assert (Outcome.CANCELLED in left.outcomes) == (word == "cancel")


def test_attempts_count_against_the_ceiling_and_end_the_cell_with_it(tmp_path):
    with simulator(*BOUNDED) as url:
        left = run(tmp_path, url, STORM, max_requests=60)
    assert left.columns.end.reason == "ceiling: 60 requests"
    assert len(left.records) == 60
    assert left.summary.conserved
    assert verdict(left).verdict == NOT_JUDGED


def test_a_client_with_few_places_sends_no_more_at_once_and_tells_what_it_never_sent(tmp_path):
    probe = Overload(
        capacity_per_s=CAPACITY, times_capacity=3.0, calm_s=1.0, overload_s=1.5, recovery_s=0.5, most_in_flight=3
    )
    with simulator() as url:
        left = run(tmp_path, url, probe)
    told = verdict(left)
    assert told.figures["most_in_flight"].value <= 3
    assert any("3 places" in reason for reason in told.reasons)
    assert left.outcomes[Outcome.UNFINISHED] > 0
    assert left.summary.conserved


def test_without_light_load_there_is_a_verdict_and_no_time_of_recovery(tmp_path):
    with simulator(*BOUNDED) as url:
        told = verdict(run(tmp_path, url, NO_LIGHT_LOAD))
    assert told.verdict == "refused_clearly"
    assert told.figures["recovery"].value is None
    assert "Light load gave no baseline, so recovery was not timed." in told.reasons


def test_a_runtime_that_answers_nothing_well_has_no_capacity_and_no_verdict(tmp_path):
    probe = Overload(measure_s=0.3, measure_clients=2)
    with simulator("--fault", "http_500=1") as url:
        left = run(tmp_path, url, probe)
    assert verdict(left).verdict == NOT_JUDGED
    assert "too few good answers" in left.columns.end.reason
