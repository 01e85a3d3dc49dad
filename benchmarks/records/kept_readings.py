"""The telemetry of one cell's evidence as a few points a row: what a page can draw without its raw readings.

The window is cut into spans of equal length; each point is the highest reading of its span over all devices, because a
limit is passed by peaks. A span without a reading has no point, and is never zero.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks.engine.column_types import Bools, Floats, Ints
from benchmarks.records import arrays
from benchmarks.records.arrays import WrongSchemaError
from benchmarks.records.parquet import READING_TEXTS, RECORDS, meta_of

NS = 1e9
NAMES = (
    "gpu_power_w", "gpu_temperature_c", "vram_used_bytes", "runtime_rss_bytes", "runtime_kv_usage_share", "runtime_running",
    "runtime_waiting", "host_cpu_share",
)  # fmt: skip
SPANS = 48


class CellReadings(msgspec.Struct, frozen=True, kw_only=True):
    """`spans` maps the name of a reading to its highest value in each span, None where nothing was read. `window_s` is
    None where the cell ended before its window did."""

    window_s: float | None
    spans: dict[str, tuple[float | None, ...]]

    def thinned(self, most: int) -> CellReadings:
        """At most so many spans: neighbours become one with the higher value."""
        step = -(-max((len(row) for row in self.spans.values()), default=0) // most)
        if step <= 1:
            return self
        return CellReadings(window_s=self.window_s, spans={name: _peaks(row, step) for name, row in self.spans.items()})


def as_json(content: bytes) -> dict[str, object] | None:
    """What is stored beside the evidence; None where it cannot be read."""
    try:
        found: dict[str, object] = msgspec.to_builtins(read(content, NAMES, SPANS))
    except WrongSchemaError:
        return None
    return found


def from_json(kept: object) -> CellReadings:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(kept, CellReadings)


def _peaks(row: tuple[float | None, ...], step: int) -> tuple[float | None, ...]:
    parts = [[value for value in row[at : at + step] if value is not None] for at in range(0, len(row), step)]
    return tuple(max(part) if part else None for part in parts)


def read(content: bytes, names: Collection[str], spans: int) -> CellReadings:
    """Raises WrongSchemaError."""
    try:
        file = arrays.File(content)
    except pa.ArrowInvalid as error:
        raise WrongSchemaError(f"not a Parquet file: {error}") from error
    window = meta_of(file.metadata).window
    if window is None or window.end_ns <= window.start_ns:
        return CellReadings(window_s=None, spans={})
    kinds = np.bincount(file.codes("record", RECORDS), minlength=len(RECORDS)).tolist()
    rows = slice(sum(kinds[:2]), sum(kinds))
    if rows.stop == rows.start:
        return CellReadings(window_s=(window.end_ns - window.start_ns) / NS, spans={})
    share = (file.ints("t_ns", rows).values - window.start_ns) / (window.end_ns - window.start_ns)
    place = np.floor(share * spans).astype(np.int64)
    values, texts = file.floats("value", rows).values, file.words(READING_TEXTS[0], rows)
    inside = (place >= 0) & (place < spans)
    found = {name: _highest(place, values, inside & texts.equal(name), spans) for name in names if name in texts.words}
    return CellReadings(window_s=(window.end_ns - window.start_ns) / NS, spans=found)


def _highest(place: Ints, values: Floats, wanted: Bools, spans: int) -> tuple[float | None, ...]:
    peaks = np.full(spans, -np.inf)
    np.maximum.at(peaks, place[wanted], values[wanted])
    return tuple(float(f"{peak:.5g}") if np.isfinite(peak) else None for peak in peaks.tolist())
