"""The real pynvml over a library of our own: nvml_stub.c, compiled here, in the place where the driver's would be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SOURCE = Path(__file__).with_name("nvml_stub.c")
NOT_SUPPORTED, NO_PERMISSION, UNKNOWN_FUNCTION, IS_LOST = 3, 4, 13, 15
"""Codes of nvml.h."""


class Stub:
    """A folder with the library and its state, which every call reads anew."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        library = folder / "libnvidia-ml.so.1"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", *flags, "-o", str(library), str(SOURCE)], check=True)
        self.set()

    def set(self, **values: object) -> None:
        """`gpu1_temp=84` is the line "1.temp 84"; `fail_F=3` and `gpu1_fail_F=3` let calls fail. Whole or not at all."""
        lines = [f"{_key(name)} {value}\n" for name, value in values.items()]
        fresh = self.folder / "state.new"
        fresh.write_text("".join(lines))
        fresh.replace(self.folder / "state")

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "HEADROOM_VAR")}
        return kept | {"LD_LIBRARY_PATH": str(self.folder), "PYTHONPATH": str(ROOT)}

    def run(self, body: str) -> Any:
        """What `answer` holds after the body ran in a process that finds this library."""
        code = f"import json, pynvml\nanswer = None\n{body}\nprint(json.dumps(answer))"
        ended = subprocess.run(
            [sys.executable, "-c", code], env=self.environment, cwd=ROOT, capture_output=True, text=True, check=True
        )
        return json.loads(ended.stdout.splitlines()[-1])

    def read(self, times: int = 1) -> tuple[dict[tuple[str, str], float], dict[str, str]]:
        """Readings by (name, device), and what was not reported with its reason, of the last of so many reads."""
        found = self.run(READ.format(times=times))
        return {(name, device): value for name, device, value, _ in found[0]}, dict(found[1])

    def sources(self) -> dict[str, str]:
        return {name: source for name, _, _, source in self.run(READ.format(times=1))[0]}


READ = """
from benchmarks.engine.nvml import NvmlSource
from benchmarks.engine.terms import Reading
source = NvmlSource(pynvml)
for t_ns in range({times}):
    found = source.read(t_ns)
answer = [
    [[r.name, r.device, r.value, r.source] for r in found if isinstance(r, Reading)],
    [[n.name, n.reason] for n in found if not isinstance(n, Reading)],
]
"""


def _key(name: str) -> str:
    """gpu1_fail_nvmlX -> 1.fail.nvmlX, gpu0_limit_mw -> 0.limit_mw, fail_nvmlX -> fail.nvmlX."""
    card, _, rest = name.partition("_")
    card, rest = (f"{card[3:]}.", rest) if card.startswith("gpu") else ("", name)
    return card + (f"fail.{rest.removeprefix('fail_')}" if rest.startswith("fail_") else rest)
