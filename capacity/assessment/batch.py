"""A static batch held to its window: when it is done, with its bound, and what an outage would leave.

The time an item takes is that of each measured run, its makespan over the items that ended in it; the batch takes so many
times as long. The night to come is one more run like those measured, so its bound is that of a single further value:
mean + t(k - 1, 95 %) x s x sqrt(1 + 1 / k), one-sided, over k runs. One run alone has no spread: it is indicative.

While there is no power nothing runs. Afterwards each lane asks again for what was under way, at most one batch: the ledger
knows all the rest. A runtime that has to load its model first makes the outage so much longer.

Interactive limits do not count here, nor KV preemptions, whose cost is in the time; the host's safety does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, sqrt
from statistics import fmean, stdev

import msgspec
from msgspec.structs import replace

from benchmarks.engine.plan import BatchTerms
from benchmarks.engine.summary_types import StaticBatchSummary
from benchmarks.stats.estimates import Interval
from benchmarks.stats.student import t_quantile
from capacity.assessment import accounting, clock, gates, latency, terms_words
from capacity.assessment.answer import Answer
from capacity.assessment.batch_types import BatchRow, BatchVerdict
from capacity.assessment.facts import MEASURED, MIXED, CellFact, GridFacts
from capacity.assessment.verdict import Gate

ONE_SIDED = 0.95
ENOUGH_RUNS = 3
MOST_RUNS = 20
FAR_BEYOND = 10.0
BOUND_WORDS = "one-sided 95 % bound for one more run, Student's t"
NOT_SET = (
    "Set when the batch must be done: the objective has no window, items and latest finish, so the time for all is measured "
    "and held to nothing."
)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One repeat: seconds an item of the mix, items that ended, how often it went on after an interruption."""

    item_s: float
    items: int
    resumed: int


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds an item over `runs`: mean, spread, and the bound for one more run; both None after one."""

    item_s: float
    runs: int
    spread_s: float | None = None
    bound_s: float | None = None


def batch(facts: GridFacts, power: str = "") -> BatchVerdict:
    """The verdict on a grid of static batches. `power` is the source that it was measured on; empty where not recorded."""
    terms = facts.terms.batch
    if terms is None:
        return BatchVerdict(answer=Answer.NOT_TESTED, words=NOT_SET)
    rows = tuple(row_of(facts, terms, setting, power) for setting in sorted(set(facts.setting_values)))
    holding = [row for row in rows if row.answer == Answer.HOLDS]
    ended = [row for row in rows if row.finish_s.value is not None]
    shown = next((row for row in holding if not row.indicative), None) or next(iter(holding), None)
    if shown is None and ended:
        shown = min(ended, key=lambda row: row.stated_finish_s.value or 0.0)
    answer = Answer.HOLDS if holding else Answer.NOT_TESTED
    if rows and all(row.answer == Answer.FAILS for row in rows):
        answer = Answer.FAILS
    blank = BatchVerdict(
        answer=answer, words="", allowed_s=float(clock.allowed_s(terms)), rows=rows, asked=terms_words.batch(terms),
        latest_finish=terms.latest_finish, outage_s=terms.outage_s, cautions=_cautions(facts, terms, shown, power),
    )  # fmt: skip
    if shown is None:
        why = rows[0].words if rows else "No batch size was planned."
        return replace(blank, heading="When the batch would be done is not measured", words=why)
    return replace(
        blank, heading=_heading(answer, shown, terms), words=shown.words, setting=shown.setting, finish_s=shown.finish_s,
        stated_finish_s=shown.stated_finish_s, items_left=shown.stated_items_left, restarts=shown.restarts,
        indicative=shown.indicative and answer == Answer.HOLDS, needs=shown.needs,
    )  # fmt: skip


def row_of(facts: GridFacts, terms: BatchTerms, setting: int, power: str = "") -> BatchRow:
    """One batch size: when all items are done, and whether that is in time, safely."""
    cells = facts.at(setting)
    checked = safety(facts, cells)
    blank = BatchRow(
        setting=setting, answer=Answer.NOT_TESTED, words="", start=terms.window_start,
        cells=tuple(cell.cell_id for cell in cells if cell.summary is not None),
    )  # fmt: skip
    found = runs(facts, cells)
    if not found:
        return _untimed(blank, checked, cells)
    timed = _timed(blank, terms, pace(found), in_flight(cells, terms))
    timed = replace(
        timed,
        restarts=sum(_resumed(cells)),
        interactive=tuple(
            gate.reason for gate in latency.gates(facts.limits, _measured(cells)) if gate.answer == Answer.FAILS
        ),
    )
    return _judged(timed, terms, pace(found), checked, power)


def safety(facts: GridFacts, cells: Sequence[CellFact]) -> list[Gate]:
    """What a batch must keep whenever it is done: items done and right, and the host safe."""
    measured = _measured(cells)
    complete = gates.completeness(cells, all_of_it=True)
    if not measured:
        return [complete]
    return [
        complete, gates.success(facts, measured), gates.validity(facts, measured), gates.vram(facts, measured),
        gates.host_memory(measured), gates.temperature(facts, measured), *gates.power(facts, measured),
        accounting.conservation(measured), accounting.prompts(measured),
    ]  # fmt: skip


def runs(facts: GridFacts, cells: Sequence[CellFact]) -> list[Run]:
    """Each repeat that has all its classes, an item of the mix by their weights. Those that were interrupted are left out
    where others were not: the interruption is in their time."""
    names = (MIXED,) if MIXED in facts.class_names else facts.class_names
    weights = {name: 1.0 if name == MIXED else facts.class_weights.get(name, 0.0) for name in names}
    total = sum(weights.values())
    found: list[Run] = []
    for repeat in sorted({cell.repeat for cell in cells}):
        parts = {c.class_name: part for c in cells if c.repeat == repeat and (part := _ended(c)) is not None}
        if total > 0 and all(name in parts for name in names):
            item_s = sum(weights[name] / total * _item_s(parts[name]) for name in names)
            items = sum(parts[name].done + parts[name].failed for name in names)
            found.append(Run(item_s=item_s, items=items, resumed=sum(parts[name].resumed for name in names)))
    return [run for run in found if not run.resumed] or found


def pace(found: Sequence[Run]) -> Pace:
    """Raises ValueError (statistics.StatisticsError) without a run."""
    times = [run.item_s for run in found]
    k, mean = len(times), fmean(times)
    if k < 2:
        return Pace(item_s=mean, runs=k)
    spread = stdev(times)
    return Pace(
        item_s=mean, runs=k, spread_s=spread, bound_s=mean + t_quantile(k - 1, ONE_SIDED) * spread * sqrt(1 + 1 / k)
    )


def in_flight(cells: Sequence[CellFact], terms: BatchTerms) -> int:
    """Items that an outage can leave half done: one batch of each lane, and never more than there are."""
    return min(terms.items, max(c.setting * c.summary.offered_concurrency for c in cells if c.summary is not None))


def more_runs(spread_s: float, margin_s: float, k: int) -> int | None:
    """How many more runs of that spread would bring the bound within the margin; None where no number below 20 does."""
    for wanted in range(k + 1, MOST_RUNS + 1):
        if t_quantile(wanted - 1, ONE_SIDED) * spread_s * sqrt(1 + 1 / wanted) <= margin_s:
            return wanted - k
    return None


def _untimed(blank: BatchRow, checked: Sequence[Gate], cells: Sequence[CellFact]) -> BatchRow:
    """No run of it ended with all its items: a failure where one was stopped, else not tested."""
    wrong = next((gate for gate in checked if gate.answer == Answer.FAILS), None)
    left = [c.summary.static_batch for c in cells if c.summary is not None and c.summary.static_batch is not None]
    words = wrong.reason if wrong else _first(checked) or "No run of this batch size has ended."
    words += "".join(f" {part.open:,} of {part.items:,} items were not begun." for part in left if part.open)
    remedy = "Go on with it, or run it again: the ledger knows what is done." if left else "Run the missing cells."
    return replace(blank, answer=Answer.FAILS if wrong else Answer.NOT_TESTED, words=words, remedy=remedy)


def _timed(blank: BatchRow, terms: BatchTerms, found: Pace, again: int) -> BatchRow:
    allowed_s, worst_s = float(clock.allowed_s(terms)), found.bound_s or found.item_s
    outage_s = terms.outage_s
    lost = again if outage_s else 0
    finish = _until(found, terms.items, 0.0)
    stated = _until(found, terms.items + lost, outage_s)
    slack_s = allowed_s - (stated.upper or stated.value or 0.0)
    return replace(
        blank,
        runs=found.runs,
        items_per_s=Interval(
            value=1 / found.item_s, lower=1 / worst_s if found.bound_s else None, n=found.runs, how=BOUND_WORDS
        ),
        finish_s=finish,
        stated_finish_s=stated,
        items_left=max(0, terms.items - floor(allowed_s / worst_s)),
        stated_items_left=min(terms.items, max(0, terms.items + lost - floor((allowed_s - outage_s) / worst_s))),
        done_again=again,
        restarts_left=max(0, floor(slack_s / (outage_s + again * worst_s))),
    )


def _until(found: Pace, items: int, outage_s: float) -> Interval:
    upper = None if found.bound_s is None else items * found.bound_s + outage_s
    return Interval(value=items * found.item_s + outage_s, upper=upper, n=found.runs, how=BOUND_WORDS)


def _judged(row: BatchRow, terms: BatchTerms, found: Pace, checked: Sequence[Gate], power: str) -> BatchRow:
    """By what blocks it, then by the clock, then by how well the clock is known."""
    words = _time_words(row, terms)
    for answer in (Answer.FAILS, Answer.NOT_TESTED):
        wrong = next((gate for gate in checked if gate.answer == answer), None)
        if wrong is not None:
            return replace(row, answer=answer, words=f"{wrong.reason} {words}", remedy=wrong.remedy)
    value, upper = row.stated_finish_s.value or 0.0, row.stated_finish_s.upper
    allowed_s = float(clock.allowed_s(terms))
    if value > allowed_s:
        return replace(row, answer=Answer.FAILS, words=f"{words} {_late(row, terms)}", remedy=_faster(terms))
    if power and power != terms.power_expected:
        where = f"Measured on {on(power)}, and the window is expected on {on(terms.power_expected)}: clocks may differ."
        remedy = f"Measure it on {on(terms.power_expected)}, or correct the objective."
        return replace(row, words=f"{words} {where}", remedy=remedy)
    doubts = [gate for gate in checked if gate.indicative]
    if upper is None or upper > allowed_s:
        return _unproved(row, terms, found, words)
    if doubts:
        words = f"{words} {doubts[0].reason}"
    return replace(row, answer=Answer.HOLDS, words=words, indicative=bool(doubts))


def _unproved(row: BatchRow, terms: BatchTerms, found: Pace, words: str) -> BatchRow:
    """In time by what was measured, and not yet by its bound."""
    remedy = "Draw the grid again with more repeats, or let a run hold more items."
    needs: int | None = ENOUGH_RUNS - found.runs
    if found.spread_s is not None:
        per_item_s = (clock.allowed_s(terms) - terms.outage_s) / (
            terms.items + (row.done_again if terms.outage_s else 0)
        )
        needs = more_runs(found.spread_s, per_item_s - found.item_s, found.runs)
    if needs is None and found.runs >= ENOUGH_RUNS:
        late = f"The runs differ so much that more than one night in twenty may end after {terms.latest_finish}."
        return replace(row, answer=Answer.FAILS, words=f"{words} {late}", remedy=_faster(terms))
    needs = max(needs or 1, 1)
    more = f"Indicative: needs {needs} more {'run' if needs == 1 else 'runs'} to be sure of {terms.latest_finish}."
    return replace(row, answer=Answer.HOLDS, words=f"{words} {more}", indicative=True, needs=needs, remedy=remedy)


def _time_words(row: BatchRow, terms: BatchTerms) -> str:
    """ "20,000 items are done by 04:12, at the latest by 04:40 (95 %, 3 runs), of 05:30 allowed." """
    bound = f", at the latest by {row.latest} (95 %, {row.runs} runs)" if row.latest else " (1 run)"
    took = clock.span_words(row.finish_s.value or 0.0)
    words = f"{terms.items:,} items are done by {row.finish}, {took} after the start{bound}; {terms.latest_finish} is allowed."
    if not terms.outage_s:
        return words
    bound = f", at the latest by {row.stated_latest}" if row.stated_latest else ""
    again = "1 item" if row.done_again == 1 else f"{row.done_again:,} items"
    return (
        f"{words} With {clock.span_words(terms.outage_s)} without power and {again} done again: by "
        f"{row.stated_finish}{bound}."
    )


def _late(row: BatchRow, terms: BatchTerms) -> str:
    in_time = not row.items_left and terms.outage_s
    what = "It is done in time only without the outage" if in_time else "It is not done in time"
    return f"{what}: {row.stated_items_left:,} of {terms.items:,} items are left at {terms.latest_finish}."


def _faster(terms: BatchTerms) -> str:
    longer = ", or a UPS that outlasts the outage" if terms.outage_s else ""
    return f"Try a larger batch size or more batches beside each other, fewer items a night, a longer window{longer}."


def _heading(answer: Answer, row: BatchRow, terms: BatchTerms) -> str:
    size = f"Batches of {row.setting:,}"
    by = (row.stated_latest or row.stated_finish) if answer == Answer.HOLDS else row.stated_finish
    if answer == Answer.HOLDS:
        return f"{size}: done by {by}, in time for {terms.latest_finish}"
    if answer == Answer.FAILS:
        return f"No batch size is done by {terms.latest_finish} safely"
    return f"Whether the batch is done by {terms.latest_finish} is not tested"


def _cautions(facts: GridFacts, terms: BatchTerms, shown: BatchRow | None, power: str) -> tuple[str, ...]:
    found = []
    if not power:
        found.append("On which power this was measured is not recorded; record the conditions before and after.")
    if shown is None:
        return tuple(found)
    measured = min((run.items for run in runs(facts, facts.at(shown.setting))), default=0)
    if measured and terms.items > FAR_BEYOND * measured:
        found.append(
            f"Runs of {measured:,} items stand for {terms.items:,}: the heat of a whole night and other work on the host are not "
            "in them. Measure a longer run before relying on it."
        )
    if shown.restarts:
        kept = [run for run in runs(facts, facts.at(shown.setting)) if run.resumed]
        what = "its interruption is in the time above" if kept else "only runs without one are in the time above"
        found.append(f"The measured runs were interrupted and went on {_times(shown.restarts)}; {what}.")
    slowed = [
        c for c in _measured(facts.at(shown.setting)) if c.summary is not None and c.summary.client.client_limited
    ]
    if slowed:
        found.append(
            f"The load client was the bottleneck in {len(slowed)} of {len(shown.cells)} runs: the server alone may be faster."
        )
    if shown.interactive and shown.answer == Answer.HOLDS:
        found.append(
            f"Interactive work would refuse batches of {shown.setting:,}: {shown.interactive[0]} The batch may take them, in a "
            "lane of its own, because nobody waits for one item and all of them are done in the window."
        )
    return tuple(found)


def _measured(cells: Sequence[CellFact]) -> list[CellFact]:
    return [cell for cell in cells if cell.summary is not None]


def _ended(cell: CellFact) -> StaticBatchSummary | None:
    """Of a run whose items have all ended, done or failed."""
    found = cell.summary.static_batch if cell.summary is not None and cell.status == MEASURED else None
    if found is None or found.open or not found.makespan_s or not found.done + found.failed:
        return None
    return found


def _item_s(found: StaticBatchSummary) -> float:
    return (found.makespan_s or 0.0) / (found.done + found.failed)


def _resumed(cells: Sequence[CellFact]) -> list[int]:
    return [
        c.summary.static_batch.resumed for c in cells if c.summary is not None and c.summary.static_batch is not None
    ]


def _first(checked: Sequence[Gate]) -> str:
    return next((gate.reason for gate in checked if gate.blocks), "")


def on(power: str) -> str:
    """A source of power in words."""
    return terms_words.POWER_WORDS.get(power, power)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
