"""The idle host, and what is still warm: on both sides of the tenth."""

from __future__ import annotations

import pytest

from benchmarks.engine.cool import Baseline, Idle, baseline_of, comparable, warm
from benchmarks.engine.terms import NotReported, Reading

WORDS = {
    "heat": "gpu_temperature_c",
    "power": "gpu_power_w",
    "memory": "vram_used_bytes",
    "busy": "gpu_utilization_share",
}
IDLE = Baseline(at="", gpus={"A": Idle(temperature_c=40.0, power_w=60.0), "B": Idle(temperature_c=30.0)})


def card(device: str = "A", **values: float) -> list[Reading]:
    return [Reading(t_ns=1, name=WORDS[word], value=v, source="nvml", device=device) for word, v in values.items()]


@pytest.mark.parametrize(
    ("now", "above"),
    [
        (card(heat=44, power=66), ()),
        (card(heat=45, power=66), ("A at 45 °C, idle 40 °C",)),
        (card(heat=44, power=67), ("A at 67 W, idle 60 W",)),
        (card(heat=20, power=10), ()),
        (card(heat=44, power=66) + card("B", heat=34), ("B at 34 °C, idle 30 °C",)),
        (card("B", power=400), ()),  # nobody knows what it draws when idle
        (card("C", heat=99), ()),
        ([], ()),
    ],
)
def test_warm_is_more_than_a_tenth_above_the_idle_host(now, above):
    assert warm(IDLE, now) == above


@pytest.mark.parametrize(
    ("now", "known"),
    [(card(heat=1), True), (card(power=1), True), (card("B", power=1), False), (card("C", heat=1), False)],
)
def test_readings_of_another_card_or_another_kind_cannot_be_compared(now, known):
    assert comparable(IDLE, now) is known


def test_the_baseline_is_the_middle_of_several_reads():
    host = Reading(t_ns=1, name="host_memory_used_bytes", value=7.0, source="psutil")
    reads = [
        [*card(heat=h, power=p, memory=5, busy=b), host] for h, p, b in ((40, 90, 0), (41, 60, 0.9), (60, 61, 0.05))
    ]
    found = baseline_of("now", reads)
    assert found.gpus == {"A": Idle(temperature_c=41.0, power_w=61.0, vram_used_bytes=5.0, utilization_share=0.05)}
    assert (found.host_memory_used_bytes, found.busy, found.why) == (7.0, (), "")


def test_a_card_that_had_work_is_named():
    assert baseline_of("now", [card(heat=40, busy=0.5)]).busy == ("A",)


def test_a_host_without_gpu_readings_says_why():
    told = NotReported(name="gpu_temperature_c", source="nvml", reason="no NVIDIA driver on this host")
    found = baseline_of("now", [[told]])
    assert (dict(found.gpus), found.why) == ({}, "no NVIDIA driver on this host")
