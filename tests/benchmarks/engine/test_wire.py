"""Every word of the outcome vocabulary, over real sockets, byte for byte."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
from array import array
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.engine.exchange import Due
from benchmarks.engine.heads import retry_after_s
from benchmarks.engine.prompts import Prepared, Workload
from benchmarks.engine.terms import Outcome, Phase, RequestRecord, TokenSource
from benchmarks.engine.wire import Slot, Target, request_headers, target_url
from tests.benchmarks.engine.asking import ask, one
from tests.benchmarks.engine.plans import MS, a_plan
from tests.benchmarks.engine.scripted import (
    DONE,
    GOOD,
    LAST_CHUNK,
    SSE_HEAD,
    Close,
    Hang,
    Pause,
    Reset,
    Scripted,
    delta,
    event,
    finish,
    piece,
    plain,
    stream,
    usage,
)

RECORDED = Path(__file__).parents[2] / "data" / "streams"
ERROR = {"error": {"message": "boom", "type": "server_error", "code": 500}}
OVERLOAD = {"error": {"message": "busy", "type": "overloaded_error", "code": 503}}
TGI_OVERLOAD = {"error": "Model is overloaded", "error_type": "overloaded"}


def due(prepared: Prepared) -> tuple[Due]:
    return (Due(prepared, time.monotonic_ns(), Phase.WINDOW),)


TEXT = delta(content="bebo")
TOOL_CALL = [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]
VOCABULARY = [
    ("a whole stream", [GOOD], Outcome.OK),
    ("length is a complete transport", [stream(TEXT, finish("length"), DONE)], Outcome.OK),
    ("tool calls are content", [stream(delta(tool_calls=TOOL_CALL), finish("tool_calls"), DONE)], Outcome.OK),
    ("no [DONE] but finish_reason and a clean end", [stream(TEXT, finish())], Outcome.OK),
    ("429", [plain(429, b"{}")], Outcome.REJECTED),
    ("503", [plain(503, json.dumps(OVERLOAD).encode())], Outcome.REJECTED),
    ("529", [plain(529, b"")], Outcome.REJECTED),
    ("an overload body under another status", [plain(500, json.dumps(TGI_OVERLOAD).encode())], Outcome.REJECTED),
    ("overload in the stream before any text", [stream(event(OVERLOAD), DONE)], Outcome.REJECTED),
    ("overload in the stream in TGI's words", [stream(event(TGI_OVERLOAD))], Outcome.REJECTED),
    ("overload in the stream after text", [stream(TEXT, event(OVERLOAD), DONE)], Outcome.IN_STREAM_ERROR),
    ("400", [plain(400, json.dumps(ERROR).encode())], Outcome.REFUSED),
    ("401", [plain(401, b"no", kind="text/plain")], Outcome.REFUSED),
    ("a redirect is not followed", [plain(307, b"", "location: http://192.0.2.1/")], Outcome.REFUSED),
    ("500", [plain(500, json.dumps(ERROR).encode())], Outcome.SERVER_ERROR),
    ("502 with a page", [plain(502, b"<html>", kind="text/html")], Outcome.SERVER_ERROR),
    ("error event, then the end", [stream(TEXT, TEXT, TEXT, event(ERROR))], Outcome.IN_STREAM_ERROR),
    ("error event, then [DONE]", [stream(TEXT, event(ERROR), DONE)], Outcome.IN_STREAM_ERROR),
    ("a flat error", [stream(event({"object": "error", "message": "x", "code": 500}), DONE)], Outcome.IN_STREAM_ERROR),
    ("an error under HTTP 200 without streaming", [plain(200, json.dumps(ERROR).encode())], Outcome.IN_STREAM_ERROR),
    ("a named error event", [stream(b"event: error\ndata: it broke\n\n")], Outcome.IN_STREAM_ERROR),
    ("finish_reason abort", [stream(TEXT, finish("abort"), DONE)], Outcome.IN_STREAM_ERROR),
    ("the stream ends early", [stream(TEXT, TEXT)], Outcome.TRUNCATED),
    ("[DONE] without finish_reason", [stream(TEXT, DONE)], Outcome.TRUNCATED),
    ("reset in mid-stream", [SSE_HEAD + piece(TEXT), Pause(0.05), Reset()], Outcome.TRUNCATED),
    ("closed in mid-stream", [SSE_HEAD + piece(TEXT), Pause(0.05), Close()], Outcome.TRUNCATED),
    ("Ollama's hidden error: an empty delta, then the end", [stream(delta(content=""))], Outcome.TRUNCATED),
    ("a cut event", [stream(TEXT, b'data: {"choices": [\n\n', finish(), DONE)], Outcome.MALFORMED),
    ("a body that is not JSON", [plain(200, b"{oops")], Outcome.MALFORMED),
    ("not HTTP at all", [b"SSH-2.0-OpenSSH\r\n\r\n", Close()], Outcome.MALFORMED),
    ("204", [b"HTTP/1.1 204 No Content\r\n\r\n"], Outcome.MALFORMED),
    ("no token, finish stop", [stream(delta(role="assistant", content=""), finish(), usage(4, 0), DONE)], Outcome.EMPTY),
    ("a fresh connection closed before any byte", [Close()], Outcome.CONNECT_ERROR),
    ("a fresh connection reset before any byte", [Reset()], Outcome.CONNECT_ERROR),
]  # fmt: skip


@pytest.mark.parametrize("script, outcome", [row[1:] for row in VOCABULARY], ids=[row[0] for row in VOCABULARY])
def test_each_answer_has_its_one_outcome(script, outcome):
    record = one(*script)
    assert record.outcome is outcome, record.detail
    assert (record.valid is not None) == (outcome is Outcome.OK)
    assert (record.detail == "") == (outcome is Outcome.OK)


def test_nobody_listening_is_a_connect_error():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound but not listening: refused at once
        plan = a_plan(base_url=f"http://127.0.0.1:{held.getsockname()[1]}")

        async def run() -> RequestRecord:
            slot = Slot(Target(plan))
            exchange = await slot.ask(due(Workload(plan).build(0)), Workload(plan).build(0).body)
            await slot.close()
            return exchange.records()[0]

        record = asyncio.run(run())
    assert (record.outcome, record.t_sent_ns) == (Outcome.CONNECT_ERROR, None)


EARLY = {"first_byte_timeout_s": 0.4, "idle_timeout_s": 10.0}
IDLE = {"first_byte_timeout_s": 10.0, "idle_timeout_s": 0.4}
IDLE_IN_TIME = {"first_byte_timeout_s": 3.0, "idle_timeout_s": 0.4, "total_timeout_s": 3.0}
ROLE = [SSE_HEAD + piece(delta(role="assistant")), Pause(0.1)]
PINGS = [piece(b": ping\n\n"), Pause(0.1)] * 10
SLOW = [
    ("no headers", [Hang()], EARLY, Outcome.FIRST_BYTE_TIMEOUT),
    ("headers but no text", [SSE_HEAD, Hang()], EARLY, Outcome.FIRST_BYTE_TIMEOUT),
    (
        "a role chunk but no text",
        [SSE_HEAD + piece(delta(role="assistant")), Hang()],
        EARLY,
        Outcome.FIRST_BYTE_TIMEOUT,
    ),
    ("comments do not count as text", [SSE_HEAD, *PINGS, Hang()], EARLY, Outcome.FIRST_BYTE_TIMEOUT),
    ("text, then silence", [SSE_HEAD + piece(TEXT), Hang()], IDLE, Outcome.IDLE_TIMEOUT),
    ("text in a read of its own, then silence", [*ROLE, piece(TEXT), Hang()], IDLE_IN_TIME, Outcome.IDLE_TIMEOUT),
    ("comments do not re-arm", [SSE_HEAD + piece(TEXT), *PINGS, Hang()], IDLE, Outcome.IDLE_TIMEOUT),
    ("text for ever", [SSE_HEAD, *[piece(TEXT), Pause(0.1)] * 30], {"total_timeout_s": 0.6}, Outcome.TOTAL_TIMEOUT),
    ("silence past the total limit", [Hang()], {"total_timeout_s": 0.2}, Outcome.TOTAL_TIMEOUT),
    ("whole, but the body does not end", [SSE_HEAD + piece(TEXT + finish() + DONE), Hang()], {}, Outcome.OK),
]


@pytest.mark.parametrize("script, limits, outcome", [row[1:] for row in SLOW], ids=[row[0] for row in SLOW])
def test_the_limits_are_told_apart(script, limits, outcome):
    record = one(*script, **limits)
    assert record.outcome is outcome, record.detail
    if outcome is not Outcome.OK:
        assert record.detail.startswith("client limit: ")


@pytest.mark.parametrize("word", [Outcome.CANCELLED, Outcome.UNFINISHED])
def test_a_request_ended_by_us_keeps_what_it_had(word):
    async def run() -> RequestRecord:
        async with Scripted([[SSE_HEAD + piece(TEXT), Hang()]]) as server:
            plan = a_plan(base_url=server.url)
            slot = Slot(Target(plan))
            asking = asyncio.create_task(slot.ask(due(Workload(plan).build(0)), Workload(plan).build(0).body))
            await asyncio.sleep(0.3)
            slot.interrupt(word)
            record = (await asking).records()[0]
            await slot.close()
            return record

    record = asyncio.run(run())
    assert record.outcome is word
    assert record.t_first_ns is not None


def test_an_early_role_chunk_is_no_first_token():
    role = piece(delta(role="assistant", content=""))
    record = one(SSE_HEAD + role, Pause(0.2), piece(TEXT + finish() + DONE) + LAST_CHUNK)
    assert record.t_headers_ns is not None
    assert record.t_first_ns is not None
    assert record.t_first_ns - record.t_headers_ns >= 190 * MS


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_counts_as_first_text_and_the_answer_has_its_own_time(field):
    thoughts = [step for _ in range(5) for step in (piece(delta(**{field: "hm"})), Pause(0.05))]
    record = one(SSE_HEAD, *thoughts, piece(TEXT + finish() + usage(4, 6) + DONE) + LAST_CHUNK)
    assert record.outcome is Outcome.OK
    assert record.t_answer_ns - record.t_first_ns >= 240 * MS
    assert len(record.gaps_us) // 4 == 5


def test_the_gap_before_the_first_text_is_not_among_the_gaps():
    record = one(SSE_HEAD, Pause(0.2), piece(TEXT), Pause(0.05), piece(TEXT + finish() + DONE) + LAST_CHUNK)
    assert array("I", record.gaps_us).tolist() == [(record.t_last_ns - record.t_first_ns) // 1000]


def test_tokens_come_from_usage_and_never_from_the_number_of_chunks():
    five = delta(content="bebo loli loke kubu bebo ")
    record = one(stream(*[five] * 10, finish(), usage(4, 50), DONE))
    assert (record.output_tokens, record.token_source) == (50, TokenSource.SERVER)


def test_without_usage_the_count_is_unknown_not_zero():
    record = one(stream(TEXT, finish(), DONE))
    assert (record.output_tokens, record.prompt_tokens, record.token_source) == (None, None, TokenSource.UNKNOWN)


def test_running_usage_is_taken_last_and_gives_the_first_chunks_tokens():
    def chunk(text: str, tokens: int) -> bytes:
        choice = {"index": 0, "delta": {"content": text}}
        return event({"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}})

    record = one(stream(chunk("a", 3), chunk("b", 4), chunk("c", 8), finish(), DONE))
    assert (record.output_tokens, record.first_chunk_tokens, record.prompt_tokens) == (8, 3, 9)


@pytest.mark.parametrize("payload", [{"choices": []}, {"choices": None}, {"id": "x"}, {"choices": [{"index": 0}]}])
def test_chunks_without_a_choice_are_tolerated(payload):
    assert one(stream(event(payload), TEXT, finish(), usage(1, 1), DONE)).outcome is Outcome.OK


@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens", "prompt_tokens_details"])
def test_usage_with_a_null_is_tolerated(field):
    counts = {"prompt_tokens": 3, "completion_tokens": 2} | {field: None}
    assert one(stream(TEXT, finish(), event({"choices": [], "usage": counts}), DONE)).outcome is Outcome.OK


SPELLINGS = {
    "LF": lambda raw: raw,
    "CRLF": lambda raw: raw.replace(b"\n", b"\r\n"),
    "CR": lambda raw: raw.replace(b"\n", b"\r"),
    "no blank after data:": lambda raw: raw.replace(b"data: ", b"data:"),
    "BOM": lambda raw: b"\xef\xbb\xbf" + raw,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_same_stream_in_each_spelling_is_the_same_answer(spelling):
    raw = SPELLINGS[spelling](TEXT + delta(content=" loli") + finish() + usage(4, 2) + DONE)
    record = one(SSE_HEAD, *[piece(raw[i : i + 7]) for i in range(0, len(raw), 7)], LAST_CHUNK)
    assert (record.outcome, record.output_tokens, len(record.gaps_us) // 4) == (Outcome.OK, 2, 1)


def test_a_character_cut_between_reads_and_a_line_separator_inside_text_arrive_whole():
    emoji = delta(content="\N{GRINNING FACE}\u2028\u0085")
    steps = [step for i in range(len(emoji)) for step in (piece(emoji[i : i + 1]),)]
    assert one(SSE_HEAD, *steps, piece(finish() + usage(1, 3) + DONE) + LAST_CHUNK).outcome is Outcome.OK


def test_a_compressed_stream_is_read():
    raw = gzip.compress(TEXT + finish() + usage(1, 1) + DONE)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n"
    record = one(head + b"content-length: %d\r\n\r\n" % len(raw) + raw)
    assert (record.outcome, record.output_tokens) == (Outcome.OK, 1)


def test_without_streaming_there_is_no_time_of_a_first_token():
    choice = {"index": 0, "message": {"content": "bebo loli"}, "finish_reason": "stop"}
    body = {"choices": [choice], "usage": {"prompt_tokens": 4, "completion_tokens": 2}}
    record = one(plain(200, json.dumps(body).encode()))
    assert (record.outcome, record.t_first_ns, record.output_tokens) == (Outcome.OK, None, 2)
    assert record.t_end_ns is not None


@pytest.mark.parametrize("status", [429, 503, 529])
def test_retry_after_is_kept(status):
    assert one(plain(status, b"{}", "retry-after: 2")).retry_after_s == 2.0


NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "value, seconds",
    [
        (None, None),
        ("3", 3.0),
        ("Mon, 30 Nov 2026 12:00:07 GMT", 7.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
    ],
)
def test_both_spellings_of_retry_after(value, seconds):
    assert retry_after_s(value, NOW) == seconds


def test_the_keep_alive_race_is_resent_once_on_a_fresh_connection():
    records, server = ask([GOOD], [Close()], [GOOD], times=2)
    assert [(r.outcome, r.resent) for r in records] == [(Outcome.OK, False), (Outcome.OK, True)]
    assert (server.connections, len(server.requests)) == (2, 3)


def test_a_second_close_on_the_fresh_connection_is_a_connect_error():
    records, server = ask([GOOD], [Close()], [Close()], [GOOD], times=2)
    assert (records[1].outcome, records[1].resent) == (Outcome.CONNECT_ERROR, True)
    assert len(server.requests) == 3


def test_the_wait_of_a_resent_request_stays_in_the_user_view():
    records, _ = ask([GOOD], [Pause(0.2), Close()], [GOOD], times=2)
    assert records[1].t_sent_ns - records[1].t_scheduled_ns >= 190 * MS


def test_there_are_no_hidden_retries():
    records, server = ask([plain(503, b"{}")], [plain(503, b"{}")], [GOOD], times=3)
    assert [r.outcome for r in records] == [Outcome.REJECTED, Outcome.REJECTED, Outcome.OK]
    assert len(server.requests) == 3


def test_one_slot_keeps_one_connection():
    records, server = ask([GOOD], times=4)
    assert [r.outcome for r in records] == [Outcome.OK] * 4
    assert server.connections == 1


def test_the_proxy_environment_is_not_followed(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert one(GOOD).outcome is Outcome.OK


def test_times_of_a_good_request_are_in_order():
    r = one(SSE_HEAD, Pause(0.02), piece(TEXT), Pause(0.02), piece(TEXT + finish() + DONE) + LAST_CHUNK)
    stamps = [r.t_scheduled_ns, r.t_sent_ns, r.t_headers_ns, r.t_first_ns, r.t_last_ns, r.t_end_ns, r.t_closed_ns]
    assert stamps == sorted(stamps)


def test_the_request_asks_for_a_stream_with_usage_and_carries_the_key(monkeypatch):
    monkeypatch.setenv("TARGET_KEY", "secret")
    _, server = ask([GOOD], api_key_env="TARGET_KEY")
    body = json.loads(server.bodies[0])
    assert (body["stream"], body["stream_options"], body["max_tokens"]) == (True, {"include_usage": True}, 2)
    assert b"authorization: Bearer secret" in server.requests[0].replace(b"Authorization", b"authorization")


def test_a_key_that_the_environment_lacks_is_an_error_at_once(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(KeyError):
        request_headers(a_plan(api_key_env="NO_SUCH_KEY"))


@pytest.mark.parametrize("base", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_the_address_may_end_in_v1_or_not(base):
    assert target_url(base, "/v1/chat/completions") == "http://h:1/v1/chat/completions"


RECORDINGS = [
    ("xllamacpp_b11549_chat_stream_usage.txt", Outcome.OK, 6, "length"),
    ("xllamacpp_b11549_chat_stream_plain.txt", Outcome.OK, None, "length"),
    ("xllamacpp_b11549_chat_nonstream.txt", Outcome.OK, 6, "length"),
    ("xllamacpp_b11549_max_tokens_zero.txt", Outcome.OK, 1, "length"),
    ("xllamacpp_b11549_err_prompt_beyond_ctx_stream.txt", Outcome.REFUSED, None, None),
    ("haproxy_503.http", Outcome.REJECTED, None, None),
]


@pytest.mark.parametrize("name, outcome, tokens, reason", RECORDINGS, ids=[row[0] for row in RECORDINGS])
def test_recorded_answers_of_llama_cpp_and_haproxy(name, outcome, tokens, reason):
    record = one((RECORDED / name).read_bytes(), Close())
    assert (record.outcome, record.output_tokens, record.finish_reason) == (outcome, tokens, reason), record.detail


def test_the_recorded_overflow_of_a_unified_pool_is_an_in_stream_error():
    recorded = (RECORDED / "llamacpp_b11434_kvu_overflow_in_stream.txt").read_bytes()
    whole_events = recorded.split(b"\n\n", 1)[1]  # the recording begins inside an event
    record = one(stream(whole_events))
    assert (record.outcome, record.finish_reason) == (Outcome.IN_STREAM_ERROR, None)
    assert "Context size has been exceeded" in record.detail
