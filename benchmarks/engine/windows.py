"""The window of a cell as its records tell it, and how many arrivals were due inside it. All times are monotonic
nanoseconds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from benchmarks.engine.terms import Window


def window_between(start_ns: int | None, end_ns: int | None) -> Window | None:
    """None where a stop came before it."""
    if start_ns is None or end_ns is None or end_ns <= start_ns:
        return None
    return Window(start_ns=start_ns, end_ns=end_ns)


def due_inside(due_ns: Sequence[int] | None, window: Window | None) -> int | None:
    """How many of the ascending arrivals the window holds; None without arrivals of their own, or without a window."""
    if due_ns is None or window is None:
        return None
    return bisect_left(due_ns, window.end_ns) - bisect_left(due_ns, window.start_ns)
