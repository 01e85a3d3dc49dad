"""Readings by one name whoever answers; what cannot be had is told with its reason, and is never a zero."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.engine import scrape
from benchmarks.engine.clocks import NS, ClockPair
from benchmarks.engine.host import HostSource, RuntimeProcessSource
from benchmarks.engine.periods import metrics_period_s
from benchmarks.engine.scrape import DcgmSource, RuntimeSource, http_get
from benchmarks.engine.telemetry import Telemetry
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
def page(text: str, status: int = 200, *, pieces: int = 1, after_s: float = 0.0, encoding: str = ""):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            if encoding:
                self.send_header("Content-Encoding", encoding)
            self.end_headers()
            with suppress(OSError):  # the reader may have enough
                for _ in range(pieces):
                    self.wfile.write(text.encode())
                    time.sleep(after_s)

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


def test_the_alias_that_gave_a_value_is_kept_with_it():
    with page(VLLM) as url:
        found = RuntimeSource(url, "vllm", http_get()).read(5)
    by_name = {r.name: r.source.split(" ")[1] for r in found if isinstance(r, Reading)}
    assert by_name["runtime_kv_usage_share"] == "vllm:kv_cache_usage_perc"


STAMPED = 'DCGM_FI_DEV_GPU_TEMP{{UUID="GPU-1"}} 61 {at_ms}\n'


@pytest.mark.parametrize(
    "age_ms, t_ns",
    [
        (0, 500 * NS),
        (2_500, 497_500_000_000),
        (30_000, 470 * NS),
        (-4_000, 500 * NS),  # the other clock is ahead: no reading lies in the future
        (31_000, None),
    ],
)
def test_a_stamp_of_another_host_finds_its_place_by_the_clock_pair(age_ms, t_ns):
    pair = ClockPair(wall_ns=1_700_000_000 * NS, monotonic_ns=500 * NS)
    text = STAMPED.format(at_ms=1_700_000_000_000 - age_ms)
    found = DcgmSource("http://127.0.0.1:1/metrics", lambda _: text, lambda: pair).read(5)
    stamps = [r.t_ns for r in found if isinstance(r, Reading)]
    assert stamps == ([] if t_ns is None else [t_ns])
    if t_ns is None:
        assert "that host's clock is off" in missing(found)["gpu_temperature_c"]


def test_a_stamp_of_a_runtimes_page_does_too():
    pair = ClockPair(wall_ns=1_700_000_000 * NS, monotonic_ns=500 * NS)
    text = "vllm:num_requests_running 3 1699999999000\nvllm:num_requests_waiting 2\n"
    found = RuntimeSource("http://127.0.0.1:1/metrics", "vllm", lambda _: text, lambda: pair).read(7)
    stamps = {r.name: r.t_ns for r in found if isinstance(r, Reading)}
    assert stamps == {"runtime_running": 499 * NS, "runtime_waiting": 7}


@pytest.mark.parametrize(
    "source", [lambda url: RuntimeSource(url, "vllm", http_get()), lambda url: DcgmSource(url, http_get())]
)
def test_a_page_that_does_not_answer_is_told(source):
    with page("", status=404) as url:
        (told,) = source(url).read(1)
    assert told.reason == "not reachable: HTTP 404"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"pieces": 9, "text": "x" * 2**20}, "the page is larger than 8,388,608 bytes"),
        ({"pieces": 100, "text": "# a\n", "after_s": 0.02}, "the page took longer than 0.3 s"),
        ({"text": "", "encoding": "gzip"}, "the page is compressed (gzip), which was not asked for"),
    ],
)
@pytest.mark.parametrize(
    "source", [lambda url: RuntimeSource(url, "vllm", http_get()), lambda url: DcgmSource(url, http_get())]
)
def test_a_page_without_end_is_not_reported_with_that_reason(monkeypatch, source, how, why):
    monkeypatch.setattr(scrape, "SCRAPE_TOTAL_S", 0.3)
    with page(**how) as url:
        (told,) = source(url).read(1)
    assert told.reason == why


def test_a_page_of_just_the_size_is_read():
    text = "vllm:num_requests_running 1\n"
    with page(text + "#" * (scrape.MOST_PAGE_BYTES - len(text))) as url:
        assert values(RuntimeSource(url, "vllm", http_get()).read(1)) == {"runtime_running": 1.0}


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
    absent = ("gpu_energy_j", "gpu_slowdown_c", "gpu_sm_clock_mhz", "gpu_memory_clock_mhz", "gpu_clocks_event_reasons")
    assert missing(found) == dict.fromkeys((*absent, "gpu_power_limit_w"), "not in the exporter's answer")


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
