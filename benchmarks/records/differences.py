"""Where a stored summary and the one recomputed from its evidence differ, and whether by more than a newer schema."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeGuard

import msgspec

# Sums over many values may end in other last bits where another version of numpy adds them in another order.
SAME_TO = 1e-9
ABSENT = "absent"


class Kind(StrEnum):
    """`grown`: a field that the stored schema did not have. Everything else is a difference."""

    GROWN = "grown"
    CHANGED = "changed"
    GONE = "gone"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """`field` is the path, as in `classes.short.e2e_s.p95.value`; values are as JSON has them."""

    field: str
    kind: Kind
    stored: object
    recomputed: object

    def __str__(self) -> str:
        return f"{self.field}: stored {_short(self.stored)}, recomputed {_short(self.recomputed)}"


def differences(stored: Mapping[str, object], recomputed: Mapping[str, object]) -> tuple[Difference, ...]:
    """Of two summaries as plain JSON values; a field that only the recomputed one has is grown where its schema is
    newer."""
    newer = _schema(stored) < _schema(recomputed)
    found = list(_between("", stored, recomputed))
    if not newer:
        return tuple(found)
    return tuple(_as_growth(one) for one in found)


def _schema(summary: Mapping[str, object]) -> int:
    value = summary.get("schema")
    return value if isinstance(value, int) else 0


def _as_growth(one: Difference) -> Difference:
    grown = one.stored is ABSENT or one.field == "schema"
    return msgspec.structs.replace(one, kind=Kind.GROWN) if grown else one


def _between(path: str, stored: object, recomputed: object) -> Iterator[Difference]:
    if isinstance(stored, Mapping) and isinstance(recomputed, Mapping):
        for name in dict.fromkeys([*stored, *recomputed]):
            inner = f"{path}.{name}" if path else str(name)
            yield from _between(inner, stored.get(name, ABSENT), recomputed.get(name, ABSENT))
    elif _is_list(stored) and _is_list(recomputed) and len(stored) == len(recomputed):
        for place, (one, other) in enumerate(zip(stored, recomputed, strict=True)):
            yield from _between(f"{path}.{_name(one, place)}", one, other)
    elif not _is_same(stored, recomputed):
        kind = Kind.GONE if recomputed is ABSENT else Kind.CHANGED
        yield Difference(field=path, kind=kind, stored=stored, recomputed=recomputed)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _name(value: object, place: int) -> object:
    """A class or gauge by its name, anything else by its place."""
    return (value.get("class_name") or value.get("name") or place) if isinstance(value, Mapping) else place


def _is_same(stored: object, recomputed: object) -> bool:
    if isinstance(stored, bool) or isinstance(recomputed, bool):
        return stored is recomputed
    if isinstance(stored, int | float) and isinstance(recomputed, int | float):
        return math.isclose(stored, recomputed, rel_tol=SAME_TO)
    return type(stored) is type(recomputed) and stored == recomputed


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
