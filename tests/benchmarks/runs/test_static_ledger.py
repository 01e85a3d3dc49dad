"""A static batch whose engine is killed goes on where it ended: each item is in the ledger once, and counted once."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from benchmarks import claims, engine_child, queries, runs, storing, worker
from benchmarks.engine.column_types import OUTCOMES
from benchmarks.engine.terms import Outcome
from benchmarks.models import Attempt, Cell, Grid
from benchmarks.records import parquet
from benchmarks.records.calibration import Limits
from benchmarks.records.kept_calibration import Kept, Need
from benchmarks.records.modes import ClosedTerms, StaticTerms, Terms
from tests import factories
from tests.benchmarks.runs.installation import PYTHON, ROOT
from tests.benchmarks.runs.made import claim, record, result, running_grid, states, summary

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
ITEMS = 120
TRUE = msgspec.to_builtins(
    Kept(
        agrees=True, why="", at=datetime(2026, 11, 14, tzinfo=UTC), engine_version="0.2.0", limits=Limits(), tries=(),
        need=Need(host="h", boot="b", client_cpus=(), engine_sha256="e", processes=1, offered_concurrency=4),
    )
)  # fmt: skip


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A simulated runtime of its own."""
    command = [PYTHON, "-m", "benchmarks.simulator", "--port", "0", "--with-parent"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield next(word for word in process.stdout.readline().decode().split() if word.startswith("http://"))
        process.terminate()


@pytest.fixture
def here(settings: Any, tmp_path: Path) -> Path:
    """A folder of its own, quick heartbeats, and a client that need not prove itself on a shared machine."""
    settings.VAR, settings.HEARTBEAT_S = tmp_path, 0.2
    settings.CALIBRATION_LIMITS_MS = {"ttft_error_p99_ms": 500.0, "gap_error_p99_ms": 500.0}
    return tmp_path


def _batch(endpoint: str, **terms: int) -> Grid:
    runtime = factories.make_runtime(endpoint=endpoint, model_name="headroom-simulated-demo")
    workload = factories.make_workload(runtime.team, classes={"short": (8, 8)})
    return running_grid(
        runtime=runtime, workload=workload, settings=(4,), load=StaticTerms(items=ITEMS, **terms), window_s=60.0,
        limits=factories.make_limits(classes=("short",), e2e_s=60.0),
    )  # fmt: skip


def _killing(ledger: Path, more_bytes: int) -> threading.Thread:
    """Kills the engine of this process as soon as its ledger has grown by so much."""
    before = ledger.stat().st_size if ledger.exists() else 0

    def kill() -> None:
        for _ in range(3000):
            if ledger.exists() and ledger.stat().st_size > before + more_bytes:
                break
            time.sleep(0.01)
        for child in psutil.Process().children(recursive=True):
            if "benchmarks.engine" in " ".join(child.cmdline()):
                child.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_killed_engines_cost_no_item_and_repeat_none(endpoint: str, here: Path) -> None:
    grid = _batch(endpoint)
    sizes: list[int] = []
    for _ in range(3):
        taken = claim(grid)
        ledger = engine_child.ledger_of(taken)
        killer = _killing(ledger, 1500)
        worker.run_cell(taken)
        killer.join()
        sizes.append(ledger.stat().st_size)
        assert Cell.objects.get(pk=taken.cell_id).status == "queued", Attempt.objects.last().reason  # type: ignore[union-attr]
    assert sizes == sorted(set(sizes))
    last = claim(grid)
    assert worker.run_cell(last)
    cell = Cell.objects.get(pk=last.cell_id)
    assert cell.status == "measured", cell.reason
    columns = parquet.read(queries.evidence_bytes(cell.pk))
    ok = columns.requests.codes["outcome"] == OUTCOMES.index(Outcome.OK)
    found = queries.evidence(grid).cells[0].summary
    assert found is not None
    assert found.static_batch is not None
    assert (found.static_batch.items, found.static_batch.done, found.static_batch.open) == (ITEMS, ITEMS, 0)
    assert found.static_batch.resumed == 3
    assert sorted(columns.requests.plain["index"][ok]) == list(range(ITEMS))
    assert not ledger.exists()
    assert list(Attempt.objects.order_by("number").values_list("outcome", flat=True)) == ["interrupted"] * 3 + [
        "measured"
    ]
    assert cell.progress["spent"]["requests"] == len(columns.requests)


def test_a_stopped_batch_goes_on_from_its_ledger_when_the_grid_does(endpoint: str, here: Path) -> None:
    grid = _batch(endpoint)
    taken = claim(grid)
    Grid.objects.filter(pk=grid.pk).update(calibration=TRUE)
    Grid.objects.filter(pk=grid.pk).update(stop_requested="cancel", stop_reason="Stopped by owner (cancel).")
    worker.run_cell(taken)
    ledger = engine_child.ledger_of(taken)
    assert (states(grid), ledger.exists()) == (["not_run"], True)
    grid.refresh_from_db()
    runs.resume(grid=grid, by=grid.drawn_by)
    worker.run_cell(claim(grid))
    found = queries.evidence(grid).cells[0].summary
    assert found is not None
    assert found.static_batch is not None
    assert (found.static_batch.done, found.static_batch.resumed) == (ITEMS, 1)
    assert not ledger.exists()


@pytest.mark.parametrize(
    ("load", "most"), [(ClosedTerms(), claims.MOST_INTERRUPTIONS), (StaticTerms(items=4), claims.MOST_OF_A_LEDGER)]
)
def test_a_batch_may_be_interrupted_far_more_often_than_a_window_that_starts_anew(load: Terms, most: int) -> None:
    grid = running_grid(settings=(4,), class_names=("short",), load=load)
    for _ in range(most - 1):
        claims.interrupt(claim=claim(grid), reason="killed")
    assert states(grid) == ["queued"]
    claims.interrupt(claim=claim(grid), reason="killed")
    assert states(grid) == ["interrupted"]


def test_only_a_ledger_whose_result_is_stored_is_cleared_away(here: Path) -> None:
    grid = running_grid(settings=(4, 8), class_names=("short",), load=StaticTerms(items=4))
    done = claim(grid)
    assert record(done, summary(setting=4))
    waiting = claim(grid)
    ledgers = [engine_child.ledger_of(taken) for taken in (done, waiting)]
    for ledger in ledgers:
        ledger.write_bytes(b"kept")
    engine_child.remove_stored(ledgers[0].parent)
    assert [ledger.exists() for ledger in ledgers] == [False, True]


@pytest.mark.parametrize(("newer_finished", "kept"), [(False, False), (True, True)])
def test_the_ledger_goes_with_a_late_result_that_is_the_cells_and_stays_beside_one_that_is_not(
    here: Path, newer_finished: bool, kept: bool
) -> None:
    grid = running_grid(settings=(4,), class_names=("short",), load=StaticTerms(items=4))
    taken = claim(grid)
    ledger = engine_child.ledger_of(taken)
    ledger.write_bytes(b"kept")
    claims.interrupt(claim=taken, reason="taken over")
    if newer_finished:
        assert record(claim(grid), summary(setting=4))
    assert storing.store(taken, result(summary(setting=4), b"late")) is not newer_finished
    assert ledger.exists() is kept
    assert states(grid) == ["measured"]
