"""A cell's summary: a pure function of its columns, so that anyone can recompute it from the evidence alone.

Membership is by the time of issue that was planned, t_scheduled: a request that was due inside the window belongs to it,
whenever it was written and wherever it ended. Failed requests are infinite in `e2e_s`, `ttft_s` and `tpot_s`, so refusing
never improves a result; they are absent from the `_ok_` tails. Several attempts at one request are one request: its last
attempt's outcome, its first attempt's due time.
"""

from __future__ import annotations

import datetime as dt

import numpy as np

from benchmarks.engine.attempts import Issued, issued
from benchmarks.engine.column_types import PHASES, Columns, Ints, Requests
from benchmarks.engine.load import StaticBatch
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.prompts import MIXED
from benchmarks.engine.summary_classes import class_summary, is_mixed, outcomes, token_rate, token_sources
from benchmarks.engine.summary_loads import micro_batch, open_loop, static_batch
from benchmarks.engine.summary_telemetry import counters, gaps, gauges, gpu_totals
from benchmarks.engine.summary_types import CellSummary
from benchmarks.engine.terms import ClientHealth, Phase, Window
from benchmarks.engine.times import NS, Times, times_of
from benchmarks.engine.validity import RIGHT_BY_CONSTRUCTION
from benchmarks.stats import steadiness
from benchmarks.stats.steadiness import Steadiness

SUMMARY_SCHEMA = 5
WINDOW_CODE = PHASES.index(Phase.WINDOW)
WARMUP_CODE = PHASES.index(Phase.WARMUP)


def summarise(columns: Columns, plan: CellPlan) -> CellSummary:
    window, found = columns.window, issued(columns.requests)
    requests = found.requests
    inside = requests.codes["phase"] == WINDOW_CODE
    times = times_of(requests, streamed=plan.stream)
    ok = inside & times.ok
    window_s = 0.0 if window is None else (window.end_ns - window.start_ns) / NS
    chosen = [c for c in plan.classes if plan.class_name in (MIXED, c.name)]
    classes = tuple(class_summary(c, found, times, inside, window) for c in chosen)
    of_all, scheduled, attempts = outcomes(requests, inside), int(inside.sum()), int(found.attempts[inside].sum())
    end = columns.end
    closed_per_s, mean_e2e_s = _time_in_flight(columns.requests, window)
    return CellSummary(
        schema=SUMMARY_SCHEMA,
        offered_concurrency=plan.offered_concurrency,
        class_name=plan.class_name,
        window_s=window_s,
        started_at=_started_at(columns),
        scheduled=scheduled,
        warmup_requests=int((requests.codes["phase"] == WARMUP_CODE).sum()),
        outcomes=of_all,
        conserved=_is_conserved(columns, found, counted=scheduled == sum(c.scheduled for c in classes)),
        completed_per_s=_rate(float(ok.sum()), window_s),
        good_per_s=_rate(float(sum(c.good.hits for c in classes)), window_s),
        output_tokens_per_s=token_rate(requests, ok, window_s),
        mean_in_flight=_mean_in_flight(columns.requests, window),
        resent=int((requests.resent & inside).sum()),
        validity_by_construction=plan.task in RIGHT_BY_CONSTRUCTION,
        classes=classes,
        gauges=gauges(columns.readings, window),
        not_reported={n.name: f"{n.source}: {n.reason}" for n in columns.not_reported},
        client=columns.health or _UNKNOWN_HEALTH,
        complete=end is not None and end.complete,
        end_reason="the log has no end: the engine was killed" if end is None else end.reason,
        simulated=columns.header.simulated,
        sent=None if end is None else end.sent,
        recorded=len(requests),
        transport=columns.header.transport,
        attempts=attempts,
        attempts_per_request=attempts / scheduled if scheduled else None,
        mixed_token_sources=is_mixed(token_sources(requests, ok)),
        steadiness=_steadiness(requests, times, window),
        open_loop=open_loop(columns, found, inside),
        micro_batch=micro_batch(columns, found, inside),
        static_batch=static_batch(columns, times),
        counters=counters(columns.readings, window),
        gpu_totals=gpu_totals(columns.readings, window),
        telemetry_gaps=gaps(columns.readings, window, plan),
        closed_per_s=closed_per_s,
        mean_e2e_s=mean_e2e_s,
    )


# A window whose client was not watched cannot prove that the client was not the bottleneck.
_UNKNOWN_HEALTH = ClientHealth(
    loop_lag_p99_ms=None,
    cpu_share=None,
    send_late_p99_ms=None,
    client_limited=True,
    why="client health was not recorded",
)


def _is_conserved(columns: Columns, found: Issued, *, counted: bool) -> bool | None:
    """Every issued request left its record: the numbers 0 ... sent - 1, each there, each in one class, none with an
    attempt twice or missing. In what order does not matter. Of n generator processes each takes every n-th number, and
    its own are without a gap; a static batch that was stopped may have any of its items.

    None where no end frame says how many were sent: a lost last record could not be told from one never sent.
    """
    index = found.requests.plain["index"]
    if not counted or not found.whole or not _are_the_plans(index, columns.plan):
        return False
    if columns.end is None or columns.end.sent is None:
        return None
    return columns.end.sent == len(index)


def _are_the_plans(index: Ints, plan: CellPlan) -> bool:
    if isinstance(plan.load, StaticBatch):
        return bool(np.all((index >= 0) & (index < plan.load.items)))
    parts = (np.sort(index[index % plan.processes == number]) // plan.processes for number in range(plan.processes))
    return all(np.array_equal(part, np.arange(len(part))) for part in parts)


def _rate(count: float, window_s: float) -> float | None:
    return count / window_s if window_s > 0 else None


def _steadiness(requests: Requests, times: Times, window: Window | None) -> dict[str, Steadiness]:
    """Of the completions inside the window, whenever they were issued: without those handed over it would seem to
    rise."""
    if window is None or window.end_ns <= window.start_ns:
        return {}
    end = requests.masked["t_end_ns"]
    within = times.ok & (end.values >= window.start_ns) & (end.values < window.end_ns)
    at_s = (end.values[within] - window.start_ns) / NS
    return {"completed_per_s": steadiness.of_rate(at_s, length_s=(window.end_ns - window.start_ns) / NS)}


def _mean_in_flight(records: Requests, window: Window | None) -> float | None:
    """Mean number of attempts between being sent and being done with, over the window; all phases count."""
    if window is None or window.end_ns <= window.start_ns:
        return None
    sent, closed = records.masked["t_sent_ns"], records.masked["t_closed_ns"]
    known = sent.known & closed.known
    begin = np.clip(sent.values[known], window.start_ns, window.end_ns)
    finish = np.clip(closed.values[known], window.start_ns, window.end_ns)
    return float((finish - begin).sum()) / (window.end_ns - window.start_ns)


def _time_in_flight(records: Requests, window: Window | None) -> tuple[float | None, float | None]:
    """(attempts that were done with in the window, a second; the mean seconds that each was in flight)."""
    if window is None or window.end_ns <= window.start_ns:
        return None, None
    sent, closed = records.masked["t_sent_ns"], records.masked["t_closed_ns"]
    within = sent.known & closed.known & (closed.values >= window.start_ns) & (closed.values < window.end_ns)
    per_s = float(within.sum()) / ((window.end_ns - window.start_ns) / NS)
    if not within.any():
        return per_s, None
    return per_s, float((closed.values[within] - sent.values[within]).mean()) / NS


def _started_at(columns: Columns) -> str:
    """Wall time (UTC, ISO 8601) of the window's start, else of the engine's, by the header's pair of clocks."""
    header, window = columns.header, columns.window
    shift_ns = 0 if window is None else window.start_ns - header.monotonic_ns
    moment = dt.datetime.fromtimestamp((header.wall_ns + shift_ns) / NS, tz=dt.UTC)
    return moment.isoformat(timespec="milliseconds")
