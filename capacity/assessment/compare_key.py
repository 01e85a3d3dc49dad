"""What two grids were measured on, field by field: what of it differs, what neither has, and every field in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from benchmarks.conditions.alike import AMBIENT_WITHIN_C
from benchmarks.engine.summary_types import CellSummary

Value = str | float | int | None
NOT_KNOWN = "not recorded"
DIGEST_SHOWN = 12
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What two grids must have in common to be like for like. None is not recorded. `terms` are those of the mode."""

    model: Value = None
    model_digest: Value = None
    runtime: Value = None
    runtime_version: Value = None
    flags: Value = None
    cpu: Value = None
    gpus: Value = None
    driver: Value = None
    power_cap_w: Value = None
    vbios: Value = None
    workload_digest: Value = None
    method_version: Value = None
    summary_schema: Value = None
    power_source: Value = None
    ambient_c: float | None = None
    objective_digest: Value = None
    mode: Value = None
    terms: Value = None


NAMES = {
    "model": "Model", "model_digest": "Model digest", "runtime": "Runtime", "runtime_version": "Runtime version",
    "flags": "Flags", "cpu": "CPU", "gpus": "GPUs", "driver": "GPU driver", "power_cap_w": "Power cap in W",
    "vbios": "VBIOS", "workload_digest": "Workload digest", "method_version": "Method version",
    "summary_schema": "Summary schema", "power_source": "Power source", "ambient_c": "Room temperature in °C",
    "objective_digest": "Objective digest", "mode": "Way of loading", "terms": "Terms of loading",
}  # fmt: skip


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the key that differs, with both values in words."""

    name: str
    left: str
    right: str


def key_of(
    *,
    declared: Mapping[str, object],
    read: Mapping[str, object],
    summaries: Sequence[CellSummary] = (),
    **told: Value,
) -> Key:
    """The key of a grid from what is `declared` of its host, what its worker `read` there (parts win over words), its
    summaries and what is `told` by name. "not reported" is not known; an empty text neither."""
    gpus = read.get("gpus")
    cards = [card for card in gpus if isinstance(card, Mapping)] if isinstance(gpus, list) else []
    schemas = sorted({summary.schema for summary in summaries})
    return msgspec.convert(
        {
            "cpu": _known(read.get("cpu")) or _known(declared.get("cpu")),
            "gpus": _each(cards, "name") or _declared_gpus(declared, read),
            "driver": _each(cards, "driver", once=True),
            "power_cap_w": _each(cards, "power_limit_w") or _known(declared.get("power_cap_w")),
            "vbios": _each(cards, "vbios"),
            "summary_schema": ", ".join(map(str, schemas)) or None,
        }
        | {name: _known(value) for name, value in told.items()},
        Key,
    )


def _known(value: object) -> Value:
    if (
        not isinstance(value, str | int | float)
        or value == ""
        or (isinstance(value, str) and value.startswith("not reported"))
    ):
        return None
    return value


def _each(cards: Sequence[Mapping[str, object]], name: str, *, once: bool = False) -> str | None:
    """The cards' values in words, sorted; None where one of them does not say."""
    values = [_known(card.get(name)) for card in cards]
    if not values or None in values:
        return None
    words = sorted(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    return ", ".join(dict.fromkeys(words) if once else words)


def _declared_gpus(declared: Mapping[str, object], read: Mapping[str, object]) -> str | None:
    """What people say of them where the worker could not read any; "none" where it looked and there is none declared."""
    name, count = _known(declared.get("gpu")), declared.get("gpu_count")
    if name:
        return f"{count} × {name}" if isinstance(count, int) and count > 1 else str(name)
    return "none" if "gpus" in read else None


def differing(left: Key, right: Key) -> tuple[Field, ...]:
    """The fields that differ. What is recorded for one grid alone differs, for nobody can say that it is alike; room
    temperatures are alike within 5 °C."""
    found = []
    for name, title in NAMES.items():
        one, other = getattr(left, name), getattr(right, name)
        if one == other or (name == "ambient_c" and _near(one, other)):
            continue
        found.append(Field(name=title, left=_words(one), right=_words(other)))
    return tuple(found)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the key that at least one grid has, in words on both sides."""

    name: str
    left: str
    right: str
    differs: bool


def lines(left: Key, right: Key) -> tuple[Line, ...]:
    """Every field that is known, those that differ first."""
    apart = {field.name for field in differing(left, right)}
    found = [
        Line(name=title, left=_words(getattr(left, name)), right=_words(getattr(right, name)), differs=title in apart)
        for name, title in NAMES.items()
        if getattr(left, name) is not None or getattr(right, name) is not None
    ]
    return tuple(sorted(found, key=lambda line: not line.differs))


def unknown(left: Key, right: Key) -> tuple[str, ...]:
    """Fields that neither grid has, so that nobody compared them."""
    return tuple(title for name, title in NAMES.items() if getattr(left, name) is None and getattr(right, name) is None)


def _near(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) <= AMBIENT_WITHIN_C


def _words(value: Value) -> str:
    if value is None:
        return NOT_KNOWN
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return value[:DIGEST_SHOWN]
    return f"{value:g}" if isinstance(value, float) else str(value)
