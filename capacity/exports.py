"""The cells of a grid as a table for other tools: one row per cell and class, CSV or JSON.

Column names are snake_case with their unit, times ISO 8601 with offset. Hardware, room, power and date stand in each
row, so that no row can be torn from its conditions. Text that a spreadsheet would run as a formula is escaped. A time that
falls among failed requests reads "inf"; what is not known is empty in CSV and null in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isinf
from typing import TYPE_CHECKING

import msgspec

from benchmarks.engine.plan import ClassLimits
from benchmarks.engine.summary_types import CellSummary, ClassSummary
from benchmarks.queries import CellEvidence, GridEvidence, terms
from benchmarks.records import modes
from benchmarks.records.modes import Mode
from benchmarks.records.spreadsheet import Value as Value
from benchmarks.records.spreadsheet import escaped
from benchmarks.stats.estimates import Tail
from capacity import mode_tables, times_table
from capacity.assessment.goodput import energy_kwh
from capacity.queries import Result, provenance

if TYPE_CHECKING:
    import pandas as pd

PEAKS = {
    "vram_used_bytes": "vram_peak_bytes",
    "runtime_rss_bytes": "runtime_rss_peak_bytes",
    "host_memory_used_bytes": "host_memory_peak_bytes",
    "gpu_temperature_c": "gpu_temperature_peak_c",
    "gpu_power_w": "gpu_power_peak_w",
    "runtime_running": "runtime_running_peak",
    "runtime_waiting": "runtime_waiting_peak",
}


WHERE = ("grid", "grid_name", "simulated", "hardware", "runtime", "model", "room", "power", "date")
"""What stands first in each row of each table of a grid."""


def where(result: Result) -> tuple[Value, ...]:
    """The values of WHERE."""
    grid, found = result.evidence.grid, provenance(result.evidence)
    return (
        grid.pk, grid.name, found.simulated, found.hardware, found.runtime, found.model, found.room, found.power, found.date,
    )  # fmt: skip


def csv_of(rows: Sequence[Mapping[str, Value]], columns: Sequence[str]) -> str:
    """UTF-8 text with a header line and CRLF ends, as RFC 4180 has it; text like a formula is escaped."""
    safe = [{name: escaped(value) for name, value in row.items()} for row in rows]
    return _table(safe, columns).to_csv(index=False, lineterminator="\r\n")


def json_of(rows: Sequence[Mapping[str, Value]], **beside: object) -> str:
    """An object with `rows`, the same columns as the CSV, and what stands beside them."""
    return json.dumps({**beside, "rows": rows}, ensure_ascii=False, allow_nan=False)


def as_csv(result: Result) -> str:
    """UTF-8 text with a header line and CRLF ends, as RFC 4180 has it."""
    return cells_frame(result).to_csv(index=False, lineterminator="\r\n")


def as_json(result: Result) -> str:
    """An object with `rows`, the same columns as the CSV; of static batches also `batch`, each batch size against the
    window, and of judged settings `settings`, the goodput of each with its 95 % interval."""
    rows = [{name: plain(value) for name, value in row.items()} for row in _rows(result)]
    held = {"batch": msgspec.to_builtins(result.verdict.batch)} if result.verdict.batch else {}
    settings = [
        {"setting": row.setting, "good_per_min": msgspec.to_builtins(row.good),
         "items_per_s": msgspec.to_builtins(row.items_per_s), "good_per_kwh": msgspec.to_builtins(row.good_per_kwh)}
        for row in result.verdict.rows
    ]  # fmt: skip
    return json_of(rows, **held, **({"settings": settings} if settings else {}))


def cells_frame(result: Result) -> pd.DataFrame:
    """The table as pandas has it: objects, so that an empty cell stays empty and whole numbers stay whole."""
    rows = [{name: escaped(plain(value)) for name, value in row.items()} for row in _rows(result)]
    return _table(rows, rows[0] if rows else None)


def _table(rows: Sequence[Mapping[str, Value]], columns: Iterable[str] | None) -> pd.DataFrame:
    import pandas as pd  # a second to load, which only who exports shall wait

    return pd.DataFrame(rows, columns=None if columns is None else list(columns), dtype=object)


def plain(value: Value) -> Value:
    """As a file has it: what lies among failed requests reads "inf"."""
    return "inf" if isinstance(value, float) and isinf(value) else value


def _rows(result: Result) -> list[dict[str, Value]]:
    head = dict(zip(WHERE, where(result), strict=True))
    rows = []
    for cell in result.evidence.cells:
        parts: tuple[ClassSummary | None, ...] = cell.summary.classes if cell.summary else (None,)
        rows += [head | _row(result, cell, part) for part in parts]
    return rows


def _row(result: Result, cell: CellEvidence, part: ClassSummary | None) -> dict[str, Value]:
    grid = result.evidence.grid
    return {
        "cell": cell.cell_id,
        "mode": grid.mode,
        "setting": cell.setting,
        "offered_concurrency": modes.offered_concurrency(terms(grid), cell.setting),
        "cell_class": cell.class_name,
        "class_name": part.class_name if part else cell.class_name,
        "repeat": cell.repeat,
        "status": cell.status,
        "reason": cell.reason,
        "started_at": cell.started_at.isoformat() if cell.started_at else None,
        "finished_at": cell.finished_at.isoformat() if cell.finished_at else None,
        **_cell_values(cell.summary),
        **_class_values(part, cell.summary),
        **_mode_values(result, cell, part),
        **_calibration_values(result.evidence),
        "evidence_sha256": cell.evidence_sha256,
        "evidence_signed_by": cell.signed_by,
    }


def _calibration_values(evidence: GridEvidence) -> dict[str, Value]:
    kept = evidence.calibration
    last = kept.last if kept else None
    return {
        "calibration_agrees": kept.agrees if kept else None,
        "calibration_ttft_error_p99_ms": last.ttft_error_p99_ms if last else None,
        "calibration_gap_error_p99_ms": last.gap_error_p99_ms if last else None,
    }


def _cell_values(summary: CellSummary | None) -> dict[str, Value]:
    values: dict[str, Value] = {
        "window_s": (summary.window_s or None) if summary else None,
        "cell_scheduled_requests": summary.scheduled if summary else None,
        "cell_outcomes": _counts(summary.outcomes) if summary else None,
        "cell_warmup_requests": summary.warmup_requests if summary else None,
        "cell_sent_requests": summary.sent if summary else None,
        "cell_recorded_requests": summary.recorded if summary else None,
        "cell_sent_is_sum_of_outcomes": summary.conserved if summary else None,
        "cell_completed_per_min": _per_min(summary.completed_per_s) if summary else None,
        "cell_good_per_min": _per_min(summary.good_per_s) if summary else None,
        "cell_output_tokens_per_s": summary.output_tokens_per_s if summary else None,
        "gpu_energy_kwh": energy_kwh(summary) if summary else None,
        "cell_good_per_kwh": _good_per_kwh(summary) if summary else None,
        "mean_in_flight": summary.mean_in_flight if summary else None,
        "resent_requests": summary.resent if summary else None,
        "client_limited": summary.client.client_limited if summary else None,
        "validity_by_construction": summary.validity_by_construction if summary else None,
    }
    for gauge, column in PEAKS.items():
        read = summary.gauge(gauge) if summary else None
        values[column] = read.peak if read else None
    return values


def _good_per_kwh(summary: CellSummary) -> float | None:
    """Successful requests for each kWh of the GPUs; None where one of them told no power."""
    kwh = energy_kwh(summary)
    return None if kwh is None or summary.good_per_s is None else summary.good_per_s * summary.window_s / kwh


def _mode_values(result: Result, cell: CellEvidence, part: ClassSummary | None) -> dict[str, Value]:
    """What only this grid's mode has, and the client's own health in this cell's window."""
    grid = result.evidence.grid
    own = [column for column in mode_tables.COLUMNS[Mode(grid.mode)] if column in mode_tables.OWN]
    columns = [*own, *(column for column in mode_tables.HEALTH if column.key != "client_limited")]
    if cell.summary is None:
        return {column.key: None for column in columns}
    one = mode_tables.Seen(cell, cell.summary, part, ClassLimits(), grid.window_s)
    return mode_tables.plain(one, columns)


def _class_values(part: ClassSummary | None, summary: CellSummary | None) -> dict[str, Value]:
    rate = summary.window_s / 60 if summary and summary.window_s > 0 else None
    return {
        "scheduled_requests": part.scheduled if part else None,
        "good_per_min": part.good.hits / rate if part and rate else None,
        "success_share": part.success.value if part else None,
        "valid_share": part.valid.value if part else None,
        "good_share": part.good.value if part else None,
        "outcomes": _counts(part.outcomes) if part else None,
        **_tail_values("e2e", part.e2e_s if part else None),
        **_tail_values("ttft", part.ttft_s if part else None),
        **_tail_values("tpot", part.tpot_s if part else None),
        **_tail_values("server_e2e", part.server_e2e_s if part else None),
        **_tail_values("server_ttft", part.server_ttft_s if part else None),
        **times_table.plain(part, summary),
        "token_sources": _counts(part.token_sources) if part else None,
        "intended_prompt_tokens_p50": part.intended_prompt_tokens_p50 if part else None,
        "prompt_tokens_p50": part.prompt_tokens_p50 if part else None,
        "truncated_prompts": part.truncated_prompts if part and part.prompt_tokens_p50 is not None else None,
        "asked_output_tokens_p50": part.asked_output_tokens_p50 if part else None,
        "output_tokens_p50": part.output_tokens_p50 if part else None,
        "short_outputs": part.short_outputs if part and part.output_tokens_p50 is not None else None,
    }


def _counts(found: Mapping[str, int]) -> str:
    """ "ok:90 rejected:6", by name."""
    return " ".join(f"{name}:{count}" for name, count in sorted(found.items()))


def _per_min(per_s: float | None) -> float | None:
    return None if per_s is None else per_s * 60


def _tail_values(name: str, tail: Tail | None) -> dict[str, Value]:
    return {
        f"{name}_n": tail.p95.n if tail else None,
        f"{name}_p50_s": tail.p50.value if tail else None,
        f"{name}_p95_s": tail.p95.value if tail else None,
        f"{name}_p95_lower_s": tail.p95.lower if tail else None,
        f"{name}_p95_upper_s": tail.p95.upper if tail else None,
        f"{name}_p95_bound_s": tail.p95.bound if tail else None,
        f"{name}_p99_s": tail.p99.value if tail else None,
    }
