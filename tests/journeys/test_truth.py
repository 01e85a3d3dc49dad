"""The harness of `make truth`: real engine and simulated runtime on a virtual clock, and what is known without either."""

from __future__ import annotations

import random
import time
from itertools import islice

import numpy as np
import pytest

from benchmarks.engine.plan import CellPlan, ClassPlan, Lognormal
from benchmarks.engine.summary import summarise
from benchmarks.simulator.profiles import DEMO
from benchmarks.simulator.server import Options
from scripts.truth import expecting, knowing, virtual
from scripts.truth.__main__ import holds
from scripts.truth.cases import draw
from scripts.truth.judging import Result
from scripts.truth.running import run

CLASSES = (
    ClassPlan(name="short", weight=70, prompt_tokens=Lognormal(24, 0.2, 8, 60), output_tokens=Lognormal(6, 0.2, 3, 12)),
    ClassPlan(
        name="long", weight=30, prompt_tokens=Lognormal(96, 0.2, 40, 200), output_tokens=Lognormal(12, 0.2, 6, 24)
    ),
)


def plan(setting: int) -> CellPlan:
    return CellPlan(
        label="truth", base_url="http://127.0.0.1:1", model=DEMO.model, runtime_kind="simulator", offered_concurrency=setting,
        class_name="mixed", classes=CLASSES, seed=5, warmup_s=1.0, window_s=12.0, max_requests=10_000, max_tokens=10**8,
        max_wall_s=1e5, metrics_every_s=0.5, simulated=True,
    )  # fmt: skip


def test_a_window_on_the_virtual_clock_is_whole_and_nothing_disturbs_the_client() -> None:
    real_s = time.monotonic()
    found = summarise(run(plan(4), Options()), plan(4))
    assert time.monotonic() - real_s < 1000  # the clock of this process is its own again
    assert found.complete
    assert found.conserved is True
    assert found.window_s == pytest.approx(12.0, abs=0.01)
    assert found.mean_in_flight == pytest.approx(4.0, abs=0.01)
    assert not found.client.client_limited
    assert (found.client.loop_lag_p99_ms or 0.0) < 1.0
    assert {gauge.name for gauge in found.gauges} >= {"runtime_running", "vram_used_bytes", "gpu_temperature_c"}


def test_the_engine_measures_what_the_profile_means() -> None:
    """Of each class the median within 5 % and the p95 within 10 % of what a long run without engine or wire says."""
    found = summarise(run(plan(4), Options()), plan(4))
    true = knowing.loops(DEMO, CLASSES, 4, mixed=True, seed=3)
    for part in found.classes:
        assert part.e2e_s.p50.value == pytest.approx(float(np.median(true.ran[0].took_s[part.class_name])), rel=0.05)
        assert part.e2e_s.p95.value == pytest.approx(true.p95_s(part.class_name), rel=0.10)


def test_requests_of_a_mix_come_by_their_weights() -> None:
    names = [one.name for one in islice(knowing.shuffled(CLASSES, random.Random(1)), 1000)]
    assert names.count("short") == 700
    assert names[:100] != names[100:200]


def test_a_clock_moves_only_by_being_read_and_by_being_told() -> None:
    clock = virtual.Clock()
    began_ns = clock.now_ns
    clock.advance(2.5)
    assert clock.now_ns - began_ns == 2_500_000_000
    assert clock.monotonic_ns() - clock.now_ns == 0
    assert clock.now_ns - began_ns == 2_500_000_000 + virtual.READ_NS


def test_classes_that_ran_alone_make_a_mix_by_the_time_that_each_takes() -> None:
    assert knowing.combined({"short": 10.0, "long": 2.0}, {"short": 50, "long": 50}) == pytest.approx(1 / (0.05 + 0.25))
    assert knowing.combined({"short": 10.0, "long": 0.0}, {"short": 50, "long": 50}) == 0.0


def test_a_case_follows_from_its_number_alone() -> None:
    assert draw(2) == draw(2)


def test_what_limits_a_case_is_known_from_its_parameters() -> None:
    latency, vram = draw(2), draw(4)
    assert latency.kind == "latency"
    assert [sorted(expecting.of_load(latency, one).sure) for one in latency.figures][-1] == ["latency"]
    assert expecting.choices(latency) == {4}
    assert [sorted(expecting.of_load(vram, one).sure) for one in vram.figures][2:] == [["VRAM"]] * 3
    assert expecting.limiting(vram, 2).sure == {"VRAM"}


def result(*, right: bool = True, indicative: bool = False, cause: bool = True, findings: int = 7) -> Result:
    return Result(
        number=0, kind="latency", may_choose=frozenset({4}), chosen=4 if right else 8, indicative=indicative,
        choice_right=right, cause="latency", cause_right=cause, wrong=(), requests=1,
        findings_right=tuple(place < findings for place in range(7)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "passes"),
    [
        ([], True),
        ([result(right=False, indicative=True)] * 5, True),
        ([result(right=False, indicative=True)] * 6, False),
        ([result(right=False)], False),
        ([result(cause=False)] * 5, True),
        ([result(cause=False)] * 6, False),
        ([result(findings=6)] * 6, False),
    ],
)
def test_ninety_five_in_a_hundred_are_right_and_none_is_wrong_and_confident(wrong: list[Result], passes: bool) -> None:
    assert holds([*wrong, *[result()] * (100 - len(wrong))]) is passes
