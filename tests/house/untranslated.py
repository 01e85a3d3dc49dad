"""What a reader sees of a page outside the brackets of the pseudo-language: text that no translator was ever offered.

Not reported is what is data or is English in every language: code, what stands in an element with `translate="no"` or in a
language of its own, what the database holds, and the words of the pure packages. Those are evidence: pages, files, proposals
and signed statements share them, and a record reads the same in every language.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import yaml
from django.apps import apps
from django.db import models

from capacity.pseudo import CLOSING, OPENING

ROOT = Path(__file__).resolve().parents[2]
SHARED = {
    "capacity/mode_tables.py": "heads and definitions of tables that are files too",
    "capacity/charts.py": "titles and captions of charts, which are files too and kept once for all readers",
    "capacity/chart_set.py": "titles and captions of charts, which are files too and kept once for all readers",
    "capacity/chart_parts.py": "titles and captions of charts, which are files too and kept once for all readers",
    "capacity/curves.py": "titles and captions of charts, which are files too and kept once for all readers",
    "capacity/host_charts.py": "titles and captions of charts, which are files too and kept once for all readers",
    "capacity/times_table.py": "a table that is a file too",
    "capacity/validity_tables.py": "a table that is a file too",
    "capacity/rubric_tables.py": "a table that is a file too",
    "capacity/telemetry_rows.py": "a table that is a file too",
    "capacity/policy_tables.py": "a table that is a file too",
    "capacity/batch_tables.py": "a table that is a file too",
    "capacity/confirm_tables.py": "a table that is a file too",
    "capacity/queries.py": "the line of provenance, which every file repeats",
    "benchmarks/foreseen.py": "what a plan foresaw, kept with the grid",
    "benchmarks/foreseen_words.py": "what a plan foresaw, kept with the grid",
    "benchmarks/audit.py": "what the audit log holds",
}
"""Django modules whose words are evidence all the same, with the reason."""
PURE = (
    "benchmarks/stats", "benchmarks/engine", "benchmarks/memory", "benchmarks/runtimes", "benchmarks/imports",
    "benchmarks/simulator", "benchmarks/records", "benchmarks/conditions",
    "capacity/assessment", "capacity/controls", "capacity/planning", "capacity/statement",
)  # fmt: skip
SKIPPED = {"script", "style", "code", "pre", "kbd", "bdi", "textarea", "svg"}
VOID = {"input", "br", "hr", "img", "link", "meta", "col", "source", "use", "wbr"}
NUMBERS = re.compile(r"[\d.,:%+-]+")
CODE = re.compile(
    r"\b[0-9a-f]{8,}\b|\S*_\S*|\bmake worker\b|\bmanage\.py\b|\S+\.pdf\b|\d+% for \w+|\bmeasure \d+ beside [\d and]+"
)
"""Digests, names with an underscore, commands and files read the same in every language; the last two are the judge's own
short phrases."""
SHOWN = ("aria-label", "title", "placeholder", "alt", "data-l")
NAMED = {"name", "slug", "username", "model_name", "class_name", "number", "actor", "verb"}
TEXTUAL = (models.CharField, models.TextField, models.JSONField)
WORD = re.compile(r"[A-Za-z][a-z]{2,}")


class Shown(HTMLParser):
    """Collects the texts of a page that stand outside all brackets."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.depth = 0
        self.quiet: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        foreign = tag != "html" and found.get("lang") not in (None, "en-xa")
        silent = tag in SKIPPED or found.get("translate") == "no" or foreign
        if not silent and not any(self.quiet) and not self.depth:
            self.texts += [outside(found[name] or "") for name in SHOWN if found.get(name)]
            if tag == "input" and found.get("type") in ("submit", "button"):
                self.texts.append(outside(found.get("value") or ""))
        if tag not in VOID:
            self.quiet.append(silent)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self.quiet:
            self.quiet.pop()

    def handle_data(self, data: str) -> None:
        kept = []
        for piece in re.split(f"([{OPENING}{CLOSING}])", data):
            self.depth += {OPENING: 1, CLOSING: -1}.get(piece, 0)
            if piece not in (OPENING, CLOSING) and self.depth == 0:
                kept.append(piece)
        if not any(self.quiet):
            self.texts.append(" ".join(kept))


def outside(text: str) -> str:
    depth, kept = 0, []
    for piece in re.split(f"([{OPENING}{CLOSING}])", text):
        depth += {OPENING: 1, CLOSING: -1}.get(piece, 0)
        if piece not in (OPENING, CLOSING) and depth == 0:
            kept.append(piece)
    return " ".join(kept)


def plain(text: str) -> str:
    return " ".join(text.replace("\u00a0", " ").split()).casefold()


@functools.cache
def evidence_words() -> tuple[str, ...]:
    """Every text of the pure packages, f-strings in their parts; the longest first."""
    found: set[str] = set()
    for folder in (*PURE, *SHARED):
        for path in (ROOT / folder).rglob("*") if folder in PURE else [ROOT / folder]:
            if path.suffix == ".py":
                nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                found |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            elif path.suffix in (".yaml", ".yml"):
                found |= set(_texts(yaml.safe_load(path.read_text(encoding="utf-8"))))
    return _longest_first(found)


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in _texts(part)]
    if isinstance(value, list):
        return [text for part in value for text in _texts(part)]
    return [value] if isinstance(value, str) else []


def data_words() -> tuple[str, ...]:
    """Every text that the database holds, one line at a time."""
    return _longest_first({line for _, text in _stored() for line in text.splitlines()})


def data_names() -> frozenset[str]:
    """The single words of what people and things are called."""
    return frozenset(word.casefold() for name, text in _stored() if name in NAMED for word in WORD.findall(text))


def _stored() -> Iterator[tuple[str, str]]:
    for model in apps.get_models():
        fields = [f.name for f in model._meta.concrete_fields if isinstance(f, TEXTUAL)]
        for row in model._default_manager.values_list(*fields):
            yield from ((name, text) for name, value in zip(fields, row, strict=True) for text in _texts(value))


def _longest_first(texts: set[str]) -> tuple[str, ...]:
    return tuple(sorted({plain(text) for text in texts if WORD.search(text.casefold())}, key=len, reverse=True))


def untranslated(html: str, known: tuple[str, ...], words: frozenset[str]) -> list[str]:
    """The texts of the page that nobody could translate. `known` are whole texts, `words` single words and names."""
    page = Shown()
    page.feed(html)
    return sorted({text for text in map(plain, page.texts) if _left(text, known, words)})


@functools.cache
def _single(known: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word for one in known if " " not in one for word in WORD.findall(one))


def _left(text: str, known: tuple[str, ...], words: frozenset[str]) -> bool:
    if text in known or NUMBERS.sub("", text).strip() in known:
        return False
    rest, parts = CODE.sub(" ", text), 0
    for one in known:
        # A single word is only itself, or fills a place of a sentence; alone inside other text it proves nothing.
        if " " in one and one in rest:
            rest, parts = rest.replace(one, " "), parts + 1
    filled = words | _single(known) if parts else words
    return any(word.casefold() not in filled for word in WORD.findall(rest))
