"""Ollama's own chat API: newline-delimited JSON, the counts on the line that says `done`.

`prompt_eval_count` is missing where the whole prompt was cached, so it may be unknown; errors come as a line with
`error` under HTTP 200. No option is sent that makes Ollama load the model anew (num_ctx and its like).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks.engine.answer import Answer
from benchmarks.engine.dialects.base import Ask, Framing, Message
from benchmarks.engine.failures import NOT_UNDERSTOOD, ErrorBody, Failure, failure_in, failure_of_body
from benchmarks.engine.terms import Outcome

NAME = "ollama_chat"
PATH = "/api/chat"
FRAMING = Framing.NDJSON
STREAMS = True
LISTS = False


class Said(msgspec.Struct, frozen=True, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line of a stream, or the whole answer. A message that is a text is the flat error of something in front."""

    message: Said | str | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: ErrorBody | str | None = None


class Options(msgspec.Struct, frozen=True, kw_only=True):
    num_predict: int
    temperature: float


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """There is no field to go on past the model's own end, so the length is what it is."""

    model: str
    messages: tuple[Message, ...]
    stream: bool
    options: Options


_decode = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder().encode


def body(asks: Sequence[Ask]) -> bytes:
    (ask,) = asks
    options = Options(num_predict=ask.max_tokens, temperature=0.0)
    return _encode(Body(model=ask.model, messages=ask.messages, stream=ask.stream, options=options))


def event(answer: Answer, data: bytes, kind: bytes, t_ns: int) -> None:  # noqa: ARG001
    try:
        line = _decode(data)
        failure = failure_in(data) if not isinstance(line.message, Said) or line.error is not None else None
    except NOT_UNDERSTOOD as error:
        answer.fail(Outcome.MALFORMED, f"line not understood: {error}")
        return
    if failure is not None:
        answer.server_failed(failure)
        return
    said = line.message
    if isinstance(said, Said):
        if said.content:
            answer.text(said.content, t_ns)
        elif said.thinking or said.tool_calls:
            answer.other(t_ns)
    if line.done:
        _end(answer, line)
        answer.done(t_ns)


def whole(answers: Sequence[Answer], body: bytes, t_ns: int) -> None:
    (answer,) = answers
    try:
        line, failure = _decode(body), failure_in(body)
    except NOT_UNDERSTOOD as error:
        answer.fail(Outcome.MALFORMED, f"body not understood: {error}")
        return
    if failure is not None:
        answer.server_failed(failure)
        return
    said = line.message
    if isinstance(said, Said):
        answer.has_content = bool(said.content or said.thinking or said.tool_calls)
        answer.texts.append(said.content or "")
    if line.done:
        _end(answer, line)
        answer.done(t_ns)


def failure(body: bytes) -> Failure:
    return failure_of_body(body)


def _end(answer: Answer, line: Line) -> None:
    answer.count(line.prompt_eval_count, line.eval_count)
    if line.done_reason:
        answer.finish(line.done_reason)
