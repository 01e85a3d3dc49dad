"""Errors as servers tell them: flat, half flat or nested, and whether one means overload."""

from __future__ import annotations

import msgspec

REJECTION_CODES = frozenset({429, 503, 529})
# Seen in bodies and events of TGI, Ollama, HAProxy in front of a runtime, and hosted gateways.
OVERLOAD_WORDS = ("overload", "server busy", "too many requests", "queue is full", "queue full")

# What decoding raises for bytes that are not the JSON expected; the second for nesting without end.
NOT_UNDERSTOOD = (msgspec.DecodeError, RecursionError)


class Failure(msgspec.Struct, frozen=True):
    """An error as a server told it: its status number where it gave one, and its words."""

    code: int | None
    text: str

    @property
    def is_overload(self) -> bool:
        return self.code in REJECTION_CODES or any(word in self.text.lower() for word in OVERLOAD_WORDS)


class ErrorBody(msgspec.Struct, frozen=True):
    """`message`, `code` and `type` come as text, number, list or object, by runtime; only their text is used."""

    message: object = None
    code: object = None
    type: object = None
    http_status_code: object = None


class Errors(msgspec.Struct, frozen=True):
    """The fields of an object that may tell an error. Raises msgspec.DecodeError when it is not an object."""

    error: ErrorBody | str | None = None
    choices: object = None
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


_decoder = msgspec.json.Decoder(Errors)


def failure_in(data: bytes) -> Failure | None:
    """The error that a JSON object carries, None where it carries none. Raises NOT_UNDERSTOOD."""
    return _decoder.decode(data).failure


def failure_of_body(body: bytes) -> Failure:
    """The error of a non-200 body; where it is not JSON, its first 200 characters are the text."""
    try:
        found = _decoder.decode(body)
    except NOT_UNDERSTOOD:
        return Failure(code=None, text=body[:200].decode("utf-8", "replace").strip())
    return found.failure or Failure(code=_number(found.code), text=_words(found.message, found.detail, found.type))


def _number(code: object) -> int | None:
    if isinstance(code, str) and code.isdecimal():
        return int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _words(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part not in (None, ""))[:300]
