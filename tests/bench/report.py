"""docs/performance.md, made from the runs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.limits import FLOOR, OURS, Spread, Verdict, cpu_ratio, figure, spread, verdicts
from tests.bench.machine import Machine
from tests.bench.measure import Run
from tests.bench.shapes import SHAPES, TTFT_MS, TTFT_SIGMA
from tests.bench.turnaround import REQUESTS, TOKENS, Turnaround

TURNAROUND_MOST_S = 1.0
MOST_FOREIGN_SHARE = 0.03
FLAT_OUT = " The server is ahead of every client here, so TTFT errors are what waits in front of the client."


@dataclass(frozen=True)
class Results:
    machine: Machine
    date: str
    rounds: int
    runs: list[Run]
    turnarounds: list[Turnaround]
    not_run: dict[str, str]
    remarks: dict[str, str]


def document(results: Results) -> str:
    parts = [_head(results), _limits(results)]
    parts += [_shape(name, results.runs) for name in SHAPES if any(run.shape == name for run in results.runs)]
    parts += [_turnaround(results.turnarounds), _not_run(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def write(results: Results, path: Path) -> None:
    path.write_text(document(results))


def _head(results: Results) -> str:
    machine = results.machine
    return f"""# What the load engine costs, and how true its times are

Written by `make bench` on {results.date}; nothing here is typed by hand. Medians with [lowest-highest] over at most
{results.rounds} rounds; in each round every tool runs once per shape, one after the other, so that a slow hour of the machine
meets all of them. Each tool has one core, the server another.

| machine | |
|---|---|
| processor | {machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB |
| kernel, Python, gcc | {machine.kernel}, {machine.python}, {machine.gcc} |
| packages of the engine | {machine.packages} |
| load before the first run | {machine.load_before:g} |

The server (`tests/bench/server.c`) writes down when each request reached it, by the kernel's own stamp, and the time just
before it sends each event. TTFT is {TTFT_MS:g} ms in the median with a lognormal sigma of {TTFT_SIGMA:g}. TTFT error = the tool's
TTFT minus the server's, gap error = the tool's gap between two content events minus the server's, both joined request by
request. CPU per event is CPU time of the tool's whole process tree between the first request and the last event, over all
content events. The floor is a plain C client (`tests/bench/client.c`) with one epoll set.

The engine and the C client open their connections before the first request and spread their starts over half a second,
except where one burst is said. The peers do neither, and their TTFT begins before they connect."""


def _limits(results: Results) -> str:
    lines = ["## What was promised", "| figure | at most | found | |", "|---|---|---|---|"]
    lines += [_limit(verdict) for verdict in verdicts(results.runs)]
    found = spread(each.total_s for each in results.turnarounds)
    words = (
        "not measured"
        if found is None
        else _reached(found.median <= TURNAROUND_MOST_S, found.median - TURNAROUND_MOST_S, "s")
    )
    lines.append(
        f"| last token to stored, summarised cell, {REQUESTS:,} requests of {TOKENS} tokens | {TURNAROUND_MOST_S:g} s | "
        f"{_told(found)} | {words} |"
    )
    return "\n".join([lines[0], "", *lines[1:]])


def _limit(verdict: Verdict) -> str:
    limit = verdict.limit
    words = "not measured" if verdict.reached is None else _reached(verdict.reached, verdict.missed_by, limit.unit)
    words += f": {limit.why}" if verdict.reached is False and limit.why else ""
    return f"| {limit.words} | {limit.most:g} {limit.unit} | {_told(verdict.found)} | {words} |"


def _reached(reached: bool, missed_by: float, unit: str) -> str:
    return "reached" if reached else f"**missed by {missed_by:.2g} {unit}**"


def _told(found: Spread | None) -> str:
    return "-" if found is None else f"{_cell(found)}, n={found.n}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 1 else f"{value:.2f}"


COLUMNS = (
    ("CPU us/event", "cpu_us_per_event"), ("events/s", "events_per_s"), ("TTFT error p50 ms", "ttft_error_p50_ms"),
    ("p99 ms", "ttft_error_p99_ms"), ("gap error p99 ms", "gap_error_p99_ms"),
    ("reported - true p99 TTFT ms", "reported_minus_true_p99_ms"), ("peak MB", "peak_rss_mb"),
    ("first request s", "first_request_s"),
)  # fmt: skip


def _shape(name: str, runs: Sequence[Run]) -> str:
    shape = SHAPES[name]
    mine = [run for run in runs if run.shape == name]
    tools = list(dict.fromkeys(run.tool for run in mine))
    pace = f"at {shape.gap_ms:g} ms" if shape.gap_ms else f"flat out, {shape.per_send} events in each write"
    start = ", all starting in one burst" if shape.burst else ""
    lines = [
        f"## {shape.streams} stream{'s' * (shape.streams > 1)} {pace}{start}",
        "",
        f"{shape.tokens} events per request, issued for {shape.seconds:g} s.{'' if shape.gap_ms else FLAT_OUT}",
        "",
        "| tool | n | CPU beside C | CPU beside Headroom | " + " | ".join(title for title, _ in COLUMNS) + " |",
        "|---" * (4 + len(COLUMNS)) + "|",
    ]
    for tool in tools:
        beside = [_ratio(spread(cpu_ratio(name, other, tool)(mine))) for other in (FLOOR, OURS)]
        cells = [_cell(spread(figure(name, key, tool)(mine))) for _, key in COLUMNS]
        lines.append(f"| {' | '.join([tool, str(sum(run.tool == tool for run in mine)), *beside, *cells])} |")
    return "\n".join([*lines, *_doubts(mine)])


def _ratio(found: Spread | None) -> str:
    if found is None:
        return "-"
    return f"{found.median:.2f}" if found.n == 1 else f"{found.median:.2f} [{found.low:.2f}-{found.high:.2f}]"


def _cell(found: Spread | None) -> str:
    if found is None:
        return "-"
    median, low, high = map(_number, (found.median, found.low, found.high))
    return median if found.n == 1 else f"{median} [{low}-{high}]"


def _doubts(runs: Sequence[Run]) -> list[str]:
    """What must be known before a row is believed."""
    found = []
    for tool in dict.fromkeys(run.tool for run in runs):
        lost = sum(run.unmatched + run.events_differ for run in runs if run.tool == tool)
        if lost:
            found.append(f"{tool}: {lost} requests are told of by one side only or differ in their events.")
    disturbed = sum(run.foreign_cpu_share > MOST_FOREIGN_SHARE for run in runs)
    if disturbed:
        found.append(
            f"In {disturbed} of {len(runs)} runs others used more than {MOST_FOREIGN_SHARE:.0%} of the client's core."
        )
    late = spread(run.server_late_p99_ms for run in runs)
    if late is not None:
        found.append(
            f"The server itself sent events later than planned by {_told(late)} ms at p99; no tool is charged with it."
        )
    return ["", *found] if found else []


def _turnaround(turnarounds: Sequence[Turnaround]) -> str:
    if not turnarounds:
        return ""
    steps = ("close_s", "read_s", "summarise_s", "parquet_s", "store_s", "total_s")
    titles = ("end and fsync of the log", "read", "summarise", "Parquet", "digest and row", "in all")
    cells = [_cell(spread(getattr(each, step) for each in turnarounds)) for step in steps]
    return "\n".join(
        [
            f"## Last token to stored, summarised cell ({REQUESTS:,} requests of {TOKENS} tokens), seconds",
            "",
            f"| {' | '.join(titles)} |",
            "|---" * len(titles) + "|",
            f"| {' | '.join(cells)} |",
            "",
            f"n={len(turnarounds)}; the Parquet has {turnarounds[0].content_bytes / 1e6:.1f} MB. The row goes to SQLite with "
            "synchronous writes; the worker's own beat is not in it.",
        ]
    )  # fmt: skip


def _not_run(results: Results) -> str:
    lines = [f"- {name}: {why}." for name, why in results.not_run.items()]
    lines += [f"- {name}: {words}." for name, words in results.remarks.items()]
    return "\n".join(["## Notes and what was not run", "", *lines]) if lines else ""
