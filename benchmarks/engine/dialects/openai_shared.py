"""What the OpenAI-shaped dialects have in common: usage, the end marker, the asking for usage, and what is no chunk."""

from __future__ import annotations

import msgspec

from benchmarks.engine.answer import Answer
from benchmarks.engine.failures import NOT_UNDERSTOOD, failure_in, failure_of_body
from benchmarks.engine.terms import Outcome

DONE = b"[DONE]"


class PromptDetails(msgspec.Struct, frozen=True, gc=False):
    cached_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None

    @property
    def cached_tokens(self) -> int | None:
        return None if self.prompt_tokens_details is None else self.prompt_tokens_details.cached_tokens


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = True


def tells_failure(answer: Answer, data: bytes, kind: bytes) -> bool:
    """Whether an event that is JSON is an error by its fields or by the event's name; if so the answer is told."""
    try:
        failure = failure_in(data) or (failure_of_body(data) if kind == b"error" else None)
    except NOT_UNDERSTOOD as error:  # in a field that a chunk has not
        not_a_chunk(answer, data, kind, 0, error)
        return True
    if failure is None:
        return False
    answer.server_failed(failure)
    return True


def not_a_chunk(answer: Answer, data: bytes, kind: bytes, t_ns: int, error: Exception) -> None:
    """An event that no chunk could be made of: the end marker, an error in words, or nothing that is understood."""
    if data.strip() == DONE:
        answer.done(t_ns)
    elif kind == b"error":
        answer.server_failed(failure_of_body(data))
    else:
        answer.fail(Outcome.MALFORMED, f"event not understood: {error}")
