"""Whether what surrounds a cell now is like what surrounded the first: power, room, the host's parts, the runtime's own facts.

Only what both know is compared: what one of them could not read is no difference, and is told beside it as not compared.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

AMBIENT_WITHIN_C = 5.0
BYTES_WITHIN = 0.02
"""A kernel keeps a little more or less for itself from boot to boot."""
KV_WITHIN = 0.05
"""A runtime sizes its cache by what memory it finds free when it starts."""

Value = str | int | float | bool | None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared. `host` and `runtime` are flat, by names for people; None is not known."""

    power_source: str | None = None
    room_c: float | None = None
    host: dict[str, Value] = {}
    runtime: dict[str, Value] = {}


def flat(facts: Mapping[str, object], *, without: frozenset[str] = frozenset()) -> dict[str, Value]:
    """Nested facts as one level: lists of cards by their UUID, and what is no plain value as its words."""
    found: dict[str, Value] = {}
    for name, value in facts.items():
        if name in without:
            continue
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            found[f"{name} (UUIDs)"] = ", ".join(sorted(str(item.get("uuid")) for item in value))
            for item in value:
                found |= {
                    f"{str(item.get('uuid'))[:12]} {key}": _plain(each) for key, each in item.items() if key != "uuid"
                }
        else:
            found[name] = _plain(value)
    return found


def differences(first: Facts, now: Facts) -> tuple[str, ...]:
    """Every difference beyond its limit, in words that name the field; empty where they are alike."""
    found = [_power(first, now), _room(first, now)]
    found += [_changed(name, first.host.get(name), value) for name, value in now.host.items()]
    found += [_changed(f"runtime {name}", first.runtime.get(name), value) for name, value in now.runtime.items()]
    return tuple(words for words in found if words)


def not_compared(first: Facts, now: Facts) -> tuple[str, ...]:
    """Fields of which one side alone is known."""
    names = [name for name in ("power_source", "room_c") if _half(getattr(first, name), getattr(now, name))]
    for one, other, kind in ((first.host, now.host, ""), (first.runtime, now.runtime, "runtime ")):
        names += [f"{kind}{name}" for name in sorted({*one, *other}) if _half(one.get(name), other.get(name))]
    return tuple(names)


def _half(one: Value, other: Value) -> bool:
    return _unknown(one) != _unknown(other)


def _unknown(value: Value) -> bool:
    return value is None or (isinstance(value, str) and value.startswith("not reported"))


def _power(first: Facts, now: Facts) -> str:
    return _changed("power source", first.power_source, now.power_source)


def _room(first: Facts, now: Facts) -> str:
    if first.room_c is None or now.room_c is None or abs(now.room_c - first.room_c) <= AMBIENT_WITHIN_C:
        return ""
    return f"room was {first.room_c:.1f} °C, is {now.room_c:.1f} °C"


def _changed(name: str, before: Value, after: Value) -> str:
    if _unknown(before) or _unknown(after) or before == after or _near(name, before, after):
        return ""
    return f"{name} was {before}, is {after}"


def _near(name: str, before: Value, after: Value) -> bool:
    within = BYTES_WITHIN if name.endswith("_bytes") else KV_WITHIN if "kv_capacity" in name else None
    if within is None or isinstance(before, str) or isinstance(after, str) or not before or after is None:
        return False
    return abs(after - before) <= within * abs(before)


def _plain(value: object) -> Value:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
