"""The rate to confirm next, where an open loop did not hold or its repeats differ too much: the highest that what it saw
supports.

The chain foretold, at the rate that ran, a share of requests that are late or refused, and a share that fail. What the
open loop saw is so many times as much. At a lower rate the chain foretells less; times the same factor it must leave a
proof within the window that the form proposes: 2 misses in 165 at p95. Where an older open loop held at a lower rate,
that rate is supported too, and the higher of the two is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor

import msgspec
from msgspec.structs import replace

from benchmarks.stats.quantiles import needed_for_bound
from capacity.assessment import confirm_words, queueing
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Confirmation, SettingRow

ALPHA, MISSES = 0.01, 2
"""So many late or refused requests of a class may be met in a proposed window, and its percentile still be proved."""
LEAST_FORETOLD = 1e-3
"""A chain that foretells less is taken at this: what is so rare has no ratio worth speaking of."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the requests of one open loop: late, refused or failed of the class that had most, and no success in all."""

    late: float
    failed: float


def with_next_rate(
    facts: GridFacts, chosen: SettingRow, found: Confirmation, held_per_min: float | None
) -> Confirmation:
    """With the rate to draw next and why that one, where one is supported; else as it is. `held_per_min` is the highest
    lower rate that an older open loop of the same setting held at."""
    seen, rate, cap = _seen(found), found.rate_per_min, found.queue_cap
    if seen is None or rate is None or cap is None or not (found.indicative or _too_many(facts, seen)):
        return found
    times, holds = _calibrated(facts, chosen, seen, rate, cap)
    supported = queueing.highest_below(facts, chosen, rate, cap, holds) if holds is not None else None
    rates = [floor(one) for one in (supported, held_per_min) if one is not None and 1 <= floor(one) < rate]
    if not rates:
        return found
    best = max(rates)
    why = (
        confirm_words.held_there(best)
        if held_per_min is not None and best == floor(held_per_min)
        else confirm_words.lower(rate, times, best)
    )
    return replace(
        found,
        next_rate_per_min=float(best),
        next_why=why,
        next_cell=f"{found.next_cell} {why}"
        if found.indicative
        else confirm_words.to_lower(best, chosen.setting, cap, why),
    )


def _too_many(facts: GridFacts, seen: Seen) -> bool:
    """Whether it is late or refused requests that failed it: a lower rate mends nothing else."""
    return seen.late > 1 - facts.limits.percentile / 100 or seen.failed > 1 - facts.limits.success_share


def _seen(found: Confirmation) -> Seen | None:
    late = [one.misses / one.n for one in found.claims if one.misses is not None and one.n]
    if not late or found.refused is None or found.accepted is None or not found.refused.n:
        return None
    return Seen(late=max(late), failed=1 - found.accepted.hits / found.refused.n)


def _calibrated(
    facts: GridFacts, chosen: SettingRow, seen: Seen, rate_per_min: float, cap: int
) -> tuple[float, Callable[[float, float], bool] | None]:
    """(how many times what was foretold of late ones was seen, whether a foretold pair would hold when so much more comes);
    no test where the chain is not known."""
    foretold = queueing.foretold_misses(facts, chosen, rate_per_min, cap)
    if foretold is None:
        return 1.0, None
    late, failed = (
        max(1.0, was / max(told, LEAST_FORETOLD)) for was, told in zip((seen.late, seen.failed), foretold, strict=True)
    )
    q = facts.limits.percentile / 100
    most_late = MISSES / needed_for_bound(q, MISSES, ALPHA)
    most_failed = max(1 - facts.limits.success_share, 0.0)
    return late, lambda told_late, told_failed: late * told_late <= most_late and failed * told_failed <= most_failed
