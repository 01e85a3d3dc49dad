"""What the judge must say of a case, from its parameters: which setting, what limits the next one up, which mistakes.

Where a true figure lies so near its threshold that a measurement may fall on either side, both answers are right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.engine import lengths
from benchmarks.engine.plan import ClassPlan
from benchmarks.simulator.server import Reject
from scripts.truth.cases import Case
from scripts.truth.knowing import Figures

NEAR = 0.02
NEAR_SLOWDOWN = 0.12  # a p95 of some dozens of requests over another one
KNEES = (0.93, 0.95, 0.97)
SOME_PREEMPTIONS = 15
"""Of REQUESTS answers; fewer may or may not be met in a window."""
LATENCY, VRAM, TEMPERATURE, KV, QUEUE, ERRORS, OVERLOAD, FAIRNESS = (
    "latency", "VRAM", "temperature", "KV preemptions", "queue", "errors", "overload", "fairness",
)  # fmt: skip
NOT_FOUND, WATCH, FOUND, NOT_TESTED = "not found", "watch", "found", "not tested"
Words = frozenset[str]
LENGTHS, AVERAGE, UNBOUNDED, BLOCKING, MEMORY, RETRIES, TOKENS = range(7)
"""The seven mistakes, in the order in which they are told."""


@dataclass(frozen=True)
class Causes:
    """What keeps a setting from being safe: surely, and perhaps."""

    sure: Words
    perhaps: Words

    @property
    def may_be_safe(self) -> bool:
        return not self.sure

    @property
    def may_be_unsafe(self) -> bool:
        return bool(self.sure or self.perhaps)


def causes_of(case: Case, figures: Figures) -> Causes:
    """Of one setting, without what belongs to the whole deployment."""
    sure, perhaps = set[str](), set[str]()

    def held(name: str, value: float, limit: float, near: float) -> None:
        if value > limit * (1 + near):
            sure.add(name)
        elif value > limit * (1 - near):
            perhaps.add(name)

    limits = case.limits
    for name, p95_s in figures.p95_s.items():
        limit_s = limits.classes[name].e2e_s
        if limit_s is not None:
            held(LATENCY, p95_s, limit_s, NEAR)
    held(VRAM, figures.vram_share, limits.max_vram_share, 0.01)
    held(TEMPERATURE, figures.temperature_c, limits.max_temperature_c, 0.01)
    held(ERRORS, case.error_share, 1 - limits.success_share, NEAR)
    if figures.preemptions >= SOME_PREEMPTIONS:
        sure.add(KV)
    elif figures.preemptions or figures.kv_peak_tokens > 0.95 * case.profile.kv_tokens:
        perhaps.add(KV)
    if figures.setting > case.room:
        sure.add(QUEUE)
    return Causes(frozenset(sure), frozenset(perhaps - sure))


def of_deployment(case: Case) -> Causes:
    """What the behaviour probes find, whatever the setting."""
    sure, perhaps = set[str](), set[str]()
    if "overload" in case.probes and case.queue_cap is None:
        sure.add(OVERLOAD)
    elif "overload" in case.probes and case.reject is Reject.IN_STREAM:
        perhaps.add(OVERLOAD)  # refused at once and without Retry-After: how strictly that is taken is the judge's
    if "fairness" in case.probes and case.slowdown is not None:
        limit = case.limits.terms.max_slowdown
        if case.slowdown > limit * (1 + NEAR_SLOWDOWN):
            sure.add(FAIRNESS)
        elif case.slowdown > limit * (1 - NEAR_SLOWDOWN):
            perhaps.add(FAIRNESS)
    return Causes(frozenset(sure), frozenset(perhaps))


def choices(case: Case) -> frozenset[int | None]:
    """Every setting that may be chosen; None is that no setting is safe."""
    whole = of_deployment(case)
    if not whole.may_be_safe:
        return frozenset({None})
    each = [causes_of(case, figures) for figures in case.figures]
    branches = product(*[(True, False) if c.perhaps and not c.sure else (not c.sure,) for c in each])
    found = {_lowest(case.figures, safe, knee) for safe in branches for knee in KNEES}
    return frozenset(found | ({None} if whole.perhaps else set()))


def _lowest(figures: Sequence[Figures], safe: Iterable[bool], knee: float) -> int | None:
    allowed = [f for f, one in zip(figures, safe, strict=True) if one and f.good_per_s > 0]
    best = max((f.good_per_s for f in allowed), default=0.0)
    return next((f.setting for f in allowed if f.good_per_s >= knee * best), None)


def limiting(case: Case, chosen: int | None) -> Causes:
    """Why not the next one up; of no setting at all, why not even the lowest. Both empty: it is safe, or there is none."""
    settings = [f.setting for f in case.figures]
    place = 0 if chosen is None else settings.index(chosen) + 1
    if place >= len(settings):
        return Causes(frozenset(), frozenset())
    own, whole = causes_of(case, case.figures[place]), of_deployment(case)
    return Causes(own.sure | whole.sure, own.perhaps | whole.perhaps)


def findings(case: Case, chosen: int | None) -> tuple[Words, ...]:
    """What each of the seven may be called, by the table of the design."""
    found = [frozenset[str]()] * 7
    found[LENGTHS] = _lengths(case)
    found[AVERAGE] = _average(case)
    found[UNBOUNDED] = _unbounded(case)
    found[BLOCKING] = _blocking(case)
    found[MEMORY] = _memory(case, chosen)
    found[RETRIES] = _retries(case)
    found[TOKENS] = frozenset({FOUND if "tokens/s" in case.limits.terms.published else WATCH})
    return tuple(found)


def _lengths(case: Case) -> Words:
    production = case.limits.terms.production
    if production is None:
        return frozenset({NOT_TESTED})
    p10, p90, p95 = (prompt_quantile(case.classes, share) for share in (0.10, 0.90, 0.95))
    varied = production.p90_tokens / production.p10_tokens
    words = set()
    if p90 / p10 < 1.2 * (1 + NEAR) and varied > 2 * (1 - NEAR):
        words.add(FOUND)
    if p90 / p10 >= 1.2 * (1 - NEAR) or varied <= 2 * (1 + NEAR):
        short_tail = p95 < production.p95_tokens
        words.add(WATCH if len(case.classes) == 1 or short_tail else NOT_FOUND)
    return frozenset(words)


def _average(case: Case) -> Words:
    """The objective has its percentile, so only what is published can have none. How many requests a percentile rests on
    is the judge's to count, so it may ask for more."""
    if "average" in case.limits.terms.published:
        return frozenset({FOUND})
    return frozenset({NOT_FOUND, WATCH})


def _unbounded(case: Case) -> Words:
    if "overload" not in case.probes:
        return frozenset({NOT_TESTED})
    if case.queue_cap is None:
        return frozenset({FOUND})
    return frozenset({WATCH if case.reject is Reject.IN_STREAM else NOT_FOUND})


def _blocking(case: Case) -> Words:
    if case.slowdown is None or "fairness" not in case.probes:
        return frozenset({NOT_TESTED})
    words = {
        word for low, high, word in ((0.0, 1.3, NOT_FOUND), (1.3, 2.0, WATCH), (2.0, np.inf, FOUND))
        if low * (1 - NEAR_SLOWDOWN) < case.slowdown < high * (1 + NEAR_SLOWDOWN)
    }  # fmt: skip
    return frozenset(words)


def _memory(case: Case, chosen: int | None) -> Words:
    """At the setting that is chosen; where none is, at any."""
    if case.geometry == "unknown":
        own = [causes_of(case, f) for f in case.figures if chosen in (None, f.setting)]
        moved = any(KV in c.sure for c in own)
        return frozenset({NOT_TESTED, FOUND} if moved else {NOT_TESTED})
    looked = [f for f in case.figures if chosen in (None, f.setting)]
    bound = any(f.setting * longest_tokens(case.classes) > case.profile.kv_tokens for f in looked)
    moved = [causes_of(case, f) for f in looked]
    if bound or any(KV in c.sure for c in moved):
        return frozenset({FOUND})
    words = {WATCH if case.geometry == "wrong" else NOT_FOUND}
    return frozenset(words | ({FOUND} if any(KV in c.perhaps for c in moved) else set()))


def _retries(case: Case) -> Words:
    policy = case.limits.terms.retry
    if policy is None:
        return frozenset({NOT_TESTED})
    if policy.kind == "immediate":
        return frozenset({FOUND})
    if policy.kind == "none":
        return frozenset({NOT_FOUND})
    careful = policy.jitter and policy.honours_retry_after and policy.budget_share is not None
    return frozenset({NOT_FOUND if careful else WATCH})


def longest_tokens(classes: Sequence[ClassPlan]) -> int:
    """Prompt and answer of the longest request that can be drawn."""
    return max(
        round(lengths.quantile(c.prompt_tokens, 0.999) + lengths.quantile(c.output_tokens, 0.999)) for c in classes
    )


def prompt_quantile(classes: Sequence[ClassPlan], share: float) -> float:
    """Prompt tokens below which `share` of all requests lie, over the classes by their weights."""
    grid = (np.arange(2000) + 0.5) / 2000
    values = np.concatenate([[lengths.quantile(c.prompt_tokens, p) for p in grid] for c in classes])
    weights = np.concatenate([np.full(len(grid), c.weight) for c in classes])
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][np.searchsorted(reached, share)])
