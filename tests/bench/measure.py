"""One run of one tool against one server, and what it says about the tool."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench import join
from tests.bench.build import ROOT, Programs
from tests.bench.join import Joined, quantile
from tests.bench.machine import Cores
from tests.bench.measurements import Measured
from tests.bench.shapes import Server, Shape
from tests.bench.tools import Task, Tool
from tests.bench.watch import Watch

PATIENCE_S = 150.0


class ToolFailedError(RuntimeError):
    """A tool ended with an error, or with no report that can be read; the words are its last ones."""


@dataclass(frozen=True)
class Bench:
    """Where runs happen: the compiled programs, the folder for all that is written, the cores."""

    programs: Programs
    home: Path
    cores: Cores


@dataclass(frozen=True)
class Run:
    """What one run showed. Times in ms unless named; None where the tool's report does not tell it.

    `cpu_us_per_event` is CPU time between the arrival of the first request and the send of the last event, over all
    content events sent. `foreign_cpu_share` is what others used of the client's core meanwhile, the hypervisor among them.
    `round` pairs it with the runs of other tools close to it in time. `reported_p99_ms` and `true_p99_ms` are of TTFT.
    """

    tool: str
    version: str
    shape: str
    requests: int
    events: int
    events_per_s: float
    unmatched: int
    events_differ: int
    cpu_us_per_event: float
    cpu_share: float
    foreign_cpu_share: float
    server_cpu_share: float
    ttft_error_p50_ms: float | None
    ttft_error_p99_ms: float | None
    gap_error_p99_ms: float | None
    reported_p99_ms: float | None
    true_p99_ms: float | None
    server_late_p99_ms: float | None
    peak_rss_mb: float
    processes: int
    first_request_s: float
    wall_s: float
    round: int = 0

    @property
    def reported_minus_true_p99_ms(self) -> float | None:
        if self.reported_p99_ms is None or self.true_p99_ms is None:
            return None
        return self.reported_p99_ms - self.true_p99_ms


def run(tool: Tool, shape: Shape, bench: Bench, *, seed: int) -> Run:
    """Raises ToolFailedError. What the tool wrote stays in home/last/ until its next run."""
    folder = bench.home / "last" / tool.name.replace(" ", "-").replace(",", "")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    server = Server(bench.programs.server, shape, folder / "truth", core=bench.cores.server, seed=seed)
    try:
        task = Task(
            shape=shape,
            port=server.port,
            folder=folder,
            programs=bench.programs,
            tokenizer=bench.home / "tokenizer",
            seed=seed,
        )
        start_ns = time.monotonic_ns()
        watch = _run(tool, task, core=bench.cores.client)
        end_ns = time.monotonic_ns()
    finally:
        truth = server.stop()
    if not len(truth) or not len(truth.times_ns):
        raise ToolFailedError(f"{tool.name} sent no request: {last_words(folder)}")
    try:
        joined = join.join(truth, tool.seen(task, truth), tool.keys(truth))
    except (OSError, ValueError, KeyError) as error:
        raise ToolFailedError(f"{tool.name}'s report cannot be read: {error!r}; {last_words(folder)}") from error
    cpu_s = tool.cpu_s(task) if tool.cpu_s else watch.cpu_between(join.first_sent_ns(truth), join.last_sent_ns(truth))
    return told(tool, shape, truth, joined, watch, cpu_s=cpu_s, start_ns=start_ns, end_ns=end_ns)


def told(
    tool: Tool, shape: Shape, truth: Measured, joined: Joined, watch: Watch, *, cpu_s: float, start_ns: int, end_ns: int
) -> Run:
    first_ns, span_s = join.first_sent_ns(truth), (join.last_sent_ns(truth) - join.first_sent_ns(truth)) / 1e9
    events = len(truth.times_ns)
    return Run(
        tool=tool.name,
        version=tool.version,
        shape=shape.name,
        requests=joined.requests,
        events=events,
        events_per_s=events / span_s,
        unmatched=joined.unmatched,
        events_differ=joined.events_differ,
        cpu_us_per_event=cpu_s / events * 1e6,
        cpu_share=cpu_s / span_s,
        foreign_cpu_share=max(0.0, watch.busy_between(first_ns, join.last_sent_ns(truth)) - cpu_s) / span_s,
        server_cpu_share=truth.cpu_ns / 1e9 / span_s,
        ttft_error_p50_ms=quantile(joined.ttft_error_ms, 0.5),
        ttft_error_p99_ms=quantile(joined.ttft_error_ms, 0.99),
        gap_error_p99_ms=quantile(joined.gap_error_ms, 0.99),
        reported_p99_ms=quantile(joined.ttft_seen_ms, 0.99),
        true_p99_ms=quantile(joined.ttft_true_ms, 0.99),
        server_late_p99_ms=quantile(join.server_late_ms(truth), 0.99),
        peak_rss_mb=watch.peak_rss_mb,
        processes=watch.processes,
        first_request_s=(first_ns - start_ns) / 1e9,
        wall_s=(end_ns - start_ns) / 1e9,
    )


def _run(tool: Tool, task: Task, *, core: int) -> Watch:
    command = ["taskset", "-c", str(core), *tool.command(task)]
    with (task.folder / "out").open("wb") as out, (task.folder / "err").open("wb") as err:
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **tool.environment},
            stdin=subprocess.PIPE,  # the engine ends when this end closes
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        watch = Watch(child.pid, core=core)
        watch.start()
        try:
            in_time = _ended_within(child.pid, PATIENCE_S)
        finally:
            watch.stop()
            with contextlib.suppress(ProcessLookupError):  # what it left behind too, and all of it on an interrupt
                os.killpg(child.pid, signal.SIGKILL)
            code = child.wait()
            if child.stdin is not None:
                child.stdin.close()
    if not in_time:
        raise ToolFailedError(f"{tool.name} had not ended after {PATIENCE_S:g} s: {last_words(task.folder)}")
    if code != 0:
        raise ToolFailedError(
            f"{tool.name} ended with {code if code >= 0 else signal.Signals(-code).name}: {last_words(task.folder)}"
        )
    return watch


def _ended_within(pid: int, seconds: float) -> bool:
    """Sleeps in the kernel, where Popen.wait would look twenty times a second, on the server's core."""
    handle = os.pidfd_open(pid)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def last_words(folder: Path) -> str:
    """Of stderr, or of stdout where the tool said nothing there; one line."""
    for name in ("err", "out"):
        text = (folder / name).read_text(errors="replace").strip() if (folder / name).exists() else ""
        if text:
            return " ".join(" / ".join(text.splitlines()[-3:]).split())[-300:]
    return "without a word"
