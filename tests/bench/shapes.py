"""The shapes of load that are measured, and one server for one run of one."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench import measurements
from tests.bench.measurements import Measured

TTFT_MS, TTFT_SIGMA = 100.0, 0.3
READY_WITHIN_S = 10.0


@dataclass(frozen=True)
class Shape:
    """`gap_ms` 0: flat out, `per_send` events in each write. Requests are issued for `seconds`; a tool that can only
    count gets `requests`, about as many."""

    name: str
    streams: int
    gap_ms: float
    seconds: float
    tokens: int = 64
    burst: bool = False
    per_send: int = 1

    @property
    def requests(self) -> int:
        if self.gap_ms == 0:
            return BLAST_REQUESTS
        each_s = (TTFT_MS + self.gap_ms * (self.tokens - 1)) / 1000
        return self.streams * max(2, round(self.seconds / each_s))


BLAST_REQUESTS = 2500
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("1", streams=1, gap_ms=20, seconds=12, tokens=16),
        Shape("8", streams=8, gap_ms=20, seconds=8),
        Shape("64", streams=64, gap_ms=20, seconds=6),
        Shape("256", streams=256, gap_ms=20, seconds=6),
        Shape("256burst", streams=256, gap_ms=20, seconds=6, burst=True),
        Shape("256x5", streams=256, gap_ms=5, seconds=6, tokens=128),
        Shape("1024", streams=1024, gap_ms=20, seconds=6),
        Shape("blast64", streams=64, gap_ms=0, seconds=3, per_send=16),
    )
}


class Server:
    """The C server, pinned, for one run. `stop` ends it and gives its account."""

    def __init__(self, program: Path, shape: Shape, truth: Path, *, core: int, seed: int) -> None:
        self._truth = truth
        paced = shape.gap_ms > 0
        options = {
            "truth": truth, "tokens": shape.tokens, "gap-us": round(shape.gap_ms * 1000), "per-send": shape.per_send,
            "ttft-ms": TTFT_MS if paced else 0, "sigma": TTFT_SIGMA, "seed": seed,
        }  # fmt: skip
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        command = ["taskset", "-c", str(core), str(program), *words]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        line = self._child.stdout.readline().split()
        if line[:1] != ["ready"]:
            self._child.wait(READY_WITHIN_S)
            raise RuntimeError("the benchmark's server did not start")
        self.port = int(line[1])

    def stop(self) -> Measured:
        self._child.terminate()
        self._child.wait(60)
        assert self._child.stdout is not None
        self._child.stdout.close()
        return measurements.read(self._truth)
