"""Newline-delimited JSON from bytes, as Ollama streams it: one line is one event.

Lines end at LF; a CR before it is no part of the line, and blank lines are nothing. The last line needs no LF: what
stands before the end of the stream is an event too.
"""

from __future__ import annotations

from benchmarks.engine.sse import MOST_EVENT_BYTES, Event, TooLongError

BLANKS = b" \t\r"
BLANKS_AND_END = BLANKS + b"\n"


class Parser:
    """Feed it network reads of any size; the events do not depend on how the stream was cut."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = bytearray()  # a line that has begun

    def one(self, chunk: bytes) -> bytes:
        """A read that is exactly one line, without its end; empty where it is anything else and `feed` must see it."""
        if not self._held and chunk.find(b"\n") == len(chunk) - 1:
            return chunk.strip(BLANKS_AND_END)
        return b""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes. Raises sse.TooLongError."""
        cut = chunk.rfind(b"\n")
        if cut < 0:
            self._hold(chunk)
            return []
        whole = chunk[:cut]
        if self._held:
            whole, self._held = bytes(self._held) + whole, bytearray()
        if cut + 1 < len(chunk):
            self._hold(chunk[cut + 1 :])
        return [Event(line) for raw in whole.split(b"\n") if (line := raw.strip(BLANKS))]

    def end(self) -> list[Event]:
        """What the end of the stream completes: a last line without its LF."""
        line, self._held = bytes(self._held).strip(BLANKS), bytearray()
        return [Event(line)] if line else []

    def _hold(self, piece: bytes) -> None:
        self._held += piece
        if len(self._held) > MOST_EVENT_BYTES:
            raise TooLongError(f"a line of more than {MOST_EVENT_BYTES} bytes")
