"""Two clocks of this host read together, by which a wall time that somebody else wrote down finds its place on the
monotonic clock that all readings are stamped with."""

from __future__ import annotations

import time

import msgspec

NS_PER_MS = 1_000_000
NS = 1_000_000_000


class ClockPair(msgspec.Struct, frozen=True):
    wall_ns: int
    monotonic_ns: int

    def monotonic_of(self, wall_ms: int) -> int:
        """Where a wall time of that many milliseconds since 1970 lies; never after the pair was read."""
        return min(self.monotonic_ns, self.monotonic_ns + wall_ms * NS_PER_MS - self.wall_ns)


def clock_pair() -> ClockPair:
    return ClockPair(time.time_ns(), time.monotonic_ns())
