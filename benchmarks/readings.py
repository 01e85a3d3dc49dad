"""The telemetry of a grid's cells as a few points each, as the worker stored them beside the evidence."""

from __future__ import annotations

from collections.abc import Collection

from benchmarks.models import Evidence
from benchmarks.records import kept_readings
from benchmarks.records.kept_readings import SPANS, CellReadings

MOST_POINTS, FEWEST = 240, 6
"""Points of one row over the whole grid, and of one cell."""


def of_cells(wanted: Collection[int]) -> dict[int, CellReadings]:
    """Cell -> its readings; those whose evidence is not stored here, or could not be read, are left out. The evidence itself
    is not read: one query, whatever was measured."""
    most = max(FEWEST, min(SPANS, MOST_POINTS // max(len(wanted), 1)))
    rows = Evidence.objects.filter(cell_id__in=wanted, readings__isnull=False).values_list("cell_id", "readings")
    return {cell: kept_readings.from_json(readings).thinned(most) for cell, readings in rows}
