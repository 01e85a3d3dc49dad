"""Differences and ratios are those of the repeats, and "no clear difference" where the interval says so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stats.estimates import Interval
from benchmarks.stats.little import little
from benchmarks.stats.ratios import BY_COUNTS, NO_VALUE, clear, difference, of_bounds, paired_ratio, relative_change
from benchmarks.stats.student import t_cdf, t_quantile

RATES = st.floats(0.1, 1e3)
PAIRS = st.lists(st.tuples(RATES, RATES), min_size=2, max_size=6)


@pytest.mark.parametrize(
    ("df", "p", "printed"),
    [  # published tables of Student's t
        (1, 0.95, 6.314), (2, 0.95, 2.920), (3, 0.95, 2.353), (4, 0.95, 2.132), (9, 0.95, 1.833),
        (1, 0.975, 12.706), (2, 0.975, 4.303), (19, 0.975, 2.093), (30, 0.995, 2.750), (120, 0.99, 2.358),
    ],
)  # fmt: skip
def test_students_t_is_that_of_the_tables(df, p, printed):
    assert round(t_quantile(df, p), 3) == printed
    assert t_cdf(t_quantile(df, 1 - p), df) == pytest.approx(1 - p)


def test_students_t_ends_at_the_normal_law_and_refuses_no_freedom():
    assert t_quantile(1e7, 0.975) == pytest.approx(1.959964, abs=1e-5)
    with pytest.raises(ValueError, match="one degree of freedom"):
        t_quantile(0, 0.95)
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_quantile(3, 1.0)


def test_pairing_takes_away_what_the_whole_repeat_did_to_both():
    slow_day = paired_ratio([2.2, 1.1, 3.3], [2.0, 1.0, 3.0])
    assert slow_day.value == pytest.approx(1.1)
    assert slow_day.lower == pytest.approx(1.1)
    assert clear(slow_day, 1.0)
    assert not clear(difference([2.2, 1.1, 3.3], [2.0, 1.0, 3.0]))


def test_a_paired_ratio_by_hand():
    found = paired_ratio([1.0, 2.0], [1.0, 1.0])
    # logs 0 and ln 2: mean ln 2 / 2, s / sqrt(2) = ln 2 / 2, t(1) = 12.706
    assert found.value == pytest.approx(math.sqrt(2))
    assert found.lower == pytest.approx(math.exp(math.log(2) / 2 * (1 - 12.7062047)))
    assert (found.n, clear(found, 1.0)) == (2, False)


@given(PAIRS)
def test_turning_the_ratio_round_turns_its_interval_round(pairs):
    over, under = [a for a, _ in pairs], [b for _, b in pairs]
    one, other = paired_ratio(over, under), paired_ratio(under, over)
    assert one.value == pytest.approx(1 / other.value)
    assert one.lower == pytest.approx(1 / other.upper, rel=1e-6, abs=1e-300)
    assert one.lower <= one.value * (1 + 1e-9)


def test_one_repeat_falls_back_on_its_counts():
    found = paired_ratio([4.0], [3.8], counts=(120, 114))
    assert found.how == BY_COUNTS
    assert found.lower < 1 < found.upper
    # the law is that of the share 120 of 234: Wilson .449 to .576
    assert found.upper == pytest.approx(0.5761 / (1 - 0.5761), abs=2e-3)
    assert clear(paired_ratio([4.0], [1.0], counts=(1200, 300)), 1.0)
    longer = paired_ratio([4.0], [3.8], counts=(240, 114))
    assert longer.lower < longer.value < longer.upper


def test_one_repeat_without_counts_has_no_interval_and_is_never_clear():
    found = paired_ratio([4.0], [1.0])
    assert (found.value, found.lower, found.upper, clear(found, 1.0)) == (4.0, None, None, False)
    assert not clear(difference([9.0], [1.0]))


def test_nothing_good_below_leaves_the_ratio_unknown_and_nothing_good_above_makes_it_zero():
    assert (paired_ratio([1.0, 1.0], [0.0, 2.0]).value, paired_ratio([], []).how) == (None, NO_VALUE)
    none_good = paired_ratio([0.0, 0.0], [1.0, 2.0])
    assert (none_good.value, none_good.lower, none_good.upper) == (0.0, 0.0, 0.0)
    assert paired_ratio([0.0], [2.0], counts=(0, 60)).upper > 0


def test_wrong_pairs_are_refused():
    with pytest.raises(ValueError, match="as many on both sides"):
        paired_ratio([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="finite values from 0 on"):
        paired_ratio([math.inf], [1.0])


def test_a_difference_by_hand():
    found = difference([3.0, 5.0], [1.0, 1.0])
    # s / sqrt(k) = 1 on one side and 0 on the other, so one degree of freedom: 3 +- 12.706
    assert (found.value, found.lower, found.upper) == (3.0, pytest.approx(3 - 12.7062), pytest.approx(3 + 12.7062))
    assert (found.n, clear(found)) == (2, False)


def test_a_percentile_among_failures_is_infinitely_worse_and_two_are_not_comparable():
    assert difference([math.inf, 1.0], [1.0, 1.0]).value == math.inf
    assert difference([math.inf], [math.inf]).value is None
    assert relative_change([math.inf], [math.inf]).value is None


@given(st.lists(RATES, min_size=2, max_size=6), st.lists(RATES, min_size=2, max_size=6), st.floats(0.01, 100))
def test_a_relative_change_does_not_depend_on_the_unit(new, old, unit):
    one = relative_change(new, old)
    other = relative_change([v * unit for v in new], [v * unit for v in old])
    assert other.value == pytest.approx(one.value, rel=1e-6, abs=1e-9)
    assert -1 <= one.lower <= one.value <= one.upper


def test_a_relative_change_from_nothing_is_unknown_and_to_nothing_is_all_of_it():
    assert relative_change([1.0, 1.0], [0.0, 0.0]).value is None
    gone = relative_change([0.0, 0.0], [2.0, 4.0])
    assert (gone.value, gone.lower) == (-1.0, -1.0)
    assert relative_change([], []).value is None


def test_bounds_of_single_repeats_combine_by_their_distances():
    new = Interval(value=5.0, lower=2.0, upper=6.0, n=60)
    old = Interval(value=1.0, lower=0.5, upper=5.0, n=80)
    found = of_bounds(new, old)
    assert (found.value, found.lower, found.upper) == (4.0, 4 - 5.0, 4 + math.hypot(1, 0.5))
    assert of_bounds(new, Interval(value=1.0, n=5)).lower is None
    assert of_bounds(Interval(value=math.inf), old).value is None


def test_intervals_of_ratios_and_differences_cover_what_they_say():
    """Lognormal rates with a common factor of the repeat: nominal 95 %, 3 repeats, 4,000 times."""
    dice = np.random.default_rng(5)
    day, noise = dice.normal(0, 0.3, (4000, 3)), dice.normal(0, 0.05, (4000, 3, 2))
    over, under = 1.2 * np.exp(day + noise[..., 0]), np.exp(day + noise[..., 1])
    found = [paired_ratio(a, b) for a, b in zip(over, under, strict=True)]
    assert 0.94 <= np.mean([f.lower <= 1.2 <= f.upper for f in found]) <= 0.96
    apart = [difference(a, b) for a, b in zip(dice.normal(5, 1, (4000, 3)), dice.normal(3, 2, (4000, 3)), strict=True)]
    assert 0.94 <= np.mean([f.lower <= 2 <= f.upper for f in apart]) <= 0.985


@pytest.mark.parametrize(("seen", "agrees"), [(8.0, True), (8.7, True), (9.0, False), (7.1, False)])
def test_littles_law_holds_within_a_tenth(seen, agrees):
    found = little(seen, 4.0, 2.0)
    assert (found.expected, found.agrees) == (8.0, agrees)


@pytest.mark.parametrize("known", [(None, 1.0, 1.0), (1.0, None, 1.0), (1.0, 1.0, None), (1.0, 0.0, 1.0)])
def test_littles_law_says_nothing_of_what_is_not_known(known):
    assert little(*known).agrees is None
