"""A whole installation of its own for tests with real processes: folder, database, broker, simulator, worker.

Nothing is flushed afterwards: the folder and the database are thrown away whole.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg

ROOT = Path(__file__).resolve().parents[3]
PYTHON = sys.executable
DATABASE = "headroom.sqlite3"
MOST_WAIT_S = 240.0  # a bound, not a claim: other work may share the machine


class Installation:
    """Processes started by `start` are ended by `close`; scripts run in the product's settings, in this folder."""

    def __init__(self, folder: Path, **environment: str) -> None:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "VIRTUAL_ENV")}
        self.folder = folder
        self.environment = kept | {
            "HEADROOM_VAR": str(folder), "HEADROOM_PLAIN_STATIC": "1", "DJANGO_SETTINGS_MODULE": "capacity.settings",
            "HEADROOM_HEARTBEAT_S": "1", "HEADROOM_STALE_AFTER_S": "20", "HEADROOM_SWEEP_EVERY_S": "1", "PYTHONPATH": str(ROOT),
            # Other tests and people share the machine; how true the client is here is not what these tests ask.
            "HEADROOM_CALIBRATION_TTFT_MS": "500", "HEADROOM_CALIBRATION_GAP_MS": "500",
        } | environment  # fmt: skip
        self._started: list[subprocess.Popen[Any]] = []

    def manage(self, *arguments: str) -> str:
        return self._run([PYTHON, "manage.py", *arguments])

    def migrate(self) -> None:
        """Tables as `manage.py migrate` makes them. In files they are made once for a run of the tests, then copied."""
        if "DATABASE_URL" in self.environment:
            self.manage("migrate", "-v", "0")
        else:
            shutil.copyfile(_migrated(), self.folder / DATABASE)

    def script(self, body: str) -> Any:
        """Runs Python with Django loaded; what the body leaves in `answer` comes back through JSON."""
        text = f"import django, json\ndjango.setup()\nanswer = None\n{body}\nprint('ANSWER', json.dumps(answer))\n"
        output = self._run([PYTHON, "-c", text])
        return json.loads(output.rpartition("ANSWER ")[2])

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Asks the database directly, which is quicker than a script when a test watches."""
        if address := self.environment.get("DATABASE_URL"):
            with psycopg.connect(address, autocommit=True) as postgres:
                return postgres.execute(sql.encode()).fetchall()
        with contextlib.closing(sqlite3.connect(self.folder / DATABASE, timeout=20)) as sqlite:
            return sqlite.execute(sql).fetchall()

    def start(self, *command: str, log: str, stdout: int | None = None) -> subprocess.Popen[Any]:
        with (self.folder / log).open("ab") as file:
            process = subprocess.Popen(
                [PYTHON, *command],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout or file,
                stderr=file,
            )
        self._started.append(process)
        return process

    def start_simulator(self) -> str:
        """Starts the simulated runtime on a free port; its address."""
        process = self.start(
            "-m", "benchmarks.simulator", "--port", "0", "--with-parent", log="simulator.log", stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        found = next((word for word in line.split() if word.startswith("http://")), None)
        assert found, f"the simulator said {line!r}: {self.log('simulator.log')}"
        return found.rstrip("/.,")

    def start_worker(self) -> subprocess.Popen[Any]:
        return self.start("manage.py", "worker", "--schedule", log="worker.log")

    def log(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8", errors="replace")[-4000:] if path.exists() else ""

    def close(self) -> None:
        for process in reversed(self._started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=MOST_WAIT_S, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


@functools.cache
def _migrated() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="headroom-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    house = Installation(folder)
    house.manage("migrate", "-v", "0")
    # What stands in the log beside the file would not be copied.
    with contextlib.closing(sqlite3.connect(folder / DATABASE)) as sqlite:
        sqlite.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / DATABASE


def wait_for(what: str, look: Callable[[], Any], *, most_s: float = MOST_WAIT_S, every_s: float = 0.25) -> Any:
    """The first true answer of `look`; fails with `what` when none comes in time."""
    until = time.monotonic() + most_s
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(every_s)
    raise AssertionError(f"waited {most_s:g} s for {what}")


def engines_under(pid: int) -> list[psutil.Process]:
    """Load engines among the descendants of a process."""
    return [p for p in psutil.Process(pid).children(recursive=True) if "benchmarks.engine" in " ".join(_words(p))]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


DRAW = """
from datetime import timedelta
from django.utils import timezone
from benchmarks import runs
from tests import factories
runtime = factories.make_runtime(endpoint={endpoint!r}, metrics_url={endpoint!r} + "/metrics",
    model_name="headroom-simulated-demo")
workload = factories.make_workload(runtime.team, classes={{"short": (8, 8)}})
grid = factories.make_grid(runtime, workload, settings={settings!r}, window_s={window_s!r}, warmup_s=0.5,
    limits=factories.make_limits(classes=("short",), e2e_s=60.0))
now = timezone.now()
runs.authorize(grid=grid, by=factories.make_user(grid.team, "host_owner"), valid_from=now, valid_until=now + timedelta(hours=1),
    ceilings=runs.Ceilings(max_concurrency=8, max_requests=100_000, max_tokens=10_000_000, max_minutes=30))
answer = {{"grid": grid.pk, "host": grid.hardware.slug}}
"""

PROOF = """
import hashlib
from benchmarks import audit, queries
from benchmarks.engine import summary
from benchmarks.records import parquet
from benchmarks.models import Attempt, Cell, Evidence
cells = []
for cell in Cell.objects.filter(grid_id={grid}).order_by("position"):
    content = queries.evidence_bytes(cell.pk)
    columns = parquet.read(content)
    again = summary.summarise(columns, columns.plan)
    stored = next(c.summary for c in queries.evidence(cell.grid).cells if c.cell_id == cell.pk)
    cells.append({{"digest": hashlib.sha256(content).hexdigest() == cell.evidence.sha256,
        "summary": again == stored, "requests": len(columns.requests), "kept": cell.evidence.requests,
        "measured": cell.attempts.filter(outcome="measured").count(), "attempts": cell.attempts.count()}})
answer = {{"cells": cells, "broken": len(audit.broken_links()),
    "interrupted": Attempt.objects.filter(outcome="interrupted").count()}}
"""

MANY = """
from datetime import timedelta
from django.utils import timezone
from benchmarks import runs
from tests import factories
now, team = timezone.now(), factories.make_team()
owner, operator = factories.make_user(team, "host_owner"), factories.make_user(team, "operator")
for _ in range({hosts}):
    runtime = factories.make_runtime(factories.make_hardware(team))
    grid = factories.make_grid(runtime, drawn_by=operator, settings=range(1, {cells} + 1), class_names=("short",))
    runs.authorize(grid=grid, by=owner, valid_from=now, valid_until=now + timedelta(hours=1), ceilings=runs.Ceilings(
        max_concurrency=99, max_requests=100_000, max_tokens=10_000_000, max_minutes=600))
"""

CLAIM_ALL = """
import time
from benchmarks import claims
from benchmarks.models import Cell, Hardware
from tests.benchmarks.runs.made import record, summary
slugs, answer, idle = list(Hardware.objects.values_list("slug", flat=True)), 0, 0
while Cell.objects.filter(status__in=("queued", "running")).exists():
    taken = claims.claim_next_cell(hardware_slugs=slugs, worker="w")
    if taken is None:
        time.sleep(0.01)
        continue
    assert record(taken, summary(), content=str(taken.cell_id).encode())
    answer += 1
"""
