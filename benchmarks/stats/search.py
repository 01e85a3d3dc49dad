"""The highest setting that still attains an objective, as a search that can say that it does not know.

It doubles from a start until a setting is refused, bisects between the last good and the first bad one, and then
confirms both with fresh requests. A setting holds when the Wilson lower bound of its attainment (share of scheduled
requests inside the objective) is at or above the one asked for and the exact binomial law agrees; it is refused by the
upper bound likewise; else it needs more requests. The exact law is asked too because Wilson's bound covers less than it
says near 1 (91.1 % for 95 % at p = .99, n = 50).

**What the answer may claim.** The path looks often and picks, so its tests decide only where to look next. The answer
rests on the confirmation alone: fresh requests, two claims (this setting holds, the next does not), each at half of
`alpha`, split again over the looks it may take. So a wrong answer comes with at most `alpha`, whatever the path. It
holds for independent requests: hand in an effective n where they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from enum import StrEnum
from statistics import NormalDist

import msgspec

from benchmarks.stats.quantiles import binomial_at_most
from benchmarks.stats.shares import wilson


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement at a setting: `hits` of `n` scheduled requests were inside the objective."""

    setting: int
    hits: int
    n: int


class SearchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """From `start` up to at most `limit`, in whole steps. `budget` is how many measurements there may be in all, `looks`
    how many at one setting, of the search and again of the confirmation. Settings closer to each other than the share
    `resolution` need not be told apart; at 0 the answer and the next whole setting are."""

    start: int
    limit: int
    attainment: float
    alpha: float = 0.05
    budget: int = 24
    looks: int = 3
    resolution: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.start <= self.limit or not 0 < self.attainment < 1 or not 0 < self.alpha < 0.5:
            raise ValueError(f"a search needs 1 <= start <= limit and shares between 0 and 1: {self}")
        if self.budget < 1 or self.looks < 1 or not 0 <= self.resolution < 1:
            raise ValueError(f"a search needs at least one measurement, and a resolution below 1: {self}")


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """Measure this setting next, and why."""

    setting: int
    why: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """`setting` holds, and `refused.setting`, the next one as far as the resolution goes, does not: both confirmed. 0
    where not even 1 holds. At the limit only the first half is known, and `at_limit` says so."""

    setting: int
    at_limit: bool
    attained: Observation | None
    refused: Observation | None


class Indeterminate(msgspec.Struct, frozen=True, kw_only=True):
    """No answer, and why. `between` is the highest setting that held (0: none) and the lowest above it that was refused
    (None: none), by all that was measured at each."""

    reason: str
    between: tuple[int, int | None]


class Shown(StrEnum):
    HOLDS = "holds"
    REFUSED = "refused"
    OPEN = "open"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    answer: Found | Indeterminate
    seen: tuple[Observation, ...]


Path = Generator[Try, Observation, Found | str]
"""Asks, and ends with the answer or with why there is none."""


def next_step(seen: Sequence[Observation], spec: SearchSpec) -> Try | Found | Indeterminate:
    """What follows from all that was measured, in its order. Raises ValueError where `seen` is not what was asked for."""
    path = _path(spec)
    step: Try | Found | Indeterminate = next(path)
    for observation in seen:
        if not isinstance(step, Try) or observation.setting != step.setting:
            raise ValueError(f"measured {observation.setting} where the search asked for {step}")
        try:
            step = path.send(observation)
        except StopIteration as end:
            answer: Found | str = end.value
            step = Indeterminate(reason=answer, between=between(seen, spec)) if isinstance(answer, str) else answer
    if isinstance(step, Try) and len(seen) >= spec.budget:
        return Indeterminate(reason=f"the budget of {spec.budget} measurements ended", between=between(seen, spec))
    return step


def search(measure: Callable[[int], Observation], spec: SearchSpec, stop: Callable[[], str | None]) -> Result:
    """Measures until there is an answer. `stop` is asked before each measurement; its reason ends the search."""
    seen: list[Observation] = []
    while True:
        step = next_step(seen, spec)
        if not isinstance(step, Try):
            return Result(answer=step, seen=tuple(seen))
        reason = stop()
        if reason is not None:
            return Result(answer=Indeterminate(reason=reason, between=between(seen, spec)), seen=tuple(seen))
        seen.append(measure(step.setting))


def shown(observation: Observation, attainment: float, alpha: float) -> Shown:
    """What one observation alone shows with 1 - `alpha`, one-sided."""
    hits, n = observation.hits, observation.n
    if n == 0:
        return Shown.OPEN
    lower, upper = wilson(hits, n, NormalDist().inv_cdf(1 - alpha))
    if lower >= attainment and binomial_at_most(n - hits, n, 1 - attainment) <= alpha:
        return Shown.HOLDS
    if upper < attainment and 1 - binomial_at_most(n - hits - 1, n, 1 - attainment) <= alpha:
        return Shown.REFUSED
    return Shown.OPEN


def between(seen: Sequence[Observation], spec: SearchSpec) -> tuple[int, int | None]:
    """The highest setting that held and the lowest above it that was refused, by all that was measured at each."""
    pooled: dict[int, Observation] = {}
    for one in seen:
        pooled[one.setting] = _pooled(pooled.get(one.setting), one)
    said = {setting: shown(one, spec.attainment, spec.alpha) for setting, one in pooled.items()}
    good = max((s for s, word in said.items() if word is Shown.HOLDS), default=0)
    return good, min((s for s, word in said.items() if word is Shown.REFUSED and s > good), default=None)


class _Bracket(msgspec.Struct):
    """`good` held (0: nothing did). `bad` was refused, or stayed open, which is not to hold; then `refused` is the lowest
    that really was."""

    good: int = 0
    bad: int | None = None
    refused: int | None = None

    def take(self, setting: int, said: Shown) -> None:
        if said is Shown.HOLDS:
            self.good = setting
        else:
            self.bad = setting
        if said is Shown.REFUSED:
            self.refused = setting


def _path(spec: SearchSpec) -> Path:
    """The whole search in the order in which it happens; it is run again from its start for each step."""
    bracket = _Bracket()
    setting = spec.start
    while bracket.bad is None and bracket.good < spec.limit:
        said, _ = yield from _ask(setting, spec, spec.alpha, "doubling")
        bracket.take(setting, said)
        setting = min(2 * setting, spec.limit)
    while (
        bracket.bad is not None and bracket.bad - bracket.good > 1 and not _is_near(bracket.good, bracket.refused, spec)
    ):
        middle = (bracket.good + bracket.bad) // 2
        said, _ = yield from _ask(middle, spec, spec.alpha, f"between {bracket.good} and {bracket.bad}")
        bracket.take(middle, said)
    yield from _narrow_above(bracket, spec)
    if bracket.bad is not None and not _is_near(bracket.good, bracket.refused, spec):
        return f"at {bracket.bad} the interval still straddles the attainment after {spec.looks} measurements"
    return (yield from _confirm(bracket.good, bracket.refused, spec))


def _narrow_above(bracket: _Bracket, spec: SearchSpec) -> Generator[Try, Observation, None]:
    """Where the lowest that does not hold stayed open: how near above it one is refused."""
    low = bracket.bad
    while low is not None and not _is_near(bracket.good, bracket.refused, spec):
        if low == spec.limit or low + 1 == bracket.refused:
            return
        above = min(2 * low, spec.limit) if bracket.refused is None else (low + bracket.refused) // 2
        said, _ = yield from _ask(above, spec, spec.alpha, f"above {low}, which stayed open")
        if said is Shown.REFUSED:
            bracket.refused = above
        else:
            low = above


def _is_near(good: int, other: int | None, spec: SearchSpec) -> bool:
    return other is not None and other - good <= max(1, int(spec.resolution * good))


def _confirm(good: int, bad: int | None, spec: SearchSpec) -> Path:
    attained = refused = None
    alpha = spec.alpha / 2 / spec.looks
    if good:
        said, attained = yield from _ask(good, spec, alpha, "confirming the answer")
        if said is not Shown.HOLDS:
            return _unconfirmed(good, said)
    if bad is not None:
        said, refused = yield from _ask(bad, spec, alpha, "confirming the one above")
        if said is not Shown.REFUSED:
            return _unconfirmed(bad, said)
    return Found(setting=good, at_limit=bad is None, attained=attained, refused=refused)


def _unconfirmed(setting: int, said: Shown) -> str:
    became = "stayed open" if said is Shown.OPEN else f"was {'refused' if said is Shown.REFUSED else 'inside'}"
    return f"{setting} was not confirmed: with fresh requests it {became}"


def _ask(
    setting: int, spec: SearchSpec, alpha: float, why: str
) -> Generator[Try, Observation, tuple[Shown, Observation]]:
    """Measures one setting until it is shown or the looks are used up; (what was shown, all of its requests)."""
    pooled: Observation | None = None
    said = Shown.OPEN
    for look in range(spec.looks):
        new = yield Try(setting=setting, why=why if look == 0 else f"{why}: {setting} needs more requests")
        pooled = _pooled(pooled, new)
        said = shown(pooled, spec.attainment, alpha)
        if said is not Shown.OPEN:
            break
    assert pooled is not None
    return said, pooled


def _pooled(one: Observation | None, other: Observation) -> Observation:
    if one is None:
        return other
    return Observation(setting=other.setting, hits=one.hits + other.hits, n=one.n + other.n)
