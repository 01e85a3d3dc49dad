"""Sentences about the finalist's open loop."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from benchmarks.stats.estimates import Interval, Share
from capacity.assessment.facts import ConfirmFact
from capacity.assessment.latency import seconds
from capacity.assessment.queue_words import percent, waiting
from capacity.assessment.verdict import Answer, CapRow, Claim, Confirmation, Headroom, QueueCap

NOTHING = (
    "Not confirmed: no open loop ran. These cells kept a fixed number in flight, so no queue formed, and their tails are "
    "not what users feel."
)
INVALID = "The open loop ran, but nothing can be concluded from it."
AGAIN = "Then draw the confirmation again."
LOWER = "Draw the confirmation at a lower rate, or with another queue cap."
COUNTS = "A refused request counts as no success and as late."


def to_draw(setting: int, room: Headroom, cap: QueueCap | None) -> str:
    """The next cell to run."""
    rate = floor(cap.arrivals_per_min if cap else room.stated_per_min)
    if rate < 1:
        return "The stated rate is under one request a minute, which is too slow to confirm: measure shorter requests."
    through = (
        f"through a queue in which {waiting(cap.cap)}" if cap and cap.cap is not None else "through a bounded queue"
    )
    return f"Draw the confirmation: an open loop of the mix at {_rate(rate)}, {setting} served at once, {through}."


def foretold(row: CapRow) -> str:
    """What the chain says of one cap before it is tried."""
    refused, wait = row.refused, row.waiting_p95_s
    text = f"{percent(refused.value)} refused ({percent(refused.lower)} to {percent(refused.upper)})"
    if row.cap == 0:
        return f"{text}, and nobody waits"
    ends = f"{seconds(wait.lower or 0.0)} to {seconds(wait.upper or 0.0)}"
    return f"{text}, and 95 % of the others waiting at most {seconds(wait.value or 0.0)} ({ends})"


def to_run(grid_id: int) -> str:
    return f"Have grid {grid_id} authorised and run to its end."


def not_run(drawn: ConfirmFact) -> str:
    why = f": {drawn.reason.rstrip('.')}" if drawn.reason else ""
    return f"Not confirmed yet: grid {drawn.grid_id} is drawn for {_rate(drawn.rate_per_min)} and has not run{why}."


def unfinished(drawn: ConfirmFact, measured: int, of: int) -> str:
    return f"Not confirmed yet: {measured} of {of} cells of grid {drawn.grid_id} have run."


def differs(drawn: ConfirmFact) -> str:
    return (
        f"Not confirmed: grid {drawn.grid_id} was drawn for this setting, but is not like this grid in "
        f"{', '.join(drawn.differs)}."
    )


def in_front(setting: int, cap: int | None) -> str:
    """What must be in force for the confirmation to be one."""
    allowed = "a bounded queue" if cap is None else f"a queue in which {waiting(cap)}"
    return f"Put {setting} at once and {allowed} in force, in the runtime or in a gateway before it."


def in_force(refused: Share | None, probed: Sequence[int]) -> str:
    """By what the queue cap was seen to be in force; empty where by nothing."""
    if refused is not None and refused.hits:
        return f"{refused.hits} of {refused.n} requests of the open loop were refused by it."
    return "An overload probe of the same runtime was answered with refusals." if probed else ""


def holds(found: Confirmation) -> str:
    sure = "every limit holds with 99 % confidence"
    return f"Confirmed in an open loop at {_rate(found.rate_per_min)}{_through(found)}: {sure}."


def fails(found: Confirmation) -> str:
    return f"The open loop at {_rate(found.rate_per_min)}{_through(found)} does not hold."


def indicative(found: Confirmation, needs: int) -> str:
    more = f", needs {needs} more requests of the class that lacks most" if needs else ""
    where = f"The open loop at {_rate(found.rate_per_min)}{_through(found)}"
    return f"{where} stays inside every limit, but does not prove it: indicative{more}."


def longer(claims: Sequence[Claim]) -> str:
    needs = max((one.needs for one in claims), default=0)
    if not needs:
        return "Draw the confirmation again with more repeats, or at a lower rate: its repeats differ too much for a proof."
    name = next(one.class_name for one in claims if one.needs == needs)
    return f"Draw the confirmation again with a longer window or more repeats: {needs} more requests of {name} would settle it."


def to_lower(rate: float, setting: int, cap: int, why: str) -> str:
    """The next cell after an open loop that did not hold."""
    through = f"through a queue in which {waiting(cap)}"
    return f"Draw the confirmation at {_rate(rate)}, {setting} served at once, {through}. {why}"


def lower(rate_per_min: float, times: float, best: float) -> str:
    many = "As many" if times < 1.05 else f"{times:,.1f} times as many"
    seen = f"{many} were late or refused at {_rate(rate_per_min)} as foretold"
    return f"{seen}; if that stays so, {best:g} a minute is the highest rate that leaves a proof."


def held_there(rate_per_min: float) -> str:
    return f"An earlier open loop held at {_rate(rate_per_min)}."


def longer_queue(confirmed: int, proposed: int) -> str:
    return (
        f"It was confirmed with a queue in which {waiting(confirmed)}, and {proposed} is the most that stays inside the objective"
        ": when more arrive than the confirmed rate, everybody waits longer than that."
    )


def claim(one: Claim) -> str:
    """One limit as seen and what it lacks."""
    what = f"p{one.percentile:g} of {one.class_name} ({one.limit_name})"
    n = f"n = {one.n}" + (f", worth {one.n_effective}" if one.n_effective not in (None, one.n) else "")
    if not one.n:
        return f"No request of {one.class_name} was met{_lacks(one)}."
    if one.value_s is None:
        missed = f"{one.misses} of {one.n} requests of {one.class_name} were not inside their limits"
        return (
            f"{missed}." if one.answer == Answer.FAILS else f"{missed}, too few for p{one.percentile:g}{_lacks(one)}."
        )
    value = "falls among refused or failed requests" if one.value_s == float("inf") else f"is {seconds(one.value_s)}"
    if one.answer == Answer.FAILS:
        return f"{what} {value}, over the limit of {seconds(one.limit_s)} ({n})."
    bound = "it has no upper bound yet" if one.bound_s is None else f"its upper bound is {seconds(one.bound_s)}"
    return f"{what} {value}, limit {seconds(one.limit_s)} ({n}); {bound}{_lacks(one)}."


def _lacks(one: Claim) -> str:
    if one.answer == Answer.HOLDS:
        return ""
    return f", needs {one.needs} more" if one.needs else ", by the spread of its repeats"


def figures(found: Confirmation) -> str:
    """Refusals beside those foretold, and success among the accepted."""
    said = []
    if found.refused is not None and found.refused.n:
        said.append(
            f"Refused: {_share(found.refused)}{_foretold(found.predicted.refused if found.predicted else None)}."
        )
    if found.accepted is not None and found.accepted.n:
        said.append(f"Of those accepted {_share(found.accepted)} succeeded.")
    if found.waiting_mean_s is not None:
        said.append(f"The runtime's own queue held a request for {seconds(found.waiting_mean_s)} on average.")
    return " ".join([*said, COUNTS])


def _share(one: Share) -> str:
    interval = f", {percent(one.lower)} to {percent(one.upper)}" if one.lower is not None else ""
    return f"{percent(one.value)} ({one.hits} of {one.n}{interval})"


def _foretold(told: Interval | None) -> str:
    if told is None:
        return ""
    return f"; foretold {percent(told.value)} ({percent(told.lower)} to {percent(told.upper)})"


def _rate(rate_per_min: float | None) -> str:
    return "1 request a minute" if rate_per_min == 1 else f"{rate_per_min or 0.0:g} requests a minute"


def _through(found: Confirmation) -> str:
    return "" if found.queue_cap is None else f" through a queue in which {waiting(found.queue_cap)}"
