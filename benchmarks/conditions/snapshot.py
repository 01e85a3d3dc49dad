"""Power and room at one moment, as this host can tell them, in one value that is kept with each attempt."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks.conditions import nut, sensors
from benchmarks.conditions.nut import NutError, Ups
from benchmarks.conditions.sensors import Sensor, Supply


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`power_source` is `grid`, `ups` or `battery`, as people choose it too; None where nothing here can tell. Values
    that were not to be had stand in `not_reported` with the reason."""

    at: str
    power_source: str | None
    on_battery: bool | None
    room_c: float | None
    room_sensor: str = ""
    supplies: tuple[Ups, ...] = ()
    kernel_supplies: tuple[Supply, ...] = ()
    board: tuple[Sensor, ...] = ()
    not_reported: dict[str, str] = {}


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """Where the power comes from now, and who says so."""

    source: str | None
    on_battery: bool | None
    supplies: tuple[Ups, ...]
    kernel_supplies: tuple[Supply, ...]
    not_reported: str = ""


def take(*, at: str, address: str, asked_for: bool, sys: Path = sensors.SYS) -> Snapshot:
    """Reads it. `address` is where a UPS daemon may listen; `asked_for` makes its silence worth a word."""
    now = power(address=address, asked_for=asked_for, sys=sys)
    found = sensors.temperatures(sys)
    room = next((sensor for sensor in found if sensor.where == "room"), None)
    missing = (
        {"power_source": now.not_reported or "neither a UPS daemon nor the kernel tells"} if now.source is None else {}
    )
    if now.source is not None and now.not_reported:
        missing["ups"] = now.not_reported
    if room is None:
        missing["room_c"] = "no sensor of the air at the inlet"
    return Snapshot(
        at=at, power_source=now.source, on_battery=now.on_battery, room_c=room.celsius if room else None,
        room_sensor=room.name if room else "", supplies=now.supplies, kernel_supplies=now.kernel_supplies,
        board=tuple(sensor for sensor in found if sensor.where == "board"), not_reported=missing,
    )  # fmt: skip


def power(*, address: str, asked_for: bool, sys: Path = sensors.SYS) -> Power:
    """One supply on battery is enough to be on battery: nobody here knows which of them feeds this host."""
    kernel, (supplies, trouble) = sensors.supplies(sys), _ups(address, asked_for=asked_for)
    told, by_kernel = _by_ups(supplies), _by_kernel(kernel)
    source, on_battery = told if told[1] or by_kernel[0] is None else by_kernel
    return Power(
        source=source, on_battery=on_battery, supplies=supplies, kernel_supplies=kernel, not_reported=trouble
    )  # fmt: skip


def _by_ups(found: tuple[Ups, ...]) -> tuple[str | None, bool | None]:
    said = [supply.on_battery for supply in found]
    if True in said:
        return "ups", True
    return ("grid", False) if False in said else (None, None)


def _by_kernel(found: tuple[Supply, ...]) -> tuple[str | None, bool | None]:
    mains = [supply.online for supply in found if supply.kind in ("mains", "usb", "ups")]
    if True in mains:
        return "grid", False
    # Batteries that drain say so; a full one beside absent mains says nothing.
    draining = [supply.discharging for supply in found if supply.kind == "battery"]
    return ("battery", True) if True in draining else (None, None)


def _ups(address: str, *, asked_for: bool) -> tuple[tuple[Ups, ...], str]:
    try:
        return nut.read(*nut.address_of(address)), ""
    except ConnectionRefusedError:
        return (), f"no UPS daemon listens at {address}" if asked_for else ""
    except (NutError, ValueError) as error:
        return (), f"the UPS daemon: {error}"


def words(now: Power | Snapshot) -> str:
    """What a person reads about the power."""
    named = {None: "not reported", "grid": "mains", "ups": "UPS on battery", "battery": "battery"}
    source = now.source if isinstance(now, Power) else now.power_source
    draining = [ups.name for ups in now.supplies if ups.on_battery]
    return f"{named[source]} ({', '.join(draining)})" if draining else named[source]
