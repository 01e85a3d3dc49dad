"""The few shapes that a statement's words come in; the screen and PDF templates know these and nothing else."""

from __future__ import annotations

from typing import Literal

import msgspec


class Span(msgspec.Struct, frozen=True):
    """A piece of a sentence."""

    text: str
    strong: bool = False


class Pair(msgspec.Struct, frozen=True):
    """A label and its text."""

    label: str
    text: str


class Person(msgspec.Struct, frozen=True):
    """Who did what, when."""

    did: str
    name: str
    at: str


class TableCell(msgspec.Struct, frozen=True):
    """One cell; `past` marks a value past its objective or limit, by more than colour."""

    text: str
    past: bool = False


class Line(msgspec.Struct, frozen=True):
    """One row of a table; `chosen` marks the stated setting, `apart` a row that was measured in another way."""

    cells: tuple[TableCell, ...]
    chosen: bool = False
    apart: bool = False


class Head(msgspec.Struct, frozen=True):
    """A column's name, with its limit on a second line. `kind` says how it is set: a label or words from where reading
    begins, numbers to the other end, digests in a fixed-width face."""

    text: str
    limit: str = ""
    kind: Literal["label", "words", "number", "digest"] = "number"

    @property
    def name(self) -> str:
        """Both lines in one."""
        return f"{self.text} {self.limit}".strip()


class Table(msgspec.Struct, frozen=True):
    """A table whose first column names its rows."""

    head: tuple[Head, ...]
    lines: tuple[Line, ...]
    caption: str = ""

    @property
    def rows(self) -> list[tuple[Line, list[tuple[Head, TableCell]]]]:
        """Each row with its cells beside their columns, for the screen's template."""
        return [(line, list(zip(self.head, line.cells, strict=True))) for line in self.lines]


LONG = 12
"""Lines of a table."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A heading with what stands under it, in this order."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()
    table: Table | None = None
    items: tuple[str, ...] = ()
    code: tuple[str, ...] = ()

    @property
    def is_long(self) -> bool:
        """Whether a screen shows its table only where it is asked for."""
        return self.table is not None and len(self.table.lines) > LONG
