"""One request and what becomes of it, as the connection tells it in the loop's own callbacks.

An exchange carries one item, or several where the dialect sends lists. Two limits run while an answer is awaited: the
first-byte limit until the first text of the answer (headers, role-only chunks and comments do not end it, since a
runtime may send those before it has computed anything), then the idle limit, re-armed by each event but not by
comments. Both are one deadline that `Deadlines` looks at; moving it is a number.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import httpx

from benchmarks.engine import ndjson
from benchmarks.engine.answer import Answer
from benchmarks.engine.connection import Headers
from benchmarks.engine.dialects.base import Dialect, Framing
from benchmarks.engine.heads import Head, head_of, refusal, retry_after_s
from benchmarks.engine.inflating import Inflater
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.prompts import Prepared
from benchmarks.engine.sse import Parser, TooLongError
from benchmarks.engine.terms import Outcome, Phase, RequestRecord
from benchmarks.engine.validity import is_valid

NS = 1_000_000_000
NS_PER_US = 1000
# After the terminal marker the end of the body is awaited this long, so that the connection can be used again.
CLOSE_GRACE_NS = NS // 4
MOST_ERROR_BYTES = 64 * 1024
MOST_BODY_BYTES = 64 * 1024 * 1024
INFLATED = frozenset({b"gzip", b"x-gzip", b"deflate"})
NOT_ENCODED = frozenset({b"", b"identity"})
LIMITS = frozenset({Outcome.FIRST_BYTE_TIMEOUT, Outcome.IDLE_TIMEOUT, Outcome.TOTAL_TIMEOUT})


class Limits:
    """A plan's limits in nanoseconds, made once for all exchanges."""

    __slots__ = ("connect_ns", "first_byte_ns", "idle_ns", "plan", "total_ns")

    def __init__(self, plan: CellPlan) -> None:
        self.plan = plan
        self.connect_ns = round(plan.connect_timeout_s * NS)
        self.first_byte_ns = round(plan.first_byte_timeout_s * NS)
        self.idle_ns = round(plan.idle_timeout_s * NS)
        self.total_ns = round(plan.total_timeout_s * NS)


class Due(NamedTuple):
    """One item with the time it is due at; `phase` is decided by that time, `attempt` counts from 1. `role` is what it is
    there for in a probe."""

    prepared: Prepared
    t_scheduled_ns: int
    phase: Phase
    attempt: int = 1
    role: str | None = None


class Exchange:
    """A `connection.Receiver`. Times are monotonic nanoseconds; `over` is done when nothing more will come, with the
    error that ended it or None."""

    __slots__ = (
        "answer", "answers", "awaiting_answer", "batch", "connect_ns", "deadline_ns", "dialect", "expired",
        "fresh_connection", "gathered_ns", "held", "http_status", "idle_ns", "inflate", "items", "limits", "outcome", "over",
        "parser", "refused", "resent", "retry_after_s", "slot", "streamed_bytes", "t_closed_ns",
        "t_headers_ns", "t_ready_ns", "t_sent_ns", "told", "total_ns", "wanted_connection",
    )  # fmt: skip

    def __init__(self, items: Sequence[Due], dialect: Dialect, limits: Limits) -> None:
        self.items = items
        self.answers = [Answer() for _ in items]
        self.answer = self.answers[0]
        self.dialect = dialect
        self.limits = limits
        self.idle_ns = limits.idle_ns
        self.batch: int | None = None
        self.gathered_ns: int | None = None
        self.slot = 0
        self.t_ready_ns = 0
        self.t_sent_ns: int | None = None
        self.t_headers_ns: int | None = None
        self.t_closed_ns: int | None = None
        self.connect_ns = 0
        self.http_status: int | None = None
        self.retry_after_s: float | None = None
        self.resent = self.fresh_connection = self.wanted_connection = False
        self.told = False  # a whole body has told each item its own
        self.awaiting_answer = True
        self.expired: Outcome | None = None
        self.outcome: Outcome | None = None
        self.refused: Head | None = None
        self.parser: Parser | ndjson.Parser | None = None
        self.inflate: Inflater | None = None
        self.held = bytearray()
        self.streamed_bytes = 0
        self.total_ns = items[0].t_scheduled_ns + limits.total_ns
        self.deadline_ns = self.total_ns
        self.over: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    @property
    def can_wait(self) -> bool:
        """Whether reads that hold whole events may be understood some at a time."""
        return self.dialect.STREAMS and self.dialect.FRAMING is Framing.SSE

    def again(self) -> None:
        """Before the same request goes out on a fresh connection: nothing of an answer has come."""
        self.resent, self.t_sent_ns = True, None
        self.over = asyncio.get_running_loop().create_future()

    # What the connection tells.

    def sent(self, t_ns: int) -> None:
        self.t_sent_ns = t_ns
        self.deadline_ns = min(t_ns + self.limits.first_byte_ns, self.total_ns)

    def head(self, status: int, headers: Headers, t_ns: int) -> None:
        self.t_headers_ns, self.http_status = t_ns, status
        head = head_of(headers)
        if head.encoding in INFLATED:
            self.inflate = Inflater()
        elif head.encoding not in NOT_ENCODED and status == 200:
            self.answer.fail(Outcome.MALFORMED, f"content-encoding {head.encoding.decode('latin-1')} was not asked for")
        if head.retry_after:  # under HTTP 200 too: an overload may be told inside the stream
            self.retry_after_s = retry_after_s(head.retry_after, datetime.now(UTC))
        if status != 200:
            self.refused = head
        elif self.dialect.STREAMS and not head.is_json:
            self.parser = Parser() if self.dialect.FRAMING is Framing.SSE else ndjson.Parser()
        if self.parser is None:
            self._answering(t_ns)

    def body(self, data: bytes, t_ns: int) -> None:
        if self.inflate is not None:
            self._inflated(self.inflate, data, t_ns)
        elif self.parser is None:
            self._hold(data, t_ns)
        else:
            self._read(self.parser, data, t_ns)

    def _read(self, parser: Parser | ndjson.Parser, data: bytes, t_ns: int) -> None:
        answer, event = self.answer, self.dialect.event
        self.streamed_bytes += len(data)
        if self.streamed_bytes > MOST_BODY_BYTES:
            answer_is_too_long(answer)
        alone = parser.one(data)
        if alone:
            event(answer, alone, b"", t_ns)
        else:
            try:
                events = parser.feed(data)
            except TooLongError as error:
                answer.fail(Outcome.MALFORMED, str(error))
                raise httpx.RemoteProtocolError(str(error)) from error
            if not events:
                return
            for payload, kind in events:
                event(answer, payload, kind, t_ns)
        if answer.ended_well:
            self.deadline_ns = min(t_ns + CLOSE_GRACE_NS, self.total_ns)
        elif answer.has_content:
            self.awaiting_answer = False
            idle_ns = t_ns + self.idle_ns
            self.deadline_ns = idle_ns if idle_ns < self.total_ns else self.total_ns

    def finish(self, error: Exception | None, t_ns: int) -> None:
        if error is None:
            self._whole(t_ns)
        elif self.refused is not None:
            self._refused()  # the status has decided already; a body cut short only says less
        if not self.over.done():
            self.over.set_result(error)

    def _answering(self, t_ns: int) -> None:
        self.awaiting_answer = False
        self.deadline_ns = min(t_ns + self.limits.idle_ns, self.total_ns)

    def _hold(self, data: bytes, t_ns: int) -> None:
        self._answering(t_ns)
        if self.refused is not None:
            self.held += data[: MOST_ERROR_BYTES - len(self.held)]
            if len(self.held) == MOST_ERROR_BYTES:
                raise httpx.RemoteProtocolError("error body too long")  # it has said enough
            return
        self.held += data
        if len(self.held) > MOST_BODY_BYTES:
            answer_is_too_long(self.answer)

    def _inflated(self, inflater: Inflater, data: bytes, t_ns: int) -> None:
        self.inflate = None  # what comes out is a body like any other
        try:
            for plain in inflater.feed(data):
                self.body(plain, t_ns)
        except zlib.error as error:
            if self.refused is None:
                self.answer.fail(Outcome.MALFORMED, f"body is not what its content-encoding says: {error}")
            raise httpx.DecodingError(str(error)) from error
        self.inflate = inflater

    def _whole(self, t_ns: int) -> None:
        """The body has ended in good order."""
        if self.inflate is not None and self.inflate.cut_short and self.refused is None and not self.answer.ended_well:
            self.answer.fail(Outcome.TRUNCATED, "the compressed body ends before its end")
        if self.refused is not None:
            self._refused()
        elif self.parser is not None:
            for payload, kind in self.parser.end():
                self.dialect.event(self.answer, payload, kind, t_ns)
            self.answer.eof(t_ns)
        elif self.http_status == 200 and self.answer.failed is None:
            self.told = True
            self.dialect.whole(self.answers, bytes(self.held), t_ns)

    def _refused(self) -> None:
        assert self.refused is not None
        assert self.http_status is not None
        location = self.refused.location.decode("latin-1")
        self.answer.fail(*refusal(self.http_status, self.dialect.failure(bytes(self.held)), location))

    # What the slot tells and asks.

    def expire(self, outcome: Outcome) -> None:
        """A limit has passed, or the run wants its end. What has been received is kept."""
        if self.expired is None and not self.over.done():
            self.expired = outcome
            self.over.set_result(None)

    def close(self) -> None:
        """The last word; what failed the request failed each of its items."""
        self.t_closed_ns = time.monotonic_ns()
        if self.refused is not None and self.expired in LIMITS:
            self._refused()
        if self.expired is not None and not self.answer.ended_well:
            self.answer.fail(self.expired, self._words_of_expiry())
        for answer in self.answers:
            answer.settle()
        self.outcome = self.answer.outcome()
        for other in self.answers[1:]:
            if self.answer.failed is not None and not self.told:
                other.fail(self.answer.failed, self.answer.detail)

    def limit_passed(self, now_ns: int) -> Outcome:
        """Which limit it was."""
        if now_ns >= self.total_ns:
            return Outcome.TOTAL_TIMEOUT
        return Outcome.FIRST_BYTE_TIMEOUT if self.awaiting_answer else Outcome.IDLE_TIMEOUT

    def _words_of_expiry(self) -> str:
        plan = self.limits.plan
        return {
            Outcome.TOTAL_TIMEOUT: f"client limit: {plan.total_timeout_s:g} s in total",
            Outcome.FIRST_BYTE_TIMEOUT: f"client limit: {plan.first_byte_timeout_s:g} s to the first text",
            Outcome.IDLE_TIMEOUT: f"client limit: {plan.idle_timeout_s:g} s without an event",
        }.get(self.expired or Outcome.UNFINISHED, "ended by the client")

    def outcomes(self) -> list[Outcome]:
        """One per item; call it once the exchange is closed."""
        return [answer.outcome() for answer in self.answers]

    def records(self) -> list[RequestRecord]:
        """The frames for the log, one per item; call it once the exchange is closed."""
        return [self._record(place) for place in range(len(self.items))]

    def _record(self, place: int) -> RequestRecord:
        (item, t_scheduled_ns, phase, attempt, role), answer = self.items[place], self.answers[place]
        outcome = answer.outcome()
        stamps = answer.stamps
        return RequestRecord(
            index=item.index,
            class_name=item.class_name,
            phase=phase,
            slot=self.slot,
            attempt=attempt,
            outcome=outcome,
            t_scheduled_ns=t_scheduled_ns,
            gathered_ns=self.gathered_ns,
            t_sent_ns=self.t_sent_ns,
            t_headers_ns=self.t_headers_ns,
            t_first_ns=stamps[0] if stamps else None,
            t_answer_ns=answer.t_answer_ns,
            t_last_ns=stamps[-1] if stamps else None,
            t_end_ns=answer.t_end_ns,
            t_closed_ns=self.t_closed_ns,
            connect_us=self.connect_ns // NS_PER_US,
            http_status=self.http_status,
            finish_reason=answer.finish_reason,
            retry_after_s=self.retry_after_s,
            intended_prompt_tokens=item.intended_prompt_tokens,
            asked_output_tokens=item.asked_output_tokens,
            prompt_tokens=answer.prompt_tokens,
            cached_prompt_tokens=answer.cached_prompt_tokens,
            output_tokens=answer.output_tokens,
            first_chunk_tokens=answer.first_chunk_tokens,
            token_source=answer.token_source,
            valid=is_valid(item, answer.answer_text) if outcome is Outcome.OK and not answer.complete_as_is else None,
            resent=self.resent,
            batch=self.batch,
            session=item.session,
            turn=item.turn,
            detail=answer.detail,
            gaps_us=answer.gaps_us,
            role=role,
        )


def answer_is_too_long(answer: Answer) -> None:
    """Raises httpx.RemoteProtocolError, so that the connection ends."""
    answer.fail(Outcome.MALFORMED, f"a body of more than {MOST_BODY_BYTES} bytes")
    raise httpx.RemoteProtocolError("body too long")
