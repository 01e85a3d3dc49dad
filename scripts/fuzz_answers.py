"""What `make fuzz` feeds the engine: recorded and made-up answers, mutated, framed as HTTP in every way, cut at random."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from scripts.stack import ROOT

STREAMS = ROOT / "tests" / "data" / "streams"
RECORDED = {"native_completion": "llamacpp_completion", "completions_stream": "openai_completions"}
EVERY = "every"
EVENT_END = b"\n\n\r\n"  # of an event, and of the chunk that it came in
MOST_BYTES = 64 * 1024
MOST_PIECES = 300  # over a socket each piece is a turn of the loop
SNIPPETS = (
    b"\n\n", b"\r", b"\r\n", b"data: ", b"data:", b"event: error\n", b": c\n", b"[DONE]", b"\xef\xbb\xbf", b"\x00", b"\xff",
    b"\xe2\x80\xa8", b"null", b"{}", b"[]", b"{", b"}", b'"', b"\\ud800", b"1e999", b"-1", b"99999999999999999999",
    b'"finish_reason":"stop"', b'"finish_reason":7', b'"choices":[]', b'"choices":null', b'"content":""', b'"index":1',
    b'{"error":{"message":null}}', b'{"error":"queue full"}', b'"usage":{"completion_tokens":-5}', b'"usage":[]',
    b'"done":true', b'"done_reason":"stop"', b'"stop":true', b'"data":[]', b'"embedding":"AA=="', b"NaN", b"[" * 2000,
)  # fmt: skip
HEADS = (
    b"retry-after: 3", b"retry-after: 99999999999999999999999999", b"retry-after: Mon, 30 Nov 2026 12:00:07 GMT",
    b"retry-after: Mon, 99 Nov 99999 99:99:99 +9999", b"retry-after: -1", b"retry-after: \xff\xb2", b"retry-after:",
    b"retry-after: 1 Jan 1 00:00:00 -2359", b"connection: close", b"connection: upgrade", b"content-encoding: gzip",
    b"content-encoding: br", b"content-encoding: deflate", b"transfer-encoding: gzip, chunked", b"content-length: 5",
    b"content-length: -1", b"content-length: 99999999999999999999", b"location: http://192.0.2.1/\xff", b"x" * 3000 + b": y",
    b"content-type: application/json; charset=utf-8", b"content-type: text/event-stream", b" folded", b"upgrade: h2c",
)  # fmt: skip
STATUSES = (b"200 OK", b"200", b"200 OK", b"204 No Content", b"302 F", b"304 N", b"400 B", b"429 T", b"500 I", b"503 S", b"599 X",
            b"101 S", b"103 E", b"000 Z", b"999 Y", b"99999 W")  # fmt: skip
TYPES = (b"text/event-stream", b"text/event-stream; charset=utf-8", b"application/x-ndjson", b"application/json", b"")


Seeds = dict[str, list[bytes]]


class End(StrEnum):
    """What the server does once its bytes are out."""

    CLOSE = "close"
    NEXT = "next"  # it stays for another request, for a moment
    RESET = "reset"
    SILENCE = "silence"


class Served(NamedTuple):
    """One answer as bytes, the places where it is cut, and what follows it."""

    pieces: Sequence[bytes]
    end: End

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


def _chat(**delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _events(*payloads: object) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(payload, ensure_ascii=False).encode() for payload in payloads)


def _lines(*payloads: object) -> bytes:
    return b"".join(json.dumps(payload, ensure_ascii=False).encode() + b"\n" for payload in payloads)


_ENDED = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
_USAGE = {
    "choices": [],
    "usage": {"prompt_tokens": 8, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}},
}
_COUNTS = {"usage": _USAGE["usage"]}
_DONE = b"data: [DONE]\n\n"
_LIST = [{"index": n, "text": f" be{n}", "finish_reason": "length"} for n in (1, 0)]
MADE: Seeds = {
    "openai_chat": [
        _events(_chat(role="assistant"), _chat(content="be\u2028bo"), _chat(content=" \U0001f600"), _ENDED, _USAGE) + _DONE,
        _events(_chat(reasoning_content="hm"), _chat(tool_calls=[{"function": {"name": "f", "arguments": "{}"}}]), _ENDED),
        json.dumps({"choices": [{"index": 0, "message": {"content": "bebo"}, "finish_reason": "stop"}]} | _COUNTS).encode(),
        _events(*[_chat(content=f" be{n}") for n in range(40)], _ENDED, _USAGE) + _DONE,
        _events(*[_chat(content=f" be{n}") for n in range(35)], {"error": {"message": "boom", "code": 500}}) + _DONE,
        b"event: error\ndata: it broke\n\n",
    ],
    "openai_completions": [
        _events({"choices": [{"text": " a", "index": 0, "finish_reason": "length"}]} | _COUNTS) + _DONE,
        json.dumps({"choices": _LIST, "timings": {}} | _COUNTS).encode(),
        json.dumps({"choices": [_LIST[1]]} | _COUNTS).encode(),
    ],
    "openai_embeddings": [
        json.dumps({"data": [{"index": 0, "embedding": [0.5, -1]}, {"index": 1, "embedding": "AACAPwAAAEA="}]}).encode(),
        json.dumps({"data": [{"index": 0, "embedding": [0.5, -1]}]} | _COUNTS).encode(),
    ],
    "ollama_chat": [
        _lines({"message": {"content": "", "thinking": "hm"}}, {"message": {"content": " bebo"}},
               {"message": {"content": ""}, "done": True, "done_reason": "stop", "eval_count": 2, "prompt_eval_count": 8}),
        _lines({"error": "server busy, please try again"}),
    ],
    "llamacpp_completion": [
        _events({"content": " a", "tokens_predicted": 1, "tokens_evaluated": 4},
                {"content": "", "stop": True, "stop_type": "limit", "tokens_predicted": 1, "timings": {"cache_n": 0}}),
    ],
    EVERY: [json.dumps({"error": {"message": "overloaded", "code": "503", "type": ["x"]}}).encode(), b""],
}  # fmt: skip


def bodies() -> Seeds:
    """By dialect the made-up bodies, in the other spellings of a line's end too, and the recorded ones; under EVERY all
    of them, the recorded ones also with their HTTP heads and chunk sizes left in, which are strange streams too."""
    found = {
        dialect: [b.replace(b"\n", end) for b in made for end in (b"\n", b"\r\n", b"\r")]
        for dialect, made in MADE.items()
    }
    for path in sorted(STREAMS.iterdir()):
        raw = path.read_bytes()
        body = body_of(raw)
        dialect = next((name for word, name in RECORDED.items() if word in path.name), "openai_chat")
        found[dialect].append(body)
        found[EVERY] += [raw, body]
    found[EVERY] += [body for dialect in MADE if dialect != EVERY for body in found[dialect]]
    return found


def body_of(raw: bytes) -> bytes:
    """Of a recorded HTTP answer; of a recording without a head all of it."""
    head, found, body = raw.partition(b"\r\n\r\n")
    if not found or b"chunked" not in head.lower():
        return body or raw
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole += body[: int(size or b"0", 16)]
        body = body[int(size or b"0", 16) + 2 :]
    return whole


def mutated(rng: random.Random, seeds: Sequence[bytes], *, times: Sequence[int] = (1, 1, 2, 3, 5, 8, 20)) -> bytes:
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice(times)):
        at = rng.randrange(len(data) + 1)
        until = min(len(data), at + rng.choice((1, 2, 8, 64, 512)))
        match rng.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at:until]
            case 2:
                data[at:at] = rng.choice(SNIPPETS)
            case 3:
                data[at:until] = rng.choice(SNIPPETS)
            case 4:
                data[at:at] = data[at:until] * rng.choice((1, 2, 50))
            case 5:
                other = rng.choice(seeds)
                data[at:] = other[rng.randrange(len(other) + 1) :]
            case _:
                del data[at:]
        del data[MOST_BYTES:]
    return bytes(data)


def pieces(rng: random.Random, data: bytes, *, most: int = MOST_BYTES) -> list[bytes]:
    """The bytes as a network would cut them, into `most` pieces at most."""
    longest = max(rng.choice((1, 3, 40, 1500, 65536)), 2 * -(-len(data) // most))
    found, at = [], 0
    while at < len(data):
        step = rng.randint(max(1, longest // 2), longest)
        found.append(data[at : at + step])
        at += step
    return found


def cut(rng: random.Random, data: bytes) -> list[bytes]:
    """An answer as reads: often an event each, as most streams come, else in any pieces."""
    ends = data.replace(EVENT_END, EVENT_END + b"\0cut\0").split(b"\0cut\0")
    if rng.random() < 0.4 and 1 < len(ends) <= MOST_PIECES:
        return [piece for piece in ends if piece]
    return pieces(rng, data, most=MOST_PIECES)


def served(rng: random.Random, seeds: Sequence[bytes]) -> Served:
    """A whole HTTP answer: a mutated body in a sound frame, an odd head, or bytes that were mutated as they stand."""
    body = mutated(rng, seeds, times=(0, 0, 0, 1, 1, 2, 5))
    data = framed(rng, body)
    if rng.random() < 0.25:
        data = mutated(rng, [data], times=(1, 1, 2, 5))
    if rng.random() < 0.05:
        data = b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + data
    if rng.random() < 0.05:
        data += framed(rng, rng.choice(seeds))  # what nobody asked for
    ends = rng.choices(tuple(End), weights=(70, 20, 9, 1))
    return Served(cut(rng, data), ends[0])


def framed(rng: random.Random, body: bytes) -> bytes:
    odd = rng.random() < 0.25
    lines = [b"HTTP/1.%d %s" % (rng.random() < 0.95, rng.choice(STATUSES) if odd else b"200 OK")]
    fitting = TYPES[3] if body[:1] == b"{" and b"\n" not in body else TYPES[0]
    lines.append(b"Content-Type: " + (fitting if rng.random() < 0.7 else rng.choice(TYPES)))
    if rng.random() < 0.15:
        body, coding = gzip.compress(body, mtime=0), rng.choice((b"gzip", b"x-gzip", b"deflate"))
        lines.append(b"content-encoding: " + coding)
    if odd:
        lines += rng.sample(HEADS, rng.randint(1, 3))
    match rng.randrange(3):
        case 0:
            lines.append(b"content-length: %d" % len(body))
        case 1:
            lines.append(b"Transfer-Encoding: chunked")
            body = chunked(rng, body)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(rng: random.Random, body: bytes) -> bytes:
    found = bytearray()
    by_event = [event + b"\n\n" for event in body.split(b"\n\n") if event]
    for piece in by_event if rng.random() < 0.5 else pieces(rng, body, most=100):
        found += b"%x%s\r\n%s\r\n" % (len(piece), rng.choice((b"", b"", b";a=b")), piece)
    return bytes(found) + b"0\r\n" + rng.choice((b"", b"", b"x-trailer: 1\r\n")) + b"\r\n"
