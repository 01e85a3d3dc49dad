"""The words of OpenAI-shaped chat answers, typed: chunks of a stream, whole bodies, and errors in every known spelling.

Runtimes differ in where they put things (`facts` in docs/runtimes): reasoning text in `reasoning` or
`reasoning_content`, usage on the last chunk, on each, or never, errors flat or nested. What is decoded here is already
in one shape.
"""

from __future__ import annotations

import msgspec

REJECTION_CODES = frozenset({429, 503, 529})
# Seen in bodies and events of TGI, Ollama, HAProxy in front of a runtime, and hosted gateways.
OVERLOAD_WORDS = ("overload", "server busy", "too many requests", "queue is full", "queue full")


class FunctionText(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct, frozen=True):
    function: FunctionText | None = None


class Delta(msgspec.Struct, frozen=True):
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


class Choice(msgspec.Struct, frozen=True):
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    index: int = 0


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    """`message`, `code` and `type` come as text, number, list or object, by runtime; only their text is used."""

    message: object = None
    code: object = None
    type: object = None
    http_status_code: object = None


class Chunk(msgspec.Struct, frozen=True):
    """One event of a stream or one whole body. Raises msgspec.DecodeError when it is not such an object."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: ErrorBody | str | None = None
    error_type: object = None
    kind: object = msgspec.field(default=None, name="object")
    message: object = None
    code: object = None
    type: object = None
    detail: object = None

    @property
    def failure(self) -> Failure | None:
        """The error it carries, nested (`error` an object), half flat (`error` a text) or flat (`object: error`)."""
        if isinstance(self.error, ErrorBody):
            code = self.error.code if self.error.code is not None else self.error.http_status_code
            return Failure(code=_number(code), text=_words(self.error.message, self.error.type, self.error.code))
        if self.error:
            return Failure(code=_number(self.code), text=_words(self.error, self.error_type))
        if self.choices is None and (self.kind == "error" or (self.message is not None and self.code is not None)):
            return Failure(code=_number(self.code), text=_words(self.message, self.type))
        return None


class Failure(msgspec.Struct, frozen=True):
    """An error as a server told it: its status number where it gave one, and its words."""

    code: int | None
    text: str

    @property
    def is_overload(self) -> bool:
        return self.code in REJECTION_CODES or any(word in self.text.lower() for word in OVERLOAD_WORDS)


_decoder = msgspec.json.Decoder(Chunk)


def decode(data: bytes) -> Chunk:
    """Raises msgspec.DecodeError (ValidationError is one) on anything but such an object in UTF-8."""
    return _decoder.decode(data)


def failure_of_body(body: bytes) -> Failure:
    """The error of a non-200 body; where it is not JSON, its first 200 characters are the text."""
    try:
        found = decode(body)
    except msgspec.DecodeError:
        return Failure(code=None, text=body[:200].decode("utf-8", "replace").strip())
    if found.failure is not None:
        return found.failure
    return Failure(code=_number(found.code), text=_words(found.message, found.detail, found.type))


def _number(code: object) -> int | None:
    if isinstance(code, str) and code.isdecimal():
        return int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _words(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part not in (None, ""))[:300]
