"""What may be stated of a measured rate: min(measured x product of (1 - reserve), lower bound)."""

from __future__ import annotations

from statistics import fmean, stdev

from msgspec.structs import replace

from benchmarks.stats.per_cent import per_cent
from capacity.assessment import words
from capacity.assessment.facts import GridFacts
from capacity.assessment.knee import by_repeat
from capacity.assessment.verdict import (
    Answer,
    Confirmation,
    Headroom,
    QueueCap,
    Reserve,
    SettingRow,
)


def headroom(facts: GridFacts, chosen: SettingRow) -> Headroom:
    """Raises ValueError when nothing was measured."""
    if chosen.good.value is None:
        raise ValueError("no rate was measured at this setting")
    reserves = (
        Reserve(name="growth", share=facts.limits.reserve_growth),
        variance(facts, chosen),
        loss(facts),
    )
    after = chosen.good.value
    for reserve in reserves:
        after *= 1 - reserve.share
    lower = chosen.good.lower
    stated = after if lower is None else min(after, lower)
    return Headroom(
        measured_per_min=chosen.good.value,
        after_reserves_per_min=after,
        lower_bound_per_min=lower,
        stated_per_min=stated,
        reserves=reserves,
        words=words.headroom(chosen.good.value, after, lower, stated, reserves=reserves),
    )


def as_confirmed(room: Headroom, confirmed: Confirmation | None, cap: QueueCap | None) -> Headroom:
    """Never more than the rate that an open loop confirmed: what users feel at more was not measured. Before one did, never
    more than the queue is worked out for."""
    if confirmed is not None and confirmed.answer == Answer.HOLDS and confirmed.rate_per_min is not None:
        rate, whence, by = confirmed.rate_per_min, "The rate confirmed in the open loop", "Stated, as confirmed"
        why = f"Confirmed in an open loop are {rate:,.1f} a minute"
    elif cap is not None and cap.cap is not None:
        rate, by = cap.arrivals_per_min, "Stated, by its queue"
        whence = "The rate that the queue cap is worked out for, less than headroom leaves"
        why = f"Its queue holds {rate:,.1f} a minute"
    else:
        return room
    if rate >= room.stated_per_min:
        return room
    return replace(
        room, stated_per_min=rate, words=f"{room.words} {why}, so no more is stated.", whence=whence, decided_by=by
    )


def variance(facts: GridFacts, chosen: SettingRow) -> Reserve:
    """Declared, or the coefficient of variation over the repeats where that is more."""
    declared = facts.limits.reserve_variance
    measured = list(by_repeat(facts, chosen.setting).values())
    if len(measured) < 2 or fmean(measured) <= 0:
        return Reserve(name="variance", share=declared)
    cv = min(stdev(measured) / fmean(measured), 1.0)
    if cv <= declared:
        return Reserve(name="variance", share=declared)
    return Reserve(
        name="variance", share=cv, source=f"measured over {len(measured)} repeats, {per_cent(declared)} declared"
    )


def loss(facts: GridFacts) -> Reserve:
    """Where the objective asks for a spare: never less than one card of those that serve. One card has no spare, which
    no reserve can mend."""
    asked, cards = facts.limits.reserve_loss, facts.gpu_count or 0
    if asked <= 0 or cards < 2 or asked >= 1 / cards:
        return Reserve(name="loss of a card", share=asked)
    return Reserve(name="loss of a card", share=1 / cards, source=f"one of {cards} cards, {per_cent(asked)} declared")
