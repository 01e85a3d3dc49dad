"""When it is safe to go on to a higher setting: rows on both sides of each edge."""

import msgspec
import pytest

from benchmarks import gates
from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.engine.summary_types import Gauge
from tests.benchmarks.runs.made import INFINITE, summary

LIMITS = GridLimits(classes={"short": ClassLimits(e2e_s=1.0)})


@pytest.mark.parametrize(
    ("what", "made", "words"),
    [
        ("five per cent failed", summary(ok=95, failed=5), None),
        ("six per cent failed", summary(ok=94, failed=6), "6.0\u00a0% of requests failed"),
        ("we ended the rest ourselves", summary(ok=95, failed=5, cancelled=900), None),
        ("nothing was judged", summary(ok=0, cancelled=3), None),
        ("p95 at twice the objective", summary(p95_s=2.0), None),
        ("p95 above twice the objective", summary(p95_s=2.01), "2.01 times the objective"),
        ("p95 among failed requests", summary(ok=96, failed=4, p95_s=INFINITE), "among failed requests"),
        ("no point value, bound at twice", summary(p95_s=None, bound_s=2.0), None),
        ("no point value, bound above twice", summary(p95_s=None, bound_s=2.5), "2.50 times the objective"),
        ("the point value goes before the bound", summary(p95_s=1.0, bound_s=9.0), None),
        ("too few points for either", summary(p95_s=None), None),
        ("a class that the objective does not name", summary(name="other", p95_s=99.0), None),
    ],
)
def test_a_gate_refuses_only_past_its_edge(what, made, words):
    answer = gates.refusal(LIMITS, made)
    assert (answer is None) if words is None else words in (answer or "")


def hot(**peaks: float):
    """A good cell whose card and host reached these values."""
    device = {"gpu_temperature_c", "gpu_power_w", "gpu_slowdown_c", "vram_used_bytes", "vram_total_bytes"}
    gauges = tuple(
        Gauge(name=n, source="s", device="GPU-1" if n in device else "", n=9, mean=v / 2, low=0.0, peak=v)
        for n, v in peaks.items()
    )
    return msgspec.structs.replace(summary(), gauges=gauges)


@pytest.mark.parametrize(
    ("peaks", "words"),
    [
        ({"gpu_temperature_c": 85}, None),
        ({"gpu_temperature_c": 86}, "GPU-1 at 86 °C, limit 85 °C, at 1 offered, short."),
        (
            {"gpu_temperature_c": 80, "gpu_slowdown_c": 84},
            "GPU-1 at 80 °C, 5 below its slowdown 79 °C, at 1 offered, short.",
        ),
        ({"vram_used_bytes": 92, "vram_total_bytes": 100}, None),
        (
            {"vram_used_bytes": 93, "vram_total_bytes": 100},
            "VRAM at 93\u00a0% of GPU-1, limit 92\u00a0%, at 1 offered, short.",
        ),
        (
            {"host_memory_used_bytes": 91, "host_memory_total_bytes": 100},
            "host memory at 91\u00a0%, limit 90\u00a0%, at 1 offered, short.",
        ),
        ({"host_swap_used_bytes": 300 * 2**20}, "swap grew by 300 MiB, limit 256 MiB, at 1 offered, short."),
        ({"gpu_power_w": 900}, None),
    ],
)
def test_a_host_past_its_limits_holds_the_next_stage_back(peaks, words):
    assert gates.refusal(LIMITS, hot(**peaks)) == words


@pytest.mark.parametrize(("stage", "said"), [("batches of 8", "at batches of 8, short"), ("", "at 4 offered, short")])
def test_the_setting_is_named_by_the_word_of_its_mode(stage, said):
    assert said in (gates.refusal(LIMITS, summary(p95_s=9.0, setting=4), stage=stage) or "")
    guarded = summary(complete=False, end_reason="guard: hot", setting=4)
    assert said.removeprefix("at ") in (gates.guard_stop(guarded, stage) or "")


@pytest.mark.parametrize(
    ("complete", "reason", "stopped"),
    [
        (True, "window is over", False),
        (False, "guard: GPU at 91 C, limit 85 C", True),
        (False, "ceiling: 30 s of wall time", False),
        (False, "stopped: cancel was asked for", False),
    ],
)
def test_only_the_guards_own_stop_counts_as_unsafe(complete, reason, stopped):
    assert (gates.guard_stop(summary(complete=complete, end_reason=reason)) is not None) is stopped
