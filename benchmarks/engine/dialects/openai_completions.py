"""OpenAI-shaped text completions: one prompt streamed, or a list of prompts answered in one body."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks.engine.answer import Answer
from benchmarks.engine.dialects.base import Ask, Framing
from benchmarks.engine.dialects.openai_shared import StreamOptions, Usage, not_a_chunk, tells_failure
from benchmarks.engine.failures import NOT_UNDERSTOOD, ErrorBody, Failure, failure_in, failure_of_body
from benchmarks.engine.terms import Outcome

NAME = "openai_completions"
PATH = "/v1/completions"
FRAMING = Framing.SSE
STREAMS = True
LISTS = True


class Choice(msgspec.Struct, frozen=True, gc=False):
    text: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    finish_reason: str | None = None
    index: int = 0


class Timings(msgspec.Struct, frozen=True, gc=False):
    """Only llama.cpp sends them; what they say is not used."""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream or one whole body."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: ErrorBody | str | None = None
    timings: Timings | None = None


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    model: str
    prompt: str | list[str]
    max_tokens: int
    temperature: float
    stream: bool
    stream_options: StreamOptions | None = None
    ignore_eos: bool = False


_decode = msgspec.json.Decoder(Chunk).decode
_encode = msgspec.json.Encoder().encode


def body(asks: Sequence[Ask]) -> bytes:
    """A list is asked for as many tokens as its longest item: the API has one number for all."""
    first = asks[0]
    stream = first.stream and len(asks) == 1
    return _encode(
        Body(
            model=first.model,
            prompt=first.text if len(asks) == 1 else [ask.text for ask in asks],
            max_tokens=max(ask.max_tokens for ask in asks),
            temperature=0.0,
            stream=stream,
            stream_options=StreamOptions() if stream else None,
            ignore_eos=first.ignore_eos,
        )
    )


def event(answer: Answer, data: bytes, kind: bytes, t_ns: int) -> None:
    try:
        chunk = _decode(data)
    except NOT_UNDERSTOOD as error:
        not_a_chunk(answer, data, kind, t_ns, error)
        return
    if (chunk.choices is None or chunk.error is not None or kind) and tells_failure(answer, data, kind):
        return
    usage = chunk.usage
    if usage is not None:
        answer.count(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    for choice in chunk.choices or ():
        if choice.index != 0:
            continue
        if choice.text:
            answer.text(choice.text, t_ns)
        elif choice.reasoning or choice.reasoning_content:
            answer.other(t_ns)
        if usage is not None and len(answer.stamps) == 1 and answer.first_chunk_tokens is None:
            answer.first_chunk_tokens = usage.completion_tokens
        if choice.finish_reason:
            answer.finish(choice.finish_reason)


def whole(answers: Sequence[Answer], body: bytes, t_ns: int) -> None:
    """Choices find their items by `index`, in whatever order they stand. An index that is missing, doubled or too high
    makes the list malformed: no text could be given to an item with certainty."""
    try:
        chunk, failure = _decode(body), failure_in(body)
    except NOT_UNDERSTOOD as error:
        _fail_all(answers, f"body not understood: {error}")
        return
    if failure is not None:
        for answer in answers:
            answer.server_failed(failure)
        return
    choices = sorted(chunk.choices or (), key=lambda choice: choice.index)
    if [choice.index for choice in choices] != list(range(len(answers))):
        found = ", ".join(str(choice.index) for choice in choices) or "none"
        _fail_all(answers, f"{len(answers)} choices expected, found with index: {found}")
        return
    _count(answers, chunk)
    for answer, choice in zip(answers, choices, strict=True):
        if choice.text:
            answer.texts.append(choice.text)
        answer.has_content = bool(choice.text or choice.reasoning or choice.reasoning_content)
        if choice.finish_reason:
            answer.finish(choice.finish_reason)
            answer.t_end_ns = t_ns


def failure(body: bytes) -> Failure:
    return failure_of_body(body)


def _count(answers: Sequence[Answer], chunk: Chunk) -> None:
    """vLLM and SGLang count the whole list. llama.cpp, known by its `timings`, counts the first item alone (seen on
    b11549), so of the others nothing is known."""
    usage = chunk.usage
    if usage is None:
        return
    if len(answers) == 1 or chunk.timings is not None:
        answers[0].count(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    else:
        answers[0].count_of_list(usage.prompt_tokens, usage.completion_tokens)


def _fail_all(answers: Sequence[Answer], detail: str) -> None:
    for answer in answers:
        answer.fail(Outcome.MALFORMED, detail)
