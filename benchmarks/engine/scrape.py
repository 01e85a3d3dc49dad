"""Readings over HTTP: a runtime's own Prometheus metrics, and GPUs through a DCGM exporter, under our names."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx

from benchmarks.engine.terms import NotReported, Reading
from benchmarks.runtimes.metrics import read_metrics
from benchmarks.runtimes.prometheus import Sample, parse

Found = Reading | NotReported
Get = Callable[[str], str]

SCRAPE_TIMEOUT_S = 2.0
MIB = 1024 * 1024
RENAMED = {"kv_usage": "kv_usage_share"}
# NVIDIA's dcgm-exporter: memory in MiB, utilisation in percent, power in watts, energy in mJ since the driver's start.
DCGM = {
    "DCGM_FI_DEV_POWER_USAGE": ("gpu_power_w", 1.0),
    "DCGM_FI_DEV_FB_USED": ("vram_used_bytes", float(MIB)),
    "DCGM_FI_DEV_GPU_TEMP": ("gpu_temperature_c", 1.0),
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_utilization_share", 0.01),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("gpu_energy_j", 0.001),
}
DCGM_USED, DCGM_FREE, DCGM_RESERVED = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"


def http_get(*, secure: bool = True) -> Get:
    """A getter that never leaves its target: no proxy environment, no redirects, two seconds. Raises httpx.HTTPError.

    Without `secure` no certificates are loaded, which takes longer than the rest of the engine's start; https then
    fails.
    """
    tls = ssl.create_default_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client = httpx.Client(trust_env=False, follow_redirects=False, timeout=SCRAPE_TIMEOUT_S, verify=tls)

    def get(url: str) -> str:
        response = client.get(url)
        if response.status_code != 200:
            raise httpx.HTTPStatusError(f"HTTP {response.status_code}", request=response.request, response=response)
        return response.content.decode("utf-8", "replace")

    return get


class RuntimeSource:
    """Running, waiting, KV use, preemptions and what else the runtime reports of our canonical names."""

    def __init__(self, url: str, runtime_kind: str, get: Get) -> None:
        self._url, self._kind, self._get = url, runtime_kind, get

    def read(self, t_ns: int) -> list[Found]:
        source = _source(self._url)
        try:
            found = read_metrics(self._kind, self._get(self._url))
        except httpx.HTTPError as error:
            return [NotReported(name="runtime_metrics", source=source, reason=f"not reachable: {_words(error)}")]
        values: list[Found] = [
            Reading(t_ns=t_ns, name=_canonical(name), value=value, source=source)
            for name, value in found.values.items()
        ]
        return values + [
            NotReported(name=_canonical(name), source=source, reason=reason) for name, reason in found.missing.items()
        ]


class DcgmSource:
    """GPU readings of another host, or where NVML is out of reach; by UUID like NVML's."""

    def __init__(self, url: str, get: Get) -> None:
        self._url, self._get = url, get

    def read(self, t_ns: int) -> list[Found]:
        source = _source(self._url)
        try:
            samples = parse(self._get(self._url)).samples
        except httpx.HTTPError as error:
            return [NotReported(name="gpu_metrics", source=source, reason=f"not reachable: {_words(error)}")]
        wanted: dict[tuple[str, str], float | None] = {(s.name, _device(s)): s.value for s in samples}
        found: list[Found] = []
        for (metric, device), value in wanted.items():
            if metric in DCGM and value is not None:
                name, scale = DCGM[metric]
                found.append(Reading(t_ns=t_ns, name=name, value=value * scale, source=source, device=device))
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


def _source(url: str) -> str:
    """Where it came from, without user, password or query."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}{parts.path}" if parts.port else f"{parts.hostname}{parts.path}"


def _words(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)) or type(error).__name__
