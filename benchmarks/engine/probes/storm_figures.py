"""What overload and retry storm read from their evidence: capacity, how long until latency was back, and what became of
each request. Pure; the driver asks the same functions while it runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.engine.attempts import issued, take
from benchmarks.engine.column_types import OUTCOMES, Bools, Columns, Floats, Ints
from benchmarks.engine.probe_plan import Overload, RetryStorm
from benchmarks.engine.probes.seen import of_role, quantile
from benchmarks.engine.terms import Outcome
from benchmarks.engine.verdicts import NS

CAPACITY = "capacity"
LEAST_CALM = 5  # of fewer good answers under light load nothing is a baseline
OK = OUTCOMES.index(Outcome.OK)


def capacity_per_s(due_s: Floats, end_s: Floats, clients: int) -> float | None:
    """Good answers per second of `clients` in a closed loop: from the end of each one's first on, while all still asked.
    `end_s` is NaN where an answer was not good; None of fewer than two each."""
    if not len(due_s):
        return None
    ends = np.sort(end_s[end_s <= np.max(due_s)])  # later ones ended beside fewer
    if len(ends) < 2 * clients or ends[-1] <= ends[clients - 1]:
        return None
    return float((len(ends) - clients) / (ends[-1] - ends[clients - 1]))


def back_limit_s(took_s: Floats, back_within: float) -> float | None:
    """Up to which time an answer counts as back, from those under light load; None where they are no baseline."""
    p95 = quantile(took_s, 0.95)
    return None if p95 is None or len(took_s) < LEAST_CALM or not np.isfinite(p95) else p95 * back_within


def back_at_s(due_s: Floats, took_s: Floats, limit_s: float, steady: int) -> float | None:
    """When the first of `steady` requests in a row within the limit was due. Both in the order of due; infinite where an
    answer was not good or is not there."""
    good = np.concatenate(([0], np.cumsum(took_s <= limit_s)))
    runs = np.flatnonzero(good[steady:] - good[:-steady] == steady) if len(due_s) >= steady else np.zeros(0, np.int64)
    return float(due_s[runs[0]]) if len(runs) else None


@dataclass(frozen=True)
class Requests:
    """One row per request of a role, in the order of due, whatever its attempts: seconds on the header's clock, `took_s`
    from due to the end of a good answer, else infinite; `lived_s` from due to its last attempt's end whatever that was,
    NaN where nothing was sent."""

    due_s: Floats
    took_s: Floats
    lived_s: Floats
    outcome: Ints
    attempts: Ints

    def __len__(self) -> int:
        return len(self.due_s)

    @property
    def ok(self) -> Bools:
        return np.isfinite(self.took_s)

    def count(self, *outcomes: Outcome) -> int:
        return int(np.isin(self.outcome, [OUTCOMES.index(outcome) for outcome in outcomes]).sum())


def requests_of(columns: Columns, role: str) -> Requests:
    rows = np.flatnonzero(columns.requests.texts["role"].equal(role))
    found = issued(take(columns.requests, rows))
    requests, base_ns = found.requests, columns.header.monotonic_ns
    order = np.argsort(requests.plain["t_scheduled_ns"], kind="stable")
    due_s = (requests.plain["t_scheduled_ns"][order] - base_ns) / NS
    end, closed = requests.masked["t_end_ns"], requests.masked["t_closed_ns"]
    outcome = requests.codes["outcome"][order].astype(np.int64)
    took_s = np.where(end.known[order], (end.values[order] - base_ns) / NS - due_s, np.inf)
    sent = requests.masked["t_sent_ns"].known[order] & closed.known[order]
    return Requests(
        due_s=due_s,
        took_s=np.where(outcome == OK, took_s, np.inf),
        lived_s=np.where(sent, (closed.values[order] - base_ns) / NS - due_s, np.nan),
        outcome=outcome,
        attempts=found.attempts[order],
    )


@dataclass(frozen=True)
class Storm:
    """One storm with the light load around it. `began_s` is when its first request was due."""

    calm: Requests
    load: Requests
    after: Requests
    began_s: float
    lasted_s: float
    limit_s: float | None
    recovery_s: float | None

    @property
    def answered_in_it(self) -> int:
        """Good answers that ended while the storm was on."""
        return int((self.load.due_s + self.load.took_s <= self.began_s + self.lasted_s).sum())


def storm_of(columns: Columns, probe: Overload | RetryStorm, calm: str, load: str, after: str) -> Storm | None:
    """By the roles of its requests; None where no request was due in it."""
    parts = [requests_of(columns, role) for role in (calm, load, after)]
    if not len(parts[1]):
        return None
    began_s = float(parts[1].due_s[0])
    limit_s = back_limit_s(parts[0].took_s, probe.back_within)
    back_s = None if limit_s is None else back_at_s(parts[2].due_s, parts[2].took_s, limit_s, probe.steady)
    return Storm(
        calm=parts[0],
        load=parts[1],
        after=parts[2],
        began_s=began_s,
        lasted_s=probe.storm_s,
        limit_s=limit_s,
        recovery_s=None if back_s is None else max(0.0, back_s - began_s - probe.storm_s),
    )


def capacity_of(columns: Columns, probe: Overload | RetryStorm) -> float | None:
    """Stated in the probe's parameters, else as measured in the cell."""
    if probe.capacity_per_s is not None:
        return probe.capacity_per_s
    measured = of_role(columns, CAPACITY)
    return capacity_per_s(measured.due_s, np.where(measured.ok, measured.end_s, np.nan), probe.measure_clients)
