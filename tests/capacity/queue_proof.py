"""The queue cap held against a runtime that really has one: closed loops say what the chain is told, an open loop through the
cap what comes of it. The real engine and the simulated runtime, on a clock that waits for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from msgspec.structs import replace

from benchmarks.engine.load import Closed, Load, OpenLoop, Poisson
from benchmarks.engine.plan import CellPlan, ClassLimits, ClassPlan, GridLimits, Lognormal
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import CellSummary
from benchmarks.simulator.profiles import DEMO
from benchmarks.simulator.server import Options
from benchmarks.stats.estimates import Share
from benchmarks.stats.shares import share
from capacity.assessment import queueing
from capacity.assessment.choose import row_of
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import CapRow
from scripts.truth.running import run
from tests.capacity import synthetic as made

ACTIVE = 4
LIMIT_S = 3.0
CLASS = ClassPlan(
    name="short",
    weight=1.0,
    prompt_tokens=Lognormal(median=40, sigma=0.3, low=20, high=90),
    output_tokens=Lognormal(median=24, sigma=0.5, low=6, high=90),
    limits=ClassLimits(e2e_s=LIMIT_S),
)


@dataclass(frozen=True)
class Proof:
    """What was foretold of a cap, and what the open loop through it saw. Waiting is the time to the first token beyond the
    usual one without a queue."""

    foretold: CapRow
    refused: Share
    waiting_p95_s: float
    usual_first_s: float


def prove(cap: int, *, load_share: float, window_s: float = 50.0) -> Proof:
    """At `load_share` of what `ACTIVE` at once complete."""
    closed = {n: _closed(n) for n in (1, 2, ACTIVE)}
    cells = [made.cell(n, n, "short", summary) for n, summary in closed.items()]
    limits = GridLimits(success_share=0.9, classes={"short": CLASS.limits})
    facts: GridFacts = made.facts(cells, asked=limits)
    per_s = load_share * (closed[ACTIVE].completed_per_s or 0.0)
    seen = _cell(64, OpenLoop(arrivals=Poisson(per_s)), 9, cap=cap, window_s=window_s)
    foretold = queueing.predicted(facts, row_of(facts, ACTIVE), 60 * per_s, cap)
    usual_s = closed[ACTIVE].classes[0].ttft_ok_s.p50.value or 0.0
    assert foretold is not None
    return Proof(
        foretold=foretold,
        refused=share(seen.outcomes.get("rejected", 0), seen.scheduled),
        waiting_p95_s=max((seen.classes[0].ttft_ok_s.p95.value or 0.0) - usual_s, 0.0),
        usual_first_s=usual_s,
    )


@lru_cache
def _closed(in_flight: int) -> CellSummary:
    return _cell(in_flight, Closed(), in_flight, cap=None, window_s=15.0)


def _cell(in_flight: int, load: Load, seed: int, *, cap: int | None, window_s: float) -> CellSummary:
    plan = CellPlan(
        label="proof", base_url="http://127.0.0.1:1", model=DEMO.model, runtime_kind="simulator", load=load,
        offered_concurrency=in_flight, class_name="short", classes=(CLASS,), seed=seed, arrival_seed=seed, warmup_s=5.0,
        window_s=window_s, max_requests=100_000, max_tokens=10**9, max_wall_s=100_000.0, simulated=True,
    )  # fmt: skip
    plan = replace(plan, guard=replace(plan.guard, max_error_share=None))
    options = Options(profile=DEMO, active_sequences=ACTIVE, queue_cap=cap, seed=seed)
    return summarise(run(plan, options), plan)
