"""The judge's sentences, written once. Pages, proposals and statements print them and add none of their own."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from msgspec.structs import replace

from capacity.assessment.verdict import Answer, ClassRow, Gate, Headroom, Kind, Reserve, SettingRow, Stage

NOT_TESTED = (
    "Overload: what happens beyond the recommended rate, and whether excess requests are refused clearly.",
    "Cancellation: whether a request that is given up frees its place in time.",
    "Fairness: how much one long request delays short ones beside it.",
    "Retries: what clients that try again do to the server under overload.",
    "Open-loop confirmation: tails at the stated rate when requests arrive at their own times. These cells kept a "
    "fixed number in flight, so their tails are not what users feel when a queue forms.",
    "Recovery: how soon latency and memory return to normal after overload or a restart.",
)
NOT_TESTED_IN_ANY_LOOP = tuple(sentence for sentence in NOT_TESTED if not sentence.startswith("Open-loop"))
"""For grids that are no closed loop."""
GATEWAY = "Put a gateway with a bounded queue in front."
IN_FRONT = (
    "For example HAProxy: maxconn at the recommended number, a short queue timeout, and 503 or 429 with Retry-After "
    "beyond it."
)


INVALID = ("client", "conservation", "window")
"""Gates that say nothing of the server where they fail: nothing can be concluded from such windows."""


def refutes(gates: Sequence[Gate]) -> bool:
    """Whether what fails is the server's failure. From invalid windows nothing is concluded, a failure neither; what the
    probes found of the deployment stands by itself, and so does a guard's stop unless the client was the bottleneck."""
    failing = {gate.key: gate for gate in gates if gate.answer == Answer.FAILS}
    if any(gate.stage == Stage.GRADE for gate in failing.values()):
        return True
    if any(key in failing for key in INVALID[:2]):
        return False
    return "complete" in failing or (bool(failing) and "window" not in failing)


def invalid(gates: Sequence[Gate]) -> Gate | None:
    """The gate for which nothing can be concluded from a setting's windows; None where there is none."""
    found = next((gate for gate in gates if gate.answer == Answer.FAILS and gate.key in INVALID), None)
    return None if found is None or refutes(gates) else found


def word(gates: Sequence[Gate], *, safe: bool, indicative: bool, needs: int) -> str:
    """One short verdict for a row."""
    if refutes(gates):
        return "Fails"
    if invalid(gates) is not None:
        return "Not valid"
    if not safe:
        return "Not tested"
    if not indicative:
        return "Holds"
    return f"Holds, indicative: needs {needs} more request{'s' if needs != 1 else ''}" if needs else "Holds, indicative"


def heading(kind: Kind, chosen: SettingRow | None, rows: Sequence[SettingRow]) -> str:
    if kind == Kind.NOT_MEASURED:
        return "Nothing is measured yet"
    if chosen is None:
        told = {row.word for row in rows}
        unknown = told & {"Not tested", "Not valid"}
        if unknown and "Fails" not in told:
            return "No setting is validly measured yet" if "Not valid" in told else "No setting is fully measured yet"
        return "No safe setting found so far" if unknown else "No safe setting found"
    if len(rows) == 1:
        verb = "stays" if chosen.setting == 1 else "stay"
        return f"{flight(chosen.setting, start=True)} {verb} inside every limit tested"
    verb = "gives" if chosen.setting == 1 else "give"
    among = "inside the limits" if all(row.cells for row in rows) else "of the settings measured"
    return f"{flight(chosen.setting, start=True)} {verb} the most useful work {among}"


def summary(kind: Kind, chosen: SettingRow | None, rows: Sequence[SettingRow]) -> str:
    """One or two sentences under the heading."""
    if kind == Kind.NOT_MEASURED:
        return "No cell has finished. What is measured will stand here as it comes."
    if chosen is None:
        return " ".join(none_safe(rows))
    above = next((row for row in rows if row.setting > chosen.setting), None)
    if above is None:
        return f"{chosen.setting} is the highest setting that was tested; what lies above it is not known."
    change = against(above, chosen)
    if refutes(above.gates) and (above.good.value or 0.0) > (chosen.good.value or 0.0):
        return refused(above)
    return " ".join([*change, first_reason(above)]).strip() if change else refused(above)


def none_safe(rows: Sequence[SettingRow]) -> list[str]:
    """Why no setting is safe: what a probe found of the deployment once, with its remedy, then what else each row fails."""
    measured = [row for row in rows if row.cells]
    failing = [{g.key: g for g in row.gates if g.answer == Answer.FAILS and g.stage == Stage.GRADE} for row in measured]
    shared = set.intersection(*(set(gates) for gates in failing)) if failing else set()
    told = []
    for key in (key for key in failing[0] if key in shared) if failing else ():
        plainest = min((gates[key] for gates in failing), key=lambda gate: len(gate.reason))
        told.append(f"At every setting: {plainest.reason} {plainest.remedy}".strip())
    left = [replace(row, reasons=_but(row, shared)) for row in rows]
    return told + [refused(row) for row in left if row.reasons or not shared]


def _but(row: SettingRow, shared: set[str]) -> tuple[str, ...]:
    said = {gate.reason for gate in row.gates if gate.key in shared}
    return tuple(reason for reason in row.reasons if reason not in said)


def reasons(chosen: SettingRow, knee: str, room: Headroom | None) -> tuple[str, ...]:
    """Why this setting: the rate, the knee, the worst tail, memory, headroom."""
    rate = chosen.good.value or 0.0
    found = [f"{rate:,.1f} successful requests a minute{interval(chosen)}, {chosen.n} requests in all."]
    if knee:
        found.append(knee)
    if chosen.worst and chosen.worst.ratio is not None:
        at = chosen.worst
        found.append(f"The class closest to its limit is {at.label}: {ratio(at.ratio)} of its limit ({at.limit_name}).")
    found.append(memory(chosen))
    if room:
        found.append(room.words)
    return tuple(found)


def tail_growth(before: ClassRow | None, after: ClassRow | None) -> list[str]:
    if before is None or after is None or not before.ratio or after.ratio is None or isinf(before.ratio):
        return []
    if isinf(after.ratio):
        return [f"The worst class, {after.label}, has no finite percentile: too many of its requests failed."]
    change = f"from {ratio(before.ratio)} to {ratio(after.ratio)} of its limit"
    return [f"The worst class goes {change} ({after.label}), {after.ratio / before.ratio:,.1f} times as much."]


def against(row: SettingRow, chosen: SettingRow) -> list[str]:
    """Change of successful and of all requests a minute; nothing where one of them was not measured."""
    if row.good.value is None or not chosen.good.value:
        return []
    text = f"{flight(row.setting, start=True)}: {more_or_fewer(row.good.value / chosen.good.value)} successful requests a minute"
    if row.completed_per_min is not None and chosen.completed_per_min:
        text += f", {more_or_fewer(row.completed_per_min / chosen.completed_per_min)} completed"
    return [text + "."]


def more_or_fewer(factor: float) -> str:
    """1.19 reads "19 % more", 0.67 "33 % fewer", each with a no-break space."""
    percent = round(100 * (factor - 1))
    return f"{percent}\u00a0% more" if percent > 0 else f"{-percent}\u00a0% fewer" if percent < 0 else "as many"


def refused(row: SettingRow) -> str:
    """Why a setting is not safe, in one sentence or two."""
    return f"{flight(row.setting, start=True)}: {first_reason(row) or row.word}"


def first_reason(row: SettingRow) -> str:
    more = len(row.reasons) - 1
    if not row.reasons:
        return ""
    return row.reasons[0] + (f" And {more} more reason{'s' if more > 1 else ''}." if more > 0 else "")


def headroom(measured: float, after: float, lower: float | None, stated: float, *, reserves: Sequence[Reserve]) -> str:
    kept = [reserve.words for reserve in reserves if reserve.share > 0]
    parts = f"after keeping {', '.join(kept)}" if kept else "with no reserve asked"
    text = f"Stated rate: {stated:,.1f} a minute, from {measured:,.1f} measured; {parts} it is {after:,.1f}"
    if lower is None:
        return f"{text}, and the lower bound is not known."
    return f"{text}, and the lower bound of the measurement is {lower:,.1f}. The smaller of the two is stated."


def rollback(row: SettingRow | None) -> str:
    if row is None:
        return "No lower setting was found safe, so there is none to go back to."
    rate = f", {row.good.value:,.1f} successful requests a minute" if row.good.value is not None else ""
    return f"{flight(row.setting, start=True)}{rate}"


def previous(setting: int, arguments: str) -> str:
    """Back to what was approved before, with its exact arguments."""
    return f"{flight(setting, start=True)}, as approved before. {arguments}".strip()


def grade_reason(chosen: SettingRow | None, *, objective_before_run: bool) -> str:
    text = "Parts of the method are not tested: overload, cancellation, fairness, retries and open-loop confirmation."
    if chosen and chosen.indicative:
        text += " The sample is also too small for a proof."
    if not objective_before_run:
        text += " The objective was not set before the run."
    return text


def indicative(row: SettingRow) -> str:
    more = f" {row.needs} more requests in the class that lacks most would settle it." if row.needs else ""
    return f"Indicative: the point values hold, but not every upper bound is under its limit.{more}"


def requests(count: float) -> str:
    return "1 request" if round(count) == 1 else f"{count:.0f} requests"


def queue(setting: int, waiting: float, *, bounded: bool | None, sentence: str) -> str:
    seen = f"With {flight(setting)}, up to {requests(waiting)} waited inside the server."
    if bounded is True:
        return f"{seen} {sentence or 'Its queue is bounded.'}"
    if bounded is None:
        return f"{seen} Whether its queue is bounded is not known. {sentence}".strip()
    said = sentence or "This server queues without bound."
    bare = "Bare, it queues without bound: it refuses nobody, under more load the wait only grows, and that hides the overload."
    front = IN_FRONT if "gateway" in said else f"{GATEWAY} {IN_FRONT}"
    return f"{seen} {bare} {said} {front}"


def memory(row: SettingRow) -> str:
    if row.memory.peak_bytes is None:
        return f"{row.memory.words}."
    limit = f" of {row.memory.limit_bytes / 1024**3:,.1f} GiB allowed" if row.memory.limit_bytes is not None else ""
    return f"{row.memory.words}: {row.memory.peak_bytes / 1024**3:.2f} GiB{limit}."


def interval(row: SettingRow) -> str:
    if row.good.lower is None or row.good.upper is None:
        return ""
    return f" (interval {row.good.lower:,.1f} to {row.good.upper:,.1f})"


def ratio(value: float | None) -> str:
    if value is None:
        return "not known"
    return "no finite multiple" if isinf(value) else f"{value:.2f}"


def flight(setting: int, *, start: bool = False) -> str:
    """ "4 requests in flight": offered concurrency, which is never an engine's flag."""
    noun = "request" if setting == 1 else "requests"
    number = "One" if start and setting == 1 else "one" if setting == 1 else str(setting)
    return f"{number} {noun} in flight"
