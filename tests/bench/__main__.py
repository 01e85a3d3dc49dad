"""`make bench`: the engine beside a plain C client and whatever peers are installed, in alternating runs.

    make bench                        the engine and the C client in every shape, 5 rounds
    make bench PEERS=all              installs the peers first (gigabytes), then runs them too
    make bench PEERS=installed        those that are there already
    ROUNDS=1 SHAPES=64,256 PEERS=guidellm,vllm PEER_SHAPES=256 make bench

Results as JSON go to var/bench/results.json, after every run; docs/performance.md is written where a run had all shapes
and at least 5 rounds, else the same text goes to var/bench/performance.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.bench import build, headroom, machine, plain, report, turnaround
from tests.bench.measure import Run, ToolFailedError, run
from tests.bench.peers import known, tokenizer
from tests.bench.peers.recipe import NotInstalledError, install
from tests.bench.report import Results
from tests.bench.shapes import SHAPES, Shape
from tests.bench.tools import Task, Tool

FEWEST_ROUNDS = 5
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


def main() -> int:
    try:
        wanted = options(dict(os.environ))
        programs = build.build()
    except (WrongOptionError, build.NoCompilerError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        print("bench: needs Linux and two cores, one for the server and one for the client", file=sys.stderr)
        return 2
    os.sched_setaffinity(0, {0})
    home, here = build.home(), machine.here()
    not_run: dict[str, str] = {}
    peers = tools_of(wanted, home, not_run)
    runs: list[Run] = []
    for shape, tool, number in schedule(wanted, peers):
        try:
            runs.append(run(tool, shape, programs, home, seed=SEED + number))
        except ToolFailedError as error:
            print(f"bench: {error}", file=sys.stderr)
            not_run.setdefault(f"{tool.name} in {shape.name}", str(error))
            continue
        print(line_of(runs[-1], number), flush=True)
        keep(home, runs)
    results = Results(
        machine=here,
        date=datetime.now(UTC).date().isoformat(),
        rounds=wanted.rounds,
        runs=tuple(runs),
        turnarounds=tuple(turnarounds(home, programs, wanted.rounds)),
        not_run=not_run,
        remarks={tool.name: tool.remark for tool in peers if tool.remark},
    )
    (home / "results.json").write_bytes(msgspec.json.encode(results))
    return written(results, wanted, home)


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
        f"{found.peak_rss_mb:5.0f} MB", f"first {found.first_request_s:5.2f} s", f"n {found.requests}",
    ]  # fmt: skip
    told += (
        [f"unmatched {found.unmatched}, differ {found.events_differ}"] if found.unmatched + found.events_differ else []
    )
    return f"{number + 1} {found.shape:9} {found.tool:22} {'  '.join(told)}"


def _ms(value: float | None) -> str:
    return "   -  " if value is None else f"{value:6.2f}"


def keep(home: Path, runs: list[Run]) -> None:
    (home / "runs.json").write_bytes(msgspec.json.encode(runs))


def turnarounds(home: Path, programs: build.Programs, rounds: int) -> Iterator[turnaround.Turnaround]:
    task = Task(shape=SHAPES["256"], port=9, folder=home, programs=programs, tokenizer=home, seed=SEED)
    for number in range(rounds):
        found = turnaround.measure(headroom.plan_of(task))
        print(f"{number + 1} last token to stored cell {found.total_s:.2f} s", flush=True)
        yield found


def written(results: Results, wanted: Options, home: Path) -> int:
    """The document, to docs/ only where it says all that the document promises. 1 where nothing was measured."""
    whole = wanted.rounds >= FEWEST_ROUNDS and set(wanted.shapes) == set(SHAPES)
    path = build.ROOT / "docs" / "performance.md" if whole else home / "performance.md"
    report.write(results, path)
    print(f"\n{report.document(results)}\nwritten to {path}")
    return 0 if results.runs else 1


if __name__ == "__main__":
    sys.exit(main())
