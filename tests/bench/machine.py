"""Where it was measured: figures of two machines are not to be compared without this."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

PACKAGES = ("uvloop", "httptools", "httpx", "msgspec", "numpy")


@dataclass(frozen=True)
class Cores:
    """One for the server and this program, one for the tool."""

    server: int
    client: int


class OneCoreError(RuntimeError):
    """Server and client on one core would measure each other."""


def two_cores() -> Cores:
    """The first that this process may use, and the next that is not its hyper-thread. Raises OneCoreError."""
    mine = sorted(os.sched_getaffinity(0))
    twins = _listed(Path(f"/sys/devices/system/cpu/cpu{mine[0]}/topology/thread_siblings_list"))
    others = [core for core in mine[1:] if core not in twins] or mine[1:]
    if not others:
        raise OneCoreError("two cores are needed, one for the server and one for the client")
    return Cores(server=mine[0], client=others[0])


def _listed(path: Path) -> set[int]:
    """What a list of cores such as `0-1,4` names; nothing where the kernel has no such file."""
    if not path.exists():
        return set()
    found: set[int] = set()
    for part in path.read_text().strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


@dataclass(frozen=True)
class Machine:
    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    gcc: str
    packages: str
    load_before: float


def here() -> Machine:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 0,
        memory_gib=round(pages / 2**30, 1),
        kernel=platform.release(),
        python=platform.python_version(),
        gcc=gcc,
        packages=", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES),
        load_before=round(os.getloadavg()[0], 2),
    )


def _cpu() -> str:
    """The model's name, and whether a hypervisor lies between."""
    text = Path("/proc/cpuinfo").read_text()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    virtual = " (virtual machine)" if " hypervisor" in text else ""
    return (names[0] if names else platform.machine()) + virtual
