"""How long it takes from the last token to a stored, summarised cell, and what a million requests cost.

    python -m scripts.big_evidence [--requests 10000] [--gaps 200] [--many 1000000] [--runs 5]

Writes made-up logs into a temporary folder. Each figure comes from a process of its own, so that its peak memory is its
own, and CPU time stands beside the clock's, which other programs stretch: `turnaround` is log -> columns -> summary ->
Parquet bytes, as a worker does it; `from_parquet` is what reads stored evidence and summarises it, as `manage.py
recompute` does. The middle of `--runs` is told, with the lowest and highest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.engine import plan as plans
from benchmarks.engine.columns import from_log
from benchmarks.engine.log import LogWriter
from benchmarks.engine.plan import CellPlan, ClassPlan, Fixed
from benchmarks.engine.summary import summarise
from benchmarks.engine.terms import ClientHealth, End, Header, Outcome, Phase, RequestRecord, TokenSource, Window
from benchmarks.records import parquet

ROOT = Path(__file__).resolve().parents[1]
MS, S = 1_000_000, 1_000_000_000
GAP_MS, GAP_SD_MS = 20.0, 0.5
FAILED_EVERY = 50


def a_plan(requests: int) -> CellPlan:
    short = ClassPlan(name="short", weight=1.0, prompt_tokens=Fixed(64), output_tokens=Fixed(201))
    return CellPlan(
        label="made up", base_url="http://127.0.0.1:9", model="none", runtime_kind="simulated", offered_concurrency=64,
        class_name="short", classes=(short,), seed=1, warmup_s=0.0, window_s=requests / 1000, max_requests=requests,
        max_tokens=10**12, max_wall_s=1e6, simulated=True,
    )  # fmt: skip


def write_log(path: Path, *, requests: int, gaps: int, seed: int = 1) -> None:
    """A log of one request each millisecond with `gaps` gaps between chunks; every FAILED_EVERY-th was rejected."""
    plan, dice = a_plan(requests), np.random.default_rng(seed)
    header = Header(
        schema=1, plan_sha256=plans.sha256(plan), wall_ns=1_796_000_000 * S, monotonic_ns=0, engine_version="0",
        host="made up", client_cpus="0", simulated=True, plan=plan,
    )  # fmt: skip
    first_ms = dice.integers(50, 150, requests).tolist()
    with LogWriter(path) as writer:
        writer.append(header)
        for index in range(requests):
            gaps_us = (dice.normal(GAP_MS, GAP_SD_MS, gaps) * 1000).astype("<u4")
            writer.append(a_record(index, first_ms[index], gaps_us))
        writer.append(Window(start_ns=0, end_ns=requests * MS))
        writer.append(ClientHealth(loop_lag_p99_ms=0.1, cpu_share=0.2, send_late_p99_ms=0.1, client_limited=False))
        writer.append(End(t_ns=requests * MS, complete=True, reason="window completed", sent=requests))


def a_record(index: int, first_ms: int, gaps_us: np.ndarray) -> RequestRecord:
    due = index * MS
    if index % FAILED_EVERY == FAILED_EVERY - 1:
        return RequestRecord(
            index=index, class_name="short", phase=Phase.WINDOW, slot=index % 64, outcome=Outcome.REJECTED, t_scheduled_ns=due,
            t_sent_ns=due + 50_000, t_headers_ns=due + MS, t_closed_ns=due + MS, http_status=429, retry_after_s=1.0,
            intended_prompt_tokens=64, asked_output_tokens=201, detail="queue is full", connect_us=0,
        )  # fmt: skip
    first = due + first_ms * MS
    last = first + int(gaps_us.sum()) * 1000 + MS
    return RequestRecord(
        index=index, class_name="short", phase=Phase.WINDOW, slot=index % 64, outcome=Outcome.OK, t_scheduled_ns=due,
        t_sent_ns=due + 50_000, t_headers_ns=first - MS, t_first_ns=first, t_answer_ns=first, t_last_ns=last,
        t_end_ns=last + 9000, t_closed_ns=last + 20_000, http_status=200, finish_reason="stop",
        intended_prompt_tokens=64, asked_output_tokens=201, prompt_tokens=64, output_tokens=201,
        token_source=TokenSource.SERVER, valid=True, connect_us=0, gaps_us=gaps_us.tobytes(),
    )  # fmt: skip


def turnaround(path: Path) -> dict[str, float]:
    """Seconds of each step from a finished log to bytes that can be stored; writes them beside it."""
    stamps, began_cpu_s = [time.perf_counter()], time.process_time()
    columns = from_log(path)
    stamps.append(time.perf_counter())
    summary = summarise(columns, columns.plan)
    stamps.append(time.perf_counter())
    content = parquet.write(columns)
    stamps.append(time.perf_counter())
    path.with_suffix(".parquet").write_bytes(content)
    steps = dict(zip(("columns_s", "summary_s", "parquet_s"), np.diff(stamps).tolist(), strict=True))
    sizes = {"log_mb": path.stat().st_size / 1e6, "parquet_mb": len(content) / 1e6, "peak_mb": peak_mb()}
    cpu_s = time.process_time() - began_cpu_s
    return {"whole_s": stamps[-1] - stamps[0], "cpu_s": cpu_s, "conserved": bool(summary.conserved)} | steps | sizes


def from_parquet(path: Path) -> dict[str, float]:
    began, began_cpu_s = time.perf_counter(), time.process_time()
    columns = parquet.read(path.with_suffix(".parquet").read_bytes())
    read = time.perf_counter()
    summary = summarise(columns, columns.plan)
    ended = time.perf_counter()
    return {
        "whole_s": ended - began, "cpu_s": time.process_time() - began_cpu_s, "read_s": read - began,
        "summary_s": ended - read, "requests": summary.scheduled, "conserved": bool(summary.conserved), "peak_mb": peak_mb(),
    }  # fmt: skip


def peak_mb() -> float:
    """The most memory that this process ever held."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


STEPS = {"turnaround": turnaround, "from_parquet": from_parquet}


def in_a_process_of_its_own(step: str, path: Path, runs: int) -> list[dict[str, float]]:
    command = [sys.executable, "-m", "scripts.big_evidence", "--step", step, str(path)]
    found = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(runs)]
    return [json.loads(done.stdout) for done in found]


def told(results: Sequence[dict[str, float]]) -> str:
    """Every figure as its median, with the lowest and highest of the runs."""
    parts = []
    for name in results[0]:
        values = [result[name] for result in results]
        if name == "conserved":
            parts.append("conserved" if all(values) else "NOT CONSERVED")
        else:
            parts.append(f"{name} {statistics.median(values):.3f} [{min(values):.3f}-{max(values):.3f}]")
    return ", ".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.big_evidence")
    parser.add_argument("--requests", type=int, default=10_000, help="requests of the cell with gaps")
    parser.add_argument("--gaps", type=int, default=200, help="gaps of each of them")
    parser.add_argument(
        "--many", type=int, default=1_000_000, help="requests of the cell without gaps; 0 leaves it out"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--step", nargs=2, metavar=("STEP", "LOG"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.step:
        print(json.dumps(STEPS[chosen.step[0]](Path(chosen.step[1]))))
        return 0
    with tempfile.TemporaryDirectory(prefix="headroom-evidence-") as folder:
        for requests, gaps in ((chosen.requests, chosen.gaps), (chosen.many, 0)):
            if requests:
                path = Path(folder) / f"{requests}-{gaps}.log"
                write_log(path, requests=requests, gaps=gaps)
                print(f"{requests:,} requests of {gaps} gaps, {chosen.runs} runs:")
                for step in STEPS:
                    print(f"  {step}: {told(in_a_process_of_its_own(step, path, chosen.runs))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
