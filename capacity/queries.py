"""Read verbs of the judging side: a grid's facts, and the result that pages, proposals and statements share."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F
from django.utils import timezone
from msgspec.structs import replace

from benchmarks.conditions import alike
from benchmarks.facts import probed_words
from benchmarks.models import Attempt, Conditions, Grid, LengthClass
from benchmarks.queries import CellEvidence, GridEvidence, evidence
from benchmarks.records import search_answer
from benchmarks.records.modes import Mode
from benchmarks.runtimes.terms import queue_is_bounded
from capacity import confirmed, told
from capacity.assessment import batch_rubric
from capacity.assessment.batch import batch
from capacity.assessment.choose import judge, unjudged
from capacity.assessment.facts import CellFact, ConditionFacts, GridFacts, ProbeFact
from capacity.assessment.policy import as_arguments
from capacity.assessment.verdict import BatchVerdict, Rubric, Verdict
from capacity.models import Choice

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Provenance:
    """What must stand on every chart and table: on what, where, on which power, when, in words."""

    hardware: str
    runtime: str
    model: str
    room: str
    power: str
    date: str
    simulated: bool
    probed: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        label = ("Simulated, not measured on hardware",) if self.simulated else ()
        return (*label, self.hardware, f"{self.runtime} · {self.date}", f"{self.room} · {self.power}")

    @property
    def words(self) -> str:
        return ". ".join(self.lines) + "."


@dataclass(frozen=True, slots=True)
class Result:
    """A grid's evidence, what the judge was told of it, and what the judge answered."""

    evidence: GridEvidence
    facts: GridFacts
    verdict: Verdict


def result_of(grid: Grid) -> Result:
    """Evidence, facts and verdict of one grid, as they stand now; the number of queries does not grow with the grid."""
    found = evidence(grid)
    facts = facts_from(found)
    return Result(evidence=found, facts=facts, verdict=verdict_on(found, facts))


def verdict_on(found: GridEvidence, facts: GridFacts) -> Verdict:
    """The judge's word on closed-loop grids; whether a static batch is done in its window; of every other way of loading,
    that it is measured and not judged."""
    grid = found.grid
    if grid.mode == Mode.CLOSED:
        return judge(facts)
    answer = search_answer.read(grid.answer)
    done = len(found.measured)
    if answer:
        heading = search_answer.words(answer)
    elif done:
        judged = f"judged with grid {grid.confirms_id}" if grid.confirms_id else "not judged"
        heading = f"{grid.words.name}: measured, {judged}"
    else:
        heading = f"{grid.words.name}: not measured yet"
    judged_by = grid.words.judged_by
    alone = (
        "It confirms a setting of another grid"
        if grid.confirms_id
        else "This way of loading is measured and not judged"
    )
    summary = f"{alone}, so no setting is recommended here. What it is held to: {judged_by[0].lower()}{judged_by[1:]}."
    held, graded = _held(found, facts) if grid.mode == Mode.STATIC and done else (None, None)
    if held is not None and held.heading:
        heading, summary = held.heading, held.words
    return unjudged(
        facts, heading=heading, summary=summary, closed_loop=grid.mode == Mode.SEARCH, batch=held, graded=graded
    )


def _held(found: GridEvidence, facts: GridFacts) -> tuple[BatchVerdict, Rubric]:
    """A batch against its window with what to do next, and its grade."""
    power = found.conditions[0].power_source if found.conditions else ""
    held = batch(facts, power)
    graded = batch_rubric.graded(facts, held, power)
    return replace(held, steps=batch_rubric.steps(held, graded)), graded


def facts_of(grid: Grid) -> GridFacts:
    return facts_from(evidence(grid))


def facts_from(found: GridEvidence) -> GridFacts:
    """What the judge is told; unknown stays None."""
    grid = found.grid
    declared, runtime = grid.declared, grid.runtime
    queue = queue_is_bounded(runtime.kind)
    weights = (
        LengthClass.objects.filter(workload_id=grid.workload_id).order_by("position").values_list("name", "weight")
    )
    vram_gib: float | None = declared.get("vram_gib")
    previous = previous_choice(grid)
    per_card = vram_gib / max(declared.get("gpu_count") or 1, 1) if vram_gib else None
    return GridFacts(
        limits=found.limits,
        setting_values=found.setting_values,
        class_names=found.class_names,
        class_weights=dict(weights),
        cells=tuple(_cell_fact(cell) for cell in found.cells),
        has_gpu=_has_gpu(found),
        vram_total_bytes=per_card * GIB if per_card else None,
        queue_bounded=queue.bounded,
        queue_sentence=queue.sentence,
        queue_source=queue.source,
        # Started with each setting, it advances as many as are offered; what is registered says nothing of that.
        runtime_max_active=None if grid.managed else runtime.max_active_sequences,
        objective_before_run=grid.started_at is None or grid.objective_set_at <= grid.started_at,
        simulated=grid.simulated,
        conditions=_conditions(found),
        lengths=told.lengths_of(found),
        memory=told.memory_of(found),
        confirmations=confirmed.confirmations_of(grid),
        probes=tuple(_probe_fact(cell) for cell in found.probes),
        gpu_count=declared.get("gpu_count") or None,
        previous_setting=previous.setting if previous else None,
        previous_words=_arguments(previous) if previous else "",
    )


def previous_choice(grid: Grid) -> Choice | None:
    """The setting that the team last approved for the same runtime, whichever version, from another grid; before this
    grid's own was decided about, where one was. That none was safe is no way back."""
    rows = Choice.objects.filter(
        status=Choice.Status.APPROVED,
        setting__isnull=False,
        grid__team_id=grid.team_id,
        grid__runtime__slug=grid.runtime.slug,
    ).exclude(grid=grid)
    own = grid.choices.filter(status=Choice.Status.APPROVED).first()
    if own is not None:
        rows = rows.filter(decided_at__lt=own.decided_at)
    return rows.select_related("grid__runtime").order_by("-decided_at").first()


def _arguments(choice: Choice) -> str:
    assert choice.setting is not None  # such choices are not asked for
    runtime = choice.grid.runtime
    named = f"{runtime.name}, version {runtime.version} of its registration"
    return as_arguments(choice.setting, named, runtime.flags, choice.verdict.get("policy") or [])


def provenance(found: GridEvidence) -> Provenance:
    grid = found.grid
    declared, runtime = grid.declared, grid.runtime
    conditions = found.conditions[0] if found.conditions else None
    started = min((c.started_at for c in found.measured if c.started_at), default=grid.started_at)
    parts = [declared.get("name"), declared.get("gpu") or declared.get("cpu")]
    return Provenance(
        hardware=", ".join(str(part) for part in parts if part),
        runtime=f"{runtime.get_kind_display()} {runtime.runtime_version}".strip(),
        model=runtime.model_name,
        room=_room(conditions),
        power=conditions.get_power_source_display() if conditions else "power not recorded",
        date=f"{timezone.localtime(started):%d %b %Y, %H:%M %Z}" if started else "not started",
        simulated=grid.simulated,
        probed=probed_words(found.probe),
    )


def _conditions(found: GridEvidence) -> ConditionFacts:
    """From what people recorded before and after, and what the workers read around the attempts that are kept."""
    kept = Attempt.objects.filter(cell__grid=found.grid, cell__evidence__attempt=F("number"))
    told = kept.filter(conditions__has_key="differs").values_list("cell_id", "conditions__differs")
    of_cells = {cell: tuple(words) for cell, words in told}
    by_phase = {row.phase: row for row in found.conditions}
    before, after = by_phase.get(Conditions.Phase.BEFORE), by_phase.get(Conditions.Phase.AFTER)
    between = alike.differences(_recorded(before), _recorded(after)) if before and after else ()
    return ConditionFacts(
        recorded=before is not None and after is not None,
        differs=tuple(dict.fromkeys([*between, *(words for each in of_cells.values() for words in each)])),
        of_cells=of_cells,
        between=between,
    )


def _recorded(row: Conditions) -> alike.Facts:
    return alike.Facts(power_source=row.power_source, room_c=row.ambient_c)


def _room(conditions: Conditions | None) -> str:
    if conditions is None:
        return "room not recorded"
    if conditions.ambient_c is None:
        return f"{conditions.room}, temperature not recorded"
    return f"{conditions.room}, {conditions.ambient_c:g} °C"


def _has_gpu(found: GridEvidence) -> bool | None:
    """What the worker saw or a person declared. An empty field alone says nothing: None, nobody knows."""
    seen = found.probe.facts.get("gpus") if found.probe else None
    declared = found.grid.declared
    if (isinstance(seen, list) and seen) or declared.get("gpu") or declared.get("gpu_count"):
        return True
    return None if seen is None else False


def _cell_fact(cell: CellEvidence) -> CellFact:
    return CellFact(
        cell_id=cell.cell_id,
        setting=cell.setting,
        class_name=cell.class_name,
        repeat=cell.repeat,
        status=cell.status,
        reason=cell.reason,
        summary=cell.summary,
    )


def _probe_fact(cell: CellEvidence) -> ProbeFact:
    return ProbeFact(
        cell_id=cell.cell_id,
        probe=cell.probe,
        setting=cell.setting,
        repeat=cell.repeat,
        status=cell.status,
        reason=cell.reason,
        verdict=cell.verdict,
    )
