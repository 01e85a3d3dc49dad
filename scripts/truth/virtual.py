"""An event loop whose clock jumps to the next timer as soon as nothing is left to do.

The load engine, the simulated runtime and the sockets between them are the real ones; only waiting costs nothing. A window
of thirty seconds takes as long as its requests take to compute, and nothing else on this machine disturbs it. Unix sockets:
what is written to one lies at the other end when the call returns, so "nothing is left to do" can be seen.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.engine import alarm, runner

NS = 1_000_000_000
READ_NS = 500
"""Reading the clock takes time, so that no two stamps are equal and a loop that waits for a time ends."""
THREADS_WITHIN_S = 5.0
BUILT_AHEAD = 64


class Clock:
    """Nanoseconds that only `advance` and being read move."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * NS

    def advance(self, seconds: float) -> None:
        self.now_ns += math.ceil(seconds * NS)

    def monotonic_ns(self) -> int:
        self.now_ns += READ_NS
        return self.now_ns

    def monotonic(self) -> float:
        return self.monotonic_ns() / NS

    def process_time(self) -> float:
        """No work is done in no time: the load client is never the bottleneck."""
        return 0.0


class Selector(selectors.DefaultSelector):
    """Waits for nothing: where no socket is ready, the time of the next timer has come."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:  # only a thread can end this
            return super().select(THREADS_WITHIN_S)
        self._clock.advance(timeout)
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Clock) -> None:
        super().__init__(Selector(clock))
        self._virtual = clock

    def time(self) -> float:
        return self._virtual.now_ns / NS


@contextmanager
def clock() -> Iterator[Clock]:
    """The clocks of this whole process are virtual meanwhile, so it does nothing else. The engine's exact alarms, which are
    the kernel's, give way to the loop's timers, which are exact here; and as no time passes while requests are built ahead,
    a number bounds them."""
    virtual, kept = Clock(), (time.monotonic, time.monotonic_ns, time.process_time)
    exact, ahead = alarm._timer, runner.BUILT_AHEAD
    time.monotonic, time.monotonic_ns, time.process_time = (
        virtual.monotonic, virtual.monotonic_ns, virtual.process_time,
    )  # fmt: skip
    alarm._timer, runner.BUILT_AHEAD = (lambda: (None, -1)), BUILT_AHEAD
    try:
        yield virtual
    finally:
        time.monotonic, time.monotonic_ns, time.process_time = kept
        alarm._timer, runner.BUILT_AHEAD = exact, ahead
