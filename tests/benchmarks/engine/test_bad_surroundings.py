"""A full disk, nobody who listens, no stdin, plans with absurd numbers: one sentence or a clean end, never a traceback."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.engine.__main__ import main, part
from benchmarks.engine.columns import from_log
from benchmarks.engine.lengths import quantile
from benchmarks.engine.load import StaticBatch
from benchmarks.engine.plan import Lognormal
from benchmarks.engine.supply import Shard
from benchmarks.engine.usable import BadPlanError, check
from tests.benchmarks.engine.loads.running import MODEL, simulator
from tests.benchmarks.engine.plans import a_plan
from tests.benchmarks.engine.test_program import ROOT, command_line

ORPHANED = 4


@pytest.fixture(scope="module")
def url():
    with simulator() as address:
        yield address


def no_more_than(most_bytes: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def plan_at(url: str, **changes):
    changes = {"model": MODEL, "max_requests": 5000, "window_s": 1.0, "offered_concurrency": 8} | changes
    return a_plan(base_url=url, **changes)


def test_a_log_that_cannot_grow_is_one_sentence_and_exit_1(tmp_path, url):
    with subprocess.Popen(
        command_line(plan_at(url), tmp_path), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, preexec_fn=no_more_than(2000),
    ) as child:  # fmt: skip
        words = child.stderr.read().decode()  # stdin stays open meanwhile
    assert child.returncode == 1
    assert words.strip().splitlines()[-1].startswith("benchmarks.engine: the log cannot be written:")
    assert "Traceback" not in words


def test_without_a_stdin_nobody_could_stop_it_so_it_leaves(tmp_path, url):
    shell = "exec " + " ".join(command_line(plan_at(url, window_s=20.0), tmp_path)) + " <&-"
    done = subprocess.run(["sh", "-c", shell], cwd=ROOT, capture_output=True, timeout=15, check=False)
    assert done.returncode == ORPHANED


def test_a_cell_whose_progress_nobody_reads_is_measured_all_the_same(tmp_path, url):
    reader, writer = os.pipe()
    with subprocess.Popen(
        command_line(plan_at(url), tmp_path), cwd=ROOT, stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE
    ) as child:
        os.close(writer)
        os.close(reader)
        began = time.monotonic()
        while child.poll() is None and time.monotonic() - began < 20:  # stdin stays open meanwhile
            time.sleep(0.05)
        assert (child.returncode, child.stderr.read()) == (0, b"")


@pytest.mark.parametrize(
    ("load", "refused"),
    [
        (StaticBatch(items=1_000_000, batch_size=10_000), False),
        (StaticBatch(items=1_000_001, batch_size=1), True),
        (StaticBatch(items=2, batch_size=10_001), True),
    ],
)
def test_a_static_batch_has_bounds(load, refused):
    plan = a_plan(load=load)
    if refused:
        with pytest.raises(BadPlanError, match="a static batch has at most"):
            check(plan)
    else:
        check(plan)


@pytest.mark.parametrize("share", [1e-9, 0.5, 1 - 1e-9])
def test_an_absurd_spread_stays_inside_its_bounds(share):
    assert 1 <= quantile(Lognormal(median=100, sigma=1e6, low=1, high=4000), share) <= 4000


@pytest.mark.parametrize(("text", "shard"), [("0/1", Shard(0, 1)), ("1/2", Shard(1, 2))])
def test_a_part_of_several(text, shard):
    assert part(text) == shard


@pytest.mark.parametrize("text", ["1/0", "2/2", "-1/2", "x", "1"])
def test_no_part_of_several(text):
    with pytest.raises(ValueError, match=r".*"):
        part(text)


def test_a_refusal_is_short_whatever_the_field(tmp_path, capsys):
    path = Path(command_line(a_plan(task="x" * 100_000), tmp_path)[-2])
    assert (main([str(path), str(tmp_path / "log")]), len(capsys.readouterr().err) < 600) == (2, True)


@pytest.mark.parametrize("asked", [False, True])
def test_the_log_says_which_priority_was_had(tmp_path, url, asked):
    with subprocess.Popen(
        command_line(plan_at(url, client_realtime=asked, window_s=0.3), tmp_path), cwd=ROOT, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        while child.poll() is None:
            time.sleep(0.05)
    had = from_log(tmp_path / "cell.log").header.client_priority
    allowed = ("realtime", "normal: real time was not allowed", "normal: this system has no real-time priority")
    assert had in (allowed if asked else ("normal",))
