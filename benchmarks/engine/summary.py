"""A cell's summary: a pure function of its columns, so that anyone can recompute it from the evidence alone.

Membership is by issue time: a request belongs to the window when it was issued inside it, wherever it ended. Failed
requests are infinite in `e2e_s`, `ttft_s` and `tpot_s`, so refusing never improves a result; they are absent from the
`_ok_` tails.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass

import numpy as np

from benchmarks.engine.column_types import OUTCOMES, PHASES, TOKEN_SOURCES, Bools, Columns, Floats, Readings, Requests
from benchmarks.engine.plan import CellPlan, ClassLimits, ClassPlan
from benchmarks.engine.prompts import MIXED
from benchmarks.engine.summary_types import CellSummary, ClassSummary, Gauge
from benchmarks.engine.terms import ClientHealth, Outcome, Phase, TokenSource, Window
from benchmarks.engine.validity import RIGHT_BY_CONSTRUCTION
from benchmarks.stats.quantiles import tail
from benchmarks.stats.shares import share

SUMMARY_SCHEMA = 2
NS = 1e9
# Shorter than asked by more than this changes the length class; a prompt counted shorter than intended was cut.
LENGTH_TOLERANCE = 0.05
OK_CODE = OUTCOMES.index(Outcome.OK)
WINDOW_CODE = PHASES.index(Phase.WINDOW)
UNKNOWN_SOURCE_CODE = TOKEN_SOURCES.index(TokenSource.UNKNOWN)


@dataclass(frozen=True)
class Times:
    """Seconds of every request of a cell, shape (n,), NaN where a stamp is missing; `ok` excludes impossible stamps."""

    ok: Bools
    e2e_s: Floats
    ttft_s: Floats
    tpot_s: Floats


def summarise(columns: Columns, plan: CellPlan) -> CellSummary:
    requests, window = columns.requests, columns.window
    inside = requests.codes["phase"] == WINDOW_CODE
    times = times_of(requests)
    window_s = 0.0 if window is None else (window.end_ns - window.start_ns) / NS
    chosen = [c for c in plan.classes if plan.class_name in (MIXED, c.name)]
    classes = tuple(_class_summary(c, requests, times, inside) for c in chosen)
    outcomes = _outcomes(requests, inside)
    not_reported = {n.name: f"{n.source}: {n.reason}" for n in columns.not_reported}
    return CellSummary(
        schema=SUMMARY_SCHEMA,
        offered_concurrency=plan.offered_concurrency,
        class_name=plan.class_name,
        window_s=window_s,
        started_at=_started_at(columns),
        scheduled=int(inside.sum()),
        warmup_requests=int((requests.codes["phase"] == PHASES.index(Phase.WARMUP)).sum()),
        outcomes=outcomes,
        conserved=_is_conserved(columns, counted=sum(outcomes.values()) == sum(c.scheduled for c in classes)),
        completed_per_s=_rate(float((inside & times.ok).sum()), window_s),
        good_per_s=_rate(float(sum(c.good.hits for c in classes)), window_s),
        output_tokens_per_s=_token_rate(requests, inside & times.ok, window_s),
        mean_in_flight=_mean_in_flight(requests, window),
        resent=int((requests.resent & inside).sum()),
        validity_by_construction=plan.task in RIGHT_BY_CONSTRUCTION,
        classes=classes,
        gauges=_gauges(columns.readings, window),
        not_reported=not_reported,
        client=columns.health or _UNKNOWN_HEALTH,
        complete=columns.end is not None and columns.end.complete,
        end_reason="the log has no end: the engine was killed" if columns.end is None else columns.end.reason,
        simulated=columns.header.simulated,
        sent=None if columns.end is None else columns.end.sent,
        recorded=len(requests),
    )


# A window whose client was not watched cannot prove that the client was not the bottleneck.
_UNKNOWN_HEALTH = ClientHealth(
    loop_lag_p99_ms=None,
    cpu_share=None,
    send_late_p99_ms=None,
    client_limited=True,
    why="client health was not recorded",
)


def times_of(requests: Requests) -> Times:
    """User-view times from t_scheduled. A negative duration makes its request not ok here, and so infinite; no
    other."""
    e2e = _between(requests, "t_end_ns")
    ttft = _between(requests, "t_first_ns")
    tpot = _tpot(requests)
    ok = requests.codes["outcome"] == OK_CODE
    ok = ok & ~np.isnan(e2e) & ~(e2e < 0) & ~(ttft < 0) & ~(tpot < 0)
    return Times(ok=ok, e2e_s=e2e, ttft_s=ttft, tpot_s=tpot)


def _between(requests: Requests, name: str) -> Floats:
    stamp = requests.masked[name]
    return np.where(stamp.known, (stamp.values - requests.plain["t_scheduled_ns"]) / NS, np.nan)


def _tpot(requests: Requests) -> Floats:
    """(t_last - t_first) / (tokens - tokens of the first chunk, or 1 where no chunk told); NaN without two such
    tokens."""
    first, last = requests.masked["t_first_ns"], requests.masked["t_last_ns"]
    tokens, in_first = requests.masked["output_tokens"], requests.masked["first_chunk_tokens"]
    later = tokens.values - np.where(in_first.known, in_first.values, 1)
    usable = first.known & last.known & tokens.known & (tokens.values > 1) & (later > 0)
    return np.where(usable, (last.values - first.values) / NS / np.where(usable, later, 1), np.nan)


def _class_summary(length_class: ClassPlan, requests: Requests, times: Times, inside: Bools) -> ClassSummary:
    named = requests.texts["class_name"].equal(length_class.name)
    rows = named & inside
    ok = rows & times.ok
    scheduled = int(rows.sum())
    valid, tokens = requests.masked["valid"], requests.masked["output_tokens"]
    prompts = requests.masked["prompt_tokens"]
    is_valid = valid.known & (valid.values == 1)
    asked = requests.plain["asked_output_tokens"]
    cut = ok & prompts.known & (prompts.values < (1 - LENGTH_TOLERANCE) * requests.plain["intended_prompt_tokens"])
    short = ok & tokens.known & (tokens.values < (1 - LENGTH_TOLERANCE) * asked)
    good = ok & is_valid & _inside_limits(length_class.limits, requests, times)
    sources = Counter(TOKEN_SOURCES[code] for code in requests.codes["token_source"][ok])
    return ClassSummary(
        class_name=length_class.name,
        scheduled=scheduled,
        outcomes=_outcomes(requests, rows),
        success=share(int(ok.sum()), scheduled),
        valid=share(int((ok & is_valid).sum()), int((ok & valid.known).sum())),
        good=share(int(good.sum()), scheduled),
        e2e_s=tail(np.where(times.ok, times.e2e_s, np.inf)[rows]),
        ttft_s=tail(np.where(times.ok & ~np.isnan(times.ttft_s), times.ttft_s, np.inf)[rows & ~_unstreamed(times)]),
        tpot_s=tail(np.where(times.ok, times.tpot_s, np.inf)[rows & ~(times.ok & np.isnan(times.tpot_s))]),
        e2e_ok_s=tail(times.e2e_s[ok]),
        ttft_ok_s=tail(times.ttft_s[ok & ~np.isnan(times.ttft_s)]),
        prompt_tokens_p50=_median(prompts.values[ok & prompts.known]),
        output_tokens_p50=_median(tokens.values[ok & tokens.known]),
        asked_output_tokens_p50=_median(asked[rows]),
        token_sources=dict(sorted(sources.items())),
        truncated_prompts=int(cut.sum()),
        short_outputs=int(short.sum()),
        tpot_ok_s=tail(times.tpot_s[ok & ~np.isnan(times.tpot_s)]),
        intended_prompt_tokens_p50=_median(requests.plain["intended_prompt_tokens"][rows]),
    )


def _unstreamed(times: Times) -> Bools:
    """Complete answers that came in one body: they have no time to a first token, neither finite nor infinite."""
    return times.ok & np.isnan(times.ttft_s)


def _inside_limits(limits: ClassLimits, requests: Requests, times: Times) -> Bools:
    """True where every limit is kept. One token has no TPOT to break; tokens nobody counted cannot prove one kept."""
    one_token = requests.masked["output_tokens"].known & np.isnan(times.tpot_s)
    kept = np.ones(len(requests), dtype=np.bool_)
    if limits.e2e_s is not None:
        kept &= times.e2e_s <= limits.e2e_s
    if limits.ttft_s is not None:
        kept &= times.ttft_s <= limits.ttft_s
    if limits.tpot_s is not None:
        kept &= one_token | (times.tpot_s <= limits.tpot_s)
    return kept


def _outcomes(requests: Requests, rows: Bools) -> dict[str, int]:
    """Every outcome that occurred, in the vocabulary's order."""
    counts = Counter(OUTCOMES[code] for code in requests.codes["outcome"][rows])
    return {name: counts[name] for name in OUTCOMES if counts[name]}


def _is_conserved(columns: Columns, *, counted: bool) -> bool | None:
    """Every issued request left exactly one record: the numbers 0 ... sent - 1, each once, and each in one class.

    None where no end frame says how many were sent: a lost last record could not be told from one never sent.
    """
    index = columns.requests.plain["index"]
    if not counted or not np.array_equal(np.sort(index), np.arange(len(index))):
        return False
    if columns.end is None or columns.end.sent is None:
        return None
    return columns.end.sent == len(index)


def _rate(count: float, window_s: float) -> float | None:
    return count / window_s if window_s > 0 else None


def _token_rate(requests: Requests, ok: Bools, window_s: float) -> float | None:
    """None unless every success has counted tokens: a rate over some of them would be too low without saying so."""
    tokens = requests.masked["output_tokens"]
    if not ok.any() or window_s <= 0 or not tokens.known[ok].all():
        return None
    return float(tokens.values[ok].sum()) / window_s


def _mean_in_flight(requests: Requests, window: Window | None) -> float | None:
    """Mean number of requests between being sent and being done with, over the window; all phases count."""
    if window is None or window.end_ns <= window.start_ns:
        return None
    sent, closed = requests.masked["t_sent_ns"], requests.masked["t_closed_ns"]
    known = sent.known & closed.known
    begin = np.clip(sent.values[known], window.start_ns, window.end_ns)
    finish = np.clip(closed.values[known], window.start_ns, window.end_ns)
    return float((finish - begin).sum()) / (window.end_ns - window.start_ns)


def _gauges(readings: Readings, window: Window | None) -> tuple[Gauge, ...]:
    """One gauge per (name, source, device) that has readings inside the window."""
    if window is None:
        return ()
    inside = (readings.t_ns >= window.start_ns) & (readings.t_ns <= window.end_ns)
    found = []
    for code, (name, source, device) in enumerate(readings.labels):
        values = readings.value[inside & (readings.label == code)]
        if values.size:
            found.append(
                Gauge(
                    name=name,
                    source=source,
                    device=device,
                    n=int(values.size),
                    mean=float(values.mean()),
                    low=float(values.min()),
                    peak=float(values.max()),
                )
            )
    return tuple(sorted(found, key=lambda g: (g.name, g.source, g.device)))


def _median(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float | None:
    return float(np.median(values)) if values.size else None


def _started_at(columns: Columns) -> str:
    """Wall time (UTC, ISO 8601) of the window's start, else of the engine's, by the header's pair of clocks."""
    header, window = columns.header, columns.window
    shift_ns = 0 if window is None else window.start_ns - header.monotonic_ns
    moment = dt.datetime.fromtimestamp((header.wall_ns + shift_ns) / NS, tz=dt.UTC)
    return moment.isoformat(timespec="milliseconds")
