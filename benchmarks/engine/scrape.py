"""Readings over HTTP: a runtime's own metrics, and GPUs through a DCGM exporter, under our names.

A value that its page stamps with a wall time is placed on our monotonic clock by a clock pair; one without a stamp is as
new as the answer. `source` says where a value came from, and by which alias.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import msgspec

from benchmarks.engine.clocks import NS, ClockPair, clock_pair
from benchmarks.engine.terms import NotReported, Reading
from benchmarks.runtimes.metrics import read_metrics
from benchmarks.runtimes.prometheus import Sample, parse

Found = Reading | NotReported
Get = Callable[[str], str]
Clocks = Callable[[], ClockPair]

SCRAPE_TIMEOUT_S = 2.0
SCRAPE_TOTAL_S = 4.0
"""For one page, however steadily it comes."""
MOST_PAGE_BYTES = 8 * 1024 * 1024
"""Of a page, as it is sent; the largest that a runtime is known to have is a few hundred kilobytes."""
MIB = 1024 * 1024
RENAMED = {"kv_usage": "kv_usage_share"}
# NVIDIA's dcgm-exporter: memory in MiB, utilisation in percent, power in watts, energy in mJ since the driver's start.
DCGM = {
    "DCGM_FI_DEV_POWER_USAGE": ("gpu_power_w", 1.0),
    "DCGM_FI_DEV_FB_USED": ("vram_used_bytes", float(MIB)),
    "DCGM_FI_DEV_GPU_TEMP": ("gpu_temperature_c", 1.0),
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_utilization_share", 0.01),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("gpu_energy_j", 0.001),
    "DCGM_FI_DEV_SLOWDOWN_TEMP": ("gpu_slowdown_c", 1.0),
    "DCGM_FI_DEV_SM_CLOCK": ("gpu_sm_clock_mhz", 1.0),
    "DCGM_FI_DEV_MEM_CLOCK": ("gpu_memory_clock_mhz", 1.0),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": ("gpu_clocks_event_reasons", 1.0),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("gpu_clocks_event_reasons", 1.0),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("gpu_power_limit_w", 1.0),
}
# What a page stamped longer ago is not the present any more, or its host's clock is off: either way no reading.
STALE_AFTER_S = 30.0
DCGM_USED, DCGM_FREE, DCGM_RESERVED = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"


class PageRefusedError(httpx.HTTPError):
    """A page that came and is not read; the message says why."""


def http_get(*, secure: bool = True) -> Get:
    """A getter that never leaves its target: no proxy environment, no redirects, two seconds for each step and four for all
    of a page, which is no larger than 8 MiB and not compressed. Raises httpx.HTTPError.

    Without `secure` no certificates are loaded, which takes longer than the rest of the engine's start; https then
    fails.
    """
    tls = ssl.create_default_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client = httpx.Client(trust_env=False, follow_redirects=False, timeout=SCRAPE_TIMEOUT_S, verify=tls)

    def get(url: str) -> str:
        until_s = time.monotonic() + SCRAPE_TOTAL_S
        with client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response:
            if response.status_code != 200:
                raise httpx.HTTPStatusError(f"HTTP {response.status_code}", request=response.request, response=response)
            return _page(response, until_s)

    return get


def _page(response: httpx.Response, until_s: float) -> str:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        # A few bytes of it may stand for any number.
        raise PageRefusedError(f"the page is compressed ({encoding[:40]}), which was not asked for")
    taken = bytearray()
    for piece in response.iter_raw():
        taken += piece
        if len(taken) > MOST_PAGE_BYTES:
            raise PageRefusedError(f"the page is larger than {MOST_PAGE_BYTES:,} bytes")
        if time.monotonic() > until_s:
            raise PageRefusedError(f"the page took longer than {SCRAPE_TOTAL_S:g} s")
    return taken.decode("utf-8", "replace")


class RuntimeSource:
    """Running, waiting, KV use, preemptions and what else the runtime reports of our canonical names."""

    def __init__(self, url: str, runtime_kind: str, get: Get, clocks: Clocks = clock_pair) -> None:
        self._url, self._kind, self._get, self._clocks = url, runtime_kind, get, clocks

    def read(self, t_ns: int) -> list[Found]:
        source = source_of(self._url)
        try:
            found = read_metrics(self._kind, self._get(self._url))
        except httpx.HTTPError as error:
            return [NotReported(name="runtime_metrics", source=source, reason=_why(error))]
        pair = self._clocks()
        values = [
            placed(
                Reading(t_ns=t_ns, name=_canonical(name), value=value, source=f"{source} {found.matched[name]}"),
                found.stamped_ms.get(name),
                pair,
            )
            for name, value in found.values.items()
        ]
        return values + [
            NotReported(name=_canonical(name), source=source, reason=reason) for name, reason in found.missing.items()
        ]


class DcgmSource:
    """GPU readings of another host, or where NVML is out of reach; by UUID like NVML's."""

    def __init__(self, url: str, get: Get, clocks: Clocks = clock_pair) -> None:
        self._url, self._get, self._clocks = url, get, clocks

    def read(self, t_ns: int) -> list[Found]:
        source = source_of(self._url)
        try:
            samples = parse(self._get(self._url)).samples
        except httpx.HTTPError as error:
            return [NotReported(name="gpu_metrics", source=source, reason=_why(error))]
        pair = self._clocks()
        wanted: dict[tuple[str, str], float | None] = {(s.name, _device(s)): s.value for s in samples}
        stamps = {(s.name, _device(s)): s.at_ms for s in samples}
        found: list[Found] = []
        for (metric, device), value in wanted.items():
            if metric in DCGM and value is not None:
                name, scale = DCGM[metric]
                reading = Reading(t_ns=t_ns, name=name, value=value * scale, source=source, device=device)
                found.append(placed(reading, stamps[metric, device], pair))
            free = wanted.get((DCGM_FREE, device))
            if metric == DCGM_USED and value is not None and free is not None:
                total = (value + free + (wanted.get((DCGM_RESERVED, device)) or 0.0)) * MIB
                found.append(Reading(t_ns=t_ns, name="vram_total_bytes", value=total, source=source, device=device))
        reported = {one.name for one in found}
        absent = sorted({"vram_total_bytes", *(name for name, _ in DCGM.values())} - reported)
        return found + [NotReported(name=name, source=source, reason="not in the exporter's answer") for name in absent]


def _canonical(name: str) -> str:
    return f"runtime_{RENAMED.get(name, name)}"


def _device(sample: Sample) -> str:
    return sample.labels.get("UUID") or sample.labels.get("uuid") or sample.labels.get("gpu") or ""


def placed(reading: Reading, stamp_ms: int | None, pair: ClockPair) -> Found:
    """Where its own stamp puts it on our clock; without one, where it stands."""
    if stamp_ms is None:
        return reading
    t_ns = pair.monotonic_of(stamp_ms)
    if pair.monotonic_ns - t_ns > STALE_AFTER_S * NS:
        why = f"its page stamps it more than {STALE_AFTER_S:g} s ago: it stands still, or that host's clock is off"
        return NotReported(name=reading.name, source=reading.source, reason=why)
    return msgspec.structs.replace(reading, t_ns=t_ns)


def source_of(url: str) -> str:
    """Where it came from, without user, password or query."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}{parts.path}" if parts.port else f"{parts.hostname}{parts.path}"


def _why(error: httpx.HTTPError) -> str:
    words = re.sub(r"\s+", " ", str(error)) or type(error).__name__
    return words if isinstance(error, PageRefusedError) else f"not reachable: {words}"
