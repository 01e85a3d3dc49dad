"""What a GPU is, and what else runs on it: facts that a grid is compared by, not readings of a cell."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from benchmarks.engine.nvml_calls import Cards, Gpu, Silence

MILLI = 1000
Fact = str | int | float


class GpuProcess(msgspec.Struct, frozen=True):
    """One that computes on the card. `used_bytes` None: the driver does not say."""

    pid: int
    used_bytes: int | None


def facts(cards: Cards) -> list[dict[str, Fact]] | str:
    """Each card by UUID, or why there is none. A fact that cannot be had is "not reported" with its reason."""
    return cards.unavailable or [_facts(gpu) for gpu in cards.gpus]


def processes(gpu: Gpu) -> tuple[GpuProcess, ...] | Silence:
    nvml, handle = gpu.nvml, gpu.handle

    def ask(call: Callable[[object], list[object]]) -> tuple[GpuProcess, ...]:
        return tuple(
            GpuProcess(int(one.pid), None if one.usedGpuMemory is None else int(one.usedGpuMemory))  # type: ignore[attr-defined]
            for one in call(handle)
        )

    return gpu.ask(
        "processes",
        lambda: ask(nvml.nvmlDeviceGetComputeRunningProcesses_v3),
        lambda: ask(nvml.nvmlDeviceGetComputeRunningProcesses_v2),
    )


def slowdown_c(gpu: Gpu) -> float:
    """Where the card begins to slow itself down, in degrees Celsius. Raises NVMLError."""
    nvml = gpu.nvml
    return float(nvml.nvmlDeviceGetTemperatureThreshold(gpu.handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN))


def _facts(gpu: Gpu) -> dict[str, Fact]:
    nvml, handle = gpu.nvml, gpu.handle

    def fact(what: str, *calls: Callable[[], Fact]) -> Fact:
        answer = gpu.ask(what, *calls)
        return f"not reported: {answer.reason}" if isinstance(answer, Silence) else answer

    return {
        "uuid": gpu.uuid,
        "name": fact("name", lambda: _text(nvml.nvmlDeviceGetName(handle))),
        "driver": fact("driver", lambda: _text(nvml.nvmlSystemGetDriverVersion())),
        "vbios": fact("vbios", lambda: _text(nvml.nvmlDeviceGetVbiosVersion(handle))),
        "vram_bytes": fact(
            "vram",
            lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).total),
            lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        ),
        "power_limit_w": fact("power limit", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / MILLI),
        "slowdown_c": fact("slowdown", lambda: slowdown_c(gpu)),
        "ecc": fact("ecc", lambda: _switch(nvml.nvmlDeviceGetEccMode(handle)[0])),
        "mig": fact("mig", lambda: _switch(nvml.nvmlDeviceGetMigMode(handle)[0])),
    }


def _switch(mode: int) -> str:
    return "on" if mode else "off"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
