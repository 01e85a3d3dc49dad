"""The telemetry of a grid's cells as a few points each, read once from the evidence and then kept by its digest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter

from django.core.cache import caches

from benchmarks.models import EvidenceChunk
from benchmarks.queries import CellEvidence
from benchmarks.records import kept_readings
from benchmarks.records.arrays import WrongSchemaError
from benchmarks.records.kept_readings import CellReadings

VERSION = 1
NAMES = (
    "gpu_power_w", "gpu_temperature_c", "vram_used_bytes", "runtime_rss_bytes", "runtime_kv_usage_share", "runtime_running",
    "runtime_waiting", "host_cpu_share",
)  # fmt: skip
MOST_POINTS, FEWEST, MOST_SPANS = 240, 6, 48
"""Points of one row over the whole grid, and of one cell."""
KEPT_S = 30 * 24 * 3600


def of_cells(cells: Sequence[CellEvidence]) -> dict[int, CellReadings]:
    """Cell -> its readings; those whose evidence is not stored here, or cannot be read, are left out. Asks the database
    once where a cell was not read before, else never."""
    kept = [cell for cell in cells if cell.evidence_sha256]
    spans = max(FEWEST, min(MOST_SPANS, MOST_POINTS // max(len(kept), 1)))
    keys = {cell.cell_id: f"readings:{VERSION}:{spans}:{cell.evidence_sha256}" for cell in kept}
    known = caches["figures"].get_many(keys.values())
    found = {cell: known[key] for cell, key in keys.items() if key in known}
    left = [cell for cell in keys if cell not in found]
    if left:
        fresh = _read(left, spans)
        caches["figures"].set_many({keys[cell]: one for cell, one in fresh.items()}, KEPT_S)
        found |= fresh
    return found


def _read(cells: Sequence[int], spans: int) -> dict[int, CellReadings]:
    """One cell after the other, so that no more than one file is held."""
    chunks = EvidenceChunk.objects.filter(evidence__cell_id__in=cells).order_by("evidence__cell_id", "number")
    rows = chunks.values_list("evidence__cell_id", "content").iterator(chunk_size=4)
    found = {}
    for cell, parts in groupby(rows, key=itemgetter(0)):
        with suppress(WrongSchemaError):
            found[cell] = kept_readings.read(b"".join(bytes(part) for _, part in parts), NAMES, spans)
    return found
