"""What lies outside the tested box of concurrency, lengths and rate: the answer is *not measured*, with an offer."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from benchmarks.stats.quantiles import needed_for_bound
from capacity.assessment import words
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Answer, Confirmation, Headroom, NotMeasured, SettingRow

ALPHA = 0.01
CONFIRM = "confirm"
"""The mode of an offer that is an open loop through a queue cap, drawn on the page of confirmations."""


def outside(
    facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow, room: Headroom, confirmed: Confirmation | None,
    above: Confirmation | None = None,
) -> tuple[NotMeasured, ...]:  # fmt: skip
    """Settings between and above those measured, lengths, and rates; each with the grid that would measure it. `above` is
    what an open loop said of the next safe setting up, None where there is none."""
    measured = [row.setting for row in rows if row.cells]
    return (
        *_between(measured, chosen.setting),
        _above(max(measured), chosen.setting),
        *_lengths(facts),
        _rate(room, confirmed),
        *_neighbour(rows, chosen, confirmed, above),
        *_p99(chosen, confirmed),
    )


def next_up(rows: Sequence[SettingRow], chosen: SettingRow) -> SettingRow | None:
    """The next setting above the chosen one that holds too: what fails in a closed loop needs no open one."""
    above = next((row for row in rows if row.setting > chosen.setting and row.cells), None)
    return above if above is not None and above.safe else None


def answer(rows: Sequence[SettingRow], setting: int) -> str:
    """What can be said of one setting: its own word, and of one that has no cell that it is not measured."""
    row = next((row for row in rows if row.setting == setting and row.cells), None)
    return (
        f"{words.flight(setting, start=True)}: not measured."
        if row is None
        else f"{words.flight(setting, start=True)}: {row.word}."
    )


def demand(facts: GridFacts, room: Headroom) -> str:
    """Whether the stated rate is enough for the office's busiest minute; empty where it is, and where nobody said."""
    wanted = facts.terms.demand_per_min
    if wanted is None or wanted <= room.stated_per_min:
        return ""
    return (
        f"The office needs {wanted:g} requests in its busiest minute, and {room.stated_per_min:,.1f} are stated: not enough. "
        "Add a second server, shorten the requests, or let part of them wait for a batch."
    )


def _between(measured: Sequence[int], chosen: int) -> list[NotMeasured]:
    lower = max((one for one in measured if one < chosen), default=None)
    upper = min((one for one in measured if one > chosen), default=None)
    found = []
    for low, high, why in (
        (lower, chosen, "a lower setting may do as much"),
        (chosen, upper, "the best may lie there"),
    ):
        if low is None or high is None or high - low < 2:
            continue
        middle = (low + high) // 2
        gap = str(middle) if high - low == 2 else f"{low + 1} to {high - 1}"
        found.append(
            NotMeasured(
                key=f"between {low} and {high}",
                sentence=f"{gap} in flight: not measured, and {why}.",
                offer=f"Measure {middle} beside {low} and {high}",
                settings=(low, middle, high),
            )
        )
    return found


def _above(highest: int, chosen: int) -> NotMeasured:
    above = NotMeasured(key="above", sentence=f"More than {highest} in flight: not measured.")
    if highest > chosen:
        return above
    return NotMeasured(
        key="above",
        sentence=f"More than {highest} in flight: not measured, and nothing shows that {highest} is the best.",
        offer=f"Measure {highest} and {2 * highest}",
        settings=(highest, 2 * highest),
    )


def _lengths(facts: GridFacts) -> list[NotMeasured]:
    found, lengths, production = [], facts.lengths, facts.terms.production
    if lengths is not None and lengths.longest_tokens is not None:
        p95 = "" if lengths.p95_tokens is None else f"; 95 of 100 have at most {lengths.p95_tokens:,.0f}"
        sentence = f"Prompts above {lengths.longest_tokens:,.0f} tokens: not measured{p95}."
        found.append(NotMeasured(key="prompts", sentence=sentence))
    if lengths is not None and lengths.longest_output_tokens is not None:
        sentence = f"Answers above {lengths.longest_output_tokens:,.0f} tokens: not measured."
        found.append(NotMeasured(key="answers", sentence=sentence))
    tested = lengths.p95_tokens if lengths is not None else None
    if production is not None and tested is not None and production.p95_tokens > tested:
        sentence = (
            f"Production's prompts reach {production.p95_tokens:,.0f} tokens at p95, those of this grid {tested:,.0f}: "
            "what lies between is not measured."
        )
        found.append(
            NotMeasured(
                key="production", sentence=sentence, offer="Draw a grid with a workload as long as production's"
            )
        )
    return found


def _neighbour(
    rows: Sequence[SettingRow], chosen: SettingRow, confirmed: Confirmation | None, above: Confirmation | None
) -> list[NotMeasured]:
    """Beside the finalist its neighbour is confirmed, once there is a finalist."""
    row = next_up(rows, chosen)
    if row is None or confirmed is None or confirmed.answer != Answer.HOLDS:
        return []
    if above is not None and above.answer in (Answer.HOLDS, Answer.FAILS):
        return []
    sentence = (
        f"{words.flight(row.setting, start=True)}, the next setting up, in an open loop: not measured. It holds in a closed loop "
        "and adds too little there; what its users would feel nobody knows."
    )
    return [
        NotMeasured(
            key="neighbour", sentence=sentence, offer=f"Draw the confirmation of {row.setting}", settings=(row.setting,),
            mode=CONFIRM,
        )
    ]  # fmt: skip


def _p99(chosen: SettingRow, confirmed: Confirmation | None) -> list[NotMeasured]:
    """What is confirmed at the objective's percentile is not yet proved at p99."""
    if confirmed is None or confirmed.answer != Answer.HOLDS:
        return []
    needed = needed_for_bound(0.99, 0, ALPHA)
    few = [one for one in confirmed.claims if one.percentile < 99 and (one.n_effective or one.n) < needed]
    if not few:
        return []
    worst = min(few, key=lambda one: one.n_effective or one.n)
    sentence = (
        f"p99 of {worst.class_name} ({worst.limit_name}) in the open loop: not proved. Its requests are worth "
        f"{worst.n_effective or worst.n:,} independent ones, and a p99 takes {needed} without a miss."
    )
    offer = f"Draw a longer confirmation of {chosen.setting}"
    return [NotMeasured(key="p99", sentence=sentence, offer=offer, settings=(chosen.setting,), mode=CONFIRM)]


def _rate(room: Headroom, confirmed: Confirmation | None) -> NotMeasured:
    if confirmed is not None and confirmed.answer == Answer.HOLDS and confirmed.rate_per_min is not None:
        rate = confirmed.rate_per_min
        return NotMeasured(
            key="rate", sentence=f"More than {rate:,.1f} arrivals a minute: not measured.", mode="open",
            offer="Measure a higher rate in an open loop", settings=(max(1, floor(rate * 1.25)),),
        )  # fmt: skip
    stated = room.stated_per_min
    return NotMeasured(
        key="rate",
        sentence="Requests that arrive at their own times, at any rate: not measured. These cells kept a number in flight.",
        offer=f"Measure {floor(stated)} a minute in an open loop",
        settings=(max(1, floor(stated)),),
        mode="open",
    )
