"""The answers that statistics here may give: a quantile with what it still needs, a share with its denominator, and any
other figure with its interval."""

from __future__ import annotations

import msgspec


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """One quantile of a sample, in the sample's own unit.

    `value` is None when too few points stand behind it (p95 from fewer than 20 is just the maximum); `lower` and
    `upper` are the two-sided 95 % order-statistic bounds, `bound` the one-sided 95 % upper bound that gates are judged
    with, each None where the sample has no such order statistic. `needs` says how many more requests would give
    `bound`. Infinite values mean that the quantile falls among failed requests.
    """

    q: float
    n: int
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    bound: float | None = None
    needs: int = 0


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The three quantiles shown for every time."""

    p50: Estimate
    p95: Estimate
    p99: Estimate


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """`hits` of `n`, with the two-sided 95 % Wilson interval; value and bounds are None when n is 0."""

    hits: int
    n: int
    value: float | None = None
    lower: float | None = None
    upper: float | None = None


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its two-sided 95 % interval; `n` is over how many it is taken, `how` names what the interval covers.
    None is not known, never zero."""

    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    n: int = 0
    how: str = ""
