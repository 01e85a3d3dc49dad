"""A request's body as typed facts, or the refusal that a runtime would answer with."""

from __future__ import annotations

import random
import re
import zlib
from enum import StrEnum
from typing import Annotated

import msgspec

from benchmarks.runtimes.vocabulary import WORDS

TEMPLATE_OVERHEAD_TOKENS = 0  # a real chat template adds some (19 in the tiny model); here words are tokens, exactly
DEFAULT_OUTPUT_TOKENS = 128
_EXACT = re.compile(r"^Answer exactly:[ \t]*(\S.*)$", re.MULTILINE)


class Api(StrEnum):
    """What is spoken, by path: three of OpenAI's shapes, Ollama's chat and llama.cpp's own completion."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    EMBEDDINGS = "/v1/embeddings"
    OLLAMA = "/api/chat"
    LLAMACPP = "/completion"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is an error. `retry_after_s` becomes the Retry-After header."""

    status: int
    message: str
    type: str
    retry_after_s: int | None = None
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None

    def body(self, api: Api = Api.CHAT) -> bytes:
        """Nested as most runtimes have it; Ollama tells a text."""
        return msgspec.json.encode({"error": self.message if api is Api.OLLAMA else self._error()})

    def _error(self) -> dict[str, str | int]:
        error: dict[str, str | int] = {"message": self.message, "type": self.type, "code": self.status}
        if self.n_prompt_tokens is not None:
            error["n_prompt_tokens"] = self.n_prompt_tokens
        if self.n_ctx is not None:
            error["n_ctx"] = self.n_ctx
        return error


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt and what will be answered, one token each word; an embedding has no words. `finish_reason`: stop where
    the answer ended by itself."""

    prompt: str
    prompt_tokens: int
    words: tuple[str, ...]
    finish_reason: str


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Several items only where a list was asked for, and then not as a stream."""

    api: Api
    items: tuple[Item, ...]
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    base64: bool = False

    @property
    def prompt_tokens(self) -> int:
        return sum(item.prompt_tokens for item in self.items)

    @property
    def output_tokens(self) -> int:
        return sum(len(item.words) for item in self.items)


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False
    continuous_usage_stats: bool = False


# Far beyond every profile's context, and still made in a moment: what is asked is made before its length is judged.
MOST_OUTPUT_TOKENS = 100_000
_AtMost = Annotated[int, msgspec.Meta(le=MOST_OUTPUT_TOKENS)]
_Length = Annotated[int, msgspec.Meta(ge=1, le=MOST_OUTPUT_TOKENS)]
_Prompts = str | Annotated[list[str], msgspec.Meta(min_length=1)]


class _Body(msgspec.Struct):
    model: str = ""
    messages: list[_Message] | None = None
    prompt: _Prompts | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None
    max_tokens: _Length | None = None
    max_completion_tokens: _Length | None = None
    n: int | None = None


class _Embed(msgspec.Struct):
    input: _Prompts
    model: str = ""
    encoding_format: str = "float"


class _OllamaOptions(msgspec.Struct):
    num_predict: _AtMost | None = None


class _Ollama(msgspec.Struct):
    """Ollama streams where it is not told otherwise."""

    model: str
    messages: list[_Message]
    stream: bool = True
    options: _OllamaOptions = msgspec.field(default_factory=_OllamaOptions)


class _LlamaCpp(msgspec.Struct):
    prompt: str
    n_predict: _AtMost | None = None
    stream: bool = False


def read_ask(body: bytes, *, api: Api, model: str, seed: int) -> Ask | Refusal:
    """What is asked; a refusal in vLLM's manner when the body is wrong or names another model."""
    try:
        match api:
            case Api.OLLAMA:
                return _ollama(msgspec.json.decode(body, type=_Ollama), model, seed)
            case Api.LLAMACPP:
                asked = msgspec.json.decode(body, type=_LlamaCpp)
                return Ask(api=api, items=(_item(asked.prompt, _limit(asked.n_predict), seed),), stream=asked.stream)
            case Api.EMBEDDINGS:
                return _embed(msgspec.json.decode(body, type=_Embed), model)
            case _:
                return _openai(msgspec.json.decode(body, type=_Body), api, model, seed)
    except (msgspec.MsgspecError, RecursionError) as error:
        return _wrong(str(error))


def _openai(asked: _Body, api: Api, model: str, seed: int) -> Ask | Refusal:
    if asked.model not in ("", model):
        return _unknown(asked.model)
    if asked.n not in (None, 1):
        return _wrong("Only n = 1 is served.")
    chat = api is Api.CHAT
    found = (_conversation(asked.messages) if asked.messages else None) if chat else asked.prompt
    if found is None:
        return _wrong(f"{'messages' if chat else 'prompt'} is required")
    prompts = [found] if isinstance(found, str) else found
    if len(prompts) > 1 and asked.stream:
        return _wrong("A list of prompts is not streamed here.")
    limit = asked.max_completion_tokens or asked.max_tokens
    options = asked.stream_options or _StreamOptions()
    return Ask(
        api=api,
        items=tuple(_item(prompt, limit, seed) for prompt in prompts),
        stream=asked.stream,
        include_usage=options.include_usage,
        continuous_usage=options.include_usage and options.continuous_usage_stats,
    )


def _embed(asked: _Embed, model: str) -> Ask | Refusal:
    if asked.model not in ("", model):
        return _unknown(asked.model)
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    items = [Item(prompt=text, prompt_tokens=_tokens(text), words=(), finish_reason="") for text in texts]
    return Ask(api=Api.EMBEDDINGS, items=tuple(items), base64=asked.encoding_format == "base64")


def _ollama(asked: _Ollama, model: str, seed: int) -> Ask | Refusal:
    if asked.model != model:
        return Refusal(status=404, message=f"model '{asked.model}' not found", type="NotFoundError")
    item = _item(_conversation(asked.messages), _limit(asked.options.num_predict), seed)
    return Ask(api=Api.OLLAMA, items=(item,), stream=asked.stream)


def _item(prompt: str, limit: int | None, seed: int) -> Item:
    words, finish_reason = _answer(prompt, limit, seed)
    return Item(prompt=prompt, prompt_tokens=_tokens(prompt), words=words, finish_reason=finish_reason)


def _limit(asked: int | None) -> int | None:
    """Ollama and llama.cpp take a number below zero as no limit."""
    return asked if asked is not None and asked > 0 else None


def _tokens(prompt: str) -> int:
    return len(prompt.split()) + TEMPLATE_OVERHEAD_TOKENS


def _conversation(messages: list[_Message]) -> str:
    texts = []
    for message in messages:
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


def _wrong(message: str) -> Refusal:
    return Refusal(status=400, message=message, type="BadRequestError")


def _unknown(model: str) -> Refusal:
    return Refusal(status=404, message=f"The model `{model}` does not exist.", type="NotFoundError")
