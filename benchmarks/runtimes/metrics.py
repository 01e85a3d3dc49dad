"""A runtime's own metrics under our names, with the alias that matched. Missing is said, and never zero."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from benchmarks.runtimes import json_page
from benchmarks.runtimes.facts import RuntimeFacts, all_facts, facts_of
from benchmarks.runtimes.prometheus import Sample, parse

NOT_REPORTED = "not reported"
NOT_FINITE = "reported, but not as a finite number"
NO_SHARE = "reported, but not as a share from 0 to 1"
NOT_JSON = "the page is not JSON that can be read"
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
    "prefix_hit_share",
    "queue_time_s_total",
    "queue_count_total",
    "rejected_total",
    "aborted_total",
    "loaded_bytes",
    "loaded_vram_bytes",
)
SHARES = frozenset({"kv_usage", "prefix_hit_share"})
_ALIAS = re.compile(r"([^{}@ ]+)(?:\{(\w+)=([^}]*)\})?(?:@(\w+))?")
_PAIR = re.compile(r"(.+) ([/*]) (.+)")
_FACTOR = re.compile(r"\d+(?:\.\d+)?")

LookUp = Callable[[str], list[float | None]]
"""Every number that an alias without an operator stands for; None where it is no finite number."""


class MetricReading(msgspec.Struct, frozen=True, kw_only=True):
    """`values` in the units of the names: counts, tokens, seconds, bytes, shares from 0 to 1. `missing`: why a value is
    not there. `stamped_ms`: when the runtime's own clock says it was taken, for those it said it of."""

    values: dict[str, float]
    matched: dict[str, str]
    missing: dict[str, str]
    warnings: tuple[str, ...]
    stamped_ms: dict[str, int] = {}


def aliases_of(kind: str, *, json: bool = False) -> dict[str, tuple[str, ...]]:
    """Canonical name -> aliases in order, of the text page or the JSON one. For `other`, those of every runtime."""

    def of(facts: RuntimeFacts) -> dict[str, tuple[str, ...]]:
        return facts.json_metrics if json else facts.metrics

    if kind in all_facts().runtimes and kind != "other":
        return of(facts_of(kind))
    merged: dict[str, tuple[str, ...]] = {}
    for facts in all_facts().runtimes.values():
        for name, aliases in of(facts).items():
            merged[name] = (*merged.get(name, ()), *(one for one in aliases if one not in merged.get(name, ())))
    return merged


def poll_every_s(kind: str) -> float:
    """No faster than this: what is known of how much reading the runtime bears."""
    return facts_of(kind).poll_every_s


def read_metrics(kind: str, text: str) -> MetricReading:
    """Of Prometheus text or JSON, whichever the page holds. Counters are summed over series (engines, models, reasons);
    shares take the largest."""
    if text.lstrip()[:1] in ("[", "{"):
        return _read_json(kind, text)
    exposition = parse(text)
    found = _matched(aliases_of(kind), lambda alias: _series_numbers(alias, exposition.samples))
    stamps = {name: _stamp(alias, exposition.samples) for name, alias in found.matched.items()}
    known = {name: stamp for name, stamp in stamps.items() if stamp is not None}
    return msgspec.structs.replace(found, warnings=exposition.warnings, stamped_ms=known)


def _read_json(kind: str, text: str) -> MetricReading:
    try:
        page = msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        return MetricReading(values={}, matched={}, missing=dict.fromkeys(CANONICAL, NOT_JSON), warnings=())
    return _matched(aliases_of(kind, json=True), lambda alias: json_page.numbers(page, alias))


def _matched(aliases: dict[str, tuple[str, ...]], look_up: LookUp) -> MetricReading:
    """The first alias of each name that gives a number."""
    values: dict[str, float] = {}
    matched: dict[str, str] = {}
    missing: dict[str, str] = {}
    for canonical in CANONICAL:
        missing[canonical] = NOT_REPORTED
        for alias in aliases.get(canonical, ()):
            found = _value(alias, look_up, share=canonical in SHARES)
            if isinstance(found, float):
                values[canonical], matched[canonical] = found, alias
                del missing[canonical]
                break
            missing[canonical] = found if found != NOT_REPORTED else missing[canonical]
    return MetricReading(values=values, matched=matched, missing=missing, warnings=())


def _value(alias: str, look_up: LookUp, *, share: bool) -> float | str:
    """The number, or why there is none."""
    pair = _PAIR.fullmatch(alias)
    found = _joined(pair, look_up) if pair else _together(look_up(alias), largest=share)
    return NO_SHARE if share and isinstance(found, float) and not 0 <= found <= 1 else found


def _joined(pair: re.Match[str], look_up: LookUp) -> float | str:
    first, operator, second = pair.groups()
    one = _together(look_up(first), largest=False)
    other = float(second) if _FACTOR.fullmatch(second) else _together(look_up(second), largest=False)
    if isinstance(one, str) or isinstance(other, str):
        return NOT_FINITE if NOT_FINITE in (one, other) else NOT_REPORTED
    if operator == "*":
        return one * other
    return one / other if other > 0 else NOT_FINITE


def _series_numbers(alias: str, samples: tuple[Sample, ...]) -> list[float | None]:
    series, value_label = _series(alias, samples)
    if not value_label:
        return [one.value for one in series]
    return [_label_number(one, value_label) for one in series if value_label in one.labels]


def _series(alias: str, samples: tuple[Sample, ...]) -> tuple[list[Sample], str | None]:
    match = _ALIAS.fullmatch(alias)
    if match is None:
        raise ValueError(f"facts.yaml holds an alias that cannot be read: {alias!r}")
    name, label, wanted, value_label = match.groups()
    return [s for s in samples if s.name == name and (label is None or s.labels.get(label) == wanted)], value_label


def _stamp(alias: str, samples: tuple[Sample, ...]) -> int | None:
    """The newest stamp among the series of the alias, or of its first half."""
    pair = _PAIR.fullmatch(alias)
    series, _ = _series(pair.group(1) if pair else alias, samples)
    return max((one.at_ms for one in series if one.at_ms is not None), default=None)


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
