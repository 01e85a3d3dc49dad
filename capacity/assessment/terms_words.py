"""The terms of an objective in words: what it asks beyond latency, success and the host's safety."""

from __future__ import annotations

import msgspec

from benchmarks.engine.plan import BatchTerms, ObjectiveTerms, ProductionMix, RetryPolicy
from benchmarks.stats.per_cent import per_cent
from capacity.assessment import clock

NOT_DECLARED = "not declared"
POWER_WORDS = {
    "grid": "mains",
    "generator": "a generator",
    "ups": "a UPS",
    "solar": "solar power",
    "battery": "a battery",
}


class TermLine(msgspec.Struct, frozen=True, kw_only=True):
    """One term. `declared` is false where somebody has still to say it; `key` is its field of ObjectiveTerms."""

    key: str
    title: str
    words: str
    declared: bool = True


def lines(terms: ObjectiveTerms) -> tuple[TermLine, ...]:
    """Every term, stated or not, in the order of the form."""
    return (
        _line("max_slowdown", "Short beside long", f"p95 at most {terms.max_slowdown:g} times what it is alone"),
        _line("max_free_s", "Slot freed in", f"{terms.max_free_s:g} s after a request is cancelled"),
        _line("max_refuse_s", "Refused in", f"{terms.max_refuse_s:g} s, where there is no room"),
        _line("max_recover_s", "Recovered in", f"{terms.max_recover_s:g} s after an overload"),
        _line("demand_per_min", "Demand", _demand(terms.demand_per_min), terms.demand_per_min is not None),
        _line("production", "What production sends", production(terms.production), terms.production is not None),
        _line("tenants", "Tenants", tenants(terms.tenants)),
        _line("retry", "Retries of clients", retry(terms.retry), terms.retry is not None),
        _line("batch", "Overnight batch", batch(terms.batch), terms.batch is not None),
        _line("published", "What is told today", f"“{terms.published}”" if terms.published else "nothing", bool(terms.published)),
    )  # fmt: skip


def told(terms: ObjectiveTerms) -> dict[str, str]:
    """For an event: what it was and what it is, every value in it."""
    return {line.title: line.words for line in lines(terms)}


def retry(policy: RetryPolicy | None) -> str:
    if policy is None:
        return NOT_DECLARED
    if policy.kind == "none":
        return "a refused request is not tried again"
    often = f"{policy.tries} tries in all"
    budget = "without a budget"
    if policy.budget_share is not None:
        budget = f"at most {per_cent(policy.budget_share, 1)} of the requests may be tried again"
    heard = "honours Retry-After" if policy.honours_retry_after else "ignores Retry-After"
    if policy.kind == "immediate":
        return f"at once, {often}; {heard}; {budget}"
    jitter = "with full jitter" if policy.jitter else "without jitter"
    return f"exponential backoff from {policy.base_s:g} s to {policy.most_s:g} s, {jitter}, {often}; {heard}; {budget}"


def production(mix: ProductionMix | None) -> str:
    if mix is None:
        return NOT_DECLARED
    lengths = (
        f"prompts of {mix.p10_tokens:,.0f} / {mix.p90_tokens:,.0f} / {mix.p95_tokens:,.0f} tokens (p10 / p90 / p95)"
    )
    repeated, alike = per_cent(mix.repeated_share, 1), per_cent(mix.shared_prefix_share, 1)
    shares = f"{repeated} of prompts repeated, {alike} of a prompt begins alike"
    return f"{lengths}; {shares}{f'; from {mix.source}' if mix.source else ''}"


def tenants(count: int) -> str:
    if count == 1:
        return "1, so nobody is kept apart from anybody"
    return f"{count}: access without credentials must be refused, and the quota of each must hold"


def batch(terms: BatchTerms | None) -> str:
    if terms is None:
        return NOT_DECLARED
    power = POWER_WORDS.get(terms.power_expected, terms.power_expected)
    outage = f", without power for at most {clock.span_words(terms.outage_s)}" if terms.outage_s else ""
    return (
        f"{terms.items:,} items from {terms.window_start} to {terms.window_end}, {clock.days_words(terms.days)}, done by "
        f"{terms.latest_finish} ({clock.span_words(clock.allowed_s(terms))} after the start), on {power}{outage}"
    )


def _demand(per_min: float | None) -> str:
    return NOT_DECLARED if per_min is None else f"{per_min:,g} requests a minute in the busiest minute"


def _line(key: str, title: str, words: str, declared: bool = True) -> TermLine:
    return TermLine(key=key, title=title, words=words, declared=declared)
