"""Telemetry beside the load: a thread asks each source in its own rhythm; the event loop collects what came.

Stamps are monotonic nanoseconds of this process, so readings align with the window without conversion. What a source
cannot say is told once per name and reason.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

import pynvml

from benchmarks.engine.host import HostSource, RuntimeProcessSource
from benchmarks.engine.nvml import NvmlSource
from benchmarks.engine.periods import host_period_s, metrics_period_s
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.scrape import DcgmSource, RuntimeSource, http_get
from benchmarks.engine.terms import NotReported, Reading

Found = Reading | NotReported


class Source(Protocol):
    def read(self, t_ns: int) -> list[Found]: ...


def sources_of(plan: CellPlan) -> list[tuple[float, Source]]:
    """Every source the plan names with its period in seconds."""
    get = http_get(secure=any(url.startswith("https:") for url in (plan.metrics_url, plan.gpu_metrics_url)))
    every_s, here_s = metrics_period_s(plan), host_period_s(plan)
    process = RuntimeProcessSource(plan.base_url)
    found: list[tuple[float, Source]] = [(here_s, HostSource()), (here_s, process)]
    if plan.metrics_url:
        found.append((every_s, RuntimeSource(plan.metrics_url, plan.runtime_kind, get)))
    if plan.gpu_metrics_url:
        found.append((every_s, DcgmSource(plan.gpu_metrics_url, get)))
    else:
        found.append((here_s, NvmlSource(pynvml, process.pids)))
    return found


def gpu_source(gpu_metrics_url: str) -> Source:
    """The GPUs alone: through the exporter where one is named, else this host's own."""
    if gpu_metrics_url:
        return DcgmSource(gpu_metrics_url, http_get(secure=gpu_metrics_url.startswith("https:")))
    return NvmlSource(pynvml)


class Telemetry:
    """`start` it, `take` what came so far from any thread, `stop` it. A source that fails is reported, not fatal."""

    def __init__(self, make_sources: Callable[[], list[tuple[float, Source]]]) -> None:
        self._make_sources = make_sources
        self._due: list[tuple[float, float, Source]] = []
        self._found: queue.SimpleQueue[Found] = queue.SimpleQueue()
        self._told: set[tuple[str, str, str]] = set()
        self._stop = threading.Event()
        self._read_once = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        """Makes the sources, which is dear, here and now; a thread only asks them."""
        try:
            self._due = [(0.0, every_s, source) for every_s, source in self._make_sources()]
        except Exception as error:  # noqa: BLE001 the log tells it
            self._found.put(NotReported(name="telemetry", source="engine", reason=f"did not start: {error}"))
        if self._due:
            self._thread.start()
        else:
            self._read_once.set()

    def wait_until_read(self, patience_s: float) -> bool:
        """Whether every source has been asked once, waiting at most so long for it."""
        return self._read_once.wait(patience_s)

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=3.0)

    def take(self) -> list[Found]:
        taken = []
        while True:
            try:
                taken.append(self._found.get_nowait())
            except queue.Empty:
                return taken

    def _run(self) -> None:
        due = self._due
        while not self._stop.is_set():
            now_s = time.monotonic()
            for place, (due_s, every_s, source) in enumerate(due):
                if due_s <= now_s:
                    self._read(source)
                    due[place] = (max(now_s, due_s) + every_s, every_s, source)
            self._read_once.set()
            self._stop.wait(max(0.01, min(due_s for due_s, _, _ in due) - time.monotonic()))

    def _read(self, source: Source) -> None:
        try:
            found = source.read(time.monotonic_ns())
        except Exception as error:  # noqa: BLE001 the log tells it
            name = type(source).__name__
            found = [NotReported(name=name, source=name, reason=f"failed: {type(error).__name__}: {error}")]
        for one in found:
            if isinstance(one, NotReported):
                key = (one.name, one.source, one.reason)
                if key in self._told:
                    continue
                self._told.add(key)
            self._found.put(one)
