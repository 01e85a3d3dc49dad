"""`make bench`: the engine beside a plain C client and whatever peers are installed, in alternating runs.

    make bench                        the engine and the C client in every shape, 5 rounds
    make bench PEERS=all              installs the peers first (gigabytes), then runs them too
    make bench PEERS=installed        those that are there already
    ROUNDS=1 SHAPES=64,256 PEERS=guidellm,vllm PEER_SHAPES=256 make bench

Results as JSON go to var/bench/results.json, after every run; docs/performance.md is written where the engine has at
least 5 rounds in every shape, else the same text goes to var/bench/performance.md. `python -m tests.bench render` writes
the text again from the JSON.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.bench import build, headroom, machine, plain, report, turnaround
from tests.bench.limits import OURS
from tests.bench.measure import Bench, Run, ToolFailedError, run
from tests.bench.peers import known, tokenizer
from tests.bench.peers.recipe import NotInstalledError, install
from tests.bench.report import Results
from tests.bench.shapes import SHAPES, Shape
from tests.bench.tools import Task, Tool

FEWEST_ROUNDS = 5
RESULTS = "results.json"
PEER_SHAPES = ("64", "256", "blast64")
TWO_PROCESS_SHAPES = ("256",)
SEED = 7


@dataclass(frozen=True)
class Options:
    rounds: int
    shapes: tuple[str, ...]
    peers: tuple[str, ...]
    peer_shapes: tuple[str, ...]
    may_install: bool


class WrongOptionError(ValueError):
    """An environment variable says something that is not understood."""


def options(environment: dict[str, str]) -> Options:
    """Raises WrongOptionError."""
    shapes = _names(environment.get("SHAPES", "all"), tuple(SHAPES), "SHAPES")
    asked = environment.get("PEERS", "")
    peers = tuple(known.PEERS) if asked in ("all", "installed") else _names(asked, tuple(known.PEERS), "PEERS")
    rounds = environment.get("ROUNDS", str(FEWEST_ROUNDS))
    if not rounds.isdecimal() or int(rounds) < 1:
        raise WrongOptionError(f"ROUNDS must be a number from 1 on, not {rounds!r}")
    return Options(
        rounds=int(rounds),
        shapes=shapes,
        peers=peers,
        peer_shapes=_names(environment.get("PEER_SHAPES", ",".join(PEER_SHAPES)), tuple(SHAPES), "PEER_SHAPES"),
        may_install=asked != "installed",
    )


def _names(words: str, known_names: tuple[str, ...], option: str) -> tuple[str, ...]:
    if words == "all":
        return known_names
    names = tuple(word for word in words.split(",") if word)
    wrong = [name for name in names if name not in known_names]
    if wrong:
        raise WrongOptionError(f"{option}: {', '.join(wrong)} not known, only {', '.join(known_names)}")
    return names


def main(arguments: list[str]) -> int:
    home = build.home()
    if arguments == ["render"]:
        return written(msgspec.json.decode((home / RESULTS).read_bytes(), type=Results))
    try:
        wanted = options(dict(os.environ))
        bench = Bench(programs=build.build(), home=home, cores=machine.two_cores())
    except (WrongOptionError, build.NoCompilerError, machine.OneCoreError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    os.sched_setaffinity(0, {bench.cores.server})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # for the tools: many systems allow 1024 open files
    not_run = dict(known.LEFT_OUT)
    peers = tools_of(wanted, home, not_run)
    results = Results(
        machine=machine.here(),
        date=datetime.now(UTC).date().isoformat(),
        rounds=wanted.rounds,
        runs=[],
        turnarounds=[],
        not_run=not_run,
        remarks={tool.name: tool.remark for tool in peers if tool.remark},
    )
    for shape, tool, number in schedule(wanted, peers):
        one(shape, tool, number, bench, results)
    for number in range(wanted.rounds):
        found = turnaround.measure(headroom.plan_of(a_task(bench)))
        print(f"{number + 1} last token to stored cell {found.total_s:.2f} s", flush=True)
        results.turnarounds.append(found)
        keep(home, results)
    return written(results)


def one(shape: Shape, tool: Tool, number: int, bench: Bench, results: Results) -> None:
    """Adds a run to the results, or the reason why there is none."""
    try:
        found = run(tool, shape, bench, seed=SEED + number)
    except ToolFailedError as error:
        print(f"bench: {error}", file=sys.stderr)
        results.not_run.setdefault(f"{tool.name} in {shape.name}", str(error))
        return
    print(line_of(found, number), flush=True)
    results.runs.append(replace(found, round=number))
    keep(bench.home, results)


def tools_of(wanted: Options, home: Path, not_run: dict[str, str]) -> list[Tool]:
    """The peers that can run; why the others cannot goes to `not_run`."""
    found = []
    if wanted.peers:
        tokenizer.write(home / "tokenizer")
    for name, peer in known.PEERS.items():
        try:
            if name in wanted.peers and wanted.may_install:
                install(peer, home)
            if name in wanted.peers:
                found.append(peer.tool(home))
            else:
                not_run[name] = f"not asked for: make bench PEERS={name}"
        except NotInstalledError as error:
            print(f"bench: {error}", file=sys.stderr)
            not_run[name] = str(error)
    if not found:
        print("bench: no peer takes part; PEERS=all installs and runs them", flush=True)
    return found


def schedule(wanted: Options, peers: list[Tool]) -> Iterator[tuple[Shape, Tool, int]]:
    """Round by round; within a round shape by shape, all tools of a shape one after the other, in turned order."""
    for number in range(wanted.rounds):
        for name in wanted.shapes:
            tools = [headroom.tool(), plain.tool()]
            tools += [headroom.tool(2)] if name in TWO_PROCESS_SHAPES else []
            tools += peers if name in wanted.peer_shapes else []
            for place in range(len(tools)):
                yield SHAPES[name], tools[(place + number) % len(tools)], number


def line_of(found: Run, number: int) -> str:
    told = [
        f"{found.cpu_us_per_event:8.2f} us/event", f"{found.events_per_s:9.0f} events/s",
        f"TTFT error p50 {_ms(found.ttft_error_p50_ms)} p99 {_ms(found.ttft_error_p99_ms)}",
        f"gap p99 {_ms(found.gap_error_p99_ms)}", f"reported-true {_ms(found.reported_minus_true_p99_ms)}",
        f"{found.peak_rss_mb:5.0f} MB", f"first {found.first_request_s:5.2f} s",
        f"others {found.foreign_cpu_share:4.0%}", f"n {found.requests}",
    ]  # fmt: skip
    told += (
        [f"unmatched {found.unmatched}, differ {found.events_differ}"] if found.unmatched + found.events_differ else []
    )
    return f"{number + 1} {found.shape:9} {found.tool:22} {'  '.join(told)}"


def _ms(value: float | None) -> str:
    return "   -  " if value is None else f"{value:6.2f}"


def keep(home: Path, results: Results) -> None:
    """After every run, so that what was measured before an interruption can still be rendered."""
    (home / RESULTS).write_bytes(msgspec.json.encode(results))


def a_task(bench: Bench) -> Task:
    return Task(
        shape=SHAPES["256"], port=9, folder=bench.home, programs=bench.programs, tokenizer=bench.home, seed=SEED
    )


def written(results: Results) -> int:
    """The document, to docs/ only where it says all that the document promises. 1 where nothing was measured."""
    rounds = {(each.shape, each.tool): 0 for each in results.runs}
    for each in results.runs:
        rounds[each.shape, each.tool] += 1
    ours = [rounds.get((shape, OURS), 0) for shape in SHAPES]
    path = build.home() / "performance.md" if min(ours) < FEWEST_ROUNDS else build.ROOT / "docs" / "performance.md"
    report.write(results, path)
    print(f"\n{report.document(results)}\nwritten to {path}")
    return 0 if results.runs else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
