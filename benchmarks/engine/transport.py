"""One connection to a target, as a slot holds it, and httpx's transport interface over it.

httpx's own transport costs several milliseconds per request and half a millisecond per event, which a load engine
would measure as the server's. A slot hands its receiver to the connection itself; everybody else goes through httpx's
requests and responses. What goes wrong is raised as httpx raises it. No retries, no proxies, no redirects, no cookies.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator

import httpx

from benchmarks.engine.connection import Connection, Headers

# Below the 5 s after which vLLM and SGLang close an idle connection, so that the client closes first.
KEEPALIVE_EXPIRY_S = 4.0
# How long a TLS connection may take to part; the other side need not answer.
TLS_SHUTDOWN_S = 1.0
NOT_IN_A_HEADER = (b"\r", b"\n", b"\0")


class OneConnection(httpx.AsyncBaseTransport):
    """At most one connection, one request at a time; over a unix socket where one is named.

    A request's `timeout` extension may name `connect` seconds.
    """

    def __init__(self, tls: ssl.SSLContext, unix_socket: str = "") -> None:
        self._tls = tls
        self._unix_socket = unix_socket
        self._connection: Connection | None = None

    def usable(self) -> Connection | None:
        """The open connection, if there is one that the server has not had time to give up."""
        connection = self._connection
        if connection is None or not connection.is_open:
            return None
        if time.monotonic() - connection.idle_since_s < KEEPALIVE_EXPIRY_S:
            return connection
        connection.close()
        return None

    @property
    def ended_by_server(self) -> bool:
        """Whether it was the server that ended the last connection: opening another is then its doing."""
        return self._connection is not None and self._connection.ended_by_server

    async def open(self, url: httpx.URL, connect_timeout_s: float | None) -> Connection:
        """The open connection, or a fresh one. Raises httpx.ConnectError, httpx.ConnectTimeout."""
        connection = self.usable()
        if connection is None:
            connection = self._connection = await self._connect(url, connect_timeout_s)
            if not connection.is_open:
                raise httpx.ConnectError("the connection ended before anything was sent")
        return connection

    def read_all(self, quiet_since_ns: int | None = None) -> None:
        """Whoever waits for an answer is told of all that has come of it; with a time, only if nothing has since."""
        connection = self._connection
        if connection is not None and (quiet_since_ns is None or connection.is_quiet_since(quiet_since_ns)):
            connection.read_all()

    def abort(self) -> None:
        """Ends the connection and whatever is under way on it; nobody is told."""
        if self._connection is not None:
            self._connection.abort()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Returns once the head of the answer is there. Raises httpx.RequestError."""
        data = serialised(request, await request.aread())
        connection = await self.open(request.url, request.extensions.get("timeout", {}).get("connect"))
        call = Call(connection)
        connection.send(data, call)
        try:
            return await call.response
        except BaseException:
            connection.abort()
            raise

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            await connection.lost

    async def _connect(self, url: httpx.URL, timeout_s: float | None) -> Connection:
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return await self._reached(url)
        except OSError as error:  # TimeoutError and ssl.SSLError are among them
            if limit.expired():
                raise httpx.ConnectTimeout(f"no connection within {timeout_s:g} s") from error
            raise httpx.ConnectError(str(error) or type(error).__name__) from error

    async def _reached(self, url: httpx.URL) -> Connection:
        loop = asyncio.get_running_loop()
        secure = url.scheme == "https"
        tls = self._tls if secure else None
        parting_s = TLS_SHUTDOWN_S if secure else None
        if self._unix_socket:
            host = url.host if secure else None
            _, connection = await loop.create_unix_connection(
                Connection, self._unix_socket, ssl=tls, server_hostname=host, ssl_shutdown_timeout=parting_s
            )
        else:
            port = url.port or (443 if secure else 80)
            _, connection = await loop.create_connection(
                Connection, url.host, port, ssl=tls, ssl_shutdown_timeout=parting_s
            )
        return connection


class Call:
    """A receiver that turns an answer into an httpx response, whose body waits to be read."""

    def __init__(self, connection: Connection) -> None:
        self.response: asyncio.Future[httpx.Response] = asyncio.get_running_loop().create_future()
        self._connection = connection
        self._pieces: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._over = False
        self._error: Exception | None = None

    def sent(self, _t_ns: int) -> None: ...

    def head(self, status: int, headers: Headers, _t_ns: int) -> None:
        if not self.response.done():
            self.response.set_result(httpx.Response(status, headers=headers, stream=Body(self)))

    def body(self, data: bytes, _t_ns: int) -> None:
        self._pieces.append(data)
        self._wake()

    def finish(self, error: Exception | None, _t_ns: int) -> None:
        self._over, self._error = True, error
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


def serialised(request: httpx.Request, body: bytes) -> bytes:
    """The request as HTTP/1.1 bytes. Raises httpx.LocalProtocolError where a header would end its own line."""
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    for name, value in request.headers.raw:
        if any(mark in name or mark in value for mark in NOT_IN_A_HEADER):
            raise httpx.LocalProtocolError(f"header {name!r} holds a line end or a null byte")
        lines.append(b"%s: %s" % (name, value))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
