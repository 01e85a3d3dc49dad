"""One answer on its way out: tokens become events or one body, broken on purpose where a fault says so."""

from __future__ import annotations

import time
from typing import Protocol

import msgspec

from benchmarks.simulator.asks import Ask, Refusal
from benchmarks.simulator.faults import TOKENS_PER_CHUNK, Fault

_BREAKING = (Fault.RESET, Fault.TRUNCATED, Fault.ERROR_IN_STREAM, Fault.STALL, Fault.ENDLESS)
_HOLDING = (Fault.BUFFERED, Fault.FIRST_BYTE_DELAY)
DONE = b"data: [DONE]\n\n"


class Wire(Protocol):
    """What an answer needs of its connection."""

    def start(
        self, status: int, content_type: str, *, length: int | None = None, retry_after_s: int | None = None
    ) -> None:
        """Send the head; without a length the body is chunked."""

    def write(self, data: bytes) -> None:
        """Send a piece of the body now."""

    def end(self) -> None:
        """The body is complete."""

    def close(self) -> None:
        """Close without completing the body."""

    def reset(self) -> None:
        """TCP reset."""


class Truth(msgspec.Struct):
    """When the bytes of one request really went out: monotonic nanoseconds of this host. None: it never happened."""

    id: str
    client_id: str
    stream: bool
    prompt_tokens: int
    output_tokens: int
    t_received_ns: int
    t_first_ns: int | None = None
    t_last_ns: int | None = None
    t_end_ns: int | None = None
    tokens_sent: int = 0
    outcome: str = "running"
    fault: str = ""
    t_tokens_ns: list[int] = []


class Answer:
    """Takes tokens from the engine until `finished`; then the caller cancels what the engine may still hold."""

    def __init__(self, ask: Ask, *, wire: Wire, fault: Fault | None, truth: Truth, model: str) -> None:
        self.ask = ask
        self.truth = truth
        self.finished = False
        self._wire = wire
        self._fault = fault
        self._model = model
        self._created = int(time.time())
        self._break_at = len(ask.words) // 2
        self._pending: list[str] = []
        self._held: list[tuple[bytes, int]] = []
        self._holding = fault in _HOLDING
        self._started = False
        self._role_sent = False

    def accepted(self) -> None:
        """The engine has taken the request: a stream's head goes out at once, as vLLM does."""
        if self.ask.stream and not self._holding:
            self._start()
            if self._fault is Fault.ROLE_EARLY:
                self._role()

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
        """Output token number `index` is there."""
        if self._fault is Fault.EMPTY:
            self._finish_empty()
        elif self._fault in _BREAKING and index >= self._break_at:
            self._break()
        elif self.ask.stream:
            self._stream_token(index, last=last)
        elif last:
            self._whole()

    def more(self) -> None:
        """One more word of an answer that never ends."""
        if self.ask.stream:
            self._emit(self._event(f" {self.ask.words[0]}", None), 1)

    def gone(self) -> None:
        """The client left."""
        if not self.finished:
            self.finished = True
            self.truth.outcome = "cancelled"
        self._holding = False
        self._held.clear()

    def _stream_token(self, index: int, *, last: bool) -> None:
        self._role()
        if self._fault is Fault.MALFORMED and index == self._break_at:
            self._emit(b'data: {"choices": [{"delta": {"content"\n\n', 0)
        word = self.ask.words[index]
        self._pending.append(word if index == 0 else f" {word}")
        size = TOKENS_PER_CHUNK if self._fault is Fault.MULTI_TOKEN else 1
        if len(self._pending) < size and not last:
            return
        text, tokens = "".join(self._pending), len(self._pending)
        self._pending.clear()
        self._emit(self._event(text, self.ask.finish_reason if last else None), tokens)
        if last:
            self._close_stream(len(self.ask.words))

    def _close_stream(self, output_tokens: int) -> None:
        if self.ask.include_usage:
            self._emit(_sse(self._envelope([], self._usage(output_tokens))), 0)
        self._emit(DONE, 0)
        self._complete("finished")

    def _complete(self, outcome: str) -> None:
        self.finished = True
        self.truth.outcome = outcome
        if self._fault is Fault.BUFFERED:
            self.release()
        elif not self._holding:
            self._end()

    def _end(self) -> None:
        self.truth.t_end_ns = time.monotonic_ns()
        self._wire.end()

    def _finish_empty(self) -> None:
        if self.ask.stream:
            self._role()
            self._emit(self._event("", "stop"), 0)
            self._close_stream(0)
        else:
            self._body(msgspec.json.encode(self._envelope([self._choice("", "stop")], self._usage(0))), 0)

    def _break(self) -> None:
        self.finished = True
        self.truth.outcome = "broken"
        refusal = Refusal(
            status=500, message="The engine failed in mid-answer, on purpose.", type="InternalServerError"
        )
        if self._fault is Fault.RESET:
            self._wire.reset()
        elif self._fault is Fault.TRUNCATED and self.ask.stream:
            self._wire.end()
        elif self._fault is Fault.TRUNCATED:
            self._wire.start(200, "application/json", length=1000)
            self._wire.write(b'{"id": "cut')
            self._wire.close()
        elif self._fault is Fault.ERROR_IN_STREAM and self.ask.stream:
            self._emit(refusal.event() + DONE, 0)
            self._wire.end()
        elif self._fault is Fault.ERROR_IN_STREAM:
            self._body(refusal.body(), 0)

    def _whole(self) -> None:
        choice = self._choice(" ".join(self.ask.words), self.ask.finish_reason)
        body = msgspec.json.encode(self._envelope([choice], self._usage(len(self.ask.words))))
        self._body(body[: len(body) // 2] if self._fault is Fault.MALFORMED else body, len(self.ask.words))

    def _body(self, body: bytes, tokens: int) -> None:
        self._emit(body, tokens)
        self._complete("finished")

    def _role(self) -> None:
        if not self._role_sent:
            self._role_sent = True
            if self.ask.chat:
                choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
                self._emit(_sse(self._envelope([choice])), 0)

    def _event(self, text: str, finish_reason: str | None) -> bytes:
        part: dict[str, object] = {"delta": {"content": text}} if self.ask.chat else {"text": text}
        return _sse(self._envelope([{"index": 0, **part, "finish_reason": finish_reason}]))

    def _choice(self, text: str, finish_reason: str) -> dict[str, object]:
        part = {"message": {"role": "assistant", "content": text}} if self.ask.chat else {"text": text}
        return {"index": 0, **part, "finish_reason": finish_reason}

    def _usage(self, output_tokens: int) -> dict[str, int]:
        prompt_tokens = self.ask.prompt_tokens
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": prompt_tokens + output_tokens,
        }

    def _envelope(self, choices: list[dict[str, object]], usage: dict[str, int] | None = None) -> dict[str, object]:
        kind = "chat.completion" if self.ask.chat else "text_completion"
        envelope: dict[str, object] = {
            "id": self.truth.id,
            "object": f"{kind}.chunk" if self.ask.chat and self.ask.stream else kind,
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }
        return envelope if usage is None else {**envelope, "usage": usage}

    def _emit(self, data: bytes, tokens: int) -> None:
        if self._holding:
            self._held.append((data, tokens))
        else:
            self._send(data, tokens)

    def _send(self, data: bytes, tokens: int) -> None:
        if not self._started:
            self._start(len(data))
        if tokens:
            now_ns = time.monotonic_ns()
            truth = self.truth
            truth.t_first_ns = truth.t_first_ns or now_ns
            truth.t_last_ns = now_ns
            truth.tokens_sent += tokens
            truth.t_tokens_ns.append(now_ns)
        self._wire.write(data)

    def _start(self, length: int | None = None) -> None:
        if not self._started:
            self._started = True
            stream = self.ask.stream
            self._wire.start(
                200,
                "text/event-stream; charset=utf-8" if stream else "application/json",
                length=None if stream else length,
            )


def _sse(payload: dict[str, object]) -> bytes:
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"
