"""GPU readings through NVML, keyed by UUID. A call that a card does not support is told once, and never becomes a
zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.engine.terms import NotReported, Reading

SOURCE = "nvml"
MILLI = 1000
NO_DRIVER = "no NVIDIA driver on this host"
NOT_SUPPORTED = "not supported by this GPU"
UNIFIED = "not supported by this GPU: memory is shared with the host, see host memory"
NAMES = (
    "vram_used_bytes", "vram_total_bytes", "gpu_power_w", "gpu_energy_j", "gpu_temperature_c",
    "gpu_utilization_share", "gpu_clocks_event_reasons",
)  # fmt: skip

# pynvml is untyped and its module is the seam: tests hand in another with the same functions.
Nvml = Any
Handle = Any
Found = Reading | NotReported


class NvmlSource:
    """All GPUs of this host. `library` is the pynvml module."""

    def __init__(self, library: Nvml) -> None:
        self._nvml = library
        self._gpus: list[tuple[str, Handle]] = []
        self._unavailable = ""
        self._unsupported: dict[tuple[str, str], str] = {}
        try:
            library.nvmlInit()
            handles = [library.nvmlDeviceGetHandleByIndex(i) for i in range(library.nvmlDeviceGetCount())]
            self._gpus = [(_text(library.nvmlDeviceGetUUID(handle)), handle) for handle in handles]
            self._unavailable = "" if handles else "no NVIDIA GPU on this host"
        except library.NVMLError_LibraryNotFound:
            self._unavailable = NO_DRIVER
        except library.NVMLError as error:
            self._unavailable = f"NVML did not start: {error}"

    def read(self, t_ns: int) -> list[Found]:
        if self._unavailable:
            return [NotReported(name=name, source=SOURCE, reason=self._unavailable) for name in NAMES]
        found: list[Found] = []
        for uuid, handle in self._gpus:
            for names, ask in self._questions(handle):
                found += self._ask(t_ns, uuid, names, ask)
        return found

    def _questions(self, handle: Handle) -> list[tuple[tuple[str, ...], Callable[[], tuple[float, ...]]]]:
        nvml = self._nvml

        def memory() -> tuple[float, ...]:
            info = nvml.nvmlDeviceGetMemoryInfo(handle)
            return float(info.used), float(info.total)

        return [
            (("vram_used_bytes", "vram_total_bytes"), memory),
            (("gpu_power_w",), lambda: (nvml.nvmlDeviceGetPowerUsage(handle) / MILLI,)),
            (("gpu_energy_j",), lambda: (nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / MILLI,)),
            (
                ("gpu_temperature_c",),
                lambda: (float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),),
            ),
            (("gpu_utilization_share",), lambda: (nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,)),
            (
                ("gpu_clocks_event_reasons",),
                lambda: (float(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),),
            ),
        ]

    def _ask(self, t_ns: int, uuid: str, names: tuple[str, ...], ask: Callable[[], tuple[float, ...]]) -> list[Found]:
        """The answer, or why there is none. A card that does not support a call is not asked again."""
        nvml = self._nvml
        reason = self._unsupported.get((uuid, names[0]), "")
        if not reason:
            try:
                values = ask()
                return [
                    Reading(t_ns=t_ns, name=name, value=value, source=SOURCE, device=uuid)
                    for name, value in zip(names, values, strict=True)
                ]
            except (nvml.NVMLError_NotSupported, nvml.NVMLError_NoPermission, nvml.NVMLError_FunctionNotFound) as error:
                unified = names[0].startswith("vram") and isinstance(error, nvml.NVMLError_NotSupported)
                reason = UNIFIED if unified else f"{NOT_SUPPORTED}: {error}"
                self._unsupported[uuid, names[0]] = reason
            except nvml.NVMLError as error:
                reason = f"NVML: {error}"
        return [NotReported(name=name, source=SOURCE, reason=f"{uuid}: {reason}") for name in names]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
