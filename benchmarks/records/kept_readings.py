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


class CellReadings(msgspec.Struct, frozen=True, kw_only=True):
    """`spans` maps the name of a reading to its highest value in each span, None where nothing was read. `window_s` is
    None where the cell ended before its window did."""

    window_s: float | None
    spans: dict[str, tuple[float | None, ...]]


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
