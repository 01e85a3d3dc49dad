"""The bytes of answers, one shape per API. What does not change from token to token is built once per answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from benchmarks.simulator import vectors
from benchmarks.simulator.asks import Api, Ask, Refusal

DONE = b"data: [DONE]\n\n"
SSE = "text/event-stream; charset=utf-8"
JSON = "application/json"
NDJSON = "application/x-ndjson"
Ended = tuple[str, str]  # an item's text and its finish_reason
_encode = msgspec.json.Encoder().encode


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer's envelope says of its server and request."""

    id: str
    model: str
    cached_tokens: int | None
    seed: int


class Shape(Protocol):
    """`text` carries its own blank in front; counts are of the whole answer so far."""

    @property
    def stream_type(self) -> str: ...

    def opening(self) -> bytes:
        """Before any work is done: the role, where the API sends one."""

    def token(self, text: str, finish_reason: str | None, output_tokens: int, *, reasoning: bool = False) -> bytes:
        """One or more tokens as an event; with a finish_reason the last of them."""

    def closing(self, finish_reason: str, output_tokens: int) -> Sequence[bytes]:
        """After the last token: counts and the end marker."""

    def garbage(self) -> bytes:
        """An event that cannot be parsed."""

    def failure(self, refusal: Refusal) -> Sequence[bytes]:
        """An error under HTTP 200, in mid-stream."""

    def whole(self, ended: Sequence[Ended], order: Sequence[int]) -> bytes:
        """The answer as one body; `order` says which of several items stand in it, and how. Without one it is empty."""


def shape_of(ask: Ask, fact: Fact) -> Shape:
    match ask.api:
        case Api.OLLAMA:
            return OllamaShape(ask, fact)
        case Api.LLAMACPP:
            return LlamaCppShape(ask, fact)
        case _:
            return OpenAiShape(ask, fact)


class OpenAiShape:
    """Chat, completions and embeddings as vLLM sends them."""

    stream_type = SSE

    def __init__(self, ask: Ask, fact: Fact) -> None:
        self._ask, self._fact = ask, fact
        self._chat = ask.api is Api.CHAT
        kind = "chat.completion" if self._chat else "text_completion"
        self._envelope: dict[str, object] = {
            "id": fact.id,
            "object": f"{kind}.chunk" if self._chat and ask.stream else kind,
            "created": int(time.time()),
            "model": fact.model,
        }
        self._head = b"data: " + _encode(self._envelope)[:-1] + b',"choices":'
        self._text = self._head + (b'[{"index":0,"delta":{"content":' if self._chat else b'[{"index":0,"text":')
        reasoning = b'[{"index":0,"delta":{"reasoning_content":' if self._chat else b'[{"index":0,"reasoning_content":'
        self._reasoning = self._head + reasoning
        self._after_text = b'},"finish_reason":' if self._chat else b',"finish_reason":'

    def opening(self) -> bytes:
        role = b'[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]'
        return self._event(role, 0) if self._chat else b""

    def token(self, text: str, finish_reason: str | None, output_tokens: int, *, reasoning: bool = False) -> bytes:
        before = self._reasoning if reasoning else self._text
        after = b"null}]" if finish_reason is None else b'"%s"}]' % finish_reason.encode()
        usage = self._with_usage(output_tokens) if self._ask.continuous_usage else b""
        return b"%s%s%s%s%s}\n\n" % (before, _encode(text), self._after_text, after, usage)

    def closing(self, finish_reason: str, output_tokens: int) -> Sequence[bytes]:  # noqa: ARG002
        if not self._ask.include_usage:
            return (DONE,)
        return b"%s[]%s}\n\n" % (self._head, self._with_usage(output_tokens)), DONE

    def garbage(self) -> bytes:
        return b'data: {"choices": [{"delta": {"content"\n\n'

    def failure(self, refusal: Refusal) -> Sequence[bytes]:
        return b"data: " + refusal.body() + b"\n\n", DONE

    def whole(self, ended: Sequence[Ended], order: Sequence[int]) -> bytes:
        choices = []
        for index in order:
            text, reason = ended[index]
            part = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
            choices.append({"index": index, **part, "finish_reason": reason})
        tokens = sum(len(text.split()) for text, _ in ended)
        return _encode({**self._envelope, "choices": choices, "usage": self._usage(tokens)})

    def vectors(self, order: Sequence[int]) -> list[dict[str, object]]:
        """One per item of `order`; the same text has the same vector."""
        found: list[dict[str, object]] = []
        for index in order:
            values = vectors.vector(self._ask.items[index].prompt, self._fact.seed)
            packed = vectors.as_base64(values) if self._ask.base64 else list(values)
            found.append({"object": "embedding", "index": index, "embedding": packed})
        return found

    def embeddings(self, data: list[dict[str, object]]) -> bytes:
        tokens = self._ask.prompt_tokens
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _encode({"object": "list", "model": self._fact.model, "data": data, "usage": usage})

    def _event(self, choices: bytes, output_tokens: int) -> bytes:
        usage = self._with_usage(output_tokens) if self._ask.continuous_usage else b""
        return b"%s%s%s}\n\n" % (self._head, choices, usage)

    def _with_usage(self, output_tokens: int) -> bytes:
        return b',"usage":' + _encode(self._usage(output_tokens))

    def _usage(self, output_tokens: int) -> dict[str, object]:
        prompt_tokens = self._ask.prompt_tokens
        usage: dict[str, object] = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": prompt_tokens + output_tokens,
        }
        if self._fact.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self._fact.cached_tokens}
        return usage


class OllamaShape:
    """Ollama's lines: a message each, the counts on the line that says done. An error is a line, and then the end."""

    stream_type = NDJSON

    def __init__(self, ask: Ask, fact: Fact) -> None:
        self._ask, self._fact = ask, fact
        self._began_ns = time.monotonic_ns()
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._envelope = {"model": fact.model, "created_at": created}
        self._head = _encode(self._envelope)[:-1] + b',"message":{"role":"assistant",'

    def opening(self) -> bytes:
        return b""

    def token(self, text: str, finish_reason: str | None, output_tokens: int, *, reasoning: bool = False) -> bytes:  # noqa: ARG002
        said = b'"content":"","thinking":' if reasoning else b'"content":'
        return b'%s%s%s},"done":false}\n' % (self._head, said, _encode(text))

    def closing(self, finish_reason: str, output_tokens: int) -> Sequence[bytes]:
        return (self._last("", finish_reason, output_tokens) + b"\n",)

    def garbage(self) -> bytes:
        return b'{"message": {"content"\n'

    def failure(self, refusal: Refusal) -> Sequence[bytes]:
        return (refusal.body(Api.OLLAMA) + b"\n",)

    def whole(self, ended: Sequence[Ended], order: Sequence[int]) -> bytes:
        text, reason = ended[0] if order else ("", "stop")
        return self._last(text, reason, len(text.split()))

    def _last(self, text: str, finish_reason: str, output_tokens: int) -> bytes:
        """`prompt_eval_count` is left out where the whole prompt was cached."""
        prompt_tokens = self._ask.prompt_tokens
        counts = {"eval_count": output_tokens, "total_duration": time.monotonic_ns() - self._began_ns}
        if self._fact.cached_tokens is None or self._fact.cached_tokens < prompt_tokens - 1:
            counts["prompt_eval_count"] = prompt_tokens
        message = {"role": "assistant", "content": text}
        return _encode({**self._envelope, "message": message, "done": True, "done_reason": finish_reason, **counts})


class LlamaCppShape:
    """llama.cpp's own /completion: running counts on each event, `timings` on the last, no end marker beside `stop`."""

    stream_type = "text/event-stream"

    def __init__(self, ask: Ask, fact: Fact) -> None:
        self._ask, self._fact = ask, fact

    def opening(self) -> bytes:
        return b""

    def token(self, text: str, finish_reason: str | None, output_tokens: int, *, reasoning: bool = False) -> bytes:  # noqa: ARG002
        counts = (output_tokens, self._ask.prompt_tokens)
        ending = b',"tokens":[],"stop":false,"id_slot":0,"tokens_predicted":%d,"tokens_evaluated":%d}\n\n' % counts
        return b'data: {"index":0,"content":' + _encode(text) + ending

    def closing(self, finish_reason: str, output_tokens: int) -> Sequence[bytes]:
        return (b"data: " + self._last("", finish_reason, output_tokens) + b"\n\n",)

    def garbage(self) -> bytes:
        return b'data: {"content"\n\n'

    def failure(self, refusal: Refusal) -> Sequence[bytes]:
        return (b"data: " + refusal.body() + b"\n\n",)

    def whole(self, ended: Sequence[Ended], order: Sequence[int]) -> bytes:
        text, reason = ended[0] if order else ("", "stop")
        return self._last(text, reason, len(text.split()))

    def _last(self, text: str, finish_reason: str, output_tokens: int) -> bytes:
        cached = self._fact.cached_tokens or 0
        return _encode(
            {
                "index": 0,
                "content": text,
                "stop": True,
                "model": self._fact.model,
                "tokens_predicted": output_tokens,
                "tokens_evaluated": self._ask.prompt_tokens,
                "stop_type": "limit" if finish_reason == "length" else "eos",
                "truncated": False,
                "timings": {
                    "cache_n": cached,
                    "prompt_n": self._ask.prompt_tokens - cached,
                    "predicted_n": output_tokens,
                },
            }
        )
