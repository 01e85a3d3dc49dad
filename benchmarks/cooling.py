"""Before a stage the host is as it was when idle: its baseline is read before the first cell, and from one stage to the
next the worker waits until temperature and power are near it again. Heartbeats go on, and a stop is heard."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import pynvml
from django.conf import settings
from django.utils import timezone

from benchmarks import claims, engine_child
from benchmarks.claims import Claim
from benchmarks.engine import cool, nvml_calls
from benchmarks.engine.cool import Baseline
from benchmarks.engine.host import HostSource
from benchmarks.engine.telemetry import Source, gpu_source
from benchmarks.engine.terms import NotReported, Reading
from benchmarks.engine_child import Watch
from benchmarks.models import Cell, Grid

AT_MOST_S = 300.0
SIMULATED_AT_MOST_S = 2.0
"""A simulated card takes as long to cool as a real one, and nothing on it needs that."""
READ_EVERY_S, SIMULATED_READ_EVERY_S = 2.0, 0.5
BASELINE_READS = 3
BASELINE_EVERY_S, SIMULATED_BASELINE_EVERY_S = 1.0, 0.1
LATE = "The grid had measured cells before idle hosts were read, so there is nothing to cool down to."


@dataclass(slots=True)
class Settled:
    """Whether the cell may go on; where not, its attempt has ended. `conditions` tell what was waited for."""

    ok: bool = True
    watch: Watch = field(default_factory=Watch)
    conditions: dict[str, object] = field(default_factory=dict)


def settle(
    claim: Claim, cell: Cell, *, gpus: Callable[[], Source] | None = None, sleep: Callable[[float], None] = time.sleep
) -> Settled:
    """Reads the idle host before the first cell of the grid, and waits for it before each later stage."""
    grid = cell.grid
    try:
        source = gpus() if gpus else gpu_source(grid.runtime.gpu_metrics_url)
        if grid.baseline is None:
            return _first(grid, source, sleep)
        if not _begins_stage(cell):
            return Settled()
        return _Wait(claim, grid, source, sleep).until_cool()
    finally:
        nvml_calls.close_cards(pynvml)


def _first(grid: Grid, source: Source, sleep: Callable[[float], None]) -> Settled:
    """Keeps the baseline, once; a grid that has measured something already keeps none."""
    if grid.cells.filter(status=Cell.Status.MEASURED).exists():
        return Settled(conditions={"cooling": {"waited_s": 0.0, "words": LATE}})
    every_s = SIMULATED_BASELINE_EVERY_S if grid.simulated else BASELINE_EVERY_S
    host = HostSource()
    reads = [[*source.read(time.monotonic_ns()), *host.read(time.monotonic_ns())]]
    while len(reads) < BASELINE_READS and any(isinstance(one, Reading) and one.device for one in reads[0]):
        sleep(every_s)
        reads.append([*source.read(time.monotonic_ns()), *host.read(time.monotonic_ns())])
    found = cool.baseline_of(timezone.now().isoformat(), reads)
    kept = msgspec.to_builtins(found)
    Grid.objects.filter(pk=grid.pk, baseline__isnull=True).update(baseline=kept)
    return Settled(conditions={"cooling": {"waited_s": 0.0, "words": _first_words(found)}})


def _first_words(found: Baseline) -> str:
    if not found.gpus:
        return f"The idle host was read; of its GPUs nothing is known: {found.why}."
    busy = f" {', '.join(found.busy)} had work, though nothing was asked of it." if found.busy else ""
    return f"The idle host was read: {len(found.gpus)} GPU{'s' if len(found.gpus) > 1 else ''}.{busy}"


def _begins_stage(cell: Cell) -> bool:
    """Whether the last cell that ran in this grid was of another setting, or another behaviour probe."""
    before = cell.grid.cells.filter(finished_at__isnull=False, started_at__isnull=False).exclude(pk=cell.pk)
    last = before.order_by("-finished_at").first()
    return last is not None and (last.setting, last.probe) != (cell.setting, cell.probe)


class _Wait:
    """One cool-down: beats as long as it takes, and ends at once when the attempt is lost or stopped."""

    def __init__(self, claim: Claim, grid: Grid, source: Source, sleep: Callable[[float], None]) -> None:
        self._claim, self._source, self._sleep = claim, source, sleep
        self._baseline = msgspec.convert(grid.baseline, Baseline)
        self._at_most_s = SIMULATED_AT_MOST_S if grid.simulated else AT_MOST_S
        self._every_s = SIMULATED_READ_EVERY_S if grid.simulated else READ_EVERY_S
        self._watch = Watch()
        self._slept_s = 0.0
        self._beaten_s = 0.0

    def until_cool(self) -> Settled:
        if not self._baseline.gpus:
            return self._settled(f"No wait: of this host's GPUs nothing is known: {self._baseline.why}.")
        found = self._read()
        if not cool.comparable(self._baseline, found):
            return self._settled(f"No wait: {_silence(found)}.")
        first = above = cool.warm(self._baseline, found)
        while above and self._slept_s < self._at_most_s:
            if self._is_stopped(above):
                return self._stopped()
            self._rest()
            found = self._read()
            if not cool.comparable(self._baseline, found):
                return self._settled(f"The wait ended after {self._slept_s:.0f} s: {_silence(found)}.")
            above = cool.warm(self._baseline, found)
        return self._settled(self._words(first, above))

    def _words(self, first: Sequence[str], above: Sequence[str]) -> str:
        if not first:
            return "The host was as cool as when idle."
        if above:
            return f"Not cool after {self._slept_s:.0f} s, the longest wait: {'; '.join(above)}."
        return f"Cooled down in {self._slept_s:.0f} s: {'; '.join(first)}."

    def _read(self) -> list[Reading | NotReported]:
        return self._source.read(time.monotonic_ns())

    def _rest(self) -> None:
        nap_s = min(self._every_s, self._at_most_s - self._slept_s)
        self._sleep(nap_s)
        self._slept_s += nap_s

    def _is_stopped(self, above: Sequence[str]) -> bool:
        """Beats when it is time to, with what is waited for."""
        if self._slept_s == 0.0 or self._slept_s - self._beaten_s >= settings.HEARTBEAT_S:
            self._beaten_s = self._slept_s
            self._watch.progress = {"phase": "cooling", "words": "; ".join(above), "elapsed_s": self._slept_s}
            engine_child.beat(self._claim, self._watch)
        return self._watch.pulse.lost or bool(self._watch.pulse.stop)

    def _stopped(self) -> Settled:
        if not self._watch.pulse.lost:
            claims.give_back(claim=self._claim, reason=self._watch.pulse.reason)
        return Settled(ok=False, watch=self._watch)

    def _settled(self, words: str) -> Settled:
        told: dict[str, object] = {"waited_s": round(self._slept_s, 1), "words": words}
        return Settled(watch=self._watch, conditions={"cooling": told})


def _silence(found: Sequence[Reading | NotReported]) -> str:
    """Why nothing can be compared."""
    told = (
        one.reason
        for one in found
        if isinstance(one, NotReported) and one.name in (cool.HEAT, cool.POWER, "gpu_metrics")
    )
    return f"the GPUs say neither temperature nor power ({next(told, 'no reason given')})"
