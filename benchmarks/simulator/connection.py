"""One client connection: h11 parses, every write is ours and goes out at once; kept alive between requests."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Protocol, cast

import h11

from benchmarks.simulator.asks import Refusal

MAX_BODY_BYTES = 4 * 1024 * 1024
_REASONS = {200: b"OK", 400: b"Bad Request", 401: b"Unauthorized", 404: b"Not Found", 405: b"Method Not Allowed"}


class Service(Protocol):
    """What answers requests. `serve` may answer later; `left` says that the client is gone."""

    def serve(self, connection: Connection, request: h11.Request, body: bytes) -> None:
        """Answer now or later, by this connection's start, write and end."""

    def left(self, connection: Connection) -> None:
        """The connection is lost, whatever was going on."""


class Connection(asyncio.Protocol):
    """The wire of one answer at a time. Writing after the client left does nothing."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._http = h11.Connection(h11.SERVER)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._service.left(self)

    def eof_received(self) -> bool:
        return False  # a client that stops sending has left

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            self._read_events()
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self.refuse(Refusal(status=400, message=str(error), type="BadRequestError"))
            self.close()

    def start(
        self, status: int, content_type: str, *, length: int | None = None, retry_after_s: int | None = None
    ) -> None:
        headers = [("Content-Type", content_type), ("X-Headroom-Simulated", "1")]
        headers.append(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length)))
        if retry_after_s is not None:
            headers.append(("Retry-After", str(retry_after_s)))
        self._send(h11.Response(status_code=status, headers=headers, reason=_REASONS.get(status, b"")))

    def write(self, data: bytes) -> None:
        self._send(h11.Data(data=data))

    def end(self) -> None:
        self._send(h11.EndOfMessage())
        if self._http.our_state is h11.MUST_CLOSE:
            self.close()
        elif self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._request = None
            self._body.clear()
            self._http.start_next_cycle()
            self._read_events()

    def reply(self, status: int, content_type: str, body: bytes, *, retry_after_s: int | None = None) -> None:
        """A whole answer at once."""
        self.start(status, content_type, length=len(body), retry_after_s=retry_after_s)
        self.write(body)
        self.end()

    def refuse(self, refusal: Refusal) -> None:
        self.reply(refusal.status, "application/json", refusal.body(), retry_after_s=refusal.retry_after_s)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """A zero linger makes the kernel send RST in place of FIN."""
        if self._transport is not None:
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        data = self._http.send(event)
        if data:
            self._transport.write(data)

    def _read_events(self) -> None:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Request):
                self._request = event
                self._expect()
            elif isinstance(event, h11.Data):
                self._take(event.data)
            elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                self._service.serve(self, self._request, bytes(self._body))
            elif isinstance(event, h11.ConnectionClosed):
                self.close()
                return

    def _expect(self) -> None:
        if self._http.they_are_waiting_for_100_continue and self._transport is not None:
            data = self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
            self._transport.write(data or b"")

    def _take(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > MAX_BODY_BYTES:
            raise h11.RemoteProtocolError(f"The body is longer than {MAX_BODY_BYTES} bytes.", error_status_hint=413)
