"""Behaviour probes from the plan to a verdict that can be given again from its evidence, with the real engine and worker
against the simulated runtime."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from benchmarks import claims, queries, worker
from benchmarks.engine.probe_plan import Fairness, Idle, LimitsProbe
from benchmarks.models import Cell, Grid
from tests import factories
from tests.benchmarks.runs.made import ME, running_grid
from tests.benchmarks.runs.test_static_ledger import endpoint, here

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
__all__ = ["endpoint", "here"]

PROBES = (
    Fairness(alone_s=1.0, beside_s=1.5, least_requests=5, warm_requests=1),
    LimitsProbe(rate_requests=5, rate_s=2.0),
    Idle(idle_s=2.0, least_readings=2),
)


def _ran(grid: Grid) -> Grid:
    while claim := claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker=ME):
        assert worker.run_cell(claim)
    grid.refresh_from_db()
    return grid


def test_a_probe_runs_after_the_load_and_leaves_a_verdict_with_its_evidence(
    endpoint: str, here: Path, client: Client
) -> None:
    runtime = factories.make_runtime(endpoint=endpoint, model_name="headroom-simulated-demo")
    workload = factories.make_workload(runtime.team, classes={"short": (8, 4), "long": (64, 32)})
    limits = factories.make_limits(classes=("short", "long"), e2e_s=60.0)
    grid = _ran(
        running_grid(
            runtime=runtime,
            workload=workload,
            settings=(1, 2),
            class_names=["short"],
            window_s=1.5,
            warmup_s=0.2,
            limits=limits,
            probes=PROBES,
        )
    )
    assert grid.status == Grid.Status.MEASURED
    cells = list(grid.cells.order_by("position"))
    assert [(c.setting, c.probe, c.status) for c in cells] == [
        (1, "", "measured"), (2, "", "measured"), (2, "fairness", "measured"), (2, "limits", "measured"), (2, "idle", "measured"),
    ], [c.reason for c in cells]  # fmt: skip
    assert [(c.summary is None, c.verdict is None) for c in cells] == [(False, True)] * 2 + [(True, False)] * 3

    found = queries.evidence(grid)
    assert [c.setting for c in found.cells] == [1, 2]
    assert [c.probe for c in found.probes] == ["fairness", "limits", "idle"]
    fairness = found.probes[0].verdict
    assert fairness is not None
    assert fairness.parameters == PROBES[0]
    assert fairness.verdict in ("fair", "watch", "unfair"), fairness.reasons
    assert fairness.evidence.complete
    spent = Cell.objects.get(pk=found.probes[0].cell_id).progress["spent"]
    assert spent["requests"] == found.probes[0].requests == sum(fairness.evidence.requests.values())

    told = io.StringIO()
    call_command("recompute", grid.pk, "--check", stdout=told)
    assert "5 cells recomputed, 0 differ" in told.getvalue()

    client.force_login(factories.make_user(grid.team, "viewer"))
    result = client.get(f"/grids/{grid.pk}/").content.decode()
    assert 'id="behaviour"' in result
    own = client.get(f"/grids/{grid.pk}/cells/{found.probes[0].cell_id}/").content.decode()
    assert "p95 ratio" in own
    rows = json.loads(client.get(f"/grids/{grid.pk}/behaviour.json").content)["rows"]
    ratio = next(row for row in rows if row["figure"] == "p95_ratio")
    assert (ratio["value"], ratio["verdict"]) == (fairness.figures["p95_ratio"].value, fairness.verdict)
