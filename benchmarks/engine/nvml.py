"""GPU readings through NVML, keyed by UUID. What a card does not say is told once in words, and never becomes a zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import psutil

from benchmarks.engine.nvml_calls import NOT_SUPPORTED, Gpu, Nvml, Silence, open_cards
from benchmarks.engine.nvml_facts import processes, slowdown_c
from benchmarks.engine.terms import NotReported, Reading

SOURCE = "nvml"
UNIFIED_SOURCE = "nvml, unified memory: read from the host"
UNIFIED = "not supported by this GPU: its memory is the host's, so what is read as VRAM is host memory"
MILLI = 1000
LOST_NAME = "gpu_lost"
SILENT_NAME = "gpu_silent"
"""Of a card that is there and says nothing at all: a sum over GPUs has to know that it is one of them."""
MEMORY = ("vram_used_bytes", "vram_total_bytes", "vram_reserved_bytes")
ENERGY = "gpu_energy_j"
OTHERS = "gpu_other_processes"
NAMES = (
    *MEMORY, "gpu_power_w", ENERGY, "gpu_temperature_c", "gpu_slowdown_c", "gpu_utilization_share", "gpu_sm_clock_mhz",
    "gpu_memory_clock_mhz", "gpu_clocks_event_reasons", "gpu_power_limit_w", OTHERS,
)  # fmt: skip

Found = Reading | NotReported
Values = Mapping[str, float]


class NvmlSource:
    """All GPUs of this host. `library` is the pynvml module; `ours` gives the process ids of the runtime under load,
    empty where they cannot be seen."""

    def __init__(self, library: Nvml, ours: Callable[[], frozenset[int]] = frozenset) -> None:
        self._cards = open_cards(library)
        self._ours = ours

    def read(self, t_ns: int) -> list[Found]:
        if self._cards.unavailable:
            return [NotReported(name=name, source=SOURCE, reason=self._cards.unavailable) for name in NAMES]
        return [one for gpu in self._cards.gpus for one in self._of(gpu, t_ns)]

    def _of(self, gpu: Gpu, t_ns: int) -> list[Found]:
        found: list[Found] = list(_memory(gpu, t_ns))
        for names, what, calls in _questions(gpu):
            answer = gpu.ask(what, *calls)
            found += _told(gpu, t_ns, names, answer)
        found += _told(gpu, t_ns, (OTHERS,), self._others(gpu))
        if gpu.lost:
            found.append(Reading(t_ns=t_ns, name=LOST_NAME, value=1.0, source=SOURCE, device=gpu.uuid))
        elif not any(isinstance(one, Reading) for one in found):
            found.append(Reading(t_ns=t_ns, name=SILENT_NAME, value=1.0, source=SOURCE, device=gpu.uuid))
        return found

    def _others(self, gpu: Gpu) -> Values | Silence:
        """How many processes compute on it that are not the runtime's own."""
        ours, there = self._ours(), processes(gpu)
        if isinstance(there, Silence):
            return there
        if there and not any(process.pid in ours for process in there):
            # Inside a container the driver's process ids are those of the host outside it.
            return Silence(
                "the runtime is not among the processes that the driver names, so others cannot be told from it"
            )
        return {OTHERS: float(sum(process.pid not in ours for process in there))}


def _memory(gpu: Gpu, t_ns: int) -> Iterator[Found]:
    """What is not free counts as used, the driver's reserve included: that is the same in both versions of the call."""
    nvml, handle = gpu.nvml, gpu.handle

    def second() -> Values:
        info = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        return dict(zip(MEMORY, (float(info.total - info.free), float(info.total), float(info.reserved)), strict=True))

    def first() -> Values:
        info = nvml.nvmlDeviceGetMemoryInfo(handle)
        return dict(zip(MEMORY[:2], (float(info.total - info.free), float(info.total)), strict=True))

    answer = gpu.ask("memory", second, first)
    if not (isinstance(answer, Silence) and answer.reason == NOT_SUPPORTED):
        yield from _told(gpu, t_ns, MEMORY, answer)
        return
    host = psutil.virtual_memory()
    unified = (float(host.total - host.available), float(host.total))
    for name, value in zip(MEMORY, unified, strict=False):
        yield Reading(t_ns=t_ns, name=name, value=value, source=UNIFIED_SOURCE, device=gpu.uuid)
    yield from _told(gpu, t_ns, MEMORY[2:], Silence(UNIFIED))


def _questions(gpu: Gpu) -> Iterator[tuple[tuple[str, ...], str, tuple[Callable[[], Values], ...]]]:
    """(names, under which name a refusal is kept, calls in order of preference: the newest first)."""
    nvml, handle = gpu.nvml, gpu.handle

    def one(name: str, *calls: Callable[[], float]) -> tuple[tuple[str, ...], str, tuple[Callable[[], Values], ...]]:
        return (name,), name, tuple(lambda call=call: {name: float(call())} for call in calls)

    yield one("gpu_power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / MILLI)
    yield one(ENERGY, lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / MILLI)
    yield one(
        "gpu_temperature_c",
        lambda: nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU),
        lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
    )
    yield one("gpu_slowdown_c", lambda: slowdown_c(gpu))
    yield one("gpu_utilization_share", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)
    yield one("gpu_sm_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
    yield one("gpu_memory_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM))
    yield one(
        "gpu_clocks_event_reasons",
        lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    )
    yield one("gpu_power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / MILLI)


def _told(gpu: Gpu, t_ns: int, names: tuple[str, ...], answer: Values | Silence) -> Iterator[Found]:
    """Readings of the names that were answered, and why the others were not."""
    for name in names:
        if isinstance(answer, Silence):
            yield NotReported(name=name, source=SOURCE, reason=f"{gpu.uuid}: {answer.reason}")
        elif name in answer:
            yield Reading(t_ns=t_ns, name=name, value=answer[name], source=SOURCE, device=gpu.uuid)
        else:
            yield NotReported(name=name, source=SOURCE, reason=f"{gpu.uuid}: the driver is too old to say")
