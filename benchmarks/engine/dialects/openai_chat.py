"""OpenAI-shaped chat completions, as vLLM, SGLang, llama.cpp, TGI, LMDeploy and gateways speak them.

Runtimes differ in where they put things: reasoning text in `reasoning` or `reasoning_content`, usage on the last chunk,
on each, or never, errors flat or nested. What is decoded here is already in one shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks.engine.answer import Answer
from benchmarks.engine.dialects.base import Ask, Framing, Message
from benchmarks.engine.dialects.openai_shared import StreamOptions, Usage, not_a_chunk, tells_failure
from benchmarks.engine.failures import NOT_UNDERSTOOD, ErrorBody, Failure, failure_in, failure_of_body
from benchmarks.engine.terms import Outcome

NAME = "openai_chat"
PATH = "/v1/chat/completions"
FRAMING = Framing.SSE
STREAMS = True
LISTS = False


class FunctionText(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    function: FunctionText | None = None


class Delta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the answer, or with `message` the whole of it."""

    content: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None

    @property
    def answer(self) -> str:
        """Answer text a user would read."""
        return (self.content or "") + (self.refusal or "")

    @property
    def other(self) -> str:
        """Reasoning or tool-call text: content too, but not the answer."""
        calls = [c.function for c in self.tool_calls or () if c.function is not None]
        tools = "".join((f.name or "") + (f.arguments or "") for f in calls)
        return (self.reasoning or self.reasoning_content or "") + tools


class Choice(msgspec.Struct, frozen=True, gc=False):
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    index: int = 0


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream or one whole body."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: ErrorBody | str | None = None


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is posted. Temperature 0: the same prompt is meant to give the same answer."""

    model: str
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float
    stream: bool
    stream_options: StreamOptions | None = None
    ignore_eos: bool = False


_decode = msgspec.json.Decoder(Chunk).decode
_encode = msgspec.json.Encoder().encode


def body(asks: Sequence[Ask]) -> bytes:
    (ask,) = asks
    return _encode(
        Body(
            model=ask.model,
            messages=ask.messages,
            max_tokens=ask.max_tokens,
            temperature=0.0,
            stream=ask.stream,
            stream_options=StreamOptions() if ask.stream else None,
            ignore_eos=ask.ignore_eos,
        )
    )


def event(answer: Answer, data: bytes, kind: bytes, t_ns: int) -> None:
    try:
        chunk = _decode(data)
    except NOT_UNDERSTOOD as error:
        not_a_chunk(answer, data, kind, t_ns, error)
        return
    choices = chunk.choices
    if choices and not kind and chunk.usage is None and chunk.error is None and len(choices) == 1:
        choice = choices[0]
        delta = choice.delta
        if delta is not None and delta.content and delta.refusal is None and not choice.index:
            # Nearly every event is this one, so it takes the shortest way: Answer.text without a call.
            answer.stamps.append(t_ns)
            answer.texts.append(delta.content)
            if answer.t_answer_ns is None:
                answer.t_answer_ns, answer.has_content = t_ns, True
            if choice.finish_reason:
                answer.finish_reason = choice.finish_reason
            return
    if (choices is None or chunk.error is not None or kind) and tells_failure(answer, data, kind):
        return
    usage = chunk.usage
    if usage is not None:
        answer.count(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    for choice in choices or ():
        if choice.index == 0:
            if choice.delta is not None:
                _take(answer, choice.delta, usage, t_ns)
            if choice.finish_reason:
                answer.finish_reason = choice.finish_reason


def _take(answer: Answer, delta: Delta, usage: Usage | None, t_ns: int) -> None:
    text = delta.content
    if delta.refusal is not None:
        text = delta.answer
    if text:
        answer.text(text, t_ns)
    elif (delta.reasoning_content or delta.reasoning or delta.tool_calls) and delta.other:
        answer.other(t_ns)
    else:
        return  # a role-only chunk is no first token
    if usage is not None and len(answer.stamps) == 1:
        answer.first_chunk_tokens = usage.completion_tokens


def whole(answers: Sequence[Answer], body: bytes, t_ns: int) -> None:
    (answer,) = answers
    try:
        chunk = _decode(body)
        failure = failure_in(body)
    except NOT_UNDERSTOOD as error:
        answer.fail(Outcome.MALFORMED, f"body not understood: {error}")
        return
    if failure is not None:
        answer.server_failed(failure)
        return
    if chunk.usage is not None:
        answer.count(chunk.usage.prompt_tokens, chunk.usage.completion_tokens, chunk.usage.cached_tokens)
    for choice in chunk.choices or ():
        if choice.index == 0 and choice.message is not None:
            answer.has_content = bool(choice.message.answer or choice.message.other)
            answer.texts.append(choice.message.answer)
            if choice.finish_reason:
                answer.finish(choice.finish_reason)
    if answer.finish_reason is not None:
        answer.t_end_ns = t_ns


def failure(body: bytes) -> Failure:
    return failure_of_body(body)
