"""The idle host, and whether a warm one is like it again: pure decisions over readings of its GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec

from benchmarks.engine.terms import NotReported, Reading

WITHIN = 0.10
BUSY_SHARE = 0.10
HEAT, POWER, MEMORY, BUSY = "gpu_temperature_c", "gpu_power_w", "vram_used_bytes", "gpu_utilization_share"
HOST_MEMORY = "host_memory_used_bytes"
_KEPT = {HEAT: "temperature_c", POWER: "power_w", MEMORY: "vram_used_bytes", BUSY: "utilization_share"}


class Idle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One card with nothing to do; None where it does not say."""

    temperature_c: float | None = None
    power_w: float | None = None
    vram_used_bytes: float | None = None
    utilization_share: float | None = None


class Baseline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The host before the first cell, the runtime loaded and without requests. `gpus` by UUID; `why` says why there are
    none. `busy` names cards that somebody computed on all the same."""

    at: str
    gpus: Mapping[str, Idle] = {}
    host_memory_used_bytes: float | None = None
    busy: tuple[str, ...] = ()
    why: str = ""


def baseline_of(at: str, reads: Sequence[Sequence[Reading | NotReported]]) -> Baseline:
    """Of several reads of all sources, the median of each value."""
    values: dict[tuple[str, str], list[float]] = {}
    for one in (one for read in reads for one in read if isinstance(one, Reading)):
        values.setdefault((one.device, one.name), []).append(one.value)
    gpus = {
        device: Idle(**{word: median(values[device, name]) for name, word in _KEPT.items() if (device, name) in values})
        for device in sorted({device for device, name in values if name in _KEPT})
    }
    host = values.get(("", HOST_MEMORY))
    told = (
        one.reason
        for read in reads
        for one in read
        if isinstance(one, NotReported) and one.name in (HEAT, "gpu_metrics")
    )
    return Baseline(
        at=at,
        gpus=gpus,
        host_memory_used_bytes=median(host) if host else None,
        busy=tuple(uuid for uuid, gpu in gpus.items() if (gpu.utilization_share or 0.0) > BUSY_SHARE),
        why="" if gpus else next(told, "nothing reads a GPU here"),
    )


def warm(baseline: Baseline, found: Iterable[Reading | NotReported]) -> tuple[str, ...]:
    """What is still more than a tenth above the idle host, in words; empty when it has cooled down, as far as is known."""
    readings = {(one.device, one.name): one.value for one in found if isinstance(one, Reading)}
    words = []
    for uuid, idle in baseline.gpus.items():
        for name, before, unit in ((HEAT, idle.temperature_c, "°C"), (POWER, idle.power_w, "W")):
            now = readings.get((uuid, name))
            if now is not None and before is not None and now > before * (1 + WITHIN):
                words.append(f"{uuid} at {now:.0f} {unit}, idle {before:.0f} {unit}")
    return tuple(words)


def comparable(baseline: Baseline, found: Iterable[Reading | NotReported]) -> bool:
    """Whether anything of these readings can be compared with the baseline at all."""
    names = {(one.device, one.name) for one in found if isinstance(one, Reading)}
    return any(
        (idle.temperature_c is not None and (uuid, HEAT) in names)
        or (idle.power_w is not None and (uuid, POWER) in names)
        for uuid, idle in baseline.gpus.items()
    )
