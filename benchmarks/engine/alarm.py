"""Wakes at an absolute time to a fraction of a millisecond.

The event loop's own timers count whole milliseconds, which an open loop at hundreds of requests per second would see
as lateness. Linux's timerfd is exact and costs one descriptor; elsewhere the loop's timer does.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
import time

NS = 1_000_000_000
TFD_FLAGS = 0o4000 | 0o2000000  # TFD_NONBLOCK | TFD_CLOEXEC
TFD_TIMER_ABSTIME = 1
CLOCK_MONOTONIC = 1


class _Spec(ctypes.Structure):
    """struct itimerspec: no interval, one expiry."""

    _fields_ = (
        ("interval_s", ctypes.c_long), ("interval_ns", ctypes.c_long), ("value_s", ctypes.c_long), ("value_ns", ctypes.c_long),
    )  # fmt: skip


class Alarm:
    """One waiting at a time: `await until(t_ns)`; `ring` ends the waiting early."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung: asyncio.Future[None] | None = None
        self._libc, self._descriptor = _timer()
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._expired)

    async def until(self, t_ns: int) -> None:
        """Returns at `t_ns` on the monotonic clock, or when `ring` is called; where the time has passed, after one turn
        of the loop, so that a client far behind still reads its answers. A timer of the loop may be a millisecond early:
        the caller looks at the clock."""
        if t_ns <= time.monotonic_ns():
            await asyncio.sleep(0)
            return
        rung = self._rung = self._loop.create_future()
        timer = None
        if self._descriptor >= 0:
            self._set(t_ns)
        else:
            timer = self._loop.call_at(self._loop.time() + (t_ns - time.monotonic_ns()) / NS, self.ring)
        try:
            await rung
        finally:
            self._rung = None
            if timer is not None:
                timer.cancel()

    def ring(self) -> None:
        if self._rung is not None and not self._rung.done():
            self._rung.set_result(None)

    def close(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _set(self, t_ns: int) -> None:
        spec = _Spec(0, 0, t_ns // NS, max(1, t_ns % NS))
        assert self._libc is not None
        self._libc.timerfd_settime(self._descriptor, TFD_TIMER_ABSTIME, ctypes.byref(spec), None)

    def _expired(self) -> None:
        with contextlib.suppress(BlockingIOError):  # set anew since: that expiry is not this one's
            os.read(self._descriptor, 8)
            self.ring()


def _timer() -> tuple[ctypes.CDLL | None, int]:
    """A timer descriptor; -1 where the system has none."""
    if not sys.platform.startswith("linux"):
        return None, -1
    libc = ctypes.CDLL(None, use_errno=True)
    return libc, int(libc.timerfd_create(CLOCK_MONOTONIC, TFD_FLAGS))
