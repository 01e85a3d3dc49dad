"""From rows to the statement's document: the one place that turns a choice and its grid into what will be signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

import msgspec
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from benchmarks import facts as host_facts
from benchmarks.audit import head
from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.models import Authorization, Conditions, Grid, Workload
from benchmarks.queries import GridEvidence
from benchmarks.stats.per_cent import per_cent
from capacity import stated
from capacity.assessment import latency, none
from capacity.assessment.choose import policy_at, rollback_from, rubric_at
from capacity.assessment.facts import CellFact, GridFacts
from capacity.assessment.rubric import fails, not_tested
from capacity.assessment.verdict import Headroom, SettingRow, Verdict
from capacity.models import Choice
from capacity.queries import Result
from capacity.statement import document as doc

MEASURES: dict[doc.Measure, str] = {
    "end to end": "e2e_s",
    "time to first token": "ttft_s",
    "time per output token": "tpot_s",
}
ENDS_EARLY = (
    "the driver, the runtime, the model, its flags or the hardware change",
    "the power source differs from the one it was measured on",
    "a later measurement of the same setting falls outside the intervals printed here",
)
NONE_ENDS_EARLY = (*ENDS_EARLY[:2], "a later grid of the same configuration finds a safe setting")


@dataclass(frozen=True, slots=True)
class Issue:
    """What is added at the moment of issuing."""

    number: str
    title: str
    by: AbstractBaseUser
    at: datetime
    valid_until: datetime
    demonstration: bool
    waiver: str = ""


def build(*, choice: Choice, result: Result, conditions: Conditions, issue: Issue) -> doc.Document:
    """The document; raises ValueError with a sentence where it would contradict itself. A choice of no setting states none:
    no rate, no headroom, no limits, and why."""
    grid, verdict, facts = result.evidence.grid, result.verdict, result.facts
    limits = _limits(facts.limits, facts)
    chosen = verdict.row(choice.setting)
    room, loop = stated.of_setting(facts, verdict, choice.setting)
    evidence = stated.manifest(result.evidence, loop)
    graded = rubric_at(facts, verdict, choice.setting)
    policy = () if chosen is None else policy_at(facts, verdict, chosen.setting)
    confirmed = stated.confirmed(facts, loop, limits) if loop else msgspec.UNSET
    return doc.Document(
        number=issue.number,
        title=issue.title,
        zone=_zone(timezone.get_current_timezone(), issue.at),
        setting=doc.Setting(value=choice.setting, term="requests in flight"),
        result=_result(chosen, room, confirmed),
        limits=limits,
        classes=_classes(facts, choice.setting),
        rows=tuple(_row(row, limits, facts, of=choice) for row in verdict.rows if row.n),
        memory=_memory(chosen or next((row for row in reversed(verdict.rows) if row.n), None)),
        tested=_tested(result.evidence),
        conditions=stated.conditions(result.evidence, conditions),
        operating_limits=()
        if choice.setting is None
        else stated.operating_limits(policy, choice.setting, queue_bounded=facts.queue_bounded),
        rollback=_rollback_words(facts, choice, verdict),
        not_tested=none.not_tested(verdict)
        if choice.setting is None
        else (*not_tested(graded), *stated.outside(verdict, choice.setting, loop)),
        ends_early=NONE_ENDS_EARLY if choice.setting is None else ENDS_EARLY,
        grade=_grade(choice),
        grade_reason=none.grade_reason(verdict) if choice.setting is None else graded.reason,
        signatures=_signatures(choice, result.evidence.leaves, grid, issue),
        issued_at=issue.at,
        valid_until=issue.valid_until,
        demonstration=issue.demonstration,
        simulated=grid.simulated,
        audit_head=head(),
        evidence=evidence,
        evidence_digest=doc.manifest_digest(evidence),
        verify_base_url=f"{settings.BASE_URL}/v",
        waiver=issue.waiver,
        no_safe_setting=_no_safe_setting(verdict) if choice.setting is None else msgspec.UNSET,
        confirmed=confirmed,
        controls=stated.controls(policy) or msgspec.UNSET,
        criteria=stated.criteria(graded) or msgspec.UNSET,
        diagnosis=stated.diagnosis(verdict) or msgspec.UNSET,
        cells=stated.cells(result.evidence, loop),
        method_version=verdict.method_version,
    )


def _no_safe_setting(verdict: Verdict) -> doc.NoSafeSetting:
    return doc.NoSafeSetting(reasons=verdict.reasons, remedies=none.remedies(verdict))


def _zone(zone: tzinfo, at: datetime) -> doc.Zone:
    local = at.astimezone(zone)
    offset = local.utcoffset()
    return doc.Zone(name=local.tzname() or "UTC", offset_minutes=int(offset.total_seconds() // 60) if offset else 0)


def _limits(limits: GridLimits, facts: GridFacts) -> tuple[doc.Limit, ...]:
    found = []
    for name in _tested_classes(facts):
        of_class = limits.classes.get(name, ClassLimits())
        for measure, field in MEASURES.items():
            value: float | None = getattr(of_class, field)
            if value is not None:
                found.append(doc.Limit(class_name=name, measure=measure, limit_s=value, percentile=limits.percentile))
    return tuple(found)


def _tested_classes(facts: GridFacts) -> list[str]:
    """Classes that some measured cell holds, in the order of the workload."""
    seen = {part.class_name for cell in facts.cells if cell.summary for part in cell.summary.classes}
    return [name for name in facts.class_weights if name in seen]


def _result(
    chosen: SettingRow | None, room: Headroom | None, confirmed: doc.Confirmed | msgspec.UnsetType
) -> doc.Result | None:
    """The rate that an open loop confirmed, else that of the row; with what may be planned for."""
    if chosen is None or chosen.good.value is None or room is None:
        return None
    measured = doc.Rate(value=chosen.good.value, lower=chosen.good.lower, upper=chosen.good.upper)
    return doc.Result(
        successful_per_minute=confirmed.successful_per_minute if isinstance(confirmed, doc.Confirmed) else measured,
        stated_per_minute=room.stated_per_min,
        reserves=tuple(doc.Reserve(name=r.name, share=r.share, reason=r.source) for r in room.reserves),
    )


def _classes(facts: GridFacts, setting: int | None) -> tuple[doc.LengthClass, ...]:
    """As offered at the stated setting; at all of them where none is stated."""
    cells = facts.cells if setting is None else facts.at(setting)
    parts = [part for cell in cells if cell.summary for part in cell.summary.classes]
    total = sum(facts.class_weights.get(name, 0.0) for name in _tested_classes(facts)) or 1.0
    out = []
    for name in _tested_classes(facts):
        of_class = [part for part in parts if part.class_name == name]
        first = of_class[0] if of_class else None
        out.append(
            doc.LengthClass(
                name=name,
                share=facts.class_weights[name] / total,
                n=sum(part.scheduled for part in of_class),
                input_tokens=_whole(first.prompt_tokens_p50 if first else None),
                output_tokens=_whole(first.output_tokens_p50 if first else None),
            )
        )
    return tuple(out)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _row(row: SettingRow, limits: Sequence[doc.Limit], facts: GridFacts, *, of: Choice) -> doc.Row:
    cells = facts.at(row.setting)
    good = row.good
    return doc.Row(
        setting=row.setting,
        successful_per_minute=doc.Rate(value=good.value, lower=good.lower, upper=good.upper)
        if good.value is not None
        else None,
        all_per_minute=row.completed_per_min,
        n=row.n,
        tails=tuple(_tail(cells, limit) for limit in limits),
        peak_vram_bytes=stated.vram(row.memory),
        verdict=_word(row),
        reason=" ".join(none.reasons(row)) if of.setting is None else row.word,
        chosen=row.setting == of.setting,
    )


def _word(row: SettingRow) -> doc.Verdict:
    if fails(row):
        return "fails"
    return "not tested" if not row.safe else "indicative" if row.indicative else "holds"


def _rollback_words(facts: GridFacts, choice: Choice, verdict: Verdict) -> str:
    """Of what was approved before with its exact arguments, else of the measured row."""
    target, words = rollback_from(facts, verdict.rows, verdict.row(choice.setting))
    row = verdict.row(choice.rollback_setting)
    if choice.setting is None:
        return ""
    if target is not None and target == choice.rollback_setting and target == facts.previous_setting:
        return f"Rollback is {words}"
    if row is None:
        return "No lower setting was measured and safe, so there is no measured rollback."
    rate = "" if row.good.value is None else f", measured at {row.good.value:,.1f} successful requests a minute"
    return f"Rollback is {row.setting} request{'s' * (row.setting != 1)} in flight{rate}."


def _tail(cells: Sequence[CellFact], limit: doc.Limit) -> doc.Tail:
    """The percentile for one limit as the gate saw it: of all repeats together, the class alone and in the mix apart."""
    groups = [found for (name, _), found in latency.seen_classes(cells).items() if name == limit.class_name]
    estimates = [
        one for seen in groups for one in latency.judged(MEASURES[limit.measure], limit.limit_s, limit.percentile, seen)
    ]
    n = sum(one.summary.scheduled for seen in groups for one in seen)
    if not estimates or n == 0:
        return doc.Tail(n=n, value_s=None, state="not recorded")
    if any(e.value is None for e in estimates):
        return doc.Tail(n=n, value_s=None, state="too few requests", indicative=True)
    worst = max(e.value for e in estimates if e.value is not None)
    if worst == float("inf"):
        return doc.Tail(n=n, value_s=None, state="among failures", holds=False)
    bounds = [e.bound for e in estimates if e.bound is not None and e.bound != float("inf")]
    bound = max(bounds) if len(bounds) == len(estimates) else None
    holds = False if worst > limit.limit_s else True if bound is not None and bound <= limit.limit_s else None
    return doc.Tail(n=n, value_s=worst, bound_s=bound, indicative=holds is None, holds=holds)


def _memory(chosen: SettingRow | None) -> doc.Memory:
    if chosen is None:
        return doc.Memory()
    memory = chosen.memory
    limit = round(memory.limit_bytes) if memory.is_vram and memory.limit_bytes is not None else None
    return doc.Memory(limit_bytes=limit, note="" if limit is not None else memory.words)


def _tested(evidence: GridEvidence) -> doc.Tested:
    grid = evidence.grid
    runtime, workload = grid.runtime, grid.workload
    return doc.Tested(
        model=runtime.model_name
        + (f", sha256 {runtime.model_digest[:12]}" if runtime.model_digest else ", digest not recorded"),
        runtime=f"{runtime.get_kind_display()} {runtime.runtime_version or '(version not recorded)'}",
        flags=runtime.flags or "not recorded",
        hardware_declared=host_facts.declared_words(grid.declared),
        hardware_probed=host_facts.probed_words(evidence.probe),
        workload=f"{workload.name}, version {workload.version}",
        synthetic=True,
        seed=workload.seed,
        grid=f"Grid {grid.pk}",
        repeats=grid.repeats,
        window=f"{grid.window_s:g} s",
        further=_prompts(workload),
    )


def _prompts(workload: Workload) -> tuple[doc.Fact, ...]:
    """What was asked, and whether a prefix cache could help: a service measured warm is not one measured cold."""
    if workload.shared_prefix_share:
        begin = (
            f"{per_cent(workload.shared_prefix_share)} of each is the same text, which a prefix cache serves (declared)"
        )
    else:
        begin = "each its own, so no prefix cache helps" + (" the first turn" if workload.turns > 1 else "")
    facts = [doc.Fact(label="Task", text=workload.get_task_display()), doc.Fact(label="Prompts begin", text=begin)]
    if workload.turns > 1:
        text = f"{workload.turns} turns, {workload.think_s:g} s between them; each prompt holds all turns before it"
        facts.append(doc.Fact(label="Conversations", text=text))
    return tuple(facts)


def _grade(choice: Choice) -> doc.Grade:
    """The grade that was proposed and approved."""
    try:
        known: doc.Grade = msgspec.convert(choice.grade, doc.Grade)
    except msgspec.ValidationError as unknown:
        raise ValueError(f"A statement knows no grade called {choice.grade}.") from unknown
    return known


def _signatures(choice: Choice, leaves: Sequence[Authorization], grid: Grid, issue: Issue) -> tuple[doc.Signature, ...]:
    assert choice.decided_by is not None
    assert choice.decided_at is not None
    return (
        *stated.authorised(leaves),
        doc.Signature(did="Measured by", name=stated.person(choice.measured_by), at=grid.finished_at or grid.drawn_at),
        doc.Signature(did="Proposed by", name=stated.person(choice.proposed_by), at=choice.proposed_at),
        doc.Signature(did="Approved by", name=stated.person(choice.decided_by), at=choice.decided_at),
        doc.Signature(did="Signed by", name=stated.person(issue.by), at=issue.at),
    )
