"""llama.cpp's own /completion: events with `content` and running counts, the last one with `stop` and `timings`.

`stop_type` says how the text ended: eos or word is the model's own end (stop), limit the asked length (length).
`tokens_evaluated` counts the whole prompt, cached part included. There is no [DONE]: `stop` is the end marker.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks.engine.answer import Answer
from benchmarks.engine.dialects.base import Ask, Framing
from benchmarks.engine.dialects.openai_shared import not_a_chunk, tells_failure
from benchmarks.engine.failures import NOT_UNDERSTOOD, ErrorBody, Failure, failure_in, failure_of_body
from benchmarks.engine.terms import Outcome

NAME = "llamacpp_completion"
PATH = "/completion"
FRAMING = Framing.SSE
STREAMS = True
LISTS = False
REASONS = {"eos": "stop", "word": "stop", "limit": "length"}


class Timings(msgspec.Struct, frozen=True, gc=False):
    cache_n: int | None = None


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream or one whole body. Progress of the prompt comes as a chunk with empty content."""

    content: str | None = None
    stop: bool = False
    stop_type: str | None = None
    tokens_predicted: int | None = None
    tokens_evaluated: int | None = None
    timings: Timings | None = None
    error: ErrorBody | str | None = None

    @property
    def finish_reason(self) -> str:
        return REASONS.get(self.stop_type or "", f"stop_type {self.stop_type}")

    @property
    def cached_tokens(self) -> int | None:
        return None if self.timings is None else self.timings.cache_n


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model is the server's one; `cache_prompt` stays as its operator set it."""

    prompt: str
    n_predict: int
    temperature: float
    stream: bool
    ignore_eos: bool = False


_decode = msgspec.json.Decoder(Chunk).decode
_encode = msgspec.json.Encoder().encode


def body(asks: Sequence[Ask]) -> bytes:
    (ask,) = asks
    return _encode(
        Body(prompt=ask.text, n_predict=ask.max_tokens, temperature=0.0, stream=ask.stream, ignore_eos=ask.ignore_eos)
    )


def event(answer: Answer, data: bytes, kind: bytes, t_ns: int) -> None:
    try:
        chunk = _decode(data)
    except NOT_UNDERSTOOD as error:
        not_a_chunk(answer, data, kind, t_ns, error)
        return
    if (chunk.content is None or chunk.error is not None or kind) and tells_failure(answer, data, kind):
        return
    answer.count(chunk.tokens_evaluated, chunk.tokens_predicted, chunk.cached_tokens)
    if chunk.content:
        answer.text(chunk.content, t_ns)
        if answer.first_chunk_tokens is None:
            answer.first_chunk_tokens = chunk.tokens_predicted
    if chunk.stop:
        answer.finish(chunk.finish_reason)
        answer.done(t_ns)


def whole(answers: Sequence[Answer], body: bytes, t_ns: int) -> None:
    (answer,) = answers
    try:
        chunk, failure = _decode(body), failure_in(body)
    except NOT_UNDERSTOOD as error:
        answer.fail(Outcome.MALFORMED, f"body not understood: {error}")
        return
    if failure is not None:
        answer.server_failed(failure)
        return
    answer.count(chunk.tokens_evaluated, chunk.tokens_predicted, chunk.cached_tokens)
    answer.has_content = bool(chunk.content)
    answer.texts.append(chunk.content or "")
    if chunk.stop:
        answer.finish(chunk.finish_reason)
        answer.done(t_ns)


def failure(body: bytes) -> Failure:
    return failure_of_body(body)
