"""Summaries and grids for tests of running: small, whole, and as the engine would have made them."""

from __future__ import annotations

import math

from benchmarks import claims, recording
from benchmarks.claims import Claim
from benchmarks.engine.summary_types import CellSummary, ClassSummary
from benchmarks.engine.terms import ClientHealth
from benchmarks.models import Grid
from benchmarks.records.result import Result
from benchmarks.stats.estimates import Estimate, Share, Tail
from tests import factories
from tests.benchmarks.runs import protected

ME = "host-a|boot|1|1"


def tail(value: float | None, bound: float | None = None) -> Tail:
    estimate = Estimate(q=0.95, n=100, value=value, bound=bound)
    return Tail(p50=estimate, p95=estimate, p99=estimate)


def summary(
    *, setting: int = 1, name: str = "short", ok: int = 100, failed: int = 0, p95_s: float | None = 0.5,
    bound_s: float | None = None, complete: bool = True, end_reason: str = "window is over", cancelled: int = 0,
) -> CellSummary:  # fmt: skip
    scheduled = ok + failed + cancelled
    outcomes = {"ok": ok, "server_error": failed, "cancelled_by_us": cancelled}
    unknown = tail(None)
    of_class = ClassSummary(
        class_name=name, scheduled=scheduled, outcomes=outcomes, success=Share(hits=ok, n=scheduled),
        valid=Share(hits=ok, n=ok), good=Share(hits=ok, n=scheduled), e2e_s=tail(p95_s, bound_s), ttft_s=unknown, tpot_s=unknown,
        e2e_ok_s=tail(p95_s), ttft_ok_s=unknown, prompt_tokens_p50=16, output_tokens_p50=16, asked_output_tokens_p50=16,
        token_sources={"server": ok}, truncated_prompts=0, short_outputs=0,
    )  # fmt: skip
    return CellSummary(
        schema=1, offered_concurrency=setting, class_name=name, window_s=5, started_at="2026-11-14T10:00:00+00:00",
        scheduled=scheduled, warmup_requests=2, outcomes=outcomes, conserved=True, completed_per_s=ok / 5, good_per_s=ok / 5,
        output_tokens_per_s=None, mean_in_flight=1.0, resent=0, validity_by_construction=True, classes=(of_class,), gauges=(),
        not_reported={}, client=ClientHealth(loop_lag_p99_ms=0.1, cpu_share=0.1, send_late_p99_ms=0.1, client_limited=False),
        complete=complete, end_reason=end_reason, simulated=True,
    )  # fmt: skip


def running_grid(**fields: object) -> Grid:
    """An authorised grid whose cells are queued."""
    grid = factories.make_grid(**fields)  # type: ignore[arg-type]
    protected.authorized(grid)
    return grid


def claim(grid: Grid, worker: str = ME) -> Claim:
    taken = claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker=worker)
    assert taken is not None
    return taken


def result(made: CellSummary | None = None, content: bytes = b"parquet", **progress: object) -> Result:
    return Result(parquet=content, schema_version=1, requests=100, summary=made or summary(), progress=progress)


def record(taken: Claim, made: CellSummary | None = None, content: bytes = b"parquet", **progress: object) -> bool:
    return recording.record(claim=taken, result=result(made, content, **progress))


def states(grid: Grid) -> list[str]:
    return list(grid.cells.order_by("position").values_list("status", flat=True))


INFINITE = math.inf
