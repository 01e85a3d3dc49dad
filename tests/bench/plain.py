"""The plain C client as a tool: the floor."""

from __future__ import annotations

from tests.bench import join, measurements
from tests.bench.join import Seen
from tests.bench.measurements import Measured
from tests.bench.tools import Task, Tool

RAMP_MS = 500


def tool() -> Tool:
    return Tool(name="C client", version="client.c", command=command, seen=seen, keys=join.by_connection, cpu_s=cpu_s)


def command(task: Task) -> list[str]:
    shape = task.shape
    options = {
        "port": task.port, "log": task.folder / "log", "streams": shape.streams, "seconds": shape.seconds,
        "ramp-ms": 0 if shape.burst else RAMP_MS, "max-tokens": shape.tokens,
    }  # fmt: skip
    return [str(task.programs.client), *(word for name, value in options.items() for word in (f"--{name}", str(value)))]


def seen(task: Task, truth: Measured) -> Seen:
    return join.seen_by_c(measurements.read(task.folder / "log"))


def cpu_s(task: Task) -> float:
    return measurements.read(task.folder / "log").cpu_ns / 1e9
