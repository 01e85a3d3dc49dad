"""Whether the wall clock kept its course: durations are by the monotonic clock, dates by the wall clock, and only the
latter can be set."""

from __future__ import annotations

import time

import msgspec

SLACK_S = 1.0
DRIFT = 0.001
"""A clock that is being disciplined runs up to 500 parts in a million off its course; twice that is no step."""


class ClockPair(msgspec.Struct, frozen=True, kw_only=True):
    """Both clocks of a host, read together, in nanoseconds."""

    wall_ns: int
    monotonic_ns: int


def now() -> ClockPair:
    return ClockPair(wall_ns=time.time_ns(), monotonic_ns=time.monotonic_ns())


def step_s(before: ClockPair, after: ClockPair) -> float | None:
    """By how much the wall clock was set meanwhile, negative backwards; None where it kept its course."""
    elapsed = (after.monotonic_ns - before.monotonic_ns) / 1e9
    step = (after.wall_ns - before.wall_ns) / 1e9 - elapsed
    return step if abs(step) > SLACK_S + DRIFT * abs(elapsed) else None


def words(step: float) -> str:
    way = "forward" if step > 0 else "back"
    return f"The host's wall clock went {way} by {abs(step):.1f} s beside its monotonic clock: it was set, or the host slept."
