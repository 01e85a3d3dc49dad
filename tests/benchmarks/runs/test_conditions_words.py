"""Conditions are words about a room and its power, and never a number of users."""

from __future__ import annotations

import pytest

from benchmarks.run_forms import ConditionsForm

RIGHT = {
    "at": "2026-11-14T10:00", "room": "Room 1, two people present", "ambient_source": "unknown", "power_source": "grid",
    "other_loads": "one file server", "notes": "Door open. The sensor is read by users of the room.",
}  # fmt: skip


def test_people_and_users_may_be_named() -> None:
    assert ConditionsForm(RIGHT).errors == {}


@pytest.mark.parametrize("field", ["room", "other_loads", "notes"])
def test_no_field_takes_a_number_of_users(field: str) -> None:
    errors = ConditionsForm(RIGHT | {field: "Serves 200 users"}).errors
    assert list(errors) == [field]
    assert "not a number of users" in errors[field][0]
