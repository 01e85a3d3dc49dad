"""The judge is total: whatever it is told, it gives exactly one kind of verdict and never raises."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.engine.plan import BatchTerms, ObjectiveTerms, ProductionMix, RetryPolicy
from benchmarks.engine.probe_plan import BY_NAME
from benchmarks.engine.verdicts import NOT_JUDGED, WORDS
from capacity.assessment.choose import judge
from capacity.assessment.facts import CellFact, GridFacts, LengthFacts, MemoryFacts, ProbeFact
from capacity.assessment.verdict import Grade, Kind
from tests.capacity import synthetic as made
from tests.capacity.assessment.plain import as_json
from tests.capacity.assessment.probes import fact, unrun

FIGURES = (
    "p95_ratio", "time_to_reject_p95", "stream_freed_worst", "back_to_latency", "recovery", "answer_time_calm_p95",
    "long_prompt_status", "long_output_status", "no_credentials_status", "rate_refused",
)  # fmt: skip
CLASSES = ("short", "long", "mixed")
maybe = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0, 3.0, 200.0, 401.0, 503.0]))


@st.composite
def cells(draw: st.DrawFn, setting: int, name: str, repeat: int) -> CellFact:
    """Mostly a good one: with trouble in every cell no setting would ever be chosen."""
    cell_id = setting * 100 + CLASSES.index(name) * 10 + repeat
    trouble = draw(
        st.sampled_from(["", "", "", "", "", "", "not_run", "queued", "stopped", "slow", "few", "failing", "none"])
    )
    if trouble in ("not_run", "queued"):
        return made.cell(cell_id, setting, name, None, repeat=repeat, status=trouble, reason="stopped")
    names = ("short", "long") if name == "mixed" else (name,)
    n = {"few": 3, "none": 0}.get(trouble, 60 + 10 * min(setting, 4))
    values = made.latencies(n, 5.0 if trouble == "slow" else 0.5) if n else []
    parts = [made.class_summary(one, values, failed=20 if trouble == "failing" else 0) for one in names]
    gauges = draw(st.lists(st.sampled_from(READ), max_size=2, unique_by=lambda g: g.name))
    whole = made.summary(setting, name, parts, gauges=gauges, complete=trouble != "stopped")
    if trouble == "none":  # a window that never opened
        whole = replace(whole, window_s=0.0, completed_per_s=None, good_per_s=None, output_tokens_per_s=None)
    status = "stopped" if trouble == "stopped" else "measured"
    return made.cell(cell_id, setting, name, whole, repeat=repeat, status=status)


READ = [
    made.gauge("vram_used_bytes", 9e9), made.gauge("gpu_utilization_share", 0.2), made.gauge("runtime_waiting", 4.0),
    made.gauge("runtime_preemptions_total", 3.0, low=3.0), made.gauge("gpu_temperature_c", 60.0),
    made.gauge("gpu_power_w", 350.0),
]  # fmt: skip


@st.composite
def probes(draw: st.DrawFn) -> ProbeFact:
    name = draw(st.sampled_from(sorted(BY_NAME)))
    if draw(st.booleans()):
        return unrun(BY_NAME[name](), "stopped")
    word = draw(st.sampled_from([*WORDS[name], NOT_JUDGED]))
    figures = draw(st.dictionaries(st.sampled_from(FIGURES), maybe, max_size=4))
    return fact(BY_NAME[name](), word, setting=draw(st.sampled_from([1, 4])), **figures)


@st.composite
def grids(draw: st.DrawFn) -> GridFacts:
    planned = draw(st.sampled_from([(1, 2, 4, 8), (1, 4), (4,)]))
    names = sorted(draw(st.sets(st.sampled_from(CLASSES), min_size=1)))
    every = [(s, name, r) for s in planned for name in names for r in range(1, draw(st.integers(1, 2)) + 1)]
    found = [draw(cells(*one)) for one in every]
    terms = ObjectiveTerms(
        demand_per_min=draw(maybe), tenants=draw(st.integers(1, 3)),
        retry=draw(st.sampled_from([None, RetryPolicy(kind="none"), RetryPolicy(kind="backoff", tries=3)])),
        production=draw(st.sampled_from([None, ProductionMix(p10_tokens=10, p90_tokens=1000, p95_tokens=2000)])),
        batch=draw(st.sampled_from([None, BatchTerms(items=9, window_start="22:00", window_end="06:00", latest_finish="06:00")])),
    )  # fmt: skip
    limits = made.limits(
        reserve_loss=draw(st.sampled_from([0.0, 0.2])), max_power_w=draw(st.sampled_from([None, 300.0]))
    )
    return GridFacts(
        limits=replace(limits, terms=terms),
        setting_values=draw(st.sampled_from([planned, (*planned, 16)])),
        class_names=tuple(names),
        class_weights=draw(st.sampled_from([{"short": 1.0, "long": 1.0}, {"short": 1.0}, {}])),
        cells=tuple(found),
        has_gpu=draw(st.sampled_from([None, True, False])),
        queue_bounded=draw(st.sampled_from([None, True, False])),
        objective_before_run=draw(st.booleans()),
        probes=tuple(draw(st.lists(probes(), max_size=4))),
        lengths=draw(st.sampled_from([None, LengthFacts(classes=2, longest_tokens=900.0, longest_output_tokens=64.0)])),
        memory=draw(st.sampled_from([MemoryFacts(), MemoryFacts(geometry_known=True, pool_tokens=4096.0)])),
        gpu_count=draw(st.sampled_from([None, 1, 4])),
        previous_setting=draw(st.sampled_from([None, 2, 16])),
    )


# A busy machine draws slowly; that is not a fault of the claim.
@settings(
    derandomize=True, max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)  # fmt: skip
@given(facts=grids())
def test_every_grid_of_facts_has_exactly_one_kind_of_verdict(facts: GridFacts) -> None:
    verdict = judge(facts)
    assert verdict.kind in (Kind.RECOMMENDED, Kind.NO_SAFE_SETTING, Kind.NOT_MEASURED)
    assert (verdict.kind == Kind.RECOMMENDED) == (verdict.chosen is not None) == bool(verdict.policy)
    assert verdict.grade in set(Grade)
    assert verdict.heading
    assert verdict.summary
    for row in verdict.rows:
        assert not (row.safe and any(gate.blocks for gate in row.gates))
        assert all(gate.reason for gate in row.gates)
    if verdict.chosen is not None:
        assert verdict.chosen.safe
        assert verdict.headroom is not None
        bound = verdict.headroom.lower_bound_per_min
        assert bound is None or verdict.headroom.stated_per_min <= bound
        assert all(why.sentences for why in (*verdict.why_not, *verdict.below))
    json.dumps(as_json(verdict), allow_nan=False)
