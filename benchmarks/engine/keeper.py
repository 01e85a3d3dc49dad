"""`python -m benchmarks.engine.keeper`: starts one runtime, and sees to it that nothing of it outlives the worker.

The first line of stdin says what to start; a line `stop`, or the end of stdin, which means that the worker is gone, ends
the runtime: SIGTERM to its process group and to what left it, SIGKILL after the grace. The keeper adopts whatever the runtime
forks, so that a process which left the group is ended too. If the keeper itself is killed, the kernel kills the runtime's first
process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TICK_S = 0.1
ORPHAN_GRACE_S = 1.5
"""Grace where the worker is gone: all must be over within five seconds of its end."""
KILL_WITHIN_S = 2.0
_LIBC = ctypes.CDLL(None, use_errno=True)
_LINUX = sys.platform.startswith("linux")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. `log` takes its stdout and stderr; `grace_s` is the time from SIGTERM to SIGKILL."""

    command: tuple[str, ...]
    environment: dict[str, str]
    log: str
    grace_s: float


class Began(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The runtime's first process. `started` is the kernel's own tick of its start; pid 0 means that it did not start."""

    pid: int
    started: str
    error: str = ""


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How it ended: exit status, below 0 for a signal; `rss_bytes` of all its processes just before, `killed` by SIGKILL,
    and `left`, the processes that could not be ended."""

    status: int
    rss_bytes: int
    processes: int
    killed: int
    left: int


def started_tick(pid: int) -> str:
    """Start of a process in the kernel's own ticks; empty when there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


class Keeper:
    """One runtime from its start to its end."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._status: int | None = None
        self._asked_to_end = False
        self._child = self._start()

    def run(self) -> Ended:
        """Until the runtime ends by itself, or is to end."""
        say(Began(pid=self._child.pid, started=started_tick(self._child.pid)))
        grace_s = 0.0
        while self._status is None:
            ready, _, _ = select.select([0], [], [], TICK_S)
            if ready or self._asked_to_end:
                told = bool(ready) and bool(os.read(0, 4096))  # nothing to read: the worker is gone
                grace_s = self._order.grace_s if told else min(ORPHAN_GRACE_S, self._order.grace_s)
                break
            self._reap()
        return self._end(grace_s)

    def ask_to_end(self, *_signal: object) -> None:
        self._asked_to_end = True

    def _start(self) -> subprocess.Popen[bytes]:
        def tie_to_keeper() -> None:
            if _LINUX:
                _LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)

        with Path(self._order.log).open("ab") as log:
            return subprocess.Popen(
                self._order.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self._order.environment,
                start_new_session=True,
                preexec_fn=tie_to_keeper,
            )

    def _end(self, grace_s: float) -> Ended:
        rss_bytes, processes = self._memory()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGTERM)
        for process in self._family():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if os.getpgid(process.pid) != self._child.pid:
                    process.terminate()
        self._wait_until_none_left(grace_s)
        killed = self._kill()
        # Popen must not wait for a child that is reaped already.
        self._child.returncode = status = self._status if self._status is not None else -int(signal.SIGKILL)
        left = len(self._family())
        return Ended(status=status, rss_bytes=rss_bytes, processes=processes, killed=killed, left=left)

    def _wait_until_none_left(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._family():
            time.sleep(TICK_S / 2)
            self._reap()

    def _kill(self) -> int:
        """Kills all that is left, again and again, as one of them may fork meanwhile; how many were killed."""
        killed: set[int] = set()
        end = time.monotonic() + KILL_WITHIN_S
        while (family := self._family()) and time.monotonic() < end:
            for process in family:
                killed.add(process.pid)
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(TICK_S / 2)
            self._reap()
        self._reap()  # no zombie is left to whoever adopts it
        return len(killed)

    def _family(self) -> list[psutil.Process]:
        """All descendants that live. A zombie has ended and only waits for its parent."""
        found = []
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def _memory(self) -> tuple[int, int]:
        rss_bytes, family = 0, self._family()
        for process in family:
            with contextlib.suppress(psutil.Error):
                rss_bytes += process.memory_info().rss
        return rss_bytes, len(family)

    def _reap(self) -> None:
        """Takes leave of every child that has ended, adopted ones too, and keeps the status of the first."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._child.pid:
                    self._status = os.waitstatus_to_exitcode(status)


def say(words: Began | Ended) -> None:
    """One line for the worker. Where nobody listens any more, the work goes on."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(msgspec.json.encode(words) + b"\n")
        sys.stdout.buffer.flush()


def main() -> int:
    line = bytearray()
    # Byte by byte: what follows the line must stay where select sees it.
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    if not line:
        return 0
    order = msgspec.json.decode(bytes(line), type=Order)
    if _LINUX:
        _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        keeper = Keeper(order)
    except OSError as error:
        say(Began(pid=0, started="", error=f"{order.command[0]}: {error.strerror or error}"))
        return 0
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, keeper.ask_to_end)
    say(keeper.run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
