"""One answer on its way out: tokens become events or one body, broken on purpose where a fault says so."""

from __future__ import annotations

from typing import Protocol

from benchmarks.simulator.asks import Api, Ask, Refusal
from benchmarks.simulator.faults import TOKENS_PER_CHUNK, Fault
from benchmarks.simulator.shapes import JSON, Fact, OpenAiShape, shape_of
from benchmarks.simulator.truth import Truth

_BREAKING = (Fault.RESET, Fault.TRUNCATED, Fault.ERROR_IN_STREAM, Fault.STALL, Fault.ENDLESS)
_HOLDING = (Fault.BUFFERED, Fault.FIRST_BYTE_DELAY)
_BROKEN = Refusal(status=500, message="The engine failed in mid-answer, on purpose.", type="InternalServerError")


class Wire(Protocol):
    """What an answer needs of its connection. Times are monotonic nanoseconds."""

    def start(
        self, status: int, content_type: str, *, length: int | None = None, retry_after_s: int | None = None
    ) -> int:
        """Send the head; without a length the body is chunked. Returns when."""

    def write(self, data: bytes) -> int:
        """Send a piece of the body now; returns the moment right before."""

    def end(self) -> None:
        """The body is complete."""

    def close(self) -> None:
        """Close without completing the body."""

    def reset(self) -> None:
        """TCP reset."""


class Answer:
    """Takes tokens from the engine until `finished`; then the caller cancels what the engine may still hold."""

    def __init__(self, ask: Ask, *, wire: Wire, fault: Fault | None, truth: Truth, fact: Fact) -> None:
        self.ask = ask
        self.truth = truth
        self.finished = False
        self.keys: tuple[int, ...] = ()
        self._wire = wire
        self._fault = fault
        self._shape = shape_of(ask, fact)
        self._words = ask.items[0].words
        self._break_at = len(self._words) // 2
        self._reasoned = len(self._words) // 3 if fault is Fault.REASONING else 0
        self._per_chunk = TOKENS_PER_CHUNK if fault is Fault.MULTI_TOKEN else 1
        self._pending: list[str] = []
        self._held: list[tuple[bytes, int]] = []
        self._holding = fault in _HOLDING
        self._items_left = len(ask.items)
        self._started = self._opened = False
        self._written_ns: int | None = None

    def accepted(self) -> None:
        """The engine has taken the request: a stream's head goes out at once, as vLLM does; SGLang holds it back until
        there is something to say."""
        if self.ask.stream and not self._holding and self._fault is not Fault.HEADERS_LATE:
            self._start()
            if self._fault is Fault.ROLE_EARLY:
                self._open()

    def release(self) -> None:
        """End of a first-byte delay: what has been held goes out, what follows goes straight."""
        if not self._holding:
            return
        self._holding = False
        if self.ask.stream:
            self._start()
        for data, tokens in self._held:
            self._send(data, tokens)
        self._held.clear()
        if self.finished:
            self._end()

    def token(self, index: int, *, last: bool) -> None:
        """Output token number `index` of one of the items is there."""
        if self._fault is Fault.EMPTY:
            self._finish_empty()
        elif self._fault in _BREAKING and index >= self._break_at:
            self._break()
        elif self.ask.stream:
            self._stream_token(index, last=last)
        elif last:
            self._items_left -= 1
            if self._items_left == 0:
                self._whole()

    def more(self) -> None:
        """One more word of an answer that never ends."""
        if self.ask.stream:
            self._emit(self._shape.token(f" {self._words[0]}", None, self.truth.tokens_sent + 1), 1)

    def gone(self) -> None:
        """The client left."""
        if not self.finished:
            self.finished = True
            self.truth.outcome = "cancelled"
        self._holding = False
        self._held.clear()

    def _stream_token(self, index: int, *, last: bool) -> None:
        self._open()
        if self._fault is Fault.MALFORMED and index == self._break_at:
            self._emit(self._shape.garbage(), 0)
        word = self._words[index]
        self._pending.append(word if index == 0 else f" {word}")
        if len(self._pending) < self._per_chunk and not last:
            return
        text, tokens = "".join(self._pending), len(self._pending)
        self._pending.clear()
        reason = self.ask.items[0].finish_reason
        self._emit(
            self._shape.token(text, reason if last else None, index + 1, reasoning=index < self._reasoned), tokens
        )
        if last:
            self._close_stream(reason, len(self._words))

    def _close_stream(self, finish_reason: str, output_tokens: int) -> None:
        for event in self._shape.closing(finish_reason, output_tokens):
            self._emit(event, 0)
        self._complete()

    def _complete(self) -> None:
        self.finished = True
        self.truth.outcome = "finished"
        if self._fault is Fault.BUFFERED:
            self.release()
        elif not self._holding:
            self._end()

    def _end(self) -> None:
        self.truth.t_end_ns = self._written_ns
        self._wire.end()

    def _finish_empty(self) -> None:
        if self.ask.stream:
            self._open()
            if isinstance(self._shape, OpenAiShape):
                self._emit(self._shape.token("", "stop", 0), 0)
            self._close_stream("stop", 0)
        elif self.ask.api is Api.EMBEDDINGS:
            self._whole()
        else:
            nothing = [("", "stop")] * len(self.ask.items)
            self._body(self._shape.whole(nothing, self._order), 0)

    def _break(self) -> None:
        self.finished = True
        self.truth.outcome = "broken"
        if self._fault is Fault.RESET:
            self._wire.reset()
        elif self._fault is Fault.TRUNCATED and self.ask.stream:
            self._wire.end()
        elif self._fault is Fault.TRUNCATED:
            self._wire.start(200, JSON, length=1000)
            self._wire.write(b'{"id": "cut')
            self._wire.close()
        elif self._fault is Fault.ERROR_IN_STREAM and self.ask.stream:
            for event in self._shape.failure(_BROKEN):
                self._emit(event, 0)
            self._wire.end()
        elif self._fault is Fault.ERROR_IN_STREAM:
            self._body(_BROKEN.body(self.ask.api), 0)

    def _whole(self) -> None:
        if isinstance(self._shape, OpenAiShape) and self.ask.api is Api.EMBEDDINGS:
            data = self._shape.vectors(self._order)
            if self._fault in (Fault.NOT_FINITE, Fault.EMPTY):
                data[0]["embedding"] = [None] if self._fault is Fault.NOT_FINITE else []
            body = self._shape.embeddings(data)
        else:
            ended = [(" ".join(item.words), item.finish_reason) for item in self.ask.items]
            body = self._shape.whole(ended, self._order)
        self._body(body[: len(body) // 2] if self._fault is Fault.MALFORMED else body, self.ask.output_tokens)

    @property
    def _order(self) -> list[int]:
        """Which items of a list stand in the answer, and in what order."""
        order = list(range(len(self.ask.items)))
        if self._fault is Fault.SHUFFLED:
            order.reverse()
        elif self._fault is Fault.MISSING_ITEM:
            order.pop()
        return order

    def _body(self, body: bytes, tokens: int) -> None:
        self._emit(body, max(tokens, 1) if self.ask.api is Api.EMBEDDINGS else tokens)
        self._complete()

    def _open(self) -> None:
        if not self._opened:
            self._opened = True
            opening = self._shape.opening()
            if opening:
                self._emit(opening, 0)

    def _emit(self, data: bytes, tokens: int) -> None:
        if self._holding:
            self._held.append((data, tokens))
        else:
            self._send(data, tokens)

    def _send(self, data: bytes, tokens: int) -> None:
        if not self._started:
            self._start(len(data))
        written_ns = self._wire.write(data)
        self._written_ns = written_ns
        truth = self.truth
        if tokens:
            truth.t_first_ns = truth.t_first_ns or written_ns
            truth.t_last_ns = written_ns
            truth.tokens_sent += tokens
            truth.t_tokens_ns.append(written_ns)

    def _start(self, length: int | None = None) -> None:
        if not self._started:
            self._started = True
            stream = self.ask.stream
            self.truth.t_head_ns = self._wire.start(
                200, self._shape.stream_type if stream else JSON, length=None if stream else length
            )
