"""From a plan of plain load against an endpoint to the plan of a probe against it."""

from __future__ import annotations

import msgspec

from benchmarks.engine.load import Closed
from benchmarks.engine.plan import CellPlan, ClassPlan, Fixed
from benchmarks.engine.probe_plan import (
    Cancellation,
    Idle,
    LimitsProbe,
    Probe,
    Recovery,
    RetryStorm,
    longest_s,
    name_of,
)
from benchmarks.engine.prompts import MIXED

# Faster, and llama.cpp no longer notices that a waiting client has left: what is measured would be the polling.
LEAST_METRICS_EVERY_S = 2.0
PROBE_CLASS = "probe"
NAME_THEIR_LENGTHS = (Cancellation, LimitsProbe, Recovery, Idle)


def probe_cell(plan: CellPlan, probe: Probe) -> CellPlan:
    """Same target, classes, seed, time limits and ceilings. Refusals and long waits are what a probe looks for, so the
    guard's shares of errors and of the objective do not stop it; its limits that protect the host stay."""
    return msgspec.structs.replace(
        plan,
        label=f"{plan.label} {name_of(probe)}".strip(),
        probe=probe,
        class_name=MIXED,
        classes=(sized(1, 1),) if isinstance(probe, NAME_THEIR_LENGTHS) else plan.classes,
        load=Closed(),
        sessions=None,
        shared_prefix_share=0.0,
        stream=True,
        processes=1,
        warmup_s=0.0,
        window_s=longest_s(probe),
        first_byte_timeout_s=_first_byte_s(plan, probe),
        metrics_every_s=max(plan.metrics_every_s, LEAST_METRICS_EVERY_S),
        guard=msgspec.structs.replace(plan.guard, max_error_share=None, max_p95_over_objective=None),
    )


def _first_byte_s(plan: CellPlan, probe: Probe) -> float:
    """Clients that try again give up an attempt sooner."""
    if isinstance(probe, RetryStorm):
        return min(plan.first_byte_timeout_s, probe.client_timeout_s)
    return plan.first_byte_timeout_s


def sized(prompt_tokens: int, output_tokens: int) -> ClassPlan:
    """The one class of a probe that names its lengths itself."""
    return ClassPlan(
        name=PROBE_CLASS, weight=1.0, prompt_tokens=Fixed(prompt_tokens), output_tokens=Fixed(output_tokens)
    )  # fmt: skip
