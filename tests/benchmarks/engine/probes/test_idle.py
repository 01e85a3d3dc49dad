"""Idle: means and peaks of what was read without load, and what nobody reported is not zero."""

from __future__ import annotations

import pytest

from benchmarks.engine.columns import from_frames
from benchmarks.engine.probe_plan import Idle
from benchmarks.engine.probes.cells import probe_cell
from benchmarks.engine.terms import NotReported, Reading
from benchmarks.engine.verdicts import verdict_of
from benchmarks.simulator.profiles import DEMO
from tests.benchmarks.engine.loads.running import run_program
from tests.benchmarks.engine.plans import S, a_header, a_plan, a_record
from tests.benchmarks.engine.probes.evidence import evidence, judged, run_probe
from tests.benchmarks.engine.simulated import simulator


def power(*watts: float, device: str = "GPU-1") -> list[Reading]:
    return [
        Reading(t_ns=n * S, name="gpu_power_w", value=value, source="nvml", device=device)
        for n, value in enumerate(watts)
    ]


@pytest.mark.parametrize(
    ("watts", "word"),
    [
        ((30, 30, 31, 30, 30, 31), "steady"),
        ((60, 50, 40, 30, 30, 30), "moving"),
        ((30, 30, 30, 30), "not_judged"),
        ((0, 0, 0, 0, 0, 0), "steady"),
    ],
)
def test_a_host_at_rest_holds_its_readings(watts, word):
    verdict = judged(Idle(), *power(*watts))
    assert verdict.verdict == word
    figure = verdict.figures["gpu_power_w GPU-1"]
    assert (figure.value, figure.n, figure.unit) == (pytest.approx(sum(watts) / len(watts)), len(watts), "W")
    assert verdict.figures["gpu_power_w GPU-1 peak"].value == max(watts)


def test_what_nobody_reports_is_unknown_with_its_reason():
    absent = NotReported(name="gpu_power_w", source="nvml", reason="no NVIDIA driver on this host")
    host = [Reading(t_ns=n * S, name="host_memory_used_bytes", value=5e9, source="psutil") for n in range(9)]
    verdict = judged(Idle(), absent, *host)
    assert verdict.verdict == "steady"
    assert verdict.figures["gpu_power_w"].value is None
    assert "gpu_power_w: nvml: no NVIDIA driver on this host." in verdict.reasons
    assert "vram_used_bytes: not reported." in verdict.reasons


def test_each_card_has_its_own_figures():
    verdict = judged(Idle(), *power(30, 30, 30, 30, 30, 30), *power(90, 90, 90, 60, 60, 60, device="GPU-2"))
    assert verdict.verdict == "moving"
    assert [reason for reason in verdict.reasons if "moved" in reason] == [
        "gpu_power_w GPU-2 moved by more than 10\u00a0% between its halves."
    ]


def test_a_probe_cut_short_is_not_judged():
    verdict = judged(Idle(), *power(30, 30, 30, 30, 30, 30), stopped="stopped: cancel was asked for")
    assert verdict.verdict == "not_judged"
    assert verdict.reasons[0] == "The probe was stopped: stopped: cancel was asked for."


def test_nothing_is_asked_while_the_host_is_watched(tmp_path):
    with simulator() as (url, model):
        left, verdict = run_probe(tmp_path, url, model, Idle(idle_s=0.3))
    assert left.records == []
    assert verdict.figures["watched"].value == pytest.approx(0.3, abs=0.1)
    assert (verdict.verdict, verdict.evidence.complete) == ("not_judged", True)


def test_plain_load_has_no_verdict():
    assert verdict_of(from_frames([a_header(), a_record(0)])) is None
    assert verdict_of(evidence(Idle())) is not None


def test_the_program_reads_the_simulated_card_at_rest_as_it_was_made(tmp_path):
    """35 W and 10.4 GiB of weights; each active sequence would hold more."""
    with simulator() as (url, model):
        made = a_plan(base_url=url, model=model, gpu_metrics_url=f"{url}/gpu/metrics", metrics_url=f"{url}/metrics")
        code, words, left = run_program(probe_cell(made, Idle(idle_s=5.0, least_readings=2)), tmp_path)
    assert code == 0, words
    verdict = verdict_of(left.columns)
    assert verdict is not None
    found = {name.split()[0]: figure for name, figure in verdict.figures.items() if figure.value is not None}
    # The memory of the host that runs this test may move; the card does not.
    assert verdict.verdict in ("steady", "moving")
    assert [reason for reason in verdict.reasons if "moved" in reason and not reason.startswith("host_")] == []
    assert left.records == []
    assert found["gpu_power_w"].value == pytest.approx(DEMO.card.idle_w, rel=0.05)
    assert found["vram_used_bytes"].value == pytest.approx(DEMO.card.weights_bytes, rel=0.01)
    assert found["gpu_power_w"].n >= 2
