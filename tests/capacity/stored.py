"""Grids with made-up measurements in the test database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from math import isinf
from typing import Any

import msgspec

from benchmarks.engine.summary_types import CellSummary, Gauge
from benchmarks.models import Attempt, Cell, Evidence, EvidenceChunk, Grid
from benchmarks.records import kept_readings
from benchmarks.records.digest import sha256
from tests.capacity import synthetic as made

STARTED = datetime(2026, 11, 14, 10, 2, tzinfo=UTC)
SHAPE = {1: (0.25, 96), 2: (0.33, 180), 4: (0.6, 300), 8: (1.4, 310)}
"""setting -> (p95 of a class with a limit of 1 s, requests): throughput rises to 4 and flattens."""


def plain(summary: CellSummary) -> dict[str, Any]:
    """As a worker stores it: JSON has no infinity, so it is the word."""

    def finite(value: Any) -> Any:
        if isinstance(value, float) and isinf(value):
            return "inf"
        if isinstance(value, dict):
            return {key: finite(inner) for key, inner in value.items()}
        return [finite(inner) for inner in value] if isinstance(value, list | tuple) else value

    found: dict[str, Any] = finite(msgspec.to_builtins(summary))
    return found


def summary_of(
    cell: Cell, *, failed: int = 0, gauges: Sequence[Gauge] | None = None, scale: float = 1.0
) -> CellSummary:
    p95_s, n = SHAPE[cell.setting]
    limit_s = made.LIMITS[cell.class_name]
    values = made.latencies(max(int(n / limit_s**0.5 * scale), 2), p95_s * limit_s)
    read = [made.gauge("runtime_waiting", 4.0 if cell.setting == 8 else 0.0)] if gauges is None else gauges
    part = made.class_summary(cell.class_name, values if failed == 0 else [], failed=failed)
    return made.summary(cell.setting, cell.class_name, [part], gauges=read, simulated=cell.grid.simulated)


def measure(
    grid: Grid,
    of: Callable[[Cell], CellSummary] = summary_of,
    *,
    settings: Sequence[int] | None = None,
    content: Callable[[Cell], bytes] | None = None,
    begun: datetime = STARTED,
    each_s: float = 40,
    most: int | None = None,
    readings: Callable[[Cell], dict[str, Any]] | None = None,
) -> Grid:
    """Fills the cells of these settings (all by default), at most so many, and ends the grid where none is left; `content`
    gives each its evidence, `readings` the points that are kept beside it, `begun` and `each_s` say when they ran."""
    for cell in grid.cells.all()[:most]:
        if settings is not None and cell.setting not in settings:
            continue
        started = begun + timedelta(seconds=each_s * cell.position)
        grid.cells.filter(pk=cell.pk).update(
            status="measured",
            summary=plain(of(cell)),
            attempt=1,
            started_at=started,
            finished_at=started + timedelta(seconds=0.9 * each_s),
        )
        if leave := grid.authorizations.first():
            Attempt.objects.create(cell_id=cell.pk, number=1, authorization=leave, worker="w", started_at=started)
        parquet = content(cell) if content else b""
        digest = sha256(parquet or f"cell {cell.pk}".encode())
        kept = Evidence.objects.create(
            cell_id=cell.pk,
            attempt=1,
            schema_version=1,
            sha256=digest,
            size_bytes=len(parquet) or 10,
            requests=20,
            readings=kept_readings.as_json(parquet) if parquet else readings(cell) if readings else None,
        )
        if parquet:
            EvidenceChunk.objects.create(evidence=kept, number=0, content=parquet)
    left = grid.cells.exclude(status="measured").exists()
    Grid.objects.filter(pk=grid.pk).update(status="running" if left else "measured", started_at=begun)
    grid.refresh_from_db()
    return grid
