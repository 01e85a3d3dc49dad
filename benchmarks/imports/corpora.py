"""Tells a file of prompts or answers from what was asked for, so that it is refused with the reason and not with a riddle.

Only synthetic prompts are ever sent: a corpus has no place in this product, in whatever form it comes. In scope: naming it.
Not in scope: reading what was asked for; that a file is no corpus does not make it a trace or a configuration.
"""

from __future__ import annotations

import csv
import re

import msgspec

from benchmarks.imports.trace_text import ONLY_SYNTHETIC, TEXT_COLUMNS, is_number, plain_name

MOST_LOOKED_AT = 1 << 20
"""Enough to know a corpus by; the rest of a large file is not looked at."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_FEW_WORDS, _WORDS_A_LINE = 25, 7
_NOT_PLAIN = frozenset('{}[]<>=;|\t"')
Json = dict[str, object]


def corpus_fault(data: bytes) -> str | None:
    """Why this is a corpus, as a sentence for the person who gave it; None where it is not known to be one."""
    text = data[:MOST_LOOKED_AT].decode("utf-8-sig", errors="ignore").strip()
    if not text or "\0" in text:
        return None
    if text[0] in "{[":
        found = next((name for record in _records(text) if (name := _text_in(record))), None)
    else:
        found = _column_of_texts(text)
    if found is not None:
        return f"“{found[:60]}” holds texts of prompts or answers. {ONLY_SYNTHETIC}"
    return f"This is a running text. {ONLY_SYNTHETIC}" if text[0] not in "{[" and _is_prose(text) else None


def _records(text: str) -> list[Json]:
    """The first objects of a JSON file, of one with an object per line, or of a list inside an object."""
    for part in (text, text.partition("\n")[0].rstrip().rstrip(",")):
        try:
            return _objects(msgspec.json.decode(part))
        except (msgspec.MsgspecError, RecursionError):
            continue
    return _cut(text)


def _objects(value: object) -> list[Json]:
    if isinstance(value, list):
        return [{"text": one} if isinstance(one, str) else one for one in value[:20] if isinstance(one, dict | str)]
    if not isinstance(value, dict) or "model_type" in value:
        return []
    inner = [one for item in value.values() if isinstance(item, list) for one in item[:5] if isinstance(one, dict)]
    return [value, *inner]


def _cut(text: str) -> list[Json]:
    """Keys and the beginnings of their values in a file that was cut or is broken."""
    pairs = re.findall(r'"([^"\\]{1,60})"\s*:\s*("(?:[^"\\]|\\.){0,40}|\[|\{)', text[:20_000])
    return [{name: value.removeprefix('"') if value[0] == '"' else [value]} for name, value in pairs]


def _text_in(record: Json) -> str | None:
    """The name of the first field that holds texts."""
    for name, value in record.items():
        if plain_name(name) in TEXT_COLUMNS and _holds_text(value):
            return name
    return None


def _holds_text(value: object) -> bool:
    if isinstance(value, str):
        return _WORD.search(value) is not None and not is_number(value)
    if isinstance(value, list):
        return any(_holds_text(one) for one in value[:20])
    return isinstance(value, dict) and any(_holds_text(one) for one in value.values())


def _column_of_texts(text: str) -> str | None:
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    if len(lines) < 2:
        return None
    delimiter = max(",;\t", key=lines[0].count)
    try:
        head, *rows = csv.reader(lines, delimiter=delimiter)
    except csv.Error:
        return None
    for place, name in enumerate(head):
        if plain_name(name) in TEXT_COLUMNS and any(_holds_text(row[place]) for row in rows if len(row) > place):
            return name.strip()
    return None


def _is_prose(text: str) -> bool:
    """Many words, most of them in sentences: no table, no list of numbers, no code."""
    beginning = text[:4000]
    words, lines = _WORD.findall(beginning), [line for line in beginning.splitlines() if line.strip()]
    marks = sum(letter in _NOT_PLAIN for letter in beginning)
    return len(words) >= _FEW_WORDS and len(words) / len(lines) >= _WORDS_A_LINE and marks * 20 < len(beginning)
