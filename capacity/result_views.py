"""The result page of a grid: left the evidence, right the decision. Sentences come from the judge."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import isfinite

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from benchmarks import foreseen_words
from benchmarks.access import EVERYONE, allow, person
from benchmarks.engine.summary_types import ClassSummary
from benchmarks.models import Cell, Conditions, Grid
from benchmarks.offered import read_backs
from benchmarks.queries import CellEvidence, GridEvidence, grids_of
from benchmarks.records import search_answer
from benchmarks.records.mode_words import setting_words
from benchmarks.records.modes import Mode
from benchmarks.stats.estimates import Tail
from capacity import (
    behaviour_tables,
    chart_set,
    confirm_tables,
    mode_tables,
    rubric_tables,
    telemetry_rows,
    times_table,
    validity_tables,
)
from capacity.assessment import none
from capacity.assessment.accounting import count_rows, tally
from capacity.assessment.diagnosis import tally as tally_of
from capacity.assessment.latency import seconds
from capacity.assessment.verdict import ClassRow, Kind, Rate, SettingRow, Verdict
from capacity.chart_types import Chart
from capacity.models import Choice, Objective
from capacity.queries import Result, provenance, result_of

GIB = 1024**3
INDENT = re.compile(rb"\n\s+")  # a tenth of what this long page weighs; nothing on it is preformatted
UNFINISHED = (Grid.Status.DRAFT, *Grid.OPEN)


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One square: `ratio` None where nothing is known, `words` what to print then; `note` the value in its own unit."""

    setting: int
    ratio: float | None
    words: str
    note: str
    chosen: bool
    indicative: bool


@dataclass(frozen=True, slots=True)
class HeatRow:
    label: str
    limit: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True, slots=True)
class Meter:
    """A margin of the recommended setting as a bar with its limit."""

    name: str
    text: str
    of: str
    value: float
    top: float
    limit: float


@dataclass(frozen=True, slots=True)
class CellRow:
    """One line of the cells table: a cell and one class in it; `past` marks a percentile over its limit."""

    cell: CellEvidence
    label: str
    status: str
    n: int | None
    p50: str
    p95: str
    bounds: str
    p99: str
    ttft_p95: str
    tpot_p95: str
    good: Rate
    success: float | None
    valid: float | None
    failed: int | None
    past: bool
    chosen: bool


@allow(EVERYONE)
@require_safe
def grid_detail(request: HttpRequest, pk: int) -> HttpResponse:
    grid = _grid(request, pk)
    result = result_of(grid)
    drawn_from = chart_set.digest(result)
    shown = _charts(chart_set.of(result, drawn_from), request.GET.get("class", ""))
    page = render(request, "capacity/grid_detail.html", _context(result, drawn_from) | shown)
    page.content = INDENT.sub(b"\n", page.content)
    return page


def _grid(request: HttpRequest, pk: int) -> Grid:
    return get_object_or_404(grids_of(person(request).team.pk), pk=pk)


def _context(result: Result, drawn_from: str) -> dict[str, object]:
    """Tables are made when the page asks for them: most of it is kept by `kept`, what it was drawn from."""
    grid, verdict = result.evidence.grid, result.verdict
    measured = verdict.kind != Kind.NOT_MEASURED
    gauges = cache(lambda: telemetry_rows.gauge_rows(result.evidence))
    choice = grid.choices.filter(status__in=[Choice.Status.PROPOSED, Choice.Status.APPROVED]).first()
    return {
        "grid": grid,
        "kept": drawn_from,
        "evidence": result.evidence,
        "verdict": verdict,
        "chosen": verdict.chosen,
        "rollback": verdict.row(verdict.rollback),
        "measured": measured,
        "provenance": provenance(result.evidence),
        "percentile": result.facts.limits.percentile,
        "heat": cache(lambda: heat_rows(verdict)),
        "gauges": gauges,
        "reported": lambda: [row for row in gauges() if not row.missing],
        "unreported": lambda: [row for row in gauges() if row.missing],
        "silences": cache(lambda: telemetry_rows.silences(result.evidence)),
        "cells": cache(lambda: cell_rows(result)),
        "times": cache(lambda: times_table.table(result.evidence.cells)),
        "counts": cache(lambda: count_rows(result.facts.cells)),
        "tally": tally([cell.summary for cell in result.evidence.measured if cell.summary]) if measured else None,
        "meters": meters(result),
        "memory": foreseen_words.beside(result.evidence),
        "limits": result.facts.limits,
        "objective": Objective.objects.filter(team_id=grid.team_id, digest=grid.objective_digest).first(),
        "choice": choice,
        "can_propose": grid.status in Grid.OVER and verdict.chosen is not None and choice is None,
        "can_propose_none": grid.status in Grid.OVER and choice is None and not none.obstacle(verdict),
        "conditions": _phases(result.evidence),
        "read_backs": read_backs(result.evidence.grid),
        "unfinished": grid.status in UNFINISHED,
        "done": (len(result.evidence.measured), len(result.evidence.cells)),
        "judged": grid.mode == Mode.CLOSED,
        "heads": [setting_words(grid.mode, setting) for setting in result.evidence.setting_values],
        "bands": cache(lambda: rubric_tables.bands(verdict)),
        "diagnosis_words": tally_of(verdict.findings),
        **_mode_context(result),
        "checks": cache(lambda: validity_tables.table(result)),
        **behaviour_tables.context(result),
        **confirm_tables.context(result),
    }


def _charts(found: tuple[Chart, ...], wanted: str) -> dict[str, object]:
    """Each chart where the page has it; of the distributions the asked class, or the first."""
    kinds: dict[str, list[Chart]] = {}
    for chart in found:
        kinds.setdefault(chart.kind, []).append(chart)
    curves = kinds.get("distribution", [])
    curve = next((chart for chart in curves if chart.label == wanted), curves[0] if curves else None)
    return {
        # Of the distributions one travels with the page; the others come when they are asked for.
        "figures": {chart.figure_id: chart.figure for chart in found if chart not in curves or chart is curve},
        "trade": next(iter(kinds.get("trade", [])), None),
        "class_charts": kinds.get("latency", []),
        "curves": curves,
        "curve": curve,
        "host_chart": next(iter(kinds.get("telemetry", [])), None),
    }


def _mode_context(result: Result) -> dict[str, object]:
    """The grid in the terms of its mode, and the load client's own health and calibration."""
    grid, answer = result.evidence.grid, search_answer.read(result.evidence.grid.answer)
    return {
        "mode_words": grid.words,
        "mode_table": mode_tables.table(grid, result.evidence.cells),
        "answer": answer,
        "answer_words": search_answer.words(answer) if answer else "",
        "health_columns": mode_tables.HEALTH,
        "health_lines": cache(lambda: mode_tables.health_lines(result.evidence.cells)),
        "calibration": result.evidence.calibration,
    }


def heat_rows(verdict: Verdict) -> list[HeatRow]:
    """p95 ÷ objective by class and setting, each class at its tightest limit."""
    found: dict[tuple[str, bool], dict[int, ClassRow]] = {}
    for row in verdict.rows:
        for of_class in row.classes:
            found.setdefault((of_class.class_name, of_class.in_mix), {})[row.setting] = of_class
    rows = []
    for by_setting in found.values():
        first = next(iter(by_setting.values()))
        squares = tuple(_square(row, by_setting.get(row.setting), verdict.recommended) for row in verdict.rows)
        names = dict.fromkeys(f"{row.limit_name} {seconds(row.limit_s)}" for row in by_setting.values())
        rows.append(HeatRow(label=first.label, limit=", ".join(names), cells=squares))
    return rows


def _square(row: SettingRow, of_class: ClassRow | None, recommended: int | None) -> HeatCell:
    ratio = of_class.ratio if of_class else None
    if of_class is None:
        words, note = "not measured", ""
    elif ratio is None:
        words, note = ("no such time" if of_class.untimed else "too few"), f"n = {of_class.n}"
    elif not isfinite(ratio):
        words, note = "failed", "p95 among failures"
    else:
        words, note = f"{ratio:.2f}", seconds(ratio * of_class.limit_s)
    known = ratio if ratio is None or isfinite(ratio) else 99.0
    indicative = of_class is not None and of_class.indicative
    chosen = row.setting == recommended
    return HeatCell(setting=row.setting, ratio=known, words=words, note=note, chosen=chosen, indicative=indicative)


def meters(result: Result) -> list[Meter]:
    """Margins of the recommended setting: latency, memory, temperature, as far as each is known."""
    chosen, limits = result.verdict.chosen, result.facts.limits
    if chosen is None:
        return []
    found = []
    if chosen.worst and chosen.worst.ratio is not None and isfinite(chosen.worst.ratio):
        ratio = chosen.worst.ratio
        name = f"p{limits.percentile:g} ÷ objective, {chosen.worst.label}"
        found.append(Meter(name=name, text=f"{ratio:.2f}", of="", value=ratio, top=1.2, limit=1.0))
    peak, ceiling = chosen.memory.peak_bytes, chosen.memory.limit_bytes
    if peak is not None and ceiling is not None:
        used, cap = peak / GIB, ceiling / GIB
        found.append(
            Meter(
                name=chosen.memory.words,
                text=f"{used:.1f}",
                of=f"of {cap:.1f} GiB",
                value=used,
                top=cap * 1.1,
                limit=cap,
            )
        )
    if chosen.temperature_c is not None:
        hot, cap = chosen.temperature_c, limits.max_temperature_c
        found.append(
            Meter(name="GPU temperature", text=f"{hot:.0f}", of=f"of {cap:.0f} °C", value=hot, top=cap * 1.1, limit=cap)
        )
    return found


def cell_rows(result: Result) -> list[CellRow]:
    """The cells table, in running order."""
    rows = []
    for cell in result.evidence.cells:
        chosen = cell.setting == result.verdict.recommended
        if cell.summary is None or not cell.summary.classes:
            rows.append(_empty_row(cell, chosen=chosen))
        else:
            parts = cell.summary.classes
            rows += [_cell_row(result, cell, part, window_s=cell.summary.window_s, chosen=chosen) for part in parts]
    return rows


def _cell_row(result: Result, cell: CellEvidence, part: ClassSummary, *, window_s: float, chosen: bool) -> CellRow:
    asked = result.facts.limits.classes.get(part.class_name)
    limit_s, p95 = asked.e2e_s if asked else None, part.e2e_s.p95
    return CellRow(
        cell=cell,
        status=str(Cell.Status(cell.status).label),
        label=part.class_name if part.class_name == cell.class_name else f"{part.class_name} in the mix",
        n=part.scheduled,
        p50=_short(part.e2e_s.p50.value),
        p95=_short(p95.value),
        bounds=f"{_short(p95.lower)} to {_short(p95.upper)}" if p95.lower and p95.upper else "",
        p99=_short(part.e2e_s.p99.value),
        ttft_p95=_first_token(part),
        tpot_p95=_per_token(part),
        good=Rate(value=part.good.hits * 60 / window_s if window_s else None),
        success=part.success.value,
        valid=part.valid.value,
        failed=part.scheduled - part.success.hits,
        past=bool(limit_s and p95.value and p95.value > limit_s),
        chosen=chosen,
    )


def _empty_row(cell: CellEvidence, *, chosen: bool) -> CellRow:
    return CellRow(
        cell=cell,
        status=str(Cell.Status(cell.status).label),
        label=cell.class_name,
        n=None,
        p50="",
        p95="",
        bounds="",
        p99="",
        ttft_p95="",
        tpot_p95="",
        good=Rate(),
        success=None,
        valid=None,
        failed=None,
        past=False,
        chosen=chosen,
    )


def _first_token(part: ClassSummary) -> str:
    if not _untimed(part, part.ttft_s):
        return _short(part.ttft_s.p95.value)
    return times_table.HELD_BACK if part.buffered else times_table.NOT_STREAMED


def _per_token(part: ClassSummary) -> str:
    """p95 of TPOT; where no answer has one, the reason."""
    if not _untimed(part, part.tpot_s):
        return _short(part.tpot_s.p95.value, digits=4)
    if _untimed(part, part.ttft_s):
        return _first_token(part)
    if part.mixed_token_sources:
        return "counted two ways"
    return "not counted" if part.output_tokens_p50 is None else "one token"


def _untimed(part: ClassSummary, tail: Tail) -> bool:
    return part.scheduled > 0 and tail.p95.n == 0


def _short(value: float | None, digits: int = 3) -> str:
    """Seconds for a narrow column: too few points is a dash with its own words in the caption, failures say so."""
    if value is None:
        return "too few"
    return f"{value:.{digits}f}" if value < 0.1 else f"{value:.2f}" if isfinite(value) else "failed"


def _phases(evidence: GridEvidence) -> list[tuple[str, str, Conditions | None]]:
    """(slug, word, row or None) before and after."""
    by_phase = {row.phase: row for row in evidence.conditions}
    return [(str(phase.value), str(phase.label), by_phase.get(phase.value)) for phase in Conditions.Phase]
