"""What the kernel tells of power and temperature, from a tree like its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.conditions import sensors
from benchmarks.conditions.sensors import Sensor, Supply


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "class" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_a_host_without_any_of_it_tells_nothing(tmp_path):
    assert (sensors.supplies(tmp_path), sensors.temperatures(tmp_path)) == ((), ())


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"type": "Mains", "online": "1"}, (Supply(name="x", kind="mains", online=True),)),
        ({"type": "Mains", "online": "0"}, (Supply(name="x", kind="mains", online=False),)),
        ({"type": "Mains"}, (Supply(name="x", kind="mains"),)),
        ({"type": "UPS", "online": "1"}, (Supply(name="x", kind="ups", online=True),)),
        (
            {"type": "Battery", "status": "Discharging", "capacity": "41"},
            (Supply(name="x", kind="battery", discharging=True, charge_share=0.41),),
        ),
        ({"type": "Battery", "status": "Full"}, (Supply(name="x", kind="battery", discharging=False),)),
        ({"type": "Battery", "status": "Unknown", "capacity": "101"}, (Supply(name="x", kind="battery"),)),
        ({"type": "Battery", "scope": "Device", "status": "Discharging"}, ()),
        ({"type": "Wireless"}, ()),
        ({"online": "1"}, ()),
    ],
)
def test_supplies_are_those_of_the_host_and_unknown_is_no_value(tmp_path, files, found):
    tree(tmp_path, {f"power_supply/x/{name}": text for name, text in files.items()})
    assert sensors.supplies(tmp_path) == found


def test_a_sensor_of_the_inlet_is_the_rooms_and_every_other_one_is_the_boards(tmp_path):
    tree(tmp_path, {
        "thermal/thermal_zone0/type": "x86_pkg_temp", "thermal/thermal_zone0/temp": "51000",
        "thermal/thermal_zone1/type": "acpitz", "thermal/thermal_zone1/temp": "27800",
        "thermal/cooling_device0/type": "Fan",
        "hwmon/hwmon0/name": "bmc", "hwmon/hwmon0/temp1_input": "21500", "hwmon/hwmon0/temp1_label": "Inlet Temp",
        "hwmon/hwmon0/temp2_input": "48000", "hwmon/hwmon0/fan1_input": "1200",
    })  # fmt: skip
    assert sensors.temperatures(tmp_path) == (
        Sensor(name="bmc Inlet Temp", where="room", celsius=21.5),
        Sensor(name="acpitz", where="board", celsius=27.8),
        Sensor(name="bmc temp2", where="board", celsius=48.0),
        Sensor(name="x86_pkg_temp", where="board", celsius=51.0),
    )


@pytest.mark.parametrize(
    ("text", "read"), [("-40000", 1), ("-40001", 0), ("150000", 1), ("150001", 0), ("", 0), ("N/A", 0), ("nan", 0)]
)
def test_a_reading_that_no_thermometer_gives_is_left_out(tmp_path, text, read):
    tree(tmp_path, {"thermal/thermal_zone0/type": "room", "thermal/thermal_zone0/temp": text})
    assert len(sensors.temperatures(tmp_path)) == read
