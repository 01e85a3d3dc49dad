"""Server-sent events from bytes, by the letter of the WHATWG specification ("9.2.6 Interpreting an event stream").

Lines end at LF, CRLF or CR and at nothing else: `str.splitlines` would also cut at U+2028 or U+0085, which may stand
raw inside JSON. Lines are assembled as bytes, so a character cut between two network reads is whole again before
anything decodes it. An event that the stream's end leaves without its blank line is discarded, as the specification
says.
"""

from __future__ import annotations

from typing import NamedTuple

BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One dispatched event: its data lines joined with LF, and its type where the server named one."""

    data: bytes
    kind: bytes = b""


class Parser:
    """Feed it network reads of any size; the events do not depend on how the stream was cut."""

    def __init__(self) -> None:
        self._tail = b""
        self._swallow_lf = False
        self._first_line = True
        self._data: list[bytes] = []
        self._kind = b""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes. Comments and unknown fields complete nothing."""
        if self._swallow_lf and chunk:
            chunk = chunk.removeprefix(b"\n")  # the LF of a CRLF whose CR ended the read before
            self._swallow_lf = False
        if b"\r" in chunk:
            self._swallow_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._tail = (self._tail + chunk).split(b"\n")
        events: list[Event] = []
        for line in lines:
            if self._first_line:
                line = line.removeprefix(BOM)
                self._first_line = False
            if line:
                self._field(line)
            else:
                self._dispatch(events)
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._kind = value.removeprefix(b" ")

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event(b"\n".join(self._data), self._kind))
            self._data = []
        self._kind = b""
