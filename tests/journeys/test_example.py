"""The worked example where no machine disturbs it: its load, limits and rate on the real engine against the simulated runtime,
on a clock that waits for nothing. What `make example` claims over HTTP rests on these."""

from __future__ import annotations

from functools import cache
from math import ceil, floor

from msgspec.structs import replace

from benchmarks.engine.load import Closed, Load, OpenLoop, Poisson
from benchmarks.engine.plan import CellPlan, ClassLimits, ClassPlan, GridLimits, Lognormal
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import CellSummary
from benchmarks.simulator.profiles import PROFILES
from benchmarks.simulator.server import Options
from capacity.assessment.choose import judge
from capacity.assessment.facts import MEASURED, MIXED, CellFact, ConditionFacts, ConfirmFact, GridFacts
from capacity.assessment.verdict import Answer, QueueCap
from scripts import example
from scripts.journey import LengthClass
from scripts.truth.running import run

TOLERATES_A_MISS = 130  # independent requests that p95 at 1 % takes with one of them late


def classes() -> tuple[ClassPlan, ...]:
    def plan_of(one: LengthClass) -> ClassPlan:
        def around(tokens: int) -> Lognormal:
            return Lognormal(median=tokens, sigma=0.15, low=max(1, tokens // 2), high=2 * tokens)

        return ClassPlan(
            name=one.name, weight=one.share_percent, prompt_tokens=around(one.prompt_tokens),
            output_tokens=around(one.output_tokens), limits=ClassLimits(e2e_s=example.E2E_LIMITS_S[one.name]),
        )  # fmt: skip

    return plan_of(example.SHORT), plan_of(example.LONG)


def cell(
    load: Load, in_flight: int, class_name: str, seed: int, *, window_s: float, active: int = 8, queue_cap: int
) -> CellSummary:
    profile = PROFILES[example.PROFILE]
    plan = CellPlan(
        label="example", base_url="http://127.0.0.1:1", model=profile.model, runtime_kind="simulator", load=load,
        offered_concurrency=in_flight, class_name=class_name,
        classes=tuple(one for one in classes() if class_name in (MIXED, one.name)),
        seed=seed, content_seed=seed, arrival_seed=seed, warmup_s=0.5, window_s=window_s, max_requests=100_000,
        max_tokens=10**9, max_wall_s=100_000.0, metrics_every_s=0.5, simulated=True,
    )  # fmt: skip
    plan = replace(plan, guard=replace(plan.guard, max_error_share=None))
    return summarise(run(plan, Options(profile=profile, active_sequences=active, queue_cap=queue_cap, seed=seed)), plan)


@cache
def closed_loop() -> GridFacts:
    """Three repeats at each setting, as long as the example's."""
    cells = [
        CellFact(
            cell_id=number, setting=setting, class_name=name, repeat=repeat, status=MEASURED, reason="",
            summary=cell(Closed(), setting, name, number, window_s=example.WINDOW_S, queue_cap=example.QUEUE_CAP),
        )
        for number, (setting, repeat, name) in enumerate(
            [(s, r, n) for s in example.SETTINGS for r in (1, 2, 3) for n in (MIXED, "short")], start=1
        )
    ]  # fmt: skip
    limits = GridLimits(
        success_share=0.95, validity_share=0.95, reserve_growth=0.10, reserve_variance=0.05,
        classes={one.name: one.limits for one in classes()},
    )  # fmt: skip
    return GridFacts(
        limits=limits, setting_values=example.SETTINGS, class_names=(MIXED, "short"), cells=tuple(cells),
        has_gpu=True, gpu_count=1, runtime_max_active=8, simulated=True,
        class_weights={one.name: one.weight for one in classes()},
        conditions=ConditionFacts(recorded=True),
    )  # fmt: skip


def confirming(cap: QueueCap) -> tuple[ConfirmFact, ...]:
    assert cap.cap is not None
    rate = floor(example.CONFIRMED_SHARE * floor(cap.arrivals_per_min))
    window_s = ceil(example.PROVED_BY / (rate / 60 * example.LONG.share_percent / 100) / example.CONFIRM_REPEATS)
    return tuple(
        ConfirmFact(
            grid_id=2, cell_id=900 + number, setting=example.CHOSEN, queue_cap=cap.cap, rate_per_min=float(rate),
            status=MEASURED, reason="",
            summary=cell(
                OpenLoop(arrivals=Poisson(rate / 60)), 40, MIXED, 7000 + number, window_s=window_s, active=example.CHOSEN,
                queue_cap=cap.cap,
            ),
        )
        for number in range(example.CONFIRM_REPEATS)
    )  # fmt: skip


def test_four_is_chosen_by_proof_and_eight_is_not() -> None:
    found = judge(closed_loop())
    assert found.recommended == example.CHOSEN
    chosen, refused = found.row(example.CHOSEN), found.row(example.REFUSED)
    assert chosen is not None
    assert refused is not None
    assert (chosen.safe, chosen.indicative) == (True, False)
    assert chosen.worst is not None
    assert chosen.worst.ratio is not None
    assert chosen.worst.ratio < 0.8  # a machine that stalls has room to do so
    assert [one.answer for one in refused.gates if one.key == "client"] == [Answer.HOLDS]


def test_the_confirmed_rate_is_proved_with_room_for_a_late_request_of_the_rarest_class() -> None:
    facts = closed_loop()
    cap = judge(facts).queue_cap
    assert cap is not None
    found = judge(replace(facts, confirmations=confirming(cap))).confirmation
    assert found is not None
    assert found.answer == Answer.HOLDS, found.words
    assert min(one.n_effective or 0 for one in found.claims) >= TOLERATES_A_MISS
