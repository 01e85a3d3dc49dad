"""Two grids beside each other, for the page and as files: what they were measured on, what of it differs, and the change
of every cell with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

import msgspec

from benchmarks.models import Conditions
from benchmarks.records.mode_words import setting_words
from capacity.assessment import compare
from capacity.assessment.compare import Cell, Change, Field, Key, Side
from capacity.exports import Value, csv_of, json_of
from capacity.queries import Provenance, Result, provenance

ALIKE = (
    "Like for like: nothing recorded of model, runtime, flags, host, workload, method, room, power and loading differs."
)
UNLIKE = "Not like for like. What differs below may come from any of these, or from none."
OTHER_LOADING = (
    "The two grids load in different ways, so a setting of one is none of the other, and no cells are compared."
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Left is what the other is compared with. `alike` only where no field differs; `rows` are heads with their cells."""

    left: Result
    right: Result
    sides: tuple[Provenance, Provenance]
    fields: tuple[Field, ...]
    unknown: tuple[str, ...]
    rows: tuple[tuple[str, Cell], ...]

    @property
    def alike(self) -> bool:
        return not self.fields

    @property
    def sentence(self) -> str:
        return ALIKE if self.alike else UNLIKE

    @property
    def counted(self) -> str:
        """How many of the measures that stand in both grids differ clearly."""
        changes = [change for _, cell in self.rows for change in cell.changes]
        if not changes:
            return "No cell was measured in both."
        clear = sum(change.clear for change in changes)
        return f"{clear} of {len(changes)} measures differ clearly."


def comparison(left: Result, right: Result) -> Comparison:
    keys = key_of(left), key_of(right)
    grids = left.evidence.grid, right.evidence.grid
    same_loading = grids[0].mode == grids[1].mode
    names = f"grid {grids[0].pk}", f"grid {grids[1].pk}"
    cells = compare.cells(left.facts.cells, right.facts.cells, names=names) if same_loading else ()
    return Comparison(
        left=left,
        right=right,
        sides=(provenance(left.evidence), provenance(right.evidence)),
        fields=compare.differing(*keys),
        unknown=compare.unknown(*keys),
        rows=tuple((setting_words(grids[0].mode, cell.setting), cell) for cell in cells),
    )


def key_of(result: Result) -> Key:
    """What this grid has in common with another, or has not."""
    evidence, grid = result.evidence, result.evidence.grid
    before = next((row for row in evidence.conditions if row.phase == Conditions.Phase.BEFORE), None)
    return compare.key_of(
        declared=grid.declared,
        read=evidence.probe.facts if evidence.probe else {},
        summaries=[cell.summary for cell in evidence.measured if cell.summary],
        model=grid.runtime.model_name,
        model_digest=grid.runtime.model_digest,
        runtime=grid.runtime.get_kind_display(),
        runtime_version=grid.runtime.runtime_version,
        flags=grid.runtime.flags,
        workload_digest=grid.workload.digest,
        method_version=result.verdict.method_version,
        power_source=before.get_power_source_display() if before else None,
        ambient_c=before.ambient_c if before else None,
        objective_digest=grid.objective_digest,
        mode=grid.words.name,
        terms=grid.load_words,
    )


def as_csv(found: Comparison) -> str:
    """UTF-8 text with a header line and CRLF ends; a row for each measure of each cell, and one for a missing cell."""
    return csv_of(_rows(found), COLUMNS)


def as_json(found: Comparison) -> str:
    """An object with `alike`, the fields that differ, those that neither has, and `rows` as in the CSV."""
    differing = [msgspec.to_builtins(field) for field in found.fields]
    return json_of(_rows(found), alike=found.alike, differing=differing, not_compared=list(found.unknown))


OF_GRID = ("grid", "simulated", "hardware", "runtime", "model", "room", "power", "date")
OF_SIDE = ("value", "n", "repeats")
COLUMNS = (
    *(f"{side}_{name}" for side in ("left", "right") for name in OF_GRID),
    "alike", "differing_fields", "setting", "class_name", "measure", "unit",
    *(f"{side}_{name}" for side in ("left", "right") for name in OF_SIDE),
    "change", "change_lower", "change_upper", "interval_from", "clear", "words",
)  # fmt: skip


def _rows(found: Comparison) -> list[dict[str, Value]]:
    grids: tuple[Value, ...] = (*_of_grid(found.left, found.sides[0]), *_of_grid(found.right, found.sides[1]))
    both: tuple[Value, ...] = (*grids, found.alike, ", ".join(field.name for field in found.fields))
    rows = []
    for _, cell in found.rows:
        told = [_of_change(change) for change in cell.changes] or [(*(None,) * 12, cell.missing)]
        rows += [dict(zip(COLUMNS, (*both, cell.setting, cell.label, *values), strict=True)) for values in told]
    return rows


def _of_grid(result: Result, side: Provenance) -> tuple[Value, ...]:
    return (
        result.evidence.grid.pk, side.simulated, side.hardware, side.runtime, side.model, side.room, side.power, side.date
    )  # fmt: skip


def _of_change(change: Change) -> tuple[Value, ...]:
    found = change.change
    return (
        change.measure, change.unit, *_of_side(change.left), *_of_side(change.right), _plain(found.value),
        _plain(found.lower), _plain(found.upper), found.how, change.clear, change.words,
    )  # fmt: skip


def _of_side(side: Side) -> tuple[Value, ...]:
    return _plain(side.value), side.n, side.repeats


def _plain(value: float | None) -> Value:
    return "inf" if value is not None and isinf(value) else value
