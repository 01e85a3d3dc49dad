"""The guard stops on the far side of each limit, in words, and never for what it does not know."""

from __future__ import annotations

import pytest

from benchmarks.engine.guard import Latest, Seen, is_lost, latest, silence_reason, stop_reason
from benchmarks.engine.plan import ClassLimits, Guard
from benchmarks.engine.terms import Outcome, Reading

GPU = "GPU-1"
GIB = 2**30


def seen(outcome: Outcome = Outcome.OK, e2e_s: float | None = 1.0) -> Seen:
    return Seen(class_name="short", outcome=outcome, e2e_s=e2e_s, ttft_s=0.1)


def reason(values=None, recent=(), limits=None, swap_at_start_bytes=None, **guard) -> str | None:
    now = Latest(values=values or {}, swap_at_start_bytes=swap_at_start_bytes)
    return stop_reason(Guard(**guard), now, list(recent), limits or {})


def moved(name: str, *values: float) -> Latest:
    """A card whose readings of one name came a second apart."""
    read = [Reading(t_ns=at * 10**9, name=name, value=v, source="s", device=GPU) for at, v in enumerate(values)]
    return latest(read, Latest(values={}))


def test_nothing_known_stops_nothing():
    assert reason() is None


@pytest.mark.parametrize("used, words", [(92, None), (93, "VRAM at 93\u00a0% of GPU-1, limit 92\u00a0%")])
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
    "bits, words",
    [
        ((0x0,), None),
        ((0x4,), None),
        ((0x2,), None),
        ((0x44,), "GPU-1 throttles: hardware thermal"),
        ((0x80,), "GPU-1 throttles: power brake"),
        ((0x28,), "GPU-1 throttles: hardware slowdown, software thermal"),
        ((0x8,), None),
        ((0x0, 0x8), None),
        ((0x8, 0x0, 0x8), None),
        ((0x8, 0x8), "GPU-1 throttles: hardware slowdown"),
    ],
)
def test_throttling_other_than_the_power_cap_stops_and_a_flicker_does_not(bits, words):
    assert stop_reason(Guard(), moved("gpu_clocks_event_reasons", *bits), [], {}) == words


@pytest.mark.parametrize(
    "slowdown, heat, words",
    [
        (95, 86, "GPU-1 at 86 °C, limit 85 °C"),
        (84, 79, None),
        (84, 80, "GPU-1 at 80 °C, 5 below its slowdown 79 °C"),
    ],
)
def test_a_card_that_slows_down_early_has_a_lower_limit_of_its_own(slowdown, heat, words):
    assert reason({("gpu_temperature_c", GPU): heat, ("gpu_slowdown_c", GPU): slowdown}) == words


def test_two_unlike_cards_have_each_their_own_limit():
    values = {("gpu_slowdown_c", "A"): 97, ("gpu_slowdown_c", "B"): 80, ("vram_total_bytes", "A"): 48 * GIB}
    values |= {("gpu_temperature_c", "A"): 80, ("vram_used_bytes", "A"): 23 * GIB, ("vram_total_bytes", "B"): 24 * GIB}
    assert reason(values | {("gpu_temperature_c", "B"): 75, ("vram_used_bytes", "B"): 20 * GIB}) is None
    assert reason(values | {("gpu_temperature_c", "B"): 76}) == "B at 76 °C, 5 below its slowdown 75 °C"
    assert reason(values | {("vram_used_bytes", "B"): 23 * GIB}) == "VRAM at 96\u00a0% of B, limit 92\u00a0%"


@pytest.mark.parametrize(
    "heats, words",
    [
        ((80, 81, 82, 83), None),  # the next one is 84
        ((80, 81, 82, 83, 84), "GPU-1 at 84 °C and rising: 86 °C by the next reading, limit 85 °C"),
        ((60, 70, 80), "GPU-1 at 80 °C and rising: 90 °C by the next reading, limit 85 °C"),
        ((84, 85, 84, 85, 84, 85), None),  # whole degrees jitter
        ((85, 85, 85, 85), None),
        ((84, 83, 82, 81), None),
        ((78, 80, 81, 82, 83, 83), None),  # on its way to 84, where it will stay
        ((70, 80), None),  # two readings are no trend
        ((80, 82, 84, 84, 84, 84, 84, 84), None),  # it has levelled off
    ],
)
def test_a_ramp_stops_before_its_limit_and_a_level_card_does_not(heats, words):
    assert stop_reason(Guard(), moved("gpu_temperature_c", *heats), [], {}) == words


def test_a_lost_card_stops_whatever_the_limits_are():
    off = {"max_temperature_c": None, "max_vram_share": None}
    words = reason({("gpu_lost", GPU): 1.0}, **off)
    assert words == "GPU-1 is lost: the driver cannot reach it any more"
    assert is_lost(words)
    assert not is_lost("GPU-1 at 86 °C, limit 85 °C")


@pytest.mark.parametrize("used, words", [(90, None), (91, "host memory at 91\u00a0%, limit 90\u00a0%")])
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


@pytest.mark.parametrize(
    ("name", "guard", "at_s", "words"),
    [
        ("gpu_temperature_c", {}, 12, None),
        ("gpu_temperature_c", {}, 13, "no temperature of GPU-1 was read for 11 s, though it is limited"),
        ("gpu_temperature_c", {"max_temperature_c": None}, 60, None),
        ("gpu_power_w", {}, 60, None),  # nothing limits it
        ("gpu_power_w", {"max_power_w": 300.0}, 60, "no power of GPU-1 was read for 58 s, though it is limited"),
        ("vram_used_bytes", {}, 60, "no VRAM of GPU-1 was read for 58 s, though it is limited"),
        ("gpu_utilization_share", {}, 60, None),
    ],
)
def test_a_limit_that_nobody_reads_any_more_stops(name, guard, at_s, words):
    now = moved(name, 1.0, 1.0, 1.0)  # the last at 2 s
    assert silence_reason(Guard(**guard), now, at_ns=at_s * 10**9, after_ns=10 * 10**9) == words


def test_what_was_never_read_is_not_missed():
    assert silence_reason(Guard(), Latest(values={}), at_ns=10**12, after_ns=10**10) is None
