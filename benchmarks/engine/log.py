"""The append-only log of a cell: one magic line, then framed, checksummed records.

Layout: `HEADROOM-LOG 2\\n`, then per frame a little-endian u32 payload length, a u32 CRC-32 of the payload, and the
payload, MessagePack of one `terms.Frame`. A reader stops at the first frame that is short, fails its checksum or does
not decode; everything before it stands. Reading goes through the file in pieces, so a log may be larger than memory.
"""

from __future__ import annotations

import io
import os
import struct
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
BUFFER_BYTES = 128 * 1024  # written in one go by the event loop: a fraction of a millisecond
READ_BYTES = 1024 * 1024


class NotALogError(ValueError):
    """The file does not begin with this version's magic line."""


class LogWriter:
    """Appends frames through a buffer; `close` flushes and fsyncs. The file must not exist yet: a log is written once,
    and only `resume` goes on with one."""

    def __init__(self, path: Path, *, keep_bytes: int = 0) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        if keep_bytes:
            self._file = path.open("r+b", buffering=BUFFER_BYTES)
            self._file.truncate(keep_bytes)
            self._file.seek(keep_bytes)
        else:
            self._file = path.open("xb", buffering=BUFFER_BYTES)
            self._file.write(MAGIC)

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
        self._file.write(FRAME_HEAD.pack(len(payload), zlib.crc32(payload)) + payload)

    def flush(self) -> None:
        """Hands what is buffered to the operating system, so that a killed process loses only what came after."""
        self._file.flush()

    def sync(self) -> None:
        """Waits until what was appended is on the disk, so that a loss of power loses only what came after."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file.closed:
            return
        self.sync()
        self._file.close()

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
