"""What the make targets print: one line per step, and a progress bar that works without a terminal too."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


class Steps:
    """Prints each step with the seconds since the start."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def __call__(self, line: str) -> None:
        print(f"[{time.monotonic() - self.started:5.1f} s] {line}", flush=True)


class Bar:
    """A bar in one line of a terminal; elsewhere a line whenever another cell has finished.

    `also` is called each time, to look whether the processes that do the work still run.
    """

    def __init__(self, what: str, also: Callable[[], None] = lambda: None, width: int = 30) -> None:
        self.what, self.also, self.width = what, also, width
        self.shown = -1

    def __call__(self, done: int, total: int, elapsed_s: float) -> None:
        self.also()
        filled = round(self.width * done / total) if total else 0
        text = f"{self.what} [{'#' * filled}{'.' * (self.width - filled)}] {done} of {total} cells, {elapsed_s:.0f} s"
        if sys.stdout.isatty():
            print(f"\r{text}", end="\n" if done == total else "", flush=True)
        elif done != self.shown:
            print(text, flush=True)
        self.shown = done
