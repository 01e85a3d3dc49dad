"""Identical short prompts while production varies: caches and schedulers look better than they will be."""

from __future__ import annotations

from msgspec.structs import replace

from benchmarks.engine.plan import ProductionMix
from capacity.assessment.cases.shared import blank, percent, tokens, untested
from capacity.assessment.facts import GridFacts, LengthFacts
from capacity.assessment.verdict import Finding, Found

KEY = "identical-prompts"
TITLE = "Identical short prompts"
NARROW, WIDE = 1.2, 2.0
MOST_REPEATED = 0.05
CACHE_MARGIN = 0.05
"""Every prompt of a chat begins with the same template, which a prefix cache serves though nobody declared it."""
REMEDY = (
    "Draw the workload from production's own lengths, in several classes, and give every prompt a beginning of its own."
)
NEXT = "Draw this grid again with a workload made from a trace or from the lengths that the objective declares."
DECLARE = (
    "State production's mix in the objective (p10, p90 and p95 of prompt tokens, or a trace), then draw the grid again."
)


def finding(facts: GridFacts) -> Finding:
    blank_one = blank(KEY, TITLE)
    seen, production = facts.lengths, facts.terms.production
    if seen is None:
        return untested(blank_one, "The lengths of the prompts are not known.", next_cell=NEXT)
    evidence = _evidence(seen, production)
    if _cached(seen):
        return replace(blank_one, found=Found.FOUND, evidence=evidence, remedy=REMEDY, next_cell=NEXT, blocks=True)
    if production is None:
        return untested(blank_one, *evidence, "No production mix is declared.", next_cell=DECLARE)
    if _same(seen) and _ratio(production.p10_tokens, production.p90_tokens) > WIDE:
        return replace(blank_one, found=Found.FOUND, evidence=evidence, remedy=REMEDY, next_cell=NEXT, blocks=True)
    watched = _watched(seen, production)
    if watched:
        return replace(blank_one, found=Found.WATCH, evidence=(*evidence, *watched), remedy=REMEDY, next_cell=NEXT)
    return replace(blank_one, found=Found.NOT_FOUND, evidence=evidence)


def _cached(seen: LengthFacts) -> bool:
    """Prefix-cache hits above what is declared, by more than a template explains."""
    return seen.cached_share is not None and seen.cached_share > (seen.declared_prefix_share or 0.0) + CACHE_MARGIN


def _same(seen: LengthFacts) -> bool:
    narrow = seen.p10_tokens is not None and seen.p90_tokens is not None
    return (narrow and _ratio(seen.p10_tokens or 0.0, seen.p90_tokens or 0.0) < NARROW) or (
        seen.repeated_share is not None and seen.repeated_share > MOST_REPEATED
    )


def _watched(seen: LengthFacts, production: ProductionMix) -> tuple[str, ...]:
    found = []
    if seen.classes == 1:
        found.append("There is one length class only.")
    if seen.p95_tokens is not None and seen.p95_tokens < production.p95_tokens:
        tested, real = tokens(seen.p95_tokens), tokens(production.p95_tokens)
        found.append(f"p95 of the tested prompts is {tested} tokens, under the {real} of production.")
    if seen.p10_tokens is None or seen.p90_tokens is None:
        found.append("How far the tested lengths spread is not known.")
    return tuple(found)


def _evidence(seen: LengthFacts, production: ProductionMix | None) -> tuple[str, ...]:
    found = []
    if seen.p10_tokens is not None and seen.p90_tokens is not None:
        spread = _ratio(seen.p10_tokens, seen.p90_tokens)
        many = "one class" if seen.classes == 1 else f"{seen.classes} classes"
        found.append(
            f"Prompts of {tokens(seen.p10_tokens)} (p10) to {tokens(seen.p90_tokens)} tokens (p90) in {many}: a ratio of "
            f"{spread:.2f}."
        )
    if production is not None:
        spread, source = _ratio(production.p10_tokens, production.p90_tokens), production.source
        low, high = tokens(production.p10_tokens), tokens(production.p90_tokens)
        found.append(f"Production{f' ({source})' if source else ''}: {low} to {high} tokens, a ratio of {spread:.2f}.")
    if seen.repeated_share is not None:
        found.append(
            "No prompt is repeated: each carries a marker of its own."
            if seen.repeated_share == 0
            else f"{percent(seen.repeated_share)} of the prompts are repeated."
        )
    if seen.cached_share is not None:
        declared = percent(seen.declared_prefix_share or 0.0)
        found.append(
            f"The runtime served {percent(seen.cached_share)} of prompt tokens from its prefix cache; {declared} is declared."
        )
    return tuple(found)


def _ratio(low: float, high: float) -> float:
    return high / low if low > 0 else float("inf")
