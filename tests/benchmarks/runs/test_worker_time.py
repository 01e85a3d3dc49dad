"""What goes before the load counts against the authorised time, once, whatever it was."""

from __future__ import annotations

import time

import pytest

from benchmarks import queries, worker
from benchmarks.records import parquet
from tests import factories
from tests.benchmarks.engine.plans import a_plan
from tests.benchmarks.runs.made import claim, running_grid
from tests.benchmarks.runs.test_static_ledger import endpoint, here

__all__ = ["endpoint", "here"]


@pytest.mark.parametrize(("spent_s", "left_s"), [(0.0, 20.0), (4.0, 16.0), (19.5, 0.5), (20.0, None), (90.0, None)])
def test_time_that_is_spent_is_not_given_to_the_load(spent_s, left_s):
    left = worker.shortened(a_plan(max_wall_s=20.0), spent_s)
    assert (left and left.max_wall_s) == left_s


@pytest.mark.slow
@pytest.mark.django_db
def test_preparation_is_taken_off_once(endpoint, here):
    """Between nothing and all of what the cell took beside its window and its load's end."""
    runtime = factories.make_runtime(endpoint=endpoint, model_name="headroom-simulated-demo")
    workload = factories.make_workload(runtime.team, classes={"short": (8, 8)})
    grid = running_grid(
        runtime=runtime, workload=workload, drawn_by=None, settings=(1,), warmup_s=0.2, window_s=1.5,
        limits=factories.make_limits(classes=("short",), e2e_s=60.0),
    )  # fmt: skip
    taken = claim(grid)
    allowed_s = 60 * grid.authorizations.get().max_minutes
    began_s = time.monotonic()
    assert worker.run_cell(taken)
    lasted_s = time.monotonic() - began_s
    kept = parquet.read(queries.evidence_bytes(taken.cell_id)).plan
    assert 0.0 < allowed_s - kept.max_wall_s <= lasted_s - 1.5
