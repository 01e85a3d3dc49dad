"""One client connection: httptools parses, every write is ours and goes out at once; kept alive between requests.

A write is one HTTP chunk in one call of the socket, framed before it is stamped, so the stamp lies next to the kernel.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections import deque
from http import HTTPStatus
from typing import Protocol, cast

import httptools
import msgspec

from benchmarks.simulator.asks import Refusal

MAX_BODY_BYTES = 4 * 1024 * 1024
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Request(msgspec.Struct, frozen=True):
    """Names of headers are lower-case. `t_received_ns`: when its last byte was read, monotonic."""

    method: str
    target: str
    headers: dict[bytes, bytes]
    body: bytes
    t_received_ns: int
    keep_alive: bool
    http_1_0: bool

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class Service(Protocol):
    """What answers requests. `serve` may answer later; `left` says that the client is gone."""

    def serve(self, connection: Connection, request: Request) -> None:
        """Answer now or later, by this connection's start, write and end."""

    def left(self, connection: Connection) -> None:
        """The connection is lost, whatever was going on."""


class Connection(asyncio.Protocol):
    """The wire of one answer at a time. Writing after the client left does nothing."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._current: Request | None = None
        self._started = self._chunked = self._last = False
        self._too_long = self._serving = False
        self._read_ns = 0
        self.on_message_begin()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._service.left(self)

    def eof_received(self) -> bool:
        return False  # a client that stops sending has left

    def data_received(self, data: bytes) -> None:
        self._read_ns = time.monotonic_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the request is answered as it stands; nothing is upgraded
        except httptools.HttpParserError as error:
            self._misunderstood(400, str(error))
            return
        if self._too_long:
            self._misunderstood(413, f"The body is longer than {MAX_BODY_BYTES} bytes.")
            return
        self._serve_next()

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._body = bytearray()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        if self._headers.get(b"expect", b"").lower() == b"100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        self._too_long = self._too_long or len(self._body) + len(data) > MAX_BODY_BYTES
        if not self._too_long:
            self._body += data

    def on_message_complete(self) -> None:
        request = Request(
            method=self._parser.get_method().decode("ascii", "replace"),
            target=self._target.decode("ascii", "replace"),
            headers=self._headers,
            body=bytes(self._body),
            t_received_ns=self._read_ns,
            keep_alive=self._parser.should_keep_alive(),
            http_1_0=self._parser.get_http_version() == "1.0",
        )
        self._waiting.append(request)

    # What an answer calls.

    def start(
        self, status: int, content_type: str, *, length: int | None = None, retry_after_s: int | None = None
    ) -> int:
        """Send the head; without a length the body is chunked. Returns when, in monotonic nanoseconds."""
        return self._send(self._head(status, content_type, length, retry_after_s))

    def write(self, data: bytes) -> int:
        """Send a piece of the body now. Returns the moment before it was handed to the socket."""
        return self._send(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        if self._chunked:
            self._send(b"0\r\n\r\n")
        self._current = None
        self._started = False
        if self._last:
            self.close()
        else:
            self._serve_next()

    def reply(self, status: int, content_type: str, body: bytes, *, retry_after_s: int | None = None) -> int:
        """A whole answer in one write."""
        head = self._head(status, content_type, len(body), retry_after_s)
        asked_for_head = self._current is not None and self._current.method == "HEAD"
        written_ns = self._send(head if asked_for_head else head + body)
        self.end()
        return written_ns

    def refuse(self, refusal: Refusal, body: bytes | None = None) -> None:
        self.reply(refusal.status, "application/json", body or refusal.body(), retry_after_s=refusal.retry_after_s)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """A zero linger makes the kernel send RST in place of FIN."""
        if self._transport is not None:
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _head(self, status: int, content_type: str, length: int | None, retry_after_s: int | None) -> bytes:
        self._started = True
        old = self._current is not None and self._current.http_1_0  # knows no chunks: the body ends with the connection
        self._chunked = length is None and not old
        lines = [
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Overloaded')}",
            f"content-type: {content_type}",
            "x-headroom-simulated: 1",
        ]
        if length is not None:
            lines.append(f"content-length: {length}")
        elif self._chunked:
            lines.append("transfer-encoding: chunked")
        if retry_after_s is not None:
            lines.append(f"retry-after: {retry_after_s}")
        self._last = self._current is None or not self._current.keep_alive or (length is None and old)
        if self._last:
            lines.append("connection: close")
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def _send(self, data: bytes) -> int:
        transport = self._transport
        now_ns = time.monotonic_ns()
        if transport is not None and not transport.is_closing():
            transport.write(data)
        return now_ns

    def _misunderstood(self, status: int, message: str) -> None:
        """What cannot be parsed ends the connection, with a word where no answer is under way."""
        if not self._started:
            self._current = None
            self.refuse(Refusal(status=status, message=message, type="BadRequestError"))
        self.close()

    def _serve_next(self) -> None:
        """One after the other; an answer that ends at once comes back here, where the loop already runs."""
        if self._serving:
            return
        self._serving = True
        while self._current is None and self._waiting and self._transport is not None:
            self._current = self._waiting.popleft()
            self._service.serve(self, self._current)
        self._serving = False
