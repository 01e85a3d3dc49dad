"""The engine's tie to the process that started it: commands on stdin, and an end when that process ends.

stdin is held open by the parent for the engine's whole life. A line `drain` or `cancel` is a command; its end means
that the parent is gone, and the engine leaves at once. On Linux the kernel kills it as well (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
EXIT_ORPHANED = 4


def die_with_parent() -> None:
    """Asks the kernel for SIGKILL at the parent's death. Elsewhere than on Linux stdin's end alone must do."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it died between the two calls, before the kernel knew what we want
        os._exit(EXIT_ORPHANED)


def listen(command: Callable[[str], None]) -> None:
    """Calls `command` from a thread of its own with each line of stdin; leaves the process when stdin ends."""

    def read() -> None:
        # Unbuffered, for a buffer that a thread reads keeps the interpreter from ending.
        with contextlib.suppress(OSError), open(0, "rb", buffering=0, closefd=False) as lines:
            for line in lines:
                command(line.decode("ascii", "replace").strip())
        os._exit(EXIT_ORPHANED)

    threading.Thread(target=read, name="commands", daemon=True).start()
