"""Overload: what becomes of requests beyond capacity. Refused, and how soon and with what words, or left to wait without
bound; and how long the runtime needs afterwards."""

from __future__ import annotations

from collections import Counter

import numpy as np

from benchmarks.engine.column_types import OUTCOMES, Columns, Floats
from benchmarks.engine.probe_plan import Overload
from benchmarks.engine.probes.asking import Asking
from benchmarks.engine.probes.seen import cut_short, of_role, quantile, seconds_of
from benchmarks.engine.probes.storm_figures import Requests, Storm, capacity_of, storm_of
from benchmarks.engine.probes.storms import capacity, storm
from benchmarks.engine.retrying import Retries, RetryPolicy
from benchmarks.engine.runner import Cell
from benchmarks.engine.terms import Outcome
from benchmarks.engine.verdicts import NOT_JUDGED, Figure, ProbeVerdict, said
from benchmarks.stats.trends import Trend, trend

CALM, LOAD, AFTER = "calm", "overload", "after"
# Any queue fills at first; the trend is read behind this part of the load.
FILLS_SHARE = 1 / 3
# Slower growth is not told from a load just at capacity: the wait grows by (load / capacity - 1) seconds a second.
LEAST_SLOPE = 0.05
# Times that surely grew by less than this part of what the load beyond capacity would make them did not grow.
FLAT_SHARE = 0.5
MOST_FAILED_SHARE = 0.05
GAVE_UP = (Outcome.FIRST_BYTE_TIMEOUT, Outcome.IDLE_TIMEOUT, Outcome.TOTAL_TIMEOUT)
ENDED_BY_US = (Outcome.CANCELLED, Outcome.UNFINISHED)
NO_FAILURE = (Outcome.OK, Outcome.REJECTED, *GAVE_UP, *ENDED_BY_US)


async def drive(cell: Cell) -> None:
    probe = cell.plan.probe
    assert isinstance(probe, Overload)
    asking = Asking(cell)
    await asking.begin()
    found = await capacity(asking, probe)
    if found is not None:
        await storm(asking, probe, Retries(RetryPolicy(), seed=cell.plan.seed), (CALM, LOAD, AFTER), found)
    asking.end()


def judge(columns: Columns) -> ProbeVerdict:
    probe = columns.plan.probe
    assert isinstance(probe, Overload)
    found, short = storm_of(columns, probe, CALM, LOAD, AFTER), cut_short(columns)
    if found is None:
        return said(columns, NOT_JUDGED, {}, (short or "No request was sent beyond capacity.",))
    refusals = _Refusals(columns)
    growth = waiting(found.load, found.began_s, probe.overload_s)
    figures = _figures(columns, probe, found, refusals, growth)
    if short or len(found.load) < probe.least_requests:
        few = f"Only {len(found.load)} requests were due beyond capacity, {probe.least_requests} are needed."
        return said(columns, NOT_JUDGED, figures, (short or few,))
    word, reasons = _word(probe, found, refusals, growth)
    return said(columns, word, figures, (*reasons, *_beside(columns, probe, found)))


def waiting(load: Requests, began_s: float, lasts_s: float) -> Trend:
    """How fast the time of a request grew over the load, in seconds per second, behind its first third. Of answers and of
    those that the client gave up, which waited so long at the least; what we ended ourselves would show its end only."""
    took_s = np.where(load.ok, load.took_s, np.where(_among(load, GAVE_UP), load.lived_s, np.nan))
    rows = np.isfinite(took_s) & (load.due_s >= began_s + FILLS_SHARE * lasts_s)
    return trend(load.due_s[rows], took_s[rows])


class _Refusals:
    """Of the requests beyond capacity: how each that was refused was told so."""

    def __init__(self, columns: Columns) -> None:
        attempts, requests = of_role(columns, LOAD), columns.requests
        rows = requests.codes["outcome"][attempts.rows] == OUTCOMES.index(Outcome.REJECTED)
        self.took_s: Floats = (attempts.closed_s - attempts.sent_s)[rows]
        log_rows = attempts.rows[rows]
        told = requests.masked_floats["retry_after_s"]
        self.retry_after_s: Floats = told.values[log_rows][told.known[log_rows]]
        status = requests.masked["http_status"]
        self.statuses = Counter(status.values[log_rows][status.known[log_rows]].tolist())

    def __len__(self) -> int:
        return len(self.took_s)

    @property
    def words(self) -> str:
        """By which status, as in `HTTP 503: 41; in the stream: 3`."""
        named = ((("in the stream" if code == 200 else f"HTTP {code}"), n) for code, n in self.statuses.most_common())
        return "; ".join(f"{name}: {count}" for name, count in named)


def _word(probe: Overload, found: Storm, refusals: _Refusals, growth: Trend) -> tuple[str, tuple[str, ...]]:
    load, n = found.load, len(found.load)
    failed = n - load.count(*NO_FAILURE)
    if failed > MOST_FAILED_SHARE * n:
        return "fails", (f"{failed} of {n} requests failed otherwise than by a refusal: {_failures(load)}.",)
    grew = growth.lower is not None and growth.slope is not None and growth.lower > 0 and growth.slope >= LEAST_SLOPE
    if len(refusals):
        still = (f"The time of those that were not still grew by {growth.slope:.2f} s each second.",) if grew else ()
        return _refused(probe, refusals, n, still)
    gave_up = load.count(*GAVE_UP)
    if gave_up > MOST_FAILED_SHARE * n:
        return "queues_without_bound", (
            f"Nothing was refused, and {gave_up} of {n} waited beyond the client's limits.",
        )
    if growth.lower is None or growth.upper is None:
        return NOT_JUDGED, ("Too few answers came to tell whether their times grew.",)
    if grew:
        words = f"the time of a request grew by {growth.slope:.2f} s each second, at least {growth.lower:.2f} with 95 %"
        return "queues_without_bound", (f"Nothing was refused, and {words}.",)
    if growth.upper >= max(LEAST_SLOPE, (probe.times_capacity - 1) * FLAT_SHARE):
        wide = f"times may have grown by anything from {growth.lower:.2f} to {growth.upper:.2f} s each second"
        return NOT_JUDGED, (f"Nothing was refused, and {wide}: the load was too short to tell.",)
    rate = found.answered_in_it / found.lasted_s
    return "kept_up", (f"Nothing was refused, times did not grow, {rate:.3g} answers came per second.",)


def _refused(probe: Overload, refusals: _Refusals, n: int, still: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    told = f"{len(refusals)} of {n} requests were refused ({refusals.words})."
    late_s, without = quantile(refusals.took_s, 0.95), len(refusals) - len(refusals.retry_after_s)
    lacking = (f"{without} of {len(refusals)} refusals said nothing about when to come back.",) if without else ()
    if late_s is None or not late_s <= probe.refuse_within_s:
        late = f"p95 of the time to reject is {late_s or 0:.2f} s, above {probe.refuse_within_s:g} s."
        return "refused_late", (told, late, *lacking, *still)
    return ("refused_without_retry_after" if without else "refused_clearly"), (told, *lacking, *still)


def _figures(columns: Columns, probe: Overload, found: Storm, refusals: _Refusals, growth: Trend) -> dict[str, Figure]:
    load, n, refused = found.load, len(found.load), len(refusals)
    stated = refusals.retry_after_s
    failed = n - load.count(*NO_FAILURE)
    return {
        "capacity": Figure(value=capacity_of(columns, probe), unit="1/s"),
        "offered": Figure(value=n / found.lasted_s, unit="1/s", n=n),
        "answered": Figure(value=found.answered_in_it / found.lasted_s, unit="1/s", n=found.answered_in_it),
        "refused": Figure(value=refused / n, unit="share", n=n),
        "failed": Figure(value=failed / n, unit="share", n=n),
        "time_to_reject_p50": seconds_of(quantile(refusals.took_s, 0.50), refused),
        "time_to_reject_p95": seconds_of(quantile(refusals.took_s, 0.95), refused),
        "with_retry_after": Figure(value=len(stated) / refused if refused else None, unit="share", n=refused),
        "retry_after": seconds_of(quantile(stated, 0.50), len(stated)),
        "wait_growth": Figure(value=growth.slope, unit="s/s", n=growth.blocks),
        "wait_growth_at_least": Figure(value=growth.lower, unit="s/s", n=growth.blocks),
        "wait_growth_at_most": Figure(value=growth.upper, unit="s/s", n=growth.blocks),
        "answer_time_calm_p95": seconds_of(quantile(found.calm.took_s, 0.95), len(found.calm)),
        "answer_time_p95": seconds_of(quantile(load.took_s[load.ok], 0.95), int(load.ok.sum())),
        "most_in_flight": Figure(value=_most_in_flight(columns), unit="requests"),
        "recovery": seconds_of(found.recovery_s, len(found.after)),
    }


def _beside(columns: Columns, probe: Overload, found: Storm) -> tuple[str, ...]:
    """What a reader must know beside the word."""
    told = []
    if _most_in_flight(columns) >= probe.most_in_flight:
        told.append(f"All {probe.most_in_flight} places of the client were taken: a longer queue was not tried.")
    if found.limit_s is None:
        told.append("Light load gave no baseline, so recovery was not timed.")
    elif found.recovery_s is None:
        told.append(f"Within {probe.recovery_s:g} s after the load answers were not back within {found.limit_s:.2f} s.")
    if columns.health is not None and columns.health.client_limited:
        told.append(f"The load client was at its limit: {columns.health.why}.")
    return tuple(told)


def _most_in_flight(columns: Columns) -> int:
    """With the server at once, over the whole cell."""
    requests = columns.requests
    sent, closed = requests.masked["t_sent_ns"], requests.masked["t_closed_ns"]
    rows = sent.known & closed.known
    times = np.concatenate((sent.values[rows], closed.values[rows]))
    steps = np.repeat((1, -1), int(rows.sum()))
    counts = np.cumsum(steps[np.lexsort((steps, times))])
    return int(counts.max(initial=0))


def _failures(load: Requests) -> str:
    fine = {OUTCOMES.index(outcome) for outcome in NO_FAILURE}
    found = Counter(code for code in load.outcome.tolist() if code not in fine)
    return ", ".join(f"{OUTCOMES[code]} {count}" for code, count in found.most_common())


def _among(load: Requests, outcomes: tuple[Outcome, ...]) -> np.typing.NDArray[np.bool_]:
    found: np.typing.NDArray[np.bool_] = np.isin(load.outcome, [OUTCOMES.index(outcome) for outcome in outcomes])
    return found
