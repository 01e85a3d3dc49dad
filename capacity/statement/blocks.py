"""The few shapes that a statement's words come in; the screen and PDF templates know these and nothing else."""

from __future__ import annotations

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
    """One row of a table; `chosen` marks the stated setting."""

    cells: tuple[TableCell, ...]
    chosen: bool = False


class Head(msgspec.Struct, frozen=True):
    """A column's name, with its limit on a second line."""

    text: str
    limit: str = ""


class Table(msgspec.Struct, frozen=True):
    """A table whose first column reads from the left and whose others are numbers; `mono` columns hold digests."""

    head: tuple[Head, ...]
    lines: tuple[Line, ...]
    caption: str = ""
    mono: bool = False


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A heading with what stands under it, in this order."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()
    items: tuple[str, ...] = ()
    table: Table | None = None
    code: tuple[str, ...] = ()
