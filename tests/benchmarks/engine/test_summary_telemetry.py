"""Counters with resets, sums over GPUs that not all of them know, and gaps that nothing is drawn over."""

from __future__ import annotations

import pytest

from benchmarks.engine.columns import from_frames
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import as_json, from_json
from benchmarks.engine.terms import ClientHealth, End, Reading, Window
from tests.benchmarks.engine.plans import S, a_header, a_plan

HEALTH = ClientHealth(loop_lag_p99_ms=1.0, cpu_share=0.1, send_late_p99_ms=1.0, client_limited=False)
WINDOW_S = 60
SCRAPED = "127.0.0.1:8000/metrics vllm:num_preemptions_total"


def summary(readings, **plan_changes):
    """Of a window from 100 s to 160 s; times of readings are seconds after its start."""
    plan = a_plan(**({"simulated": False, "runtime_kind": "vllm", "window_s": WINDOW_S} | plan_changes))
    window = Window(start_ns=100 * S, end_ns=(100 + WINDOW_S) * S)
    end = End(t_ns=200 * S, complete=True, reason="window completed", sent=0)
    return summarise(from_frames([a_header(plan), *readings, window, HEALTH, end]), plan)


def series(name, values, *, source="nvml", device="", every_s=1.0, from_s=0.0):
    return [
        Reading(t_ns=round((100 + from_s + every_s * at) * S), name=name, value=float(v), source=source, device=device)
        for at, v in enumerate(values)
        if v is not None
    ]


@pytest.mark.parametrize(
    ("values", "increase", "resets"),
    [
        ((100, 100, 100), 0.0, 0),
        ((100, 150, 480), 380.0, 0),
        ((100, 480, 0), 380.0, 1),  # started again, and nothing since
        ((100, 480, 20, 30), 410.0, 1),  # after a start it counts from zero
        ((5, 0, 7, 0, 1), 8.0, 2),
    ],
)
def test_a_counter_that_steps_back_was_reset(values, increase, resets):
    (found,) = summary(series("runtime_preemptions_total", values, source=SCRAPED)).counters
    assert (found.increase, found.resets, found.over_s) == (increase, resets, len(values) - 1)


def test_one_reading_is_no_difference():
    assert summary(series("runtime_preemptions_total", (480,), source=SCRAPED)).counters == ()


def test_the_wait_in_the_servers_queue_is_its_sum_over_its_count():
    waits = series("runtime_queue_time_s_total", (10, 12, 16), source=SCRAPED)
    found = summary(waits + series("runtime_queue_count_total", (4, 6, 16), source=SCRAPED))
    assert found.queue_time_s() == 0.5
    assert summary(waits + series("runtime_queue_count_total", (4, 4, 4), source=SCRAPED)).queue_time_s() is None
    assert summary(waits).queue_time_s() is None


def test_power_that_one_of_two_cards_does_not_know_makes_a_partial_sum():
    both = series("gpu_power_w", (250, 250), device="A") + series("gpu_temperature_c", (50, 50), device="B")
    (power,) = summary(both).gpu_totals
    assert (power.name, power.value, power.known, power.of, power.missing) == ("gpu_power_w", 250.0, 1, 2, ("B",))
    assert power.how == "sampled power"


def test_the_energy_counter_goes_before_sampled_power():
    readings = series("gpu_power_w", (400, 100, 400, 100), device="A")  # what sampling makes of 300 W
    readings += series("gpu_energy_j", (1000, 1300, 1600, 1900), device="A")
    totals = {t.name: t for t in summary(readings).gpu_totals}
    assert (totals["gpu_power_w"].value, totals["gpu_power_w"].how) == (300.0, "energy counter")
    assert totals["gpu_energy_j"].value == 900.0


@pytest.mark.parametrize(
    ("energy", "every_s"),
    [((5000, 5300, 40, 340), 1.0), ((5000, 5300), 1.0)],  # the driver was loaded again; too short to trust its steps
)
def test_energy_that_cannot_be_had_falls_back_to_samples(energy, every_s):
    readings = series("gpu_energy_j", energy, device="A") + series("gpu_power_w", (200, 400), device="A")
    totals = {t.name: t for t in summary(readings).gpu_totals}
    assert "gpu_energy_j" not in totals
    assert (totals["gpu_power_w"].value, totals["gpu_power_w"].how) == (300.0, "sampled power")


def test_a_driver_that_was_loaded_again_has_no_difference():
    (found,) = summary(series("gpu_energy_j", (5000, 5300, 40, 340), device="A")).counters
    assert (found.increase, found.resets) == (None, 1)
    assert summary(series("gpu_energy_j", (5000, 5300, 40, 340), device="A")).counted("gpu_energy_j") is None


ALL = [1] * 75


@pytest.mark.parametrize(
    ("told", "values", "from_s", "gaps"),
    [
        ("all the time, before and after too", ALL, -5, []),
        ("three periods are no gap", [1] * 20 + [None] * 2 + [1] * 55, -5, []),
        ("four are", [1] * 20 + [None] * 3 + [1] * 55, -5, [(14.0, 18.0)]),
        ("it fell silent for good", [1] * 20, -5, [(14.0, 60.0)]),
        ("it came late", [1] * 60, 30, [(0.0, 30.0)]),
        ("silent over the edge of the window", [1] + [None] * 9 + [1] * 70, -5, [(0.0, 5.0)]),
        ("silent before the window only", [1] + [None] * 20 + [1] * 80, -25, []),
        ("twice", [1] * 10 + [None] * 9 + [1] * 10 + [None] * 9 + [1] * 40, 0, [(9.0, 19.0), (28.0, 38.0)]),
    ],
)
def test_a_source_that_says_nothing_for_more_than_three_periods_has_a_gap(told, values, from_s, gaps):
    found = summary(series("gpu_power_w", values, device="A", from_s=from_s)).telemetry_gaps
    assert [(gap.source, gap.device) for gap in found] == [("nvml", "A")] * len(gaps)
    assert [(gap.from_s, gap.to_s) for gap in found] == gaps


@pytest.mark.parametrize(("asked_s", "gaps"), [(2.0, 0), (1.0, 0), (10.0, 0)])
def test_a_page_has_its_own_period(asked_s, gaps):
    readings = series("runtime_running", [1] * 40, source=SCRAPED, every_s=max(asked_s, 2.0), from_s=-1)
    assert len(summary(readings, metrics_every_s=asked_s).telemetry_gaps) == gaps


def test_a_page_that_another_alias_answered_for_is_not_silent():
    first = series("runtime_running", [1] * 35, source="h:1/metrics a:running", from_s=-1)
    then = series("runtime_waiting", [1] * 40, source="h:1/metrics a:waiting", from_s=34)
    assert summary(first + then).telemetry_gaps == ()


def test_a_value_means_only_what_was_read_and_nothing_across_the_gap():
    found = summary(series("gpu_power_w", [100] * 10 + [None] * 40 + [400] * 10, device="A"))
    assert found.gauges[0].n == 20
    assert found.gauges[0].mean == 250.0


def test_all_of_it_is_kept_with_the_cell():
    readings = series("gpu_energy_j", (1, 2, 3, 4), device="A") + series("gpu_power_w", (1, 1), device="A")
    found = summary(readings)
    assert from_json(as_json(found)) == found
