"""The finalist in an open loop: a closed loop has no queue, so its tails are not what users feel.

Only windows that are whole, valid and of the same thing are concluded from. Then every limit of every class is held to the
objective's percentile with 1 % for error, over all repeats together: what a statement may claim. A request that the full
queue refuses is an answer of the overload policy and no success: it counts against the share that must succeed, and as
late in every time. What the chain foretold stands beside what was seen and decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from msgspec.structs import replace

from benchmarks.engine.plan import ClassLimits
from benchmarks.engine.summary_types import CellSummary, ClassSummary
from benchmarks.stats.estimates import Share
from benchmarks.stats.pools import pooled
from benchmarks.stats.quantiles import binomial_at_most, needed_for_bound
from benchmarks.stats.shares import share
from capacity.assessment import accounting, confirm_words, gates, latency, queueing, rates, validity
from capacity.assessment.facts import MIXED, RUNNING, WAITING, CellFact, ConfirmFact, GridFacts
from capacity.assessment.latency import LIMIT_NAMES
from capacity.assessment.next_rate import with_next_rate
from capacity.assessment.verdict import Answer, Check, Claim, Confirmation, Gate, Headroom, QueueCap, SettingRow

ALPHA = 0.01
REJECTED = "rejected"
OF_THE_OTHER_GRID = frozenset({"conditions"})
"""A check that knows the cells of the confirmed grid only; what differs between the two grids is named in the facts."""
NO_OPEN_LOOP = Gate(
    key="open loop", title="", answer=Answer.FAILS,
    reason="These requests did not arrive at their own times, or through no queue cap.",
    remedy="Load it in an open loop, through a bounded queue.",
)  # fmt: skip
UNFINISHED = frozenset({"planned", "queued", "running", "interrupted"})


def confirmation(facts: GridFacts, chosen: SettingRow, room: Headroom, cap: QueueCap | None) -> Confirmation:
    """What the confirming cells say, or what to draw. The newest grid that has run for this setting decides."""
    blank = Confirmation(
        answer=Answer.NOT_TESTED,
        words=confirm_words.NOTHING,
        rate_per_min=cap.arrivals_per_min if cap else room.stated_per_min,
        queue_cap=cap.cap if cap else None,
        next_cell=confirm_words.to_draw(chosen.setting, room, cap),
    )
    drawn = sorted((one for one in facts.confirmations if one.setting == chosen.setting), key=lambda one: -one.grid_id)
    by_grid = [list(cells) for _, cells in groupby(drawn, key=lambda one: one.grid_id)]
    alike = [cells for cells in by_grid if not cells[0].differs]
    ran = next((cells for cells in alike if any(one.summary for one in cells)), None)
    if ran is not None:
        found = _of_grid(facts, chosen, blank, ran)
        older = [cells for cells in alike if cells[0].grid_id < ran[0].grid_id]
        if found.answer == Answer.FAILS or (found.indicative and not found.needs):
            found = with_next_rate(facts, chosen, found, _held(facts, chosen, blank, older))
        return replace(found, earlier=len(older))
    if alike:
        first = alike[0][0]
        return replace(
            blank, words=confirm_words.not_run(first), grid_id=first.grid_id, rate_per_min=first.rate_per_min,
            queue_cap=first.queue_cap, next_cell=confirm_words.to_run(first.grid_id),
        )  # fmt: skip
    if by_grid:
        first = by_grid[0][0]
        return replace(blank, words=confirm_words.differs(first), grid_id=first.grid_id)
    return blank


def _of_grid(facts: GridFacts, chosen: SettingRow, blank: Confirmation, cells: Sequence[ConfirmFact]) -> Confirmation:
    """The highest rate of the grid that holds with every lower one; where none does, the lowest."""
    ordered = sorted(cells, key=lambda one: one.rate_per_min)
    by_rate = [list(group) for _, group in groupby(ordered, key=lambda one: one.rate_per_min)]
    found = [_at_rate(facts, chosen, blank, group) for group in by_rate]
    holding = 0
    while holding < len(found) and found[holding].answer == Answer.HOLDS:
        holding += 1
    return found[max(holding - 1, 0)]


def _held(
    facts: GridFacts, chosen: SettingRow, blank: Confirmation, older: Sequence[Sequence[ConfirmFact]]
) -> float | None:
    """The highest rate that an older open loop held at."""
    found = [_of_grid(facts, chosen, blank, cells) for cells in older]
    return max((one.rate_per_min for one in found if one.answer == Answer.HOLDS and one.rate_per_min), default=None)


def _at_rate(facts: GridFacts, chosen: SettingRow, blank: Confirmation, cells: Sequence[ConfirmFact]) -> Confirmation:
    first, measured = cells[0], [_cell(one) for one in cells if one.summary is not None]
    at = replace(
        blank, grid_id=first.grid_id, rate_per_min=first.rate_per_min, queue_cap=first.queue_cap, setting=first.setting,
        cells=tuple(one.cell_id for one in cells), next_cell=confirm_words.to_run(first.grid_id),
    )  # fmt: skip
    if any(one.status in UNFINISHED for one in cells) or not measured:
        return replace(at, words=confirm_words.unfinished(first, len(measured), len(cells)))
    seen = replace(
        _seen(facts, chosen, at, measured), silent=_silent(facts, measured), recorded=all(one.recorded for one in cells)
    )  # fmt: skip
    seen = replace(seen, in_force=confirm_words.in_force(seen.refused, first.probed))
    whole = gates.completeness([_cell(one) for one in cells])
    if any(cell.summary is not None and cell.summary.end_reason.startswith(gates.GUARD) for cell in measured):
        return replace(seen, answer=Answer.FAILS, words=whole.reason, next_cell=confirm_words.LOWER)
    broken = [whole] if whole.blocks else _broken(facts, first, measured)
    if broken:
        reasons = " ".join(gate.reason for gate in broken)
        remedy = " ".join(dict.fromkeys(gate.remedy for gate in broken if gate.remedy))
        words = f"{confirm_words.INVALID} {reasons}"
        return replace(seen, words=words, next_cell=f"{remedy} {confirm_words.AGAIN}".strip())
    return _concluded(facts, seen, measured)


def _concluded(facts: GridFacts, seen: Confirmation, cells: Sequence[CellFact]) -> Confirmation:
    """Of valid windows: what fails first, then what is not proved yet."""
    bad = [gate for gate in _kept(facts, cells) if gate.answer == Answer.FAILS]
    failed = [gate.reason for gate in bad]
    failed += [confirm_words.claim(one) for one in seen.claims if one.answer == Answer.FAILS]
    figures = confirm_words.figures(seen)
    if failed:
        words = f"{confirm_words.fails(seen)} {' '.join(failed)} {figures}"
        mend = " ".join(dict.fromkeys(gate.remedy for gate in bad if gate.remedy and gate.key != "success"))
        next_cell = f"{mend} {confirm_words.AGAIN}" if mend else confirm_words.LOWER
        return replace(seen, answer=Answer.FAILS, words=words, next_cell=next_cell)
    open_ = [one for one in seen.claims if one.answer != Answer.HOLDS]
    if open_ or not seen.claims:
        needs = max((one.needs for one in open_), default=0)
        words = f"{confirm_words.indicative(seen, needs)} {' '.join(map(confirm_words.claim, open_))} {figures}"
        return replace(seen, words=words, indicative=True, needs=needs, next_cell=confirm_words.longer(open_))
    return replace(seen, answer=Answer.HOLDS, words=f"{confirm_words.holds(seen)} {figures}", next_cell="")


def _kept(facts: GridFacts, cells: Sequence[CellFact]) -> list[Gate]:
    """What a statement needs beside its times: answers there and right, prompts whole, and the host safe meanwhile."""
    return [
        gates.success(facts, cells), gates.validity(facts, cells), accounting.prompts(cells), gates.vram(facts, cells),
        gates.host_memory(cells), gates.temperature(facts, cells), *gates.power(facts, cells), gates.preemptions(cells),
    ]  # fmt: skip


def _seen(facts: GridFacts, chosen: SettingRow, at: Confirmation, cells: Sequence[CellFact]) -> Confirmation:
    """Figures of the windows, whatever they prove."""
    summaries = [cell.summary for cell in cells if cell.summary is not None]
    counted = [pair for s in summaries if (pair := _queue_time(s)) is not None]
    foretold = (
        queueing.predicted(facts, chosen, at.rate_per_min or 0.0, at.queue_cap) if at.queue_cap is not None else None
    )
    return replace(
        at,
        good=rates.good_rate(summaries),
        refused=share(sum(s.outcomes.get(REJECTED, 0) for s in summaries), sum(s.scheduled for s in summaries)),
        accepted=_accepted(summaries),
        classes=tuple(latency.rows(facts.limits, cells)),
        claims=tuple(_claims(facts, summaries)),
        predicted=foretold,
        waiting_mean_s=sum(t for t, _ in counted) / sum(n for _, n in counted) if counted else None,
    )


def _accepted(summaries: Sequence[CellSummary]) -> Share:
    """Success among those that were not refused."""
    refused = sum(s.outcomes.get(REJECTED, 0) for s in summaries)
    return share(
        sum(c.success.hits for s in summaries for c in s.classes), sum(s.scheduled for s in summaries) - refused
    )


def _queue_time(summary: CellSummary) -> tuple[float, float] | None:
    """(seconds waited in the runtime's own queue, requests it counted); None where it reports none."""
    mean_s, count = summary.queue_time_s(), summary.counted("runtime_queue_count_total")
    return (mean_s * count, count) if mean_s is not None and count else None


def _broken(facts: GridFacts, drawn: ConfirmFact, cells: Sequence[CellFact]) -> list[Gate]:
    """What forbids a conclusion from these windows."""
    if drawn.queue_cap is None or any(cell.summary is not None and cell.summary.open_loop is None for cell in cells):
        return [replace(NO_OPEN_LOOP, cells=tuple(cell.cell_id for cell in cells))]
    checks = [check for check in validity.checks(facts, cells) if check.key not in OF_THE_OTHER_GRID]
    bad = [check for check in checks if check.answer == Answer.FAILS]
    found = [
        Gate(key=one.key, title=one.title, answer=one.answer, reason=one.evidence, remedy=one.remedy) for one in bad
    ]
    return [*found, *_not_in_front(drawn, cells)]


def _silent(facts: GridFacts, cells: Sequence[CellFact]) -> tuple[Check, ...]:
    return tuple(
        check for check in validity.checks(facts, cells) if check.caps_grade and check.key not in OF_THE_OTHER_GRID
    )


def _not_in_front(drawn: ConfirmFact, cells: Sequence[CellFact]) -> list[Gate]:
    """More served, waiting or in flight than setting and cap allow: they were not in force, so this is not that setting."""
    summaries = [cell.summary for cell in cells if cell.summary is not None]
    running = max((g.peak for s in summaries if (g := s.gauge(RUNNING)) is not None), default=0.0)
    waiting = max((g.peak for s in summaries if (g := s.gauge(WAITING)) is not None), default=0.0)
    inside = max((s.mean_in_flight for s in summaries if s.mean_in_flight is not None), default=0.0)
    told = []
    if running > drawn.setting:
        told.append(f"The runtime served up to {running:.0f} at once, more than {drawn.setting}.")
    if drawn.queue_cap is not None and waiting > drawn.queue_cap:
        told.append(f"Up to {waiting:.0f} waited in the runtime, more than the cap of {drawn.queue_cap}.")
    if drawn.queue_cap is not None and inside > drawn.setting + drawn.queue_cap:
        most = drawn.setting + drawn.queue_cap
        told.append(f"{inside:,.1f} requests were in flight on average, more than the {most} that may be inside.")
    remedy = confirm_words.in_front(drawn.setting, drawn.queue_cap)
    return [Gate(key="in front", title="", answer=Answer.FAILS, reason=text, remedy=remedy) for text in told]


def _claims(facts: GridFacts, summaries: Sequence[CellSummary]) -> list[Claim]:
    """One for each limit of each class, over all repeats."""
    # Of a class that production sends and nobody met there is nothing to claim.
    parts: dict[str, list[ClassSummary]] = {name: [] for name, weight in facts.class_weights.items() if weight > 0}
    for summary in summaries:
        for part in summary.classes:
            parts.setdefault(part.class_name, []).append(part)
    return [
        _claim(name, key, limit_s, facts.limits.percentile, seen)
        for name, seen in parts.items()
        for key in LIMIT_NAMES
        if (limit_s := getattr(facts.limits.classes.get(name, ClassLimits()), key)) is not None
    ]


def _claim(name: str, key: str, limit_s: float, percentile: float, seen: Sequence[ClassSummary]) -> Claim:
    blank = Claim(
        class_name=name, limit_name=LIMIT_NAMES[key], limit_s=limit_s, percentile=percentile,
        answer=Answer.NOT_TESTED, n=sum(part.scheduled for part in seen),
    )  # fmt: skip
    pools = [part.pools[key] for part in seen if key in part.pools]
    if not pools or len(pools) < len(seen):
        return _by_good(blank, seen)
    found = pooled(pools, percentile / 100, limit_s=limit_s, alpha=ALPHA)
    answer = Answer.FAILS if found.is_over else Answer.HOLDS if found.holds else Answer.NOT_TESTED
    return replace(
        blank,
        answer=answer,
        n=found.estimate.n,
        n_effective=found.n_effective,
        value_s=found.estimate.value,
        bound_s=found.estimate.bound,
        p99_s=pooled(pools, 0.99).estimate.value,
        by=found.by,
        misses=found.misses,
        needs=0 if answer == Answer.FAILS else found.needs,
    )


def _by_good(blank: Claim, seen: Sequence[ClassSummary]) -> Claim:
    """Summaries of an older schema keep no pool: requests that were not good stand in for those over this limit, at least
    as many, so nothing is claimed too early."""
    q, n = blank.percentile / 100, sum(part.good.n for part in seen)
    misses = n - sum(part.good.hits for part in seen)
    if n and misses > (1 - q) * n + 1e-9:
        return replace(blank, answer=Answer.FAILS, n=n, misses=misses)
    if n and binomial_at_most(misses, n, 1 - q) <= ALPHA:
        return replace(blank, answer=Answer.HOLDS, n=n, misses=misses)
    return replace(blank, n=n, misses=misses, needs=needed_for_bound(q, misses, ALPHA) - n)


def _cell(one: ConfirmFact) -> CellFact:
    """As the checks of a window take it."""
    return CellFact(
        cell_id=one.cell_id, setting=one.setting, class_name=MIXED, repeat=one.cell_id, status=one.status,
        reason=one.reason, summary=one.summary,
    )  # fmt: skip


def longer_than_proposed(found: Confirmation, cap: QueueCap | None) -> str:
    """A caution where the open loop ran through a longer queue than leaves the objective; else empty. What it shows at its
    own rate stands."""
    if found.answer != Answer.HOLDS or found.queue_cap is None or cap is None or cap.cap is None:
        return ""
    return confirm_words.longer_queue(found.queue_cap, cap.cap) if found.queue_cap > cap.cap else ""


def predicted_right(found: Confirmation) -> bool | None:
    """Whether the refusals that were seen, with their interval, meet those foretold with theirs; None where one is not
    known."""
    seen, told = found.refused, found.predicted.refused if found.predicted else None
    if (
        seen is None
        or seen.lower is None
        or seen.upper is None
        or told is None
        or told.lower is None
        or told.upper is None
    ):
        return None
    return seen.lower <= told.upper and told.lower <= seen.upper
