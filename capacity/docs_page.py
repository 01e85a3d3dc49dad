"""One page of the documentation: what every kind of page is made of. Texts are marked for translation and kept as written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """A lead sentence, then rows of (label, text). `formula` is code and has its `unit`; `related` are slugs of other pages."""

    slug: str
    title: str
    lead: str
    rows: tuple[tuple[str, str], ...] = ()
    remedy: tuple[str, ...] = ()
    run: str = ""
    formula: str = ""
    unit: str = ""
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Pages of one kind. `told` is the heading above the rows of each."""

    slug: str
    title: str
    lead: str
    told: str
    icon: str
    pages: tuple[Page, ...]
