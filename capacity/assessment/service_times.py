"""How long serving takes at the chosen setting, as a whole distribution: what waiting is added to.

A summary keeps p50, p95 and p99 of each class, not its samples. The law passes through those that are known: between and
beyond them the logarithm of the time is linear in the normal score, so that a lognormal time is met exactly. Where a
percentile falls among failures, everything above the last finite one is infinite. The repeat with the highest p95 counts,
as for every latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, log
from statistics import NormalDist

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.engine.plan import ClassLimits
from benchmarks.engine.summary_types import ClassSummary
from benchmarks.stats.estimates import Tail
from capacity.assessment import latency
from capacity.assessment.facts import MIXED, CellFact, GridFacts

Floats = npt.NDArray[np.float64]
POINTS = 200
WAITED_FOR = ("e2e_s", "ttft_s")
"""Limits that waiting counts against; a time per output token begins after it."""


class Law(msgspec.Struct, frozen=True, kw_only=True):
    """One class against one limit: `times_s` are POINTS equally likely times, ascending, with no wait in a queue."""

    label: str
    class_name: str
    limit_name: str
    limit_s: float
    times_s: tuple[float, ...]


def laws(facts: GridFacts, setting: int) -> tuple[list[Law], list[str]]:
    """(laws, classes and limits of which too little is known) of every limit that waiting counts against."""
    found, unknown = [], []
    for name, seen in _seen(facts, setting).items():
        of_class = facts.limits.classes.get(name, ClassLimits())
        for key in WAITED_FOR:
            limit_s = getattr(of_class, key)
            if limit_s is None:
                continue
            times_s = _worst([getattr(part, key) for part in seen])
            if times_s is None:
                unknown.append(f"{name} ({latency.LIMIT_NAMES[key]})")
                continue
            found.append(
                Law(label=name, class_name=name, limit_name=latency.LIMIT_NAMES[key], limit_s=limit_s, times_s=times_s)
            )
    return found, unknown


def works(facts: GridFacts, setting: int) -> tuple[float, ...]:
    """Equally likely lengths of a request of the mix, in any scale: end-to-end times of the classes by their weights.

    Of successes alone, since a failed one has no finite length. Empty where no class has any.
    """
    known = {name: _worst([part.e2e_ok_s for part in seen]) for name, seen in _seen(facts, setting).items()}
    laws_of = {name: times_s for name, times_s in known.items() if times_s is not None and isfinite(times_s[-1])}
    total = sum(facts.class_weights.get(name, 0.0) for name in laws_of)
    if total <= 0:
        return ()
    drawn: list[float] = []
    for name, times_s in laws_of.items():
        count = round(POINTS * facts.class_weights.get(name, 0.0) / total)
        drawn += [times_s[int((i + 0.5) * POINTS / count)] for i in range(count)]
    return tuple(drawn)


def law(tail: Tail) -> tuple[float, ...] | None:
    """POINTS equally likely times of one tail, seconds; None where p50 or p95 is not known or not finite."""
    p50_s, p95_s, p99_s = tail.p50.value, tail.p95.value, tail.p99.value
    if not p50_s or not p95_s or not isfinite(p95_s):
        return None
    known = [(0.50, p50_s), (0.95, p95_s)]
    if p99_s is not None and isfinite(p99_s):
        known.append((0.99, p99_s))
    score = NormalDist().inv_cdf
    shares = (np.arange(POINTS) + 0.5) / POINTS
    at = np.array([score(share) for share in shares])
    scores = np.array([score(share) for share, _ in known])
    logs = np.array([log(value) for _, value in known])
    slopes = np.diff(logs) / np.diff(scores)
    place = np.clip(np.searchsorted(scores, at) - 1, 0, len(slopes) - 1)
    times_s: Floats = np.exp(logs[place] + slopes[place] * (at - scores[place]))
    if p99_s is not None and not isfinite(p99_s):
        times_s[shares > 0.95] = inf
    return tuple(np.maximum.accumulate(times_s).tolist())


def _worst(tails: Sequence[Tail]) -> tuple[float, ...] | None:
    """The law of the repeat with the highest p95; None where every repeat is too small to have one."""
    known = [tail for tail in tails if tail.p95.value is not None]
    return law(max(known, key=lambda tail: tail.p95.value or 0.0)) if known else None


def _seen(facts: GridFacts, setting: int) -> dict[str, list[ClassSummary]]:
    """Class -> what the cells of this setting saw of it: in the mix where that was measured, else alone."""
    cells: Sequence[CellFact] = [cell for cell in facts.at(setting) if cell.summary is not None]
    in_mix = MIXED in facts.class_names
    return {
        name: [one.summary for one in seen]
        for (name, mixed), seen in latency.seen_classes(cells).items()
        if mixed == in_mix
    }
