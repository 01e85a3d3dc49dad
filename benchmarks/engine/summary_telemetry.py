"""Telemetry of a window: gauges, counters that may be reset, sums over GPUs, and when a source said nothing.

Only readings inside the window count, as they came: nothing is drawn over a gap and nothing carried to the window's edges.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from benchmarks.engine.column_types import Bools, Floats, Ints, Readings
from benchmarks.engine.periods import gap_s
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.summary_types import Counter, Gauge, GpuTotal, TelemetryGap
from benchmarks.engine.terms import Window
from benchmarks.engine.times import NS

ENERGY, POWER, VRAM = "gpu_energy_j", "gpu_power_w", "vram_used_bytes"
# Shorter differences are mostly the steps in which the driver brings its counter up to date.
ENERGY_NEEDS_S = 2.0
BY_COUNTER, BY_SAMPLES, BY_PEAKS = "energy counter", "sampled power", "peaks"


def gauges(readings: Readings, window: Window | None) -> tuple[Gauge, ...]:
    """One gauge per (name, source, device) that has readings inside the window."""
    found = []
    for (name, source, device), _, value in _series(readings, window):
        found.append(
            Gauge(
                name=name, source=source, device=device, n=int(value.size), mean=float(value.mean()), low=float(value.min()),
                peak=float(value.max()),
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda g: (g.name, g.source, g.device)))


def counters(readings: Readings, window: Window | None) -> tuple[Counter, ...]:
    """Of everything that only ever grows by its name, with at least two readings."""
    found = [
        _counter(label, t_ns, value)
        for label, t_ns, value in _series(readings, window)
        if value.size > 1 and is_counter(label[0])
    ]
    return tuple(sorted(found, key=lambda c: (c.name, c.source, c.device)))


def is_counter(name: str) -> bool:
    return name.endswith("_total") or name == ENERGY


def _counter(label: tuple[str, str, str], t_ns: Ints, value: Floats) -> Counter:
    name, source, device = label
    steps = np.diff(value)
    resets = int((steps < 0).sum())
    # A runtime that starts again counts from zero; a driver's energy before its reload is gone.
    grown = float(np.where(steps < 0, value[1:], steps).sum())
    unknown = name == ENERGY and resets > 0
    return Counter(
        name=name,
        source=source,
        device=device,
        increase=None if unknown else grown,
        over_s=float(t_ns[-1] - t_ns[0]) / NS,
        resets=resets,
    )


def gpu_totals(readings: Readings, window: Window | None) -> tuple[GpuTotal, ...]:
    """Energy, mean power and memory over all GPUs that were seen, and how many of them could say it."""
    cards = sorted({device for name, _, device in readings.labels if device and name.startswith(("gpu_", "vram_"))})
    power: dict[str, float] = {}
    memory: dict[str, float] = {}
    for (name, _, device), _, value in _series(readings, window):
        if name == POWER:
            power[device] = float(value.mean())
        elif name == VRAM:
            memory[device] = float(value.max())
    known = [c for c in counters(readings, window) if c.name == ENERGY and c.over_s >= ENERGY_NEEDS_S]
    energy = {c.device: c.increase for c in known if c.increase is not None}
    watts = {c.device: c.increase / c.over_s for c in known if c.increase is not None}
    found = (
        _total(ENERGY, energy, cards, BY_COUNTER),
        _total(POWER, power | watts, cards, _how(watts, power, cards)),
        _total(VRAM, memory, cards, BY_PEAKS),
    )
    return tuple(total for total in found if total is not None)


def _how(counted: dict[str, float], sampled: dict[str, float], cards: list[str]) -> str:
    if all(card in counted for card in cards if card in sampled):
        return BY_COUNTER
    return f"{BY_COUNTER} and {BY_SAMPLES}" if counted else BY_SAMPLES


def _total(name: str, values: dict[str, float], cards: list[str], how: str) -> GpuTotal | None:
    if not values:
        return None
    missing = tuple(card for card in cards if card not in values)
    return GpuTotal(name=name, value=sum(values.values()), known=len(values), of=len(cards), how=how, missing=missing)


def gaps(readings: Readings, window: Window | None, plan: CellPlan) -> tuple[TelemetryGap, ...]:
    """Of each source and device: silences longer than three of its periods that reach into the window."""
    if window is None or window.end_ns <= window.start_ns:
        return ()
    codes: dict[tuple[str, str], list[int]] = defaultdict(list)
    for code, (_, source, device) in enumerate(readings.labels):
        codes[source_word(source), device].append(code)
    return tuple(
        TelemetryGap(source=source, device=device, from_s=begin, to_s=end)
        for (source, device), own in sorted(codes.items())
        for begin, end in _silences(readings.t_ns[np.isin(readings.label, own)], window, gap_s(plan, source))
    )


def source_word(source: str) -> str:
    """Who answered, without the alias that matched or a remark."""
    return source.split(" ")[0].rstrip(",")


def _silences(t_ns: Ints, window: Window, longest_s: float) -> Iterator[tuple[float, float]]:
    """(from, to) in seconds after the window's start. Before the first reading the window's start stands for one, after
    the last its end."""
    stamps = np.unique(t_ns)
    first = stamps[0] if stamps.size and stamps[0] < window.start_ns else window.start_ns
    last = stamps[-1] if stamps.size and stamps[-1] > window.end_ns else window.end_ns
    edges = np.unique(np.concatenate((stamps, np.array([first, last], dtype=np.int64))))
    for begin, end in itertools.pairwise(edges):
        inside = min(end, window.end_ns) - max(begin, window.start_ns)
        if (end - begin) / NS > longest_s and inside > 0:
            yield (
                float(max(begin, window.start_ns) - window.start_ns) / NS,
                float(min(end, window.end_ns) - window.start_ns) / NS,
            )


def _series(readings: Readings, window: Window | None) -> Iterator[tuple[tuple[str, str, str], Ints, Floats]]:
    """(label, stamps, values) in the order of time, of every label with readings inside the window."""
    if window is None:
        return
    inside: Bools = (readings.t_ns >= window.start_ns) & (readings.t_ns <= window.end_ns)
    for code, label in enumerate(readings.labels):
        rows = np.flatnonzero(inside & (readings.label == code))
        if rows.size:
            rows = rows[np.argsort(readings.t_ns[rows], kind="stable")]
            yield label, readings.t_ns[rows], readings.value[rows]
