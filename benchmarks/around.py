"""What stands around a cell, as the worker recorded it: power and room, the idle host, cooling.

Each is kept as JSON in the row that it belongs to. It is shown as it is kept, by its own names: whatever a worker adds is
seen without a change here, and what is not there is not claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from django.utils.translation import gettext as _

from benchmarks.models import Attempt, Cell

UNITS = (
    ("_bytes", "GiB", 1 / 2**30, 2), ("_share", "%", 100.0, 1), ("_percent", "%", 1.0, 1), ("_tokens", "tokens", 1.0, 0),
    ("_ms", "ms", 1.0, 2), ("_c", "°C", 1.0, 1), ("_w", "W", 1.0, 1), ("_v", "V", 1.0, 1), ("_s", "s", 1.0, 1),
)  # fmt: skip
SHORTS = {
    "ups": "UPS", "gpu": "GPU", "vram": "VRAM", "kv": "KV", "cpu": "CPU", "url": "URL", "pid": "PID", "id": "id",
    "nvml": "NVML", "uuid": "UUID",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fact:
    """One kept value in words; `value` reads "not recorded" where the worker kept that it could not know."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Section:
    """What was recorded of one thing. `key` names it in the page's address."""

    key: str
    title: str
    facts: tuple[Fact, ...]


def of_cell(cell: Cell, attempts: Sequence[Attempt]) -> list[Section]:
    """What is on record around a cell; only what is there. `attempts` ascend, the last is the one whose result stands."""
    kept = getattr(cell, "evidence", None)
    number = kept.attempt if kept else cell.attempt
    own = next((attempt for attempt in attempts if attempt.number == number), None)
    conditions = dict(own.conditions) if own else {}
    cooling = conditions.pop("cooling", None)
    found = (
        ("conditions", _("Power and room, read by the worker"), conditions),
        ("cooling", _("Cool-down before the cell"), cooling),
        ("baseline", _("The idle host before the first cell"), cell.grid.baseline),
    )
    return [
        Section(key, title, tuple(_facts(kept))) for key, title, kept in found if kept and isinstance(kept, Mapping)
    ]


def _facts(kept: Mapping[str, object], under: str = "") -> Iterator[Fact]:
    for key, value in kept.items():
        name = f"{under} {key}".strip()
        if isinstance(value, Mapping):
            yield from _facts(value, name)
        elif isinstance(value, list | tuple) and value and all(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value, start=1):
                yield from _facts(item, f"{name} {number}")
        else:
            label, unit, scale, digits = _named(name)
            yield Fact(label, _words(value, unit, scale, digits))


def _named(name: str) -> tuple[str, str, float, int]:
    """(label, unit, scale, digits); a name without a unit has a digit where its number needs one."""
    end, unit, scale, digits = next((row for row in UNITS if name.endswith(row[0])), ("", "", 1.0, -1))
    words = name.removesuffix(end).replace("_", " ").replace(".", " ").split()
    label = " ".join(SHORTS.get(word, word) for word in words)
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
    return str(value)
