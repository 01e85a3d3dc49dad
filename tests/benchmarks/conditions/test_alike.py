"""What makes two cells comparable, on both sides of each limit."""

from __future__ import annotations

import pytest

from benchmarks.conditions import alike
from benchmarks.conditions.alike import Facts

CARD = {"uuid": "GPU-1234567890ab", "driver": "550.54", "power_limit_w": 300.0, "mig": "off"}


def host(**changes: object) -> dict[str, object]:
    return alike.flat(
        {"host": "a", "cpu": "x", "ram_bytes": 100_000, "gpus": [CARD | changes]}, without=frozenset({"host"})
    )


def test_facts_are_flattened_by_the_cards_uuid_and_what_is_left_out_is_not_there():
    assert host() == {
        "cpu": "x", "ram_bytes": 100_000, "gpus (UUIDs)": "GPU-1234567890ab", "GPU-12345678 driver": "550.54",
        "GPU-12345678 power_limit_w": 300.0, "GPU-12345678 mig": "off",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("first", "now", "words"),
    [
        (Facts(host=host()), Facts(host=host()), ()),
        (Facts(host=host()), Facts(host=host(driver="560.1")), ("GPU-12345678 driver was 550.54, is 560.1",)),
        (
            Facts(host=host()),
            Facts(host=host(power_limit_w=250.0)),
            ("GPU-12345678 power_limit_w was 300.0, is 250.0",),
        ),
        (Facts(host=host()), Facts(host=host(power_limit_w="not reported: lost")), ()),
        (Facts(host=host()), Facts(host=host(uuid="GPU-ffff")), ("gpus (UUIDs) was GPU-1234567890ab, is GPU-ffff",)),
        (Facts(host={"ram_bytes": 100_000}), Facts(host={"ram_bytes": 102_000}), ()),
        (Facts(host={"ram_bytes": 100_000}), Facts(host={"ram_bytes": 102_001}), ("ram_bytes was 100000, is 102001",)),
        (Facts(host={"gpus": "no NVIDIA GPU"}), Facts(host={"gpus": "no NVIDIA GPU"}), ()),
        (Facts(room_c=20.0), Facts(room_c=25.0), ()),
        (Facts(room_c=20.0), Facts(room_c=25.1), ("room was 20.0 °C, is 25.1 °C",)),
        (Facts(room_c=25.1), Facts(room_c=20.0), ("room was 25.1 °C, is 20.0 °C",)),
        (Facts(room_c=20.0), Facts(room_c=None), ()),
        (Facts(power_source="grid"), Facts(power_source="ups"), ("power source was grid, is ups",)),
        (Facts(power_source=None), Facts(power_source="ups"), ()),
        (Facts(runtime={"version": "1"}), Facts(runtime={"version": "2"}), ("runtime version was 1, is 2",)),
        (Facts(runtime={"version": "1"}), Facts(), ()),
        (Facts(runtime={"kv_capacity_tokens": 1000}), Facts(runtime={"kv_capacity_tokens": 1050}), ()),
        (
            Facts(runtime={"kv_capacity_tokens": 1000}),
            Facts(runtime={"kv_capacity_tokens": 1051}),
            ("runtime kv_capacity_tokens was 1000, is 1051",),
        ),
    ],
)
def test_a_difference_beyond_its_limit_is_named_and_no_other(first, now, words):
    assert alike.differences(first, now) == words


@pytest.mark.parametrize(
    ("first", "now", "names"),
    [
        (Facts(), Facts(), ()),
        (Facts(room_c=20.0), Facts(), ("room_c",)),
        (Facts(), Facts(power_source="grid"), ("power_source",)),
        (Facts(host=host()), Facts(host=host(driver="not reported: lost")), ("GPU-12345678 driver",)),
        (Facts(runtime={"version": "1"}), Facts(), ("runtime version",)),
    ],
)
def test_what_only_one_of_them_knows_is_told_as_not_compared(first, now, names):
    assert alike.not_compared(first, now) == names
