"""Compiles server.c and client.c with gcc into var/bench/, anew when a source or a header has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FLAGS = ("-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror")


class NoCompilerError(RuntimeError):
    """gcc is not on the path."""


@dataclass(frozen=True)
class Programs:
    server: Path
    client: Path


def home() -> Path:
    """Where all that is made here lies: var/bench/, or bench/ under HEADROOM_VAR."""
    return Path(os.environ.get("HEADROOM_VAR") or ROOT / "var").resolve() / "bench"


def build(folder: Path | None = None) -> Programs:
    """Raises NoCompilerError, and subprocess.CalledProcessError where gcc finds a fault."""
    folder = folder or home()
    folder.mkdir(parents=True, exist_ok=True)
    programs = Programs(server=folder / "server", client=folder / "client")
    for program in (programs.server, programs.client):
        _compile(HERE / f"{program.name}.c", program)
    return programs


def _compile(source: Path, program: Path) -> None:
    newest = max(path.stat().st_mtime for path in (source, *HERE.glob("*.h")))
    if program.exists() and program.stat().st_mtime > newest:
        return
    if shutil.which("gcc") is None:
        raise NoCompilerError("no gcc here: install it (on Debian: apt install gcc libc6-dev)")
    subprocess.run(["gcc", *FLAGS, "-o", str(program), str(source), "-lm"], check=True)


if __name__ == "__main__":
    print(build())
