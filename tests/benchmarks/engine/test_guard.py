"""The guard stops on the far side of each limit, in words, and never for what it does not know."""

from __future__ import annotations

import pytest

from benchmarks.engine.guard import Latest, Seen, latest, stop_reason
from benchmarks.engine.plan import ClassLimits, Guard
from benchmarks.engine.terms import Outcome, Reading

GPU = "GPU-1"
GIB = 2**30


def seen(outcome: Outcome = Outcome.OK, e2e_s: float | None = 1.0) -> Seen:
    return Seen(class_name="short", outcome=outcome, e2e_s=e2e_s, ttft_s=0.1)


def reason(values=None, recent=(), limits=None, swap_at_start_bytes=None, **guard) -> str | None:
    now = Latest(values=values or {}, swap_at_start_bytes=swap_at_start_bytes)
    return stop_reason(Guard(**guard), now, list(recent), limits or {})


def test_nothing_known_stops_nothing():
    assert reason() is None


@pytest.mark.parametrize("used, words", [(92, None), (93, "VRAM at 93% of GPU-1, limit 92%")])
def test_vram(used, words):
    assert reason({("vram_used_bytes", GPU): used, ("vram_total_bytes", GPU): 100}) == words


def test_vram_without_a_total_is_unknown_and_not_divided():
    assert reason({("vram_used_bytes", GPU): 93}) is None
    assert reason({("vram_used_bytes", GPU): 93, ("vram_total_bytes", GPU): 0}) is None


@pytest.mark.parametrize("heat, words", [(85, None), (86, "GPU-1 at 86 °C, limit 85 °C")])
def test_temperature(heat, words):
    assert reason({("gpu_temperature_c", GPU): heat}) == words


@pytest.mark.parametrize("power, words", [(300, None), (301, "GPU-1 draws 301 W, limit 300 W")])
def test_power(power, words):
    assert reason({("gpu_power_w", GPU): power}, max_power_w=300.0) == words


@pytest.mark.parametrize(
    "bits, stops", [(0x0, False), (0x4, False), (0x2, False), (0x8, True), (0x44, True), (0x80, True)]
)
def test_throttling_other_than_the_power_cap_stops(bits, stops):
    assert (reason({("gpu_clocks_event_reasons", GPU): float(bits)}) is not None) is stops


@pytest.mark.parametrize("used, words", [(90, None), (91, "host memory at 91%, limit 90%")])
def test_host_memory(used, words):
    assert reason({("host_memory_used_bytes", ""): used, ("host_memory_total_bytes", ""): 100}) == words


@pytest.mark.parametrize("grown, stops", [(GIB // 4, False), (GIB // 4 + 1, True)])
def test_swap_growth(grown, stops):
    assert (reason({("host_swap_used_bytes", ""): GIB + grown}, swap_at_start_bytes=GIB) is not None) is stops


@pytest.mark.parametrize("failed, good, stops", [(5, 95, False), (6, 94, True), (5, 0, False), (6, 0, True)])
def test_errors_stop_as_soon_as_the_share_must_be_exceeded(failed, good, stops):
    recent = [seen()] * good + [seen(Outcome.SERVER_ERROR)] * failed
    assert (reason(recent=recent) is not None) is stops


def test_only_the_last_hundred_count_and_our_own_endings_do_not():
    assert reason(recent=[seen(Outcome.SERVER_ERROR)] * 6 + [seen()] * 100) is None
    assert reason(recent=[seen(Outcome.CANCELLED)] * 50 + [seen(Outcome.UNFINISHED)] * 50) is None


@pytest.mark.parametrize(
    "times, stops",
    [
        ([2.0] * 20, False),
        ([2.1] * 20, True),
        ([2.1] * 19, False),
        ([1.0] * 19 + [9.0], False),
        ([1.0] * 18 + [9.0] * 2, True),
    ],
)
def test_p95_over_twice_the_objective_from_twenty_on(times, stops):
    recent = [seen(e2e_s=t) for t in times]
    assert (reason(recent=recent, limits={"short": ClassLimits(e2e_s=1.0)}) is not None) is stops


def test_a_limit_of_none_is_switched_off():
    values = {("gpu_temperature_c", GPU): 200.0}
    assert reason(values, max_temperature_c=None) is None


def test_the_latest_value_of_each_device_counts_and_swap_is_remembered_from_the_start():
    def reading(name: str, value: float, device: str = "") -> Reading:
        return Reading(t_ns=0, name=name, value=value, source="s", device=device)

    now = latest([reading("host_swap_used_bytes", 5), reading("gpu_temperature_c", 50, GPU)], Latest(values={}))
    now = latest([reading("host_swap_used_bytes", 9), reading("gpu_temperature_c", 60, GPU)], now)
    assert (now.of("gpu_temperature_c"), now.swap_at_start_bytes) == ({GPU: 60}, 5)
