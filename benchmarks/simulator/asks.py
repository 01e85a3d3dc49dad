"""A request's body as typed facts, or the refusal that a runtime would answer with."""

from __future__ import annotations

import random
import re
import zlib
from typing import Annotated

import msgspec

from benchmarks.runtimes.vocabulary import WORDS

TEMPLATE_OVERHEAD_TOKENS = 0  # a real chat template adds some (19 in the tiny model); here words are tokens, exactly
DEFAULT_OUTPUT_TOKENS = 128
_EXACT = re.compile(r"^Answer exactly:[ \t]*(\S.*)$", re.MULTILINE)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is an error. `retry_after_s` becomes the Retry-After header."""

    status: int
    message: str
    type: str
    retry_after_s: int | None = None
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None

    def body(self) -> bytes:
        return msgspec.json.encode({"error": self._error()})

    def event(self) -> bytes:
        """As an event of a stream that has begun with HTTP 200."""
        return b"data: " + self.body() + b"\n\n"

    def _error(self) -> dict[str, str | int]:
        error: dict[str, str | int] = {"message": self.message, "type": self.type, "code": self.status}
        if self.n_prompt_tokens is not None:
            error["n_prompt_tokens"] = self.n_prompt_tokens
        if self.n_ctx is not None:
            error["n_ctx"] = self.n_ctx
        return error


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """`words`: what will be answered, one token each. `finish_reason`: stop where the answer ended by itself."""

    chat: bool
    stream: bool
    include_usage: bool
    prompt_tokens: int
    words: tuple[str, ...]
    finish_reason: str


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


_Length = Annotated[int, msgspec.Meta(ge=1)]


class _Body(msgspec.Struct):
    model: str = ""
    messages: list[_Message] | None = None
    prompt: str | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None
    max_tokens: _Length | None = None
    max_completion_tokens: _Length | None = None
    n: int | None = None


_decoder = msgspec.json.Decoder(_Body)


def read_ask(body: bytes, *, chat: bool, model: str, seed: int) -> Ask | Refusal:
    """What is asked; a refusal in vLLM's manner when the body is wrong or names another model."""
    try:
        asked = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        return Refusal(status=400, message=str(error), type="BadRequestError")
    if asked.model not in ("", model):
        return Refusal(status=404, message=f"The model `{asked.model}` does not exist.", type="NotFoundError")
    if asked.n not in (None, 1):
        return Refusal(status=400, message="Only n = 1 is served.", type="BadRequestError")
    prompt = _prompt(asked) if chat else asked.prompt
    if prompt is None:
        return Refusal(status=400, message=f"{'messages' if chat else 'prompt'} is required", type="BadRequestError")
    words, finish_reason = _answer(prompt, asked.max_completion_tokens or asked.max_tokens, seed)
    options = asked.stream_options
    return Ask(
        chat=chat,
        stream=asked.stream,
        include_usage=options is not None and options.include_usage,
        prompt_tokens=len(prompt.split()) + TEMPLATE_OVERHEAD_TOKENS,
        words=words,
        finish_reason=finish_reason,
    )


def _prompt(asked: _Body) -> str | None:
    if not asked.messages:
        return None
    texts = []
    for message in asked.messages:
        parts = message.content if isinstance(message.content, list) else [_Part("text", message.content or "")]
        texts += [part.text for part in parts]
    return "\n".join(texts)


def _answer(prompt: str, limit: int | None, seed: int) -> tuple[tuple[str, ...], str]:
    """The words that the prompt prescribes, else as many made-up words as asked: the same for the same prompt."""
    exact = _EXACT.findall(prompt)
    if exact:
        words = tuple(exact[-1].split())
        cut = words[:limit] if limit is not None else words
        return cut, "stop" if len(cut) == len(words) else "length"
    dice = random.Random(zlib.crc32(prompt.encode()) ^ seed)
    return tuple(dice.choices(WORDS, k=limit or DEFAULT_OUTPUT_TOKENS)), "length"
