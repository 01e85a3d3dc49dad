"""What a chart is to a page and to its files: the figure, its words, and the same numbers as a table."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, isinf

Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Column:
    """`key` names it in files, with its unit; `head` and `unit` on the page. `digits` None: as it is, text."""

    key: str
    head: str
    unit: str = ""
    digits: int | None = None


@dataclass(frozen=True, slots=True)
class ChartTable:
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def lines(self) -> list[list[str]]:
        """For people: what is not known says so, what lies among failures too."""
        return [[_shown(value, column) for value, column in zip(row, self.columns, strict=True)] for row in self.rows]


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure. `key` is its name in addresses, `figure` plotly's JSON, `series` every point that is drawn where the
    table on the page holds only some; `note` stands beside its name."""

    key: str
    kind: str
    title: str
    figure: str
    aria: str
    caption: str
    table: ChartTable
    label: str = ""
    note: str = ""
    series: ChartTable | None = None
    size: tuple[int, int] = (760, 360)
    rows: int = 1

    @property
    def figure_id(self) -> str:
        return f"fig-{self.key}"

    @property
    def box(self) -> str:
        """The class that gives its box its height; rows of telemetry are as many as were reported."""
        return {"trade": "hr-chart-l", "latency": "hr-chart-s", "telemetry": f"hr-rows-{self.rows}"}.get(self.kind, "")

    @property
    def points(self) -> ChartTable:
        return self.series or self.table


def _shown(value: Cell, column: Column) -> str:
    if value is None:
        return "not known"
    if isinstance(value, str) or column.digits is None:
        return str(value)
    if isinf(value):
        return "among failures"
    return f"{value:,.{column.digits}f}" if isfinite(value) else "not known"
