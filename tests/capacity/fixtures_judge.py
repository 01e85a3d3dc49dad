"""Whole grids of facts for diagnosis and rubric: one that is complete, and what takes each answer from it.

Everything reaches its grade through `judge(facts)`; nothing here says what the grade is.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from msgspec.structs import replace

from benchmarks.engine import probe_plan
from benchmarks.engine.plan import GridLimits, ObjectiveTerms, ProductionMix, RetryPolicy
from benchmarks.engine.summary_types import CellSummary, OpenLoopSummary
from benchmarks.stats.pools import pool
from benchmarks.stats.quantiles import tail
from benchmarks.stats.shares import share
from benchmarks.stats.steadiness import Steadiness, Steady
from capacity.assessment.choose import judge
from capacity.assessment.diagnosis import KEYS
from capacity.assessment.facts import (
    CellFact,
    ConditionFacts,
    ConfirmFact,
    GridFacts,
    LengthFacts,
    MemoryFacts,
    ProbeFact,
)
from capacity.assessment.verdict import Finding, Verdict
from tests.capacity import synthetic as made
from tests.capacity.assessment import probes

SHAPE = {1: (0.25, 300), 2: (0.33, 540), 4: (0.6, 900), 8: (1.4, 930)}
"""setting -> (p95 in s of a class with a limit of 1 s, requests in 90 s): more work up to 4, then only more waiting."""
PRODUCTION = ProductionMix(p10_tokens=90, p90_tokens=900, p95_tokens=1400, source="a trace of one week")
CAREFUL = RetryPolicy(kind="backoff", tries=3, jitter=True, honours_retry_after=True, budget_share=0.1)
TERMS = ObjectiveTerms(production=PRODUCTION, retry=CAREFUL)
LENGTHS = LengthFacts(
    classes=3, p10_tokens=96, p90_tokens=910, p95_tokens=1500, longest_tokens=4000, repeated_share=0.0, cached_share=0.02,
    declared_prefix_share=0.0, longest_request_tokens=4200, short_class="short",
)  # fmt: skip
GIB = 1024.0**3
STILL = Steadiness(verdict=Steady.STEADY, blocks=12, change_share=0.01, residual_sd_share=0.05)
MEMORY = MemoryFacts(
    geometry_known=True, predicted_bytes={s: (8 + s) * GIB for s in SHAPE}, measured_bytes={s: (8.5 + s) * GIB for s in SHAPE},
    pool_tokens=40_000, context_per_sequence_tokens=8192, all_long={1: 9, 2: 9, 4: 9, 8: 9},
)  # fmt: skip
FAIR = probes.fact(probe_plan.Fairness(), "fair", cell_id=901, p95_alone=0.5, p95_beside=0.6, p95_ratio=1.2)
REFUSES = probes.fact(
    probe_plan.Overload(), "refused_clearly", cell_id=902, refused=0.3, failed=0.0, offered=15.0, time_to_reject_p95=0.02,
    with_retry_after=1.0, wait_growth_at_least=-0.1, answer_time_calm_p95=0.4, recovery=2.0,
)  # fmt: skip
FREES = probes.fact(probe_plan.Cancellation(), "frees_in_time", cell_id=903, stream_freed_worst=0.2)
CONTAINED = probes.fact(
    probe_plan.RetryStorm(),
    "contained",
    cell_id=904,
    budgeted_attempts_per_request=1.08,
    immediate_attempts_per_request=3.1,
)
RECOVERS = probes.fact(probe_plan.Recovery(), "recovers", cell_id=905, back_to_latency=3.0)
PROBES = (FAIR, REFUSES, FREES, CONTAINED, RECOVERS)


def cells(
    shape: dict[int, tuple[float, int]] | None = None,
    *,
    repeats: int = 3,
    preempted: dict[int, int] | None = None,
    by_construction: bool = False,
) -> tuple[CellFact, ...]:
    """Each setting `repeats` times. Validated answers, a runtime that counts preemptions, a host that tells its memory."""
    rows = [(setting, *told) for setting, told in (shape or SHAPE).items() for _ in range(repeats)]
    return tuple(
        made.cell(
            number, setting, "short", _window(setting, p95_s, n, (preempted or {}).get(setting, 0), by_construction),
            repeat=(number - 1) % repeats + 1,
        )
        for number, (setting, p95_s, n) in enumerate(rows, start=1)
    )  # fmt: skip


@cache
def _window(setting: int, p95_s: float, n: int, preempted: int, by_construction: bool) -> CellSummary:
    gauges = [
        made.gauge("runtime_preemptions_total", 3.0 + preempted, low=3.0),
        made.gauge("host_memory_used_share", 0.4),
    ]
    part = made.class_summary("short", made.latencies(n, p95_s))
    found = made.summary(setting, "short", [part], window_s=90.0, gauges=gauges)
    return replace(told(found), validity_by_construction=by_construction)


def told(summary: CellSummary) -> CellSummary:
    """With what every check of a window asks for: Little's law, and answers compared with what they were allowed."""
    rate = summary.scheduled / summary.window_s
    mean_e2e_s = (summary.mean_in_flight or 0.0) / rate
    parts = tuple(replace(part, long_outputs=0) for part in summary.classes)
    return replace(summary, closed_per_s=rate, mean_e2e_s=mean_e2e_s, classes=parts)


def confirming(setting: int = 4, *, rate_per_min: float = 500.0, **more: Any) -> ConfirmFact:
    """An open loop of 900 requests, all inside the limit, through a queue of 8."""
    return ConfirmFact(
        grid_id=70, cell_id=700, setting=setting, queue_cap=8, rate_per_min=rate_per_min, status="measured", reason="",
        summary=open_window(**more), probed=(906,),
    )  # fmt: skip


@cache
def open_window(n: int = 900, *, late: int = 0, **more: Any) -> CellSummary:
    times = np.random.default_rng(5).permutation(np.concatenate((np.linspace(0.2, 0.8, n - late), np.full(late, 2.0))))
    part = made.class_summary("short", times.tolist())
    part = replace(part, good=share(n - late, n), pools={"e2e_s": pool(times, 1.0)})
    opened = OpenLoopSummary(
        planned=n,
        requested_per_s=n / 108,
        sent_per_s=n / 108,
        on_time=share(n, n),
        late_s=tail(np.zeros(n)),
        late_max_s=0.0,
    )
    found = made.summary(16, "mixed", [part], window_s=108.0)
    found = told(replace(found, mean_in_flight=3.5))
    return replace(found, **{"open_loop": opened, "steadiness": {"completed_per_s": STILL}, **more})


def complete(**more: Any) -> GridFacts:
    """A grid in which nothing is left open; `more` replaces fields of the facts."""
    fields: dict[str, Any] = {
        "asked": limits(),
        "probes": PROBES,
        "confirmations": (confirming(),),
        "lengths": LENGTHS,
        "memory": MEMORY,
        "conditions": ConditionFacts(recorded=True),
        "queue_bounded": True,
    }
    return made.facts(more.pop("measured", None) or cells(), **{**fields, **more})


def limits(terms: ObjectiveTerms = TERMS, **more: float) -> GridLimits:
    return replace(made.limits(**more), terms=terms)


def with_terms(facts: GridFacts, **more: Any) -> GridFacts:
    return replace(facts, limits=replace(facts.limits, terms=replace(facts.limits.terms, **more)))


def without(probe: str) -> tuple[ProbeFact, ...]:
    return tuple(one for one in PROBES if one.probe != probe)


def instead(new: ProbeFact) -> tuple[ProbeFact, ...]:
    """The probes with this one in place of its kind."""
    return (*without(new.probe), new)


def finding(facts: GridFacts, key: str) -> Finding:
    """Through the judge, as a page has it."""
    return verdict(facts).findings[KEYS.index(key)]


def verdict(facts: GridFacts) -> Verdict:
    found = judge(facts)
    assert tuple(one.key for one in found.findings) == KEYS
    return found
