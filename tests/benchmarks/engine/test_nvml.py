"""NVML through the real pynvml and a library of our own: each card says what it can, and the rest in words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.engine.columns import from_frames
from benchmarks.engine.nvml import NAMES, UNIFIED, UNIFIED_SOURCE
from benchmarks.engine.nvml_calls import LOST, NO_DRIVER, NO_FUNCTION, NO_GPU, NO_PERMISSION, NOT_SUPPORTED
from benchmarks.engine.summary_telemetry import gpu_totals
from benchmarks.engine.terms import Reading, Window
from tests.benchmarks.engine import nvml_stub
from tests.benchmarks.engine.nvml_stub import Stub
from tests.benchmarks.engine.plans import S, a_header

pytestmark = pytest.mark.needs("gcc", "apt install gcc")
GIB, MIB = 2**30, 2**20
A, B = "GPU-stub-0", "GPU-stub-1"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return Stub(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def stub(compiled):
    compiled.set()
    return compiled


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    return Stub(tmp_path_factory.mktemp("nvml-old"), "-DOLD_DRIVER")


def test_a_card_says_everything_in_our_units(stub):
    values, missing = stub.read()
    assert missing == {}
    assert values == {
        ("vram_used_bytes", A): 4 * GIB + 512 * MIB,  # what the driver keeps for itself is not free
        ("vram_total_bytes", A): 24 * GIB,
        ("vram_reserved_bytes", A): 512 * MIB,
        ("gpu_power_w", A): 200.0,
        ("gpu_energy_j", A): 5000.0,
        ("gpu_temperature_c", A): 50.0,
        ("gpu_slowdown_c", A): 95.0,
        ("gpu_utilization_share", A): 0.98,
        ("gpu_sm_clock_mhz", A): 1800.0,
        ("gpu_memory_clock_mhz", A): 9000.0,
        ("gpu_clocks_event_reasons", A): 0.0,
        ("gpu_power_limit_w", A): 350.0,
        ("gpu_other_processes", A): 0.0,
    }


def test_an_older_driver_is_asked_in_its_own_way(old):
    values, missing = old.read(times=2)
    assert values["vram_used_bytes", A] == 4 * GIB + 512 * MIB
    assert values["gpu_temperature_c", A] == 50.0
    assert values["gpu_clocks_event_reasons", A] == 0.0
    assert values["gpu_other_processes", A] == 0.0
    assert missing == {"vram_reserved_bytes": f"{A}: {NO_FUNCTION}"}


@pytest.mark.parametrize(
    ("function", "names"),
    [
        ("nvmlDeviceGetPowerUsage", ["gpu_power_w"]),
        ("nvmlDeviceGetTotalEnergyConsumption", ["gpu_energy_j"]),
        ("nvmlDeviceGetUtilizationRates", ["gpu_utilization_share"]),
        ("nvmlDeviceGetTemperatureThreshold", ["gpu_slowdown_c"]),
        ("nvmlDeviceGetClockInfo", ["gpu_sm_clock_mhz", "gpu_memory_clock_mhz"]),
        ("nvmlDeviceGetEnforcedPowerLimit", ["gpu_power_limit_w"]),
    ],
)
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (nvml_stub.NOT_SUPPORTED, NOT_SUPPORTED),
        (nvml_stub.NO_PERMISSION, NO_PERMISSION),
        (nvml_stub.UNKNOWN_FUNCTION, NO_FUNCTION),
    ],
)
def test_what_a_card_refuses_is_words_and_never_zero(stub, function, names, code, words):
    stub.set(**{f"fail_{function}": code})
    values, missing = stub.read()
    assert missing == dict.fromkeys(names, f"{A}: {words}")
    assert {name for name, _ in values} == set(NAMES) - set(names)


def test_power_that_one_of_two_cards_does_not_know_is_told_for_that_card(stub):
    stub.set(cards=2, gpu1_fail_nvmlDeviceGetPowerUsage=nvml_stub.NOT_SUPPORTED, gpu1_vram=8 * GIB, gpu1_slowdown=80)
    values, missing = stub.read()
    assert [device for name, device in values if name == "gpu_power_w"] == [A]
    assert missing == {"gpu_power_w": f"{B}: {NOT_SUPPORTED}"}
    assert (values["vram_total_bytes", A], values["vram_total_bytes", B]) == (24 * GIB, 8 * GIB)
    assert (values["gpu_slowdown_c", A], values["gpu_slowdown_c", B]) == (95.0, 80.0)


def test_memory_that_is_the_hosts_is_read_there_and_says_so(stub):
    refused = nvml_stub.NOT_SUPPORTED
    stub.set(fail_nvmlDeviceGetMemoryInfo_v2=refused, fail_nvmlDeviceGetMemoryInfo=refused)
    values, missing = stub.read()
    host = stub.run("import psutil; answer = psutil.virtual_memory().total")
    assert values["vram_total_bytes", A] == host
    assert 0 < values["vram_used_bytes", A] < host
    assert values["gpu_power_w", A] == 200.0
    assert missing == {"vram_reserved_bytes": f"{A}: {UNIFIED}"}
    assert stub.sources()["vram_used_bytes"] == UNIFIED_SOURCE


def test_memory_that_may_not_be_asked_for_is_not_taken_for_the_hosts(stub):
    stub.set(
        fail_nvmlDeviceGetMemoryInfo_v2=nvml_stub.NO_PERMISSION, fail_nvmlDeviceGetMemoryInfo=nvml_stub.NO_PERMISSION
    )
    values, missing = stub.read()
    assert not [name for name, _ in values if name.startswith("vram")]
    assert missing == {f"vram_{what}_bytes": f"{A}: {NO_PERMISSION}" for what in ("used", "total", "reserved")}


def test_a_card_that_is_lost_says_so_once_for_everything_and_the_other_goes_on(stub):
    stub.set(cards=2, gpu1_fail_nvmlDeviceGetPowerUsage=nvml_stub.IS_LOST)
    values, missing = stub.read(times=2)
    assert values["gpu_lost", B] == 1.0
    assert {device for name, device in values if name != "gpu_lost"} == {A}
    assert set(missing.values()) == {f"{B}: {LOST}"}
    assert set(missing) == set(NAMES)


def test_a_card_that_was_lost_before_the_start_is_among_the_cards(stub):
    stub.set(cards=2, gpu1_fail_nvmlDeviceGetHandleByIndex_v2=nvml_stub.IS_LOST)
    values, _ = stub.read()
    assert values["gpu_lost", "GPU 1"] == 1.0
    assert values["gpu_power_w", A] == 200.0


def test_a_card_that_may_not_be_asked_anything_is_missing_from_sums_and_not_left_out(stub):
    stub.set(cards=2, gpu1_fail_nvmlDeviceGetHandleByIndex_v2=nvml_stub.NO_PERMISSION)
    values, missing = stub.read()
    assert {name for name, device in values if device == "GPU 1"} == {"gpu_silent"}
    assert missing["gpu_power_w"].startswith("GPU 1: NVML: ")
    readings = [
        Reading(t_ns=t_ns, name=name, value=value, source="nvml", device=device)
        for (name, device), value in values.items()
        for t_ns in (0, 3 * S)
    ]
    columns = from_frames([a_header(), *readings, Window(start_ns=0, end_ns=3 * S)])
    power = next(total for total in gpu_totals(columns.readings, columns.window) if total.name == "gpu_power_w")
    assert (power.known, power.of, power.missing) == (1, 2, ("GPU 1",))


def test_a_fault_that_passes_is_asked_about_again(stub):
    body = """
from benchmarks.engine.nvml import NvmlSource
from pathlib import Path
source, state = NvmlSource(pynvml), Path({state!r})
state.write_text("fail.nvmlDeviceGetPowerUsage {first}\\n")
source.read(1)
state.write_text("")
answer = any(one.name == "gpu_power_w" and hasattr(one, "value") for one in source.read(2))
"""
    state = str(stub.folder / "state")
    assert stub.run(body.format(state=state, first=999)) is True
    assert stub.run(body.format(state=state, first=nvml_stub.NOT_SUPPORTED)) is False


@pytest.mark.parametrize(
    ("ours", "others"), [([4000, 4001], 0), ([4000], 1), ([], None), ([7], None)]
)  # the stub's processes are 4000 and 4001
def test_other_processes_are_told_from_the_runtimes_own(stub, ours, others):
    stub.set(gpu0_processes=2)
    body = f"""
from benchmarks.engine.nvml import NvmlSource
found = [one for one in NvmlSource(pynvml, lambda: frozenset({ours})).read(1) if one.name == "gpu_other_processes"]
answer = [getattr(one, "value", None) for one in found]
"""
    assert stub.run(body) == [others]


def test_without_cards_and_without_a_driver_every_name_says_so(stub):
    stub.set(cards=0)
    assert stub.read() == ({}, dict.fromkeys(NAMES, NO_GPU))
    body = (
        "import json, pynvml\nfrom benchmarks.engine.nvml import NvmlSource\n"
        "print(json.dumps({n.name: n.reason for n in NvmlSource(pynvml).read(1)}))"
    )
    environment = stub.environment | {"LD_LIBRARY_PATH": "/nowhere"}
    ended = subprocess.run(
        [sys.executable, "-c", body], env=environment, cwd=nvml_stub.ROOT, capture_output=True, text=True, check=True
    )
    assert all(f'"{name}": "{NO_DRIVER}"' in ended.stdout for name in NAMES)


def test_facts_of_a_card_are_what_grids_are_compared_by(stub):
    refused = dict.fromkeys(
        ("gpu1_fail_nvmlDeviceGetEccMode", "gpu1_fail_nvmlDeviceGetMigMode"), nvml_stub.NOT_SUPPORTED
    )
    stub.set(cards=2, gpu0_name="Big", gpu1_name="Small", gpu1_vram=8 * GIB, gpu0_mig=1, **refused)
    big, small = stub.run("from benchmarks import probe\nanswer = probe.host_facts()['gpus']")
    assert big == {
        "uuid": A, "name": "Big", "driver": "610.1", "vbios": "90.00.0", "vram_bytes": 24 * GIB, "power_limit_w": 350.0,
        "slowdown_c": 95.0, "ecc": "on", "mig": "on",
    }  # fmt: skip
    assert (small["name"], small["vram_bytes"], small["uuid"]) == ("Small", 8 * GIB, B)
    assert (small["ecc"], small["mig"]) == (f"not reported: {NOT_SUPPORTED}", f"not reported: {NOT_SUPPORTED}")
