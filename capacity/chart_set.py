"""All charts of one result, made once and kept: the key says what they were drawn from, so that nothing goes stale."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from django.core.cache import caches
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import get_language

from capacity import charts, curves, host_charts
from capacity.assessment.verdict import ClassRow, SettingRow
from capacity.chart_types import Cell, Chart, ChartTable, Column
from capacity.queries import Result, provenance

KEPT_S = 7 * 24 * 3600
GIB = 1024**3


def of(result: Result, drawn_from: str = "") -> tuple[Chart, ...]:
    """In the order of the page; none before anything was measured. `drawn_from` is their `digest`, where it is known."""
    if not result.evidence.measured:
        return ()
    key = f"charts:{drawn_from or digest(result)}"
    found: tuple[Chart, ...] | None = caches["figures"].get(key)
    if found is None:
        found = _made(result)
        caches["figures"].set(key, found, KEPT_S)
    return found


def one(result: Result, key: str) -> Chart | None:
    return next((chart for chart in of(result) if chart.key == key), None)


def digest(result: Result) -> str:
    """Of all that a page shows of the evidence: verdict, limits, cells, conditions, and the language of its words."""
    evidence = result.evidence
    grid, cells = evidence.grid, (*evidence.cells, *evidence.probes)
    found = hashlib.sha256(msgspec.msgpack.encode((result.verdict, result.facts.limits)))
    seen = (
        grid.pk, grid.name, grid.mode, grid.status, grid.stop_reason, grid.load, grid.calibration, grid.declared,
        provenance(evidence), get_language(), get_current_timezone_name(),
        [(c.cell_id, c.status, c.reason, c.attempt, c.evidence_sha256, c.signed_by, c.finished_at) for c in cells],
    )  # fmt: skip
    found.update(repr(seen).encode())
    return found.hexdigest()


def _made(result: Result) -> tuple[Chart, ...]:
    judged = [_trade(result)] if charts.drawable(result.verdict) else []
    hosts = host_charts.telemetry(result)
    return (*judged, *_classes(result), *curves.distributions(result), *([hosts] if hosts else []))


def _trade(result: Result) -> Chart:
    return Chart(
        key="trade-off", kind="trade", title="Throughput against latency", figure=charts.trade_off(result),
        aria=charts.trade_off_aria(result), caption=charts.trade_off_caption(result), table=_trade_table(result),
        size=(860, 400),
    )  # fmt: skip


def _trade_table(result: Result) -> ChartTable:
    columns = (
        Column("setting", "In flight", digits=0), Column("n", "n", digits=0), Column("good_per_min", "Successful", "a minute", 1),
        Column("good_per_min_lower", "at least", "a minute", 1), Column("good_per_min_upper", "at most", "a minute", 1),
        Column("completed_per_min", "All", "a minute", 1), Column("worst_class", "Worst class"),
        Column("worst_ratio", "÷ objective", "", 2), Column("worst_ratio_lower", "at least", "", 2),
        Column("worst_ratio_upper", "at most", "", 2), Column("peak_memory_gib", "Peak memory", "GiB", 2),
        Column("answer", "Answer"),
    )  # fmt: skip
    return ChartTable(columns, tuple(_trade_row(row) for row in result.verdict.rows))


def _trade_row(row: SettingRow) -> tuple[Cell, ...]:
    worst, peak = row.worst, row.memory.peak_bytes
    ratios = (worst.ratio, worst.ratio_lower, worst.ratio_upper) if worst else (None, None, None)
    return (
        row.setting, row.n, row.good.value, row.good.lower, row.good.upper, row.completed_per_min, worst.label if worst else None,
        *ratios, None if peak is None else peak / GIB, row.word,
    )  # fmt: skip


def _classes(result: Result) -> list[Chart]:
    return [
        Chart(
            key=f"latency-{number}", kind="latency", label=figure.label, note=figure.tokens, figure=figure.figure,
            title=f"Latency by setting, {figure.label}", aria=figure.aria, caption=figure.caption,
            table=_class_table(figure.points), size=(440, 300),
        )
        for number, figure in enumerate(charts.latency_by_class(result), start=1)
    ]  # fmt: skip


def _class_table(points: Sequence[tuple[int, ClassRow]]) -> ChartTable:
    columns = (
        Column("class_name", "Class"), Column("setting", "In flight", digits=0), Column("n", "n", digits=0),
        Column("measure", "Time"), Column("p50_s", "p50", "s", 3), Column("p95_s", "p95", "s", 3),
        Column("p95_lower_s", "at least", "s", 3), Column("p95_upper_s", "at most", "s", 3), Column("p99_s", "p99", "s", 3),
        Column("objective_s", "Objective", "s", 2), Column("answer", "Answer"),
    )  # fmt: skip
    return ChartTable(
        columns,
        tuple(
            (row.label, setting, row.n, row.limit_name, row.p50_s, row.p95_s, row.p95_lower_s, row.p95_upper_s, row.p99_s,
             row.limit_s, "indicative" if row.indicative else str(row.answer))
            for setting, row in points
        ),
    )  # fmt: skip
