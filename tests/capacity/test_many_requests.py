"""A grid of very many requests: judged from its summaries, whose size does not follow the number of requests."""

from __future__ import annotations

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary
from benchmarks.models import Cell, EvidenceChunk, Grid, Role
from benchmarks.stats.pools import pool
from tests import factories
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db

P95_S = {1: 0.25, 2: 0.33, 4: 0.6, 8: 1.4}


def of(requests: int):
    """Each cell with so many requests and the pools that its summary would keep of them."""

    def summary(cell: Cell) -> CellSummary:
        n = round(requests / 4 * {1: 0.4, 2: 0.8, 4: 1.4, 8: 1.4}[cell.setting])
        times = np.random.default_rng(cell.setting).permutation(made.latencies(n, P95_S[cell.setting]))
        part = made.class_summary("short", times.tolist())
        part = replace(part, pools={"e2e_s": pool(times, made.LIMITS["short"])})
        return made.summary(cell.setting, "short", [part], window_s=requests / 80, simulated=cell.grid.simulated)

    return summary


def visit(grid: Grid, client: Client) -> tuple[list[str], str]:
    """The queries of the result page, and the page."""
    with CaptureQueriesContext(connection) as queries:
        html = client.get(grid.get_absolute_url()).content.decode()
    return [query["sql"] for query in queries], html


def test_the_page_of_two_hundred_thousand_requests_asks_as_often_as_that_of_two_thousand_and_reads_no_evidence() -> (
    None
):
    team = factories.make_team()
    runtime, workload = factories.make_runtime(factories.make_hardware(team)), factories.make_workload(team)
    drawn_by, client = factories.make_user(team, Role.OPERATOR), Client()
    client.force_login(factories.make_user(team, Role.VIEWER))
    asked, stored_bytes = [], []
    for requests in (2_000, 200_000):
        grid = factories.make_grid(
            runtime=runtime, workload=workload, drawn_by=drawn_by, class_names=["short"], limits=made.limits()
        )
        stored.measure(grid, of(requests), content=lambda cell: b"evidence of %d" % cell.pk)
        queries, html = visit(grid, client)
        assert "4 requests in flight give the most useful work inside the limits" in html
        assert not [sql for sql in queries if EvidenceChunk._meta.db_table in sql]
        asked.append(len(queries))
        stored_bytes.append(max(len(str(row.summary)) for row in grid.cells.all()))
    assert asked[0] == asked[1]
    assert stored_bytes[1] < 100_000
