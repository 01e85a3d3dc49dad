"""Declared facts beside probed ones, and what is known of a host's worker. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext

from benchmarks.models import Hardware, HardwareProbe

GIB = 2**30
_RAM_SLACK = 0.1


@dataclass(frozen=True, slots=True)
class FactPair:
    """One fact as a person declared it and as a worker read it; `differs` only where both are known."""

    name: str
    declared: str | None
    probed: str | None
    differs: bool


@dataclass(frozen=True, slots=True)
class WorkerState:
    """`kind` is a pill's kind. The command starts a worker for this host, on that host."""

    kind: str
    words: str
    seen: bool
    command: str


def worker_state(host: Hardware) -> WorkerState:
    command = f"HEADROOM_HARDWARE={host.slug} make worker"
    if host.worker_seen_at is None:
        return WorkerState("idle", gettext("No worker seen yet"), False, command)
    return (
        WorkerState("ok", gettext("Worker running"), True, command)
        if is_fresh(host.worker_seen_at, timezone.now())
        else WorkerState("warn", gettext("Worker not seen"), False, command)
    )


def fresh_since(now: datetime) -> datetime:
    """A worker that was seen since then is taken for running; it is asked at least twice as often (tasks.SEEN_EVERY)."""
    return now - timedelta(seconds=max(settings.STALE_AFTER_S, 60))


def is_fresh(seen_at: datetime | None, now: datetime) -> bool:
    return seen_at is not None and seen_at >= fresh_since(now)


def declared_beside_probed(host: Hardware, probe: HardwareProbe | None) -> list[FactPair]:
    """CPU, memory, GPUs, VRAM and power cap, in that order; what only a probe knows follows."""
    facts: dict[str, Any] = probe.facts if probe else {}
    read = facts.get("gpus")
    gpus: list[dict[str, Any]] = read if isinstance(read, list) else []
    return [
        _words("CPU", host.cpu, _text(facts.get("cpu"))),
        _size(gettext("RAM"), host.ram_gib, _known(facts.get("ram_bytes"))),
        _words("GPU", host.gpu or None, _gpu_names(read)),
        _number("GPUs", host.gpu_count, len(gpus) if read else None, ""),
        _size(gettext("VRAM of all GPUs"), host.vram_gib, _sum(gpus, "vram_bytes")),
        _number(gettext("Power cap"), host.power_cap_w, _sum(gpus, "power_limit_w"), " W"),
        *_only_probed(facts, gpus),
    ]


def declared_words(declared: Mapping[str, Any]) -> str:
    """What a grid keeps of its host as people declared it, in one line."""
    ram, vram = declared.get("ram_gib"), declared.get("vram_gib")
    parts = [declared.get("name"), declared.get("cpu"), f"{ram:g} GiB RAM" if ram else "", _gpus_declared(declared)]
    parts += [f"{vram:g} GiB VRAM" if vram else "", _cap_words(declared.get("power_cap_w"))]
    return ", ".join(str(part) for part in parts if part)


def _gpus_declared(declared: Mapping[str, Any]) -> str:
    name, count = declared.get("gpu"), declared.get("gpu_count") or 0
    if not name:
        return "no GPU declared" if not count else f"{count} GPUs, not named"
    return f"{count} × {name}" if count > 1 else str(name)


def _cap_words(power_cap_w: float | None) -> str:
    return f"power cap {power_cap_w:g} W" if power_cap_w else ""


def probed_words(probe: HardwareProbe | None) -> str:
    """What the worker read on the host before the first cell, in one line."""
    if probe is None:
        return gettext("not probed")
    read = probe.facts.get("gpus")
    ram = _known(probe.facts.get("ram_bytes"))
    gpus: list[dict[str, Any]] = read if isinstance(read, list) else []
    vram, driver = _sum(gpus, "vram_bytes"), _text(gpus[0].get("driver")) if gpus else None
    parts = [_text(probe.facts.get("cpu")), f"{ram / GIB:.1f} GiB RAM" if ram else None, _gpu_names(read)]
    parts += [f"{vram / GIB:.1f} GiB VRAM" if vram else None, f"driver {driver}" if driver else None]
    parts += [_text(probe.facts.get("os")), f"read {probe.at:%Y-%m-%d %H:%M} UTC"]
    return ", ".join(part for part in parts if part)


def _only_probed(facts: dict[str, Any], gpus: list[dict[str, Any]]) -> list[FactPair]:
    names = {
        "host": "Name of the host",
        "os": "Operating system",
        "cpu_cores": "CPU cores",
        "cpu_threads": "CPU threads",
    }
    rows = [(words, _text(facts.get(key))) for key, words in names.items()]
    rows += [("NVIDIA driver", _text(gpus[0].get("driver")))] if gpus else []
    of_each = {"uuid": "UUID", "vbios": "VBIOS", "ecc": "ECC", "mig": "MIG", "slowdown_c": "Slowdown threshold in °C"}
    rows += [
        (f"{words} of GPU {i}", _text(gpu.get(key))) for i, gpu in enumerate(gpus) for key, words in of_each.items()
    ]
    return [FactPair(name, "not asked for", value, False) for name, value in rows if value]


def _gpu_names(read: object) -> str | None:
    """Names of the GPUs, or the probe's own words why there are none; None when no probe said."""
    if not isinstance(read, list):
        return _text(read)
    return ", ".join(dict.fromkeys(str(gpu.get("name", "not named")) for gpu in read)) or "no NVIDIA GPU"


def _sum(gpus: list[dict[str, Any]], key: str) -> float | None:
    """The sum over all GPUs; None when one of them does not say, for a part is not the whole."""
    values = [_known(gpu.get(key)) for gpu in gpus]
    return sum(v for v in values if v is not None) if values and None not in values else None


def _known(value: object) -> float | None:
    """A number; None where the probe wrote in words that there is none."""
    return float(value) if isinstance(value, int | float) else None


def _text(value: object) -> str | None:
    return str(value) if value not in (None, "", [], {}) else None


def _words(name: str, declared: str | None, probed: str | None) -> FactPair:
    said, read = declared or None, probed
    differs = bool(said and read) and not _alike(str(said), str(read))
    return FactPair(name, said, read, differs)


def _alike(declared: str, probed: str) -> bool:
    """Whether every word that was declared stands in what was read: people leave out (R), CPU and @ 3.00GHz."""
    read = probed.lower().replace("(r)", " ").replace("(tm)", " ")
    return all(word in read for word in declared.lower().split())


def _size(name: str, declared_gib: float | None, probed_bytes: float | None) -> FactPair:
    probed_gib = probed_bytes / GIB if probed_bytes else None
    differs = (
        declared_gib is not None
        and probed_gib is not None
        and abs(probed_gib - declared_gib) > _RAM_SLACK * declared_gib
    )
    return FactPair(
        name,
        f"{declared_gib:,.1f} GiB" if declared_gib is not None else None,
        f"{probed_gib:,.1f} GiB" if probed_gib is not None else None,
        differs,
    )


def _number(name: str, declared: float | None, probed: float | None, unit: str) -> FactPair:
    differs = declared is not None and probed is not None and abs(declared - probed) >= 1
    said, read = (f"{v:,g}{unit}" if v is not None else None for v in (declared, probed))
    return FactPair(name, said, read, differs)
