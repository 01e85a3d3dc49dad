"""From the events of one answer to its single outcome. Knows no socket and reads no clock: every time is an argument.

The rule is docs/measuring: ok needs HTTP 200, content, a finish_reason that says how the text ended, no error event,
and every event parsed. `[DONE]` alone is not success: several runtimes send it after an error.
"""

from __future__ import annotations

import msgspec

from benchmarks.engine import openai_chat
from benchmarks.engine.openai_chat import Chunk, Failure
from benchmarks.engine.sse import Event
from benchmarks.engine.terms import Outcome, TokenSource

FINISHED = frozenset({"stop", "length", "tool_calls"})
DONE = b"[DONE]"
NS_PER_US = 1000


class Answer:
    """One answer as it arrives. The first failure decides; what was counted before it is kept."""

    def __init__(self) -> None:
        self.t_first_ns: int | None = None
        self.t_answer_ns: int | None = None
        self.t_last_ns: int | None = None
        self.t_end_ns: int | None = None
        self.finish_reason: str | None = None
        self.usage = openai_chat.Usage()
        self.first_chunk_tokens: int | None = None
        self.gaps_us: list[int] = []
        self.failed: Outcome | None = None
        self.detail = ""
        self.done = False
        self.has_content = False
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """The answer proper, without reasoning or tool calls."""
        return "".join(self._texts)

    @property
    def token_source(self) -> TokenSource:
        return TokenSource.UNKNOWN if self.usage.completion_tokens is None else TokenSource.SERVER

    def fail(self, outcome: Outcome, detail: str) -> None:
        if self.failed is None:
            self.failed, self.detail = outcome, detail[:300]

    def event(self, event: Event, t_ns: int) -> None:
        """One dispatched event, received at `t_ns`."""
        if event.data.strip() == DONE:
            self.done = True
            self.t_end_ns = self.t_end_ns or t_ns
            return
        try:
            chunk = openai_chat.decode(event.data)
        except msgspec.DecodeError as error:
            if event.kind == b"error":
                self._server_failed(openai_chat.failure_of_body(event.data))
            else:
                self.fail(Outcome.MALFORMED, f"event not understood: {error}")
            return
        failure = chunk.failure
        if failure is None and event.kind == b"error":
            failure = openai_chat.failure_of_body(event.data)
        if failure is not None:
            self._server_failed(failure)
        else:
            self._take(chunk, t_ns)

    def eof(self, t_ns: int) -> None:
        """The stream ended in good order. A finish_reason and a clean end are a terminal marker too (no [DONE]
        sent)."""
        if self.finish_reason is not None and self.t_end_ns is None:
            self.t_end_ns = t_ns

    def whole_body(self, body: bytes, t_ns: int) -> None:
        """A server that answered without streaming: the same fields, but no time of a first token."""
        try:
            chunk = openai_chat.decode(body)
        except msgspec.DecodeError as error:
            self.fail(Outcome.MALFORMED, f"body not understood: {error}")
            return
        failure = chunk.failure
        if failure is not None:
            self._server_failed(failure)
            return
        self._take_counts(chunk)
        for choice in chunk.choices or ():
            if choice.index == 0 and choice.message is not None:
                self.has_content = bool(choice.message.answer or choice.message.other)
                self._texts.append(choice.message.answer)
        if self.finish_reason is not None:
            self.t_end_ns = t_ns

    def outcome(self) -> Outcome:
        """The verdict once no more will come."""
        if self.failed is not None:
            return self.failed
        if self.t_end_ns is None or self.finish_reason is None:
            marker = "no finish_reason before [DONE]" if self.done else "stream ended without a terminal marker"
            self.fail(Outcome.TRUNCATED, marker)
            return Outcome.TRUNCATED
        if self.finish_reason not in FINISHED:
            self.fail(Outcome.IN_STREAM_ERROR, f"finish_reason {self.finish_reason}")
            return Outcome.IN_STREAM_ERROR
        if not self.has_content:
            self.fail(Outcome.EMPTY, f"finish_reason {self.finish_reason} without content")
            return Outcome.EMPTY
        return Outcome.OK

    def _server_failed(self, failure: Failure) -> None:
        # Once text has come the request was admitted: an overload told after that is a broken answer, not a rejection.
        rejected = failure.is_overload and not self.has_content
        self.fail(
            Outcome.REJECTED if rejected else Outcome.IN_STREAM_ERROR, failure.text or "an error without a word why"
        )

    def _take(self, chunk: Chunk, t_ns: int) -> None:
        self._take_counts(chunk)
        for choice in chunk.choices or ():
            if choice.index == 0 and choice.delta is not None:
                self._content(choice.delta, chunk, t_ns)

    def _take_counts(self, chunk: Chunk) -> None:
        if chunk.usage is not None:
            self.usage = chunk.usage  # the last one counts; some servers send a running total on each chunk
        for choice in chunk.choices or ():
            if choice.index == 0 and choice.finish_reason:
                self.finish_reason = choice.finish_reason

    def _content(self, delta: openai_chat.Delta, chunk: Chunk, t_ns: int) -> None:
        answer = delta.answer
        if not answer and not delta.other:
            return  # a role-only chunk is no first token
        self.has_content = True
        if answer:
            self._texts.append(answer)
            if self.t_answer_ns is None:
                self.t_answer_ns = t_ns
        if self.t_last_ns is None:
            self.t_first_ns = t_ns
            if chunk.usage is not None:
                self.first_chunk_tokens = chunk.usage.completion_tokens
        else:
            self.gaps_us.append((t_ns - self.t_last_ns) // NS_PER_US)
        self.t_last_ns = t_ns
