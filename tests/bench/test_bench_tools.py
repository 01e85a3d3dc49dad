"""The benchmark's own tools tell of the same requests: what the server sent is what each client says it received."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench import build, headroom, join, limits, measurements, plain, report
from tests.bench.__main__ import WrongOptionError, options
from tests.bench.join import Seen
from tests.bench.machine import Cores, Machine
from tests.bench.measure import Bench, Run, run
from tests.bench.measurements import Measured
from tests.bench.report import Results
from tests.bench.shapes import SHAPES, Server, Shape
from tests.bench.tools import Tool

SHORT = Shape("short", streams=4, gap_ms=2, seconds=0.5, tokens=8)
FLAT_OUT = Shape("flat", streams=2, gap_ms=0, seconds=0.2, tokens=8, per_send=3)

pytestmark = pytest.mark.needs("gcc", "apt install gcc libc6-dev")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    home = tmp_path_factory.mktemp("bench")
    mine = sorted(os.sched_getaffinity(0))
    return Bench(programs=build.build(home), home=home, cores=Cores(server=mine[0], client=mine[-1]))


@pytest.mark.parametrize("tool", [headroom.tool(), plain.tool()], ids=lambda tool: tool.name)
@pytest.mark.parametrize("shape", [SHORT, FLAT_OUT], ids=lambda shape: shape.name)
def test_every_request_and_every_event_is_told_of_by_both_sides(bench: Bench, tool: Tool, shape: Shape):
    found = run(tool, shape, bench, seed=3)
    assert (found.unmatched, found.events_differ, found.events) == (0, 0, found.requests * shape.tokens)
    assert found.requests >= shape.streams


def test_the_truth_can_be_asked_for_while_the_server_runs(bench: Bench, tmp_path: Path):
    server = Server(bench.programs.server, SHORT, tmp_path / "truth", core=bench.cores.server, seed=1)
    command = [
        str(bench.programs.client),
        "--port",
        str(server.port),
        "--log",
        str(tmp_path / "log"),
        "--requests",
        "6",
    ]
    subprocess.run([*command, "--streams", "3"], check=True)
    curl = subprocess.run(
        ["python3", "-c", f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{server.port}/truth').status)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    asked = measurements.read(tmp_path / "truth")
    assert (curl.stdout.strip(), len(asked), len(server.stop())) == ("200", 6, 6)


def truth(*ttft_ms: float, gaps_ms: float = 20.0, events: int = 3) -> Measured:
    """Requests that arrived at second 1, with events at even gaps."""
    rows = np.zeros(len(ttft_ms), measurements.RECORD)
    rows["number"], rows["events"], rows["t_request_ns"] = np.arange(len(ttft_ms)), events, 1_000_000_000
    first = 1_000_000_000 + np.array(ttft_ms) * 1e6
    times = (first[:, None] + np.arange(events) * gaps_ms * 1e6).astype(np.int64).ravel()
    return Measured(
        start_ns=0, end_ns=0, cpu_ns=0, peak_rss_kib=0, gap_ns=20_000_000, rows=rows, times_ns=times,
        offsets=np.arange(len(ttft_ms) + 1) * events,
    )  # fmt: skip


def seen(keys: tuple[str, ...] | None, ttft_ms: tuple[float, ...], *gaps: tuple[float, ...]) -> Seen:
    return Seen(keys=keys, ttft_ms=np.array(ttft_ms), gaps_ms=tuple(np.array(each) for each in gaps) if gaps else None)


@pytest.mark.parametrize(
    ("mine", "errors", "gap_errors", "unmatched", "differ"),
    [
        (seen(("chatcmpl-1", "chatcmpl-0"), (21.0, 10.5), (20.0, 21.0), (19.0, 20.0)), [1.0, 0.5], [0, 1, -1, 0], 0, 0),
        (seen(("chatcmpl-1",), (21.0,), (20.0, 20.0)), [1.0], [0, 0], 1, 0),
        (seen(("chatcmpl-1", "other"), (21.0, 9.0), (20.0,), (20.0,)), [1.0], [], 2, 1),
        (seen(("chatcmpl-0", "chatcmpl-1"), (10.0, 20.0)), [0.0, 0.0], [], 0, 0),
        (seen(None, (21.0, 10.5)), [0.5, 1.0], [], 0, 0),
        (seen(None, (21.0,)), [], [], 1, 0),
        (seen((), ()), [], [], 2, 0),
    ],
    ids=["by name", "one lost", "a stranger, a lost event", "no gaps told", "by size", "by size, one lost", "nothing"],
)
def test_errors_are_the_client_s_times_minus_the_true_ones(
    mine: Seen, errors: list[float], gap_errors: list[float], unmatched: int, differ: int
):
    both = truth(10.0, 20.0)
    joined = join.join(both, mine, join.by_answer_id(both))
    assert joined.ttft_error_ms.round(6).tolist() == errors
    assert joined.gap_error_ms.round(6).tolist() == gap_errors
    assert (joined.unmatched, joined.events_differ) == (unmatched, differ)


@pytest.mark.parametrize(
    ("values", "found"),
    [([3.0, 1.0, 2.0], (3, 2.0, 1.0, 3.0)), ([1.0, None, 2.0], (2, 1.5, 1.0, 2.0)), ([None], None), ([], None)],
)
def test_a_spread_is_of_the_rounds_that_told_the_figure(values: list[float | None], found: tuple[float, ...] | None):
    spread = limits.spread(values)
    assert (None if spread is None else (spread.n, spread.median, spread.low, spread.high)) == found


@pytest.mark.parametrize(("median", "reached", "by"), [(0.9, True, 0.0), (1.0, True, 0.0), (1.25, False, 0.25)])
def test_a_limit_is_reached_up_to_and_including_its_value(median: float, reached: bool, by: float):
    limit = limits.Limit("words", 1.0, "ms", lambda runs: [])
    verdict = limits.Verdict(limit, limits.Spread(n=1, median=median, low=median, high=median))
    assert (verdict.reached, verdict.missed_by) == (reached, by)


def test_a_limit_that_was_not_measured_is_neither_reached_nor_missed():
    verdicts = limits.verdicts([])
    assert {(verdict.found, verdict.reached) for verdict in verdicts} == {(None, None)}


def a_run(tool: str, shape: str, cpu_us_per_event: float, **changes: float | None) -> Run:
    fields: dict[str, Any] = dict.fromkeys(Run.__annotations__) | {
        "tool": tool, "version": "1", "shape": shape, "unmatched": 0, "events_differ": 0, "foreign_cpu_share": 0.0,
        "cpu_us_per_event": cpu_us_per_event,
    }  # fmt: skip
    return Run(**fields | changes)


def test_a_ratio_pairs_runs_of_one_round_whatever_failed_between():
    ours = [a_run(limits.OURS, "256", each, round=place) for place, each in ((1, 10.0), (2, 20.0), (3, 40.0))]
    floor = [a_run(limits.FLOOR, "256", each, round=place) for place, each in ((1, 10.0), (3, 20.0))]
    assert limits.cpu_ratio("256", limits.FLOOR)(ours + floor) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("ours", "floor", "row"),
    [
        ((16.0,), (10.0,), "| 1.6, n=1 | reached |"),
        ((16.0, 17.0), (10.0, 10.0), "| 1.65 [1.6-1.7], n=2 | **missed by 0.05 times**: Kernel and"),
        ((16.0,), (), "| - | not measured |"),
    ],
)
def test_the_document_has_each_limit_beside_its_figure(ours: tuple[float, ...], floor: tuple[float, ...], row: str):
    runs = [a_run(limits.OURS, "256", each, round=place) for place, each in enumerate(ours)]
    runs += [a_run(limits.FLOOR, "256", each, round=place) for place, each in enumerate(floor)]
    here = Machine("cpu", 2, 4.0, "6.1", "3.11", "12", "none", 0.0)
    text = report.document(Results(here, "2026-01-01", 1, runs, [], {"a peer": "not here"}, {}))
    assert f"| 256 streams at 20 ms: CPU per event beside C client | 1.6 times {row}" in text
    assert "- a peer: not here." in text


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"SHAPES": "256,7"}, "SHAPES: 7 not known"),
        ({"PEERS": "nobody"}, "PEERS: nobody not known"),
        ({"ROUNDS": "0"}, "ROUNDS must be a number from 1 on, not '0'"),
    ],
)
def test_an_option_that_is_not_understood_is_named(environment: dict[str, str], words: str):
    with pytest.raises(WrongOptionError, match=words):
        options(environment)


def test_without_options_all_shapes_run_five_times_and_no_peer():
    found = options({})
    assert (found.rounds, found.shapes, found.peers) == (5, tuple(SHAPES), ())


def test_a_file_that_is_not_of_this_benchmark_is_refused(tmp_path: Path):
    (tmp_path / "log").write_bytes(b"HRBENCH2" + bytes(200))
    with pytest.raises(ValueError, match="not a file of this benchmark"):
        measurements.read(tmp_path / "log")
