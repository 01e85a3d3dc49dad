"""What short requests lose beside long ones at one setting: their p95 in the mix against their p95 alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

import msgspec

from benchmarks.engine.summary_types import ClassSummary
from benchmarks.stats.estimates import Interval
from benchmarks.stats.ratios import paired_ratio
from capacity.assessment.facts import MEASURED, MIXED, CellFact, GridFacts


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """`ratio` is p95 in the mix over p95 alone, of the class with the fewest tokens; infinite where requests in the mix
    failed so often that they have no p95. `n` counts its requests in the mix."""

    class_name: str
    ratio: Interval
    n: int
    cells: tuple[int, ...]


def delay(facts: GridFacts, setting: int) -> Delay | None:
    """None where the mix or the short class alone was not measured at this setting, and with one class."""
    cells = [c for c in facts.at(setting) if c.status == MEASURED and c.summary is not None]
    mixed = {c.repeat: c for c in cells if c.class_name == MIXED}
    name = _short(list(mixed.values()))
    alone = {c.repeat: c for c in cells if c.class_name == name}
    both = sorted(mixed.keys() & alone.keys())
    if name is None or not both:
        return None
    pairs = [(_part(mixed[r], name), _part(alone[r], name)) for r in both]
    found = [(mix, lone) for mix, lone in pairs if mix is not None and lone is not None]
    ratio = _ratio(found)
    if ratio.value is None:
        return None
    return Delay(
        class_name=name,
        ratio=ratio,
        n=sum(mix.scheduled for mix, _ in found),
        cells=tuple(one[r].cell_id for r in both for one in (mixed, alone)),
    )


def _short(mixed: Sequence[CellFact]) -> str | None:
    """The class with the fewest tokens of the mix, by time where tokens tell nothing; None with one class."""
    parts = [part for cell in mixed[:1] if cell.summary for part in cell.summary.classes]
    if len(parts) < 2:
        return None
    return min(parts, key=lambda part: (_tokens(part), part.e2e_s.p50.value or inf)).class_name


def _tokens(part: ClassSummary) -> float:
    return (part.intended_prompt_tokens_p50 or 0.0) + (part.asked_output_tokens_p50 or 0.0)


def _part(cell: CellFact, name: str) -> ClassSummary | None:
    return next((part for part in cell.summary.classes if part.class_name == name), None) if cell.summary else None


def _ratio(pairs: Sequence[tuple[ClassSummary, ClassSummary]]) -> Interval:
    """Over the repeats where there are several, else by the order statistics of both p95: the widest that they allow."""
    known = [(mix.e2e_s.p95, alone.e2e_s.p95) for mix, alone in pairs]
    known = [(mix, alone) for mix, alone in known if mix.value is not None and alone.value and isfinite(alone.value)]
    if any(mix.value == inf for mix, _ in known):
        return Interval(value=inf, lower=None, upper=inf, n=len(known))
    if len(known) != 1:
        return paired_ratio([mix.value or 0.0 for mix, _ in known], [alone.value or 0.0 for _, alone in known])
    ((mix, alone),) = known
    lower = None if mix.lower is None or not alone.upper else mix.lower / alone.upper
    upper = None if mix.upper is None or not alone.lower else mix.upper / alone.lower
    return Interval(value=(mix.value or 0.0) / (alone.value or inf), lower=lower, upper=upper, n=1)
