"""What stands around a cell, as the worker recorded it: power and room, the idle host, cooling.

Each is kept as JSON in the row that it belongs to. It is shown as it is kept, by its own names: whatever a worker adds is
seen without a change here, and what is not there is not claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from benchmarks.models import Attempt, Cell
from benchmarks.templatetags.headroom import when

UNITS = (
    ("_bytes", "GiB", 1 / 2**30, 2), ("_share", "%", 100.0, 1), ("_percent", "%", 1.0, 1), ("_tokens", "tokens", 1.0, 0),
    ("_gib", "GiB", 1.0, 2), ("_ms", "ms", 1.0, 2), ("_c", "°C", 1.0, 1), ("_w", "W", 1.0, 1), ("_v", "V", 1.0, 1),
    ("_s", "s", 1.0, 1),
)  # fmt: skip
SHORTS = {
    "ups": "UPS", "gpu": "GPU", "gpus": "", "vram": "VRAM", "kv": "KV", "cpu": "CPU", "ram": "RAM", "os": "OS", "nvml": "NVML",
    "uuid": "UUID", "words": "in words",
}  # fmt: skip
PHASES = ("before", "after")


@dataclass(frozen=True, slots=True)
class Fact:
    """One kept value in words, in one column or in several; "not recorded" where the worker kept that it could not know."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """What was recorded of one thing; `heads` where its facts have several columns. `folded` is shown on demand."""

    title: str
    facts: tuple[Fact, ...]
    heads: tuple[str, ...] = ()
    folded: bool = False


def of_cell(cell: Cell, attempts: Sequence[Attempt]) -> list[Section]:
    """What is on record around a cell; only what is there. `attempts` ascend, the last is the one whose result stands."""
    kept = getattr(cell, "evidence", None)
    number = kept.attempt if kept else cell.attempt
    own = next((attempt for attempt in attempts if attempt.number == number), None)
    conditions = dict(own.conditions) if own else {}
    phases = {phase: _mapping(conditions.pop(phase, None)) for phase in PHASES}
    cooling, facts = _mapping(conditions.pop("cooling", None)), _mapping(conditions.pop("facts", None))
    found = (
        _beside(_("Power and room, read by the worker"), phases),
        Section(_("While it ran"), _single(conditions)),
        Section(_("Cool-down before the cell"), _single(cooling)),
        Section(_("The idle host before the first cell"), _single(_mapping(cell.grid.baseline))),
        Section(_("What later cells of the grid are compared with"), _single(facts), folded=True),
    )
    return [section for section in found if section.facts]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _beside(title: str, phases: Mapping[str, Mapping[str, object]]) -> Section:
    """One line for each name that any of the phases has."""
    read = {phase: dict(_flat(kept)) for phase, kept in phases.items() if kept}
    names = dict.fromkeys(name for found in read.values() for name in found)
    facts = tuple(Fact(name, tuple(found.get(name, _("not recorded")) for found in read.values())) for name in names)
    return Section(title, facts, heads=tuple(_(phase).capitalize() for phase in read))


def _single(kept: Mapping[str, object]) -> tuple[Fact, ...]:
    return tuple(Fact(name, (value,)) for name, value in _flat(kept))


def _flat(kept: Mapping[str, object], under: str = "") -> Iterator[tuple[str, str]]:
    """(name, value) in words, what is nested under the names that lead to it."""
    for key, value in kept.items():
        name = f"{under} {key}".strip()
        if isinstance(value, Mapping):
            yield from _flat(value, name)
        elif isinstance(value, list | tuple) and value and all(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value, start=1):
                yield from _flat(item, f"{name} {number}")
        else:
            label, unit, scale, digits = _named(name)
            yield label, _words(value, unit, scale, digits)


def _named(name: str) -> tuple[str, str, float, int]:
    """(label, unit, scale, digits); a name without a unit has a digit where its number needs one."""
    end, unit, scale, digits = next((row for row in UNITS if name.endswith(row[0])), ("", "", 1.0, -1))
    words = name.removesuffix(end).replace("_", " ").replace(".", " ").split()
    label = " ".join(filter(None, (SHORTS.get(word, word) for word in words)))
    return label[:1].upper() + label[1:], unit, scale, digits


def _words(value: object, unit: str, scale: float, digits: int) -> str:
    if value is None or value == "":
        return _("not recorded")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, int | float):
        if not isfinite(value):
            return _("not recorded")
        number = f"{value * scale:,.{digits}f}" if digits >= 0 else f"{value:,g}"
        return f"{number} {unit}".strip()
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value) or _("none")
    return _moment(str(value))


def _moment(text: str) -> str:
    """A time as pages write it; any other text as it is."""
    try:
        found = parse_datetime(text)
    except ValueError:
        return text
    return when(found) if found is not None else text
