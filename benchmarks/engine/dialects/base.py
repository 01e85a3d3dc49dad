"""What a dialect is: where it posts, what it posts, and how the events of an answer are understood."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from benchmarks.engine.answer import Answer
from benchmarks.engine.failures import Failure


class Message(msgspec.Struct, frozen=True):
    role: str
    content: str


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One item to be asked: a conversation, and the same as one text for dialects without roles."""

    model: str
    messages: tuple[Message, ...]
    text: str
    max_tokens: int
    stream: bool = True
    ignore_eos: bool = False


class Framing(StrEnum):
    """How a streamed answer is cut into events."""

    SSE = "sse"
    NDJSON = "ndjson"


class Dialect(Protocol):
    """Modules of this folder are such objects. `data` is one event's data (SSE) or one line (NDJSON)."""

    @property
    def NAME(self) -> str: ...

    @property
    def PATH(self) -> str:
        """Below the base address, which ends before /v1."""

    @property
    def FRAMING(self) -> Framing: ...

    @property
    def STREAMS(self) -> bool:
        """Whether an answer can come in pieces."""

    @property
    def LISTS(self) -> bool:
        """Whether one request can carry several items: micro-batches go out as one list."""

    def body(self, asks: Sequence[Ask]) -> bytes:
        """The posted body; more than one ask only where LISTS. Lists are never streamed."""

    def event(self, answer: Answer, data: bytes, kind: bytes, t_ns: int) -> None:
        """Takes one event of a streamed answer, received at `t_ns`; `kind` is the SSE event's own name or empty."""

    def whole(self, answers: Sequence[Answer], body: bytes, t_ns: int) -> None:
        """Takes a whole body: item i of the list asked goes to `answers[i]`. A server's count for the whole list goes to
        the only answer, or to none: the first keeps it by `count_of_list`."""

    def failure(self, body: bytes) -> Failure:
        """The error of a body that is not HTTP 200."""
