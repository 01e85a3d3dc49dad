"""A compressed body as it arrives: gzip, in one member or several, or zlib.

Compression is never asked for, so this is for servers that do it all the same. A few kilobytes may hold gigabytes, so
what comes out comes in portions. What stands before a fault in the bytes is given before the fault is raised, however
the network cut them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

PORTION_BYTES = 256 * 1024
EITHER = zlib.MAX_WBITS | 32  # the header says which of the two it is


class Inflater:
    """Feed it network reads of any size."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(EITHER)
        self._began = False

    @property
    def cut_short(self) -> bool:
        """Whether something has come, and its end has not."""
        return self._began and not self._member.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` holds. Raises zlib.error where it is not what it should be."""
        self._began = self._began or bool(data)
        while data:
            if self._member.eof:
                self._member = zlib.decompressobj(EITHER)
            before = self._member.copy()
            try:
                plain = self._member.decompress(data, PORTION_BYTES)
            except zlib.error:
                for byte in data:  # this raises again, once all before it is out
                    yield before.decompress(bytes((byte,)))
                raise
            if plain:
                yield plain
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
