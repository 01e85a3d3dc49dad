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
from benchmarks.simulator.server import Options, Reject
from scripts.truth.cases import LONG_CLIENTS, Case
from scripts.truth.knowing import Figures

NEAR = 0.02
NEAR_SLOWDOWN = 0.12  # a p95 of some dozens of requests over another one
NEAR_TURNED_AWAY = 0.5  # by how clients and slots happen to meet
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


def of_load(case: Case, figures: Figures) -> Causes:
    """Of one setting, by its own load alone."""
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
        held(QUEUE, turned_away(case, figures), 1 - limits.success_share, NEAR_TURNED_AWAY)
    return Causes(frozenset(sure), frozenset(perhaps - sure))


def turned_away(case: Case, figures: Figures) -> float:
    """Share of requests that a full room refuses in a closed loop: each client too many asks again after Retry-After, while
    the others are answered."""
    asked_per_s = (figures.setting - case.room) / Options().retry_after_s
    return asked_per_s / (asked_per_s + figures.per_s)


def probed_at(case: Case) -> int:
    """Behaviour probes run at the highest setting that its own load does not rule out."""
    fit = [f.setting for f in case.figures if of_load(case, f).may_be_safe]
    return max(fit, default=min(case.settings))


def stops(case: Case, in_flight: int) -> bool:
    """Whether a probe with so many in flight may say nothing: the host's own limits end it, or it is more than is let in."""
    near = [f for f in case.figures if f.setting <= min(in_flight, case.profile.active_sequences)]
    if in_flight > case.room:
        return True
    within = min((f for f in case.figures if f.setting >= in_flight), key=lambda f: f.setting, default=case.figures[-1])
    limits = case.limits
    return any(
        f.vram_share > 0.97 * limits.max_vram_share or f.temperature_c > limits.max_temperature_c - 3.0
        for f in (*near, within)
    )


def causes_of(case: Case, figures: Figures) -> Causes:
    """Of one setting, with what the behaviour probes find. Overload is the deployment's, whatever the setting; unfair is
    what happens with as many in flight as the fairness probe has, or more."""
    own = of_load(case, figures)
    sure, perhaps = set(own.sure), set(own.perhaps)
    if "overload" in case.probes and (case.queue_cap is None or case.error_share):
        (perhaps if stops(case, case.profile.active_sequences) else sure).add(OVERLOAD)
    probed = min(1 + LONG_CLIENTS, probed_at(case))
    if "fairness" in case.probes and case.slowdown is not None and figures.setting >= probed:
        limit = case.limits.terms.max_slowdown
        if case.slowdown.ratio > limit * (1 + NEAR_SLOWDOWN):
            (perhaps if stops(case, 1 + LONG_CLIENTS) or case.error_share else sure).add(FAIRNESS)
        elif case.slowdown.ratio > limit * (1 - NEAR_SLOWDOWN):
            perhaps.add(FAIRNESS)
    return Causes(frozenset(sure), frozenset(perhaps - sure))


def choices(case: Case) -> frozenset[int | None]:
    """Every setting that may be chosen; None is that no setting is safe."""
    each = [causes_of(case, figures) for figures in case.figures]
    branches = product(*[(True, False) if c.perhaps and not c.sure else (not c.sure,) for c in each])
    return frozenset(_lowest(case.figures, safe, knee) for safe in branches for knee in KNEES)


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
    return causes_of(case, case.figures[place])


def findings(case: Case, chosen: int | None) -> tuple[Words, ...]:
    """What each of the seven may be called, by the table of the design."""
    found = [frozenset[str]()] * 7
    found[LENGTHS] = _lengths(case)
    found[AVERAGE] = _average(case)
    found[UNBOUNDED] = _unbounded(case) | _unread(stops(case, case.profile.active_sequences))
    # Of short requests that fail alone there is nothing to compare with.
    found[BLOCKING] = _blocking(case) | _unread(stops(case, 1 + LONG_CLIENTS) or case.error_share > 0)
    found[MEMORY] = _memory(case) | (
        frozenset({WATCH}) if chosen is None and max(case.settings) > case.room else frozenset()
    )
    found[RETRIES] = _retries(case)
    # Where a guard ended every window for its errors there is no rate to be called success.
    found[TOKENS] = _tokens(case, chosen) | _unread(chosen is None and case.error_share > 0)
    return tuple(found)


def _unread(ended: bool) -> Words:
    return frozenset({NOT_TESTED} if ended else set())


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
    published = case.limits.terms.published
    if published and not published.startswith("p95"):
        return frozenset({FOUND})
    return frozenset({NOT_FOUND, WATCH})


def _unbounded(case: Case) -> Words:
    if "overload" not in case.probes:
        return frozenset({NOT_TESTED})
    broken = {WATCH} if case.error_share else set()  # more break than a clear refusal allows
    if case.queue_cap is None:
        return frozenset({FOUND} | broken)
    return frozenset(broken or {WATCH if case.reject is Reject.IN_STREAM else NOT_FOUND})


def _blocking(case: Case) -> Words:
    """By the ratio, and by the objective of the short class where only long ones take it beyond."""
    slow = case.slowdown
    if slow is None or "fairness" not in case.probes:
        return frozenset({NOT_TESTED})
    limit_s = case.limits.classes[slow.class_name].e2e_s or np.inf
    near = 1 + NEAR_SLOWDOWN
    if slow.beside_s > limit_s * near and slow.alone_s * near < limit_s:
        return frozenset({FOUND})
    bands = ((0.0, 1.3, NOT_FOUND), (1.3, 2.0, WATCH), (2.0, np.inf, FOUND))
    words = {word for low, high, word in bands if low / near < slow.ratio < high * near}
    if slow.beside_s * near > limit_s > slow.alone_s / near:
        words.add(FOUND)
    return frozenset(words)


def _memory(case: Case) -> Words:
    """Found wherever it is true of a setting that was measured."""
    causes = [of_load(case, f) for f in case.figures]
    known = case.geometry != "unknown"
    fit = case.profile.kv_tokens // longest_tokens(case.classes)
    over = known and any(min(f.setting, case.profile.active_sequences) > fit for f in case.figures)
    if over or any(KV in c.sure for c in causes):
        return frozenset({FOUND})
    word = {"known": NOT_FOUND, "wrong": WATCH, "unknown": NOT_TESTED}[case.geometry]
    return frozenset({word} | ({FOUND} if any(KV in c.perhaps for c in causes) else set()))


def _tokens(case: Case, chosen: int | None) -> Words:
    """Without a chosen setting, of the one that a race for tokens would choose."""
    if "tokens/s" in case.limits.terms.published:
        return frozenset({FOUND})
    fastest = max(f.per_s for f in case.figures)
    looked = [f for f in case.figures if f.setting == chosen or (chosen is None and f.per_s > (1 - NEAR) * fastest)]
    best = max(f.good_per_s for f in case.figures)
    words = set()
    for one in looked:
        late = one.good_per_s < 0.8 * one.per_s
        raced = one.per_s > (1 - NEAR) * fastest and one.good_per_s < 0.95 * best
        words.add(FOUND if late or raced else WATCH)
    return frozenset(words)


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
    """Prompt and answer, both at p99, of the longest class."""
    return max(
        round(lengths.quantile(c.prompt_tokens, 0.99) + lengths.quantile(c.output_tokens, 0.99)) for c in classes
    )


def prompt_quantile(classes: Sequence[ClassPlan], share: float) -> float:
    """Prompt tokens below which `share` of all requests lie, over the classes by their weights."""
    grid = (np.arange(2000) + 0.5) / 2000
    values = np.concatenate([[lengths.quantile(c.prompt_tokens, p) for p in grid] for c in classes])
    weights = np.concatenate([np.full(len(grid), c.weight) for c in classes])
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][np.searchsorted(reached, share)])
