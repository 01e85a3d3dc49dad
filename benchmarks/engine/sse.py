"""Server-sent events from bytes, by the letter of the WHATWG specification ("9.2.6 Interpreting an event stream").

Lines end at LF, CRLF or CR and at nothing else: `str.splitlines` would also cut at U+2028 or U+0085, which may stand
raw inside JSON. Lines are assembled as bytes, so a character cut between two network reads is whole again before
anything decodes it. An event that the stream's end leaves without its blank line is discarded, as the specification
says.
"""

from __future__ import annotations

from typing import NamedTuple

BOM = b"\xef\xbb\xbf"
# A server that never ends a line or an event must not take the client's memory.
MOST_EVENT_BYTES = 8 * 1024 * 1024
LINE_BYTES = 64  # what a line of an event costs, whatever its length


class Event(NamedTuple):
    """One dispatched event: its data lines joined with LF, and its type where the server named one."""

    data: bytes
    kind: bytes = b""


class TooLongError(ValueError):
    """An event beyond MOST_EVENT_BYTES; nothing after it can be understood."""


class Parser:
    """Feed it network reads of any size; the events do not depend on how the stream was cut."""

    __slots__ = ("_between", "_data", "_first_line", "_held", "_kind", "_swallow_lf", "_tail")

    def __init__(self) -> None:
        self._tail = bytearray()  # a line that has begun
        self._swallow_lf = False
        self._first_line = True
        self._data: list[bytes] = []
        self._held = 0
        self._kind = b""
        self._between = False  # after the first line, nothing of the next event has come yet

    def one(self, chunk: bytes) -> bytes:
        """The data of a read that is exactly one event of one `data: ` line, as nearly every read is; empty where it is
        anything else and `feed` must see it."""
        if (
            self._between
            and chunk.find(b"\n") == len(chunk) - 2
            and chunk.endswith(b"\n")
            and chunk.startswith(b"data: ")
            and b"\r" not in chunk
        ):
            return chunk[6:-2]
        return b""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes. Comments and unknown fields complete nothing. Raises TooLongError."""
        if self._between and chunk[:6] == b"data: " and chunk[-2:] == b"\n\n" and b"\r" not in chunk:
            found = _plain(chunk)
            if found is not None:
                return found
        return self._feed(chunk)

    def end(self) -> list[Event]:
        """What the end of the stream completes: nothing."""
        return []

    def _feed(self, chunk: bytes) -> list[Event]:
        if self._swallow_lf and chunk:
            chunk = chunk.removeprefix(b"\n")  # the LF of a CRLF whose CR ended the read before
            self._swallow_lf = False
        if b"\r" in chunk:
            self._swallow_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, begun = (bytes(self._tail) + chunk if b"\n" in chunk else chunk).split(b"\n")
        if lines:
            self._tail.clear()
        self._tail += begun
        events: list[Event] = []
        for line in lines:
            if self._first_line:
                line = line.removeprefix(BOM)
                self._first_line = False
            if line:
                self._field(line)
            else:
                self._dispatch(events)
        self._between = not (self._tail or self._data or self._kind or self._first_line or self._swallow_lf)
        if self._held + len(self._tail) > MOST_EVENT_BYTES:
            raise TooLongError(f"an event of more than {MOST_EVENT_BYTES} bytes")
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._held += len(value) + LINE_BYTES
        elif name == b"event":
            self._kind = value.removeprefix(b" ")

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event(b"\n".join(self._data), self._kind))
            self._data, self._held = [], 0
        self._kind = b""


def _plain(chunk: bytes) -> list[Event] | None:
    """The events of a read that holds whole events of one `data: ` line each, as nearly every read does; else None."""
    if chunk.find(b"\n") == len(chunk) - 2:
        return [Event(chunk[6:-2])]
    pieces = chunk[:-2].split(b"\n\n")
    if all(piece[:6] == b"data: " and b"\n" not in piece for piece in pieces):
        return [Event(piece[6:]) for piece in pieces]
    return None
