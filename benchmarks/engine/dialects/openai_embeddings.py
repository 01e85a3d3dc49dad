"""OpenAI-shaped embeddings: a list of texts, a vector for each. An answer is ok when the right number of vectors came,
all of one dimension and every value finite; there is no finish_reason, and none is made up."""

from __future__ import annotations

import binascii
import math
import sys
from array import array
from collections.abc import Sequence

import msgspec

from benchmarks.engine.answer import Answer
from benchmarks.engine.dialects.base import Ask, Framing
from benchmarks.engine.dialects.openai_shared import Usage
from benchmarks.engine.failures import NOT_UNDERSTOOD, ErrorBody, Failure, failure_in, failure_of_body
from benchmarks.engine.terms import Outcome

NAME = "openai_embeddings"
PATH = "/v1/embeddings"
FRAMING = Framing.SSE
STREAMS = False
LISTS = True


class Embedding(msgspec.Struct, frozen=True, gc=False):
    """Numbers, or base64 of little-endian float32. A null among the numbers is how some servers write a NaN."""

    embedding: list[float | None] | str
    index: int = 0


class Vectors(msgspec.Struct, frozen=True, gc=False):
    data: list[Embedding] | None = None
    usage: Usage | None = None
    error: ErrorBody | str | None = None


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The encoding is left to the server; either is understood."""

    model: str
    input: str | list[str]


_decode = msgspec.json.Decoder(Vectors).decode
_encode = msgspec.json.Encoder().encode


def body(asks: Sequence[Ask]) -> bytes:
    return _encode(Body(model=asks[0].model, input=asks[0].text if len(asks) == 1 else [ask.text for ask in asks]))


def event(answer: Answer, data: bytes, kind: bytes, t_ns: int) -> None:  # noqa: ARG001
    answer.fail(Outcome.MALFORMED, "a stream came where one body with embeddings was asked for")


def whole(answers: Sequence[Answer], body: bytes, t_ns: int) -> None:
    """Vectors find their items by `index`. A list that lacks one or mixes dimensions helps none of its items; a vector
    that is wrong in itself fails its own."""
    try:
        found, failure = _decode(body), failure_in(body)
    except NOT_UNDERSTOOD as error:
        _fail_all(answers, f"body not understood: {error}")
        return
    if failure is not None:
        for answer in answers:
            answer.server_failed(failure)
        return
    data = sorted(found.data or (), key=lambda one: one.index)
    if [one.index for one in data] != list(range(len(answers))):
        indexes = ", ".join(str(one.index) for one in data) or "none"
        _fail_all(answers, f"{len(answers)} embeddings expected, found with index: {indexes}")
        return
    usage = found.usage
    if usage is not None and len(answers) == 1:
        answers[0].count(usage.prompt_tokens, None, usage.cached_tokens)
    elif usage is not None:
        answers[0].count_of_list(usage.prompt_tokens, None)
    judged = [_judge(answer, one) for answer, one in zip(answers, data, strict=True)]
    dimensions = {dimension for dimension in judged if dimension is not None}
    if len(dimensions) > 1:
        _fail_all(answers, f"embeddings of different dimensions: {', '.join(map(str, dimensions))}")
    for answer in answers:
        if answer.failed is None:
            answer.complete(t_ns, dimension=max(dimensions))


def failure(body: bytes) -> Failure:
    return failure_of_body(body)


def _judge(answer: Answer, one: Embedding) -> int | None:
    """The vector's dimension; None where it is not one, and then the answer has failed."""
    try:
        values = _decoded(one.embedding) if isinstance(one.embedding, str) else one.embedding
    except ValueError as error:
        answer.fail(Outcome.MALFORMED, f"no base64 of 32-bit floats: {error}")
        return None
    if not values:
        answer.fail(Outcome.EMPTY, "an embedding without a value")
        return None
    if not _all_finite(values):
        answer.fail(Outcome.MALFORMED, "an embedding with a value that is not finite")
        return None
    return len(values)


def _decoded(text: str) -> array[float]:
    """Raises ValueError (binascii.Error is one)."""
    values = array("f", binascii.a2b_base64(text, strict_mode=True))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _all_finite(values: Sequence[float | None]) -> bool:
    """A sum of finite values is finite, short of an overflow: then each is looked at."""
    if not isinstance(values, array) and None in values:
        return False
    numbers = [value for value in values if value is not None] if not isinstance(values, array) else values
    return math.isfinite(sum(numbers)) or all(map(math.isfinite, numbers))


def _fail_all(answers: Sequence[Answer], detail: str) -> None:
    for answer in answers:
        answer.fail(Outcome.MALFORMED, detail)
