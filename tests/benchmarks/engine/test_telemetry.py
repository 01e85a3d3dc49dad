"""Readings by one name whoever answers; what cannot be had is told with its reason, and is never a zero."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pynvml
import pytest

from benchmarks.engine.host import HostSource, RuntimeProcessSource
from benchmarks.engine.nvml import NO_DRIVER, UNIFIED, NvmlSource
from benchmarks.engine.scrape import DcgmSource, RuntimeSource, http_get
from benchmarks.engine.telemetry import Telemetry, metrics_period_s
from benchmarks.engine.terms import NotReported, Reading
from tests.benchmarks.engine.plans import a_plan

DCGM = """# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",device="nvidia0"} 61
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1",device="nvidia0"} 250.5
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0"} 98
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",device="nvidia0"} 20000
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-1",device="nvidia0"} 4000
"""
VLLM = """vllm:num_requests_running{model_name="m"} 4.0
vllm:num_requests_waiting{model_name="m"} 2.0
vllm:kv_cache_usage_perc{model_name="m"} 0.25
vllm:num_preemptions_total{model_name="m"} 480.0
"""


@contextmanager
def page(text: str, status: int = 200):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def values(found) -> dict[str, float]:
    return {r.name: r.value for r in found if isinstance(r, Reading)}


def missing(found) -> dict[str, str]:
    return {n.name: n.reason for n in found if isinstance(n, NotReported)}


def test_a_runtimes_metrics_come_under_our_names():
    with page(VLLM) as url:
        found = RuntimeSource(url, "vllm", http_get()).read(5)
    assert values(found) == {
        "runtime_running": 4.0,
        "runtime_waiting": 2.0,
        "runtime_kv_usage_share": 0.25,
        "runtime_preemptions_total": 480.0,
    }
    assert {r.t_ns for r in found if isinstance(r, Reading)} == {5}
    assert missing(found)["runtime_prefix_hit_tokens_total"] == "not reported"


def test_a_missing_metric_is_not_reported_and_not_zero():
    with page("vllm:num_requests_running 1\n") as url:
        found = RuntimeSource(url, "vllm", http_get()).read(1)
    assert values(found) == {"runtime_running": 1.0}
    assert missing(found)["runtime_kv_usage_share"] == "not reported"


@pytest.mark.parametrize(
    "source", [lambda url: RuntimeSource(url, "vllm", http_get()), lambda url: DcgmSource(url, http_get())]
)
def test_a_page_that_does_not_answer_is_told(source):
    with page("", status=404) as url:
        (told,) = source(url).read(1)
    assert told.reason == "not reachable: HTTP 404"


def test_a_dcgm_exporter_gives_the_same_names_as_nvml_in_our_units():
    with page(DCGM) as url:
        found = DcgmSource(url, http_get()).read(1)
    assert values(found) == {
        "gpu_temperature_c": 61.0,
        "gpu_power_w": 250.5,
        "gpu_utilization_share": 0.98,
        "vram_used_bytes": 20000 * 2**20,
        "vram_total_bytes": 24000 * 2**20,
    }
    assert {r.device for r in found if isinstance(r, Reading)} == {"GPU-1"}
    assert missing(found) == {"gpu_energy_j": "not in the exporter's answer"}


class Cards:
    """NVML of `count` cards; a function named in `fails` raises for the card with that index."""

    NVMLError = pynvml.NVMLError
    NVMLError_LibraryNotFound = pynvml.NVMLError_LibraryNotFound
    NVMLError_NotSupported = pynvml.NVMLError_NotSupported
    NVMLError_NoPermission = pynvml.NVMLError_NoPermission
    NVMLError_FunctionNotFound = pynvml.NVMLError_FunctionNotFound
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, count: int = 1, fails=(), init_error: Exception | None = None) -> None:
        self.count, self.fails, self.init_error = count, fails, init_error
        self.asked: list[str] = []

    def nvmlInit(self) -> None:
        if self.init_error:
            raise self.init_error

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def answer(self, name: str, handle: int, value):
        self.asked.append(name)
        if (handle, name) in self.fails:
            raise pynvml.NVMLError_NotSupported
        return value

    def nvmlDeviceGetMemoryInfo(self, handle: int):
        return self.answer("memory", handle, SimpleNamespace(used=10, total=24))

    def nvmlDeviceGetPowerUsage(self, handle: int):
        return self.answer("power", handle, 250_500)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int):
        return self.answer("energy", handle, 5_000)

    def nvmlDeviceGetTemperature(self, handle: int, _sensor: int):
        return self.answer("temperature", handle, 61)

    def nvmlDeviceGetUtilizationRates(self, handle: int):
        return self.answer("utilization", handle, SimpleNamespace(gpu=98))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int):
        return self.answer("clocks", handle, 4)


def test_all_readings_of_a_card_in_our_units():
    assert values(NvmlSource(Cards()).read(1)) == {
        "vram_used_bytes": 10.0,
        "vram_total_bytes": 24.0,
        "gpu_power_w": 250.5,
        "gpu_energy_j": 5.0,
        "gpu_temperature_c": 61.0,
        "gpu_utilization_share": 0.98,
        "gpu_clocks_event_reasons": 4.0,
    }


def test_power_of_one_card_of_two_is_told_for_that_card_and_not_asked_again():
    cards = Cards(count=2, fails={(1, "power")})
    source = NvmlSource(cards)
    source.read(1)
    asked = cards.asked.count("power")
    found = source.read(2)
    assert {r.device for r in found if isinstance(r, Reading) and r.name == "gpu_power_w"} == {"GPU-0"}
    assert missing(found)["gpu_power_w"].startswith("GPU-1: not supported by this GPU")
    assert cards.asked.count("power") == asked + 1


def test_unified_memory_is_named_and_power_still_read():
    found = NvmlSource(Cards(fails={(0, "memory")})).read(1)
    assert missing(found) == {"vram_used_bytes": f"GPU-0: {UNIFIED}", "vram_total_bytes": f"GPU-0: {UNIFIED}"}
    assert values(found)["gpu_power_w"] == 250.5


def test_without_a_driver_every_name_says_so():
    found = NvmlSource(Cards(init_error=pynvml.NVMLError_LibraryNotFound())).read(1)
    assert values(found) == {}
    assert set(missing(found).values()) == {NO_DRIVER}


def test_the_host_is_read():
    found = values(HostSource().read(1))
    assert 0 < found["host_memory_used_bytes"] < found["host_memory_total_bytes"]
    assert 0 <= found["host_cpu_share"] <= 1


def test_memory_of_the_process_that_listens_on_the_targets_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        source = RuntimeProcessSource(f"http://127.0.0.1:{listening.getsockname()[1]}")
        assert values(source.read(1))["runtime_rss_bytes"] > 1_000_000
        assert source._pid == os.getpid()


@pytest.mark.parametrize(
    "url, words", [("http://192.0.2.1:8000", "another host"), ("http://127.0.0.1:1", "no process")]
)
def test_a_process_that_cannot_be_seen_is_told(url, words):
    assert words in missing(RuntimeProcessSource(url).read(1))["runtime_rss_bytes"]


@pytest.mark.parametrize(
    "simulated, asked_s, period_s", [(False, 0.5, 2.0), (False, 5.0, 5.0), (True, 0.5, 0.5), (True, 0.01, 0.2)]
)
def test_a_real_runtime_is_never_polled_faster_than_every_two_seconds(simulated, asked_s, period_s):
    assert metrics_period_s(a_plan(simulated=simulated, metrics_every_s=asked_s)) == period_s


class Broken:
    def read(self, t_ns: int):
        raise RuntimeError("sensor on fire")


def test_a_failing_source_is_told_once_and_the_others_go_on():
    telemetry = Telemetry(lambda: [(0.01, Broken()), (0.01, HostSource())])
    telemetry.start()
    found = []
    until = time.monotonic() + 10
    while len([f for f in found if isinstance(f, Reading)]) < 8 and time.monotonic() < until:
        time.sleep(0.02)
        found += telemetry.take()
    telemetry.stop()
    assert missing(found) == {"Broken": "failed: RuntimeError: sensor on fire"}
    assert len([f for f in found if isinstance(f, NotReported)]) == 1
    assert values(found)["host_memory_total_bytes"] > 0
