"""CPU time and memory of a process and all its descendants, and how busy its core was, from /proc.

A thread that only runs when its core is otherwise idle, so that it does not disturb the server on the same core.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np

EVERY_S = 0.1
PROC = Path("/proc")


class Watch(threading.Thread):
    """`cpu_between` and `peak_rss_mb` after `stop`. What a process had used when last seen stays in the sums."""

    def __init__(self, pid: int, *, core: int) -> None:
        super().__init__(name="watch", daemon=True)
        self._pid, self._core = pid, core
        self._over = threading.Event()
        self._cpu_ns: dict[int, int] = {}
        self._peak_kib: dict[int, int] = {}
        self._samples: list[tuple[int, int, int]] = [(time.monotonic_ns(), 0, busy_ns(core))]

    def run(self) -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        while not self._over.wait(EVERY_S):
            self.look()

    def look(self) -> None:
        """One sample of the whole tree."""
        for pid in descendants(self._pid):
            for task in _listed(PROC / str(pid) / "task"):
                text = _text(task / "schedstat")
                if text:
                    self._cpu_ns[int(task.name)] = int(text.split()[0])
            for line in _text(PROC / str(pid) / "status").splitlines():
                if line.startswith("VmHWM:"):
                    self._peak_kib[pid] = int(line.split()[1])
        self._samples.append((time.monotonic_ns(), sum(self._cpu_ns.values()), busy_ns(self._core)))

    def stop(self) -> None:
        self._over.set()
        self.join()

    @property
    def peak_rss_mb(self) -> float:
        """The sum of each process's own peak, in 10**6 bytes."""
        return sum(self._peak_kib.values()) * 1024 / 1e6

    @property
    def processes(self) -> int:
        return len(self._peak_kib)

    def cpu_between(self, start_ns: int, end_ns: int) -> float:
        """Seconds of CPU time, interpolated between samples."""
        return self._between(1, start_ns, end_ns)

    def busy_between(self, start_ns: int, end_ns: int) -> float:
        """Seconds in which the core was not idle, whoever used it; time stolen by the hypervisor counts."""
        return self._between(2, start_ns, end_ns)

    def _between(self, column: int, start_ns: int, end_ns: int) -> float:
        samples = np.array(self._samples, dtype=np.float64)
        at_end, at_start = np.interp([end_ns, start_ns], samples[:, 0], samples[:, column])
        return float(at_end - at_start) / 1e9


def busy_ns(core: int) -> int:
    """All time of a core but idle and waiting for disks; counted in ticks of 10 ms. Fields as in proc(5)."""
    for line in _text(PROC / "stat").splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            return (user + nice + system + irq + softirq + steal) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    return 0


def descendants(pid: int) -> list[int]:
    """The process itself first."""
    found = [pid]
    for parent in found:
        for task in _listed(PROC / str(parent) / "task"):
            found += [int(child) for child in _text(task / "children").split() if int(child) not in found]
    return found


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # it has ended
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
