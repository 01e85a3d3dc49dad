"""Whether what a setting is judged by held still over its windows.

In one window a measure drifts, or settles, as the engine says (benchmarks.stats.steadiness: 15 % over the window and two
residual standard deviations). Six blocks of a perfectly steady server show that in about one window of seven, so with
several classes, measures and repeats some window nearly always does. A setting is therefore refused only where most of
the repeats move the same way and their mean trend is beyond chance: Student's t of the trend over its standard error,
two-sided 1 %, divided by the number of measures looked at (Bonferroni). Anything less is told and refuses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.engine.summary_types import CellSummary
from benchmarks.stats.per_cent import per_cent
from benchmarks.stats.steadiness import DRIFT_SHARE, Steadiness, Steady
from benchmarks.stats.student import t_cdf
from capacity.assessment.facts import MIXED, CellFact
from capacity.assessment.verdict import Answer, Check

ALPHA = 0.01
MEASURES = {"e2e_s": "end to end", "ttft_s": "time to first token", "tpot_s": "time per output token"}
RATE = "completed_per_s"
LEAST_REPEATS = 3
LEAST_ANSWERS = 6 * 20
"""Over all repeats of a kind: what six blocks of a window hold, without which no trend is looked for in one either."""
MOVED = (Steady.DRIFTING, Steady.SETTLING)


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """One measure over its windows. `word` is STEADY, TOO_SHORT, or what most windows do beyond chance; `moved` of
    `windows` that were long enough do it at all. `change_share` is the mean change over a window, as a share."""

    what: str
    word: Steady
    moved: int
    windows: int
    change_share: float | None = None


def check(limits: GridLimits, cells: Sequence[CellFact]) -> Check:
    """Of one setting's cells, all with a summary."""
    blank = Check(
        key="steady",
        title="Steady over the window",
        answer=Answer.HOLDS,
        evidence="",
        cells=tuple(c.cell_id for c in cells),
    )
    found = trends(limits, cells)
    bad = [one for one in found if one.word in MOVED]
    if bad:
        return replace(blank, answer=Answer.FAILS, evidence=" ".join(map(_moving, bad)), remedy=_remedy(bad))
    judged = [one for one in found if one.word != Steady.TOO_SHORT]
    if not judged:
        evidence = "No window was long enough to see a trend: it takes six blocks of 5 s with 20 answers each."
        return replace(
            blank, answer=Answer.NOT_REPORTED, evidence=evidence, remedy="Lengthen the window.", substitute=over_repeats(cells)
        )  # fmt: skip
    short = [one.what for one in found if one.word == Steady.TOO_SHORT]
    loose = [
        f"{one.what} moves in {one.moved} of {one.windows}, no more than chance does" for one in judged if one.moved
    ]
    parts = [f"{', '.join(one.what for one in judged)}: no trend beyond chance", *loose]
    if short:
        parts.append(f"windows too short to tell for {', '.join(short)}")
    return replace(blank, evidence="; ".join(parts) + ".")


def trends(limits: GridLimits, cells: Sequence[CellFact]) -> list[Trend]:
    """The throughput of each kind of cell, and each time that its class has a limit for."""
    seen = _seen(limits, cells)
    alpha = ALPHA / max(1, len(seen))
    return [_trend(what, windows, alpha) for what, windows in seen.items()]


def over_repeats(cells: Sequence[CellFact]) -> str:
    """What stands in where windows are short: the throughput of repeats that ran one after the other. Empty of fewer than
    three or with too few answers, and where a line through them moves by more than a drift's share."""
    by_kind: dict[str, list[CellFact]] = {}
    for cell in cells:
        by_kind.setdefault(cell.class_name, []).append(cell)
    told = []
    for name, repeats in by_kind.items():
        change = _change(
            [one.summary for one in sorted(repeats, key=lambda one: one.repeat) if one.summary is not None]
        )
        if change is None:
            return ""
        told.append(f"{per_cent(change, sign=True)} for {_kind(name)} over {len(repeats)}")
    return f"Throughput from the first repeat to the last: {', '.join(told)}." if told else ""


def _change(repeats: Sequence[CellSummary]) -> float | None:
    """Of a straight line through the repeats, from first to last, as a share of their mean; None where it cannot stand in."""
    k, answered = len(repeats), [sum(part.success.hits for part in one.classes) for one in repeats]
    rates = [one.completed_per_s for one in repeats if one.completed_per_s]
    if k < LEAST_REPEATS or len(rates) < k or sum(answered) < LEAST_ANSWERS:
        return None
    mean, middle = sum(rates) / k, (k - 1) / 2
    slope = sum((i - middle) * rate for i, rate in enumerate(rates)) / sum((i - middle) ** 2 for i in range(k))
    change = slope * (k - 1) / mean
    return change if abs(change) <= DRIFT_SHARE else None


def _seen(limits: GridLimits, cells: Sequence[CellFact]) -> Mapping[str, list[Steadiness]]:
    found: dict[str, list[Steadiness]] = {}
    for cell in cells:
        if cell.summary is None:
            continue
        if rate := cell.summary.steadiness.get(RATE):
            found.setdefault(f"throughput of {_kind(cell.class_name)}", []).append(rate)
        for part in cell.summary.classes:
            asked = limits.classes.get(part.class_name, ClassLimits())
            mixed = " in the mix" if cell.class_name == MIXED else ""
            for name, words in MEASURES.items():
                if getattr(asked, name) is not None and (one := part.steadiness.get(name)):
                    found.setdefault(f"{words} of {part.class_name}{mixed}", []).append(one)
    return found


def _kind(class_name: str) -> str:
    return "the mix" if class_name == MIXED else class_name


def _trend(what: str, windows: Sequence[Steadiness], alpha: float) -> Trend:
    long = [one for one in windows if one.verdict != Steady.TOO_SHORT]
    if not long:
        return Trend(what=what, word=Steady.TOO_SHORT, moved=0, windows=0)
    most = max(MOVED, key=lambda word: sum(one.verdict == word for one in long))
    moved = sum(one.verdict == most for one in long)
    changes = [one.change_share for one in long if one.change_share is not None]
    change = sum(changes) / len(changes) if changes else None
    beyond = 2 * moved > len(long) and _chance(long) <= alpha
    word = most if beyond else Steady.STEADY
    return Trend(what=what, word=word, moved=moved, windows=len(long), change_share=change)


def _chance(windows: Sequence[Steadiness]) -> float:
    """How often steady windows would show a mean trend this large. The change over a window of n equal blocks with
    residual standard deviation s has the standard error s sqrt(12 n / (n^2 - 1)), that of a straight line's. 0 where the
    shares are not told, as of a measure whose middle is 0: the engine's word then stands alone."""
    told = [(one.change_share, one.residual_sd_share, one.blocks) for one in windows]
    known = [(change, sd, n) for change, sd, n in told if change is not None and sd is not None and n > 2]
    if len(known) < len(windows):
        return 0.0
    variance = sum(sd * sd * 12 * n / (n * n - 1) for _, sd, n in known)
    if variance <= 0:
        return 0.0
    t = abs(sum(change for change, _, _ in known)) / math.sqrt(variance)
    return 2 * (1 - t_cdf(t, sum(n - 2 for _, _, n in known)))


def _moving(one: Trend) -> str:
    verb = "drifts" if one.word == Steady.DRIFTING else "still settles"
    how = "" if one.change_share is None else f": {per_cent(one.change_share, sign=True)} over the window on average"
    text = f"{one.what} {verb} in {one.moved} of {one.windows} {'window' if one.windows == 1 else 'windows'}{how}."
    return text[0].upper() + text[1:]


def _remedy(bad: Sequence[Trend]) -> str:
    if all(one.word == Steady.SETTLING for one in bad):
        return "Give it a longer warm-up and measure again."
    return "Find what changes while it runs (heat, power, memory that fills, another load), and measure again."
