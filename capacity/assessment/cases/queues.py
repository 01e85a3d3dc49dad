"""An unbounded queue that hides rejection: nobody is refused, so overload shows as waiting that only grows."""

from __future__ import annotations

from msgspec.structs import replace

from benchmarks.engine.verdicts import ProbeVerdict
from capacity.assessment.cases.shared import at, blank, judged, n_of, percent, touches, untested, value, why_unjudged
from capacity.assessment.facts import WAITING, GridFacts, ProbeFact
from capacity.assessment.verdict import Finding, Found, SettingRow

KEY = "unbounded-queue"
TITLE = "Unbounded queue hides rejection"
TIMES = 1.5
"""So many times the confirmed rate the overload must be for its silence to say something."""
REMEDY = (
    "Put a gateway with a bounded queue in front, with 429 or 503 and Retry-After beyond it, then run the overload probe "
    "through the gateway."
)
ANSWER = "Have the gateway refuse at once, with 429 or 503 and Retry-After."
NEXT = "Run the overload probe at the recommended setting, through what stands in front of the runtime."

Seen = tuple[Found, str]


def finding(facts: GridFacts, chosen: SettingRow | None) -> Finding:
    found = blank(KEY, TITLE)
    over = _over_cap(facts)
    probes = judged(facts, "overload")
    answers = [(one, _answer(facts, verdict, chosen)) for one, verdict in probes]
    told = {one.cell_id: f"At {at(one.setting)}: {words}" for one, (_, words) in answers}
    bad = [one for one, (said, _) in answers if said == Found.FOUND]
    if bad or over:
        settings = tuple(sorted({one.setting for one in bad}))
        blocks = bool(over) or touches(settings, [one.setting for one, _ in probes], chosen)
        return replace(
            found, found=Found.FOUND, evidence=(*over, *(told[one.cell_id] for one in bad), *_known(facts)), remedy=REMEDY,
            next_cell=NEXT, cells=_ids(bad), settings=settings, blocks=blocks,
        )  # fmt: skip
    tested = [one for one, (said, _) in answers if said != Found.NOT_TESTED]
    if not tested:
        why = tuple(told.values()) or why_unjudged(facts, "overload", "No overload probe ran.")
        return untested(found, *why, *_known(facts), next_cell=NEXT)
    watched = [one for one, (said, _) in answers if said == Found.WATCH]
    shown = watched or tested
    return replace(
        found,
        found=Found.WATCH if watched else Found.NOT_FOUND,
        evidence=tuple(told[one.cell_id] for one in shown),
        remedy=ANSWER if watched else "",
        next_cell=NEXT if watched else "",
        cells=_ids(shown),
        settings=tuple(sorted({one.setting for one in watched})),
    )


def _answer(facts: GridFacts, verdict: ProbeVerdict, chosen: SettingRow | None) -> Seen:
    """What one overload probe says, by its word and its figures."""
    refused, slope = value(verdict, "refused") or 0.0, value(verdict, "wait_growth_at_least")
    n = n_of(verdict, "offered")
    if verdict.verdict == "queues_without_bound" or (refused == 0 and slope is not None and slope > 0):
        grew = "" if slope is None else f", and waiting grew by at least {slope:.2f} s each second"
        return Found.FOUND, f"beyond capacity nothing was refused{n}{grew}."
    if verdict.verdict == "fails":
        broke = value(verdict, "failed")
        return Found.WATCH, f"beyond capacity {percent(broke or 0.0)} of requests broke instead of being refused{n}."
    if refused > 0:
        return _refused(facts, verdict, refused, n)
    offered, rate = value(verdict, "offered"), _stated_per_s(facts, chosen)
    if offered is None or rate is None or offered < TIMES * rate:
        return Found.NOT_TESTED, f"the load was not beyond capacity{n}, so nothing had to be refused."
    return Found.NOT_FOUND, f"at {offered / rate:,.1f} times the rate to be stated no wait grew{n}."


def _refused(facts: GridFacts, verdict: ProbeVerdict, refused: float, n: str) -> Seen:
    late_s, told, limit_s = (
        value(verdict, "time_to_reject_p95"),
        value(verdict, "with_retry_after"),
        facts.terms.max_refuse_s,
    )
    words = f"beyond capacity {percent(refused)} were refused{n}"
    late = late_s is None or not late_s <= limit_s or verdict.verdict == "refused_late"
    words += (
        f", p95 after {late_s:.2f} s (limit {limit_s:g} s)"
        if late_s is not None
        else ", after a time that is not known"
    )
    silent = verdict.verdict == "refused_without_retry_after" or told is None or told < 1
    if silent:
        words += f"; {percent(told or 0.0)} of the refusals said when to come back"
    return (Found.WATCH if late or silent else Found.NOT_FOUND), f"{words}."


def _over_cap(facts: GridFacts) -> list[str]:
    """Confirming cells in which more waited than their queue cap allows."""
    found = []
    for one in facts.confirmations:
        gauge = one.summary.gauge(WAITING) if one.summary is not None else None
        if gauge is not None and one.queue_cap is not None and not one.differs and gauge.peak > one.queue_cap:
            found.append(
                f"In the open loop at {at(one.setting)} up to {gauge.peak:.0f} requests waited, over the cap of {one.queue_cap} "
                f"(n = {gauge.n} readings)."
            )
    return found


def _stated_per_s(facts: GridFacts, chosen: SettingRow | None) -> float | None:
    """The confirmed rate where there is one, else what was measured of the chosen setting: never less than is stated."""
    if chosen is None:
        return None
    confirmed = [one.rate_per_min for one in facts.confirmations if one.setting == chosen.setting and one.summary]
    rate = max(confirmed, default=chosen.good.value)
    return rate / 60 if rate else None


def _known(facts: GridFacts) -> tuple[str, ...]:
    """What is known of the runtime itself."""
    return (facts.queue_sentence,) if facts.queue_bounded is False and facts.queue_sentence else ()


def _ids(probes: list[ProbeFact]) -> tuple[int, ...]:
    return tuple(one.cell_id for one in probes)
