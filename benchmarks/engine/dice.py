"""Chance that follows from a seed, a purpose and a number alone, so request 7 is the same whatever was drawn before it.

SHAKE-128 and BLAKE2b of the three, not a generator with a state: making a numpy generator for each request takes longer
than building the whole prompt this way.
"""

from __future__ import annotations

import hashlib

from benchmarks.runtimes.vocabulary import WORD_COUNT

_SHARE_BYTES = 8
_SPAN = 2**53


class Dice:
    """The dice of one request (or session) for one purpose. Draws are independent of those for other purposes."""

    __slots__ = ("_at", "_block", "_name", "_streams")

    def __init__(self, seed: int, purpose: str, number: int) -> None:
        self._name = b"%d:%s:%d" % (seed, purpose.encode(), number)
        self._block = hashlib.blake2b(self._name).digest()
        self._at = 0
        self._streams = 0

    def share(self) -> float:
        """Uniform between 0 and 1, both excluded."""
        if self._at == len(self._block):
            self._block, self._at = hashlib.blake2b(self._block).digest(), 0
        drawn = int.from_bytes(self._block[self._at : self._at + _SHARE_BYTES], "little") >> 11
        self._at += _SHARE_BYTES
        return (drawn + 0.5) / _SPAN

    def between(self, low: int, high: int) -> int:
        """A whole number, each of low to high equally likely."""
        return low + int(self.share() * (high - low + 1))

    def numbers(self, count: int) -> bytes:
        """`count` word numbers, 0 to 255. A second call gives others; the first n of a longer call are those of n."""
        self._streams += 1
        return hashlib.shake_128(b"%d:%s" % (self._streams, self._name)).digest(max(0, count))

    def different(self, count: int) -> list[int]:
        """`count` word numbers, no two alike: a walk through all words with an odd step, which visits each once."""
        start, step = self.between(0, WORD_COUNT - 1), 2 * self.between(0, WORD_COUNT // 2 - 1) + 1
        return [(start + place * step) % WORD_COUNT for place in range(count)]
