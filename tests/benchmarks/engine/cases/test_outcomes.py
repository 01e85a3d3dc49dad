"""What is a success and what is not, and that nothing is lost: cases of other tools' users, each with its kind.

Numbers such as `report 9` are the rows of this folder's README.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math

import pytest

from benchmarks.engine.plan import Guard
from benchmarks.engine.summary_types import as_json
from benchmarks.engine.terms import Outcome
from tests.benchmarks.engine.asking import ask, one
from tests.benchmarks.engine.cases.streams import BOOM, BUSY, SPELLINGS, chunks
from tests.benchmarks.engine.cases.summing import short_of, summary_of
from tests.benchmarks.engine.loads.running import NO_ERROR_LIMIT, run_cell, run_program
from tests.benchmarks.engine.plans import FAILED, a_plan, a_record
from tests.benchmarks.engine.scripted import (
    DONE,
    GOOD,
    LAST_CHUNK,
    SSE_HEAD,
    Close,
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
    usage,
)

TEXT = delta(content="bebo")
SLOW_GOOD = [SSE_HEAD + piece(TEXT), Pause(0.02), piece(finish() + DONE) + LAST_CHUNK]

# ── report 9, complaint 19: a server that is full ──────────────────────────────────────────────────────────────────

FULL = [
    ("429", plain(429, b"{}"), None), ("503", plain(503, b""), None), ("529", plain(529, b"{}"), None),
    ("503 with seconds", plain(503, b"{}", "retry-after: 7"), 7.0),
    ("429 with a date long past", plain(429, b"{}", "Retry-After: Mon, 01 Jan 2024 00:00:00 GMT"), 0.0),
    ("Ollama's words", plain(503, b'{"error":"server busy, please try again.  maximum pending requests exceeded"}'), None),
    ("a gateway's page", plain(503, b"<html>no server is available</html>", kind="text/html"), None),
    ("vLLM's overloaded type under 500", plain(500, json.dumps({"error": {"type": "server_overloaded"}}).encode()), None),
    ("a hosted API's overloaded_error", plain(500, b'{"error": {"type": "overloaded_error", "message": ""}}'), None),
    ("a flat body under 500", plain(500, b'{"object":"error","message":"Model is overloaded","code":500}'), None),
    ("its code in the body of a 400", plain(400, json.dumps({"error": {"message": "later", "code": 429}}).encode()), None),
    ("too many requests, in words", plain(400, b"Too Many Requests", kind="text/plain"), None),
]  # fmt: skip


@pytest.mark.parametrize("answer, retry_after_s", [row[1:] for row in FULL], ids=[row[0] for row in FULL])
def test_a_full_server_has_rejected_in_whatever_words_and_its_wait_is_kept(answer, retry_after_s):
    """Report 9, complaint 19."""
    record = one(answer)
    assert (record.outcome, record.retry_after_s, record.t_end_ns) == (Outcome.REJECTED, retry_after_s, None), (
        record.detail
    )


NOT_FULL = [
    ("500", plain(500, b'{"error":"boom"}'), Outcome.SERVER_ERROR), ("502", plain(502, b""), Outcome.SERVER_ERROR),
    ("504", plain(504, b"<html>", kind="text/html"), Outcome.SERVER_ERROR), ("400", plain(400, b"{}"), Outcome.REFUSED),
    ("401", plain(401, b"{}", "retry-after: 3"), Outcome.REFUSED), ("404", plain(404, b"{}"), Outcome.REFUSED),
    ("413", plain(413, b"{}"), Outcome.REFUSED), ("422", plain(422, b'{"detail":[{"msg":"field"}]}'), Outcome.REFUSED),
]  # fmt: skip


@pytest.mark.parametrize("answer, outcome", [row[1:] for row in NOT_FULL], ids=[row[0] for row in NOT_FULL])
def test_another_failure_is_no_rejection(answer, outcome):
    """Report 9: its neighbours."""
    assert one(answer).outcome is outcome


@pytest.mark.parametrize("dialect", SPELLINGS)
def test_overload_told_inside_the_stream_is_a_rejection_until_text_has_come(dialect):
    """Complaint 19; report 9."""
    said = SPELLINGS[dialect]
    before = one(said.head + piece(said.opening + said.busy) + LAST_CHUNK, dialect=dialect)
    after = one(said.head + piece(said.text + said.busy) + LAST_CHUNK, dialect=dialect)
    assert (before.outcome, after.outcome) == (Outcome.REJECTED, Outcome.IN_STREAM_ERROR)
    told = said.head.replace(b"\r\n", b"\r\nretry-after: 7\r\n", 1) + piece(said.opening + said.busy) + LAST_CHUNK
    assert (one(told, dialect=dialect).retry_after_s, before.retry_after_s) == (7.0, None)


def test_twelve_of_twenty_rejected_are_in_the_error_share_and_in_no_time():
    """Report 9."""
    records, _ = ask(*[[plain(503, b"{}")]] * 12, SLOW_GOOD, times=20)
    found = short_of(records)
    assert found.outcomes == {"ok": 8, "rejected": 12}
    assert (found.success.hits, found.success.n, found.e2e_ok_s.p50.n, found.e2e_s.p50.n) == (8, 20, 8, 20)
    assert (found.e2e_s.p50.value, math.isfinite(found.e2e_ok_s.p50.value)) == (math.inf, True)


# ── report 13: an error after HTTP 200 ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("after", ["the end", "[DONE]", "a good ending", "a cut"])
@pytest.mark.parametrize("texts", [0, 1, 3])
@pytest.mark.parametrize("dialect", SPELLINGS)
def test_an_error_inside_the_stream_is_a_failure_whatever_follows_and_what_had_come_is_kept(dialect, texts, after):
    """Report 13."""
    said = SPELLINGS[dialect]
    rest = {"the end": b"", "[DONE]": DONE, "a good ending": said.ending, "a cut": b""}[after]
    closing = [piece(rest) if rest else b""] + ([Close()] if after == "a cut" else [LAST_CHUNK])
    steps = [said.head, *[piece(said.text)] * texts, piece(said.boom), *[step for step in closing if step]]
    record = one(*steps, dialect=dialect)
    assert record.outcome is Outcome.IN_STREAM_ERROR
    assert ("boom" in record.detail, len(record.gaps_us) // 4) == (True, max(texts - 1, 0))
    assert (record.t_first_ns is None) == (texts == 0)


def test_the_count_before_an_error_is_kept():
    """Report 13: the partial number of tokens."""
    chunk = event(
        {"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": {"prompt_tokens": 8, "completion_tokens": 3}}
    )
    record = one(stream(chunk, event(BOOM), DONE))
    assert (record.outcome, record.output_tokens, record.valid) == (Outcome.IN_STREAM_ERROR, 3, None)


SHAPES = [
    {"error": {"message": "boom", "code": 500}}, {"error": {"message": "boom", "code": "500"}}, {"error": "boom"},
    {"object": "error", "message": "boom", "code": 500}, {"error": {"message": "boom"}, "choices": []},
    {"error": {"type": "boom"}}, {"error": "x", "error_type": "boom"}, {"error": {"message": {"detail": "boom"}}},
    {"error": {"message": "boom", "http_status_code": 422}}, {"id": "x", "choices": None, "error": {"message": "boom"}},
]  # fmt: skip


@pytest.mark.parametrize("named", [b"", b"event: error\n"], ids=["unnamed", "named"])
@pytest.mark.parametrize("shape", SHAPES, ids=[json.dumps(shape) for shape in SHAPES])
def test_an_error_is_one_in_every_shape_that_servers_give_it(shape, named):
    """Report 13."""
    record = one(stream(TEXT, named + event(shape), finish(), DONE))
    assert (record.outcome, "boom" in record.detail) == (Outcome.IN_STREAM_ERROR, True)


# ── complaint 49: an event that nobody can read ────────────────────────────────────────────────────────────────────

UNREADABLE = {
    "a cut object": b'data: {"choices": [{"delta": {"cont\n\n', "words": b"data: Internal Server Error\n\n",
    "a page": b"data: <html>\n\n", "a list": b"data: []\n\n", "a number": b"data: 7\n\n", "a text": b'data: "x"\n\n',
    "null": b"data: null\n\n", "two objects": b'data: {"choices":[]}{"choices":[]}\n\n', "nothing": b"data:\n\n",
    "not UTF-8": b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n', "NaN": b'data: {"choices":[{"index":NaN}]}\n\n',
    "a text for an index": event({"choices": [{"index": "0", "delta": {"content": "a"}}]}),
    "a number for a text": event({"choices": [{"index": 0, "delta": {"content": 7}}]}),
    "choices that are none": event({"choices": {"index": 0}}), "usage that is none": event({"choices": [], "usage": [1]}),
    "half an end marker": b"data: [DON\n\n",
}  # fmt: skip


@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "in the text", "before the end"])
@pytest.mark.parametrize("bad", UNREADABLE.values(), ids=UNREADABLE)
def test_an_event_that_cannot_be_read_is_a_failure_and_never_dropped(bad, place):
    """Complaint 49."""
    events = [TEXT, TEXT, finish()]
    events.insert(place, bad)
    record = one(stream(*events, usage(8, 2), DONE))
    assert (record.outcome, bool(record.detail)) == (Outcome.MALFORMED, True)


@pytest.mark.parametrize("bad", [b"{oops\n", b"7\n", b"[]\n", b"Internal Server Error\n", b'{"message":7}\n'])
def test_a_line_that_cannot_be_read_is_a_failure_too(bad):
    """Complaint 49."""
    said = SPELLINGS["ollama_chat"]
    assert one(*chunks(said, said.text, bad, said.ending), dialect="ollama_chat").outcome is Outcome.MALFORMED


# ── report 14: no hidden retries ───────────────────────────────────────────────────────────────────────────────────

FIRST = {
    "503": [plain(503, b"{}")], "429": [plain(429, b"{}", "retry-after: 0")], "500": [plain(500, b"{}")],
    "a broken stream": [SSE_HEAD + piece(TEXT), Pause(0.01), Close()], "an error in the stream": [stream(event(BOOM))],
    "overload in the stream": [stream(event(BUSY))], "a reset in the stream": [SSE_HEAD + piece(TEXT), Pause(0.02), Reset()],
    "no answer in time": [Pause(0.4), Close()], "a fresh connection closed": [Close()],
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
def test_what_failed_is_not_asked_again_behind_anybodys_back(name):
    """Report 14: 503, 503, 200 are three requests and three outcomes, and no wait is in another's time."""
    records, server = ask(FIRST[name], FIRST[name], [GOOD], times=3, first_byte_timeout_s=0.2)
    assert [record.outcome is Outcome.OK for record in records] == [False, False, True]
    assert (len(server.requests), [record.resent for record in records]) == (3, [False] * 3)
    assert records[2].t_sent_ns > records[1].t_closed_ns
    found = summary_of(records)
    assert (found.attempts, found.attempts_per_request, found.resent) == (3, 1.0, 0)


# ── report 16, complaints 9 and 43: nobody is lost ─────────────────────────────────────────────────────────────────


BAD: dict[str, Script] = {
    "reset": [Reset()], "closed": [Close()], "500": [plain(500, b"{}")], "cut": [stream(TEXT)],
    "reset in the stream": [SSE_HEAD + piece(TEXT), Pause(0.02), Reset()],
}  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "failures"), [(BAD["reset"], 0), *[(bad, 3) for bad in BAD.values()], (BAD["cut"], 10), (BAD["closed"], 10)],
    ids=["none", *[f"3 {name}" for name in BAD], "10 cut", "10 closed"],
)  # fmt: skip
def test_ten_requests_are_ten_outcomes(tmp_path, bad, failures):
    """Report 16, complaints 9 and 43: sent = ok + each class of failure, always shown."""
    scripts: list[Script] = [*[bad] * failures, *[SLOW_GOOD] * (10 - failures), SLOW_GOOD]
    found = run_cell(tmp_path, *scripts, max_requests=10, window_s=30.0, guard=NO_ERROR_LIMIT).summary
    assert sum(found.outcomes.values()) == found.sent == found.scheduled == found.recorded == 10
    # The first connection was opened ahead: one that ends before any byte is resent, once, and counted.
    assert (found.conserved, found.outcomes.get("ok", 0)) == (True, 10 - failures + found.resent)
    assert found.resent <= 1


# ── report 17, complaints 51 and 53: no success at all ─────────────────────────────────────────────────────────────

NOT_ONE = {
    "400": [plain(400, b"{}")], "503": [plain(503, b"{}", "retry-after: 0")], "reset": [Reset()], "cut": [stream(TEXT)],
    "empty": [stream(finish(), DONE)], "an error in the stream": [stream(TEXT, event(BOOM))],
}  # fmt: skip


@pytest.mark.parametrize("bad", NOT_ONE.values(), ids=NOT_ONE)
def test_without_a_success_there_is_a_summary_and_no_number_in_it(tmp_path, bad):
    """Report 17, complaints 51 and 53: no division by zero, no rate of -1, no 166 a second of failures."""
    found = run_cell(tmp_path, bad, max_requests=12, window_s=30.0, offered_concurrency=4, guard=NO_ERROR_LIMIT).summary
    short = found.of_class("short")
    assert (sum(found.outcomes.values()), short.success.hits, short.good.hits) == (12, 0, 0)
    assert (found.completed_per_s, found.good_per_s, found.output_tokens_per_s) == (0.0, 0.0, None)
    for times in (short.e2e_ok_s, short.ttft_ok_s, short.tpot_ok_s):
        assert (times.p50.n, times.p50.value, times.p95.value) == (0, None, None)
    assert short.e2e_s.p50.value == math.inf
    assert (short.valid.value, short.chunk_gap_s.n, short.output_tokens_p50) == (None, 0, None)
    json.dumps(as_json(found), allow_nan=False)


# ── complaints 14, 35 and 50: refusing improves nothing ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.OK])
def test_who_fails_more_is_never_better(outcome):
    """Complaints 14, 35 and 50: of a hundred requests more and more fail, whichever way; no number improves."""

    def numbers(failed: int) -> tuple[float, ...]:
        bad = [a_record(n, outcome=outcome, **FAILED) for n in range(failed)]
        found = summary_of([*bad, *[a_record(n) for n in range(failed, 100)]])
        short = found.of_class("short")
        times = (short.e2e_s.p50.value, short.e2e_s.p95.value, short.ttft_s.p95.value, short.server_e2e_s.p95.value)
        return (-short.success.value, -short.good.value, -found.completed_per_s, -found.good_per_s, *times)

    steps = [numbers(failed) for failed in (0, 1, 5, 6, 50, 51, 100)]
    for fewer, more in itertools.pairwise(steps):
        assert all(a <= b for a, b in zip(fewer, more, strict=True))
    assert [step[5] == math.inf for step in steps] == [False, False, False, True, True, True, True]
    assert [step[4] == math.inf for step in steps] == [False, False, False, False, False, True, True]


# ── complaints 30 and 37: a run of errors ends, and says why ───────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("failures", "ends_early"), [(0, False), (5, False), (6, True), (40, True)], ids=["none", "5 %", "6 %", "many"]
)
def test_too_many_errors_end_the_run_with_the_reason_and_it_is_not_complete(tmp_path, failures, ends_early):
    """Complaints 30 and 37, through the program: it ends in good order, and its log says that the cell is not whole."""
    scripts = [*[[plain(500, b"{}")]] * failures, SLOW_GOOD]

    async def run():
        async with Scripted(scripts) as server:
            plan = a_plan(base_url=server.url, offered_concurrency=8, window_s=1.5, max_requests=100_000, max_tokens=10**9,
                          guard=Guard(max_error_share=0.05, error_share_over=100))  # fmt: skip
            return await asyncio.to_thread(run_program, plan, tmp_path)

    code, words, left = asyncio.run(run())
    assert (code, words) == (0, "")
    assert left.summary.complete is not ends_early
    assert left.summary.end_reason.startswith("guard: " if ends_early else "window completed")
    assert ("requests failed, limit 5\u00a0% of 100" in left.summary.end_reason) == ends_early
    assert left.summary.conserved
