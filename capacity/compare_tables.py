"""Two grids beside each other, for the page and as files: what they were measured on, what of it differs, and the change
of every cell with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

import msgspec
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from benchmarks.models import Conditions
from benchmarks.records.mode_words import setting_words
from benchmarks.stats.per_cent import per_cent
from capacity.assessment import compare, compare_key
from capacity.assessment.compare import Cell, Change, Side
from capacity.assessment.compare_key import Field, Key, Line
from capacity.chart_types import Chart
from capacity.exports import Value, csv_of, json_of, plain
from capacity.queries import Provenance, Result, provenance

ALIKE = gettext_lazy(
    "Like for like: nothing recorded of model, runtime, flags, host, workload, method, room, power and loading differs."
)
UNLIKE = gettext_lazy("Not like for like. What differs below may come from any of these, or from none.")
OTHER_LOADING = gettext_lazy(
    "The two grids load in different ways, so a setting of one is none of the other, and no cells are compared."
)


@dataclass(frozen=True, slots=True)
class Overall:
    """The whole mix at the setting that decides, and why that setting."""

    setting: int
    whence: str
    change: Change

    @property
    def heading(self) -> str:
        """The finding in words; without a clear difference it says so, and never who is ahead."""
        change = self.change.change.value
        if not self.change.clear or change is None:
            return _("No clear difference at %(n)d in flight") % {"n": self.setting}
        told = {"share": _percent(abs(change)), "n": self.setting}
        if change > 0:
            return _("B finishes %(share)s more good requests at %(n)d in flight") % told
        return _("B finishes %(share)s fewer good requests at %(n)d in flight") % told

    @property
    def sentence(self) -> str:
        """Both rates and the interval of the change, or why there is none."""
        left, right = self.change.left.value, self.change.right.value
        if left is None or right is None:
            return f"{self.whence} {_('It cannot be compared: %(why)s.') % {'why': self.change.words}}"
        told = {"left": f"{left:.1f}", "right": f"{right:.1f}", "words": self.change.words}
        lower, upper = self.change.change.lower, self.change.change.upper
        if lower is None or upper is None:
            bare = _("%(left)s and %(right)s good requests a minute, without an interval of the change: %(words)s.")
            return f"{bare % told} {self.whence}"
        said = _(
            "%(left)s and %(right)s good requests a minute; 95 %% interval of the change %(lower)s to %(upper)s %%."
        )
        return f"{said % (told | {'lower': signed(lower), 'upper': signed(upper)})} {self.whence}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Left is what the other is compared with. `alike` only where no field differs; `rows` are heads with their cells."""

    left: Result
    right: Result
    sides: tuple[Provenance, Provenance]
    fields: tuple[Field, ...]
    unknown: tuple[str, ...]
    rows: tuple[tuple[str, Cell], ...]
    lines: tuple[Line, ...] = ()
    overall: Overall | None = None

    @property
    def alike(self) -> bool:
        return not self.fields

    @property
    def apart(self) -> list[Line]:
        return [line for line in self.lines if line.differs]

    @property
    def alike_lines(self) -> list[Line]:
        return [line for line in self.lines if not line.differs]

    @property
    def sentence(self) -> str:
        return str(ALIKE if self.alike else UNLIKE)

    @property
    def differs_words(self) -> str:
        """What differs, by name; a person reads from it what a gain may not be put down to."""
        names = [
            field.name[0].lower() + field.name[1:] if not field.name[:2].isupper() else field.name
            for field in self.fields
        ]
        if len(names) == 1:
            only = _("Only the %(name)s differs: what differs below may come from it, or from chance.")
            return only % {"name": names[0]}
        told = _("%(names)s and %(last)s") % {"names": ", ".join(names[:-1]), "last": names[-1]}
        several = _("%(names)s differ, so no difference below can be put down to one of them alone.")
        return several % {"names": told[0].upper() + told[1:]}

    @property
    def counted(self) -> str:
        """How many of the measures that stand in both grids differ clearly."""
        changes = [change for _head, cell in self.rows for change in cell.changes]
        if not changes:
            return _("No cell was measured in both.")
        clear = sum(change.clear for change in changes)
        return _("%(clear)d of %(all)d measures differ clearly.") % {"clear": clear, "all": len(changes)}


def comparison(left: Result, right: Result) -> Comparison:
    """Cells are compared where both grids load in the same way; the mix as a whole where both loops are closed."""
    keys = key_of(left), key_of(right)
    grids = left.evidence.grid, right.evidence.grid
    same_loading = grids[0].mode == grids[1].mode
    names = f"grid {grids[0].pk}", f"grid {grids[1].pk}"
    cells = compare.cells(left.facts.cells, right.facts.cells, names=names) if same_loading else ()
    return Comparison(
        left=left,
        right=right,
        sides=(provenance(left.evidence), provenance(right.evidence)),
        fields=compare_key.differing(*keys),
        unknown=compare_key.unknown(*keys),
        lines=compare_key.lines(*keys),
        overall=_overall(left, right) if same_loading else None,
        rows=tuple((setting_words(grids[0].mode, cell.setting), cell) for cell in cells),
    )


def _overall(left: Result, right: Result) -> Overall | None:
    """At the setting that both recommend, else the largest that is safe in both, else the largest that both measured."""
    one, other = left.verdict, right.verdict
    rows = {row.setting: row for row in one.rows if row.good.value is not None}
    pairs = [(rows[row.setting], row) for row in other.rows if row.setting in rows and row.good.value is not None]
    if not pairs:
        return None
    safe = [pair for pair in pairs if pair[0].safe and pair[1].safe]
    same = [pair for pair in safe if pair[0].setting == one.recommended == other.recommended]
    chosen = (same or safe or pairs)[-1]
    whence = (
        _("Both recommend this setting.") if same
        else _("The largest setting that is safe in both.") if safe
        else _("The largest setting that both measured; it is safe in neither or in one alone.")
    )  # fmt: skip
    change = compare.rate_change(chosen[0].good, chosen[1].good, n=(chosen[0].n, chosen[1].n))
    return Overall(setting=chosen[0].setting, whence=whence, change=change)


def _percent(share: float) -> str:
    """ "11 %", or one decimal below ten."""
    return per_cent(share, 1 if share < 0.0995 else 0)


def signed(share: float) -> str:
    """A change in per cent with its sign, without the per cent sign: "+11.3", "−4.0"."""
    if isinf(share):
        return _("no bound")
    return f"{share * 100:+.1f}".replace("-", "−")


MEASURES = {
    "e2e_p95_s": "p95", "e2e_p50_s": "p50", "good_per_min": gettext_lazy("Good requests"),
    "success_share": gettext_lazy("Success share"),
}  # fmt: skip
"""What the table of cells can show, as the page's address names it."""
SLOWER, FASTER = gettext_lazy("B slower"), gettext_lazy("B faster")
READINGS = {
    "e2e_p95_s": (SLOWER, FASTER), "e2e_p50_s": (SLOWER, FASTER),
    "good_per_min": (gettext_lazy("B more"), gettext_lazy("B fewer")),
    "success_share": (gettext_lazy("B higher"), gettext_lazy("B lower")),
}  # fmt: skip
"""In words: where the change is above 0, and where it is below."""


@dataclass(frozen=True, slots=True)
class CellLine:
    """One class at one setting in one measure. Ratios only of a p95 that has a limit; `reading` is in plain words and
    `kind` says whether it is better, worse or neither."""

    head: str
    label: str
    left: str = ""
    right: str = ""
    left_n: str = ""
    right_n: str = ""
    change: str = ""
    interval: str = ""
    left_ratio: float | None = None
    right_ratio: float | None = None
    reading: str = ""
    kind: str = ""


def cell_lines(found: Comparison, measure: str) -> list[CellLine]:
    """The cells that both grids have, in one of MEASURES."""
    changes = [
        (head, cell, change) for head, cell in found.rows for change in cell.changes if change.measure == measure
    ]
    return [_line(found, head, cell, change) for head, cell, change in changes]


def missing_cells(found: Comparison) -> list[tuple[str, str]]:
    """What one grid alone has: the sentence that says where it is missing, and the cells, in words."""
    by_sentence: dict[str, list[str]] = {}
    for head, cell in found.rows:
        if cell.missing:
            by_sentence.setdefault(cell.missing, []).append(f"{head}, {cell.label}")
    return [(sentence, "; ".join(cells)) for sentence, cells in by_sentence.items()]


def _line(found: Comparison, head: str, cell: Cell, change: Change) -> CellLine:
    value, lower, upper = change.change.value, change.change.lower, change.change.upper
    ends = [end for end in (lower, upper) if end is not None]
    left, _comma, left_n = change.left_words.partition(", ")
    right, _comma, right_n = change.right_words.partition(", ")
    return CellLine(
        head=head, label=cell.label, left=left, right=right, left_n=left_n, right_n=right_n,
        change="" if value is None or isinf(value) else signed(value),
        interval=_("%(lower)s to %(upper)s") % {"lower": signed(ends[0]), "upper": signed(ends[1])} if len(ends) == 2 else "",
        left_ratio=_of_limit(found.left, cell, change, change.left),
        right_ratio=_of_limit(found.right, cell, change, change.right),
        reading=_reading(change), kind=_kind(change),
    )  # fmt: skip


def _reading(change: Change) -> str:
    """ "B faster", or the judge's own words where nothing can be told."""
    if not change.clear or change.change.value is None:
        return change.words[0].upper() + change.words[1:].partition(" (")[0]
    up, down = READINGS[change.measure]
    return str(up if change.change.value > 0 else down)


def _kind(change: Change) -> str:
    """Whether B is better: quicker, or more of what counts."""
    if not change.clear or change.change.value is None:
        return ""
    more_is_better = change.measure in ("good_per_min", "success_share")
    return "better" if (change.change.value > 0) == more_is_better else "worse"


def _of_limit(result: Result, cell: Cell, change: Change, side: Side) -> float | None:
    """A p95 as a share of its class's limit for end to end, where the objective is of that percentile and has one."""
    limits = result.evidence.limits
    limit = limits.classes.get(cell.label.removesuffix(" in the mix"))
    if (
        change.measure != "e2e_p95_s"
        or limits.percentile != 95
        or limit is None
        or not limit.e2e_s
        or side.value is None
    ):
        return None
    return None if isinf(side.value) else side.value / limit.e2e_s


def key_of(result: Result) -> Key:
    """What this grid has in common with another, or has not."""
    evidence, grid = result.evidence, result.evidence.grid
    before = next((row for row in evidence.conditions if row.phase == Conditions.Phase.BEFORE), None)
    return compare_key.key_of(
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


def chart_csv(found: Comparison, chart: Chart) -> str:
    """The points of a figure of both grids, each row with what was measured where on both sides."""
    grids = dict(
        zip(COLUMNS, (*_of_grid(found.left, found.sides[0]), *_of_grid(found.right, found.sides[1])), strict=False)
    )
    keys = [column.key for column in chart.points.columns]
    rows = [grids | dict(zip(keys, map(plain, row), strict=True)) for row in chart.points.rows]
    return csv_of(rows, [*grids, *keys])


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
    for _head, cell in found.rows:
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
        change.measure, change.unit, *_of_side(change.left), *_of_side(change.right), plain(found.value),
        plain(found.lower), plain(found.upper), found.how, change.clear, change.words,
    )  # fmt: skip


def _of_side(side: Side) -> tuple[Value, ...]:
    return plain(side.value), side.n, side.repeats
