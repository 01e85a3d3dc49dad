"""From a plan of plain load against an endpoint to the plan of a probe against it."""

from __future__ import annotations

import msgspec

from benchmarks.engine.load import Closed
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.probe_plan import Probe, name_of
from benchmarks.engine.prompts import MIXED

# Faster, and llama.cpp no longer notices that a waiting client has left: what is measured would be the polling.
LEAST_METRICS_EVERY_S = 2.0


def probe_cell(plan: CellPlan, probe: Probe) -> CellPlan:
    """Same target, classes, seed, time limits and ceilings. Refusals and long waits are what a probe looks for, so the
    guard's shares of errors and of the objective do not stop it; its limits that protect the host stay."""
    return msgspec.structs.replace(
        plan,
        label=f"{plan.label} {name_of(probe)}".strip(),
        probe=probe,
        class_name=MIXED,
        load=Closed(),
        sessions=None,
        shared_prefix_share=0.0,
        stream=True,
        processes=1,
        warmup_s=0.0,
        metrics_every_s=max(plan.metrics_every_s, LEAST_METRICS_EVERY_S),
        guard=msgspec.structs.replace(plan.guard, max_error_share=None, max_p95_over_objective=None),
    )
