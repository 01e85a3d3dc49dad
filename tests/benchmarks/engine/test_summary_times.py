"""Times that cannot be, answers that were held back and tokens counted in two ways are told, and graded by nobody."""

from __future__ import annotations

import math
from array import array

import numpy as np
import pytest

from benchmarks.engine.columns import from_frames
from benchmarks.engine.plan import ClassLimits
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import as_json, from_json
from benchmarks.engine.terms import End, Outcome, RequestRecord, TokenSource, Window
from benchmarks.stats.histograms import merged
from benchmarks.stats.steadiness import Steady
from tests.benchmarks.engine.plans import FAILED, MS, S, a_class, a_header, a_plan, a_record


def gaps_us(*values: int) -> bytes:
    return array("I", values).tobytes()


def summary(*frames, limits: ClassLimits = ClassLimits(), window_s: int = 1, **changes):  # noqa: B008 a frozen value
    plan = a_plan(**({"classes": (a_class(limits=limits),)} | changes))
    sent = len({frame.index for frame in frames if isinstance(frame, RequestRecord)})
    ending = [Window(start_ns=0, end_ns=window_s * S), End(t_ns=2 * S, complete=True, reason="done", sent=sent)]
    return summarise(from_frames([a_header(plan), *frames, *ending]), plan)


def short(*frames, **changes):
    return summary(*frames, **changes).of_class("short")


# ── the server's view beside the user's ────────────────────────────────────────────────────────────────────────────


def test_a_request_that_waited_in_the_client_is_slow_for_its_user_and_not_for_the_server():
    held = a_record(0, t_scheduled_ns=-5 * S)
    found = short(held)
    assert (found.e2e_s.p50.value, found.server_e2e_s.p50.value) == (pytest.approx(5.1), pytest.approx(0.099))
    assert (found.ttft_s.p50.value, found.server_ttft_s.p50.value) == (pytest.approx(5.01), pytest.approx(0.009))


def test_failures_are_infinite_in_the_server_view_too():
    found = short(a_record(0), a_record(1, outcome=Outcome.SERVER_ERROR, **FAILED))
    assert (found.server_e2e_s.p50.n, found.server_e2e_ok_s.p50.n) == (2, 1)
    assert found.server_ttft_s.p50.bound is None
    assert found.server_ttft_ok_s.p50.value == pytest.approx(0.009)


# ── stamps that cannot be ──────────────────────────────────────────────────────────────────────────────────────────

IMPOSSIBLE = {
    "ended before it was due": {"t_end_ns": 0},
    "first token before it was due": {"t_first_ns": 0},
    "first token at the moment it was due": {"t_first_ns": MS},
    "first token before it was sent": {"t_sent_ns": 12 * MS},
    "first token at the moment it was sent": {"t_sent_ns": 11 * MS},
    "ended before its first token": {"t_end_ns": 5 * MS},
    "last token before the first": {"t_last_ns": 5 * MS},
    "ok without an end": {"t_end_ns": None},
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_stamp_spoils_its_request_and_no_other(name):
    found = short(a_record(0), a_record(1, **IMPOSSIBLE[name]), a_record(2))
    assert (found.success.hits, found.success.n, found.wrong_times) == (2, 3, 1)
    assert (found.e2e_ok_s.p50.n, found.e2e_s.p50.n) == (2, 3)
    assert found.outcomes == {"ok": 3}


def test_possible_stamps_spoil_nothing():
    found = short(
        a_record(0), a_record(1, t_end_ns=101 * MS, t_sent_ns=MS), a_record(2, outcome=Outcome.EMPTY, **FAILED)
    )
    assert (found.success.hits, found.wrong_times) == (2, 0)


# ── without streaming ──────────────────────────────────────────────────────────────────────────────────────────────


def test_without_streaming_there_is_no_time_to_a_first_token_however_early_headers_or_text_came():
    records = [a_record(0), a_record(1, outcome=Outcome.SERVER_ERROR, **FAILED)]
    found = short(*records, stream=False, limits=ClassLimits(ttft_s=10.0))
    tails = (found.ttft_s, found.ttft_ok_s, found.server_ttft_s, found.server_ttft_ok_s, found.tpot_s, found.tpot_ok_s)
    assert [tail.p50.n for tail in tails] == [0] * 6
    assert (found.e2e_s.p50.n, found.success.hits, found.good.hits) == (2, 1, 0)


def test_one_body_among_streams_is_left_out_where_times_to_a_first_token_are_told():
    found = short(a_record(0), a_record(1, t_first_ns=None, t_last_ns=None))
    assert (found.ttft_s.p50.n, found.e2e_s.p50.n) == (1, 2)


# ── an answer in one piece has no time between tokens ──────────────────────────────────────────────────────────────


def test_many_tokens_at_one_moment_have_no_time_per_token_and_keep_no_limit_on_it():
    at_once = a_record(0, t_last_ns=10 * MS)
    found = short(at_once, limits=ClassLimits(tpot_s=1.0))
    assert (found.tpot_s.p50.n, found.success.hits, found.good.hits) == (0, 1, 0)


def test_one_token_breaks_no_limit_on_the_time_per_token():
    assert short(a_record(0, output_tokens=1), limits=ClassLimits(tpot_s=1.0)).good.hits == 1


# ── held back by something between ─────────────────────────────────────────────────────────────────────────────────


def held_back(index: int, *, ttft_ms: int = 95, quick: int = 49, slow: int = 0, **changes):
    """An answer of 100 ms whose chunks came in one write at its end, but for the slow ones."""
    at = index * MS
    gaps = gaps_us(*[20] * quick, *[5_000] * slow)
    first = {"t_first_ns": at + MS + ttft_ms * MS, "t_answer_ns": at + MS + ttft_ms * MS}
    rest = {"t_last_ns": at + 100 * MS, "t_end_ns": at + 101 * MS, "output_tokens": 50, "gaps_us": gaps}
    return a_record(index, **(first | rest | changes))


@pytest.mark.parametrize(
    "record, buffered",
    [
        (held_back(0), True),
        (held_back(0, ttft_ms=91), True),
        (held_back(0, ttft_ms=89), False),  # the first came early enough to be a time to a first token
        (held_back(0, quick=40, slow=10), False),  # exactly 80 % of the gaps
        (held_back(0, quick=41, slow=10), True),
        (held_back(0, quick=19), False),  # too few to tell
        (held_back(0, quick=20), True),
        (held_back(0, outcome=Outcome.TRUNCATED), False),
    ],
)
def test_a_buffering_proxy_is_seen_by_its_gaps_and_its_late_first_token(record, buffered):
    assert short(record).buffered is buffered


def test_what_a_proxy_held_back_is_not_graded_token_by_token():
    records = [held_back(0), held_back(1), a_record(2, outcome=Outcome.SERVER_ERROR, **FAILED)]
    found = short(*records, limits=ClassLimits(tpot_s=1.0))
    for tail in (found.ttft_s, found.ttft_ok_s, found.tpot_s, found.tpot_ok_s, found.server_ttft_s):
        assert (tail.p50.n, tail.p95.value) == (0, None)
    assert found.good.hits == 0
    assert short(*records, limits=ClassLimits(e2e_s=1.0)).good.hits == 2
    assert (found.e2e_ok_s.p50.n, found.output_tokens_per_s) == (2, 100.0)


# ── faster than can be ─────────────────────────────────────────────────────────────────────────────────────────────


def burst(index: int, *, tokens: int = 50, span_us: int = 1000, gap_us: int = 20, gaps: int = 10, **changes):
    first = index * MS + 10 * MS
    stamps = {"t_first_ns": first, "t_answer_ns": first, "t_last_ns": first + span_us * 1000}
    return a_record(index, **(stamps | {"output_tokens": tokens, "gaps_us": gaps_us(*[gap_us] * gaps)} | changes))


@pytest.mark.parametrize(
    "record, impossible",
    [
        (burst(0), 1),  # 49 tokens in a millisecond
        (burst(0, span_us=4_900), 0),  # exactly 10,000 a second
        (burst(0, span_us=4_899), 1),
        (burst(0, gap_us=49), 1),
        (burst(0, gap_us=50), 0),  # gaps of a network, not of a buffer
        (burst(0, tokens=16), 0),
        (burst(0, tokens=17), 1),
        (burst(0, tokens=17, first_chunk_tokens=2), 0),
        (burst(0, output_tokens=None), 0),
        (burst(0, span_us=0), 1),
        (burst(0, gaps=0, span_us=0), 0),  # one chunk is no rate
        (burst(0, outcome=Outcome.TRUNCATED), 0),
    ],
)
def test_tokens_faster_than_any_sequence_is_decoded_are_counted(record, impossible):
    assert short(record).impossible_rates == impossible


def test_an_impossible_rate_has_no_time_per_token_and_spoils_no_other():
    found = short(burst(0), a_record(1), limits=ClassLimits(tpot_s=1.0))
    assert (found.tpot_s.p50.n, found.tpot_ok_s.p50.value, found.good.hits) == (1, pytest.approx(0.009), 1)


# ── two ways of counting do not add ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "sources, mixed, rate",
    [
        (("server", "server"), False, 22.0),
        (("tokenizer", "tokenizer"), False, 22.0),
        (("server", "tokenizer"), True, None),
    ],
)
def test_tokens_of_two_sources_give_no_rate_and_no_time_per_token(sources, mixed, rate):
    records = [a_record(i, token_source=TokenSource(source)) for i, source in enumerate(sources)]
    found = summary(*records, limits=ClassLimits(tpot_s=1.0))
    only = found.of_class("short")
    assert (found.mixed_token_sources, only.mixed_token_sources) == (mixed, mixed)
    assert (found.output_tokens_per_s, only.output_tokens_per_s) == (rate, rate)
    assert (only.tpot_s.p50.n, only.good.hits) == ((0, 0) if mixed else (2, 2))


def test_tokens_that_nobody_counted_are_no_second_source():
    uncounted = a_record(1, output_tokens=None, token_source=TokenSource.UNKNOWN)
    found = short(a_record(0), uncounted)
    assert (found.mixed_token_sources, found.output_tokens_per_s, found.tpot_s.p50.n) == (False, None, 1)


def test_two_classes_counted_in_two_ways_have_rates_of_their_own_and_none_together():
    plan = {"class_name": "mixed", "classes": (a_class("short"), a_class("long"))}
    found = summary(a_record(0), a_record(1, class_name="long", token_source=TokenSource.TOKENIZER), **plan)
    assert (found.mixed_token_sources, found.output_tokens_per_s) == (True, None)
    assert [c.output_tokens_per_s for c in found.classes] == [11.0, 11.0]


# ── gaps between chunks ────────────────────────────────────────────────────────────────────────────────────────────


def test_gaps_are_those_of_successes_and_their_longest_is_kept():
    records = [a_record(i, gaps_us=gaps_us(*range(1000, 1100))) for i in range(2)]
    records.append(a_record(2, gaps_us=gaps_us(30_000_000)))
    records.append(a_record(3, outcome=Outcome.IDLE_TIMEOUT, gaps_us=gaps_us(99_000_000)))
    found = short(*records).chunk_gap_s
    assert (found.n, found.exact) == (201, True)
    assert (found.p50, found.p95, found.p99, found.peak) == (0.00105, 0.001095, 0.001099, 30.0)
    assert sum(count for _, count in found.buckets_us) == 201


@pytest.mark.parametrize(
    "count, known",
    [(0, (False, False, False)), (1, (True, False, False)), (20, (True, True, False)), (100, (True, True, True))],
)
def test_quantiles_of_gaps_need_as_many_as_those_of_requests(count, known):
    found = short(a_record(0, gaps_us=gaps_us(*range(count)))).chunk_gap_s
    assert tuple(value is not None for value in (found.p50, found.p95, found.p99)) == known
    assert (found.peak is None) == (count == 0)


def test_histograms_of_two_cells_add_to_that_of_both():
    dice = np.random.default_rng(5)
    gaps = [dice.integers(0, 10**6, 50).tolist() for _ in range(4)]
    records = [a_record(i, gaps_us=gaps_us(*values)) for i, values in enumerate(gaps)]
    apart = [
        short(*records[:2]),
        short(a_record(0, gaps_us=records[2].gaps_us), a_record(1, gaps_us=records[3].gaps_us)),
    ]
    assert merged(*(found.chunk_gap_s.buckets_us for found in apart)) == short(*records).chunk_gap_s.buckets_us


# ── steady or not ──────────────────────────────────────────────────────────────────────────────────────────────────


def lasting(index: int, e2e_ms: float, *, every_ms: int = 200) -> RequestRecord:
    at = index * every_ms * MS
    end = at + round(e2e_ms * MS)
    stamps = {"t_scheduled_ns": at, "t_sent_ns": at + 1000, "t_first_ns": at + 10 * MS, "t_answer_ns": at + 10 * MS}
    return a_record(index, **(stamps | {"t_last_ns": end, "t_end_ns": end, "t_closed_ns": end}))


@pytest.mark.parametrize(
    "growth, verdict", [(0.0, Steady.STEADY), (0.3, Steady.DRIFTING), (-0.3, Steady.SETTLING), (0.1, Steady.STEADY)]
)
def test_each_time_is_judged_for_itself(growth, verdict):
    records = [lasting(i, 100 * (1 + growth * i / 150)) for i in range(150)]
    found = summary(*records, window_s=30)
    steady = found.of_class("short").steadiness
    assert (steady["e2e_s"].verdict, steady["ttft_s"].verdict) == (verdict, Steady.STEADY)
    assert found.steadiness["completed_per_s"].verdict is Steady.STEADY


def test_a_short_window_is_too_short_to_be_steady():
    found = summary(*[a_record(i) for i in range(200)])
    assert found.of_class("short").steadiness["e2e_s"].verdict is Steady.TOO_SHORT


# ── nothing succeeded ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [0, 1, 640])
def test_where_nothing_succeeded_everything_is_unknown_and_nothing_crashes(count):
    found = summary(*[a_record(i, outcome=Outcome.REFUSED, **FAILED) for i in range(count)], window_s=1)
    only = found.of_class("short")
    assert (found.completed_per_s, found.output_tokens_per_s, only.output_tokens_per_s) == (0.0, None, None)
    assert (only.success.hits, only.success.n) == (0, count)
    assert (only.e2e_ok_s.p50.value, only.server_e2e_ok_s.p50.value, only.tpot_ok_s.p50.value) == (None, None, None)
    assert only.e2e_s.p50.value == (math.inf if count else None)
    assert (only.chunk_gap_s.n, only.chunk_gap_s.p50, only.chunk_gap_s.peak) == (0, None, None)
    assert (only.buffered, only.impossible_rates, only.wrong_times, only.steadiness) == (False, 0, 0, {})
    assert from_json(as_json(found)) == found
