"""The guard in a running engine, whose GPUs are the stub's: what happens on the card ends the stage, with its reason."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.engine import plan as plans
from benchmarks.engine.columns import from_log
from benchmarks.engine.nvml_calls import LOST, NO_DRIVER, NOT_SUPPORTED
from benchmarks.engine.plan import Fixed, Guard
from benchmarks.engine.summary import summarise
from tests.benchmarks.engine import nvml_stub
from tests.benchmarks.engine.nvml_stub import ROOT, Stub
from tests.benchmarks.engine.plans import a_class, a_plan
from tests.benchmarks.engine.simulated import simulator

pytestmark = pytest.mark.needs("gcc", "apt install gcc")
EVERY_S = 0.2
A, B = "GPU-stub-0", "GPU-stub-1"
LONG_ANSWERS = (a_class(output_tokens=Fixed(120)),)


@pytest.fixture
def stub(tmp_path):
    folder = tmp_path / "nvml"
    folder.mkdir()
    return Stub(folder)


@pytest.fixture(scope="module")
def target():
    with simulator() as (url, model):
        yield url, model


def run(stub: Stub, folder: Path, target, then: Callable[[], None] = lambda: None, **changes) -> SimpleNamespace:
    """The cell as its log tells it. `then` is called after a second."""
    url, model = target
    fields = {
        "base_url": url, "model": model, "offered_concurrency": 2, "window_s": 20.0, "max_requests": 10_000,
        "max_wall_s": 30.0, "metrics_every_s": EVERY_S,
    } | changes  # fmt: skip
    (folder / "plan.json").write_bytes(plans.encode(a_plan(**fields)))
    command = [sys.executable, "-m", "benchmarks.engine", str(folder / "plan.json"), str(folder / "cell.log")]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=stub.environment, cwd=ROOT
    )
    try:
        time.sleep(1.0)
        then()
        assert process.wait(timeout=60) == 0
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
    columns = from_log(folder / "cell.log")
    return SimpleNamespace(columns=columns, end=columns.end, summary=summarise(columns, columns.plan))


@pytest.mark.parametrize(("slowdown", "limit", "step"), [(110, 85, 1), (110, 85, 4), (80, 75, 1)])
def test_a_temperature_ramp_stops_the_stage_before_its_limit(stub, tmp_path, target, slowdown, limit, step):
    stub.set(gpu0_slowdown=slowdown, gpu0_temp=60, gpu0_temp_step=step)
    done = run(stub, tmp_path, target)
    assert re.fullmatch(
        rf"guard: {A} at \d+ °C and rising: \d+ °C by the next reading, "
        rf"(limit|5 below its slowdown) {limit} °C", done.end.reason,
    ), done.end.reason  # fmt: skip
    assert done.end.complete is False
    assert done.summary.gauge("gpu_temperature_c").peak < limit
    assert done.summary.conserved


@pytest.mark.parametrize(("on_stop", "ended"), [("cancel", "cancelled_by_us"), ("drain", "ok")])
def test_what_is_in_flight_at_a_stop_is_ended_or_may_finish_as_chosen(stub, tmp_path, target, on_stop, ended):
    stub.set(gpu0_temp=60, gpu0_temp_step=2)
    done = run(stub, tmp_path, target, guard=Guard(on_stop=on_stop), classes=LONG_ANSWERS)
    assert "and rising" in done.end.reason
    assert done.summary.outcomes.get("cancelled_by_us", 0) == (2 if on_stop == "cancel" else 0)
    assert done.summary.outcomes[ended] > 0
    assert done.summary.conserved


def test_a_lost_card_ends_the_stage_and_its_requests_whatever_was_chosen(stub, tmp_path, target):
    stub.set(cards=2)

    def lose() -> None:
        stub.set(cards=2, gpu1_fail_nvmlDeviceGetPowerUsage=nvml_stub.IS_LOST)

    done = run(stub, tmp_path, target, lose, guard=Guard(on_stop="drain"), classes=LONG_ANSWERS)
    assert done.end.reason == f"guard: {B} is lost: the driver cannot reach it any more"
    assert done.summary.outcomes["cancelled_by_us"] == 2
    assert f"{B}: {LOST}" in {n.reason for n in done.columns.not_reported}


def test_several_processes_stop_by_the_same_guard(stub, tmp_path, target):
    guard = Guard(on_stop="drain")
    stub.set(gpu0_temp=60, gpu0_temp_step=2)
    done = run(stub, tmp_path, target, processes=2, guard=guard, classes=LONG_ANSWERS)
    assert "and rising" in done.end.reason
    assert done.summary.outcomes.get("cancelled_by_us", 0) == 0


def test_two_unlike_cards_of_which_one_says_little_are_told_apart(stub, tmp_path, target):
    refused = dict.fromkeys(("gpu1_fail_nvmlDeviceGetPowerUsage", "gpu1_fail_nvmlDeviceGetMemoryInfo_v2",
                             "gpu1_fail_nvmlDeviceGetMemoryInfo"), nvml_stub.NO_PERMISSION)  # fmt: skip
    stub.set(cards=2, gpu0_mw=250_000, gpu1_slowdown=90, gpu1_temp=70, **refused)
    summary = run(stub, tmp_path, target, window_s=2.0).summary
    assert summary.complete
    peaks = {(g.name, g.device): g.peak for g in summary.gauges}
    assert (peaks["gpu_slowdown_c", A], peaks["gpu_slowdown_c", B]) == (95.0, 90.0)
    assert [device for name, device in peaks if name == "gpu_power_w"] == [A]
    totals = {total.name: total for total in summary.gpu_totals}
    assert (totals["gpu_power_w"].known, totals["gpu_power_w"].of, totals["gpu_power_w"].missing) == (1, 2, (B,))
    assert 0.0 not in [g.peak for g in summary.gauges if g.name in ("gpu_power_w", "vram_used_bytes")]


def test_a_card_without_power_and_memory_is_measured_all_the_same(stub, tmp_path, target):
    what = ("PowerUsage", "TotalEnergyConsumption", "UtilizationRates")
    stub.set(**{f"fail_nvmlDeviceGet{name}": nvml_stub.NOT_SUPPORTED for name in what})
    summary = run(stub, tmp_path, target, window_s=2.0).summary
    assert summary.complete
    words = f"nvml: {A}: {NOT_SUPPORTED}"
    assert {summary.not_reported[n] for n in ("gpu_power_w", "gpu_energy_j", "gpu_utilization_share")} == {words}
    assert summary.gauge("gpu_power_w") is None


def test_without_a_driver_a_cell_says_so_and_is_measured(stub, tmp_path, target):
    (stub.folder / "libnvidia-ml.so.1").unlink()
    summary = run(stub, tmp_path, target, window_s=1.0).summary
    assert summary.complete
    assert summary.not_reported["gpu_power_w"] == f"nvml: {NO_DRIVER}"
