"""A case measured on the real engine, told to the judge as a grid's facts, and the judge's word held against the truth."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from benchmarks.engine.column_types import Columns
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.probe_plan import Fairness, Overload, Probe, RetryStorm
from benchmarks.engine.probes.cells import probe_cell
from benchmarks.engine.summary import summarise
from benchmarks.engine.verdicts import verdict_of
from benchmarks.simulator.server import Options
from capacity.assessment.choose import judge
from capacity.assessment.facts import (
    MEASURED,
    MIXED,
    VRAM_USED,
    CellFact,
    ConditionFacts,
    GridFacts,
    LengthFacts,
    MemoryFacts,
    ProbeFact,
)
from capacity.assessment.verdict import Answer, SettingRow, Verdict
from scripts.truth import expecting
from scripts.truth.cases import LONG_CLIENTS, Case
from scripts.truth.running import run

REPEATS = 3
WARMUP_S = 1.0
WRONG_PREDICTION = 0.6
"""Where the registered geometry is another model's, so much of what is used is predicted."""
CAUSE_OF_GATE = {
    "success": expecting.ERRORS, "vram": expecting.VRAM, "temperature": expecting.TEMPERATURE,
    "preemptions": expecting.KV, "overload": expecting.OVERLOAD, "fairness": expecting.FAIRNESS,
}  # fmt: skip
CAUSE_OF_GUARD = {
    "VRAM": expecting.VRAM, "°C": expecting.TEMPERATURE, "p95": expecting.LATENCY, "failed": expecting.ERRORS,
}  # fmt: skip
FOLLOWS = {
    expecting.QUEUE: {expecting.ERRORS, expecting.LATENCY}, expecting.KV: {expecting.LATENCY},
    expecting.ERRORS: {expecting.LATENCY, expecting.OVERLOAD}, expecting.LATENCY: {expecting.LATENCY},
}  # fmt: skip
"""What one cause brings with it: a refused request is an error, and has no time."""


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    number: int
    kind: str
    may_choose: frozenset[int | None]
    chosen: int | None
    indicative: bool
    choice_right: bool
    cause: str
    cause_right: bool
    findings_right: tuple[bool, ...]
    wrong: tuple[str, ...]
    requests: int


def measure(case: Case) -> GridFacts:
    """Every cell, then the probes at the highest setting that the load did not rule out."""
    names = (MIXED,) if case.mixed else tuple(c.name for c in case.classes)
    cells: list[CellFact] = []
    prompts: list[np.ndarray] = []
    for setting in case.settings:
        for repeat in range(1, REPEATS + 1):
            for name in names:
                columns = run(load_plan(case, setting, name, repeat, len(cells)), options(case, len(cells)))
                prompts.append(columns.requests.plain["intended_prompt_tokens"])
                cells.append(cell_fact(columns, len(cells) + 1, setting, name, repeat))
    facts = facts_of(case, names, cells, prompts)
    at = max((row.setting for row in judge(facts).rows if row.safe), default=min(case.settings))
    probes = tuple(probe_fact(case, probe, at, 900 + place) for place, probe in enumerate(probes_of(case)))
    return replace(facts, probes=probes)


def load_plan(case: Case, setting: int, name: str, repeat: int, place: int) -> CellPlan:
    return CellPlan(
        label=f"truth {case.number}", base_url="http://127.0.0.1:1", model=case.profile.model, runtime_kind="simulator",
        offered_concurrency=setting, class_name=name,
        classes=tuple(replace(c, limits=case.limits.classes[c.name]) for c in case.classes if name in (MIXED, c.name)),
        seed=seed_of(case, f"cell {place}"), content_seed=seed_of(case, f"{name} {repeat}"), warmup_s=WARMUP_S,
        window_s=case.window_s, max_requests=100_000, max_tokens=10**9, max_wall_s=100_000.0, metrics_every_s=0.5, simulated=True,
    )  # fmt: skip


def seed_of(case: Case, what: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{case.seed} {what}".encode()).digest()[:4], "big")


def options(case: Case, place: int) -> Options:
    return Options(
        profile=case.profile, queue_cap=case.queue_cap, reject=case.reject, faults=case.faults,
        seed=seed_of(case, f"runtime {place}"),
    )  # fmt: skip


def probes_of(case: Case) -> list[Probe]:
    active = case.profile.active_sequences
    known: dict[str, Probe] = {
        "fairness": Fairness(alone_s=10.0, beside_s=10.0, stretch=8.0, long_clients=LONG_CLIENTS, least_requests=100),
        "overload": Overload(measure_s=5.0, measure_clients=active, calm_s=4.0, overload_s=12.0, recovery_s=20.0),
        "retry_storm": RetryStorm(measure_s=4.0, measure_clients=active, calm_s=3.0, load_s=5.0, recovery_s=8.0),
    }
    return [probe for name, probe in known.items() if name in case.probes]


def probe_fact(case: Case, probe: Probe, setting: int, cell_id: int) -> ProbeFact:
    plan = probe_cell(load_plan(case, setting, MIXED, 1, cell_id), probe)
    verdict = verdict_of(run(plan, options(case, cell_id)))
    name = str(probe.__struct_config__.tag)
    return ProbeFact(
        cell_id=cell_id, probe=name, setting=setting, repeat=1, status=MEASURED, reason="", verdict=verdict
    )


def cell_fact(columns: Columns, cell_id: int, setting: int, name: str, repeat: int) -> CellFact:
    summary = summarise(columns, columns.plan)
    status, reason = (MEASURED, "") if summary.complete else ("stopped", summary.end_reason)
    return CellFact(
        cell_id=cell_id, setting=setting, class_name=name, repeat=repeat, status=status, reason=reason, summary=summary
    )


def facts_of(case: Case, names: tuple[str, ...], cells: Sequence[CellFact], prompts: Sequence[np.ndarray]) -> GridFacts:
    return GridFacts(
        limits=case.limits, setting_values=case.settings, class_names=names,
        class_weights={c.name: c.weight for c in case.classes}, cells=tuple(cells), has_gpu=True, gpu_count=1,
        queue_bounded=None, runtime_max_active=case.profile.active_sequences, simulated=True, lengths=lengths_of(case, prompts),
        memory=memory_of(case, cells), conditions=ConditionFacts(recorded=True),
    )  # fmt: skip


def lengths_of(case: Case, prompts: Sequence[np.ndarray]) -> LengthFacts:
    """From the prompts that were sent. In cells of one class each class has its own number of them, so by the plan."""
    if case.mixed or len(case.classes) == 1:
        p10, p90, p95 = np.quantile(np.concatenate(prompts), (0.10, 0.90, 0.95), method="inverted_cdf")
    else:
        p10, p90, p95 = (expecting.prompt_quantile(case.classes, share) for share in (0.10, 0.90, 0.95))
    return LengthFacts(
        classes=len(case.classes), p10_tokens=float(p10), p90_tokens=float(p90), p95_tokens=float(p95), repeated_share=0.0,
        longest_tokens=float(max(part.max() for part in prompts if len(part))),
        short_class=case.classes[0].name if len(case.classes) > 1 else "",
        longest_request_tokens=float(expecting.longest_tokens(case.classes)),
    )  # fmt: skip


def memory_of(case: Case, cells: Sequence[CellFact]) -> MemoryFacts:
    """What would be predicted of the simulated card: weights, workspace of those active, KV cache at its peak."""
    card = case.profile.card
    if case.geometry == "unknown" or card is None:
        return MemoryFacts(reason="The model's geometry is not recorded.")
    share = WRONG_PREDICTION if case.geometry == "wrong" else 1.0
    predicted, measured = {}, {}
    for figures in case.figures:
        active = min(figures.setting, case.profile.active_sequences)
        whole = card.weights_bytes + active * card.workspace_bytes + figures.kv_peak_tokens * card.kv_bytes_per_token
        predicted[figures.setting] = share * min(whole, card.vram_total_bytes)
        seen = [c.summary.gauge(VRAM_USED) for c in cells if c.setting == figures.setting and c.summary]
        if peaks := [
            gauge.peak for gauge in seen if gauge is not None
        ]:  # none where a guard stopped it before its window
            measured[figures.setting] = max(peaks)
    return MemoryFacts(
        geometry_known=True, predicted_bytes=predicted, measured_bytes=measured,
        pool_tokens=float(case.profile.kv_tokens), context_per_sequence_tokens=float(case.profile.context_tokens),
    )  # fmt: skip


def held_against(case: Case, facts: GridFacts, verdict: Verdict) -> Result:
    chosen = verdict.recommended
    may = expecting.choices(case)
    right = chosen in may
    cause, cause_right = why_not(case, verdict)
    wanted = expecting.findings(case, chosen)
    given = [str(finding.found) for finding in verdict.findings]
    findings_right = tuple(word in words for word, words in zip(given, wanted, strict=True)) if given else (False,) * 7
    wrong = [] if right else [f"chose {chosen}, not {told(may)}: {'; '.join(verdict.reasons[:2])}"]
    if not cause_right:
        wrong.append(f"limited by {cause}, not {words_of(case, chosen)}")
    for finding, fine, words in zip(verdict.findings, findings_right, wanted, strict=False):
        if not fine:
            wrong.append(
                f"{finding.key} {finding.found}, not {' or '.join(sorted(words))}: {' '.join(finding.evidence)[:160]}"
            )
    row = verdict.chosen
    indicative = bool(row and row.indicative) or bool(verdict.knee and verdict.knee.indicative)
    return Result(
        number=case.number, kind=case.kind, may_choose=may, chosen=chosen, indicative=indicative, choice_right=right,
        cause=cause, cause_right=cause_right, findings_right=findings_right, wrong=tuple(wrong),
        requests=sum(cell.summary.scheduled for cell in facts.cells if cell.summary),
    )  # fmt: skip


def words_of(case: Case, chosen: int | None) -> str:
    causes = (
        expecting.limiting(case, chosen)
        if chosen in (None, *case.settings)
        else expecting.Causes(frozenset(), frozenset())
    )
    sure, perhaps = " and ".join(sorted(causes.sure)), " or ".join(sorted(causes.perhaps))
    return " or perhaps ".join(part for part in (sure, perhaps) if part) or "nothing"


def why_not(case: Case, verdict: Verdict) -> tuple[str, bool]:
    """What the judge says of the next setting up, or of the lowest where none is safe; and whether that is the truth."""
    chosen = verdict.recommended
    settings = list(case.settings)
    place = 0 if chosen is None else settings.index(chosen) + 1
    if place >= len(settings):
        return "the range", True
    row, true = verdict.row(settings[place]), expecting.limiting(case, chosen)
    if row is None:
        return "nothing", False
    found = causes_in(row)
    said = ", ".join(sorted(found)) or "little gain"
    if not found:
        return said, row.safe and not true.sure
    follows = {name for cause in true.sure | true.perhaps for name in FOLLOWS.get(cause, set()) | {cause}}
    return said, bool(found & follows) and found <= follows


def causes_in(row: SettingRow) -> frozenset[str]:
    """What its failing gates stand for. Where a guard stopped it, what the guard saw: of a window that was cut nothing else
    can be asked."""
    failing = [gate for gate in row.gates if gate.answer == Answer.FAILS]
    stopped = next((gate.reason for gate in failing if gate.key == "complete"), "")
    if cause := next((cause for mark, cause in CAUSE_OF_GUARD.items() if mark in stopped), ""):
        return frozenset({cause})
    return frozenset(
        expecting.LATENCY if gate.key.startswith("latency") else CAUSE_OF_GATE.get(gate.key, f"gate {gate.key}")
        for gate in failing
    )


def told(settings: frozenset[int | None]) -> str:
    return " or ".join("none" if one is None else str(one) for one in sorted(settings, key=lambda s: s or 0))


def judged(case: Case) -> tuple[Result, Verdict]:
    facts = measure(case)
    verdict = judge(facts)
    return held_against(case, facts, verdict), verdict
