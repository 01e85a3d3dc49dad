"""Latency of each class against each of its limits: one gate and one row per class, over all repeats together.

Percentiles of several repeats are never averaged: they are those of the pooled requests, with an upper bound that is the
wider of two, by the effective number of requests and by the spread of the repeats (benchmarks.stats.pools). Summaries
before schema 5 kept nothing to pool; there the repeat with the highest value and the highest bound decides, which is never
kinder.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

import msgspec
from msgspec.structs import replace

from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.engine.summary_types import ClassSummary
from benchmarks.stats.estimates import Estimate, Share, Tail
from benchmarks.stats.pools import BY_REPEATS, Pooled, pooled
from benchmarks.stats.quantiles import needed_for_bound
from capacity.assessment.facts import MIXED, CellFact
from capacity.assessment.verdict import Answer, ClassRow, Gate

NO_TIME = {
    "e2e_s": "No request of {} has an end-to-end time.",
    "ttft_s": "No answer of {} was streamed, so none has a time to its first token.",
    "tpot_s": "No answer of {} has a time per output token: not streamed, of one token, or with tokens nobody counted.",
}
HELD_BACK = (
    "Answers of {} were held back and came at once, so the times to and between their tokens are not the server's: "
    "something between buffers the stream."
)
TWO_COUNTS = "Tokens of {} were counted in more than one way, so there is no one time per token."
FEWER = "Keep fewer requests in flight, or shorten this class."
MORE_REQUESTS = "Lengthen the window or add repeats until the upper bound is under the limit."
MORE_REPEATS = (
    "The repeats differ: find out what changed between them, or add repeats until the upper bound is under the limit."
)
WORST_REPEAT = "of the worst repeat"
LIMIT_NAMES = {"e2e_s": "end to end", "ttft_s": "time to first token", "tpot_s": "time per output token"}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One class as one cell saw it."""

    cell_id: int
    summary: ClassSummary


def seen_classes(cells: Sequence[CellFact]) -> dict[tuple[str, bool], list[Seen]]:
    """(class, in the mix) -> what each cell with a summary saw, in running order."""
    found: dict[tuple[str, bool], list[Seen]] = {}
    for cell in cells:
        for part in cell.summary.classes if cell.summary else ():
            key = (part.class_name, cell.class_name == MIXED)
            found.setdefault(key, []).append(Seen(cell_id=cell.cell_id, summary=part))
    return found


def kept_percentile(percentile: float) -> int | None:
    """The lowest kept percentile that is not below the one asked for; None above p99."""
    return next((number for number in (50, 95, 99) if percentile <= number), None)


def at_percentile(tail: Tail, percentile: float) -> tuple[Estimate, int] | None:
    """Its estimate in one repeat, and which percentile that is."""
    number = kept_percentile(percentile)
    return None if number is None else ({50: tail.p50, 95: tail.p95, 99: tail.p99}[number], number)


def seconds(value: float) -> str:
    if isinf(value):
        return "no finite time"
    return f"{value * 1000:.0f} ms" if value < 0.1 else f"{value:.2f} s"


def gates(limits: GridLimits, cells: Sequence[CellFact]) -> list[Gate]:
    out = []
    for (name, in_mix), seen in seen_classes(cells).items():
        of_class = limits.classes.get(name, ClassLimits())
        for key, limit_s in _limits(of_class):
            out.append(_gate(name + (" in the mix" if in_mix else ""), key, limit_s, limits.percentile, seen))
    return out


def rows(limits: GridLimits, cells: Sequence[CellFact]) -> list[ClassRow]:
    """One row per class, at the limit with the highest ratio."""
    out = []
    for (name, in_mix), seen in seen_classes(cells).items():
        candidates = [
            _row(name, in_mix, key, limit_s, limits.percentile, seen)
            for key, limit_s in _limits(limits.classes.get(name, ClassLimits()))
        ]
        if candidates:
            out.append(max(candidates, key=lambda row: -1.0 if row.ratio is None else row.ratio))
    return out


def main_rows(limits: GridLimits, cells: Sequence[CellFact]) -> list[ClassRow]:
    """One row per class at its first limit (end to end, else TTFT, else TPOT): the same measure at every setting."""
    out = []
    for (name, in_mix), seen in seen_classes(cells).items():
        for key, limit_s in _limits(limits.classes.get(name, ClassLimits()))[:1]:
            out.append(_row(name, in_mix, key, limit_s, limits.percentile, seen))
    return out


def _limits(of_class: ClassLimits) -> list[tuple[str, float]]:
    pairs = [(key, getattr(of_class, key)) for key in LIMIT_NAMES]
    return [(key, limit) for key, limit in pairs if limit is not None]


def pooled_of(key: str, limit_s: float, percentile: float, seen: Sequence[Seen]) -> Pooled | None:
    """The percentile of all repeats together; None where one of them kept nothing to pool, or above p99."""
    number = kept_percentile(percentile)
    pools = [s.summary.pools.get(key) for s in seen]
    known = [one for one in pools if one is not None]
    if number is None or not known or len(known) < len(pools):
        return None
    return pooled(known, number / 100, limit_s=limit_s)


def judged(key: str, limit_s: float, percentile: float, seen: Sequence[Seen]) -> list[Estimate]:
    """What the gate judges one limit by: one estimate of all repeats together, or one of each where they kept nothing to
    pool; none above p99."""
    together = pooled_of(key, limit_s, percentile, seen)
    return [together.estimate] if together else [estimate for estimate, _ in _estimates(key, percentile, seen)]


def _estimates(key: str, percentile: float, seen: Sequence[Seen]) -> list[tuple[Estimate, int]]:
    found = [at_percentile(getattr(s.summary, key), percentile) for s in seen]
    return [pair for pair in found if pair is not None]


def _gate(label: str, key: str, limit_s: float, percentile: float, seen: Sequence[Seen]) -> Gate:
    blank = Gate(
        key=f"latency {label} {key}",
        title=f"{label}: {LIMIT_NAMES[key]}",
        answer=Answer.NOT_TESTED,
        reason="No request was scheduled.",
        cells=tuple(s.cell_id for s in seen),
    )
    n, number = sum(s.summary.scheduled for s in seen), kept_percentile(percentile)
    if not n:
        return blank
    if number is None:
        reason = f"p{percentile:g} is above p99, the highest percentile that is kept."
        return replace(blank, reason=reason, remedy="Set an objective at p50, p95 or p99 and measure again.")
    together = pooled_of(key, limit_s, percentile, seen)
    if together is None:
        return _by_worst_repeat(blank, label, key, limit_s, percentile, seen)
    if not together.estimate.n:
        return replace(blank, **_no_time(label, key, seen))
    return _by_all(blank, label, number, limit_s, together)


def _by_all(blank: Gate, label: str, number: int, limit_s: float, found: Pooled) -> Gate:
    """The law of the pooled requests: over, proved, indicative, or too few to say."""
    value, bound, what = found.estimate.value, found.estimate.bound, f"p{number} of {label}"
    if value is None:
        return _few_in_all(blank, label, number, limit_s, found)
    if found.is_over:
        reason = _over_words(what, value, limit_s, counted(found))
        return replace(blank, answer=Answer.FAILS, reason=reason, remedy=FEWER)
    under = f"{what} is {seconds(value)}, limit {seconds(limit_s)} ({counted(found)})"
    covers = f", {bound_words(found)}" if len(found.values) > 1 and bound is not None else ""
    if found.holds and bound is not None:
        reason = f"{under}; its upper bound of {seconds(bound)}{covers}{',' if covers else ''} is under the limit too."
        return replace(blank, answer=Answer.HOLDS, reason=reason)
    state = "it has no upper bound yet" if bound is None else f"its upper bound is {seconds(bound)}{covers}"
    return replace(
        blank,
        answer=Answer.HOLDS,
        reason=f"{under}, but {state}: indicative{_more(found.needs)}.",
        indicative=True,
        needs=found.needs,
        remedy=MORE_REPEATS if found.by == BY_REPEATS and not found.needs else MORE_REQUESTS,
    )


def _few_in_all(blank: Gate, label: str, number: int, limit_s: float, found: Pooled) -> Gate:
    n, misses = found.estimate.n, found.misses or 0
    blank = replace(blank, remedy="Lengthen the window or add repeats.", needs=found.needs)
    if not misses:
        words = f"All {n} requests of {label} were inside the limit of {seconds(limit_s)}, too few for a p{number}"
        return replace(blank, answer=Answer.HOLDS, reason=f"{words}: indicative{_more(found.needs)}.", indicative=True)
    words = f"{n - misses} of {n} requests of {label} were inside the limit of {seconds(limit_s)}"
    return replace(blank, reason=f"{words}, too few for a p{number}{_more(found.needs)}.")


def counted(found: Pooled) -> str:
    """ "n = 288 in 3 repeats, worth 201 independent ones"."""
    n, k = found.estimate.n, len(found.values)
    repeats = f" in {k} repeats" if k > 1 else ""
    worth = f", worth {found.n_effective} independent ones" if found.n_effective < n else ""
    return f"n = {n}{repeats}{worth}"


def bound_words(found: Pooled) -> str:
    """What the upper bound covers: the wider of the two wins."""
    if found.estimate.bound is None:
        return ""
    if len(found.values) < 2:
        return "by the number of requests; one repeat shows no spread"
    return f"by the spread of {len(found.values)} repeats" if found.by == BY_REPEATS else "by the number of requests"


def _by_worst_repeat(
    blank: Gate, label: str, key: str, limit_s: float, percentile: float, seen: Sequence[Seen]
) -> Gate:
    n = sum(s.summary.scheduled for s in seen)
    estimates = _estimates(key, percentile, seen)
    number = estimates[0][1]
    over = [e.value for e, _ in estimates if e.value is not None and e.value > limit_s]
    if over:
        reason = _over_words(f"p{number} of {label}", max(over), limit_s, f"n = {n}")
        return replace(blank, answer=Answer.FAILS, reason=reason, remedy=FEWER)
    if all(e.n == 0 for e, _ in estimates):
        return replace(blank, **_no_time(label, key, seen))
    if any(e.value is None for e, _ in estimates):
        return _too_few(blank, label, number, limit_s, seen, needs=max(e.needs for e, _ in estimates))
    return _inside(blank, f"p{number} of {label}", limit_s, [e for e, _ in estimates], seen)


def _no_time(label: str, key: str, seen: Sequence[Seen]) -> dict[str, str]:
    if key != "e2e_s" and any(s.summary.buffered for s in seen):
        remedy = "Switch response buffering off in whatever stands before the runtime, and measure again."
        return {"reason": HELD_BACK.format(label), "remedy": remedy}
    if key == "tpot_s" and any(s.summary.mixed_token_sources for s in seen):
        return {"reason": TWO_COUNTS.format(label), "remedy": "Let the server or one tokeniser count all of them."}
    return {"reason": NO_TIME[key].format(label), "remedy": "Judge this class by another limit."}


def _over_words(what: str, value: float, limit_s: float, n: str) -> str:
    if isinf(value):
        return f"{what} falls among failed requests, so no time stands under the limit of {seconds(limit_s)} ({n})."
    return f"{what} is {seconds(value)}, over the limit of {seconds(limit_s)} ({n})."


def _inside(blank: Gate, what: str, limit_s: float, estimates: Sequence[Estimate], seen: Sequence[Seen]) -> Gate:
    """The point value is under the limit: proved where the one-sided upper bound is under it too, else indicative."""
    n = sum(s.summary.scheduled for s in seen)
    value = max(e.value for e in estimates if e.value is not None)
    under = f"{what} is {seconds(value)}, limit {seconds(limit_s)} (n = {n})"
    known = [e.bound for e in estimates if e.bound is not None]
    complete = len(known) == len(estimates)
    if complete and max(known) <= limit_s:
        reason = f"{under}; its upper bound of {seconds(max(known))} is under the limit too."
        return replace(blank, answer=Answer.HOLDS, reason=reason)
    needs = max(_missing(e, s.summary.good) for e, s in zip(estimates, seen, strict=True))
    state = f"its upper bound is {seconds(max(known))}" if complete else "it has no upper bound yet"
    return replace(
        blank,
        answer=Answer.HOLDS,
        reason=f"{under}, but {state}: indicative{_more(needs)}.",
        indicative=True,
        needs=needs,
        remedy=MORE_REQUESTS,
    )


def _too_few(blank: Gate, label: str, number: int, limit_s: float, seen: Sequence[Seen], *, needs: int) -> Gate:
    """Fewer requests than a percentile needs: all inside their limits is an indication, anything else is no answer."""
    n = sum(s.summary.good.n for s in seen)
    hits = sum(s.summary.good.hits for s in seen)
    blank = replace(blank, remedy="Lengthen the window or add repeats.", needs=needs)
    if n and hits == n:
        words = (
            f"All {n} requests of {label} were inside their limits ({seconds(limit_s)} here), too few for a p{number}"
        )
        return replace(blank, answer=Answer.HOLDS, reason=f"{words}: indicative{_more(needs)}.", indicative=True)
    return replace(blank, reason=f"{hits} of {n} requests of {label} were good, too few for a p{number}{_more(needs)}.")


def _missing(estimate: Estimate, good: Share) -> int:
    """Requests missing until the bound can fall under the limit, if no further one misses it.

    Requests that were not good stand in for those over this limit: at least as many, so the number is never too small.
    """
    if not 0 < estimate.q < 1:
        return estimate.needs
    return max(estimate.needs, needed_for_bound(estimate.q, good.n - good.hits) - good.n)


def _more(needs: int) -> str:
    return f", needs {needs} more" if needs else ""


def _row(name: str, in_mix: bool, key: str, limit_s: float, percentile: float, seen: Sequence[Seen]) -> ClassRow:
    gate = _gate(name, key, limit_s, percentile, seen)
    together = pooled_of(key, limit_s, percentile, seen)
    if together is None:
        tail, judged, timed = _worst(key, percentile, seen)
    else:
        p50, p95, p99 = (pooled_of(key, limit_s, q, seen) for q in (50, 95, 99))
        assert p50 is not None
        assert p95 is not None
        assert p99 is not None
        tail, judged = Tail(p50=p50.estimate, p95=p95.estimate, p99=p99.estimate), together.estimate
        timed = judged.n
    return ClassRow(
        class_name=name,
        in_mix=in_mix,
        n=sum(s.summary.scheduled for s in seen),
        repeats=len(seen),
        limit_name=LIMIT_NAMES[key],
        limit_s=limit_s,
        p50_s=tail.p50.value,
        p95_s=tail.p95.value,
        p95_lower_s=tail.p95.lower,
        p95_upper_s=tail.p95.upper,
        p99_s=tail.p99.value,
        ratio=_over(judged.value, limit_s),
        ratio_lower=_over(judged.lower, limit_s),
        ratio_upper=_over(judged.upper, limit_s),
        answer=gate.answer,
        indicative=gate.indicative,
        needs=gate.needs,
        timed=timed,
        n_effective=together.n_effective if together else None,
        bound_s=judged.bound,
        bound_words=bound_words(together) if together else WORST_REPEAT,
        spread_share=together.spread_share if together else None,
    )


def _worst(key: str, percentile: float, seen: Sequence[Seen]) -> tuple[Tail, Estimate, int]:
    """(the repeat with the highest value, its judged percentile with the highest bound, requests with this time in all)."""
    found = _estimates(key, percentile, seen)
    worst = max(
        (e for e, _ in found), key=lambda e: -1.0 if e.value is None else e.value, default=Estimate(q=percentile, n=0)
    )
    position = next((i for i, (e, _) in enumerate(found) if e is worst), 0)
    tail: Tail = getattr(seen[position].summary, key)
    bounds = [e.bound for e, _ in found]
    highest = max((b for b in bounds if b is not None), default=None) if None not in bounds else None
    return tail, replace(worst, bound=highest), sum(e.n for e, _ in found)


def _over(value: float | None, limit_s: float) -> float | None:
    return None if value is None else value / limit_s
