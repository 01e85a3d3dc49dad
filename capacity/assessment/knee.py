"""The knee: the lowest safe setting with at least 95 % of the goodput of the safe set's best, by the lower bound of the
paired ratio. Beyond it, more in flight buys waiting, not work.

An interval decides where it is narrow enough to tell 95 % from 100 %. One repeat has none, and few repeats that differ
have a wide one: by the lower bound then only the best itself would ever pass, and the highest setting would win for want
of evidence. So where no lower setting passes by its bound and one that passes by its point ratio could not have passed
by its bound, that one is taken and the choice is *indicative*, with the repeats that it lacks. So is the choice of
the best where the wide interval of a lower setting still reaches 95 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, sqrt

from benchmarks.stats.estimates import Interval
from benchmarks.stats.per_cent import per_cent
from benchmarks.stats.ratios import paired_ratio
from benchmarks.stats.student import t_quantile
from capacity.assessment import rates
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Compared, Knee, SettingRow

KNEE_SHARE = 0.95
EACH_SIDE = 0.05  # decided by one bound alone
STATEMENT_REPEATS, MOST_REPEATS = 3, 20


def knee(facts: GridFacts, safe: Sequence[SettingRow]) -> Knee | None:
    """Which of the safe settings, ascending, is recommended; None where none of them does any work."""
    working = [row for row in safe if row.good.value]
    if not working:
        return None
    best = max(working, key=lambda row: row.good.value or 0.0)
    compared = tuple(_compared(facts, row, best) for row in working if row.setting < best.setting)
    proved = next((one for one in compared if _at_least(one.ratio.lower)), None)
    likely = next((one for one in compared if _at_least(one.ratio.value)), None)
    if proved is not None:
        return Knee(
            setting=proved.setting, best=best.setting, compared=compared, indicative=False, words=_proved(proved, best)
        )
    if likely is not None and not likely.decides:
        words = _likely(likely, best)
        return Knee(
            setting=likely.setting,
            best=best.setting,
            compared=compared,
            indicative=True,
            words=words,
            needs=likely.needs,
        )
    perhaps = next((one for one in compared if not one.decides and _at_least(one.ratio.upper)), None)
    words = _best(best, compared) if perhaps is None else _perhaps(perhaps, best)
    return Knee(
        setting=best.setting, best=best.setting, compared=compared, indicative=perhaps is not None, words=words,
        needs=None if perhaps is None else perhaps.needs,
    )  # fmt: skip


def ratio_of(facts: GridFacts, over: SettingRow, under: SettingRow, *, each_side: float = 0.025) -> Interval:
    """Goodput of the mix at one setting over that at another, by the repeats that both have; of one repeat the ratio
    alone, without bounds: how much runs differ is then not known."""
    first, second = by_repeat(facts, over.setting), by_repeat(facts, under.setting)
    both = [repeat for repeat in sorted(first.keys() & second.keys()) if second[repeat] > 0]
    if len(both) > 1:
        return paired_ratio([first[r] for r in both], [second[r] for r in both], each_side=each_side)
    if over.good.value is None or not under.good.value:
        return Interval()
    return Interval(value=over.good.value / under.good.value, n=1, how="one repeat, so no interval")


def by_repeat(facts: GridFacts, setting: int) -> Mapping[int, float]:
    """Goodput of the mix a minute in each repeat that measured all its classes."""
    cells = facts.at(setting)
    found = {}
    for repeat in sorted({cell.repeat for cell in cells}):
        of_repeat = [cell for cell in cells if cell.repeat == repeat]
        rate = rates.mix_good(of_repeat, facts.class_names, facts.class_weights).value
        if rate is not None:
            found[repeat] = rate
    return found


def _compared(facts: GridFacts, row: SettingRow, best: SettingRow) -> Compared:
    ratio = ratio_of(facts, row, best, each_side=EACH_SIDE)
    if ratio.lower is None or not ratio.value:
        return Compared(setting=row.setting, ratio=ratio, decides=False, needs=STATEMENT_REPEATS - 1)
    decides = ratio.lower >= KNEE_SHARE * ratio.value
    return Compared(setting=row.setting, ratio=ratio, decides=decides, needs=0 if decides else _more_repeats(ratio))


def _more_repeats(ratio: Interval) -> int | None:
    """How many more until an interval of this spread is narrow enough; None beyond the repeats that a grid may have."""
    assert ratio.value
    if not ratio.lower or ratio.n < 2:
        return None
    spread = log(ratio.value / ratio.lower) * sqrt(ratio.n) / t_quantile(ratio.n - 1, 1 - EACH_SIDE)
    for k in range(ratio.n + 1, MOST_REPEATS + 1):
        if t_quantile(k - 1, 1 - EACH_SIDE) * spread / sqrt(k) <= -log(KNEE_SHARE):
            return k - ratio.n
    return None


def _at_least(ratio: float | None) -> bool:
    return ratio is not None and ratio >= KNEE_SHARE


def _proved(one: Compared, best: SettingRow) -> str:
    return (
        f"{one.setting} is the lowest safe setting with at least {per_cent(KNEE_SHARE)} of the most that any safe one does: "
        f"{share(one.ratio)} of what {best.setting} does."
    )


def _likely(one: Compared, best: SettingRow) -> str:
    once = one.ratio.n < 2
    why = "measured once, so how much runs differ is not known" if once else "the repeats differ too much to prove it"
    more = f": it needs {one.needs} more repeat{'s' if one.needs != 1 else ''}" if one.needs else ""
    does = f"{one.setting} does {share(one.ratio)} of what {best.setting} does, where {per_cent(KNEE_SHARE)} is asked"
    return f"Indicative: {does}; {why}{more}."


def _perhaps(one: Compared, best: SettingRow) -> str:
    more = f": it needs {one.needs} more repeat{'s' if one.needs != 1 else ''}" if one.needs else ""
    does = f"{one.setting} does {share(one.ratio)} of what {best.setting} does and may do {per_cent(KNEE_SHARE)} of it"
    return f"Indicative: {does}; the repeats differ too much to tell{more}."


def _best(best: SettingRow, compared: Sequence[Compared]) -> str:
    if not compared:
        return f"No safe setting is lower than {best.setting}."
    near = next((one for one in compared if _at_least(one.ratio.value)), compared[-1])
    not_shown = (
        f", which does not show {per_cent(KNEE_SHARE)}"
        if _at_least(near.ratio.value)
        else f", less than {per_cent(KNEE_SHARE)}"
    )
    return (
        f"{best.setting} does the most of the safe settings; {near.setting} does {share(near.ratio)} of it{not_shown}."
    )


def share(ratio: Interval) -> str:
    """ "97 % (at least 96 %, 3 repeats)"."""
    if ratio.value is None:
        return "an unknown part"
    if ratio.lower is None:
        return per_cent(ratio.value)
    return f"{per_cent(ratio.value)} (at least {per_cent(ratio.lower)}, {ratio.n} repeats)"
