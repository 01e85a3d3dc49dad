"""One HTTP/1.1 connection whose answers are parsed in the event loop's own callbacks, where the times are true.

A coroutine is woken twice per request, for the head and for the end of the answer, never per event: what arrives is
stamped and handed on inside `data_received`. Answers of HTTP/1.0 and 1.1 are read with any framing: chunked, with a
content-length, or up to the end of the connection. Interim answers (1xx) are skipped.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Protocol, cast

import httptools
import httpx

Sink = Callable[[bytes, int], None]
NO_BODY = frozenset({204, 304})
SWITCHING_PROTOCOLS = 101


class Receiver(Protocol):
    """Whom a request's `receiver` extension names: told what happens to it as it happens, in monotonic nanoseconds.

    `head` may return a sink; then the body goes there as it is received, the response's own stream stays empty, and
    `ended` is called once the body has ended in good order.
    """

    def connecting(self) -> None: ...

    def sent(self, t_ns: int) -> None: ...

    def head(self, response: httpx.Response, t_ns: int) -> Sink | None: ...

    def ended(self, t_ns: int) -> None: ...


class Call:
    """One request on a connection, and what has come back of it."""

    def __init__(self, receiver: Receiver | None, connection: Connection) -> None:
        self.response: asyncio.Future[httpx.Response] = asyncio.get_running_loop().create_future()
        self._receiver, self._connection = receiver, connection
        self._sink: Sink | None = None
        self._pieces: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._over = False
        self._error: Exception | None = None

    def sent(self, t_ns: int) -> None:
        if self._receiver is not None:
            self._receiver.sent(t_ns)

    def head(self, status: int, headers: list[tuple[bytes, bytes]], t_ns: int) -> None:
        response = httpx.Response(status, headers=headers, stream=Body(self))
        if self._receiver is not None:
            self._sink = self._receiver.head(response, t_ns)
        if not self.response.done():
            self.response.set_result(response)

    def body(self, data: bytes, t_ns: int) -> None:
        if self._sink is not None:
            self._sink(data, t_ns)
        else:
            self._pieces.append(data)
            self._wake()

    def finish(self, error: Exception | None, t_ns: int) -> None:
        self._over, self._error = True, error
        if error is None and self._sink is not None and self._receiver is not None:
            self._receiver.ended(t_ns)
        if not self.response.done():
            self.response.set_exception(error or httpx.RemoteProtocolError("the answer ended without a head"))
        self._wake()

    async def pieces(self) -> deque[bytes]:
        """What has arrived since, at least one piece; empty once the body has ended. Raises what went wrong."""
        while not self._pieces and not self._over:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        if not self._pieces and self._error is not None:
            raise self._error
        taken, self._pieces = self._pieces, deque()
        return taken

    def leave(self) -> None:
        """A body that is not wanted to its end costs the connection."""
        if not self._over:
            self._connection.abort()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Body(httpx.AsyncByteStream):
    """The body as httpx's responses read it."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while pieces := await self._call.pieces():
            for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        self._call.leave()


class Connection(asyncio.Protocol):
    """One exchange at a time: `send` a request, read it through the call that comes back."""

    def __init__(self) -> None:
        self.idle_since_s = time.monotonic()
        self.is_open = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)  # RFC 9112, 2.2: a bare LF may do
        self._call: Call | None = None
        self._unsent: Call | None = None
        self._reset()

    def _reset(self) -> None:
        """Ready for the next answer."""
        self._headers: list[tuple[bytes, bytes]] = []
        self._status: int | None = None
        self._told = self._complete = self._surplus = self._keep_alive = False
        self._pieces: list[bytes] = []
        self._any_byte = False

    def send(self, data: bytes, receiver: Receiver | None) -> Call:
        """Writes one request; `receiver.sent` is called once its last byte has been handed to the socket."""
        self._reset()
        call = self._call = self._unsent = Call(receiver, self)
        self._transport.write(data)
        if self._transport.get_write_buffer_size() == 0:
            self.resume_writing()
        return call

    def abort(self) -> None:
        self.is_open = False
        self._call = self._unsent = None
        self._transport.abort()

    def close(self) -> None:
        """In good order, where nothing is in flight."""
        if self._call is not None:
            self.abort()
        self.is_open = False
        self._transport.close()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # so that resume_writing means: all is with the socket
        self.is_open = True

    def resume_writing(self) -> None:
        call, self._unsent = self._unsent, None
        if call is not None:
            call.sent(time.monotonic_ns())

    def data_received(self, data: bytes) -> None:
        t_ns = time.monotonic_ns()
        if self._call is None:  # nobody asked: a server's parting word, or what follows a whole answer
            self.abort()
            return
        self._any_byte = True
        error: Exception | None = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._keep_alive = False
        except httptools.HttpParserError as fault:
            self._keep_alive, error = False, httpx.RemoteProtocolError(f"not HTTP as agreed: {fault}")
        try:
            self._hand_on(t_ns)
        except Exception as fault:  # noqa: BLE001 the request's own coroutine raises it
            self._finish(fault, t_ns)
            return
        if self._complete:
            self._finish(None, t_ns)
        elif error is not None:
            self._finish(error, t_ns)

    def eof_received(self) -> None:
        self._ended(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended(error)
        if not self.lost.done():
            self.lost.set_result(None)

    def _hand_on(self, t_ns: int) -> None:
        """What the parser has found goes to the call, which may raise."""
        call = self._call
        if call is None or self._status is None:
            return
        if not self._told:
            self._told = True
            call.head(self._status, self._head, t_ns)
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            call.body(pieces[0] if len(pieces) == 1 else b"".join(pieces), t_ns)

    def _ended(self, error: Exception | None) -> None:
        """The connection is over: for an answer read to the end of the connection that is its end."""
        self.is_open = False
        if self._call is None:
            return
        fault: Exception | None
        if self._status is None and self._any_byte:
            fault = httpx.RemoteProtocolError("the connection ended inside the head of the answer")
        elif error is not None:
            fault = httpx.ReadError(str(error) or type(error).__name__)
        elif self._status is None:
            fault = httpx.RemoteProtocolError("Server disconnected without sending a response.")
        elif self._until_close:
            fault = None
        else:
            fault = httpx.RemoteProtocolError("peer closed connection without sending complete message body")
        self._finish(fault, time.monotonic_ns())

    def _finish(self, error: Exception | None, t_ns: int) -> None:
        half_asked = self._unsent is not None  # a server that answers before it has read all is asked no more
        call, self._call, self._unsent = self._call, None, None
        self.idle_since_s = t_ns / 1_000_000_000
        if error is not None or half_asked or self._surplus or not self._keep_alive:
            self.is_open = False
            self._transport.abort()
        if call is not None:
            call.finish(error, t_ns)

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._surplus = self._complete

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        headers, self._headers = self._headers, []
        if self._surplus or (status < 200 and status != SWITCHING_PROTOCOLS):
            return
        self._status, self._head = status, headers
        framing = {name.lower(): value for name, value in headers}
        chunked = b"chunked" in framing.get(b"transfer-encoding", b"").lower()
        self._until_close = not chunked and b"content-length" not in framing

    def on_body(self, data: bytes) -> None:
        if not self._surplus:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self._status is not None and not self._surplus:
            self._complete = True
            self._keep_alive = self._parser.should_keep_alive()
