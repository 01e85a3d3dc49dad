"""What a dialect makes of bytes: framing, events, one answer, its outcome. No socket; times are the count of reads."""

from __future__ import annotations

import json
from collections.abc import Sequence

import httptools

from benchmarks.engine import ndjson, sse
from benchmarks.engine.answer import Answer
from benchmarks.engine.dialects.base import Ask, Framing, Message
from benchmarks.engine.dialects.table import dialect_of

MS = 1_000_000


def an_ask(**changes) -> Ask:
    fields = {
        "model": "m",
        "messages": (Message("user", "bebo loli"),),
        "text": "bebo loli",
        "max_tokens": 6,
        "stream": True,
    }
    return Ask(**(fields | changes))


def asked(name: str, *asks: Ask) -> dict:
    return json.loads(dialect_of(name).body(asks or [an_ask()]))


def heard(name: str, *reads: bytes, clean_end: bool = True) -> Answer:
    """A streamed answer whose reads arrive a millisecond apart, from 1 ms on; then the stream ends."""
    dialect, answer = dialect_of(name), Answer()
    parser = sse.Parser() if dialect.FRAMING is Framing.SSE else ndjson.Parser()
    t_ns = 0
    for read in reads:
        t_ns += MS
        for event in parser.feed(read):
            dialect.event(answer, event.data, event.kind, t_ns)
    if clean_end:
        for event in parser.end():
            dialect.event(answer, event.data, event.kind, t_ns)
        answer.eof(t_ns)
    return answer


def taken(name: str, body: object, *, items: int = 1) -> list[Answer]:
    """A whole body, as an object or as bytes, for so many items."""
    answers = [Answer() for _ in range(items)]
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    dialect_of(name).whole(answers, data, 5 * MS)
    return answers


def events(*payloads: object) -> list[bytes]:
    """Each as one event of an SSE stream; bytes stand as they are."""
    return [p if isinstance(p, bytes) else b"data: " + json.dumps(p).encode() + b"\n\n" for p in payloads]


def lines(*payloads: object) -> list[bytes]:
    """Each as one line."""
    return [json.dumps(p).encode() + b"\n" for p in payloads]


class Recorded:
    """A recorded HTTP answer: status, headers, and the pieces of its body as they were sent."""

    def __init__(self, raw: bytes) -> None:
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        parser = httptools.HttpResponseParser(self)
        parser.feed_data(raw)
        self.status = parser.get_status_code()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode()

    def on_body(self, data: bytes) -> None:
        self.pieces.append(data)

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def is_stream(self) -> bool:
        return not self.headers["content-type"].startswith("application/json")

    def answer(self, name: str) -> Answer:
        return heard(name, *self.pieces) if self.is_stream else taken(name, self.body)[0]


def counts(answer: Answer) -> tuple[int | None, int | None, int | None]:
    return answer.prompt_tokens, answer.output_tokens, answer.cached_prompt_tokens


def every_cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """`data` cut at these places, sorted."""
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
