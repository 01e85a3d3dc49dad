"""How many may wait: a load-dependent birth-death chain from the grid's own completions per second at n active.

The chosen setting says how many are served at once. What waits is added to what serving takes: a request is in time when
waiting + service stays inside its limit, and the share of those comes from the chain's waiting law and the measured service
times together, since a p95 of waiting plus a p95 of service is not the p95 of their sum.

X(n) between the settings that ran is read off straight lines, never above what a higher setting completed, and marked. An
interval holds two things: the chain at both ends of X's own interval, and windows simulated with the recorded times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from math import ceil, floor, isnan, log, sqrt

import msgspec
import numpy as np
from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary
from benchmarks.stats.birth_death import Chain, chain
from benchmarks.stats.estimates import Interval
from benchmarks.stats.queue_simulation import simulate_queue
from benchmarks.stats.student import t_quantile
from capacity.assessment import queue_words, rates, service_times
from capacity.assessment.facts import MIXED, GridFacts
from capacity.assessment.service_times import Law
from capacity.assessment.verdict import CapRow, Headroom, QueueCap, Rate, SettingRow

PER_MINUTE = 60.0
MOST_CAP = 1000
NO_FEWER = 1e-4
"""Refusals below this share: a longer queue could only hide overload."""
WINDOWS, REQUESTS = 20, 200
SEED = 20261130
FREE_WITH = 0.90
LEAST_RATE_SHARE = 0.1  # of a rate's value: its interval over few repeats may reach below zero
RATE_HALVINGS = 12


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """Completions of the mix a second with 1, 2, ... active: values and ends of their intervals, each of shape (active,)."""

    value: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    interpolated: tuple[int, ...]

    @property
    def active(self) -> int:
        return len(self.value)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """All that an answer depends on, so that the same grid is worked out once."""

    served: Served
    laws: tuple[Law, ...]
    works: tuple[float, ...]
    percentile: float
    success_share: float


def queue_cap(facts: GridFacts, chosen: SettingRow, room: Headroom) -> QueueCap | None:
    """The largest cap whose waiting p95 still leaves the objective at the stated rate; None where too little is known.

    Where no cap keeps both refusals and times at that rate, it is the cap of the highest lower rate at which one does.
    """
    asked, refusal = _asked(facts, chosen.setting, room.stated_per_min)
    if asked is None:
        return refusal
    fitting = _fitting_per_min(asked, room.stated_per_min)
    if fitting is None or fitting >= room.stated_per_min:
        return _answer(asked, room.stated_per_min)
    lower = _answer(asked, fitting)
    return replace(lower, words=f"{queue_words.lowered(room.stated_per_min, fitting)} {lower.words}")


def cap_at(facts: GridFacts, chosen: SettingRow, rate_per_min: float) -> QueueCap | None:
    """The largest cap that holds at any rate of arrivals."""
    asked, refusal = _asked(facts, chosen.setting, rate_per_min)
    return _answer(asked, rate_per_min) if asked is not None else refusal


def _asked(facts: GridFacts, setting: int, rate_per_min: float) -> tuple[Question | None, QueueCap | None]:
    """What is to be worked out, or the answer that it cannot be."""
    served = served_at(facts, setting)
    if served is None or rate_per_min <= 0:
        return None, None
    found, unknown = service_times.laws(facts, setting)
    if not unknown:
        return _question(facts, setting, served, found), None
    return None, QueueCap(
        arrivals_per_min=rate_per_min, active=served.active, cap=None, rows=(), interpolated=served.interpolated,
        retry_after_s=_retry_after_s(served), words=queue_words.unknown(unknown, setting),
    )  # fmt: skip


def predicted(facts: GridFacts, chosen: SettingRow, rate_per_min: float, cap: int) -> CapRow | None:
    """What this cap is expected to do at this rate; None where too little is known."""
    asked, _ = _asked(facts, chosen.setting, rate_per_min)
    return _row(asked, rate_per_min, cap) if asked is not None and 0 <= cap <= MOST_CAP else None


def foretold_misses(facts: GridFacts, chosen: SettingRow, rate_per_min: float, cap: int) -> tuple[float, float] | None:
    """(share refused or late of the class that has most, share refused) at this rate and cap; None where not known."""
    asked, _ = _asked(facts, chosen.setting, rate_per_min)
    return _misses(asked, rate_per_min, cap) if asked is not None else None


def highest_below(
    facts: GridFacts, chosen: SettingRow, rate_per_min: float, cap: int, holds: Callable[[float, float], bool]
) -> float | None:
    """The highest rate under this one at which `holds` of `foretold_misses` is true; None where none is found."""
    asked, _ = _asked(facts, chosen.setting, rate_per_min)
    if asked is None:
        return None
    low, high = 0.0, rate_per_min
    for _ in range(RATE_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(*_misses(asked, middle, cap)) else (low, middle)
    return low or None


def _misses(asked: Question, rate_per_min: float, cap: int) -> tuple[float, float]:
    of = chain(asked.served.value, rate_per_min / PER_MINUTE, cap)
    in_time = min(_shares_in_time(asked, of), default=1.0)
    return 1 - (1 - of.refused_share) * in_time, of.refused_share


def served_at(facts: GridFacts, active: int) -> Served | None:
    """Completions a second of the mix with 1 ... active in flight; None where the setting itself was not measured."""
    tested = {}
    for setting in sorted({cell.setting for cell in facts.cells if cell.setting <= active}):
        rate = _completed_per_s(facts, setting)
        if rate.value and rate.lower is not None and rate.upper is not None:
            tested[setting] = rate
    if active not in tested:
        return None
    numbers = np.arange(1, active + 1)

    def line(ends: Sequence[float]) -> tuple[float, ...]:
        # From the right, so that none is above what more in flight completed: the chain takes the slower of the two.
        monotone = list(accumulate(reversed(ends), min))[::-1]
        return tuple(np.interp(numbers, [0, *tested], [0.0, *monotone]).tolist())

    return Served(
        value=line([rate.value or 0.0 for rate in tested.values()]),
        lower=line([rate.lower or 0.0 for rate in tested.values()]),
        upper=line([rate.upper or 0.0 for rate in tested.values()]),
        interpolated=tuple(n for n in range(1, active + 1) if n not in tested),
    )


def _completed_per_s(facts: GridFacts, setting: int) -> Rate:
    cells = facts.at(setting)
    names = (MIXED,) if MIXED in facts.class_names else facts.class_names
    parts = {name: _rate(rates.summaries(cells, name)) for name in names}
    weights = {MIXED: 1.0} if MIXED in facts.class_names else facts.class_weights
    return Rate(
        value=rates.harmonic({name: rate.value for name, rate in parts.items()}, weights),
        lower=rates.harmonic({name: rate.lower for name, rate in parts.items()}, weights),
        upper=rates.harmonic({name: rate.upper for name, rate in parts.items()}, weights),
    )


def _rate(found: Sequence[CellSummary]) -> Rate:
    """Completions a second over the repeats of one kind of cell. Its interval is the wider of what so many counted
    requests leave open and of mean +- t x s / sqrt(k) over the repeats."""
    known = [(s.completed_per_s, s.window_s) for s in found if s.completed_per_s is not None and s.window_s > 0]
    seconds = sum(window_s for _, window_s in known)
    count = sum(rate * window_s for rate, window_s in known)
    if count <= 0:
        return Rate()
    value = count / seconds
    half = 1.96 * sqrt(count) / seconds
    if (k := len(known)) > 1:
        mean = sum(rate for rate, _ in known) / k
        deviation = sqrt(sum((rate - mean) ** 2 for rate, _ in known) / (k - 1))
        half = max(half, t_quantile(k - 1, 0.975) * deviation / sqrt(k))
    return Rate(value=value, lower=max(value - half, LEAST_RATE_SHARE * value), upper=value + half)


def _question(facts: GridFacts, setting: int, served: Served, found: Sequence[Law]) -> Question:
    return Question(
        served=served,
        laws=tuple(found),
        works=service_times.works(facts, setting) or (1.0,),
        percentile=facts.limits.percentile / 100,
        success_share=facts.limits.success_share,
    )


@lru_cache(maxsize=128)
def _answer(asked: Question, rate_per_min: float) -> QueueCap:
    served, per_s = asked.served, rate_per_min / PER_MINUTE
    ceiling = _first(lambda cap: chain(served.value, per_s, cap).refused_share < NO_FEWER)
    ceiling = MOST_CAP if ceiling is None else ceiling
    largest = _largest(lambda cap: _in_time(asked, chain(served.value, per_s, cap)), ceiling)
    rows = _rows(asked, rate_per_min, largest, ceiling)
    fitting = _fitting_per_min(asked, rate_per_min)
    return QueueCap(
        arrivals_per_min=rate_per_min,
        active=served.active,
        cap=largest,
        rows=rows,
        interpolated=served.interpolated,
        retry_after_s=_retry_after_s(served),
        words=queue_words.words(
            rows,
            largest,
            rate_per_min,
            served.active,
            _retry_after_s(served),
            interpolated=served.interpolated,
            tightest=_tightest(asked, per_s, largest),
            percentile=100 * asked.percentile,
            success_share=asked.success_share,
            fitting_per_min=fitting,
        ),
        fitting_per_min=fitting,
    )


def _rows(asked: Question, rate_per_min: float, largest: int | None, ceiling: int) -> tuple[CapRow, ...]:
    """Caps 0, 1, 2, 4, ... up to the first two that fail, or to where a longer queue refuses no fewer; and the cap."""
    found, failed, cap = [], 0, 0
    while failed < 2 and cap <= max(2 * ceiling, 1) and cap <= MOST_CAP:
        found.append(_row(asked, rate_per_min, cap))
        failed += not found[-1].holds
        cap = max(1, 2 * cap)
    if largest is not None and largest not in [row.cap for row in found]:
        found.append(_row(asked, rate_per_min, largest))
    return tuple(sorted(found, key=lambda row: row.cap))


@lru_cache(maxsize=1024)
def _row(asked: Question, rate_per_min: float, cap: int) -> CapRow:
    served, per_s, q = asked.served, rate_per_min / PER_MINUTE, asked.percentile
    middle, slow, fast = (chain(x, per_s, cap) for x in (served.value, served.lower, served.upper))
    seen = simulate_queue(served.value, per_s, cap, asked.works, windows=WINDOWS, requests=REQUESTS, seed=SEED, q=0.95)

    def interval(of: Callable[[Chain], float], windows: Sequence[float]) -> Interval:
        known = [*(of(one) for one in (middle, slow, fast)), *(value for value in windows if not isnan(value))]
        return Interval(value=of(middle), lower=min(known), upper=max(known), n=WINDOWS * REQUESTS, how=queue_words.HOW)

    return CapRow(
        cap=cap,
        refused=interval(lambda one: one.refused_share, seen.refused.tolist()),
        waiting_mean_s=interval(lambda one: one.mean_wait_s, seen.mean_wait_s.tolist()),
        waiting_p95_s=interval(lambda one: one.wait_quantile_s(0.95), seen.wait_quantile_s.tolist()),
        holds=all(share >= q for share in _shares_in_time(asked, middle)),
    )


def in_time(law: Law, of: Chain) -> float:
    """Share of the admitted whose waiting and service together stay inside the limit."""
    left_s = law.limit_s * (1 + 1e-9) - np.asarray(law.times_s)
    return 1.0 - float(of.wait_over(left_s).mean())


def _shares_in_time(asked: Question, of: Chain) -> list[float]:
    return [in_time(law, of) for law in asked.laws]


def _in_time(asked: Question, of: Chain) -> bool:
    return all(share >= asked.percentile for share in _shares_in_time(asked, of))


def _tightest(asked: Question, per_s: float, cap: int | None) -> tuple[Law, float] | None:
    """The law with the smallest share in time, and that share."""
    of = chain(asked.served.value, per_s, cap or 0)
    return min(((law, in_time(law, of)) for law in asked.laws), key=lambda pair: pair[1], default=None)


def _first(holds: Callable[[int], bool]) -> int | None:
    """The smallest cap that holds, where every longer one does too; None above MOST_CAP."""
    if holds(0):
        return 0
    low, high = 0, 1
    while not holds(high):
        if high >= MOST_CAP:
            return None
        low, high = high, min(2 * high, MOST_CAP)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _largest(holds: Callable[[int], bool], ceiling: int) -> int | None:
    """The largest cap up to the ceiling that holds, where every shorter one does too; None where not even 0 does."""
    if not holds(0):
        return None
    failing = _first(lambda cap: cap > ceiling or not holds(cap))
    return MOST_CAP if failing is None else failing - 1


@lru_cache(maxsize=128)
def _fitting_per_min(asked: Question, rate_per_min: float) -> float | None:
    """The highest rate, up to this one, at which some cap keeps both the share that must succeed and every time; rounded
    down to a tenth. A refused request is no success and has no time, so it counts against both. None where none does."""
    if _fits(asked, rate_per_min):
        return rate_per_min
    low, high = 0.0, rate_per_min
    for _ in range(RATE_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _fits(asked, middle) else (low, middle)
    return floor(10 * low) / 10 or None


def _fits(asked: Question, rate_per_min: float) -> bool:
    served, per_s = asked.served.value, rate_per_min / PER_MINUTE
    allowed = max(1 - asked.success_share, NO_FEWER)
    cap = _first(lambda cap: chain(served, per_s, cap).refused_share <= allowed)
    while cap is not None and cap <= MOST_CAP:
        of = chain(served, per_s, cap)
        shares = _shares_in_time(asked, of)
        if all((1 - of.refused_share) * share >= asked.percentile for share in shares):
            return True
        # A longer queue refuses fewer, but leaves no more in time of those that it admits.
        cap = ceil(1.3 * cap) + 1 if all(share >= asked.percentile for share in shares) else None
    return False


def _retry_after_s(served: Served) -> int:
    """Whole seconds until a place is free with FREE_WITH: one completion of a full server, an exponential time."""
    return max(1, ceil(-log(1 - FREE_WITH) / served.value[-1]))
