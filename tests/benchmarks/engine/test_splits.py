"""However the network cuts the bytes of an answer, the record is the same: every legal stream, pure and over sockets."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import Callable, Sequence

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.engine import ndjson, sse
from benchmarks.engine.connection import Connection, Headers
from benchmarks.engine.terms import Outcome, RequestRecord
from tests.benchmarks.engine.asking import ask
from tests.benchmarks.engine.scripted import LAST_CHUNK, SSE_HEAD, Close, Pause, piece

LOOPS = {"asyncio": None, "uvloop": uvloop.new_event_loop}
LINE_ENDS = {"LF": b"\n", "CRLF": b"\r\n", "CR": b"\r"}


def parts(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted(cuts)
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def parsed(parser: sse.Parser | ndjson.Parser, pieces: Sequence[bytes]) -> list[sse.Event]:
    """As the wire drives a parser: the short way first."""
    found = []
    for data in pieces:
        alone = parser.one(data)
        found += [sse.Event(alone)] if alone else parser.feed(data)
    return found + parser.end()


# ── pure: a stream is written event by event, so what it means is known before it is parsed ────────────────────────

# What stands in a line: anything but its ends; the separators that other libraries split at, and NUL, are just text.
WORDS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=6) | st.sampled_from(
    ["\u2028", "\u2029", "\x85", "\x0b\x0c", "\0", ":", " ", "data: x", "\U0001f600", "{}"]
)
NOTHING = st.sampled_from([b": ping", b":", b"id: 7", b"retry: 5", b"unknown", b"datax: y", b"event"])
BETWEEN = st.lists(NOTHING, max_size=2)


@st.composite
def sse_streams(draw: st.DrawFn) -> tuple[bytes, list[sse.Event]]:
    """A legal stream and its events."""
    end = LINE_ENDS[draw(st.sampled_from(sorted(LINE_ENDS)))]
    lines: list[bytes] = []
    events: list[sse.Event] = []
    for data_lines in draw(st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=5)):
        kind = draw(st.sampled_from([b"", b"", b"error", "p\u2028".encode()]))
        lines += draw(BETWEEN) + ([b"event: " + kind] if kind else [])
        for words in data_lines:
            blank = b" " if words.startswith(" ") or draw(st.booleans()) else b""
            lines += [b"data:" + blank + words.encode(), *draw(BETWEEN)]
        lines += [b""] * draw(st.integers(1, 3))
        named = kind if not any(line == b"event" for line in lines_since(lines)) else kind_after(lines)
        events.append(sse.Event("\n".join(data_lines).encode(), named))
    bom = draw(st.sampled_from([b"", sse.BOM]))
    return bom + b"".join(line + end for line in lines), events


def lines_since(lines: list[bytes]) -> list[bytes]:
    """The lines of the last event."""
    body = lines
    while body and not body[-1]:
        body = body[:-1]
    return body[max((n for n, line in enumerate(body) if not line), default=-1) + 1 :]


def kind_after(lines: list[bytes]) -> bytes:
    """The last `event` line of an event names it; one without a value takes the name away."""
    named = [line for line in lines_since(lines) if line == b"event" or line.startswith(b"event:")]
    return named[-1].removeprefix(b"event").removeprefix(b": ")


@given(sse_streams(), st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_any_cut_of_any_legal_sse_stream_gives_the_events_that_were_written(written, data):
    raw, events = written
    assert parsed(sse.Parser(), [raw]) == events
    assert parsed(sse.Parser(), [raw[i : i + 1] for i in range(len(raw))]) == events
    assert parsed(sse.Parser(), parts(raw, data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))) == events


@given(
    st.lists(st.dictionaries(WORDS, WORDS, max_size=2), max_size=5), st.sampled_from([b"\n", b"\r\n", b" \n\n"]),
    st.booleans(), st.data(),
)  # fmt: skip
@settings(max_examples=200)
def test_any_cut_of_any_legal_ndjson_stream_gives_the_lines_that_were_written(objects, end, last_ends, data):
    lines = [json.dumps(o, ensure_ascii=False).encode() for o in objects]
    raw = end.join(lines) + (end if last_ends else b"")
    events = [sse.Event(line) for line in lines]
    assert parsed(ndjson.Parser(), [raw]) == events
    assert parsed(ndjson.Parser(), [raw[i : i + 1] for i in range(len(raw))]) == events
    assert parsed(ndjson.Parser(), parts(raw, data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))) == events


# ── framed: chunked bodies through the engine's own connection, over a socket pair ─────────────────────────────────


class Heard:
    """A receiver that keeps what it is told."""

    def __init__(self) -> None:
        self.status = 0
        self.content = b""
        self.over: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def sent(self, t_ns: int) -> None: ...

    def head(self, status: int, headers: Headers, t_ns: int) -> None:
        self.status = status

    def body(self, data: bytes, t_ns: int) -> None:
        assert data
        self.content += data

    def finish(self, error: Exception | None, t_ns: int) -> None:
        self.over.set_result(error)


async def through(pieces: Sequence[bytes]) -> tuple[int, bytes, Exception | None]:
    """Status, body and end of an answer that arrives in these reads."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, sock=ours)
    heard = Heard()
    connection.send(b"GET / HTTP/1.1\r\n\r\n", heard)
    assert await loop.sock_recv(theirs, 100)  # unread, it would turn the close into a reset
    for data in pieces:
        await loop.sock_sendall(theirs, data)
        for _ in range(3):  # the loop reads what is there before the next
            await asyncio.sleep(0)
    theirs.close()
    error = await asyncio.wait_for(heard.over, 5)
    connection.close()
    await connection.lost
    return heard.status, heard.content, error


CHUNKS = st.lists(
    st.binary(min_size=1, max_size=20) | st.sampled_from([b"\r\n", b"0\r\n\r\n", b"5\r\nabc"]), max_size=6
)
SIZES = st.sampled_from(["%x", "%X", "0%x", "%x;a=b", '%x;a="1"', "%x;a;b"])
TRAILERS = st.sampled_from([b"", b"x-trailer: 1\r\n", b"content-type: a\r\nb:\r\n"])


@pytest.mark.parametrize("loop_factory", LOOPS.values(), ids=LOOPS)
@given(chunks=CHUNKS, trailer=TRAILERS, data=st.data())
@settings(max_examples=30)
def test_any_cut_of_any_chunked_body_gives_its_content(loop_factory, chunks, trailer, data):
    framed = [(data.draw(SIZES) % len(c)).encode() + b"\r\n" + c + b"\r\n" for c in chunks]
    raw = SSE_HEAD + b"".join(framed) + b"0\r\n" + trailer + b"\r\n"
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8))
    # Reads that end where chunks end are most of what there is, and go a shorter way.
    ends = list(itertools.accumulate(map(len, framed), initial=len(SSE_HEAD)))
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        for pieces in (parts(raw, cuts), parts(raw, ends), [raw[i : i + 1] for i in range(len(raw))]):
            assert runner.run(through([p for p in pieces if p])) == (200, b"".join(chunks), None)


@pytest.mark.parametrize("loop_factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("missing", [1, 2, 3, 4, 5, 6, 7, 12])
def test_a_chunked_body_that_lacks_a_byte_of_its_end_is_not_whole_however_it_was_cut(loop_factory, missing):
    raw = (SSE_HEAD + piece(b"abc") + piece(b"0\r\n") + LAST_CHUNK)[:-missing]
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        for at in range(len(SSE_HEAD), len(raw)):
            *_, error = runner.run(through([p for p in (raw[:at], raw[at:]) if p]))
            assert "without sending complete message body" in str(error)


# ── whole: every answer in two parts at every place, and in single bytes, from a server to a record ────────────────

TEXTS = ["be\u2028", "\U0001f600", ":"]
MULTI = '{"choices":\ndata:[{"delta":{"content":"a"},\ndata: "index":0}]}'
CHAT = [*[json.dumps({"choices": [{"delta": {"content": t}}]}, ensure_ascii=False) for t in TEXTS], MULTI,
        '{"choices":[{"delta":{},"finish_reason":"stop"}]}', '{"choices":[],"usage":{"completion_tokens":5}}']  # fmt: skip
OLLAMA = [*[json.dumps({"message": {"content": t}}, ensure_ascii=False) for t in TEXTS],
          '{"message":{"content":"a"}}', '{"done":true,"done_reason":"stop","eval_count":5}']  # fmt: skip
EVENTS = b": ping\n\n" + b"".join(b"data: %s\n\n" % e.encode() for e in CHAT) + b"data:[DONE]\n\n"
LINES = b"".join(line.encode() + b"\n" for line in OLLAMA)
NDJSON_HEAD = b"HTTP/1.1 200 X\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
TO_THE_END = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n"

ANSWERS: dict[str, tuple[bytes, dict[str, str]]] = {
    f"SSE, {name}": (SSE_HEAD + piece(sse.BOM + EVENTS.replace(b"\n", end)) + LAST_CHUNK, {})
    for name, end in LINE_ENDS.items()
} | {
    "SSE, an event a chunk": (SSE_HEAD + b"".join(piece(e + b"\n\n") for e in EVENTS[:-2].split(b"\n\n")) + LAST_CHUNK, {}),
    "SSE to the end of the connection": (TO_THE_END + EVENTS, {}),
    "NDJSON": (NDJSON_HEAD + piece(LINES) + LAST_CHUNK, {"dialect": "ollama_chat"}),
    "NDJSON, a line a chunk": (
        NDJSON_HEAD + b"".join(piece(line + b"\n") for line in LINES[:-1].split(b"\n")) + LAST_CHUNK,
        {"dialect": "ollama_chat"},
    ),
    "NDJSON with CRLF and an open end": (
        NDJSON_HEAD + piece(LINES.replace(b"\n", b"\r\n").rstrip()) + LAST_CHUNK, {"dialect": "ollama_chat"},
    ),
}  # fmt: skip
MEANT = (Outcome.OK, "", 200, "stop", 5, 3, True)


def meaning(record: RequestRecord) -> tuple[object, ...]:
    return (
        record.outcome, record.detail, record.http_status, record.finish_reason, record.output_tokens,
        len(record.gaps_us) // 4, record.t_end_ns is not None,
    )  # fmt: skip


@pytest.mark.parametrize("loop_factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_in_two_parts_or_byte_by_byte_is_one_record(name, loop_factory: Callable | None):
    raw, asked = ANSWERS[name]
    ending = [Close()] if raw.startswith(TO_THE_END) else []
    halves = [[raw[:at], Pause(0.0005), raw[at:], *ending] for at in range(1, len(raw))]
    single = [[step for byte in raw for step in (bytes((byte,)), Pause(0))] + ending]
    records, _ = ask(*halves, *single, times=len(halves) + 1, loop_factory=loop_factory, **asked)
    assert {meaning(record) for record in records} == {MEANT}
