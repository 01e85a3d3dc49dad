"""What a statement says beside the comparison of settings, from the judge's verdict: what an open loop confirmed, the
controls, the criteria, the diagnosis and the cells. Rows of the confirming grid are read here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import F

from benchmarks.engine.summary_types import CellSummary
from benchmarks.models import Attempt, Authorization, Grid
from benchmarks.models import Conditions as Recorded
from benchmarks.queries import CellEvidence, GridEvidence, evidence
from benchmarks.records.claims import users_claim
from benchmarks.stats.estimates import Share
from capacity.assessment.choose import stated_at
from capacity.assessment.facts import CellFact, GridFacts
from capacity.assessment.gates import memory_of
from capacity.assessment.verdict import Answer, Confirmation, Headroom, PolicyLine, Rubric, Verdict
from capacity.assessment.verdict import Claim as Judged
from capacity.assessment.verdict import Memory as JudgedMemory
from capacity.statement import document as doc

UNSAID = "What is published counts users, which no measurement shows."
IN_WORDS = {
    "active": "at most {value} requests in flight at the server",
    "queue_cap": "at most {value} more waiting, the next one refused",
    "max_input": "at most {value} tokens in",
    "max_output": "at most {value} tokens out",
    "max_active_tokens": "{value} active tokens in total",
    "request_duration": "{value} a request, then given up",
    "client_rate": "{value} for each client",
    "batch_lane": "batch lane {value}",
    "checkpoint": "batch checkpoint {value}",
    "overload_answer": "overload answered with {value}",
    "client_retry": "client retries: {value}",
}
"""Policy line -> its limit on page one, in the order of a statement; the annex has every line in full."""
NOT_SET = "not set"


@dataclass(frozen=True, slots=True)
class Loop:
    """The stated setting's confirmation, with the evidence of the grid that it ran in."""

    found: Confirmation
    evidence: GridEvidence
    cells: tuple[CellEvidence, ...]


def of_setting(facts: GridFacts, verdict: Verdict, setting: int | None) -> tuple[Headroom | None, Loop | None]:
    """(what may be stated, the open loop that confirmed it); no loop where none did."""
    row = verdict.row(setting)
    if row is None or row.good.value is None:
        return None, None
    room, found = stated_at(facts, row)
    if found.answer != Answer.HOLDS or found.grid_id is None or found.good.value is None:
        return room, None
    grid = Grid.objects.select_related("hardware", "runtime", "workload", "probe").get(pk=found.grid_id)
    of_grid = evidence(grid)
    return room, Loop(found, of_grid, tuple(cell for cell in of_grid.cells if cell.cell_id in found.cells))


def confirmed(facts: GridFacts, loop: Loop, limits: Sequence[doc.Limit]) -> doc.Confirmed:
    """Rate, refusals and tails of the confirming cells."""
    found, grid = loop.found, loop.evidence.grid
    summaries = [cell.summary for cell in loop.cells if cell.summary is not None]
    refused, accepted = found.refused, found.accepted
    if found.rate_per_min is None or found.queue_cap is None or found.good.value is None or not (refused and accepted):
        raise ValueError(f"What grid {grid.pk} confirmed lacks its rate, its queue or what it refused.")
    times = [at for cell in loop.cells for at in (cell.started_at, cell.finished_at) if at is not None]
    first = grid.started_at or grid.drawn_at
    room = next((row for row in loop.evidence.conditions if row.phase == Recorded.Phase.BEFORE), None)
    return doc.Confirmed(
        grid=f"Grid {grid.pk}",
        rate_per_minute=found.rate_per_min,
        queue_cap=found.queue_cap,
        repeats=len({cell.repeat for cell in loop.cells}),
        n=refused.n,
        successful_per_minute=doc.Rate(value=found.good.value, lower=found.good.lower, upper=found.good.upper),
        all_per_minute=_completed(summaries),
        refused=_share(refused),
        accepted=_share(accepted),
        claims=tuple(_claim(found.claims, limit) for limit in limits),
        peak_vram_bytes=vram(_memory(facts, loop)),
        started_at=min(times, default=first),
        ended_at=max(times, default=first),
        authorised=tuple(authorised(loop.evidence.leaves)),
        conditions=conditions(loop.evidence, room) if room else None,
    )


def _share(one: Share) -> doc.Share:
    return doc.Share(hits=one.hits, n=one.n, lower=one.lower, upper=one.upper)


def _completed(summaries: Sequence[CellSummary]) -> float | None:
    """Requests a minute that were answered, over all windows together."""
    known = [(one.completed_per_s, one.window_s) for one in summaries if one.completed_per_s is not None]
    seconds = sum(window for _, window in known)
    if len(known) < len(summaries) or seconds <= 0:
        return None
    return 60 * sum(rate * window for rate, window in known) / seconds


def _claim(claims: Sequence[Judged], limit: doc.Limit) -> doc.Claim:
    one = next((c for c in claims if (c.class_name, c.limit_name) == (limit.class_name, limit.measure)), None)
    if one is None:
        return doc.Claim(n=0, value_s=None, state="not recorded")
    among_failures = one.value_s is not None and not isfinite(one.value_s)
    value_s = _finite(one.value_s)
    return doc.Claim(
        n=one.n,
        value_s=value_s,
        bound_s=_finite(one.bound_s),
        p99_s=_finite(one.p99_s),
        n_effective=one.n_effective,
        misses=one.misses,
        state="measured" if value_s is not None else "among failures" if among_failures else "not recorded",
        holds=True if one.answer == Answer.HOLDS else False if one.answer == Answer.FAILS else None,
    )


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and isfinite(seconds) else None


def _memory(facts: GridFacts, loop: Loop) -> JudgedMemory:
    cells = [
        CellFact(
            cell_id=cell.cell_id, setting=loop.found.setting or cell.setting, class_name=cell.class_name,
            repeat=cell.repeat, status=cell.status, reason=cell.reason, summary=cell.summary,
        )
        for cell in loop.cells
    ]  # fmt: skip
    return memory_of(facts, cells)


def vram(memory: JudgedMemory) -> int | doc.Absent:
    """Peak VRAM, or which kind of unknown it is."""
    if memory.is_vram and memory.peak_bytes is not None:
        return round(memory.peak_bytes)
    return "not reported" if memory.is_vram else "not applicable"


def conditions(found: GridEvidence, before: Recorded) -> doc.Conditions:
    """When, where and under what power a grid ran, as people recorded it."""
    grid = found.grid
    started = grid.started_at or before.at
    after = next((row for row in found.conditions if row.phase == Recorded.Phase.AFTER), None)
    ambient = "not recorded" if before.ambient_c is None else f"{before.ambient_c:g} °C"
    if after is not None and after.ambient_c is not None:
        ambient += f", {after.ambient_c:g} °C after"
    extra = [("Other loads", before.other_loads), ("Notes", before.notes)]
    return doc.Conditions(
        started_at=started,
        ended_at=grid.finished_at or started,
        place=before.room,
        power=before.get_power_source_display() + (", on battery" if before.ups_on_battery else ""),
        ambient=ambient,
        ambient_source=before.get_ambient_source_display(),
        operator=before.recorded_by.get_username(),
        further=tuple(doc.Fact(label=label, text=text) for label, text in extra if text),
    )


def person(who: AbstractBaseUser) -> str:
    """The full name where there is one."""
    return getattr(who, "get_full_name", lambda: "")() or who.get_username()


def authorised(leaves: Sequence[Authorization]) -> list[doc.Signature]:
    """Who allowed the load, in the order in which they did."""
    return [doc.Signature(did="Authorised by", name=person(a.authorized_by), at=a.authorized_at) for a in leaves]


# --- limits and controls ----------------------------------------------------------------------------------------------


def operating_limits(policy: Sequence[PolicyLine], setting: int, *, queue_bounded: bool | None) -> tuple[str, ...]:
    """What must be in force for the figure to hold, each as a sentence without its full stop."""
    values = {line.key: line.value for line in policy} or {"active": f"{setting}"}
    said = [words.format(value=values[key]) for key, words in IN_WORDS.items() if values.get(key, NOT_SET) != NOT_SET]
    if values.get("queue_cap", NOT_SET) == "0":
        said = ["no queue: what cannot be served at once is refused" if "more waiting" in one else one for one in said]
    if queue_bounded is False:
        said.append("something in front of the server holds more back: it queues without bound itself")
    return tuple(said)


def controls(policy: Sequence[PolicyLine]) -> tuple[doc.Control, ...]:
    """Every line of the policy in full."""
    return tuple(
        doc.Control(title=line.title, value=line.value, words=_said(line.words), source=_said(line.source))
        for line in policy
    )


def criteria(graded: Rubric) -> tuple[doc.Criterion, ...]:
    """The rubric, line by line."""
    return tuple(
        doc.Criterion(title=one.title, answer=_answer(one.answer), reason=_said(one.reason)) for one in graded.criteria
    )


def _answer(answer: Answer) -> doc.Answered:
    known: dict[Answer, doc.Answered] = {
        Answer.HOLDS: "holds", Answer.FAILS: "fails", Answer.NOT_TESTED: "not tested",
        Answer.NOT_APPLICABLE: "not applicable", Answer.NOT_REPORTED: "not reported",
    }  # fmt: skip
    return known[answer]


def diagnosis(verdict: Verdict) -> tuple[doc.Finding, ...]:
    """The classic mistakes. A sentence that counts users is told of and not repeated."""
    return tuple(
        doc.Finding(
            title=one.title,
            found=_found(str(one.found)),
            settings=one.settings if str(one.found) in ("found", "watch") else (),
            evidence=tuple(_said(text) for text in one.evidence),
        )
        for one in verdict.findings
    )


def _found(word: str) -> doc.Found:
    known: dict[str, doc.Found] = {
        "not found": "not found",
        "watch": "watch",
        "found": "found",
        "not tested": "not tested",
    }
    return known[word]


def _said(text: str) -> str:
    return UNSAID if users_claim(text) else text


def outside(verdict: Verdict, setting: int, loop: Loop | None) -> tuple[str, ...]:
    """What lies outside the tested box, as it was worked out for the recommended setting; that no open loop ran is said with
    what was not tested already."""
    if setting != verdict.recommended:
        return ()
    return tuple(one.sentence for one in verdict.outside if loop is not None or one.key != "rate")


# --- cells and evidence -----------------------------------------------------------------------------------------------


def cells(found: GridEvidence, loop: Loop | None) -> tuple[doc.Cell, ...]:
    """Every window that was measured, those of the open loop after those of the comparison."""
    windows = [(_name(cell), cell) for cell in found.cells]
    windows += [(_name(cell, loop), cell) for cell in loop.cells] if loop else []
    return tuple(_cell(name, cell.started_at, cell.summary) for name, cell in windows if cell.summary is not None)


def _cell(name: str, started_at: datetime | None, summary: CellSummary) -> doc.Cell:
    return doc.Cell(
        cell=name,
        started_at=started_at,
        window_s=summary.window_s,
        n=summary.scheduled,
        answered=sum(part.success.hits for part in summary.classes),
        good=sum(part.good.hits for part in summary.classes),
        good_per_minute=None if summary.good_per_s is None else 60 * summary.good_per_s,
    )


def manifest(found: GridEvidence, loop: Loop | None) -> tuple[doc.EvidenceCell, ...]:
    """Every cell that the statement rests on with its digest and its authorisation: the comparison, its behaviour probes,
    and the cells that confirm."""
    kept = [(_name(cell), cell) for cell in (*found.cells, *found.probes)]
    kept += [(_name(cell, loop), cell) for cell in loop.cells] if loop else []
    ids = [cell.cell_id for _, cell in kept]
    ran = Attempt.objects.filter(cell__in=ids, cell__evidence__attempt=F("number")).values_list(
        "cell_id", "authorization_id"
    )
    leaves = {cell_id: f"{Authorization(pk=leave)}" for cell_id, leave in ran if leave is not None}
    return tuple(
        doc.EvidenceCell(
            cell=name, sha256=cell.evidence_sha256, records=cell.requests or 0,
            leave=leaves.get(cell.cell_id, "not recorded"),
        )
        for name, cell in kept
        if cell.evidence_sha256
    )  # fmt: skip


def _name(cell: CellEvidence, loop: Loop | None = None) -> str:
    if loop is not None:
        rate = f"{loop.found.rate_per_min or 0:g}"
        return f"grid {loop.evidence.grid.pk}, open loop {rate} a minute, r{cell.repeat}"
    return f"{cell.setting}-{cell.probe or cell.class_name}-r{cell.repeat}"
