"""A kept process and all that it forks end when they are told to, and when whoever started them is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.engine.keeper import started_tick
from benchmarks.engine.kept import Kept, secrets_of

ROOT = Path(__file__).resolve().parents[3]
DEAF_FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for away in (False, True):
    if os.fork() == 0:
        if away:
            os.setsid()
        open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
        time.sleep(600)
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
time.sleep(600)
"""
WORKER = """
import sys, time
from pathlib import Path
from benchmarks.engine.kept import Kept
kept = Kept([sys.executable, "-c", sys.argv[1], sys.argv[2]], {}, log=Path(sys.argv[3]), grace_s=60, root=Path.cwd())
print(kept.began.pid, kept._keeper.pid, flush=True)
time.sleep(600)
"""


def wait_for_three(family: Path) -> list[int]:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        pids = family.read_text().split() if family.exists() else []
        if len(pids) == 3:
            return [int(pid) for pid in pids]
        time.sleep(0.05)
    raise AssertionError("the family did not come up")


def gone(pids: list[int], within_s: float) -> bool:
    until = time.monotonic() + within_s
    while any(started_tick(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_a_deaf_family_is_ended_with_the_one_that_left_the_group(tmp_path):
    family = tmp_path / "family"
    kept = Kept([sys.executable, "-c", DEAF_FAMILY, str(family)], {}, log=tmp_path / "log", grace_s=0.3, root=ROOT)
    pids = wait_for_three(family)
    ended = kept.end()
    assert ended is not None
    assert (ended.status, ended.killed, ended.left, ended.processes) == (-signal.SIGKILL, 3, 0, 3)
    assert gone(pids, 1)
    assert not kept.alive


@pytest.mark.parametrize("victim", ["worker", "worker and keeper"])
def test_nothing_outlives_a_killed_worker_by_five_seconds(tmp_path, victim):
    family = tmp_path / "family"
    command = [sys.executable, "-c", WORKER, DEAF_FAMILY, str(family), str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        first, keeper = (int(word) for word in worker.stdout.readline().split())
        pids = wait_for_three(family)
        if "keeper" in victim:
            os.kill(keeper, signal.SIGKILL)
        worker.kill()
    try:
        # Of a killed keeper the kernel ends the first process; the rest is found by its mark when a worker starts again.
        assert gone([first] if "keeper" in victim else pids, 5)
    finally:
        for pid in pids:
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("command", "words"),
    [(["/no/such/program"], "/no/such/program: No such file or directory"), (["/etc/passwd"], "Permission denied")],
)
def test_what_cannot_be_started_is_told(tmp_path, command, words):
    kept = Kept(command, {}, log=tmp_path / "log", grace_s=1, root=ROOT)
    assert words in kept.began.error
    assert (kept.alive, kept.end()) == (False, None)


def test_one_that_ends_by_itself_is_no_longer_alive_and_its_last_lines_are_kept(tmp_path):
    script = "print('\\x1b[31mone'); print(); print('two'); raise SystemExit(3)"
    kept = Kept([sys.executable, "-c", script], {}, log=tmp_path / "log", grace_s=1, root=ROOT)
    until = time.monotonic() + 10
    while kept.alive and time.monotonic() < until:
        time.sleep(0.05)
    ended = kept.end()
    assert ended is not None
    assert (ended.status, ended.killed, kept.tail()) == (3, 0, "[31mone\ntwo")


def test_it_sees_only_the_environment_that_it_was_given(tmp_path):
    script = "import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))"
    kept = Kept([sys.executable, "-c", script], {"ONE": "1"}, log=tmp_path / "log", grace_s=1, root=ROOT)
    until = time.monotonic() + 10
    while kept.alive and time.monotonic() < until:
        time.sleep(0.05)
    kept.end()
    assert kept.tail() == "['ONE']"


@pytest.mark.parametrize(
    ("command", "environment", "found"),
    [
        (("serve", "--api-key", "sk-123456"), {}, ["sk-123456"]),
        (("serve", "--api-key=sk-123456"), {"HF_TOKEN": "hf-1234567"}, ["hf-1234567", "sk-123456"]),
        (("serve", "--max-total-tokens", "131072", "--port", "8081123"), {"HOME": "/home/somebody"}, []),
        (("serve", "--api-key"), {"DB_PASSWORD": "short"}, []),
    ],
)
def test_keys_that_a_runtime_was_started_with_are_known(command, environment, found):
    assert secrets_of(command, environment) == found
