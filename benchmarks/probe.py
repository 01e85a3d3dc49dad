"""What a worker sees of its own host, for the registry, and who it is, so that another can tell whether it lives."""

from __future__ import annotations

import os
import platform
import socket
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks.engine import nvml_calls, nvml_facts

NO_GPU = "no NVIDIA GPU"


def host_facts() -> dict[str, object]:
    """CPU, memory, system and GPUs of this host. `gpus` is a list of facts by UUID, or words why there are none."""
    memory = psutil.virtual_memory()
    return {
        "host": socket.gethostname(),
        "cpu": _cpu_name(),
        "cpu_cores": psutil.cpu_count(logical=False) or psutil.cpu_count() or "not reported",
        "cpu_threads": psutil.cpu_count() or "not reported",
        "ram_bytes": memory.total,
        "swap_bytes": psutil.swap_memory().total,
        "os": platform.platform(),
        "python": platform.python_version(),
        "gpus": _gpus(),
    }


def claimant() -> str:
    """This process as a word: host, boot, process id and its start, so that a reused id is not taken for the same."""
    pid = os.getpid()
    return f"{socket.gethostname()[:80]}|{boot_id()[:36]}|{pid}|{_started(pid)}"


def claimant_gone(claimed_by: str) -> bool:
    """True when the claimant ran on this host and is no more; False when it lives or only its own host can know."""
    parts = claimed_by.split("|")
    if len(parts) != 4 or parts[0] != socket.gethostname()[:80] or not parts[2].isdigit():
        return False
    if parts[1] != boot_id()[:36]:
        return True
    return _started(int(parts[2])) != parts[3]


def claimant_host(claimed_by: str) -> str:
    """The words for people: host and process."""
    parts = claimed_by.split("|")
    return f"{parts[0]}, process {parts[2]}" if len(parts) == 4 else claimed_by


def boot_id() -> str:
    """One word for this boot of this host."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return datetime.fromtimestamp(psutil.boot_time(), UTC).strftime("%Y%m%d%H%M")


def _started(pid: int) -> str:
    """Start of a process in the kernel's own ticks where /proc has them; empty when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "" if Path("/proc/self/stat").exists() else _started_elsewhere(pid)
    # A zombie has ended, only nobody has asked for its exit status yet. Field 22 of stat(5) is the start.
    return "" if fields[0] == "Z" else fields[19]


def _started_elsewhere(pid: int) -> str:
    try:
        return str(round(psutil.Process(pid).create_time()))
    except psutil.Error:
        return ""


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "not reported"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "not reported")


def _gpus() -> list[dict[str, nvml_facts.Fact]] | str:
    import pynvml

    try:
        found = nvml_facts.facts(nvml_calls.open_cards(pynvml))
    finally:
        nvml_calls.close_cards(pynvml)
    return f"{NO_GPU} ({found})" if isinstance(found, str) else found
