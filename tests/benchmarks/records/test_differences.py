"""What a newer schema added is told apart from a number that is another one."""

from __future__ import annotations

import pytest

from benchmarks.records.differences import ABSENT, Kind, differences


def kinds(stored, recomputed):
    return [(one.field, one.kind) for one in differences({"schema": 2} | stored, {"schema": 2} | recomputed)]


@pytest.mark.parametrize(
    "stored, recomputed, found",
    [
        ({"n": 1}, {"n": 1}, []),
        ({"n": 1}, {"n": 2}, [("n", Kind.CHANGED)]),
        ({"n": 1}, {"n": 1.0}, []),
        ({"n": 0.1}, {"n": 0.1 * (1 + 1e-12)}, []),  # the last bits of a sum
        ({"n": 0.1}, {"n": 0.1 * (1 + 1e-8)}, [("n", Kind.CHANGED)]),
        ({"n": 0}, {"n": None}, [("n", Kind.CHANGED)]),  # unknown is no zero
        ({"n": 0}, {"n": False}, [("n", Kind.CHANGED)]),
        ({"n": True}, {"n": True}, []),
        ({"n": "inf"}, {"n": "inf"}, []),
        ({"n": "inf"}, {"n": 1.0}, [("n", Kind.CHANGED)]),
        ({"n": 1}, {}, [("n", Kind.GONE)]),
        ({}, {"n": 1}, [("n", Kind.CHANGED)]),  # the same schema had no such field
        ({"n": None}, {}, [("n", Kind.GONE)]),
        ({"n": [1, 2]}, {"n": (1, 2)}, []),
        ({"n": [1, 2]}, {"n": [1, 3]}, [("n.1", Kind.CHANGED)]),
        ({"n": [1, 2]}, {"n": [1]}, [("n", Kind.CHANGED)]),
        ({"n": {"a": 1, "b": 2}}, {"n": {"b": 3, "a": 1}}, [("n.b", Kind.CHANGED)]),
        (
            {"classes": [{"class_name": "long", "p95": 1.0}]},
            {"classes": [{"class_name": "long", "p95": 2.0}]},
            [("classes.long.p95", Kind.CHANGED)],
        ),
        ({"gauges": [{"name": "w", "n": 1}]}, {"gauges": [{"name": "w", "n": 2}]}, [("gauges.w.n", Kind.CHANGED)]),
    ],
)
def test_within_one_schema_everything_else_than_the_same_is_a_difference(stored, recomputed, found):
    assert kinds(stored, recomputed) == found


def test_a_newer_schema_grows_and_a_changed_number_stays_a_change():
    stored = {"schema": 2, "n": 1, "old": 1, "inner": {"a": 1}}
    found = differences(stored, {"schema": 3, "n": 2, "fresh": 5, "inner": {"a": 1, "b": 2}})
    assert {one.field: one.kind for one in found} == {
        "schema": Kind.GROWN, "fresh": Kind.GROWN, "inner.b": Kind.GROWN, "n": Kind.CHANGED, "old": Kind.GONE,
    }  # fmt: skip


def test_an_older_program_does_not_call_what_it_does_not_know_growth():
    assert [one.kind for one in differences({"schema": 3, "n": 1}, {"schema": 2})] == [Kind.CHANGED, Kind.GONE]


def test_a_difference_says_its_field_and_both_values_in_a_line():
    (one,) = differences({"schema": 2, "a": {"b": 1.5}}, {"schema": 2, "a": {"b": None}})
    assert str(one) == "a.b: stored 1.5, recomputed None"
    (long,) = differences({"schema": 2, "a": "x" * 99}, {"schema": 2})
    assert str(long) == f"a: stored {'x' * 57}..., recomputed {ABSENT}"
