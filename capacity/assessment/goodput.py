"""Goodput as task items a second and per kWh: the same successful requests that a rate a minute counts.

Energy is that of the GPUs alone, read by the driver: mean power of the window (from the energy counter where there is one,
else sampled) times its length. Host, fans and what the power supply loses are not in it, so it says nothing of a bill.
A window in which one of the cards could not say its power has no energy: part of it would look like thrift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.engine.summary_telemetry import POWER
from benchmarks.engine.summary_types import CellSummary
from benchmarks.stats.estimates import Interval
from capacity.assessment import rates
from capacity.assessment.facts import MIXED, CellFact
from capacity.assessment.verdict import Rate

J_PER_KWH = 3.6e6
GPU_ONLY = "GPU power only"


def items_per_s(good: Rate, n: int) -> Interval:
    """The rate a minute, a second; an item is a request."""
    minute = rates.PER_MINUTE
    value, lower, upper = (None if v is None else v / minute for v in (good.value, good.lower, good.upper))
    return Interval(value=value, lower=lower, upper=upper, n=n if value is not None else 0)


def good_per_kwh(cells: Sequence[CellFact], class_names: Sequence[str], weights: Mapping[str, float]) -> Interval:
    """Successful requests of the mix for each kWh of the GPUs at one setting.

    One request of a mix takes sum(w_c / x_c) kWh, so the classes are combined as their rates are: 1 / sum(w_c / x_c). The
    interval is that of the rate, relative to it, or the spread of the repeats' own figures by Student's t: the wider.
    """
    if MIXED in class_names:
        return _per_kwh(rates.summaries(cells, MIXED))
    parts = {name: _per_kwh(rates.summaries(cells, name)) for name in class_names}
    value, lower, upper = (
        rates.harmonic({name: getattr(part, end) for name, part in parts.items()}, weights)
        for end in ("value", "lower", "upper")
    )
    known = value is not None
    return Interval(
        value=value, lower=lower, upper=upper, n=sum(part.n for part in parts.values()) if known else 0,
        how=GPU_ONLY if known else "",
    )  # fmt: skip


def energy_kwh(summary: CellSummary) -> float | None:
    """Of all GPUs over the window; None where not every one of them told its power."""
    found = next((total for total in summary.gpu_totals if total.name == POWER), None)
    if found is None or found.known < found.of or found.value <= 0 or summary.window_s <= 0:
        return None
    return found.value * summary.window_s / J_PER_KWH


def _per_kwh(found: Sequence[CellSummary]) -> Interval:
    """One kind of cell over its repeats; nothing where one of them has no energy."""
    opened = [s for s in found if s.good_per_s is not None]
    energies = [energy_kwh(summary) for summary in opened]
    known = [kwh for kwh in energies if kwh is not None]
    rate = rates.good_rate(opened)
    if not known or len(known) < len(energies) or rate.value is None:
        return Interval()
    # What a request a minute comes to for each kWh, over all windows together.
    factor = sum(s.window_s for s in opened) / rates.PER_MINUTE / sum(known)
    value, lower, upper = (factor * (end or 0.0) for end in (rate.value, rate.lower, rate.upper))
    spread = rates.spread_of([(s.good_per_s or 0.0) * s.window_s / kwh for s, kwh in zip(opened, known, strict=True)])
    if spread is not None:
        lower, upper = min(lower, value - spread), max(upper, value + spread)
    return Interval(value=value, lower=max(lower, 0.0), upper=upper, n=_n(opened), how=GPU_ONLY)


def _n(found: Sequence[CellSummary]) -> int:
    return sum(part.good.n for summary in found for part in summary.classes)
