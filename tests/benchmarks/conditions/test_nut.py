"""A UPS is asked over the real protocol, and nothing that is not exactly an answer is taken for one."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from benchmarks.conditions import nut
from benchmarks.conditions.nut import NutError, Ups
from tests.benchmarks.conditions import upsd


def read(daemon, **more):
    return nut.read(*nut.address_of(daemon.address), **more)


def test_every_supply_is_read_with_its_status_charge_and_load_and_only_questions_are_sent():
    office = {"ups.status": "OL CHRG", "battery.charge": "87", "ups.load": "23.5"}
    with upsd.serving(office=office, rack={"ups.status": "OB DISCHRG LB"}) as daemon:
        found = read(daemon)
    assert found == (
        Ups(name="office", status=("OL", "CHRG"), charge_share=0.87, load_share=0.235),
        Ups(name="rack", status=("OB", "DISCHRG", "LB")),
    )
    assert [supply.on_battery for supply in found] == [False, True]
    assert {command.split(" ")[0] for command in daemon.asked} <= {"LIST", "GET", "LOGOUT"}


@pytest.mark.parametrize(
    ("status", "on_battery"),
    [
        ("OL", False), ("OB", True), ("OL OB", True), ("ALARM OL", False), ("FSD OB LB", True), ("OFF", None), ("", None),
        ("BOLD", None), ("WAIT", None),
    ],
)  # fmt: skip
def test_only_the_two_words_of_the_protocol_say_where_the_power_comes_from(status, on_battery):
    with upsd.serving(one={"ups.status": status}) as daemon:
        assert [supply.on_battery for supply in read(daemon)] == [on_battery]


@pytest.mark.parametrize("error", ["VAR-NOT-SUPPORTED", "DATA-STALE", "DRIVER-NOT-CONNECTED"])
def test_a_value_that_is_not_to_be_had_is_not_reported_and_no_zero(error):
    with upsd.serving(one={}) as daemon:
        daemon.answers = {
            f"GET VAR one {name}": f"ERR {error}\n" for name in ("ups.status", "battery.charge", "ups.load")
        }
        assert read(daemon) == (Ups(name="one", status=()),)


@pytest.mark.parametrize("charge", ["", "nan", "full", "-1", "inf", "1e9"])
def test_a_charge_that_is_no_percentage_is_not_reported(charge):
    with upsd.serving(one={"ups.status": "OL", "battery.charge": charge}) as daemon:
        assert read(daemon) == (Ups(name="one", status=("OL",)),)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("LIST UPS", "ERR ACCESS-DENIED\n"),
        ("LIST UPS", "BEGIN LIST UPS\nUPS\nEND LIST UPS\n"),
        ("LIST UPS", 'BEGIN LIST UPS\nUPS ../../etc "x"\nEND LIST UPS\n'),
        ("LIST UPS", "BEGIN LIST UPS\n" + 'UPS u "x"\n' * 17 + "END LIST UPS\n"),
        ("LIST UPS", "BEGIN LIST UPS" + "x" * 100_000),
        ("GET VAR one ups.status", "ERR ACCESS-DENIED\n"),
        ("GET VAR one ups.status", 'VAR other ups.status "OB"\n'),
        ("GET VAR one ups.status", 'VAR one ups.load "OB"\n'),
        ("GET VAR one ups.status", "VAR one ups.status OB\n"),
        ("GET VAR one ups.status", 'VAR one ups.status "OB" "OL"\n'),
        ("GET VAR one ups.status", "\n"),
        ("GET VAR one ups.status", "ERR\n"),
        ("GET VAR one ups.status", "ERR \n"),
    ],
)  # fmt: skip
def test_an_answer_that_the_protocol_does_not_know_is_an_error(command, answer):
    with upsd.serving(one={"ups.status": "OL"}) as daemon:
        daemon.answers = {command: answer}
        with pytest.raises(NutError):
            read(daemon, timeout_s=1.0)


def test_as_many_supplies_as_are_allowed_are_read():
    with upsd.serving(**{f"u{n}": {"ups.status": "OL"} for n in range(nut.MOST_SUPPLIES)}) as daemon:
        assert len(read(daemon)) == nut.MOST_SUPPLIES


def test_quotes_and_backslashes_are_read_as_the_protocol_writes_them():
    with upsd.serving(one={"ups.status": 'OL \\"x\\" \\\\'}) as daemon:
        assert read(daemon)[0].status == ("OL", '"x"', "\\")


@pytest.mark.parametrize("drip_s", [None, 0.05])
def test_a_daemon_that_is_silent_or_slow_costs_no_more_than_the_time_allowed(drip_s):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            link, _ = server.accept()
            with link:
                for _ in range(1000):
                    time.sleep(drip_s or 0.05)
                    try:
                        link.sendall(b"B" if drip_s else b"")
                    except OSError:
                        return

        threading.Thread(target=serve, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(NutError):
            nut.read("127.0.0.1", server.getsockname()[1], timeout_s=0.4)
        assert time.monotonic() - began < 3.0


def test_where_nothing_listens_it_is_said_so():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        nut.read("127.0.0.1", port)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", ("127.0.0.1", 3493)), ("ups.lan:99", ("ups.lan", 99)), ("[::1]:65535", ("::1", 65535)),
        (" [::1] ", ("::1", 3493)), ("", None), ("a:b", None), ("a:0", None), ("a:65536", None), ("::1", None), ("a b", None),
    ],
)  # fmt: skip
def test_an_address_is_a_host_and_perhaps_a_port(text, address):
    if address is None:
        with pytest.raises(ValueError, match="no address"):
            nut.address_of(text)
    else:
        assert nut.address_of(text) == address
