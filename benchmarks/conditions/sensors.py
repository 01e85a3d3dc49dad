"""What the kernel tells of power and temperature, from its own files under /sys. Where it tells nothing, so is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

SYS = Path("/sys")
_ROOM = ("ambient", "inlet", "intake", "room")
"""Names of sensors that read the air which a host takes in; every other one reads the host itself."""
_COLDEST_C, _HOTTEST_C = -40.0, 150.0
MOST_SENSORS = 32


class Supply(msgspec.Struct, frozen=True, kw_only=True):
    """One of the kernel's power supplies. `online` of mains, `discharging` and `charge_share` of a battery."""

    name: str
    kind: str
    online: bool | None = None
    discharging: bool | None = None
    charge_share: float | None = None


class Sensor(msgspec.Struct, frozen=True, kw_only=True):
    """A temperature; `where` is `room` or `board`. The room's is of the air at the host's inlet."""

    name: str
    where: str
    celsius: float


def supplies(sys: Path = SYS) -> tuple[Supply, ...]:
    """Mains and batteries of this host; batteries of a mouse or a headset are not its."""
    return tuple(_supplies(sys / "class" / "power_supply"))


def temperatures(sys: Path = SYS) -> tuple[Sensor, ...]:
    """Thermal zones and hardware monitors, those of the room first; at most MOST_SENSORS."""
    found = [*_zones(sys / "class" / "thermal"), *_monitors(sys / "class" / "hwmon")]
    return tuple(sorted(found, key=lambda sensor: (sensor.where != "room", sensor.name))[:MOST_SENSORS])


def _supplies(where: Path) -> Iterator[Supply]:
    for folder in _folders(where, "*"):
        kind = _text(folder / "type")
        if not kind or _text(folder / "scope") == "Device":
            continue
        if kind == "Battery":
            charge, state = _number(folder / "capacity"), _text(folder / "status")
            yield Supply(
                name=folder.name, kind="battery", discharging=state == "Discharging" if state not in ("", "Unknown") else None,
                charge_share=charge / 100 if charge is not None and 0 <= charge <= 100 else None,
            )  # fmt: skip
        elif kind in ("Mains", "USB", "UPS"):
            online = _number(folder / "online")
            yield Supply(name=folder.name, kind=kind.lower(), online=None if online is None else online > 0)


def _zones(where: Path) -> Iterator[Sensor]:
    for folder in _folders(where, "thermal_zone*"):
        yield from _sensor(_text(folder / "type") or folder.name, folder / "temp")


def _monitors(where: Path) -> Iterator[Sensor]:
    for folder in _folders(where, "hwmon*"):
        chip = _text(folder / "name") or folder.name
        for path in sorted(folder.glob("temp*_input")):
            label = _text(folder / path.name.replace("_input", "_label")) or path.name.removesuffix("_input")
            yield from _sensor(f"{chip} {label}", path)


def _sensor(name: str, path: Path) -> Iterator[Sensor]:
    value = _number(path)
    if value is not None and _COLDEST_C <= value / 1000 <= _HOTTEST_C:
        where = "room" if any(word in name.lower() for word in _ROOM) else "board"
        yield Sensor(name=name, where=where, celsius=value / 1000)


def _folders(where: Path, pattern: str) -> list[Path]:
    try:
        return sorted(where.glob(pattern))
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # absent, or a sensor that does not answer now
        return ""


def _number(path: Path) -> float | None:
    try:
        return float(_text(path))
    except ValueError:
        return None
