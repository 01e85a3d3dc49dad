"""Gates from behaviour probes: fairness, overload, cancellation, retries, recovery, limits, tenancy.

A probe runs at one setting. What it finds of refusing, freeing, recovering and limits is the deployment's, the runtime
with what stands in front of it, and speaks for every setting; fairness speaks for its own load. What was probed and fails
makes a setting unsafe. What was not probed does not: it keeps the grade from Complete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from msgspec.structs import replace

from benchmarks.engine.probe_plan import Fairness, Overload, Recovery
from benchmarks.engine.verdicts import NOT_JUDGED, Figure, ProbeVerdict, words_of
from benchmarks.stats.quantiles import needed_for_bound, smallest_sample
from capacity.assessment import beside, words
from capacity.assessment.facts import GridFacts, ProbeFact
from capacity.assessment.verdict import Answer, Gate, Stage

PROBE_NAMES = {
    "fairness": "fairness",
    "overload": "overload",
    "cancellation": "cancellation",
    "retry_storm": "retry storm",
    "recovery": "recovery",
    "limits": "limits",
}
LEAST, PROVED = smallest_sample(0.95), needed_for_bound(0.95, 0)
"""Requests below which a sample has no p95 of its own, and below which none proves that p95 is under anything."""
SHORT_BESIDE = "short_beside"  # as the fairness probe calls its short requests beside long ones
Said = tuple[Answer, str]
_WORST_FIRST = (Answer.FAILS, Answer.HOLDS, Answer.NOT_TESTED)


def gates(facts: GridFacts, setting: int) -> list[Gate]:
    """What the probes say of this setting; none of a setting that has no cell at all."""
    if not facts.at(setting):
        return []
    return [
        fairness(facts, setting),
        overload(facts, setting),
        cancellation(facts, setting),
        retries(facts, setting),
        recovery(facts, setting),
        limits(facts, setting),
        tenancy(facts, setting),
    ]


# --- fairness --------------------------------------------------------------------------------------------------------


def fairness(facts: GridFacts, setting: int) -> Gate:
    """By the probe, and where the mix and its short class alone were measured, by those too; a failure of either counts."""
    blank = _blank("fairness", "Short requests beside long ones")
    blank = replace(
        blank, remedy="Give long requests a lane of their own, or let the runtime cut their prompts in chunks."
    )
    probed = _judged(facts, blank, "fairness", lambda fact, found: _fair(facts, setting, fact, found))
    mixed = _in_the_mix(facts, setting, blank)
    if mixed is not None and _rank(mixed) < _rank(probed):
        return mixed
    if probed.answer == Answer.NOT_TESTED and len(facts.class_weights) < 2:
        one = "The workload has one length class, so what short requests lose beside long ones cannot be seen."
        return replace(probed, reason=one, remedy="Add a class of long requests, and run the fairness probe.")
    return probed


def _fair(facts: GridFacts, setting: int, fact: ProbeFact, found: ProbeVerdict) -> Said:
    limit, ratio = facts.terms.max_slowdown, _figure(found, "p95_ratio")
    load, clients = 0, ""
    if isinstance(found.parameters, Fairness):
        short, long = found.parameters.short_clients, found.parameters.long_clients
        load, clients = short + long, f", with {short} short and {long} long in flight"
    told = " ".join((words_of(found), *found.reasons))
    if ratio.value is not None:
        told = f"Beside long requests p95 of short ones is {ratio.value:.2f} times that alone{clients}, limit {limit:g}"
        told += f"{_n(ratio)}."
    refused = found.evidence.outcomes.get(SHORT_BESIDE, {}).get("rejected", 0)
    if ratio.value is None and refused:
        told = f"{refused} short requests beside long ones were refused, not delayed{clients}: more than is let in."
        return Answer.NOT_TESTED, f"{told} Probe it with fewer."
    unfair = found.verdict == "unfair" or (ratio.value is not None and ratio.value > limit)
    needed, counted = LEAST if unfair else PROVED, _timed(found)
    if ratio.value is not None and counted < needed:
        return Answer.NOT_TESTED, f"{told} {_few(counted, needed)}"
    if unfair and setting < min(load, fact.setting):
        return Answer.NOT_TESTED, f"{told} That is more in flight than this setting offers, so it says nothing of it."
    if not unfair and setting > max(load, fact.setting):
        return Answer.NOT_TESTED, f"{told} That was probed at {fact.setting} in flight and says nothing of more."
    return (Answer.FAILS if unfair else Answer.HOLDS), told


def _timed(found: ProbeVerdict) -> int:
    """The fewest short requests that stand behind any of the two times."""
    told = [found.figures[name] for name in ("p95_alone", "p95_beside", "p95_ratio") if name in found.figures]
    return min((one.n or 0 for one in told), default=0)


def _few(counted: int, needed: int) -> str:
    requests = "1 short request was" if counted == 1 else f"{counted} short requests were"
    more = f"needs {needed - counted} more, so probe it for longer"
    return f"Only {requests} timed alone or beside, too few to believe a p95: {more}."


def _in_the_mix(facts: GridFacts, setting: int, blank: Gate) -> Gate | None:
    found, limit = beside.delay(facts, setting), facts.terms.max_slowdown
    if found is None or found.ratio.value is None:
        return None
    blank, ratio = replace(blank, cells=found.cells), found.ratio
    what = f"p95 of {found.class_name} in the mix"
    if not isfinite(found.ratio.value):
        lost = f"{what} falls among failed requests, and alone it does not (n = {found.n})."
        return replace(blank, answer=Answer.FAILS, reason=lost)
    told = f"{what} is {ratio.value:.2f} times that alone, limit {limit:g} (n = {found.n})"
    if found.ratio.value > limit:
        return replace(blank, answer=Answer.FAILS, reason=f"{told}: long requests delay short ones.")
    if ratio.upper is not None and ratio.upper <= limit:
        return replace(blank, answer=Answer.HOLDS, reason=f"{told}; its upper bound is {ratio.upper:.2f}.", remedy="")
    return replace(
        blank, answer=Answer.HOLDS, reason=f"{told}: indicative, for its upper bound is not under it.", indicative=True
    )


# --- the deployment --------------------------------------------------------------------------------------------------


def overload(facts: GridFacts, setting: int) -> Gate:
    blank = replace(_blank("overload", "Overload refused clearly"), remedy=f"{words.GATEWAY} {words.IN_FRONT}")
    return _everywhere(facts, setting, blank, "overload", lambda _, found: _refuses(facts, found))


def _refuses(facts: GridFacts, found: ProbeVerdict) -> Said:
    told = " ".join((words_of(found), *found.reasons))
    if found.verdict == "kept_up":
        return Answer.NOT_TESTED, f"{told} Probe it again with more load."
    if not found.verdict.startswith("refused"):
        return Answer.FAILS, told
    late, limit = _figure(found, "time_to_reject_p95"), facts.terms.max_refuse_s
    if late.value is not None:
        told += f" p95 of the time to refuse is {late.value:.2f} s, limit {limit:g} s{_n(late)}."
    soon = found.verdict != "refused_late" if late.value is None else late.value <= limit
    return (Answer.HOLDS if soon else Answer.FAILS), told


def cancellation(facts: GridFacts, setting: int) -> Gate:
    blank = _blank("cancellation", "Cancellation frees its place")
    blank = replace(blank, remedy="Let what stands in front close the connection to the runtime when a client leaves.")
    return _everywhere(facts, setting, blank, "cancellation", lambda _, found: _frees(facts, found))


def _frees(facts: GridFacts, found: ProbeVerdict) -> Said:
    worst, limit = _figure(found, "stream_freed_worst"), facts.terms.max_free_s
    told = " ".join((words_of(found), *found.reasons))
    if worst.value is None:
        return (Answer.HOLDS if found.verdict == "frees_in_time" else Answer.FAILS), told
    freed = f"The slowest place was free after {worst.value:.2f} s, limit {limit:g} s{_n(worst, 'tries')}."
    in_time = found.verdict != "never_frees" and worst.value <= limit
    return (Answer.HOLDS if in_time else Answer.FAILS), f"{freed} {' '.join(found.reasons)}".strip()


def retries(facts: GridFacts, setting: int) -> Gate:
    blank = _blank("retry", "Retry storm contained")
    remedy = "Give clients exponential backoff, full jitter and a retry budget, and let them honour Retry-After."
    return _everywhere(facts, setting, replace(blank, remedy=remedy), "retry_storm", lambda _, found: _contains(found))


def _contains(found: ProbeVerdict) -> Said:
    told = " ".join((words_of(found), *found.reasons))
    if found.verdict == "kept_up":
        return Answer.NOT_TESTED, told
    return (Answer.HOLDS if found.verdict == "contained" else Answer.FAILS), told


def recovery(facts: GridFacts, setting: int) -> Gate:
    """By its own probe; where there is none, by what the overload probe saw after its load."""
    blank = _blank("recovery", "Recovery in time")
    blank = replace(blank, remedy="Bound the queue, so that there is less to work off, and end what clients have left.")
    gate = _everywhere(facts, setting, blank, "recovery", lambda _, found: _recovers(facts, found))
    if gate.answer != Answer.NOT_TESTED:
        return gate
    after = _everywhere(facts, setting, blank, "overload", lambda _, found: _after_overload(facts, found))
    return gate if after.answer == Answer.NOT_TESTED else after


def _recovers(facts: GridFacts, found: ProbeVerdict) -> Said:
    watched_s = found.parameters.after_s if isinstance(found.parameters, Recovery) else 0.0
    if found.verdict == "not_disturbed":
        return Answer.NOT_TESTED, f"{words_of(found)} Probe it again with more trouble."
    return _back(facts, _figure(found, "back_to_latency"), watched_s)


def _after_overload(facts: GridFacts, found: ProbeVerdict) -> Said:
    baseline = _figure(found, "answer_time_calm_p95")
    if found.verdict == "kept_up" or baseline.value is None or not isinstance(found.parameters, Overload):
        return Answer.NOT_TESTED, "The overload probe timed no recovery."
    return _back(facts, _figure(found, "recovery"), found.parameters.recovery_s)


def _back(facts: GridFacts, back: Figure, watched_s: float) -> Said:
    limit = facts.terms.max_recover_s
    if back.value is not None:
        told = f"Latency is back {back.value:,.1f} s after the trouble, limit {limit:g} s."
        return (Answer.HOLDS if back.value <= limit else Answer.FAILS), told
    told = f"Latency was not back within the {watched_s:g} s watched, limit {limit:g} s"
    if watched_s < limit:
        return Answer.NOT_TESTED, f"{told}: watch it longer."
    return Answer.FAILS, f"{told}."


def limits(facts: GridFacts, setting: int) -> Gate:
    """What is longer than the context must be refused as the client's error: cut in silence it is answered wrongly, and
    what breaks the server hits others."""
    blank = _blank("limits", "Oversized requests refused")
    blank = replace(blank, remedy="Set the maximum input and output of the policy at the gateway.")
    return _everywhere(facts, setting, blank, "limits", lambda _, found: _sizes(found))


def _sizes(found: ProbeVerdict) -> Said:
    """An answer asked for beyond the context may be accepted: it ends where the context does, and the client can see it."""
    told = " ".join(reason for reason in found.reasons if reason.startswith(("A prompt of", "An answer of")))
    prompt, output = found.figures.get("long_prompt_status"), found.figures.get("long_output_status")
    if prompt is None:
        return Answer.NOT_TESTED, " ".join(found.reasons) or "No oversized prompt was asked for."
    breaks = output is not None and not _is_client_error(output) and output.value != 200
    if breaks or not _is_client_error(prompt):
        return Answer.FAILS, told or words_of(found)
    return Answer.HOLDS, told or words_of(found)


def tenancy(facts: GridFacts, setting: int) -> Gate:
    """Several tenants need credentials and quotas that are proved to work; one needs neither."""
    blank = _blank("tenancy", "Access and quotas of tenants")
    if facts.terms.tenants <= 1:
        return replace(blank, answer=Answer.NOT_APPLICABLE, reason="The objective declares one tenant.")
    blank = replace(blank, remedy="Ask for a key at the gateway, and limit each key's rate and requests in flight.")
    return _everywhere(facts, setting, blank, "limits", lambda _, found: _kept_apart(found))


def _kept_apart(found: ProbeVerdict) -> Said:
    access, refused = found.figures.get("no_credentials_status"), found.figures.get("rate_refused")
    if access is None or refused is None or refused.n == 0:
        return Answer.NOT_TESTED, "A request without credentials, or one client's rate, was not tried."
    open_words = f"A request without credentials was answered with HTTP {access.value or 0:.0f}"
    if not _is_client_error(access):
        return Answer.FAILS, f"{open_words}, not refused."
    if not refused.value:
        return Answer.FAILS, f"{open_words}, but {refused.n or 0} requests of one client met no limit."
    return Answer.HOLDS, f"{open_words}, and one client's rate met its limit."


# --- parts -----------------------------------------------------------------------------------------------------------


def _blank(key: str, title: str) -> Gate:
    return Gate(key=key, title=title, answer=Answer.NOT_TESTED, reason="", stage=Stage.GRADE)


def _everywhere(
    facts: GridFacts, setting: int, blank: Gate, probe: str, judge: Callable[[ProbeFact, ProbeVerdict], Said]
) -> Gate:
    """With where it was probed, where that was another setting."""
    gate = _judged(facts, blank, probe, judge)
    at = sorted({fact.setting for fact in _facts(facts, probe) if fact.cell_id in gate.cells} - {setting})
    if gate.answer == Answer.NOT_TESTED or not at:
        return gate
    where = " and ".join(str(one) for one in at)
    return replace(
        gate, reason=f"{gate.reason} Probed at {where} in flight; it is the deployment's, whatever the setting."
    )


def _judged(
    facts: GridFacts, blank: Gate, probe: str, judge: Callable[[ProbeFact, ProbeVerdict], Said]
) -> Gate:  # fmt: skip
    """The worst that any probe of this name found. Of those that found nothing the last one says why."""
    name, found = PROBE_NAMES[probe], _facts(facts, probe)
    if not found:
        remedy = f"Draw the grid again with the {name} probe."
        return replace(blank, reason=f"No {name} probe was drawn.", remedy=remedy)
    answered = [(fact, _said(fact, judge)) for fact in found]
    worst = min(answered, key=lambda pair: _WORST_FIRST.index(pair[1][0]))[1][0]
    last, (answer, reason) = [pair for pair in answered if pair[1][0] == worst][-1]
    remedy = blank.remedy if answer == Answer.FAILS else ""
    if answer == Answer.NOT_TESTED:
        remedy = f"Run the {name} probe again."
    return replace(blank, answer=answer, reason=reason, remedy=remedy, cells=(last.cell_id,))


def _said(fact: ProbeFact, judge: Callable[[ProbeFact, ProbeVerdict], Said]) -> Said:
    name = PROBE_NAMES[fact.probe]
    if fact.verdict is None:
        return Answer.NOT_TESTED, f"The {name} probe did not run: {(fact.reason or 'it is still to come').rstrip('.')}."
    if fact.verdict.verdict == NOT_JUDGED:
        why = " ".join(fact.verdict.reasons)
        return Answer.NOT_TESTED, f"The {name} probe could not be judged. {why}".strip()
    return judge(fact, fact.verdict)


def _facts(facts: GridFacts, probe: str) -> Sequence[ProbeFact]:
    return [fact for fact in facts.probes if fact.probe == probe]


def _rank(gate: Gate) -> int:
    """Failures first; an indication yields to an answer."""
    return 2 * _WORST_FIRST.index(gate.answer) + gate.indicative


def _figure(found: ProbeVerdict, name: str) -> Figure:
    return found.figures.get(name, Figure(value=None, unit=""))


def _is_client_error(status: Figure) -> bool:
    return status.value is not None and 400 <= status.value < 500


def _n(figure: Figure, what: str = "") -> str:
    return "" if figure.n is None else f" (n = {figure.n}{f' {what}' if what else ''})"
