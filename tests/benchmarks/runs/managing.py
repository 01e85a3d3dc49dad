"""A grid whose runtime a real worker starts itself, in an installation of its own."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.benchmarks.runs.installation import ROOT, Installation, wait_for

DRAW_MANAGED = """
from datetime import timedelta
from django.utils import timezone
from benchmarks import preflight, runs
from tests import factories
runtime = factories.make_runtime(kind={kind!r}, endpoint={endpoint!r}, metrics_url={endpoint!r} + "/metrics",
    model_name={model!r}, launch_profile="p")
preflight.keep_probe(runtime.hardware)
runtime.hardware.refresh_from_db()
workload = factories.make_workload(runtime.team, classes={{"short": (8, 8)}})
grid = factories.make_grid(runtime, workload, settings={settings!r}, window_s={window_s!r}, warmup_s=0.5, managed=True,
    limits=factories.make_limits(classes=("short",), e2e_s=60.0))
now = timezone.now()
runs.authorize(grid=grid, by=factories.make_user(grid.team, "host_owner"), valid_from=now, valid_until=now + timedelta(hours=1),
    ceilings=runs.Ceilings(max_concurrency=8, max_requests=100_000, max_tokens=10_000_000, max_minutes=30))
answer = grid.pk
"""

PLANS = """
from benchmarks import queries
from benchmarks.models import Cell
from benchmarks.records import parquet
answer = []
for cell in Cell.objects.filter(grid_id={grid}, status="measured").order_by("position"):
    plan = parquet.read(queries.evidence_bytes(cell.pk)).plan
    back = plan.read_back
    answer.append([cell.setting, plan.offered_concurrency, back.active_sequences, back.context_per_sequence_tokens,
        back.kv_capacity_tokens, cell.progress["runtime"]])
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_profile(house: Installation, kind: str, command: Sequence[str], *, port: int, context: int) -> Path:
    """The host file of the installation with one profile, p; what ran before writes into a file, whose path comes back."""
    said = house.folder / "said"
    house.environment["HEADROOM_HOST_FILE"] = str(house.folder / "worker.toml")
    profile = {
        "kind": kind, "command": list(command), "endpoint": f"http://127.0.0.1:{port}", "settings": [1, 8],
        "context_per_sequence": context, "previous": ["/bin/sh", "-c", f"echo started >> {said}"],
        "stop_previous": ["/bin/sh", "-c", f"echo stopped >> {said}"],
    }  # fmt: skip
    lines = [f"{name} = {json.dumps(value)}" for name, value in profile.items()]
    text = "\n".join(["[profiles.p]", *lines, f'environment = {{ PYTHONPATH = "{ROOT}" }}'])
    (house.folder / "worker.toml").write_text(text)
    return said


def finish(house: Installation) -> None:
    wait_for("the grid to finish", lambda: house.rows("SELECT id FROM benchmarks_grid WHERE finished_at IS NOT NULL"))


def told(house: Installation) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in house.rows("SELECT status, reason FROM benchmarks_cell ORDER BY position")]


def started_by(command_word: str) -> list[psutil.Process]:
    """Processes with this word in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if command_word in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found
