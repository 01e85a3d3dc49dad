"""A runtime's own metrics under our names, with the alias that matched. Missing is said, and never zero."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from benchmarks.runtimes.facts import all_facts, facts_of
from benchmarks.runtimes.prometheus import Sample, parse

NOT_REPORTED = "not reported"
NOT_FINITE = "reported, but not as a finite number"
CANONICAL = (
    "running",
    "waiting",
    "kv_usage",
    "kv_capacity_tokens",
    "preemptions_total",
    "prompt_tokens_total",
    "generation_tokens_total",
    "prefix_hit_tokens_total",
    "prefix_query_tokens_total",
    "rejected_total",
    "aborted_total",
)
SHARES = frozenset({"kv_usage"})
_ALIAS = re.compile(r"([^{}@ ]+)(?:\{(\w+)=([^}]*)\})?(?:@(\w+))?")


class MetricReading(msgspec.Struct, frozen=True, kw_only=True):
    """`values` in the units of the names: counts, tokens, shares from 0 to 1. `missing`: why a value is not there."""

    values: dict[str, float]
    matched: dict[str, str]
    missing: dict[str, str]
    warnings: tuple[str, ...]


def aliases_of(kind: str) -> dict[str, tuple[str, ...]]:
    """Canonical name -> aliases in order. For `other`, those of every runtime."""
    if kind in all_facts().runtimes and kind != "other":
        return facts_of(kind).metrics
    merged: dict[str, tuple[str, ...]] = {}
    for facts in all_facts().runtimes.values():
        for name, aliases in facts.metrics.items():
            merged[name] = (*merged.get(name, ()), *(one for one in aliases if one not in merged.get(name, ())))
    return merged


def read_metrics(kind: str, text: str) -> MetricReading:
    """Counters are summed over series (engines, models, reasons); shares take the largest."""
    exposition = parse(text)
    aliases = aliases_of(kind)
    values: dict[str, float] = {}
    matched: dict[str, str] = {}
    missing: dict[str, str] = {}
    for canonical in CANONICAL:
        missing[canonical] = NOT_REPORTED
        for alias in aliases.get(canonical, ()):
            found = _value(alias, exposition.samples, largest=canonical in SHARES)
            if isinstance(found, float):
                values[canonical], matched[canonical] = found, alias
                del missing[canonical]
                break
            missing[canonical] = found if found != NOT_REPORTED else missing[canonical]
    return MetricReading(values=values, matched=matched, missing=missing, warnings=exposition.warnings)


def _value(alias: str, samples: tuple[Sample, ...], *, largest: bool) -> float | str:
    """The number, or why there is none."""
    if " / " in alias:
        above, below = (_value(part, samples, largest=False) for part in alias.split(" / "))
        if isinstance(above, str) or isinstance(below, str):
            return NOT_FINITE if NOT_FINITE in (above, below) else NOT_REPORTED
        return above / below if below > 0 else NOT_FINITE
    match = _ALIAS.fullmatch(alias)
    if match is None:
        raise ValueError(f"facts.yaml holds an alias that cannot be read: {alias!r}")
    name, label, wanted, value_label = match.groups()
    series = [one for one in samples if one.name == name and (label is None or one.labels.get(label) == wanted)]
    if value_label:
        series = [one for one in series if value_label in one.labels]
    numbers = [_label_number(one, value_label) if value_label else one.value for one in series]
    return _together(numbers, largest=largest)


def _together(numbers: Iterable[float | None], *, largest: bool) -> float | str:
    every = list(numbers)
    if not every:
        return NOT_REPORTED
    finite = [one for one in every if one is not None]
    if len(finite) < len(every):  # a sum with a hole is not a sum
        return NOT_FINITE
    return max(finite) if largest else sum(finite, 0.0)


def _label_number(sample: Sample, label: str) -> float | None:
    try:
        return float(int(sample.labels.get(label, "")))
    except ValueError:
        return None
