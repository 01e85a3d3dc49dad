"""The gates of one setting besides latency: was it measured, may that be believed, and did the host stay safe."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary, Gauge
from benchmarks.engine.terms import Outcome
from benchmarks.stats.estimates import Share
from benchmarks.stats.per_cent import per_cent
from benchmarks.stats.quantiles import GATE_ALPHA, binomial_at_most, needed_for_bound
from capacity.assessment import accounting, latency
from capacity.assessment.facts import (
    HOST_RAM_SHARE,
    HOST_RAM_TOTAL,
    HOST_RAM_USED,
    MEASURED,
    POWER,
    PREEMPTIONS,
    RUNTIME_RAM,
    TEMPERATURE,
    VRAM_SHARE,
    VRAM_TOTAL,
    VRAM_USED,
    CellFact,
    GridFacts,
)
from capacity.assessment.verdict import Answer, Gate, Memory

MAX_HOST_MEMORY_SHARE = 0.90
GUARD = "guard:"
"""How the engine begins its reason where the guard ended a window: a result, which no other stop is."""
NO_FAILURE = frozenset({Outcome.OK, Outcome.REJECTED, Outcome.CANCELLED, Outcome.UNFINISHED})
"""Outcomes that no overflow of the KV cache can be behind."""
GIB = 1024.0**3
BY_CONSTRUCTION = "Judged by construction: the right number of words, all of the vocabulary."


def gates_of(facts: GridFacts, cells: Sequence[CellFact]) -> list[Gate]:
    """Every gate of one setting, latency first."""
    measured = [cell for cell in cells if cell.summary is not None]
    complete = completeness(cells)
    if not measured:
        return [complete]
    return [
        *latency.gates(facts.limits, measured),
        success(facts, measured),
        validity(facts, measured),
        vram(facts, measured),
        host_memory(measured),
        temperature(facts, measured),
        *power(facts, measured),
        preemptions(measured, facts.memory.substitute),
        complete,
        accounting.conservation(measured),
        accounting.prompts(measured),
        client(measured),
    ]


def completeness(cells: Sequence[CellFact], *, all_of_it: bool = False) -> Gate:
    """Every planned cell ran to the end of its window. What the guard ended failed; what a person, the authorisation or a
    lost target ended was not tested, unless `all_of_it` had to be done.
    """
    blank = Gate(key="complete", title="Window complete", answer=Answer.NOT_TESTED, reason="", cells=_ids(cells))
    if not cells:
        return replace(blank, reason="No cell was planned at this setting.")
    stopped = [c for c in cells if c.status == "stopped" or (c.summary is not None and not c.summary.complete)]
    if stopped:
        by_guard = [cell for cell in stopped if any(end.startswith(GUARD) for end in _ends(cell))]
        why = next(filter(None, _ends((by_guard or stopped)[0])), "no reason recorded").rstrip(".")
        reason = f"{len(stopped)} of {_cells(len(cells))} stopped before the end of the window: {why}."
        if not (by_guard or all_of_it):
            return replace(blank, reason=reason, remedy="Run the stopped cells again.")
        remedy = "See what stopped it; a guard that stops a stage is a result."
        return replace(blank, answer=Answer.FAILS, reason=reason, remedy=remedy)
    missing = [c for c in cells if c.status != MEASURED or c.summary is None]
    if missing:
        why = next((c.reason for c in missing if c.reason), "")
        reason = f"{len(missing)} of {_cells(len(cells))} not measured" + (f": {why}" if why else "")
        return replace(blank, reason=reason.rstrip(".") + ".", remedy="Run the missing cells.")
    return replace(blank, answer=Answer.HOLDS, reason=f"{_cells(len(cells))} ran to the end.")


def _ends(cell: CellFact) -> tuple[str, str]:
    """Why it ended, as the cell and as the engine says it."""
    return cell.reason, cell.summary.end_reason if cell.summary is not None else ""


def success(facts: GridFacts, cells: Sequence[CellFact]) -> Gate:
    """The share of scheduled requests that ended ok, pooled over the repeats of each class; the worst class decides."""
    return _share(
        _asked("success", "Success share", "No request was scheduled.", cells),
        [(c.class_name, c.success) for s in _summaries(cells) for c in s.classes],
        limit=facts.limits.success_share,
        what="scheduled requests succeeded",
    )


def validity(facts: GridFacts, cells: Sequence[CellFact]) -> Gate:
    summaries = _summaries(cells)
    constructed = facts.validity_by_construction or any(s.validity_by_construction for s in summaries)
    gate = _share(
        _asked("validity", "Answer validity", "No answer was validated.", cells),
        [(c.class_name, c.valid) for s in summaries for c in s.classes],
        limit=facts.limits.validity_share,
        what="answers were valid",
    )
    if not constructed:
        return gate
    return replace(gate, reason=f"{gate.reason} {BY_CONSTRUCTION}")


def _asked(key: str, title: str, reason: str, cells: Sequence[CellFact]) -> Gate:
    return Gate(key=key, title=title, answer=Answer.NOT_TESTED, reason=reason, cells=_ids(cells))


def _share(blank: Gate, parts: Sequence[tuple[str, Share]], *, limit: float, what: str) -> Gate:
    by_class: dict[str, tuple[int, int]] = {}
    for name, share in parts:
        hits, n = by_class.get(name, (0, 0))
        by_class[name] = (hits + share.hits, n + share.n)
    known = {name: pair for name, pair in by_class.items() if pair[1]}
    if not known:
        return blank
    worst = min(known, key=lambda name: known[name][0] / known[name][1])
    if known[worst][0] / known[worst][1] < limit:
        remedy = "See the outcomes of this cell; keep fewer requests in flight."
        return replace(blank, answer=Answer.FAILS, reason=_share_words(worst, known[worst], limit, what), remedy=remedy)
    needs = {name: _needs(hits, n, limit) for name, (hits, n) in known.items()}
    unproved = [name for name, more in needs.items() if more != 0]
    if not unproved:
        return replace(blank, answer=Answer.HOLDS, reason=_share_words(worst, known[worst], limit, what))
    weakest = max(unproved, key=lambda name: needs[name] or 0)
    most = needs[weakest] or 0
    proof = f"needs {most} more" if most else "no number of requests proves 100 %"
    words = f"{_share_words(weakest, known[weakest], limit, what)[:-1]}: indicative, {proof}."
    return replace(blank, answer=Answer.HOLDS, reason=words, indicative=True, needs=most)


def _share_words(name: str, pair: tuple[int, int], limit: float, what: str) -> str:
    share = per_cent(pair[0] / pair[1], 1)
    return f"{pair[0]} of {pair[1]} {what} in {name}, {share}; at least {per_cent(limit, 1)} is asked."


def _needs(hits: int, n: int, share: float) -> int | None:
    """Requests missing for a proof of `share` (one-sided, alpha 5 %); 0 when proved, None when nothing can prove it."""
    if share <= 0:
        return 0
    if share >= 1:
        return None
    if binomial_at_most(n - hits, n, 1 - share) <= GATE_ALPHA:
        return 0
    return needed_for_bound(share, n - hits) - n


def vram(facts: GridFacts, cells: Sequence[CellFact]) -> Gate:
    blank = Gate(key="vram", title="VRAM share", answer=Answer.NOT_REPORTED, reason="", cells=_ids(cells))
    share = vram_share(facts, cells)
    limit = facts.limits.max_vram_share
    if share is not None:
        return _below(
            blank,
            share * 100,
            limit * 100,
            "Peak VRAM was {} %",
            remedy="Keep fewer sequences active, or shorten the context.",
        )
    if facts.has_gpu is False:
        return replace(blank, answer=Answer.NOT_APPLICABLE, reason="This host has no GPU.")
    resident = peak(cells, RUNTIME_RAM)
    return replace(
        blank,
        reason=f"Nothing reported VRAM.{_why(cells, VRAM_USED)}",
        substitute=f"Host RAM of the runtime, {resident / GIB:.2f} GiB at its peak." if resident else "",
        remedy="Give the runtime a GPU metrics address, or run the worker on the GPU host.",
    )


def host_memory(cells: Sequence[CellFact]) -> Gate:
    blank = Gate(key="host memory", title="Host memory", answer=Answer.NOT_REPORTED, reason="", cells=_ids(cells))
    share = peak(cells, HOST_RAM_SHARE)
    used, total = peak(cells, HOST_RAM_USED), peak(cells, HOST_RAM_TOTAL)
    if share is None and used is not None and total:
        share = used / total
    if share is None:
        return replace(blank, reason=f"Nothing reported host memory.{_why(cells, HOST_RAM_USED)}")
    return _below(
        blank, share * 100, MAX_HOST_MEMORY_SHARE * 100, "Peak host memory was {} %", remedy="Free memory on the host."
    )


def temperature(facts: GridFacts, cells: Sequence[CellFact]) -> Gate:
    blank = Gate(key="temperature", title="GPU temperature", answer=Answer.NOT_REPORTED, reason="", cells=_ids(cells))
    hottest = peak(cells, TEMPERATURE)
    if hottest is not None:
        return _below(
            blank,
            hottest,
            facts.limits.max_temperature_c,
            "Peak GPU temperature was {} °C",
            remedy="Cool the room or lower the power cap.",
        )
    if facts.has_gpu is False:
        return replace(blank, answer=Answer.NOT_APPLICABLE, reason="This host has no GPU.")
    return replace(blank, reason=f"Nothing reported a GPU temperature.{_why(cells, TEMPERATURE)}")


def power(facts: GridFacts, cells: Sequence[CellFact]) -> list[Gate]:
    """Of each card, as the guard holds it; no gate where the objective has no limit."""
    limit = facts.limits.max_power_w
    if limit is None:
        return []
    blank = Gate(key="power", title="GPU power", answer=Answer.NOT_REPORTED, reason="", cells=_ids(cells))
    most = peak(cells, POWER)
    if most is not None:
        return [
            _below(blank, most, limit, "Peak GPU power was {} W", remedy="Set a power cap, or keep fewer in flight.")
        ]
    if facts.has_gpu is False:
        return [replace(blank, answer=Answer.NOT_APPLICABLE, reason="This host has no GPU.")]
    return [replace(blank, reason=f"Nothing reported a GPU's power.{_why(cells, POWER)}")]


def preemptions(cells: Sequence[CellFact], told_by: str = "") -> Gate:
    """The counter must not move in any window. `told_by` says by what an overflow shows where the runtime counts none;
    that stands in only where no request failed, for else it may have been one."""
    blank = Gate(key="preemptions", title="KV preemptions", answer=Answer.NOT_REPORTED, reason="", cells=_ids(cells))
    found = [g for s in _summaries(cells) for g in s.gauges if g.name == PREEMPTIONS]
    moved = sum(_preempted(summary) for summary in _summaries(cells))
    if not found or math.isnan(moved):
        reason = f"The runtime reports no preemptions.{_why(cells, PREEMPTIONS)}"
        return replace(blank, reason=reason, substitute=_no_overflow(cells, told_by))
    if moved > 0:
        many = "1 running sequence" if round(moved) == 1 else f"{moved:.0f} running sequences"
        reason = f"The runtime took the KV cache away from {many}."
        return replace(
            blank,
            answer=Answer.FAILS,
            reason=reason,
            remedy="Keep fewer sequences active, or give the KV cache more room.",
        )
    return replace(blank, answer=Answer.HOLDS, reason="No sequence lost its KV cache.")


def _no_overflow(cells: Sequence[CellFact], told_by: str) -> str:
    outcomes = [pair for s in _summaries(cells) for pair in s.outcomes.items()]
    failed = sum(count for name, count in outcomes if name not in NO_FAILURE)
    return f"{told_by} None of {sum(count for _, count in outcomes)} requests failed." if told_by and not failed else ""


def _preempted(summary: CellSummary) -> float:
    """By the counter, whose reset is no preemption; older summaries have only its lowest and highest value."""
    counted = summary.counted(PREEMPTIONS)
    if counted is not None:
        return counted
    return sum(g.peak - g.low for g in summary.gauges if g.name == PREEMPTIONS)


def client(cells: Sequence[CellFact]) -> Gate:
    blank = Gate(key="client", title="Client not the bottleneck", answer=Answer.HOLDS, reason="", cells=_ids(cells))
    limited = [c for c in cells if c.summary and c.summary.client.client_limited]
    if limited:
        why = limited[0].summary.client.why if limited[0].summary else ""
        reason = f"The client limited {_cells(len(limited))}: {why or 'no reason recorded'}."
        return replace(
            blank,
            answer=Answer.FAILS,
            reason=reason,
            remedy="Give the client its own cores or its own host.",
            cells=_ids(limited),
        )
    lags = [s.client.loop_lag_p99_ms for s in _summaries(cells) if s.client.loop_lag_p99_ms is not None]
    if not lags:
        return replace(blank, answer=Answer.NOT_REPORTED, reason="The client recorded no loop lag.")
    return replace(blank, reason=f"Event-loop lag p99 was at most {max(lags):,.1f} ms.")


def memory_of(facts: GridFacts, cells: Sequence[CellFact]) -> Memory:
    """Peak VRAM of a setting, else the runtime's host RAM, else words."""
    used = peak(cells, VRAM_USED)
    if used is not None:
        total = peak(cells, VRAM_TOTAL) or facts.vram_total_bytes
        limit = total * facts.limits.max_vram_share if total else None
        return Memory(words="Peak VRAM", peak_bytes=used, limit_bytes=limit, is_vram=True)
    resident = peak(cells, RUNTIME_RAM)
    no_gpu = "no GPU on this host" if facts.has_gpu is False else "VRAM not reported"
    if resident is not None:
        return Memory(words=f"Peak host RAM of the runtime ({no_gpu})", peak_bytes=resident)
    if not any(c.summary for c in cells):
        return Memory(words="Not measured")
    return Memory(words=f"Memory not reported ({no_gpu})")


def vram_share(facts: GridFacts, cells: Sequence[CellFact]) -> float | None:
    """Highest share over all devices and cells; None where use or total is unknown, or one is no number."""
    shares = [peak(cells, VRAM_SHARE)]
    for summary in _summaries(cells):
        totals = {g.device: g.peak for g in summary.gauges if g.name == VRAM_TOTAL}
        for used in (g for g in summary.gauges if g.name == VRAM_USED):
            total = totals.get(used.device) or facts.vram_total_bytes
            shares.append(used.peak / total if total else None)
    return _highest(share for share in shares if share is not None)


def peak(cells: Sequence[CellFact], name: str) -> float | None:
    """Highest peak of a gauge over cells; None when none reported it, or one told what is no number."""
    found: list[Gauge] = [g for s in _summaries(cells) if (g := s.gauge(name)) is not None]
    return _highest(g.peak for g in found)


def _highest(values: Iterable[float]) -> float | None:
    known = list(values)
    return max(known) if known and all(map(math.isfinite, known)) else None


def _below(blank: Gate, value: float, limit: float, what: str, *, remedy: str) -> Gate:
    unit = what.partition("{}")[2]
    words = f"{what.format(f'{value:,.1f}')}, limit {limit:g}{unit}."
    if value > limit:
        return replace(blank, answer=Answer.FAILS, reason=words, remedy=remedy)
    return replace(blank, answer=Answer.HOLDS, reason=words)


def _why(cells: Sequence[CellFact], name: str) -> str:
    found = next((s.not_reported[name] for s in _summaries(cells) if name in s.not_reported), "")
    return f" {found}" if found else ""


def _summaries(cells: Sequence[CellFact]) -> list[CellSummary]:
    return [cell.summary for cell in cells if cell.summary is not None]


def _ids(cells: Sequence[CellFact]) -> tuple[int, ...]:
    return tuple(cell.cell_id for cell in cells)


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
