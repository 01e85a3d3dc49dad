"""One long request blocks every short one: a prefill or a batch that all others wait for."""

from __future__ import annotations

from msgspec.structs import replace

from benchmarks.engine.probe_plan import Fairness
from benchmarks.engine.verdicts import ProbeVerdict
from benchmarks.stats.quantiles import smallest_sample
from capacity.assessment.cases.shared import at, blank, count, judged, n_of, touches, untested, value, why_unjudged
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Finding, Found, SettingRow

KEY = "long-blocks-short"
TITLE = "One long request blocks the short ones"
BLOCKS, WATCH = 2.0, 1.3
LEAST = smallest_sample(0.95)
REMEDY = (
    "Give long requests a lane of their own, limit their input, or turn on chunked prefill; then run the fairness probe "
    "again."
)
NEXT = "Run the fairness probe at the recommended setting."
_WORSE = [Found.NOT_FOUND, Found.WATCH, Found.FOUND]
CLASSES = "Draw the grid with a workload of at least two length classes, and with the fairness probe."


def finding(facts: GridFacts, chosen: SettingRow | None) -> Finding:
    found = blank(KEY, TITLE)
    probes = judged(facts, "fairness")
    answers = [(one, _answer(facts, verdict)) for one, verdict in probes]
    tested = [(one, said) for one, said in answers if said[0] != Found.NOT_TESTED]
    one_class = facts.lengths is not None and facts.lengths.classes == 1
    if one_class and all(said[0] != Found.FOUND for _, said in tested):
        alone = "There is one length class only, so no long request stands beside a short one."
        return untested(found, alone, next_cell=CLASSES)
    if not tested:
        missing = why_unjudged(facts, "fairness", "No fairness probe ran.")
        return untested(found, *(tuple(said[1] for _, said in answers) or missing), next_cell=NEXT)
    worst = max((said[0] for _, said in tested), key=_WORSE.index)
    shown = [(one, said) for one, said in tested if said[0] == worst]
    settings = tuple(sorted({one.setting for one, _ in shown})) if worst != Found.NOT_FOUND else ()
    return replace(
        found,
        found=worst,
        evidence=tuple(f"At {at(one.setting)}: {said[1]}" for one, said in shown),
        remedy="" if worst == Found.NOT_FOUND else REMEDY,
        next_cell="" if worst == Found.NOT_FOUND else NEXT,
        cells=tuple(one.cell_id for one, _ in shown),
        settings=settings,
        blocks=worst == Found.FOUND and touches(settings, [one.setting for one, _ in tested], chosen),
    )


def _answer(facts: GridFacts, verdict: ProbeVerdict) -> tuple[Found, str]:
    alone, beside, ratio = (value(verdict, name) for name in ("p95_alone", "p95_beside", "p95_ratio"))
    n = n_of(verdict, "p95_beside")
    if alone is None or beside is None:
        return Found.NOT_TESTED, "the probe told no p95 of the short requests."
    if (fewest := min(count(verdict, name) for name in ("p95_alone", "p95_beside"))) < LEAST:
        return Found.NOT_TESTED, f"only {fewest} short requests were timed, and a p95 takes {LEAST}{n}."
    words = f"p95 of short requests is {beside:.2f} s beside long ones and {alone:.2f} s alone"
    limit_s = _limit_s(facts, verdict)
    over = limit_s is not None and beside > limit_s >= alone
    if ratio is None:
        return (Found.FOUND if over or beside > alone else Found.NOT_TESTED), f"{words}{n}."
    words += f", {ratio:.2f} times as long{n}"
    if over:
        words += f"; their objective is {limit_s:g} s"
    if over or ratio > BLOCKS:
        return Found.FOUND, f"{words}."
    return (Found.WATCH if ratio > WATCH else Found.NOT_FOUND), f"{words}."


def _limit_s(facts: GridFacts, verdict: ProbeVerdict) -> float | None:
    """The end-to-end objective of the class that stood for short ones; None where nobody knows which, or it has none."""
    named = verdict.parameters.short_class if isinstance(verdict.parameters, Fairness) else ""
    limits = facts.limits.classes.get(named or (facts.lengths.short_class if facts.lengths else ""))
    return limits.e2e_s if limits is not None else None
