"""One cell on the real load engine, against a simulated runtime of its own, on a virtual clock."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from benchmarks.engine import __main__ as engine
from benchmarks.engine.column_types import Columns
from benchmarks.engine.columns import from_log
from benchmarks.engine.drivers import driver_of
from benchmarks.engine.log import LogWriter
from benchmarks.engine.plan import CellPlan, Connect
from benchmarks.engine.progress import Progress
from benchmarks.engine.runner import Cell
from benchmarks.engine.scrape import DcgmSource, RuntimeSource
from benchmarks.engine.telemetry import Found, Source
from benchmarks.engine.terms import Reading
from benchmarks.simulator import pages
from benchmarks.simulator.connection import Connection
from benchmarks.simulator.server import Options, Simulator
from scripts.truth import virtual

METRICS, GPU_METRICS = "http://127.0.0.1:1/metrics", "http://127.0.0.1:1/gpu/metrics"
HOST_MEMORY = {"host_memory_used_bytes": 8e9, "host_memory_total_bytes": 32e9, "host_swap_used_bytes": 0.0}


class Readings:
    """What the telemetry thread would have asked for, in the loop's own time: the runtime's page, its card's, the host."""

    def __init__(self, plan: CellPlan, simulator: Simulator) -> None:
        self._plan, self._simulator = plan, simulator
        self._sources: list[Source] = [RuntimeSource(METRICS, plan.runtime_kind, self._page)]
        if simulator.card is not None:
            self._sources.append(DcgmSource(GPU_METRICS, self._page))
        self._found: list[Found] = []

    def take(self) -> Sequence[Found]:
        found, self._found = self._found, []
        return found

    async def watch(self) -> None:
        while True:
            t_ns = time.monotonic_ns()
            for source in self._sources:
                self._found += source.read(t_ns)
            self._found += [Reading(t_ns=t_ns, name=n, value=v, source="host") for n, v in HOST_MEMORY.items()]
            await asyncio.sleep(self._plan.metrics_every_s)

    def _page(self, url: str) -> str:
        simulator = self._simulator
        simulator._catch_up()
        if url == METRICS or simulator.card is None:
            return pages.engine_metrics(simulator.engine, model=simulator.options.profile.model)
        return simulator._card_page(simulator.card).decode()


def run(plan: CellPlan, options: Options) -> Columns:
    """The cell's columns, from the log that the engine wrote. The plan's target is the runtime's socket."""
    with tempfile.TemporaryDirectory(prefix="headroom-truth-") as folder, virtual.clock() as clock:
        socket, log = Path(folder) / "runtime", Path(folder) / "log"
        plan = replace(plan, connect=Connect(unix_socket=str(socket)))
        with asyncio.Runner(loop_factory=lambda: virtual.Loop(clock)) as loop:
            loop.run(_run(plan, options, socket, log))
        return from_log(log)


async def _run(plan: CellPlan, options: Options, socket: Path, log: Path) -> None:
    loop = asyncio.get_running_loop()
    simulator = Simulator(options, loop=loop)
    server = await loop.create_unix_server(lambda: Connection(simulator), str(socket), backlog=1024)
    readings = Readings(plan, simulator)
    watch = asyncio.create_task(readings.watch())
    show: Callable[[Progress], None] = lambda _: None  # noqa: E731
    try:
        with LogWriter(log) as writer:
            writer.append(engine.header(plan, engine.NORMAL))
            await Cell(plan, writer, take_readings=readings.take, show=show).run(driver_of(plan, None))
    finally:
        watch.cancel()
        server.close()
