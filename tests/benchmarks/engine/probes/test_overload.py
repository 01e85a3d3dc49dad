"""What becomes of requests beyond capacity, told from evidence whose truth is known: the simulator's engine in virtual
time with a queue of a stated bound, refusals of a stated kind, or none."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.engine.column_types import Columns
from benchmarks.engine.probe_plan import Overload, RetryStorm
from benchmarks.engine.probes.overload import AFTER, CALM, LOAD, judge
from benchmarks.engine.probes.storm_figures import back_at_s, back_limit_s, capacity_per_s
from benchmarks.engine.retrying import Retries, RetryPolicy
from benchmarks.engine.terms import End, Outcome
from benchmarks.engine.verdicts import NOT_JUDGED, ProbeVerdict
from benchmarks.simulator.profiles import DEMO
from tests.benchmarks.engine.probes.virtual import Server, World, capacity_of

CAPACITY = capacity_of()
PROBE = Overload(capacity_per_s=CAPACITY)
UNBOUNDED = Server(queue_cap=None)
OVER_NS = 34_000_000_000  # four seconds after the load


def evidence(
    server: Server, probe: Overload = PROBE, *, seed: int = 1, change=lambda record: record, **world
) -> Columns:
    made = World(server, seed=seed, **world)
    made.storm(probe, Retries(RetryPolicy(), seed=seed), (CALM, LOAD, AFTER), probe.capacity_per_s or CAPACITY)
    made.records = [change(record) for record in made.records]
    return made.columns(probe)


def told(server: Server, probe: Overload = PROBE, **how) -> ProbeVerdict:
    return judge(evidence(server, probe, **how))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("times", [1.3, 1.5, 2.0])
def test_a_queue_without_bound_is_told_with_how_fast_the_wait_grows(times, seed):
    """Each second brings load for `times` seconds, so the wait grows by `times` - 1; the backlog is then worked off by
    what light load leaves free."""
    probe = msgspec.structs.replace(PROBE, times_capacity=times)
    verdict = told(UNBOUNDED, probe, seed=seed)
    grew, least = verdict.figures["wait_growth"].value, verdict.figures["wait_growth_at_least"].value
    assert verdict.verdict == "queues_without_bound"
    offered = verdict.figures["offered"].value / CAPACITY
    assert grew == pytest.approx(offered - 1, abs=0.15)
    assert 0 < least <= grew
    assert verdict.figures["refused"].value == 0
    expected_s = (offered - 1) * probe.overload_s / (1 - probe.calm_share)
    assert verdict.figures["recovery"].value == pytest.approx(expected_s, rel=0.3)


@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_bounded_queue_that_says_when_to_come_back_refuses_clearly(status):
    verdict = told(Server(status=status, retry_after_s=2.0))
    assert verdict.verdict == "refused_clearly"
    assert f"HTTP {status}" in verdict.reasons[0]
    figures = verdict.figures
    assert figures["refused"].value == pytest.approx(1 / 3, abs=0.1)
    assert figures["time_to_reject_p95"].value == pytest.approx(0.002, abs=0.001)
    assert (figures["with_retry_after"].value, figures["retry_after"].value) == (1.0, 2.0)
    assert figures["answered"].value == pytest.approx(CAPACITY, rel=0.1)
    assert figures["recovery"].value < 3


@pytest.mark.parametrize(
    "server, word",
    [
        (Server(retry_after_s=None), "refused_without_retry_after"),
        (Server(says_no_after_s=1.5), "refused_late"),
        (Server(says_no_after_s=1.5, retry_after_s=None), "refused_late"),
        (Server(queue_cap=None, breaks=0.2), "fails"),
        (Server(breaks=0.2), "fails"),
        (Server(breaks=0.01), "refused_clearly"),
    ],
)
def test_each_way_to_answer_beyond_capacity_has_its_word(server, word):
    verdict = told(server)
    assert verdict.verdict == word
    assert verdict.reasons


def test_a_bound_that_is_reached_late_is_told_with_how_the_wait_grew_until_then():
    verdict = told(Server(queue_cap=200))
    assert verdict.verdict == "refused_clearly"
    assert 0 < verdict.figures["refused"].value < 0.2
    assert any("still grew" in reason for reason in verdict.reasons)


def test_a_refusal_inside_the_stream_is_a_refusal():
    """HTTP 200 and an error event that says overload: the outcome is a rejection all the same."""
    verdict = told(Server(status=200))
    assert verdict.verdict == "refused_clearly"
    assert "in the stream" in verdict.reasons[0]


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("stated", [0.3, 0.5, 0.6])
def test_a_capacity_stated_too_low_makes_a_load_that_is_kept_up_with(stated, seed):
    """One and a half times what was stated is 0.45 to 0.9 of what the runtime does."""
    verdict = told(UNBOUNDED, msgspec.structs.replace(PROBE, capacity_per_s=stated * CAPACITY), seed=seed)
    assert verdict.verdict == "kept_up"
    assert verdict.figures["wait_growth_at_most"].value < 0.25


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_load_too_short_to_tell_is_not_called_kept_up(seed):
    """Twenty-odd requests at one and a half times the capacity of a slow runtime: growth, or nothing said."""
    slow = msgspec.structs.replace(
        DEMO, decode_curve=tuple((active, rate / 20) for active, rate in DEMO.decode_curve), prefill_tokens_per_s=250.0
    )
    probe = msgspec.structs.replace(PROBE, capacity_per_s=capacity_of(slow), least_requests=10)
    assert told(Server(queue_cap=None, profile=slow), probe, seed=seed).verdict in ("queues_without_bound", NOT_JUDGED)


def test_clients_that_give_up_waiting_show_a_queue_not_a_failure():
    verdict = told(UNBOUNDED, client_timeout_s=3.0)
    assert verdict.verdict == "queues_without_bound"
    assert "beyond the client's limits" in verdict.reasons[0]


def test_what_the_probe_ended_itself_is_neither_a_failure_nor_a_short_wait():
    """Left in the queue when the probe was over: without an answer, and closed at one moment."""

    def left(record):
        late = record.t_end_ns is not None and record.role == LOAD and record.t_end_ns > OVER_NS
        gone = {"outcome": Outcome.CANCELLED, "t_end_ns": None, "t_closed_ns": OVER_NS}
        return msgspec.structs.replace(record, **gone) if late else record

    verdict = told(UNBOUNDED, change=left)
    assert verdict.evidence.outcomes[LOAD][Outcome.CANCELLED] > 100
    assert verdict.verdict == "queues_without_bound"
    assert verdict.figures["wait_growth"].value == pytest.approx(0.5, abs=0.15)


def test_what_was_stopped_or_too_small_is_not_judged():
    few = told(Server(), msgspec.structs.replace(PROBE, overload_s=0.3))
    assert (few.verdict, "are needed" in few.reasons[0]) == (NOT_JUDGED, True)
    columns = evidence(Server())
    end = End(t_ns=1, complete=False, reason="ceiling: 100 requests", sent=100)
    stopped = judge(replace(columns, end=end))
    assert (stopped.verdict, stopped.reasons) == (NOT_JUDGED, ("The probe was stopped: ceiling: 100 requests.",))


def test_a_client_whose_places_were_all_taken_says_that_a_longer_queue_was_not_tried():
    verdict = told(UNBOUNDED, msgspec.structs.replace(PROBE, most_in_flight=50))
    assert any("50 places" in reason for reason in verdict.reasons)


@pytest.mark.parametrize(
    "kind, name, value",
    [
        (Overload, "capacity_per_s", 0.0),
        (Overload, "overload_s", -1.0),
        (Overload, "most_in_flight", 0),
        (Overload, "calm_share", float("nan")),
        (RetryStorm, "tries", 101),
        (RetryStorm, "burst_s", 0.0),
        (RetryStorm, "budget_share", -0.1),
        (RetryStorm, "times_capacity", float("inf")),
    ],
)
def test_parameters_that_cannot_be_are_refused_wherever_they_come_from(kind, name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        kind(**{name: value})
    if value == value and abs(value) != float("inf"):  # JSON knows no others
        with pytest.raises(msgspec.ValidationError, match=f"{name} must be"):
            msgspec.convert({"kind": kind.__struct_config__.tag, name: value}, Overload | RetryStorm)


# --- the pure figures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [1, 4, 8])
@pytest.mark.parametrize("rounds", [3, 4, 10])
def test_capacity_is_exact_for_clients_in_step(clients, rounds):
    """Each round takes two seconds; the last round's ends lie behind the last request, where fewer and fewer ask."""
    due = np.repeat(np.arange(rounds) * 2.0, clients)
    assert capacity_per_s(due, due + 2.0, clients) == (pytest.approx(clients / 2) if rounds > 2 else None)


def test_capacity_needs_two_good_answers_of_each_client():
    due = np.arange(8.0)
    assert capacity_per_s(due, due + 0.5, 4) is None
    assert capacity_per_s(np.zeros(0), np.zeros(0), 1) is None
    assert capacity_per_s(due, np.full(8, np.nan), 1) is None


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 5))
def test_back_is_the_first_of_so_many_good_ones_in_a_row(good, steady):
    due = np.arange(float(len(good)))
    took = np.where(good, 1.0, np.inf)
    expected = next((n for n in range(len(good) - steady + 1) if all(good[n : n + steady])), None)
    assert back_at_s(due, took, 1.0, steady) == expected


def test_a_baseline_needs_five_answers_that_were_good():
    assert back_limit_s(np.full(4, 1.0), 1.5) is None
    assert back_limit_s(np.array([1.0, 1.0, 1.0, 1.0, np.inf]), 1.5) is None
    assert back_limit_s(np.full(5, 2.0), 1.5) == 3.0
