"""Retry storm: what a request costs when clients try again, at once or with backoff, jitter, Retry-After and a budget."""

from __future__ import annotations

from benchmarks.engine.column_types import Columns
from benchmarks.engine.probe_plan import RetryStorm
from benchmarks.engine.probes.asking import Asking
from benchmarks.engine.probes.seen import cut_short, seconds_of
from benchmarks.engine.probes.storm_figures import Storm, capacity_of, storm_of
from benchmarks.engine.probes.storms import capacity, storm
from benchmarks.engine.retrying import Retries, RetryPolicy
from benchmarks.engine.runner import Cell
from benchmarks.engine.verdicts import NOT_JUDGED, Figure, ProbeVerdict, said

IMMEDIATE, BUDGETED = "immediate", "budgeted"
CLIENTS = (IMMEDIATE, BUDGETED)
# Of clients that ask again at once: fewer attempts mean that hardly anything was refused.
LEAST_TRIED_AGAIN = 1.05
REST_S = 1.0


def policy_of(probe: RetryStorm, clients: str) -> RetryPolicy:
    if clients == IMMEDIATE:
        return RetryPolicy(tries=probe.tries)
    return RetryPolicy(
        tries=probe.tries,
        base_s=probe.backoff_base_s,
        cap_s=probe.backoff_most_s,
        full_jitter=True,
        honour_retry_after=True,
        budget_share=probe.budget_share,
    )


def roles(clients: str) -> tuple[str, str, str]:
    return f"{clients} calm", f"{clients} storm", f"{clients} after"


async def drive(cell: Cell) -> None:
    probe = cell.plan.probe
    assert isinstance(probe, RetryStorm)
    asking = Asking(cell)
    await asking.begin()
    found = await capacity(asking, probe)
    for clients in CLIENTS if found is not None else ():
        if not cell.stopping:
            assert found is not None
            await storm(asking, probe, Retries(policy_of(probe, clients), seed=cell.plan.seed), roles(clients), found)
            await cell.pause(REST_S)
    asking.end()


def judge(columns: Columns) -> ProbeVerdict:
    probe = columns.plan.probe
    assert isinstance(probe, RetryStorm)
    short = cut_short(columns)
    found = {clients: storm_of(columns, probe, *roles(clients)) for clients in CLIENTS}
    figures = {"capacity": Figure(value=capacity_of(columns, probe), unit="1/s")}
    for clients, one in found.items():
        figures |= _figures(clients, one) if one is not None else {}
    immediate, budgeted = found[IMMEDIATE], found[BUDGETED]
    if short or immediate is None or budgeted is None:
        return said(columns, NOT_JUDGED, figures, (short or "No request was sent beyond capacity.",))
    if len(immediate.load) < probe.least_requests:
        few = f"Only {len(immediate.load)} requests were due beyond capacity, {probe.least_requests} are needed."
        return said(columns, NOT_JUDGED, figures, (few,))
    at_once, careful = _per_request(immediate), _per_request(budgeted)
    reasons = (
        f"Attempts per request: {at_once:.2f} where clients ask again at once, {careful:.2f} with backoff and budget.",
        *_beside(columns, found),
    )
    if at_once < LEAST_TRIED_AGAIN:
        return said(columns, "kept_up", figures, reasons)
    return said(columns, "contained" if careful < probe.contained_below else "amplifies", figures, reasons)


def _figures(clients: str, found: Storm) -> dict[str, Figure]:
    load, n = found.load, len(found.load)
    good, attempts = int(load.ok.sum()), int(load.attempts.sum())
    return {
        f"{clients}_offered": Figure(value=n / found.lasted_s, unit="1/s", n=n),
        f"{clients}_attempts_per_request": Figure(value=attempts / n, unit="attempts", n=n),
        f"{clients}_attempts_per_success": Figure(value=attempts / good if good else None, unit="attempts", n=good),
        f"{clients}_successes": Figure(value=good / n, unit="share", n=n),
        f"{clients}_goodput": Figure(
            value=found.answered_in_it / found.lasted_s, unit="1/s", n=found.answered_in_it
        ),
        f"{clients}_recovery": seconds_of(found.recovery_s, len(found.after)),
    }  # fmt: skip


def _per_request(found: Storm) -> float:
    return float(found.load.attempts.mean())


def _beside(columns: Columns, found: dict[str, Storm | None]) -> tuple[str, ...]:
    told = [
        f"Answers to {clients} clients were not back within the time for it."
        for clients, one in found.items()
        if one is not None and one.recovery_s is None
    ]
    if columns.health is not None and columns.health.client_limited:
        told.append(f"The load client was at its limit: {columns.health.why}.")
    return tuple(told)
