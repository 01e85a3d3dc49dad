"""One answer in each dialect's own spelling, so that a claim can be held against all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from tests.benchmarks.engine.scripted import DONE, LAST_CHUNK, SSE_HEAD, Step, delta, event, finish, piece, usage

NDJSON_HEAD = SSE_HEAD.replace(b"text/event-stream", b"application/x-ndjson")


def line(payload: object) -> bytes:
    return json.dumps(payload, ensure_ascii=False).encode() + b"\n"


def text_choice(text: str = "", reason: str | None = None, **fields: object) -> bytes:
    return event({"choices": [{"index": 0, "text": text, "finish_reason": reason, **fields}]})


class Spelling(NamedTuple):
    """How one dialect says these things in a stream: `opening` is what may come before any text, `thought` text that is
    not the answer (None where the dialect has none), `boom` an error under HTTP 200, `busy` one that means overload,
    `ending` a good end with a count of five tokens."""

    dialect: str
    head: bytes
    opening: bytes
    text: bytes
    thought: bytes | None
    boom: bytes
    busy: bytes
    ending: bytes


BOOM = {"error": {"message": "boom", "type": "server_error", "code": 500}}
BUSY = {"error": {"message": "The request queue is full.", "type": "x", "code": 503}}
SPELLINGS = {
    spelling.dialect: spelling
    for spelling in (
        Spelling(
            "openai_chat", SSE_HEAD, delta(role="assistant", content=""), delta(content="bebo"),
            delta(reasoning_content="hm"), event(BOOM), event(BUSY), finish() + usage(8, 5) + DONE,
        ),
        Spelling(
            "openai_completions", SSE_HEAD, text_choice(""), text_choice("bebo"), text_choice(reasoning="hm"),
            event(BOOM), event(BUSY), text_choice("", "stop") + usage(8, 5) + DONE,
        ),
        Spelling(
            "ollama_chat", NDJSON_HEAD, line({"message": {"role": "assistant", "content": ""}}),
            line({"message": {"content": "bebo"}}), line({"message": {"content": "", "thinking": "hm"}}),
            line({"error": "boom"}), line({"error": "server busy, please try again"}),
            line({"message": {"content": ""}, "done": True, "done_reason": "stop", "prompt_eval_count": 8, "eval_count": 5}),
        ),
        Spelling(
            "llamacpp_completion", SSE_HEAD, event({"content": "", "prompt_progress": {"total": 8, "processed": 4}}),
            event({"content": "bebo", "tokens_predicted": 1, "tokens_evaluated": 8}), None, event(BOOM), event(BUSY),
            event({"content": "", "stop": True, "stop_type": "limit", "tokens_predicted": 5, "tokens_evaluated": 8}),
        ),
    )
}  # fmt: skip


def chunks(spelling: Spelling, *events: bytes, between: Sequence[Step] = ()) -> list[Step]:
    """A whole answer, an HTTP chunk for each event, with `between` after each."""
    steps: list[Step] = [spelling.head]
    for one in events:
        steps += [piece(one), *between]
    return [*steps, LAST_CHUNK]
