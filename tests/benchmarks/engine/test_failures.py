"""What a server may send by mistake or in bad faith costs its own request and nothing else: found by `make fuzz`."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import zlib

import pytest
import uvloop

from benchmarks.engine import exchange, ndjson, sse
from benchmarks.engine.answer import MOST_TOKENS
from benchmarks.engine.columns import from_frames
from benchmarks.engine.connection import MOST_BARE_BYTES
from benchmarks.engine.exchange import Due
from benchmarks.engine.heads import retry_after_s
from benchmarks.engine.inflating import PORTION_BYTES, Inflater
from benchmarks.engine.prompts import Workload
from benchmarks.engine.summary import summarise
from benchmarks.engine.terms import Outcome, Phase, RequestRecord, TokenSource
from benchmarks.engine.wire import Slot, Target
from tests.benchmarks.engine.asking import ask, one
from tests.benchmarks.engine.plans import a_header, a_plan
from tests.benchmarks.engine.scripted import (
    DONE,
    GOOD,
    LAST_CHUNK,
    SSE_HEAD,
    Close,
    Endless,
    Hang,
    Pause,
    delta,
    event,
    finish,
    piece,
    plain,
    stream,
    usage,
)
from tests.benchmarks.engine.test_wire import NOW

EVENTS = delta(content="bebo") + delta(content=" loli") + finish() + usage(4, 2) + DONE
LOOPS = {"asyncio": None, "uvloop": uvloop.new_event_loop}
UNFINISHED = delta(content="bebo") + finish()


# ── heads ──────────────────────────────────────────────────────────────────────────────────────────────────────────

AFTER = {
    "a trailer": SSE_HEAD + piece(EVENTS) + b"0\r\ncontent-type: application/json\r\ncontent-encoding: br\r\n\r\n",
    "another answer": GOOD + plain(200, b"{}", "content-encoding: br"),
    "a refusal": GOOD + plain(503, b"{}", "retry-after: 9"),
    "no HTTP at all": GOOD + b"\x16\x03\x01",
    "the head of another": GOOD + b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
}


@pytest.mark.parametrize("raw", AFTER.values(), ids=AFTER)
def test_what_follows_the_head_in_the_same_read_is_none_of_its_headers(raw):
    record = one(raw)
    assert (record.outcome, record.http_status, record.output_tokens) == (Outcome.OK, 200, 2), record.detail
    assert record.retry_after_s is None


@pytest.mark.parametrize("coding", ["br", "gzip", "identity", "zstd, gzip"])
@pytest.mark.parametrize(
    "status, outcome", [(429, Outcome.REJECTED), (404, Outcome.REFUSED), (502, Outcome.SERVER_ERROR)]
)
def test_a_refusal_is_one_however_its_body_is_encoded(coding, status, outcome):
    assert one(plain(status, b"not so encoded", f"content-encoding: {coding}")).outcome is outcome


@pytest.mark.parametrize(
    "value, seconds",
    [
        ("99999999999999999999", 1e20),
        ("9" * 400, None),
        ("\xb2", None),
        (" 7 ", 7.0),
        ("Mon, 99 Nov 99999 99:99:99 +9999", None),
        ("1 Jan 1 00:00:00 -2359", 0.0),
        ("31 Dec 9999 23:59:59 +2359", 251_602_112_639.0),
        ("Mon, 30 Nov 2026 12:00:07 +999999999999999999999", None),
        ("", None),
    ],
)
def test_whatever_retry_after_says_it_is_a_wait_or_nothing(value, seconds):
    found = retry_after_s(value.encode("latin-1"), NOW)
    assert found is None if seconds is None else found == pytest.approx(seconds, rel=1e-3)


@pytest.mark.parametrize("cut", [False, True], ids=["in one read", "in many"])
@pytest.mark.parametrize(
    "status, outcome",
    [("000", Outcome.MALFORMED), ("099", Outcome.MALFORMED), ("100", Outcome.OK), ("199", Outcome.OK), ("299", Outcome.MALFORMED),
     ("600", Outcome.SERVER_ERROR), ("999", Outcome.SERVER_ERROR)],
)  # fmt: skip
def test_only_a_status_of_one_hundred_and_some_is_followed_by_the_real_answer(status, outcome, cut):
    interim = status.startswith("1")
    raw = b"HTTP/1.1 %s X\r\n%s\r\n" % (status.encode(), b"" if interim else b"content-length: 2\r\n")
    raw += GOOD if interim else b"{}" + GOOD
    record = one(*([s for byte in raw for s in (bytes((byte,)), Pause(0))] if cut else [raw]))
    assert (record.outcome, record.http_status) == (outcome, 200 if interim else int(status)), record.detail


@pytest.mark.parametrize("loop_factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("greeting", [b"", b"\x16", plain(413, b"{}", "connection: close"), GOOD])
def test_a_server_that_hangs_up_before_it_was_asked_is_a_connect_error_and_no_answer(greeting, loop_factory):
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    async def run() -> list[RequestRecord]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        plan = a_plan(base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", first_byte_timeout_s=2.0)
        slot, workload, records = Slot(Target(plan)), Workload(plan), []
        for index in range(3):
            prepared = workload.build(index)
            records += (await slot.ask((Due(prepared, time.monotonic_ns(), Phase.WINDOW),), prepared.body)).records()
        await slot.close()
        server.close()
        return records

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        records = runner.run(run())
    # What was said unasked may meet the request on its way, and is then the answer, as far as anybody can tell.
    unasked = {Outcome.OK, Outcome.REFUSED, Outcome.MALFORMED} if greeting else set()
    assert {record.outcome for record in records} <= {Outcome.CONNECT_ERROR} | unasked, records[0].detail
    assert all(bool(record.detail) == (record.outcome is not Outcome.OK) for record in records)
    assert not any(record.http_status is None and record.outcome is Outcome.TRUNCATED for record in records)


# ── counts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "told, known",
    [
        (-1, None),
        (0, 0),
        (2, 2),
        (MOST_TOKENS, MOST_TOKENS),
        (MOST_TOKENS + 1, None),
        (10**20, None),
        (-(10**30), None),
    ],
)
def test_a_count_that_cannot_be_is_unknown_and_breaks_neither_log_nor_summary(told, known):
    counts = {"prompt_tokens": told, "completion_tokens": told, "prompt_tokens_details": {"cached_tokens": told}}
    record = one(stream(delta(content="bebo loli"), finish(), event({"choices": [], "usage": counts}), DONE))
    assert record.outcome in (Outcome.OK, Outcome.MALFORMED)  # JSON numbers beyond 64 bits are no integers to all
    assert (record.prompt_tokens, record.output_tokens, record.cached_prompt_tokens) == (known,) * 3
    assert record.token_source is (TokenSource.UNKNOWN if known is None else TokenSource.SERVER)
    plan = a_plan()
    assert summarise(from_frames([a_header(plan), record]), plan).scheduled == 1


def test_a_finish_reason_without_end_is_cut():
    record = one(stream(delta(content="bebo"), finish("x" * 100_000), DONE))
    assert (record.outcome, len(record.finish_reason), len(record.detail)) == (Outcome.IN_STREAM_ERROR, 100, 114)


# ── compression ────────────────────────────────────────────────────────────────────────────────────────────────────

GZIP_HEAD = SSE_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
PACKED = gzip.compress(EVENTS, mtime=0)
COMPRESSED = [
    ("one member", PACKED, Outcome.OK),
    ("a member per event", b"".join(gzip.compress(e + b"\n\n", mtime=0) for e in EVENTS.split(b"\n\n")[:-1]), Outcome.OK),
    ("zlib under the name of gzip", zlib.compress(EVENTS), Outcome.OK),
    ("cut short after the end marker", PACKED[:-4], Outcome.OK),
    ("cut short before it", gzip.compress(UNFINISHED, mtime=0)[:-4], Outcome.TRUNCATED),
    ("whole, without an end marker", gzip.compress(UNFINISHED, mtime=0), Outcome.OK),
    ("a wrong checksum", PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:], Outcome.MALFORMED),
    ("garbage after it", PACKED + b"garbage", Outcome.MALFORMED),
    ("not compressed", EVENTS, Outcome.MALFORMED),
    ("nothing", b"", Outcome.TRUNCATED),
]  # fmt: skip


@pytest.mark.parametrize("raw, outcome", [row[1:] for row in COMPRESSED], ids=[row[0] for row in COMPRESSED])
def test_a_compressed_stream_is_read_alike_whole_and_byte_by_byte(raw, outcome):
    framed = piece(raw) if raw else b""
    whole = one(GZIP_HEAD + framed + LAST_CHUNK)
    single = one(GZIP_HEAD, *[s for i in range(len(raw)) for s in (piece(raw[i : i + 1]), Pause(0))], LAST_CHUNK)
    assert whole.outcome is outcome, whole.detail
    assert [(r.outcome, r.detail, r.output_tokens, len(r.gaps_us)) for r in (whole, single)] == [
        (outcome, whole.detail, whole.output_tokens, len(whole.gaps_us))
    ] * 2


def test_what_stands_before_a_fault_in_the_compression_is_given_first():
    found: list[bytes] = []
    with pytest.raises(zlib.error):
        found.extend(Inflater().feed(PACKED[:-8] + b"\0" * 8))
    assert b"".join(found) == EVENTS


def test_a_few_kilobytes_that_hold_gigabytes_come_in_portions():
    packed = gzip.compress(b" " * (64 * PORTION_BYTES))
    assert len(packed) < PORTION_BYTES
    portions = [len(portion) for portion in Inflater().feed(packed)]
    assert (max(portions), sum(portions)) == (PORTION_BYTES, 64 * PORTION_BYTES)


# ── without end ────────────────────────────────────────────────────────────────────────────────────────────────────

KILO = b"x" * 1024
NDJSON = SSE_HEAD.replace(b"text/event-stream", b"application/x-ndjson")
CHAT, LINES = {}, {"dialect": "ollama_chat"}
FLOODS = [
    ("headers", [b"HTTP/1.1 200 OK\r\n", Endless(b"a: " + KILO + b"\r\n")], CHAT, "bytes and no body"),
    ("one header", [b"HTTP/1.1 200 OK\r\na: ", Endless(KILO)], CHAT, "bytes and no body"),
    ("a status line", [b"HTTP/1.1 200 ", Endless(KILO)], CHAT, "bytes and no body"),
    ("interim answers", [Endless(b"HTTP/1.1 103 Early\r\na: " + KILO + b"\r\n\r\n")], CHAT, "bytes and no body"),
    ("a chunk extension", [SSE_HEAD + b"5;a=", Endless(KILO)], CHAT, "bytes and no body"),
    ("trailers", [SSE_HEAD + b"0\r\n", Endless(b"a: " + KILO + b"\r\n")], CHAT, "bytes and no body"),
    ("one line", [SSE_HEAD + piece(b"data: "), Endless(piece(KILO * 64))], CHAT, "an event of more than"),
    ("lines of one event", [SSE_HEAD, Endless(piece(b"data:\n" * 4096))], CHAT, "an event of more than"),
    ("one line of lines", [NDJSON, Endless(piece(KILO * 64))], LINES, "a line of more than"),
    ("comments", [SSE_HEAD, Endless(piece(b": " + KILO * 64 + b"\n"))], CHAT, "a body of more than"),
    ("text", [SSE_HEAD, Endless(piece(delta(content="bebo") * 512))], CHAT, "a body of more than"),
    ("a whole body", [plain(200, b"")[:-5] + b"99999999999\r\n\r\n", Endless(KILO * 64)], CHAT, "a body of more than"),
    ("a bomb", [GZIP_HEAD, Endless(piece(gzip.compress(b"\n" * 2**20)))], CHAT, "a body of more than"),
]  # fmt: skip


@pytest.mark.parametrize("loop_factory", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("script, asked, word", [row[1:] for row in FLOODS], ids=[row[0] for row in FLOODS])
def test_what_has_no_end_is_given_up_before_it_fills_the_memory(monkeypatch, script, asked, word, loop_factory):
    monkeypatch.setattr(exchange, "MOST_BODY_BYTES", 4 * MOST_BARE_BYTES)
    monkeypatch.setattr(sse, "MOST_EVENT_BYTES", 2 * MOST_BARE_BYTES)
    monkeypatch.setattr(ndjson, "MOST_EVENT_BYTES", 2 * MOST_BARE_BYTES)
    limits = {"first_byte_timeout_s": 15.0, "idle_timeout_s": 15.0}
    (record,), _ = ask(script, loop_factory=loop_factory, **(limits | asked))
    cut = (
        Outcome.TRUNCATED
        if b"text/event-stream" in getattr(script[0], "data", script[0]) and "no body" in word
        else Outcome.MALFORMED
    )
    assert record.outcome is cut  # a stream that had begun, and of which no more came
    assert word in record.detail


@pytest.mark.parametrize("rest", [[Endless(piece(b"busy " * 4096))], [piece(b"busy busy"), Hang()]])
def test_a_refusal_whose_body_does_not_end_is_one_by_its_status(rest):
    head = plain(503, b"", "retry-after: 2").replace(b"content-length: 0", b"transfer-encoding: chunked")
    record = one(head, *rest, idle_timeout_s=0.3, total_timeout_s=1.0)
    assert (record.outcome, record.retry_after_s) == (Outcome.REJECTED, 2.0)
    assert record.detail.startswith("HTTP 503: busy busy")


def test_a_text_error_of_any_length_is_told_in_three_hundred_characters():
    record = one(plain(400, json.dumps({"error": {"message": ["x" * 5000, {"a": 1}]}}).encode()), Close())
    assert (record.outcome, len(record.detail)) == (Outcome.REFUSED, 300)
