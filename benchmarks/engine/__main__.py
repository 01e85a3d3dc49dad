"""`python -m benchmarks.engine PLAN.json LOG [--resume]`: runs one cell and writes its log.

The log must not exist yet; with `--resume` a static batch goes on with the unfinished one it finds. Progress goes to
stdout as one JSON line about each second. stdin is held open by the parent: a line `drain` or `cancel` ends the cell,
the end of stdin ends the process at once. `--part K/N` is what several generator processes of one cell are started
with.

Exit codes: 0 the cell is complete or stopped with a reason, which its End frame tells; 1 a fault of the engine itself;
2 the plan or the log's path cannot be used; 3 the target cannot be reached at the start; 4 the parent is gone. After 1
and 3 the log is whole too, and its End frame says why; only a log that cannot be written, on a full disk, has none.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from benchmarks.engine import parent, static_batch
from benchmarks.engine import plan as plans
from benchmarks.engine.drivers import driver_of
from benchmarks.engine.load import StaticBatch
from benchmarks.engine.log import SCHEMA_VERSION, LogWriter, read_frames, whole_bytes
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.processes import Herd
from benchmarks.engine.progress import Progress, Stage, line
from benchmarks.engine.runner import Cell
from benchmarks.engine.static_batch import Ledger
from benchmarks.engine.supply import Shard
from benchmarks.engine.telemetry import Telemetry, sources_of
from benchmarks.engine.terms import End, Header, Resumed
from benchmarks.engine.usable import BadPlanError, check, same_batch
from benchmarks.engine.wire import transport_words

ENGINE_VERSION = "0.2.0"
EXIT_OK, EXIT_FAULT, EXIT_BAD_PLAN, EXIT_UNREACHABLE = 0, 1, 2, 3
# Telemetry's thread must hand the interpreter back at once when the event loop wants it; Python's default is 5 ms.
SWITCH_INTERVAL_S = 0.0005
NORMAL = "normal"
MOST_WORDS = 500  # a plan's own field may be as long as it likes


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for, read and opened."""

    plan: CellPlan
    plan_path: Path
    log_path: Path
    shard: Shard | None
    ledger: Ledger | None


def main(arguments: list[str]) -> int:
    parent.die_with_parent()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    options = _options(arguments)
    try:
        plan = read_plan(Path(options.plan))
        pin(plan, options.part)
        priority = hurry() if plan.client_realtime else NORMAL
        ledger, writer = _opened(plan, Path(options.log), priority, resume=options.resume)
    except (BadPlanError, OSError, ValueError) as error:
        print(f"benchmarks.engine: {str(error)[:MOST_WORDS]}", file=sys.stderr)
        return EXIT_BAD_PLAN
    if writer is None:
        return EXIT_OK
    run = Run(
        plan=plan, plan_path=Path(options.plan), log_path=Path(options.log), shard=options.part, ledger=ledger
    )  # fmt: skip
    try:
        with writer, asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(carry_out(run, writer))
    except OSError as error:
        print(f"benchmarks.engine: the log cannot be written: {error}", file=sys.stderr)
        return EXIT_FAULT


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine")
    parser.add_argument("plan")
    parser.add_argument("log")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--part", type=part, default=None)
    return parser.parse_args(arguments)


def part(text: str) -> Shard:
    """`K/N`, K from 0. Raises ValueError."""
    number, _, of = text.partition("/")
    if not 0 <= int(number) < int(of):
        raise ValueError(text)
    return Shard(int(number), int(of))


def _opened(plan: CellPlan, log: Path, priority: str, *, resume: bool) -> tuple[Ledger | None, LogWriter | None]:
    """The log to write; none where the one found is complete. Raises BadPlanError where it is another batch's."""
    if not (resume and log.exists() and whole_bytes(log)):
        log.unlink(missing_ok=True) if resume else None
        writer = LogWriter(log)
        writer.append(header(plan, priority))
        return None, writer
    if not isinstance(plan.load, StaticBatch):
        raise BadPlanError(f"{log.name} is there already, and only a static batch goes on with what it finds")
    found = list(read_frames(log))
    if not same_batch(found, plan):
        raise BadPlanError(f"{log.name} is the ledger of another batch; it stays as it is")
    if any(isinstance(frame, End) and frame.complete for frame in found):
        return None, None
    wall_ns, monotonic_ns = time.time_ns(), time.monotonic_ns()
    ledger = static_batch.ledger_of(found, tries=plan.load.tries, wall_ns=wall_ns, monotonic_ns=monotonic_ns)
    writer = LogWriter.resume(log)
    writer.append(Resumed(wall_ns=wall_ns, monotonic_ns=monotonic_ns) if found else header(plan, priority))
    return ledger, writer


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
    check(plan)
    return plan


def pin(plan: CellPlan, shard: Shard | None) -> None:
    """To the plan's cores; one of several processes to one of them. Raises OSError where a core is not there."""
    cpus = plan.client_cpus
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cpus[shard.number % len(cpus)]} if shard else set(cpus))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def hurry() -> str:
    """Woken before all ordinary work from now on, threads and child processes too; the words for the header."""
    if not hasattr(os, "sched_setscheduler"):
        return "normal: this system has no real-time priority"
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return "normal: real time was not allowed"
    return "realtime"


def header(plan: CellPlan, priority: str) -> Header:
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
        transport=transport_words(plan),
        client_priority=priority,
    )


async def carry_out(run: Run, writer: LogWriter) -> int:
    show(Progress(phase=Stage.STARTING, elapsed_s=0.0, sent=0, finished=0, ok=0, in_flight=0))
    trouble = await unreachable(run.plan)
    if trouble:
        writer.append(End(t_ns=time.monotonic_ns(), complete=False, reason=f"target unreachable: {trouble}", sent=0))
        return EXIT_UNREACHABLE
    telemetry = Telemetry(lambda: sources_of(run.plan) if run.shard is None else [])
    work = _work(run, writer, telemetry)
    loop = asyncio.get_running_loop()

    def command(words: str) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so has what could be commanded
            loop.call_soon_threadsafe(work.command, words)

    parent.listen(command)
    telemetry.start()
    try:
        await (work.run() if isinstance(work, Herd) else work.run(driver_of(run.plan, run.ledger)))
    except Exception as error:  # noqa: BLE001 the log tells it, and what was measured before stands
        words = f"engine fault: {_told(error)}"
        writer.append(End(t_ns=time.monotonic_ns(), complete=False, reason=words, sent=work.progress().sent))
        print(f"benchmarks.engine: {words}", file=sys.stderr)
        return EXIT_FAULT
    finally:
        telemetry.stop()
    return EXIT_OK


def _work(run: Run, writer: LogWriter, telemetry: Telemetry) -> Cell | Herd:
    if run.plan.processes > 1 and run.shard is None:
        return Herd(run.plan, run.plan_path, run.log_path, writer, take_readings=telemetry.take, show=show)
    return Cell(
        run.plan, writer, take_readings=telemetry.take, show=show, shard=run.shard, told_when=run.shard is not None
    )  # fmt: skip


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def unreachable(plan: CellPlan) -> str:
    """Why no connection to the target can be opened, in words; empty when one can."""
    parts = urlsplit(plan.connect.proxy_url or plan.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    where = plan.connect.unix_socket or f"{parts.hostname}:{port}"
    try:
        async with asyncio.timeout(plan.connect_timeout_s):
            if plan.connect.unix_socket:
                _, stream = await asyncio.open_unix_connection(plan.connect.unix_socket)
            else:
                _, stream = await asyncio.open_connection(parts.hostname, port)
    except TimeoutError:
        return f"no answer from {where} within {plan.connect_timeout_s:g} s"
    except OSError as error:
        return f"{where}: {error.strerror or error}"
    stream.close()
    with contextlib.suppress(OSError):
        await stream.wait_closed()
    return ""


def show(progress: Progress) -> None:
    """To whoever listens; where nobody does any more the cell goes on."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.buffer.write(line(progress))
        sys.stdout.buffer.flush()


def _cpus() -> str:
    """The cores this process may use, as in `0,1`; where the system cannot say, how many there are."""
    if hasattr(os, "sched_getaffinity"):
        return ",".join(str(core) for core in sorted(os.sched_getaffinity(0)))
    return f"{os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
