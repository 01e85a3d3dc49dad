"""The append-only log of a cell: one magic line, then framed, checksummed records.

Layout: `HEADROOM-LOG 2\\n`, then per frame a little-endian u32 payload length, a u32 CRC-32 of the payload, and the
payload, MessagePack of one `terms.Frame`. A reader stops at the first frame that is short, fails its checksum or does
not decode; everything before it stands.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from benchmarks.engine.terms import Frame

SCHEMA_VERSION = 2
MAGIC = b"HEADROOM-LOG %d\n" % SCHEMA_VERSION
FRAME_HEAD = struct.Struct("<II")
# A longer frame can only be a damaged length: one record with a gap per token stays far below it.
MAX_FRAME_BYTES = 64 * 1024 * 1024
BUFFER_BYTES = 128 * 1024  # written in one go by the event loop: a fraction of a millisecond


class NotALogError(ValueError):
    """The file does not begin with this version's magic line."""


class LogWriter:
    """Appends frames through a buffer; `close` flushes and fsyncs. The file must not exist yet: a log is written
    once."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=BUFFER_BYTES)
        self._encoder = msgspec.msgpack.Encoder()
        self._file.write(MAGIC)

    def append(self, frame: Frame) -> None:
        payload = self._encoder.encode(frame)
        self._file.write(FRAME_HEAD.pack(len(payload), zlib.crc32(payload)) + payload)

    def flush(self) -> None:
        """Hands what is buffered to the operating system, so that a killed process loses only what came after."""
        self._file.flush()

    def close(self) -> None:
        if self._file.closed:
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def frames_in(data: bytes) -> Iterator[Frame]:
    """The whole frames of `data`, in order, up to the first torn or corrupt one. Raises NotALogError."""
    if not data.startswith(MAGIC):
        raise NotALogError(f"expected {MAGIC!r} at the start, found {data[: len(MAGIC)]!r}")
    decoder = msgspec.msgpack.Decoder(Frame)
    position = len(MAGIC)
    while position + FRAME_HEAD.size <= len(data):
        length, checksum = FRAME_HEAD.unpack_from(data, position)
        start = position + FRAME_HEAD.size
        payload = data[start : start + length]
        if length > MAX_FRAME_BYTES or len(payload) < length or zlib.crc32(payload) != checksum:
            return
        try:
            frame = decoder.decode(payload)
        except msgspec.DecodeError:
            return
        yield frame
        position = start + length


def read_frames(path: Path) -> Iterator[Frame]:
    """Like `frames_in`, of a file."""
    return frames_in(path.read_bytes())
