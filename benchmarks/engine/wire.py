"""Requests over HTTP/1.1: one transport and one connection per slot, and every limit told apart in the outcome.

One shared pool rescans all its connections on each request, so slots share nothing. There are no hidden retries, no
proxy environment, no redirects: the client never leaves its target. A reused connection that the server closed before
any byte of the answer (its idle limit met our request) is the one thing resent, once, on a fresh one, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import ssl
import time
from collections import deque
from collections.abc import Sequence

import httpx

from benchmarks.engine.answer import Answer
from benchmarks.engine.dialects.base import Dialect
from benchmarks.engine.dialects.table import dialect_of
from benchmarks.engine.exchange import Due, Exchange, Limits
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.terms import Outcome
from benchmarks.engine.transport import OneConnection, serialised

DEADLINES_EVERY_S = 0.1
DEADLINES_EVERY_NS = 100_000_000
DEADLINES_PARTS = 20
MEASURED = "headroom"


class Deadlines:
    """Looks at every exchange under way a few times in a second, so that moving a deadline costs a number, not a
    timer. Not at all of them in one go: a thousand would hold the loop for a millisecond."""

    def __init__(self) -> None:
        self._waiting: dict[Exchange, Slot] = {}
        self._turn: deque[Exchange] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, exchange: Exchange, slot: Slot) -> None:
        self._waiting[exchange] = slot
        self._turn.append(exchange)
        if self._timer is None:
            self._look_again()

    def leave(self, exchange: Exchange) -> None:
        self._waiting.pop(exchange, None)

    def _look(self) -> None:
        now_ns = time.monotonic_ns()
        for _ in range(math.ceil(len(self._turn) / DEADLINES_PARTS)):
            exchange = self._turn.popleft()
            slot = self._waiting.get(exchange)
            if slot is None:
                continue
            self._turn.append(exchange)
            slot.catch_up(now_ns)
            if exchange.deadline_ns <= now_ns:
                slot.expire(now_ns)
        self._timer = None
        if self._turn:
            self._look_again()

    def _look_again(self) -> None:
        after_s = DEADLINES_EVERY_S / min(DEADLINES_PARTS, len(self._turn))
        self._timer = asyncio.get_running_loop().call_later(after_s, self._look)


class Target:
    """What all slots of a run share: the address, the head of every request, the dialect, the limits, TLS."""

    def __init__(self, plan: CellPlan, tls: ssl.SSLContext | None = None) -> None:
        """Raises KeyError when the plan names a dialect or a key that is not there."""
        self.plan = plan
        self.dialect: Dialect = dialect_of(plan.dialect)
        self.url = httpx.URL(target_url(plan.base_url, self.dialect.PATH))
        self.headers = httpx.Headers(request_headers(plan))
        self.limits = Limits(plan)
        self.deadlines = Deadlines()
        self.dimension: int | None = None
        self.tls = tls or tls_context(plan)
        # The head is one text for all requests but for the length; httpx writes it, so that it is as httpx would send.
        template = httpx.Request("POST", self.url, headers=self.headers, content=b"")
        head = serialised(template, b"")
        self._before, self._after = head.split(b"Content-Length: 0")

    def bytes_of(self, body: bytes) -> bytes:
        return b"%bContent-Length: %d%b%b" % (self._before, len(body), self._after, body)

    def hold_dimension(self, answers: Sequence[Answer]) -> None:
        """Embeddings of one model have one dimension, that of the first whole answer."""
        for answer in answers:
            if answer.dimension is None or answer.failed is not None:
                continue
            self.dimension = self.dimension or answer.dimension
            if answer.dimension != self.dimension:
                answer.fail(
                    Outcome.MALFORMED, f"an embedding of dimension {answer.dimension}, the first had {self.dimension}"
                )

    def transport(self) -> httpx.AsyncBaseTransport:
        """The transport made for measuring; httpx's own where a proxy or HTTP/2 is wanted."""
        connect = self.plan.connect
        if transport_words(self.plan) == MEASURED:
            return OneConnection(self.tls, connect.unix_socket)
        return httpx.AsyncHTTPTransport(
            verify=self.tls,
            http1=not connect.http2,
            http2=connect.http2,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=4.0),
            trust_env=False,
            proxy=httpx.Proxy(connect.proxy_url) if connect.proxy_url else None,
            uds=connect.unix_socket or None,
        )


class Slot:
    """One place of the offered concurrency: its own transport, at most one connection, one request at a time.

    `transport` stands in for the target's own where a caller has another.
    """

    def __init__(self, target: Target, number: int = 0, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.number = number
        self._target = target
        self._transport = transport or target.transport()
        self._measured = self._transport if isinstance(self._transport, OneConnection) else None
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[object] | None = None

    @property
    def items(self) -> int:
        """How many are with the server."""
        return len(self._exchange.items) if self._exchange is not None else 0

    @property
    def under_way(self) -> Exchange | None:
        """The request in flight, with all that has come of its answer."""
        self._read_all()
        return self._exchange

    @property
    def is_open(self) -> bool:
        """Whether a request would find its connection open."""
        return self._measured is None or self._measured.usable() is not None

    async def open(self) -> None:
        """Connects ahead of the first request; what hinders it will be that request's to tell."""
        if self._measured is not None:
            with contextlib.suppress(httpx.RequestError):
                await self._measured.open(self._target.url, self._target.plan.connect_timeout_s)

    async def renew(self) -> None:
        """After a pause: what expired in it is opened before it is wanted."""
        if self._measured is not None and not self.is_open and not self._measured.ended_by_server:
            await self.open()

    async def close(self) -> None:
        await self._transport.aclose()

    def interrupt(self, outcome: Outcome) -> None:
        """Ends the request in flight, if any, as `outcome`; what it had received is kept."""
        exchange = self._exchange
        if exchange is None or exchange.over.done():
            return
        self._read_all()
        exchange.expire(outcome)
        if self._task is not None:
            self._task.cancel()
        if self._measured is not None and not exchange.answer.ended_well:
            self._measured.abort()

    def expire(self, now_ns: int) -> None:
        """The deadline of the request in flight has passed."""
        self._read_all()
        exchange = self._exchange
        if exchange is not None and exchange.deadline_ns <= now_ns:  # by what was kept it may be later
            self.interrupt(exchange.limit_passed(now_ns))

    def catch_up(self, now_ns: int) -> None:
        """The first text, and the end, bring the deadline nearer: where they may be among what is kept, it is read."""
        if self._measured is not None and self._exchange is not None:
            waits_for_text = self._exchange.awaiting_answer
            self._measured.read_all(None if waits_for_text else now_ns - DEADLINES_EVERY_NS)

    def _read_all(self) -> None:
        if self._measured is not None:
            self._measured.read_all()

    async def ask(self, items: Sequence[Due], body: bytes, *, gathered_ns: int | None = None) -> Exchange:
        """Sends one request for `items` and reads its answer to the end, whatever that is. Never raises for what a
        server does."""
        target = self._target
        exchange = self._exchange = Exchange(items, target.dialect, target.limits)
        exchange.slot, exchange.gathered_ns, exchange.t_ready_ns = self.number, gathered_ns, time.monotonic_ns()
        target.deadlines.watch(exchange, self)
        try:
            await self._attempts(exchange, body)
        except Exception as error:  # noqa: BLE001 the record tells it, as client_fault
            exchange.answer.fail(Outcome.CLIENT_FAULT, f"{type(error).__name__}: {error}")
        finally:
            target.deadlines.leave(exchange)
            self._exchange = None
            if self._measured is not None and exchange.expired is not None:
                self._measured.abort()
        target.hold_dimension(exchange.answers)
        exchange.close()
        return exchange

    async def _attempts(self, exchange: Exchange, body: bytes) -> None:
        error = await self._once(exchange, body)
        if error is not None and exchange.expired is None and _is_keepalive_race(exchange, error):
            exchange.again()
            error = await self._once(exchange, body)
        if error is not None and exchange.expired is None:
            _failed(exchange, error)

    async def _once(self, exchange: Exchange, body: bytes) -> Exception | None:
        """The error that ended it, None after a whole answer or a limit."""
        if self._measured is None:
            return await self._as_task(exchange, self._through_httpx(exchange, body))
        connection = self._measured.usable()
        exchange.fresh_connection = connection is None
        if connection is None:
            exchange.wanted_connection = not self._measured.ended_by_server
            began_ns = time.monotonic_ns()
            exchange.deadline_ns = min(began_ns + 2 * self._target.limits.connect_ns, exchange.total_ns)
            error = await self._as_task(exchange, self._opened())
            exchange.connect_ns += time.monotonic_ns() - began_ns
            connection = self._measured.usable()
            if error is not None or exchange.over.done():
                return error
            if connection is None:
                return httpx.ReadError("the connection ended before the request was sent")
        connection.send(self._target.bytes_of(body), exchange, can_wait=exchange.can_wait)
        return await exchange.over

    async def _opened(self) -> Exception | None:
        assert self._measured is not None
        try:
            await self._measured.open(self._target.url, self._target.plan.connect_timeout_s)
        except httpx.RequestError as error:
            return error
        return None

    async def _as_task(self, exchange: Exchange, work: object) -> Exception | None:
        """Runs it so that `interrupt` can end it."""
        task = self._task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        try:
            found: Exception | None = await task
        except asyncio.CancelledError:
            if exchange.expired is None:
                raise
            return None
        finally:
            self._task = None
        return found

    async def _through_httpx(self, exchange: Exchange, body: bytes) -> Exception | None:
        """The same request by a standard transport: the times are those of a coroutine that is woken late."""
        target = self._target
        extensions = {"timeout": {"connect": target.plan.connect_timeout_s}, "trace": _Trace(exchange).note}
        request = httpx.Request("POST", target.url, headers=target.headers, content=body, extensions=extensions)
        exchange.fresh_connection = True  # it cannot be told, and a standard transport resends by itself or not at all
        try:
            response = await self._transport.handle_async_request(request)
            try:
                exchange.head(response.status_code, response.headers.raw, time.monotonic_ns())
                stream = response.stream
                assert isinstance(stream, httpx.AsyncByteStream)
                async for data in stream:
                    exchange.body(data, time.monotonic_ns())
            finally:
                await response.aclose()
        except httpx.RequestError as error:
            exchange.finish(error, time.monotonic_ns())
            return error
        exchange.finish(None, time.monotonic_ns())
        return None


class _Trace:
    """What httpx's own transport tells on the way: when a connection was begun, and when the request was written."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._connecting_ns: int | None = None

    async def note(self, event: str, _info: object) -> None:
        now_ns = time.monotonic_ns()
        if event.startswith("connection.connect") and event.endswith(".started"):
            self._connecting_ns = now_ns
        elif event.endswith(".send_request_headers.started") and self._connecting_ns is not None:
            self._exchange.connect_ns, self._connecting_ns = now_ns - self._connecting_ns, None
        elif event.endswith(".send_request_body.complete"):
            self._exchange.sent(now_ns)


def target_url(base_url: str, path: str) -> str:
    """`base_url` with or without its /v1."""
    return base_url.rstrip("/").removesuffix("/v1") + path


def transport_words(plan: CellPlan) -> str:
    """`headroom` for the transport made for measuring, else which standard one and why."""
    why = [word for word, wanted in (("a proxy", plan.connect.proxy_url), ("HTTP/2", plan.connect.http2)) if wanted]
    return f"httpx: {' and '.join(why)} asked for" if why else MEASURED


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
    if not plan.base_url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.create_default_context(cafile=plan.connect.ca_file or None)
    if plan.connect.client_cert_file:
        context.load_cert_chain(plan.connect.client_cert_file, plan.connect.client_key_file or None)
    return context


def _is_keepalive_race(exchange: Exchange, error: Exception) -> bool:
    """A reused connection that closed before any byte of the answer: the server's idle limit met our next request."""
    closed = isinstance(error, httpx.NetworkError) or (
        isinstance(error, httpx.RemoteProtocolError) and "disconnected" in str(error)
    )
    return closed and not exchange.fresh_connection and exchange.t_headers_ns is None


def _failed(exchange: Exchange, error: Exception) -> None:
    words = f"{type(error).__name__}: {error}"
    if exchange.answer.ended_well:
        return
    if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol)):
        outcome = Outcome.CLIENT_FAULT
    elif isinstance(error, httpx.DecodingError):
        outcome = Outcome.MALFORMED
    elif not isinstance(error, httpx.RequestError):
        outcome = Outcome.CLIENT_FAULT
    elif exchange.t_headers_ns is not None:
        outcome = Outcome.TRUNCATED
    elif isinstance(error, httpx.RemoteProtocolError) and "disconnected" not in str(error):
        outcome = Outcome.MALFORMED  # an answer, but not HTTP
    else:
        outcome = Outcome.CONNECT_ERROR
    exchange.answer.fail(outcome, words)
