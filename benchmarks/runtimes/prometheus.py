"""A lenient reader of Prometheus text: a bad line is skipped and remembered, everything else is kept."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:.]*"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(rf"({_NAME})(?:\{{((?:[^\"}}]|{_QUOTED})*)\}})?\s+(\S+)(?:\s+(-?\d+))?\s*(?:#.*)?")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_.]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
MAX_WARNINGS = 20


class Sample(msgspec.Struct, frozen=True):
    """One series. `value` None: the server wrote something that is no finite number. `at_ms`: when it was taken by the
    server's wall clock, where the line says so."""

    name: str
    labels: Mapping[str, str]
    value: float | None
    at_ms: int | None = None


class Exposition(msgspec.Struct, frozen=True):
    samples: tuple[Sample, ...]
    warnings: tuple[str, ...]


def parse(text: str) -> Exposition:
    """Samples in the order of the text; at most MAX_WARNINGS sentences about lines that could not be read."""
    samples: list[Sample] = []
    warnings: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        sample = _sample(stripped)
        if sample is not None:
            samples.append(sample)
        elif len(warnings) < MAX_WARNINGS:
            warnings.append(f"Line {number} could not be read and was skipped: {stripped[:80]}")
    return Exposition(tuple(samples), tuple(warnings))


def _sample(line: str) -> Sample | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    labels = _labels(match.group(2) or "")
    try:
        value = float(match.group(3))
    except ValueError:
        return None
    if labels is None:
        return None
    stamp = match.group(4)
    return Sample(match.group(1), labels, value if math.isfinite(value) else None, int(stamp) if stamp else None)


def _labels(text: str) -> dict[str, str] | None:
    labels: dict[str, str] = {}
    position = 0
    while position < len(text) and text[position:].strip():
        match = _LABEL.match(text, position)
        if match is None:
            return None
        labels[match.group(1)] = re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), match.group(2))
        position = match.end()
    return labels
