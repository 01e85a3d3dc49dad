"""One moment's power and room: who is believed when several can tell, and what is said when none can."""

from __future__ import annotations

import socket

import pytest

from benchmarks.conditions import snapshot
from tests.benchmarks.conditions import upsd
from tests.benchmarks.conditions.test_sensors import tree

MAINS = {"power_supply/AC/type": "Mains", "power_supply/AC/online": "1"}
CUT = {"power_supply/AC/type": "Mains", "power_supply/AC/online": "0"}
DRAINING = {"power_supply/BAT0/type": "Battery", "power_supply/BAT0/status": "Discharging"}


@pytest.mark.parametrize(
    ("kernel", "ups", "source", "on_battery"),
    [
        ({}, {}, None, None),
        ({}, {"a": "OL"}, "grid", False),
        ({}, {"a": "OB"}, "ups", True),
        ({}, {"a": "OL", "b": "OB DISCHRG"}, "ups", True),
        ({}, {"a": "WAIT"}, None, None),
        (MAINS, {}, "grid", False),
        (MAINS, {"a": "OB"}, "ups", True),
        (MAINS | DRAINING, {}, "grid", False),
        (CUT, {}, None, None),
        (CUT | DRAINING, {}, "battery", True),
        (CUT | DRAINING, {"a": "OL"}, "battery", True),
        (CUT, {"a": "OL"}, "grid", False),
    ],
)
def test_whoever_says_battery_is_believed_and_silence_is_no_answer(tmp_path, kernel, ups, source, on_battery):
    with upsd.serving(**{name: {"ups.status": status} for name, status in ups.items()}) as daemon:
        found = snapshot.power(address=daemon.address, asked_for=True, sys=tree(tmp_path, kernel))
    assert (found.source, found.on_battery) == (source, on_battery)


@pytest.mark.parametrize("asked_for", [True, False])
def test_the_silence_of_a_daemon_is_told_where_somebody_named_it(tmp_path, asked_for):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    found = snapshot.take(at="now", address=address, asked_for=asked_for, sys=tmp_path)
    told = f"no UPS daemon listens at {address}" if asked_for else "neither a UPS daemon nor the kernel tells"
    assert found.not_reported == {"power_source": told, "room_c": "no sensor of the air at the inlet"}
    assert (found.power_source, found.on_battery, found.room_c) == (None, None, None)


def test_a_daemon_that_talks_nonsense_is_told_beside_what_the_kernel_says(tmp_path):
    with upsd.serving() as daemon:
        daemon.answers = {"LIST UPS": "hello\n"}
        found = snapshot.take(at="now", address=daemon.address, asked_for=False, sys=tree(tmp_path, MAINS))
    assert found.power_source == "grid"
    assert found.not_reported["ups"] == "the UPS daemon: LIST UPS was answered with 'hello'"


def test_the_room_is_that_of_the_inlet_sensor_and_the_board_stands_apart(tmp_path):
    files = {"hwmon/hwmon0/name": "bmc", "hwmon/hwmon0/temp1_input": "22000", "hwmon/hwmon0/temp1_label": "inlet"}
    board = {"thermal/thermal_zone0/type": "cpu", "thermal/thermal_zone0/temp": "50000"}
    found = snapshot.take(at="now", address="127.0.0.1:1", asked_for=False, sys=tree(tmp_path, files | board | MAINS))
    assert (found.room_c, found.room_sensor, [sensor.name for sensor in found.board]) == (22.0, "bmc inlet", ["cpu"])
    assert found.not_reported == {}


@pytest.mark.parametrize(("status", "words"), [("OL", "mains"), ("OB", "UPS on battery (one)"), ("", "not reported")])
def test_the_words_name_the_supply_that_drains(tmp_path, status, words):
    with upsd.serving(one={"ups.status": status}) as daemon:
        assert snapshot.words(snapshot.power(address=daemon.address, asked_for=True, sys=tmp_path)) == words
