"""One HTTP/1.1 connection whose answers are parsed in the event loop's own callbacks, where the times are true.

What arrives is stamped and handed on inside `data_received`; what is sent goes to the socket at once, not at the end of
the loop's turn. Answers of HTTP/1.0 and 1.1 are read with any framing: chunked, with a content-length, or up to the end
of the connection. Interim answers (1xx) are skipped.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Protocol, cast

import httptools
import httpx

Headers = list[tuple[bytes, bytes]]
SWITCHING_PROTOCOLS = 101
# Headers, trailers or chunk extensions without end must not take the client's memory.
MOST_BARE_BYTES = 256 * 1024
NS = 1_000_000_000
LINE_END = b"\r\n"
MOST_LENGTH_DIGITS = 6
# A read of a chunked event stream that ends so ends an event and a chunk; as many are kept at most, and none so long.
EVENT_END = b"\n\n\r\n"
MOST_KEPT, LONG_READ_BYTES = 8, 4096
MARKER, MARKER_WITHIN = b"[DONE]", 20
HEX = frozenset(b"0123456789abcdefABCDEF")
MOST_LENGTHS = 4096
NO_LENGTH = -(2**31)
LENGTHS: dict[bytes, int] = {}


class Receiver(Protocol):
    """Whom an answer is told to, as it happens, in monotonic nanoseconds. Each but `body` is called at most once."""

    def sent(self, t_ns: int, /) -> None:
        """The last byte of the request has been handed to the socket."""

    def head(self, status: int, headers: Headers, t_ns: int, /) -> None:
        """Header names as the server spelled them."""

    def body(self, data: bytes, t_ns: int, /) -> None: ...

    def finish(self, error: Exception | None, t_ns: int, /) -> None:
        """Over: None in good order, else an httpx.RequestError, or whatever `head` or `body` raised."""


class Connection(asyncio.Protocol):
    """One exchange at a time."""

    __slots__ = (
        "_any_byte", "_at_boundary", "_bare_bytes", "_complete", "_descriptor", "_headers", "_keep_alive", "_keeps",
        "_kept", "_kept_ns", "_may_keep", "_parser", "_pieces", "_receiver", "_status", "_surplus", "_told",
        "_transport", "_unsent", "_until_close", "ended_by_server", "idle_since_s", "is_open", "lost",
    )  # fmt: skip

    def __init__(self) -> None:
        self.idle_since_s = time.monotonic()
        self.is_open = False
        self.ended_by_server = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)  # RFC 9112, 2.2: a bare LF may do
        self._receiver: Receiver | None = None
        self._unsent = False
        self._descriptor = -1
        self._reset()

    def _reset(self) -> None:
        """Ready for the next answer."""
        self._headers: Headers = []
        self._status: int | None = None
        self._told = self._complete = self._surplus = self._keep_alive = self._until_close = False
        self._pieces: list[bytes] = []
        self._any_byte = False
        self._bare_bytes = 0
        self._may_keep = self._keeps = False
        self._kept: list[bytes] = []
        self._kept_ns: list[int] = []
        self._at_boundary = False  # between two chunks of a chunked body, all that came before is with the receiver

    def send(self, data: bytes, receiver: Receiver, *, can_wait: bool = False) -> None:
        """Writes one request and hands what comes back to `receiver`, which may be told of a failure before this
        returns. A receiver that `can_wait` is told of an event stream's middle some reads at a time, each with the time
        that it came at; whoever must know at once calls `read_all`."""
        self._reset()
        self._may_keep = can_wait
        self._receiver = receiver
        if self._descriptor >= 0:
            try:
                written = os.write(self._descriptor, data)
            except BlockingIOError:
                written = 0
            except OSError as error:
                self._ended(error)
                return
            if written == len(data):
                receiver.sent(time.monotonic_ns())
                return
            data = data[written:]
        self._unsent = True
        self._transport.write(data)
        if self._transport.get_write_buffer_size() == 0:
            self.resume_writing()

    def abort(self) -> None:
        """Ends it at once; nobody is told. It was the server's doing: it stalled, or spoke unasked."""
        self.ended_by_server |= self.is_open
        self.is_open = False
        self._receiver, self._unsent, self._keeps = None, False, False
        self._transport.abort()

    def close(self) -> None:
        """In good order, where nothing is in flight."""
        if self._receiver is not None:
            self.abort()
        self.is_open = False
        self._transport.close()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # so that resume_writing means: all is with the socket
        if transport.get_extra_info("sslcontext") is None:
            self._descriptor = transport.get_extra_info("socket").fileno()
        self.is_open = True

    def resume_writing(self) -> None:
        if self._unsent and self._receiver is not None:
            self._unsent = False
            self._receiver.sent(time.monotonic_ns())

    def data_received(self, data: bytes) -> None:
        """Reads that end with an event are kept with their times and understood together: the code that understands them
        is then at hand for all but the first, which halves what an event takes. A read that ends otherwise, or with the
        stream's end marker, ends the keeping."""
        t_ns = time.monotonic_ns()
        if self._keeps:
            if data.endswith(EVENT_END) and data.find(MARKER, -MARKER_WITHIN) < 0 and len(data) < LONG_READ_BYTES:
                kept = self._kept
                kept.append(data)
                self._kept_ns.append(t_ns)
                if len(kept) == MOST_KEPT:
                    self.read_all()
                return
            self.read_all()
        self._take(data, t_ns)

    def read_all(self) -> None:
        """The receiver is told of all that has come so far."""
        kept, times = self._kept, self._kept_ns
        if kept:
            self._kept, self._kept_ns = [], []
            for data, t_ns in zip(kept, times, strict=True):
                if self._receiver is not None:
                    self._take(data, t_ns)

    def is_quiet_since(self, t_ns: int) -> bool:
        """Whether something is kept, and nothing came after `t_ns`."""
        return bool(self._kept_ns) and self._kept_ns[-1] <= t_ns

    def _take(self, data: bytes, t_ns: int) -> None:
        receiver = self._receiver
        if receiver is None:  # nobody asked: a server's parting word, or what follows a whole answer
            self.abort()
            return
        if self._at_boundary:
            at = data.find(LINE_END, 1, MOST_LENGTH_DIGITS + 2)
            length = LENGTHS.get(data[:at]) or length_of(data[:at])
            if length == len(data) - at - 4 and data[-2:] == LINE_END:
                # Exactly one chunk, as nearly every read of a stream is. The parser waits for a length between two
                # chunks, and is left waiting: it need not see this one.
                try:
                    receiver.body(data[at + 2 : -2], t_ns)
                except Exception as fault:  # noqa: BLE001 the receiver is told
                    self._finish(fault, t_ns)
                return
        self._any_byte = True
        self._at_boundary = False
        error: Exception | None = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._keep_alive = False
        except httptools.HttpParserError as fault:
            self._keep_alive, error = False, httpx.RemoteProtocolError(f"not HTTP as agreed: {fault}")
        try:
            if not self._told and self._status is not None:
                self._told = True
                receiver.head(self._status, self._headers, t_ns)
            pieces = self._pieces
            if pieces:
                self._pieces, self._bare_bytes = [], 0
                receiver.body(pieces[0] if len(pieces) == 1 else b"".join(pieces), t_ns)
            elif error is None:
                self._bare_bytes += len(data)
                if self._bare_bytes > MOST_BARE_BYTES:
                    raise httpx.RemoteProtocolError(f"not HTTP as agreed: {MOST_BARE_BYTES} bytes and no body")
        except Exception as fault:  # noqa: BLE001 the receiver is told
            self._finish(fault, t_ns)
            return
        if self._complete:
            self._finish(None, t_ns)
        elif error is not None:
            self._finish(error, t_ns)
        elif self._at_boundary:
            self._at_boundary = data[-2:] == LINE_END  # else the next chunk's length has begun to arrive
            self._keeps = self._may_keep and self._at_boundary and data.endswith(EVENT_END)

    def eof_received(self) -> None:
        self._ended(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended(error)
        if not self.lost.done():
            self.lost.set_result(None)

    def _ended(self, error: Exception | None) -> None:
        """The connection is over: for an answer read to the end of the connection that is its end."""
        self.ended_by_server |= self.is_open
        self.is_open = False
        self.read_all()
        if self._receiver is None:
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
        half_asked, self._unsent = self._unsent, False  # a server that answers before it has read all is asked no more
        receiver, self._receiver = self._receiver, None
        self._keeps = False
        self.idle_since_s = t_ns / NS
        if error is not None or half_asked or self._surplus or not self._keep_alive:
            self.ended_by_server = True
            self.is_open = False
            self._transport.abort()
        if receiver is not None:
            receiver.finish(error, t_ns)

    # What the parser calls.

    def on_chunk_header(self) -> None:
        self._at_boundary = False

    def on_chunk_complete(self) -> None:
        self._at_boundary = self._status is not None and not self._surplus and not self._complete

    def on_message_begin(self) -> None:
        self._surplus = self._complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._status is None:  # else it is a trailer's, or of what follows the answer
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._surplus:
            return
        if 100 <= status < 200 and status != SWITCHING_PROTOCOLS:
            self._headers = []
            return
        self._status = status
        framing = {name.lower(): value for name, value in self._headers}
        chunked = b"chunked" in framing.get(b"transfer-encoding", b"").lower()
        self._until_close = not chunked and b"content-length" not in framing

    def on_body(self, data: bytes) -> None:
        if not self._surplus:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self._status is not None and not self._surplus:
            self._complete = True
            self._keep_alive = self._parser.should_keep_alive()


def length_of(digits: bytes) -> int:
    """A chunk's length from its hexadecimal digits; a length that none has for the last one and for anything else."""
    if not digits or not HEX.issuperset(digits) or int(digits, 16) == 0:
        return NO_LENGTH
    length = int(digits, 16)
    if len(LENGTHS) < MOST_LENGTHS:
        LENGTHS[digits] = length
    return length
