"""Recovery: how long after the trouble the light client's requests take what they took before."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import msgspec
import pytest

from benchmarks.engine.probe_plan import Recovery
from benchmarks.engine.probes.cells import probe_cell
from benchmarks.engine.terms import NotReported, Outcome, Reading
from benchmarks.engine.verdicts import verdict_of
from tests.benchmarks.engine.loads.running import run_program
from tests.benchmarks.engine.plans import FAILED, S, a_plan
from tests.benchmarks.engine.probes.evidence import judged, request, run_probe
from tests.benchmarks.engine.simulated import simulator

PROBE = Recovery(storm_s=10.0)
BEFORE = [request("before", n * 0.5, n * 0.5 + 0.1) for n in range(20)]
DURING = [request("during", 10 + n, 10.9 + n) for n in range(10)]
BROKEN = FAILED | {"outcome": Outcome.CONNECT_ERROR}


def after(*took_s: float, from_s: float = 20.0):
    return [request("after", from_s + n, from_s + n + took) for n, took in enumerate(took_s)]


@pytest.mark.parametrize(
    ("took_s", "word", "back_s"),
    [
        ((0.1,) * 5, "recovers", 0.0),
        ((0.9, 0.9, 0.1, 0.1, 0.1, 0.1, 0.1), "recovers", 2.0),
        ((0.9, 0.1, 0.1, 0.9, 0.1, 0.1, 0.1, 0.1, 0.15), "recovers", 4.0),
        ((0.9,) * 8, "does_not_recover", None),
        ((0.1,) * 4, "does_not_recover", None),
    ],
)
def test_back_is_the_first_of_five_in_a_row_as_before(took_s, word, back_s):
    verdict = judged(PROBE, *BEFORE, *DURING, *after(*took_s))
    assert verdict.verdict == word
    assert verdict.figures["back_to_latency"].value == (back_s if back_s is None else pytest.approx(back_s))
    assert verdict.figures["p95_before"].value == pytest.approx(0.1)


def test_a_trouble_that_moved_nothing_is_no_recovery():
    calm = [request("during", 10 + n, 10.1 + n) for n in range(10)]
    assert judged(PROBE, *BEFORE, *calm, *after(*(0.1,) * 5)).verdict == "not_disturbed"


def test_a_restart_counts_from_the_first_request_that_failed():
    down = [request("during", 13.0 + n, 13.1 + n, **BROKEN) for n in range(3)]
    up = [request("during", 16.0 + n, 16.1 + n) for n in range(4)]
    verdict = judged(Recovery(after="restart"), *BEFORE, *DURING[:3], *down, *up, *after(*(0.1,) * 5))
    assert verdict.verdict == "recovers"
    assert verdict.figures["back_to_latency"].value == pytest.approx(3.0)
    assert verdict.figures["failed_during"].value == 3


@pytest.mark.parametrize(
    ("probe", "found", "reason"),
    [
        (PROBE, (*BEFORE[:12], *DURING), "Only 12 requests before the trouble; 20 are needed for a baseline."),
        (PROBE, BEFORE, "There was no trouble to recover from."),
        (Recovery(after="restart"), (*BEFORE, *DURING), "No restart was seen: no request failed."),
    ],
)
def test_why_it_cannot_be_judged_is_said(probe, found, reason):
    verdict = judged(probe, *found)
    assert (verdict.verdict, verdict.reasons) == ("not_judged", (reason,))


def test_power_is_back_when_a_reading_is_near_its_mean_before_and_memory_nobody_reports_is_unknown():
    watts = [(t, 100.0) for t in range(10)] + [(t, 300.0) for t in range(10, 23)] + [(t, 105.0) for t in range(23, 30)]
    power = [Reading(t_ns=t * S, name="gpu_power_w", value=w, source="nvml", device="GPU-1") for t, w in watts]
    absent = NotReported(name="vram_used_bytes", source="nvml", reason="not supported by this GPU")
    verdict = judged(PROBE, *BEFORE, *DURING, *after(*(0.1,) * 5), *power, absent)
    assert verdict.figures["back_to_power GPU-1"].value == pytest.approx(3.0)
    assert verdict.figures["back_to_memory"].value is None
    assert verdict.reasons == ("memory: nvml: not supported by this GPU.",)


QUICK = {
    "before_s": 0.6,
    "least_after_s": 0.0,
    "storm_s": 1.0,
    "after_s": 10.0,
    "light_output_tokens": 2,
    "light_every_s": 0.01,
}


@pytest.mark.parametrize("trouble", ["overload", "cancel_storm"])
def test_the_simulator_recovers_once_its_queue_is_empty(tmp_path, trouble):
    """Two sequences at a time and sixteen clients that ask for 20 tokens of 20 ms each: a light request waits for all who
    came before it, until they are done or have left."""
    probe = Recovery(after=trouble, storm_clients=16, storm_output_tokens=20, leave_after_s=0.3, **QUICK)
    with simulator("--profile", "calibrate", "--active", "2") as (url, model):
        left, verdict = run_probe(tmp_path, url, model, probe)
    assert verdict.verdict == "recovers", verdict
    assert verdict.figures["slowest_during"].value > 3 * verdict.figures["p95_before"].value
    assert 0 <= verdict.figures["back_to_latency"].value < 6
    assert left.summary.conserved is True


def test_a_server_that_is_gone_and_comes_back_is_a_restart(tmp_path):
    probe = Recovery(after="restart", **QUICK | {"storm_s": 6.0})
    with ExitStack() as first:
        url, model = first.enter_context(simulator("--profile", "calibrate"))
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run_probe, tmp_path, url, model, probe)
            time.sleep(2.5)
            first.close()
            with simulator("--profile", "calibrate", "--port", url.rpartition(":")[2]):
                _, verdict = running.result()
    assert verdict.verdict == "recovers", verdict
    assert verdict.figures["failed_during"].value > 0
    assert 0 < verdict.figures["back_to_latency"].value < 4


def test_memory_and_power_of_the_simulated_card_come_back_after_a_storm(tmp_path):
    """It holds 1.33 GiB for each of eight sequences, and gives them back two seconds after the last."""
    probe = Recovery(before_s=6.0, storm_s=4.0, storm_clients=16, least_after_s=8.0, after_s=20.0)
    with simulator() as (url, model):
        made = a_plan(
            base_url=url, model=model, gpu_metrics_url=f"{url}/gpu/metrics", max_requests=5000, max_tokens=10**6
        )
        plan = msgspec.structs.replace(probe_cell(made, probe), max_wall_s=60.0)
        code, words, left = run_program(plan, tmp_path)
    assert code == 0, words
    verdict = verdict_of(left.columns)
    assert verdict is not None
    assert verdict.verdict == "recovers", verdict
    found = {name.split()[0]: figure.value for name, figure in verdict.figures.items()}
    assert found["back_to_memory"] is not None, verdict
    assert 0 <= found["back_to_memory"] < 8
    assert 0 <= found["back_to_power"] < 8
