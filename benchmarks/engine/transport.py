"""httpx's transport interface over one connection of our own: what a slot sends through.

httpx's own transport costs several milliseconds per request and half a millisecond per event, which a load engine
would measure as the server's. httpx's types stay the seam, so any other transport can stand here. What goes wrong is
raised as httpx raises it. No retries, no proxies, no redirects, no cookies.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import cast

import httpx

from benchmarks.engine.connection import Connection, Receiver

# Below the 5 s after which vLLM and SGLang close an idle connection, so that the client closes first.
KEEPALIVE_EXPIRY_S = 4.0
# How long a TLS connection may take to part; the other side need not answer.
TLS_SHUTDOWN_S = 1.0
NOT_IN_A_HEADER = (b"\r", b"\n", b"\0")


class OneConnection(httpx.AsyncBaseTransport):
    """At most one connection, one request at a time.

    A request's extensions may name a `receiver` (connection.Receiver) and httpx's `timeout` with its `connect` seconds.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._connection: Connection | None = None

    async def open(self, url: httpx.URL, connect_timeout_s: float | None) -> Connection:
        """The open connection, or a fresh one. Raises httpx.ConnectError, httpx.ConnectTimeout."""
        connection = self._usable()
        if connection is None:
            connection = self._connection = await self._connect(url, connect_timeout_s)
        return connection

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Returns once the head of the answer is there. Raises httpx.RequestError."""
        receiver = cast("Receiver | None", request.extensions.get("receiver"))
        data = serialised(request, await request.aread())
        if receiver is not None and self._usable() is None:
            receiver.connecting()
        connection = await self.open(request.url, request.extensions.get("timeout", {}).get("connect"))
        call = connection.send(data, receiver)
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

    def _usable(self) -> Connection | None:
        connection = self._connection
        if connection is None or not connection.is_open:
            return None
        if time.monotonic() - connection.idle_since_s < KEEPALIVE_EXPIRY_S:
            return connection
        connection.close()
        return None

    async def _connect(self, url: httpx.URL, timeout_s: float | None) -> Connection:
        secure = url.scheme == "https"
        try:
            async with asyncio.timeout(timeout_s) as limit:
                _, connection = await asyncio.get_running_loop().create_connection(
                    Connection,
                    url.host,
                    url.port or (443 if secure else 80),
                    ssl=self._tls if secure else None,
                    ssl_shutdown_timeout=TLS_SHUTDOWN_S if secure else None,
                )
        except OSError as error:  # TimeoutError and ssl.SSLError are among them
            if limit.expired():
                raise httpx.ConnectTimeout(f"no connection within {timeout_s:g} s") from error
            raise httpx.ConnectError(str(error) or type(error).__name__) from error
        return connection


def serialised(request: httpx.Request, body: bytes) -> bytes:
    """The request as HTTP/1.1 bytes. Raises httpx.LocalProtocolError where a header would end its own line."""
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    for name, value in request.headers.raw:
        if any(mark in name or mark in value for mark in NOT_IN_A_HEADER):
            raise httpx.LocalProtocolError(f"header {name!r} holds a line end or a null byte")
        lines.append(b"%s: %s" % (name, value))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
