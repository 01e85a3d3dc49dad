"""The append-only log of a cell: one magic line, then framed, checksummed records.

Layout: `HEADROOM-LOG 2\\n`, then per frame a little-endian u32 payload length, a u32 CRC-32 of the payload, and the
payload, MessagePack of one `terms.Frame`. A reader stops at the first frame that is short, fails its checksum or does
not decode; everything before it stands. Reading goes through the file in pieces, so a log may be larger than memory.
"""

from __future__ import annotations

import io
import os
import queue
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from benchmarks.engine.terms import Frame

SCHEMA_VERSION = 2
MAGIC = b"HEADROOM-LOG %d\n" % SCHEMA_VERSION
FRAME_HEAD = struct.Struct("<II")
# A longer frame can only be a damaged length: one record with a gap per token stays far below it.
MAX_FRAME_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 64 * 1024
READ_BYTES = 1024 * 1024


class NotALogError(ValueError):
    """The file does not begin with this version's magic line."""


class LogWriter:
    """Appends frames; a thread of its own writes them, since a disk may take milliseconds that an event loop has not.

    What the disk refuses is raised at the next hand-over, flush, sync or close. The file must not exist yet: a log is
    written once, and only `resume` goes on with one.
    """

    def __init__(self, path: Path, *, keep_bytes: int = 0) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._pending = bytearray()
        self._pieces: queue.SimpleQueue[bytes | threading.Event | None] = queue.SimpleQueue()
        self._failed: OSError | None = None
        self._file = path.open("r+b" if keep_bytes else "xb", buffering=0)
        if keep_bytes:
            self._file.truncate(keep_bytes)
            self._file.seek(keep_bytes)
        else:
            self._file.write(MAGIC)
        threading.Thread(target=self._write, name="log", daemon=True).start()

    @classmethod
    def resume(cls, path: Path) -> LogWriter:
        """Goes on with a log that a killed process left: the torn tail is cut, all whole frames stand.

        A file that ends within its magic line is begun anew. What changed clocks is the caller's to append, as
        `terms.Resumed`. Raises NotALogError and FileNotFoundError.
        """
        keep_bytes = whole_bytes(path)
        if not keep_bytes:
            path.unlink()
        return cls(path, keep_bytes=keep_bytes)

    def append(self, frame: Frame) -> None:
        payload = self._encoder.encode(frame)
        self._pending += FRAME_HEAD.pack(len(payload), zlib.crc32(payload)) + payload
        if len(self._pending) >= PIECE_BYTES:
            self.hand_over()

    def hand_over(self) -> None:
        """What was appended is the writing thread's now."""
        if self._failed is not None:
            raise self._failed
        if self._pending:
            self._pieces.put(bytes(self._pending))
            self._pending.clear()

    def flush(self) -> None:
        """Waits until what was appended is with the operating system, so that a killed process loses only what came
        after."""
        self.hand_over()
        self._wait()

    def sync(self) -> None:
        """Waits until what was appended is on the disk, so that a loss of power loses only what came after."""
        self.hand_over()
        self.settle()

    def settle(self) -> None:
        """The same of what was handed over; any thread may wait for it."""
        self._wait()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            self.sync()
        finally:
            self._pieces.put(None)
            self._file.close()

    def _wait(self) -> None:
        written = threading.Event()
        self._pieces.put(written)
        written.wait()
        if self._failed is not None:
            raise self._failed

    def _write(self) -> None:
        while (piece := self._pieces.get()) is not None:
            if isinstance(piece, threading.Event):
                piece.set()
            elif self._failed is None:
                self._write_whole(memoryview(piece))

    def _write_whole(self, left: memoryview) -> None:
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._failed = error

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def frames_in(data: bytes) -> Iterator[Frame]:
    """The whole frames of `data`, in order, up to the first torn or corrupt one. Raises NotALogError."""
    return (frame for _, frame in _placed(io.BytesIO(data)))


def read_frames(path: Path) -> Iterator[Frame]:
    """Like `frames_in`, of a file, without ever holding all of it."""
    with path.open("rb", buffering=0) as file:
        for _, frame in _placed(file):
            yield frame


def whole_bytes(path: Path) -> int:
    """How much of the file is magic line and whole frames; 0 where not even the magic line is. Raises NotALogError."""
    with path.open("rb", buffering=0) as file:
        head = file.read(len(MAGIC))
        if head != MAGIC and MAGIC.startswith(head):
            return 0
        file.seek(0)
        return max((end for end, _ in _placed(file)), default=len(MAGIC))


def _placed(file: BinaryIO | io.RawIOBase) -> Iterator[tuple[int, Frame]]:
    """(where in the file it ends, frame), one after the other."""
    head = file.read(len(MAGIC)) or b""
    if head != MAGIC:
        raise NotALogError(f"expected {MAGIC!r} at the start, found {head!r}")
    decoder = msgspec.msgpack.Decoder(Frame)
    held, at, ended = b"", 0, len(MAGIC)
    while True:
        while at + FRAME_HEAD.size <= len(held):
            length, checksum = FRAME_HEAD.unpack_from(held, at)
            start = at + FRAME_HEAD.size
            if length > MAX_FRAME_BYTES:
                return
            if start + length > len(held):
                break
            payload = memoryview(held)[start : start + length]
            if zlib.crc32(payload) != checksum:
                return
            try:
                frame = decoder.decode(payload)
            except msgspec.DecodeError:
                return
            at = start + length
            ended += FRAME_HEAD.size + length
            yield ended, frame
        more = file.read(READ_BYTES)
        if not more:
            return
        held, at = held[at:] + more, 0
