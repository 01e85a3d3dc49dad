"""Cells of every kind of load, run in this process or as the program, with what they left behind."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine import plan as plans
from benchmarks.engine.columns import Columns, from_frames
from benchmarks.engine.drivers import driver_of
from benchmarks.engine.log import LogWriter, read_frames, whole_bytes
from benchmarks.engine.plan import CellPlan, Guard
from benchmarks.engine.progress import Progress, parse
from benchmarks.engine.runner import Cell
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import CellSummary
from benchmarks.engine.terms import BatchRecord, Frame, Outcome, RequestRecord
from tests.benchmarks.engine.plans import a_header, a_plan
from tests.benchmarks.engine.scripted import Script, Scripted, plain

ROOT = Path(__file__).parents[4]
MS = 1_000_000
S = 1_000_000_000
MODEL = "headroom-simulated-demo"
NO_ERROR_LIMIT = Guard(max_error_share=None)
AtWork = Callable[[Cell, Scripted], Awaitable[None]]


@dataclass(frozen=True)
class Left:
    """What a cell left in its log, and showed on the way."""

    frames: tuple[Frame, ...]
    shown: tuple[Progress, ...] = ()
    server: Scripted | None = None

    @property
    def columns(self) -> Columns:
        return from_frames(self.frames)

    @property
    def summary(self) -> CellSummary:
        columns = self.columns
        return summarise(columns, columns.plan)

    @property
    def records(self) -> list[RequestRecord]:
        return [frame for frame in self.frames if isinstance(frame, RequestRecord)]

    @property
    def batches(self) -> list[BatchRecord]:
        return [frame for frame in self.frames if isinstance(frame, BatchRecord)]

    @property
    def outcomes(self) -> Counter[Outcome]:
        return Counter(record.outcome for record in self.records)

    @property
    def due_s(self) -> list[float]:
        """When each request was due, in seconds after the first, in the order of their times."""
        times = sorted(record.t_scheduled_ns for record in self.records)
        return [(t - times[0]) / S for t in times]


def run_cell(
    folder: Path, *scripts: Script, at_work: AtWork | None = None, loop_factory=None, url: str = "", **plan_changes
) -> Left:
    """One cell in this process against a server that plays `scripts`, or against `url`; `at_work` runs beside it."""
    shown: list[Progress] = []
    path = folder / "cell.log"

    async def go() -> Scripted:
        async with Scripted(scripts or [[]]) as server:
            plan = a_plan(
                **({"base_url": url or server.url, "max_requests": 100_000, "max_tokens": 10**9} | plan_changes)
            )
            with LogWriter(path) as writer:
                writer.append(a_header(plan))
                cell = Cell(plan, writer, take_readings=list, show=shown.append)
                running = asyncio.ensure_future(cell.run(driver_of(plan)))
                if at_work is not None:
                    await at_work(cell, server)
                await asyncio.wait_for(running, 60)
            return server

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        server = runner.run(go())
    left = Left(tuple(read_frames(path)), tuple(shown), server)
    path.unlink()
    return left


def command_line(plan: CellPlan, folder: Path, *options: str) -> list[str]:
    (folder / "plan.json").write_bytes(plans.encode(plan))
    return [sys.executable, "-m", "benchmarks.engine", str(folder / "plan.json"), str(folder / "cell.log"), *options]


def start_program(plan: CellPlan, folder: Path, *options: str) -> subprocess.Popen[str]:
    """The engine as a child; its standard input is held open until the caller closes it."""
    return subprocess.Popen(
        command_line(plan, folder, *options), cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish_program(child: subprocess.Popen[str], folder: Path, *, timeout_s: float = 60) -> tuple[int, str, Left]:
    """(exit code, what it said on stderr, what it left)."""
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        said = child.stdout.read()
        words = child.stderr.read()
        code = child.wait(timeout_s)
    finally:
        child.kill()
        for stream in (child.stdin, child.stdout, child.stderr):
            stream.close()
    log = folder / "cell.log"
    frames = tuple(read_frames(log)) if log.exists() and whole_bytes(log) else ()  # killed before its first bytes
    return code, words, Left(frames, tuple(progress_of(said.splitlines())))


def embeddings(count: int) -> bytes:
    """A whole answer with so many vectors."""
    data = [{"index": n, "embedding": [0.5, 0.25]} for n in range(count)]
    return plain(200, json.dumps({"data": data, "usage": {"prompt_tokens": 8 * count}}).encode())


def run_program(plan: CellPlan, folder: Path, *options: str) -> tuple[int, str, Left]:
    return finish_program(start_program(plan, folder, *options), folder)


def progress_of(lines: Sequence[str]) -> list[Progress]:
    return [parse(line.encode()) for line in lines]


@contextmanager
def simulator(*arguments: str) -> Iterator[str]:
    """The address of a simulated runtime, a process of its own."""
    command = [sys.executable, "-m", "benchmarks.simulator", "--port", "0", "--with-parent", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().split()[1]
        finally:
            child.terminate()
            child.wait(10)
