"""Readings of the client's host, and of the runtime's process where it runs here and can be seen."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.engine.terms import NotReported, Reading

SOURCE = "psutil"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FAMILY_EVERY_NS = 30 * 1_000_000_000
Found = Reading | NotReported


class HostSource:
    def __init__(self) -> None:
        psutil.cpu_percent()  # the first call only sets the mark that the next one measures from

    def read(self, t_ns: int) -> list[Found]:
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        values = {
            "host_memory_used_bytes": float(memory.total - memory.available),
            "host_memory_total_bytes": float(memory.total),
            "host_swap_used_bytes": float(swap.used),
            "host_cpu_share": psutil.cpu_percent() / 100,
        }
        return [Reading(t_ns=t_ns, name=name, value=value, source=SOURCE) for name, value in values.items()]


class RuntimeProcessSource:
    """Resident memory of the process that listens on the target's port, with its children."""

    NAME = "runtime_rss_bytes"

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self._port = parts.port
        self._is_local = parts.hostname in LOOPBACK
        # Looking for it is dear, so it is done once, before any load.
        self._pid = listener(self._port) if self._is_local and self._port is not None else None
        self._family: list[psutil.Process] = []
        self._family_until_ns = 0

    def pids(self) -> frozenset[int]:
        """The process and its children, as far as they can be seen."""
        return frozenset(member.pid for member in self._family)

    def read(self, t_ns: int) -> list[Found]:
        if not self._is_local or self._port is None:
            return [self._absent("the runtime runs on another host")]
        try:
            if self._pid is None:
                return [self._absent(f"no process that can be seen listens on port {self._port}")]
            rss = sum(member.memory_info().rss for member in self._members(self._pid, t_ns))
        except psutil.NoSuchProcess:
            self._pid, self._family = None, []
            return [self._absent("the runtime's process ended")]
        except psutil.AccessDenied:
            return [self._absent("not allowed to look at the runtime's process")]
        return [Reading(t_ns=t_ns, name=self.NAME, value=float(rss), source=SOURCE)]

    def _members(self, pid: int, t_ns: int) -> list[psutil.Process]:
        """The process and its children, who are looked for seldom: that walks over every process of the host."""
        if t_ns >= self._family_until_ns or not all(member.is_running() for member in self._family):
            process = psutil.Process(pid)
            self._family = [process, *process.children(recursive=True)]
            self._family_until_ns = t_ns + FAMILY_EVERY_NS
        return self._family

    def _absent(self, reason: str) -> NotReported:
        return NotReported(name=self.NAME, source=SOURCE, reason=reason)


def listener(port: int) -> int | None:
    """The process that listens on a TCP port of this host, None where none can be seen.

    On Linux by the socket's inode, the newest process first: psutil would read every socket of every process.
    """
    if not sys.platform.startswith("linux"):
        found = psutil.net_connections(kind="tcp")
        return next((c.pid for c in found if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port), None)
    wanted = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(Path("/proc/net") / table, port)}
    return next((pid for pid in reversed(psutil.pids()) if wanted and _holds(pid, wanted)), None)


def _listening(table: Path, port: int) -> list[str]:
    """Inodes of the sockets that listen on the port: columns 1 (address), 3 (state, 0A) and 9 of the kernel's table."""
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return []
    ends = f":{port:04X}"
    rows = (line.split(maxsplit=10) for line in lines if f"{ends} " in line)
    return [row[9] for row in rows if row[1].endswith(ends) and row[3] == "0A"]


def _holds(pid: int, sockets: set[str]) -> bool:
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            return any(str(Path(entry.path).readlink()) in sockets for entry in entries)
    except OSError:  # it ended, or is not ours to look at
        return False
