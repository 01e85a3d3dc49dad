"""What is measured: the engine, the plain C client, and whatever peers are installed, each as a command and a reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.build import Programs
from tests.bench.join import Seen
from tests.bench.measurements import Measured
from tests.bench.shapes import Shape


@dataclass(frozen=True)
class Task:
    """One run of one tool. `folder` is empty and the tool's own; `tokenizer` is a folder for those that want one."""

    shape: Shape
    port: int
    folder: Path
    programs: Programs
    tokenizer: Path
    seed: int

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True)
class Tool:
    """`seen` reads the tool's own report of a run; `keys` is the name that report and truth have in common.

    `cpu_s` is the tool's own exact account of its CPU time under load, where it gives one; else it is sampled.
    """

    name: str
    version: str
    command: Callable[[Task], list[str]]
    seen: Callable[[Task, Measured], Seen]
    keys: Callable[[Measured], tuple[str, ...]]
    environment: Mapping[str, str] = field(default_factory=dict)
    cpu_s: Callable[[Task], float] | None = None
    remark: str = ""
