"""Telemetry on a result page: the peak of each value at each setting, sums over GPUs, and when nobody said anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.engine.summary_types import CellSummary, GpuTotal
from benchmarks.queries import CellEvidence, GridEvidence
from benchmarks.records.mode_words import setting_words
from capacity.assessment.facts import HOST_RAM_USED, POWER, RUNNING, RUNTIME_RAM, TEMPERATURE, VRAM_USED, WAITING

GIB = 1024**3
NOT_RECORDED = "not recorded"
GAUGE_WORDS = {
    VRAM_USED: "VRAM in use",
    RUNTIME_RAM: "Host RAM of the runtime",
    HOST_RAM_USED: "Host memory in use",
    TEMPERATURE: "GPU temperature",
    POWER: "GPU board power",
    RUNNING: "Running in the server",
    WAITING: "Waiting in the server",
    "runtime_kv_usage_share": "KV cache in use",
    "gpu_utilization_share": "GPU utilisation",
    "gpu_sm_clock_mhz": "GPU clock",
    "gpu_memory_clock_mhz": "GPU memory clock",
    "gpu_slowdown_c": "GPU slowdown threshold",
    "gpu_power_limit_w": "GPU power limit",
    "gpu_other_processes": "Other processes on the GPU",
    "host_cpu_share": "Host CPU",
    "host_swap_used_bytes": "Swap in use",
    "vram_total_bytes": "VRAM total",
    "vram_reserved_bytes": "VRAM kept by the driver",
    "gpu_energy_j": "GPU energy",
    "gpu_clocks_event_reasons": "GPU clocks event reasons",
    "runtime_kv_capacity_tokens": "KV capacity",
    "runtime_preemptions_total": "KV preemptions",
    "runtime_prefix_query_tokens_total": "Prefix cache queries",
    "runtime_prefix_hit_tokens_total": "Prefix cache hits",
    "runtime_prefix_hit_share": "Prefix cache hit rate",
    "runtime_queue_time_s_total": "Time in the server's queue",
    "runtime_queue_count_total": "Requests counted in the server's queue",
    "runtime_rejected_total": "Refusals counted by the server",
    "runtime_aborted_total": "Aborts counted by the server",
    "runtime_loaded_bytes": "Models loaded",
    "runtime_loaded_vram_bytes": "Models loaded in VRAM",
}
GAUGE_UNITS = (
    ("_bytes", "GiB", 1 / GIB), ("_c", "°C", 1.0), ("_w", "W", 1.0), ("_mhz", "MHz", 1.0), ("_share", "%", 100.0)
)  # fmt: skip
# Counters, sizes and limits that do not move, and bit masks: their peak says nothing about the window.
KEPT_OUT = (
    "_total_bytes", "_reserved_bytes", "_total", "_j", "_reasons", "_capacity_tokens", "_slowdown_c", "_limit_w", "_lost"
)  # fmt: skip
Figure = Callable[[CellSummary], tuple[float, str] | None]
"""What a summary has of a value: for comparing, and in words."""
TOTALS = (("gpu_power_w", "Mean power of all GPUs", "W", 1.0), ("gpu_energy_j", "Energy of all GPUs", "kJ", 1e-3))


@dataclass(frozen=True, slots=True)
class GaugeRow:
    """One telemetry value: its peak at each setting in words; `missing` is the reason where nothing reported it."""

    name: str
    unit: str
    values: tuple[str, ...]
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Silence:
    """A source that said nothing for a part of a window. Times are seconds after the window's start."""

    cell: str
    source: str
    from_s: float
    to_s: float


def gauge_rows(evidence: GridEvidence) -> list[GaugeRow]:
    """Peaks of every reported gauge by setting, what counters and all GPUs together say, then what was asked for and not
    to be had."""
    by_name: dict[str, dict[int, float]] = {}
    missing: dict[str, str] = {}
    summaries = [(cell.setting, cell.summary) for cell in evidence.measured if cell.summary is not None]
    for setting, summary in summaries:
        for gauge in summary.gauges:
            peaks = by_name.setdefault(gauge.name, {})
            peaks[setting] = max(peaks.get(setting, gauge.peak), gauge.peak)
        missing |= summary.not_reported
    rows = [_gauge_row(name, peaks, evidence.setting_values) for name, peaks in by_name.items() if _shown(name)]
    rows += _derived(summaries, evidence.setting_values)
    silent: dict[str, list[str]] = {}
    for name, why in missing.items():
        if name not in by_name:
            silent.setdefault(why, []).append(_gauge_name(name))
    return rows + [GaugeRow(name=", ".join(names), unit="", values=(), missing=why) for why, names in silent.items()]


def silences(evidence: GridEvidence) -> list[Silence]:
    """Gaps of all windows, in the order of the cells."""
    return [
        Silence(cell=_cell_words(evidence, cell), source=_who(gap.source, gap.device), from_s=gap.from_s, to_s=gap.to_s)
        for cell in evidence.measured
        if cell.summary is not None
        for gap in cell.summary.telemetry_gaps
    ]


def _derived(summaries: Sequence[tuple[int, CellSummary]], settings: Sequence[int]) -> list[GaugeRow]:
    """Rows that no single reading holds: the wait in the server's queue, and sums over GPUs where there are several."""
    rows = [_largest("Mean wait in the server's queue", "s", summaries, settings, lambda s: _seconds(s.queue_time_s()))]
    rows += [_largest(words, unit, summaries, settings, _total(name, factor)) for name, words, unit, factor in TOTALS]
    return [row for row in rows if any(value != NOT_RECORDED for value in row.values)]


def _largest(
    name: str, unit: str, summaries: Sequence[tuple[int, CellSummary]], settings: Sequence[int], figure: Figure
) -> GaugeRow:  # fmt: skip
    found: dict[int, tuple[float, str]] = {}
    for setting, summary in summaries:
        known = figure(summary)
        if known is not None:
            found[setting] = max(found.get(setting, known), known)
    return GaugeRow(name=name, unit=unit, values=tuple(found[s][1] if s in found else NOT_RECORDED for s in settings))


def _seconds(value: float | None) -> tuple[float, str] | None:
    return None if value is None else (value, f"{value:.3f}")


def _total(name: str, factor: float) -> Figure:
    """The sum over all GPUs of that name, where there are several."""

    def of(summary: CellSummary) -> tuple[float, str] | None:
        total = next((t for t in summary.gpu_totals if t.name == name and t.of > 1), None)
        return None if total is None else (total.value, f"{total.value * factor:,.1f}{partial(total)}")

    return of


def partial(total: GpuTotal) -> str:
    """The words of a sum that some GPUs are not in."""
    return "" if total.known == total.of else f" (partial, {total.known} of {total.of})"


def _cell_words(evidence: GridEvidence, cell: CellEvidence) -> str:
    return f"{setting_words(evidence.grid.mode, cell.setting)}, {cell.class_name}, repeat {cell.repeat}"


def _who(source: str, device: str) -> str:
    return f"{source} ({device})" if device else source


def _shown(name: str) -> bool:
    return not name.endswith(KEPT_OUT)


def _gauge_row(name: str, peaks: dict[int, float], settings: Sequence[int]) -> GaugeRow:
    unit, factor = next(((unit, factor) for end, unit, factor in GAUGE_UNITS if name.endswith(end)), ("", 1.0))
    digits = 2 if unit == "GiB" else 0 if unit in ("", "MHz") else 1
    values = tuple(f"{peaks[s] * factor:,.{digits}f}" if s in peaks else NOT_RECORDED for s in settings)
    return GaugeRow(name=_gauge_name(name), unit=unit, values=values)


def _gauge_name(name: str) -> str:
    plain = name
    for end, _unit, _factor in GAUGE_UNITS:
        plain = plain.removesuffix(end)
    return GAUGE_WORDS.get(name, plain.replace("_", " ").capitalize())
