"""What a peer's module offers, and its installation: optional, one at a time, with the reason kept where it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.join import Seen
from tests.bench.measurements import Measured
from tests.bench.tools import Task, Tool

DONE = "installed"
INSTALL_PATIENCE_S = 1800


class NotInstalledError(RuntimeError):
    """The peer is not here; the words say why, or how to get it."""


@dataclass(frozen=True)
class Peer:
    """`steps` are the arguments of pip, one call each; `after` is done at the end, for what pip alone cannot do.

    `command` gets the peer's venv. `oldest_python` is (3, 11) or above.
    """

    name: str
    version: str
    steps: tuple[tuple[str, ...], ...]
    command: Callable[[Path, Task], list[str]]
    seen: Callable[[Task, Measured], Seen]
    keys: Callable[[Measured], tuple[str, ...]]
    oldest_python: tuple[int, int] = (3, 11)
    after: Callable[[Path], None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    remark: str = ""

    def folder(self, home: Path) -> Path:
        return home / "venvs" / self.name.replace("-", "_").replace(" ", "_")

    def tool(self, home: Path) -> Tool:
        """Raises NotInstalledError."""
        venv = self.folder(home)
        if not (venv / DONE).exists():
            raise NotInstalledError(f"{self.name} {self.version} is not installed: PEERS={self.name} make bench")
        return Tool(
            name=self.name,
            version=self.version,
            command=lambda task: self.command(venv, task),
            seen=self.seen,
            keys=self.keys,
            environment={"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
            | dict(self.environment),
            remark=self.remark,
        )


def install(peer: Peer, home: Path) -> None:
    """Does nothing where it is done. Raises NotInstalledError with pip's last words."""
    venv = peer.folder(home)
    if (venv / DONE).exists():
        return
    python = fitting_python(peer.oldest_python)
    if python is None:
        wanted = ".".join(map(str, peer.oldest_python))
        raise NotInstalledError(f"{peer.name} needs Python {wanted} or newer, and none is here")
    print(f"installing {peer.name} {peer.version} into {venv}", flush=True)
    if not (venv / "bin" / "python").exists():
        _do(peer, [python, "-m", "venv", str(venv)])
    for step in peer.steps:
        _do(peer, [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", *step])
    if peer.after is not None:
        peer.after(venv)
    (venv / DONE).write_text(peer.version)


def _do(peer: Peer, command: list[str]) -> None:
    try:
        done = subprocess.run(
            ["nice", "-n", "10", *command], capture_output=True, text=True, check=False, timeout=INSTALL_PATIENCE_S
        )
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"{peer.name}: pip took longer than {INSTALL_PATIENCE_S} s") from error
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["no word why"])[-1]
        raise NotInstalledError(f"{peer.name}: {words[:300]}")


def fitting_python(oldest: tuple[int, int]) -> str | None:
    """This Python where it is new enough, else one on the path or of pyenv."""
    if sys.version_info[:2] >= oldest:
        return sys.executable
    for minor in range(oldest[1], oldest[1] + 3):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-V"], capture_output=True, check=False).returncode == 0:
            return found
        versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
        for program in sorted(versions.glob(f"3.{minor}*/bin/python")):
            return str(program)
    return None
