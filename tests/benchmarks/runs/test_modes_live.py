"""Each way of loading from claim to stored summary, with the real engine against the simulated runtime, on one workload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from benchmarks import claims, queries, worker
from benchmarks.engine.summary_types import CellSummary
from benchmarks.models import Cell, Grid, Runtime, Workload
from benchmarks.records import kept_calibration, search_answer
from benchmarks.records.modes import (
    ArrivalKind,
    ClosedTerms,
    MicroTerms,
    OpenTerms,
    SearchTerms,
    StaticTerms,
    Terms,
)
from tests import factories
from tests.benchmarks.runs.made import ME, running_grid
from tests.benchmarks.runs.test_static_ledger import endpoint, here

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
__all__ = ["endpoint", "here"]


def _run(runtime: Runtime, workload: Workload, load: Terms, settings: tuple[int, ...], **fields: Any) -> Grid:
    grid = running_grid(
        runtime=runtime, workload=workload, drawn_by=None, settings=settings, load=load, warmup_s=0.2,
        limits=factories.make_limits(classes=("short",), e2e_s=60.0), **({"window_s": 1.5} | fields),
    )  # fmt: skip
    while claim := claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker=ME):
        assert worker.run_cell(claim)
    grid.refresh_from_db()
    assert set(grid.cells.values_list("status", flat=True)) == {"measured"}, list(Cell.objects.values_list("reason"))
    return grid


def _summary(grid: Grid) -> CellSummary:
    found = queries.evidence(grid).cells[0].summary
    assert found is not None
    return found


def test_one_workload_in_every_way_leaves_the_figures_of_each_and_all_stand_on_one_page(
    endpoint: str, here: Path, client: Client
) -> None:
    runtime = factories.make_runtime(
        endpoint=endpoint, model_name="headroom-simulated-demo", dialect="openai_completions"
    )
    workload = factories.make_workload(runtime.team, classes={"short": (8, 8)})

    closed = _run(runtime, workload, ClosedTerms(), (2,))
    assert _summary(closed).mean_in_flight == pytest.approx(2, abs=0.5)
    opened = _run(runtime, workload, OpenTerms(arrivals=ArrivalKind.CONSTANT, max_in_flight=8), (600,))
    loop = _summary(opened).open_loop
    assert loop is not None
    assert loop.requested_per_s == pytest.approx(10, rel=0.15)
    micro = _run(runtime, workload, MicroTerms(arrivals_per_min=1200, max_wait_ms=40, max_batches=2), (4,))
    batches = _summary(micro).micro_batch
    assert batches is not None
    assert batches.batches > 0
    assert batches.items_per_batch is not None
    assert 1 <= batches.items_per_batch <= 4
    static = _run(runtime, workload, StaticTerms(items=12, beside=1), (4,))
    batch = _summary(static).static_batch
    assert batch is not None
    assert (batch.items, batch.done, batch.batches) == (12, 12, 3)

    assert len({grid.workload.digest for grid in (closed, opened, micro, static)}) == 1
    kept = [kept_calibration.read(grid.calibration) for grid in (closed, opened, micro, static)]
    assert all(one is not None and one.agrees for one in kept)
    assert [one.reused_from for one in kept if one] == [None, None, opened.pk, opened.pk]
    client.force_login(factories.make_user(runtime.team, "viewer"))
    page = client.get(f"/workloads/{workload.slug}/{workload.version}/modes/").content.decode()
    assert [f"/grids/{grid.pk}/" in page for grid in (closed, opened, micro, static)] == [True] * 4
    for grid in (closed, opened, micro, static):
        assert client.get(f"/grids/{grid.pk}/").status_code == 200


def test_a_search_runs_cell_by_cell_through_the_worker_to_an_answer(endpoint: str, here: Path) -> None:
    runtime = factories.make_runtime(endpoint=endpoint, model_name="headroom-simulated-demo")
    workload = factories.make_workload(runtime.team, classes={"short": (4, 1)})
    grid = _run(runtime, workload, SearchTerms(most_cells=12), (4, 8), window_s=2.5)
    answer = search_answer.read(grid.answer)
    assert answer is not None
    limited = sum(cell.summary.client.client_limited for cell in queries.evidence(grid).measured if cell.summary)
    assert answer.measurements == grid.cells.count() - limited  # a busy machine may have made the client the bottleneck
    assert set(grid.cells.values_list("setting", flat=True)) <= set(range(1, 9))
