"""`python -m benchmarks.engine PLAN.json LOG`: runs one cell and writes its log, which must not exist yet.

Progress goes to stdout as one JSON line about each second. stdin is held open by the parent: a line `drain` or `cancel`
ends the cell, the end of stdin ends the process at once.

Exit codes: 0 the cell is complete or stopped with a reason, which its End frame tells; 1 a fault of the engine itself;
2 the plan or the log's path cannot be used; 3 the target cannot be reached at the start; 4 the parent is gone. After 1
and 3 the log is whole too, and its End frame says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from benchmarks.engine import parent
from benchmarks.engine import plan as plans
from benchmarks.engine.log import SCHEMA_VERSION, LogWriter
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.progress import Progress, Stage, line
from benchmarks.engine.prompts import TASKS
from benchmarks.engine.runner import Cell
from benchmarks.engine.telemetry import Telemetry, sources_of
from benchmarks.engine.terms import End, Header

ENGINE_VERSION = "0.1.0"
EXIT_OK, EXIT_FAULT, EXIT_BAD_PLAN, EXIT_UNREACHABLE = 0, 1, 2, 3
DIALECTS = frozenset({"openai_chat"})


class BadPlanError(ValueError):
    """The plan cannot be run as it stands; the words are for a person."""


def main(arguments: list[str]) -> int:
    parent.die_with_parent()
    if len(arguments) != 2:
        print("usage: python -m benchmarks.engine PLAN.json LOG", file=sys.stderr)
        return EXIT_BAD_PLAN
    plan_path, log_path = (Path(argument) for argument in arguments)
    try:
        plan = read_plan(plan_path)
        writer = LogWriter(log_path)
    except (BadPlanError, OSError) as error:
        print(f"benchmarks.engine: {error}", file=sys.stderr)
        return EXIT_BAD_PLAN
    with writer, asyncio.Runner(loop_factory=loop_factory()) as runner:
        writer.append(header(plan))
        return runner.run(run(plan, writer))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, which costs a third less per event and is later by half; asyncio's own where it cannot be imported."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def read_plan(path: Path) -> CellPlan:
    """Raises BadPlanError with what is wrong, OSError where the file cannot be read."""
    try:
        plan = plans.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise BadPlanError(f"{path.name}: {error}") from error
    if plan.dialect not in DIALECTS:
        raise BadPlanError(f"dialect {plan.dialect!r} is not spoken here, only {', '.join(sorted(DIALECTS))}")
    if plan.task not in TASKS:
        raise BadPlanError(f"task {plan.task!r} is not known, only {', '.join(sorted(TASKS))}")
    if plan.api_key_env and plan.api_key_env not in os.environ:
        raise BadPlanError(f"the environment holds no {plan.api_key_env}, which the plan names as its key")
    if plan.offered_concurrency < 1 or plan.window_s <= 0:
        raise BadPlanError("offered concurrency and window must be above zero")
    if urlsplit(plan.base_url).scheme not in ("http", "https") or not urlsplit(plan.base_url).hostname:
        raise BadPlanError(f"base_url {plan.base_url!r} is not an http or https address")
    return plan


def header(plan: CellPlan) -> Header:
    return Header(
        schema=SCHEMA_VERSION,
        plan_sha256=plans.sha256(plan),
        wall_ns=time.time_ns(),
        monotonic_ns=time.monotonic_ns(),
        engine_version=ENGINE_VERSION,
        host=platform.node(),
        client_cpus=_cpus(),
        simulated=plan.simulated,
        plan=plan,
    )


# Telemetry's thread must hand the interpreter back at once when the event loop wants it; Python's default is 5 ms.
SWITCH_INTERVAL_S = 0.0005
# Its imports and its first look at every source are dear; they are over before the first request, or not waited for.
TELEMETRY_PATIENCE_S = 2.0


async def run(plan: CellPlan, writer: LogWriter) -> int:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    show(Progress(phase=Stage.STARTING, elapsed_s=0.0, sent=0, finished=0, ok=0, in_flight=0))
    trouble = await unreachable(plan)
    if trouble:
        writer.append(End(t_ns=time.monotonic_ns(), complete=False, reason=f"target unreachable: {trouble}", sent=0))
        return EXIT_UNREACHABLE
    telemetry = Telemetry(lambda: sources_of(plan))
    cell = Cell(plan, writer, take_readings=telemetry.take, show=show)
    loop = asyncio.get_running_loop()

    def command(word: str) -> None:
        loop.call_soon_threadsafe(cell.command, word)

    parent.listen(command)
    telemetry.start()
    await asyncio.to_thread(telemetry.wait_until_read, TELEMETRY_PATIENCE_S)
    try:
        await cell.run()
    except Exception as error:  # noqa: BLE001 the log tells it, and what was measured before stands
        words = f"engine fault: {type(error).__name__}: {error}"
        writer.append(End(t_ns=time.monotonic_ns(), complete=False, reason=words, sent=cell.progress().sent))
        print(f"benchmarks.engine: {words}", file=sys.stderr)
        return EXIT_FAULT
    finally:
        telemetry.stop()
    return EXIT_OK


async def unreachable(plan: CellPlan) -> str:
    """Why no TCP connection to the target can be opened, in words; empty when one can."""
    parts = urlsplit(plan.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(plan.connect_timeout_s):
            _, stream = await asyncio.open_connection(parts.hostname, port)
    except TimeoutError:
        return f"no answer from {parts.hostname}:{port} within {plan.connect_timeout_s:g} s"
    except OSError as error:
        return f"{parts.hostname}:{port}: {error.strerror or error}"
    stream.close()
    with contextlib.suppress(OSError):
        await stream.wait_closed()
    return ""


def show(progress: Progress) -> None:
    sys.stdout.buffer.write(line(progress))
    sys.stdout.buffer.flush()


def _cpus() -> str:
    """The cores this process may use, as in `0,1`; where the system cannot say, how many there are."""
    if hasattr(os, "sched_getaffinity"):
        return ",".join(str(core) for core in sorted(os.sched_getaffinity(0)))
    return f"{os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
