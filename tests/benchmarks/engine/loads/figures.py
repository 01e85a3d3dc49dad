"""What the loads are worth in time, measured on this machine: `python -m tests.benchmarks.engine.loads.figures`.

No test asserts these, for they are the machine's as much as ours: punctuality of an open loop, what a stall does to
either view, what gathering adds, how soon the first request is out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil

from benchmarks.engine.load import Closed, Constant, Load, MicroBatch, OpenLoop, Poisson
from benchmarks.engine.terms import Phase
from tests.bench.build import build
from tests.benchmarks.engine.loads.running import (
    MODEL,
    MS,
    NO_ERROR_LIMIT,
    Left,
    finish_program,
    run_program,
    simulator,
    start_program,
)
from tests.benchmarks.engine.plans import a_plan

SECONDS = 30.0


@contextmanager
def quick_server():
    """The benchmark's own server: two tokens after 5 ms, and next to no cost of its own."""
    server = build().server
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(server), "--truth", f"{folder}/truth", "--tokens", "2", "--gap-us", "1000", "--ttft-ms", "5", "--sigma", "0"
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            try:
                yield child.pid, f"http://127.0.0.1:{child.stdout.readline().split()[1]}"
            finally:
                child.terminate()


def cell(url: str, load: Load, **changes) -> Left:
    defaults = {
        "base_url": url, "load": load, "warmup_s": 1.0, "window_s": SECONDS, "offered_concurrency": 256,
        "max_requests": 10**6, "max_tokens": 10**9, "max_wall_s": 120.0, "guard": NO_ERROR_LIMIT,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        code, words, left = run_program(a_plan(**(defaults | changes)), Path(folder))
    assert code == 0, words
    return left


def quantiles(values: Sequence[float], unit: str) -> str:
    p50, p99, p999, most = np.quantile(values, [0.5, 0.99, 0.999, 1])
    return f"p50 {p50:.3f}, p99 {p99:.3f}, p99.9 {p999:.3f}, max {most:.3f} {unit} (n = {len(values)})"


def punctuality() -> None:
    for arrivals in (Constant(200.0), Poisson(200.0)):
        with quick_server() as (_, url):
            left = cell(url, OpenLoop(arrivals))
        found = left.summary.open_loop
        late_ms = [(r.t_sent_ns - r.t_scheduled_ns) / MS for r in left.records if r.phase is Phase.WINDOW]
        print(
            f"open loop, {type(arrivals).__name__.lower()} 200/s for {SECONDS:g} s: {found.on_time.hits} of {found.planned}"
        )
        print(f"  within 2 ms ({found.on_time.hits / found.planned:.2%}); late {quantiles(late_ms, 'ms')}")
        print(f"  requested {found.requested_per_s:.2f}/s, sent {found.sent_per_s:.2f}/s, health {left.columns.health}")


def stall() -> None:
    """The server's process is stopped for five seconds in the middle of the window."""
    for most in (2048, 16):
        with quick_server() as (pid, url), tempfile.TemporaryDirectory() as folder:
            plan = a_plan(
                base_url=url, load=OpenLoop(Constant(200.0)), warmup_s=1.0, window_s=15.0, offered_concurrency=most,
                max_requests=10**6, max_tokens=10**9, max_wall_s=60.0,
            )  # fmt: skip
            child = start_program(plan, Path(folder))
            time.sleep(6.0)
            psutil.Process(pid).suspend()
            time.sleep(5.0)
            psutil.Process(pid).resume()
            _, _, left = finish_program(child, Path(folder))
        only = left.summary.of_class("short")
        inside = [r for r in left.records if r.phase is Phase.WINDOW and r.t_first_ns is not None]
        users = [(r.t_first_ns - r.t_scheduled_ns) / MS for r in inside]
        servers = [(r.t_first_ns - r.t_sent_ns) / MS for r in inside]
        above = sum(t > 100 for t in users) / len(users), sum(t > 100 for t in servers) / len(servers)
        print(f"server stopped for 5 s, at most {most} in flight: {only.success.hits} of {only.success.n} ok")
        print(
            f"  TTFT above 100 ms: users {above[0]:.1%}, server's view {above[1]:.1%}; health {left.columns.health.why}"
        )
        print(f"  users {quantiles(users, 'ms')}")
        print(f"  server's view {quantiles(servers, 'ms')}")


def gathering() -> None:
    for dialect in ("openai_embeddings", "openai_completions"):
        for rate, max_wait_ms, seconds in ((1.0, 50.0, 30.0), (50.0, 20.0, 10.0), (400.0, 20.0, 10.0)):
            load = MicroBatch(arrivals=Poisson(rate), max_items=16, max_wait_ms=max_wait_ms)
            with simulator() as url:
                left = cell(url, load, dialect=dialect, stream=False, model=MODEL, window_s=seconds)
            waits_ms = [(r.gathered_ns - r.t_scheduled_ns) / MS for r in left.records if r.phase is Phase.WINDOW]
            found = left.summary.micro_batch
            print(f"{dialect} {rate:g}/s, at most {max_wait_ms:g} ms: {found.items_per_batch:.2f} items per batch")
            print(f"  added wait {quantiles(waits_ms, 'ms')}; above the limit {found.over_max_wait}")


def starts() -> None:
    """From the start of the process to the first byte of the first request, and the memory after a short window."""
    for processes in (1, 2):
        first_s, memory = [], []
        with quick_server() as (_, url):
            for _ in range(10):
                with tempfile.TemporaryDirectory() as folder:
                    plan = a_plan(
                        base_url=url, offered_concurrency=64, window_s=1.0, max_requests=10**6, max_tokens=10**9,
                        processes=processes, burst_start=True, load=Closed(),
                    )  # fmt: skip
                    began_ns = time.monotonic_ns()
                    child = start_program(plan, Path(folder))
                    time.sleep(1.0)
                    family = [psutil.Process(child.pid), *psutil.Process(child.pid).children()]
                    memory.append(max(member.memory_info().rss for member in family) / 2**20)
                    _, _, left = finish_program(child, Path(folder))
                    first_s.append((min(r.t_sent_ns for r in left.records) - began_ns) / 1e9)
        print(f"{processes} process(es), 64 slots: first request after {quantiles(first_s, 's')}")
        print(f"  memory of the largest process {min(memory):.0f} to {max(memory):.0f} MiB")


WHAT: dict[str, Callable[[], None]] = {
    "starts": starts, "punctuality": punctuality, "stall": stall, "gathering": gathering
}  # fmt: skip


def main() -> int:
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name in sys.argv[1:] or WHAT:
        WHAT[name]()
    print(f"load average {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
