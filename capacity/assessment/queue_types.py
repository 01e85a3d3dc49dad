"""What is answered about the queue before a setting, and about each limit in its open loop."""

from __future__ import annotations

import msgspec

from benchmarks.stats.estimates import Interval
from capacity.assessment.answer import Answer


class CapRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one queue cap does: the share refused, and waiting times in seconds of those admitted."""

    cap: int
    refused: Interval
    waiting_mean_s: Interval
    waiting_p95_s: Interval
    holds: bool


class QueueCap(msgspec.Struct, frozen=True, kw_only=True):
    """The largest cap whose waiting p95 still leaves the objective, at `arrivals_per_min` with `active` served at once; None
    where not even 0 does. `interpolated` are numbers active whose rate was not measured. `retry_after_s` is what a refused
    client is told. `fitting_per_min` is the highest rate up to this one at which some cap keeps refusals and times both."""

    arrivals_per_min: float
    active: int
    cap: int | None
    rows: tuple[CapRow, ...]
    interpolated: tuple[int, ...]
    retry_after_s: int
    words: str
    fitting_per_min: float | None = None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One limit of one class in the open loop, over all repeats: HOLDS where the objective's percentile is under it with 1 %
    for error, FAILS where the percentile itself is over it, else NOT_TESTED, with `needs` more requests for a proof where
    more would do. Seconds; infinite among failures, and a refused request counts as one."""

    class_name: str
    limit_name: str
    limit_s: float
    percentile: float
    answer: Answer
    n: int
    n_effective: int | None = None
    value_s: float | None = None
    bound_s: float | None = None
    p99_s: float | None = None
    by: str = ""
    misses: int | None = None
    needs: int = 0
