"""The gate between stages: whether it is safe to go on to a higher setting, judged from what was just measured."""

from __future__ import annotations

import math

import msgspec

from benchmarks.engine import guard as guard_rules
from benchmarks.engine.plan import GridLimits, Guard
from benchmarks.engine.summary_types import CellSummary, ClassSummary
from benchmarks.engine.terms import Outcome
from benchmarks.stats.estimates import Estimate
from benchmarks.stats.per_cent import per_cent

NOT_SAFE = "Not safe to go on: "
"""Cells that the gate held back begin their reason so; resuming a grid does not queue them again."""

GUARD = "guard:"
"""How the engine begins the reason of a cell that its guard stopped."""

_OURS = (Outcome.CANCELLED, Outcome.UNFINISHED)


def refusal(limits: GridLimits, summary: CellSummary, guard: Guard | None = None, stage: str = "") -> str | None:
    """Why no higher setting may run after this cell, in words; None when it is safe to go on. `stage` is the setting in
    the words of its mode."""
    rule = guard or Guard()
    share = error_share(summary)
    if rule.max_error_share is not None and share is not None and share > rule.max_error_share:
        return f"{per_cent(share, 1)} of requests failed at {_at(summary, stage)}, more than {per_cent(rule.max_error_share)}."
    host = host_reason(limits, summary, rule)
    if host is not None:
        return f"{host}, at {_at(summary, stage)}."
    if rule.max_p95_over_objective is None:
        return None
    ratio = worst_ratio(limits, summary)
    if ratio is not None and ratio > rule.max_p95_over_objective:
        shown = "among failed requests" if math.isinf(ratio) else f"{ratio:.2f} times the objective"
        return f"p95 was {shown} at {_at(summary, stage)}, more than {rule.max_p95_over_objective:g} times."
    return None


def host_reason(limits: GridLimits, summary: CellSummary, rule: Guard) -> str | None:
    """Which limit of the host the highest readings of the window were past, in words; None for none that is known."""
    swap = summary.gauge("host_swap_used_bytes")
    peaks = guard_rules.Latest(
        values={(gauge.name, gauge.device): gauge.peak for gauge in summary.gauges},
        swap_at_start_bytes=None if swap is None else swap.low,
    )
    of_grid = msgspec.structs.replace(
        rule,
        max_vram_share=limits.max_vram_share,
        max_temperature_c=limits.max_temperature_c,
        max_power_w=limits.max_power_w,
    )
    return guard_rules.host_reason(of_grid, peaks)


def guard_stop(summary: CellSummary, stage: str = "") -> str | None:
    """What the engine's guard said when it stopped this cell, with the setting; None when it did not."""
    if summary.complete or not summary.end_reason.startswith(GUARD):
        return None
    return f"the guard stopped {_at(summary, stage)}: {summary.end_reason.removeprefix(GUARD).strip()}"


def error_share(summary: CellSummary) -> float | None:
    """Failed requests over those that we did not end ourselves; None without any."""
    judged = summary.scheduled - sum(summary.outcomes.get(outcome.value, 0) for outcome in _OURS)
    if judged <= 0:
        return None
    return (judged - summary.outcomes.get(Outcome.OK.value, 0)) / judged


def worst_ratio(limits: GridLimits, summary: CellSummary) -> float | None:
    """The largest p95 over its objective among classes and times of the cell; None where nothing can be compared."""
    ratios = [
        figure / limit
        for found in summary.classes
        for estimate, limit in _pairs(limits, found)
        if limit and (figure := _figure(estimate)) is not None
    ]
    return max(ratios, default=None)


def _pairs(limits: GridLimits, found: ClassSummary) -> list[tuple[Estimate, float | None]]:
    wanted = limits.classes.get(found.class_name)
    if wanted is None:
        return []
    return [
        (found.e2e_s.p95, wanted.e2e_s),
        (found.ttft_s.p95, wanted.ttft_s),
        (found.tpot_s.p95, wanted.tpot_s),
    ]


def _figure(estimate: Estimate) -> float | None:
    """The point value, or the upper bound where too few points give no value."""
    return estimate.value if estimate.value is not None else estimate.bound


def _at(summary: CellSummary, stage: str) -> str:
    return f"{stage or f'{summary.offered_concurrency} offered'}, {summary.class_name}"
