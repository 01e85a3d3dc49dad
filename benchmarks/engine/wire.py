"""Requests over HTTP/1.1: one transport and one connection per slot, and every limit told apart in the outcome.

One shared pool rescans all its connections on each request, so slots share nothing. There are no hidden retries, no
proxy environment, no redirects: the client never leaves its target. Two limits run while an answer is awaited: the
first-byte limit until the first text of the answer (headers, role-only chunks and comments do not end it, since a
runtime may send those before it has computed anything), then the idle limit, re-armed by each event but not by
comments.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import math
import os
import ssl
import time
from array import array
from datetime import UTC, datetime
from types import TracebackType

import httpx

from benchmarks.engine import openai_chat
from benchmarks.engine.answer import Answer
from benchmarks.engine.connection import Sink
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.prompts import Prepared
from benchmarks.engine.sse import Parser
from benchmarks.engine.terms import Outcome, Phase, RequestRecord
from benchmarks.engine.transport import OneConnection
from benchmarks.engine.validity import is_valid

# After [DONE] the end of the body is awaited this long, so that the connection can be used again.
CLOSE_GRACE_S = 0.25
MAX_ERROR_BODY_BYTES = 64 * 1024
NS = 1_000_000_000


class Exchange:
    """One request and what became of it, as it happens. Times are monotonic nanoseconds."""

    def __init__(self, prepared: Prepared, t_scheduled_ns: int) -> None:
        self.prepared = prepared
        self.t_scheduled_ns = t_scheduled_ns
        self.t_sent_ns: int | None = None
        self.t_headers_ns: int | None = None
        self.t_closed_ns: int | None = None
        self.http_status: int | None = None
        self.retry_after_s: float | None = None
        self.resent = False
        self.fresh_connection = False
        self.awaiting_answer = True
        self.answer = Answer()
        self.outcome: Outcome | None = None

    def record(self, *, phase: Phase, slot: int) -> RequestRecord:
        """The frame for the log; call it once the exchange is over."""
        answer, usage = self.answer, self.answer.usage
        outcome = self.outcome or answer.outcome()
        details = usage.prompt_tokens_details
        return RequestRecord(
            index=self.prepared.index,
            class_name=self.prepared.class_name,
            phase=phase,
            slot=slot,
            outcome=outcome,
            t_scheduled_ns=self.t_scheduled_ns,
            t_sent_ns=self.t_sent_ns,
            t_headers_ns=self.t_headers_ns,
            t_first_ns=answer.t_first_ns,
            t_answer_ns=answer.t_answer_ns,
            t_last_ns=answer.t_last_ns,
            t_end_ns=answer.t_end_ns,
            t_closed_ns=self.t_closed_ns,
            http_status=self.http_status,
            finish_reason=answer.finish_reason,
            retry_after_s=self.retry_after_s,
            intended_prompt_tokens=self.prepared.intended_prompt_tokens,
            asked_output_tokens=self.prepared.asked_output_tokens,
            prompt_tokens=usage.prompt_tokens,
            cached_prompt_tokens=None if details is None else details.cached_tokens,
            output_tokens=usage.completion_tokens,
            first_chunk_tokens=answer.first_chunk_tokens,
            token_source=answer.token_source,
            valid=is_valid(self.prepared, answer.text) if outcome is Outcome.OK else None,
            resent=self.resent,
            detail=answer.detail,
            gaps_us=array("I", answer.gaps_us).tobytes(),
        )


class Limit:
    """`asyncio.timeout` for a deadline that moves with each event: moving it later only changes a number, and one timer
    looks at that number when it fires."""

    def __init__(self) -> None:
        self._scope = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self._deadline_s = self._looks_at_s = math.inf
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Limit:
        await self._scope.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._scope.__aexit__(kind, error, trace)

    @property
    def expired(self) -> bool:
        return self._scope.expired()

    def move(self, deadline_s: float) -> None:
        """`deadline_s` is on the monotonic clock."""
        self._deadline_s = deadline_s
        if deadline_s < self._looks_at_s:
            self._look()

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        left_s = self._deadline_s - time.monotonic()
        if left_s > 0:
            self._looks_at_s = self._deadline_s
            self._timer = self._loop.call_later(left_s, self._look)
        elif not self._scope.expired():
            self._scope.reschedule(self._loop.time())


class Slot:
    """One place of the offered concurrency: its own transport, at most one connection, one request at a time.

    `transport` stands in for our own one where a caller has another.
    """

    def __init__(self, plan: CellPlan, tls: ssl.SSLContext, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._plan = plan
        self._url = httpx.URL(completions_url(plan.base_url))
        self._headers = httpx.Headers(request_headers(plan))
        self._transport = transport or OneConnection(tls)
        self._limit: Limit | None = None
        self._interrupted: Outcome | None = None
        self._total_deadline_s = 0.0

    async def open(self) -> None:
        """Connects ahead of the first request; what hinders it will be that request's to tell."""
        if isinstance(self._transport, OneConnection):
            with contextlib.suppress(httpx.RequestError):
                await self._transport.open(self._url, self._plan.connect_timeout_s)

    async def close(self) -> None:
        await self._transport.aclose()

    def interrupt(self, outcome: Outcome) -> None:
        """Ends the request in flight, if any, as `outcome`; what it had received is kept."""
        if self._limit is not None and not self._limit.expired:
            self._interrupted = outcome
            self._limit.move(time.monotonic())

    async def ask(self, prepared: Prepared, t_scheduled_ns: int) -> Exchange:
        """Sends one request and reads its answer to the end, whatever that is. Never raises for what a server does."""
        exchange = Exchange(prepared, t_scheduled_ns)
        self._interrupted = None
        self._total_deadline_s = t_scheduled_ns / NS + self._plan.total_timeout_s
        try:
            async with Limit() as self._limit:
                self.arm(self._plan.connect_timeout_s + self._plan.first_byte_timeout_s, time.monotonic_ns())
                await self._attempts(exchange)
        except TimeoutError:
            self._timed_out(exchange)
        except Exception as error:  # noqa: BLE001 the record tells it, as client_fault
            exchange.answer.fail(Outcome.CLIENT_FAULT, f"{type(error).__name__}: {error}")
        finally:
            self._limit = None
            exchange.t_closed_ns = time.monotonic_ns()
        exchange.outcome = exchange.answer.outcome()
        return exchange

    async def _attempts(self, exchange: Exchange) -> None:
        try:
            await self._once(exchange)
        except httpx.RequestError as error:
            if not _is_keepalive_race(exchange, error):
                _transport_failed(exchange, error)
                return
            exchange.resent, exchange.t_sent_ns = True, None
            try:
                await self._once(exchange)
            except httpx.RequestError as second:
                _transport_failed(exchange, second)

    async def _once(self, exchange: Exchange) -> None:
        exchange.fresh_connection = False
        listener = Listener(self, exchange, self._plan)
        request = httpx.Request(
            "POST",
            self._url,
            headers=self._headers,
            content=exchange.prepared.body,
            extensions={"receiver": listener, "timeout": {"connect": self._plan.connect_timeout_s}},
        )
        response = await self._transport.handle_async_request(request)
        try:
            if exchange.t_headers_ns is None:
                listener.head(response, time.monotonic_ns())
            if response.status_code != 200:
                await self._read_refusal(exchange, response)
            elif _is_json(response):
                await self._read_whole(exchange, response)
            else:
                await listener.read(response)
        finally:
            await response.aclose()

    async def _read_whole(self, exchange: Exchange, response: httpx.Response) -> None:
        exchange.awaiting_answer = False
        body = bytearray()
        async for data in response.aiter_bytes():
            body += data
            self.arm(self._plan.idle_timeout_s, time.monotonic_ns())
        exchange.answer.whole_body(bytes(body), time.monotonic_ns())

    async def _read_refusal(self, exchange: Exchange, response: httpx.Response) -> None:
        exchange.awaiting_answer = False
        exchange.retry_after_s = retry_after_s(response.headers.get("retry-after"), datetime.now(UTC))
        self.arm(self._plan.idle_timeout_s, time.monotonic_ns())
        body = bytearray()
        try:
            async for data in response.aiter_bytes():
                body += data
                if len(body) > MAX_ERROR_BODY_BYTES:
                    break
        finally:  # the status has decided already; a body cut short only says less
            exchange.answer.fail(*refusal(response.status_code, bytes(body), response.headers.get("location", "")))

    def arm(self, seconds: float, t_ns: int) -> None:
        """The request in flight may last until `seconds` after `t_ns`, and never past its total limit."""
        if self._limit is not None and self._interrupted is None and not self._limit.expired:
            self._limit.move(min(t_ns / NS + seconds, self._total_deadline_s))

    def _timed_out(self, exchange: Exchange) -> None:
        plan, answer = self._plan, exchange.answer
        if answer.done:
            return  # the answer was whole; only the end of the body was late
        if self._interrupted is not None:
            answer.fail(self._interrupted, "ended by the client")
        elif time.monotonic() >= self._total_deadline_s:
            answer.fail(Outcome.TOTAL_TIMEOUT, f"client limit: {plan.total_timeout_s:g} s in total")
        elif exchange.awaiting_answer:
            answer.fail(Outcome.FIRST_BYTE_TIMEOUT, f"client limit: {plan.first_byte_timeout_s:g} s to the first text")
        else:
            answer.fail(Outcome.IDLE_TIMEOUT, f"client limit: {plan.idle_timeout_s:g} s without an event")


class Listener:
    """Writes into the exchange what the connection tells, in the loop's own callbacks: times are of the arrival."""

    def __init__(self, slot: Slot, exchange: Exchange, plan: CellPlan) -> None:
        self._slot, self._exchange, self._plan = slot, exchange, plan
        self._parser = Parser()

    def connecting(self) -> None:
        self._exchange.fresh_connection = True

    def sent(self, t_ns: int) -> None:
        self._exchange.t_sent_ns = t_ns
        self._slot.arm(self._plan.first_byte_timeout_s, t_ns)

    def head(self, response: httpx.Response, t_ns: int) -> Sink | None:
        """A plain event stream is taken as it arrives; what must be decoded or held together comes through httpx."""
        self._exchange.t_headers_ns, self._exchange.http_status = t_ns, response.status_code
        plain = response.headers.get("content-encoding", "identity").lower() == "identity"
        return self.data if response.status_code == 200 and plain and not _is_json(response) else None

    def data(self, data: bytes, t_ns: int) -> None:
        answer = self._exchange.answer
        events = self._parser.feed(data)
        for event in events:
            answer.event(event, t_ns)
        if answer.done:
            self._slot.arm(CLOSE_GRACE_S, t_ns)
        elif events and answer.has_content:
            self._exchange.awaiting_answer = False
            self._slot.arm(self._plan.idle_timeout_s, t_ns)

    def ended(self, t_ns: int) -> None:
        self._exchange.answer.eof(t_ns)

    async def read(self, response: httpx.Response) -> None:
        """To the end of the stream. Where the transport handed nothing over directly, its bytes are taken here."""
        async for data in response.aiter_bytes():
            self.data(data, time.monotonic_ns())
        self.ended(time.monotonic_ns())  # says nothing new where the connection has told it


def _is_json(response: httpx.Response) -> bool:
    return bool(response.headers.get("content-type", "").startswith("application/json"))


def completions_url(base_url: str) -> str:
    """`base_url` with or without its /v1."""
    return base_url.rstrip("/").removesuffix("/v1") + "/v1/chat/completions"


def request_headers(plan: CellPlan) -> dict[str, str]:
    """Raises KeyError when the plan names a key that this process's environment does not hold."""
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",  # compression would gather several events into one write
        "user-agent": "headroom",
        "connection": "keep-alive",
    }
    if plan.api_key_env:
        headers["authorization"] = f"Bearer {os.environ[plan.api_key_env]}"
    return headers


def tls_context(plan: CellPlan) -> ssl.SSLContext:
    """One context for all slots: loading the certificate store for each would take longer than a short window."""
    if plan.base_url.startswith("https:"):
        return ssl.create_default_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds to wait, from either spelling of Retry-After (RFC 9110, 10.2.3); None where absent or not understood."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())


def refusal(status: int, body: bytes, location: str) -> tuple[Outcome, str]:
    """The outcome of an answer that is not HTTP 200, with its words."""
    failure = openai_chat.failure_of_body(body)
    detail = f"HTTP {status}: {failure.text}" if failure.text else f"HTTP {status}"
    if status in openai_chat.REJECTION_CODES or (status >= 400 and failure.is_overload):
        return Outcome.REJECTED, detail
    if status >= 500:
        return Outcome.SERVER_ERROR, detail
    if status >= 400:
        return Outcome.REFUSED, detail
    if status >= 300:
        return Outcome.REFUSED, f"HTTP {status}: redirect to {location or 'nowhere'} not followed"
    return Outcome.MALFORMED, f"{detail}: only 200 carries an answer"


def _is_keepalive_race(exchange: Exchange, error: httpx.RequestError) -> bool:
    """A reused connection that closed before any byte of the answer: the server's idle limit met our next request."""
    closed = isinstance(error, httpx.NetworkError) or (
        isinstance(error, httpx.RemoteProtocolError) and "disconnected" in str(error)
    )
    return closed and not exchange.fresh_connection and exchange.t_headers_ns is None


def _transport_failed(exchange: Exchange, error: httpx.RequestError) -> None:
    words = f"{type(error).__name__}: {error}"
    if exchange.answer.done:
        return
    if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol)):
        outcome = Outcome.CLIENT_FAULT
    elif isinstance(error, httpx.DecodingError):
        outcome = Outcome.MALFORMED
    elif exchange.t_headers_ns is not None:
        outcome = Outcome.TRUNCATED
    elif isinstance(error, httpx.RemoteProtocolError) and "disconnected" not in str(error):
        outcome = Outcome.MALFORMED  # an answer, but not HTTP
    else:
        outcome = Outcome.CONNECT_ERROR
    exchange.answer.fail(outcome, words)
