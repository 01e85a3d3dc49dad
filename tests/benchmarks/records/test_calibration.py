"""The client's times against the truth: what counts as an error, where the limits lie, and what cannot be compared."""

from __future__ import annotations

import struct

import msgspec
import pytest

from benchmarks.engine.columns import from_frames
from benchmarks.engine.prompts import Workload
from benchmarks.engine.terms import Outcome, Phase
from benchmarks.records.calibration import (
    Calibration,
    calibration_plan,
    compare,
    read_truths,
)
from benchmarks.simulator.truth import Truth, prompt_digest
from tests.benchmarks.engine.plans import MS, a_header, a_record

PLAN = calibration_plan("http://127.0.0.1:9", offered_concurrency=8, seed=5)
WORKLOAD = Workload(PLAN)
US = 1000


def a_truth(index: int, *, received_ns: int, tokens_ns: list[int], **changes: object) -> Truth:
    fields = {
        "id": f"t{index}",
        "client_id": "",
        "api": "/v1/chat/completions",
        "stream": True,
        "items": 1,
        "prompt_digest": prompt_digest(WORKLOAD.build(index).text),
        "prompt_tokens": 16,
        "cached_tokens": 0,
        "output_tokens": len(tokens_ns),
        "t_received_ns": received_ns,
        "t_tokens_ns": tokens_ns,
        "outcome": "finished",
    }
    return Truth(**(fields | changes))


def a_pair(index: int, *, late_us: int = 0, gap_us: int = 20_000, sent_late_us: int = 0, **changes: object):
    """A request that the server had at 0 and answered at 20 and 40 ms; the client saw it so much later or otherwise."""
    record = a_record(
        index,
        t_sent_ns=sent_late_us * US,
        t_first_ns=20 * MS + late_us * US,
        t_last_ns=20 * MS + (late_us + gap_us) * US,
        gaps_us=struct.pack("<I", gap_us),
        **changes,
    )
    return record, a_truth(index, received_ns=0, tokens_ns=[20 * MS, 40 * MS])


def compared(*pairs) -> Calibration:
    columns = from_frames([a_header(PLAN), *(record for record, _ in pairs)])
    return compare(columns, [truth for _, truth in pairs if truth is not None])


def many(n: int, **changes: int) -> list:
    return [a_pair(index, **changes) for index in range(n)]


# claim, changes of each of 200 pairs, (p50, p99, gap p99) in ms, ok
EVEN = [
    ("no error", {}, (0.0, 0.0, 0.0), True),
    ("late by the limit", {"late_us": 2000}, (2.0, 2.0, 0.0), True),
    ("late beyond it", {"late_us": 2001}, (2.001, 2.001, 0.0), False),
    ("early is an error too", {"late_us": -2001}, (2.001, 2.001, 0.0), False),
    ("a send that is claimed later than the server had it", {"sent_late_us": 2001}, (2.001, 2.001, 0.0), False),
    ("a send before it is no error of the client", {"sent_late_us": -5000}, (0.0, 0.0, 0.0), True),
    ("both add up", {"late_us": 1000, "sent_late_us": 1001}, (2.001, 2.001, 0.0), False),
    ("a gap off by the limit", {"gap_us": 21_000}, (0.0, 0.0, 1.0), True),
    ("a gap off beyond it", {"gap_us": 18_999}, (0.0, 0.0, 1.001), False),
]


@pytest.mark.parametrize("changes, errors, ok", [row[1:] for row in EVEN], ids=[row[0] for row in EVEN])
def test_the_error_is_the_distance_from_the_truth_either_way(changes, errors, ok):
    found = compared(*many(200, **changes))
    assert (found.ttft_error_p50_ms, found.ttft_error_p99_ms, found.gap_error_p99_ms) == pytest.approx(errors)
    assert (found.n, found.ok, bool(found.why)) == (200, ok, not ok)


@pytest.mark.parametrize(
    ("n", "off", "ok"), [(200, 2, True), (200, 3, False), (100, 1, True), (99, 1, False), (10, 0, True)]
)
def test_one_in_a_hundred_may_be_off_and_of_fewer_than_a_hundred_none(n, off, ok):
    pairs = [*many(n - off), *(a_pair(n + number, late_us=9000) for number in range(off))]
    assert compared(*pairs).ok is ok


@pytest.mark.parametrize(("n", "ok"), [(10, True), (9, False), (0, False)])
def test_too_few_requests_prove_nothing(n, ok):
    found = compared(*many(n))
    assert (found.n, found.ok) == (n, ok)
    assert (found.ttft_error_p99_ms is None) == (n == 0)


# claim, one more pair, a word of the reason
UNFIT = [
    ("its truth is missing", (a_pair(500)[0], None), "1 requests without their truth"),
    (
        "its truth did not finish",
        (a_pair(500)[0], a_truth(500, received_ns=0, tokens_ns=[1, 2], outcome="broken")),
        "without",
    ),
    (
        "a chunk was lost",
        (a_pair(500)[0], a_truth(500, received_ns=0, tokens_ns=[1, 2, 3])),
        "another number of chunks",
    ),
]


@pytest.mark.parametrize("pair, word", [row[1:] for row in UNFIT], ids=[row[0] for row in UNFIT])
def test_a_good_request_that_cannot_be_compared_fails_the_calibration(pair, word):
    found = compared(*many(200), pair)
    assert (found.n, found.ok) == (200, False)
    assert word in found.why


@pytest.mark.parametrize("changes", [{"phase": Phase.WARMUP}, {"phase": Phase.AFTER}, {"outcome": Outcome.TRUNCATED}])
def test_only_good_requests_of_the_window_are_compared(changes):
    found = compared(*many(200), a_pair(500, late_us=50_000, **changes))
    assert (found.n, found.ok) == (200, True)


def test_the_page_of_truths_is_read_as_it_was_written():
    truths = [a_truth(0, received_ns=1, tokens_ns=[2, 3]), a_truth(1, received_ns=4, tokens_ns=[])]
    assert read_truths(msgspec.json.encode({"clock": "any", "requests": truths})) == truths


@pytest.mark.parametrize(("concurrency", "output_tokens"), [(1, 8), (15, 8), (16, 24), (63, 24), (64, 64), (1024, 64)])
def test_the_plan_is_brief_and_makes_enough_requests(concurrency, output_tokens):
    plan = calibration_plan("http://127.0.0.1:9", offered_concurrency=concurrency, seed=1, processes=2)
    assert plan.classes[0].output_tokens.tokens == output_tokens
    assert (plan.offered_concurrency, plan.processes, plan.simulated) == (concurrency, 2, True)
    request_s = 0.04 + 0.02 * output_tokens  # waits up to two steps, then a token each 20 ms
    assert plan.window_s / request_s * concurrency >= 10
    assert plan.window_s + plan.warmup_s < plan.max_wall_s
