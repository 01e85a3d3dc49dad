"""Cancellation: a slot is free when one who waits is started; what spoils a try is said, and never counted."""

from __future__ import annotations

import pytest

from benchmarks.engine.probe_plan import Cancellation
from benchmarks.engine.terms import Outcome
from tests.benchmarks.engine.plans import FAILED
from tests.benchmarks.engine.probes.evidence import judged, request, run_probe
from tests.benchmarks.engine.simulated import simulator

PROBE = Cancellation(slots=2)


def a_try(kind: str, freed_s: float | None, *, from_s: float = 10.0, headers_early: bool = False):
    """Somebody leaves at `from_s` + 1; the fresh request's headers come `freed_s` later, its token 0.1 s after them."""
    left_s, started_s = from_s + 1, None if freed_s is None else from_s + 1 + freed_s
    headers_s = from_s + 0.6 if headers_early else started_s
    stamps: dict[str, float | None] = {"headers": headers_s, "first": None, "closed": left_s + 30}
    if started_s is not None:
        stamps |= {"first": started_s + 0.1, "closed": started_s + 0.2}
    fresh = request(f"fresh_{kind}", from_s + 0.5, None if started_s is None else started_s + 0.2, at=stamps)
    first_s = from_s + 0.2 if kind == "stream" else None
    left = request(f"left_{kind}", from_s, None, at={"first": first_s, "closed": left_s})
    fill = request("fill", from_s, None, at={"first": from_s + 0.1, "closed": left_s + 40})
    found = [left, fresh, fill]
    if kind == "waiting":
        found[0] = request("left_waiting", from_s + 0.3, None, at={"headers": None, "closed": from_s + 0.6})
        found.append(request("freeing", from_s, None, at={"first": from_s + 0.1, "closed": left_s}))
    return found


@pytest.mark.parametrize(
    ("freed_s", "word"), [((0.05,), "frees_in_time"), ((0.05, 1.2), "frees_late"), ((0.1, None), "never_frees")]
)
def test_the_slowest_leave_in_mid_stream_decides(freed_s, word):
    tries = [one for n, s in enumerate(freed_s) for one in a_try("stream", s, from_s=10 + 50 * n)]
    assert judged(PROBE, *tries, window_s=300.0).verdict == word


def test_the_headers_tell_when_the_slot_was_free_and_the_first_token_where_headers_come_at_once():
    by_headers, by_token = (judged(PROBE, *a_try("stream", 0.3, headers_early=early)) for early in (False, True))
    assert by_headers.figures["stream_freed_worst"].value == pytest.approx(0.3)
    assert by_token.figures["stream_freed_worst"].value == pytest.approx(0.4)
    assert by_headers.figures["stream_first_token_median"].value == pytest.approx(0.4)


def test_every_kind_is_told_as_it_was_seen():
    verdict = judged(PROBE, *a_try("stream", 0.05), *a_try("prefill", 3.5, from_s=100.0), *a_try("waiting", 0.07))
    assert verdict.verdict == "frees_in_time"
    assert verdict.reasons == (
        "A client that left in mid-stream freed its slot after 0.05 s in 1 try.",
        "A client that left during its prefill freed its slot after 3.50 s in 1 try.",
        "After a client had left while it waited, the next free slot came to the one behind it after 0.07 s in 1 try.",
    )
    assert verdict.figures["prefill_freed_worst"].value == pytest.approx(3.5)


def spoiled(**changes):
    left, fresh, fill = a_try("stream", 0.05)
    parts = {"left": left, "fresh": fresh, "fill": fill} | changes
    return list(parts.values())


EARLY = request("fresh_stream", 10.5, 10.9, at={"headers": 10.6, "first": 10.7})
REFUSED = FAILED | {"outcome": Outcome.REJECTED, "http_status": 503}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (spoiled(left=request("left_stream", 10.0, 10.9)), "over before its client could leave"),
        (spoiled(fresh=EARLY), "served while 2 slots were full, so there are more"),
        (spoiled(fill=request("fill", 10.0, 11.01)), "another slot came free by itself"),
        (spoiled(fresh=request("fresh_stream", 10.5, 10.6, **REFUSED)), "a request that should wait was refused"),
        (
            spoiled(fresh=request("fresh_stream", 10.5, None, at={"headers": None, "closed": 12.0})),
            "the run ended while it was waited for",
        ),
        ([], "the slots did not fill within 30 s"),
    ],
)
def test_a_try_that_proves_nothing_is_not_counted_and_says_why(found, reason):
    verdict = judged(PROBE, *found)
    assert verdict.verdict == "not_judged"
    assert reason in verdict.reasons[0]
    assert verdict.figures["stream_freed_worst"].value is None


def test_a_prompt_that_was_through_was_not_left_during_prefill():
    left, *rest = a_try("prefill", 0.05)
    through = request("left_prefill", 10.0, None, at={"first": 10.4, "closed": 11.0})
    verdict = judged(PROBE, *a_try("stream", 0.05, from_s=60.0), through, *rest)
    assert verdict.verdict == "frees_in_time"
    assert verdict.reasons[1] == "Leaving during its prefill says nothing: its prompt was through before it left."
    assert left.role == through.role


def test_a_try_without_a_fresh_request_does_not_shift_those_after_it():
    alone = request("left_stream", 2.0, None, at={"first": 2.2, "closed": 4.0})
    verdict = judged(PROBE, alone, *a_try("stream", 0.05), *a_try("stream", 0.07, from_s=60.0))
    assert verdict.figures["stream_freed_worst"].value == pytest.approx(0.07)
    assert verdict.figures["stream_freed_worst"].n == 2


def test_a_stop_does_not_take_away_what_was_seen_before_it():
    verdict = judged(PROBE, *a_try("stream", 0.05), stopped="ceiling: 20 requests")
    assert verdict.verdict == "frees_in_time"
    assert verdict.reasons[-1] == "The probe was stopped: ceiling: 20 requests."


def test_without_the_number_of_slots_nothing_can_be_filled(tmp_path):
    with simulator() as (url, model):
        left, verdict = run_probe(tmp_path, url, model, Cancellation())
    assert (verdict.verdict, verdict.reasons[0][:14], verdict.evidence.complete) == (
        "not_judged",
        "How many slots",
        True,
    )
    assert left.records == []


def test_on_the_simulator_every_slot_is_free_within_a_step(tmp_path):
    """It forgets a client that leaves at the end of the step in progress: 20 ms at most here."""
    probe = Cancellation(slots=2, tries=2, fill_output_tokens=1000, prefill_prompt_tokens=3000, queue_s=0.1)
    with simulator("--profile", "calibrate", "--active", "2") as (url, model):
        left, verdict = run_probe(tmp_path, url, model, probe)
    assert verdict.verdict == "frees_in_time", verdict.reasons
    assert verdict.figures["stream_freed_worst"].value < 0.2
    assert verdict.figures["stream_freed_worst"].n == 2
    assert verdict.figures["waiting_freed_worst"].value < 0.2
    assert left.summary.conserved is True


def test_fewer_slots_stated_than_there_are_is_found_out(tmp_path):
    probe = Cancellation(slots=1, tries=1, fill_output_tokens=500, queue_s=0.2)
    with simulator("--profile", "calibrate", "--active", "4") as (url, model):
        _, verdict = run_probe(tmp_path, url, model, probe)
    assert verdict.verdict == "not_judged"
    assert "so there are more" in verdict.reasons[0]


def test_answers_too_short_to_fill_the_slots_are_found_out(tmp_path):
    probe = Cancellation(slots=2, tries=1, fill_output_tokens=3, fill_within_s=1.0)
    with simulator("--profile", "calibrate", "--active", "2") as (url, model):
        _, verdict = run_probe(tmp_path, url, model, probe)
    assert (verdict.verdict, "were over too soon" in verdict.reasons[0]) == ("not_judged", True)


def test_a_stop_ends_the_probe_and_leaves_every_request_recorded(tmp_path):
    probe = Cancellation(slots=2, tries=3, fill_output_tokens=1000)
    with simulator("--profile", "calibrate", "--active", "2") as (url, model):
        left, verdict = run_probe(tmp_path, url, model, probe, max_requests=9)
    assert (verdict.evidence.complete, verdict.evidence.end_reason) == (False, "ceiling: 9 requests")
    assert left.summary.conserved is True
    assert sum(verdict.evidence.requests.values()) == 9


def test_a_leave_during_prefill_is_seen_on_the_simulator(tmp_path):
    """1,500 tokens of prompt take a second and more there; it forgets a client at the end of a step of 256 of them."""
    probe = Cancellation(slots=2, tries=1, fill_output_tokens=500, queue_s=0.1)
    with simulator("--profile", "cpu", "--active", "2") as (url, model):
        _, verdict = run_probe(tmp_path, url, model, probe)
    assert verdict.figures["prefill_freed_worst"].value < 0.6, verdict.reasons
    assert verdict.figures["prefill_freed_worst"].n == 1
