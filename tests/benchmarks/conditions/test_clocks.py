"""A wall clock that was set is told apart from one that is only being disciplined."""

from __future__ import annotations

import pytest

from benchmarks.conditions import clocks
from benchmarks.conditions.clocks import ClockPair

S = 1_000_000_000


def pair(wall_s: float, monotonic_s: float) -> ClockPair:
    return ClockPair(wall_ns=round(wall_s * S), monotonic_ns=round(monotonic_s * S))


@pytest.mark.parametrize(
    ("wall_s", "monotonic_s", "step_s"),
    [
        (0, 0, None), (100, 100, None), (101.0, 100, None), (101.101, 100, 1.101), (98.8, 100, -1.2), (98.9, 100, None),
        (3700, 100, 3600.0), (-3500, 100, -3600.0), (10_010.9, 10_000, None), (10_011.1, 10_000, 11.1),
    ],
)  # fmt: skip
def test_a_step_is_what_no_discipline_of_a_clock_explains(wall_s, monotonic_s, step_s):
    found = clocks.step_s(pair(1000, 5), pair(1000 + wall_s, 5 + monotonic_s))
    assert found == (None if step_s is None else pytest.approx(step_s))


def test_the_clocks_of_this_host_keep_their_course_while_nobody_sets_them():
    before = clocks.now()
    assert clocks.step_s(before, clocks.now()) is None


@pytest.mark.parametrize(("step_s", "way"), [(2.0, "forward by 2.0 s"), (-2.0, "back by 2.0 s")])
def test_the_words_tell_the_way(step_s, way):
    assert way in clocks.words(step_s)
