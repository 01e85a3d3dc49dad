"""What the make targets print: one line per step, and a progress bar that works without a terminal too."""

from __future__ import annotations

import sys
import time


class Steps:
    """Prints each step with the seconds since the start."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def __call__(self, line: str) -> None:
        print(f"[{time.monotonic() - self.started:5.1f} s] {line}", flush=True)


class Bar:
    """A bar in one line of a terminal; elsewhere a line whenever another cell has finished."""

    def __init__(self, what: str, width: int = 30) -> None:
        self.what, self.width = what, width
        self.shown = -1

    def __call__(self, done: int, total: int, elapsed_s: float) -> None:
        filled = round(self.width * done / total) if total else 0
        text = f"{self.what} [{'#' * filled}{'.' * (self.width - filled)}] {done} of {total} cells, {elapsed_s:.0f} s"
        if sys.stdout.isatty():
            print(f"\r{text}", end="\n" if done == total else "", flush=True)
        elif done != self.shown:
            print(text, flush=True)
        self.shown = done
