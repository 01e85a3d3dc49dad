"""The knee by the paired ratio of the repeats, and what may be stated of it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.stats.ratios import paired_ratio
from capacity.assessment import headroom, knee
from capacity.assessment.choose import judge, row_of
from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Knee
from tests.capacity import synthetic as made

# A busy machine draws slowly; that is not a fault of the claim.
QUIET = settings(derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def repeated(rows: dict[int, tuple[int, ...]], **more: object) -> GridFacts:
    """setting -> good requests in 30 s of each repeat, of one class far inside its limit."""
    cells = [
        replace(made.simple_cell(100 * setting + repeat, setting, p95_s=0.3, n=n), repeat=repeat)
        for setting, counts in rows.items()
        for repeat, n in enumerate(counts, start=1)
    ]
    return made.facts(cells, **more)


def found(rows: dict[int, tuple[int, ...]]) -> Knee:
    knee_found = judge(repeated(rows)).knee
    assert knee_found is not None
    return knee_found


def test_repeats_that_agree_prove_the_knee_below_the_best() -> None:
    """99 % of the best in each repeat, with a lower bound of 97.6 %."""
    one = found({1: (60, 61, 60), 2: (297, 298, 299), 4: (300, 300, 303)})
    assert (one.setting, one.best, one.indicative) == (2, 4, False)
    assert "2 is the lowest safe setting with at least 95\u00a0%" in one.words
    assert [c.setting for c in one.compared] == [1, 2]
    assert all(c.decides and c.needs == 0 for c in one.compared if c.setting == 2)


def test_a_narrow_interval_below_95_percent_decides_for_the_best_although_the_point_is_above() -> None:
    """95.3 % with 1 % spread: the interval could have shown 95 % of as much as the best, and does not."""
    one = found({2: (285, 288, 285), 4: (300, 301, 299)})
    (compared,) = one.compared
    assert compared.ratio.value is not None
    assert compared.ratio.lower is not None
    assert compared.ratio.lower < knee.KNEE_SHARE < compared.ratio.value
    assert (one.setting, one.indicative) == (4, False)
    assert "does not show 95\u00a0%" in one.words


def test_repeats_that_differ_too_much_to_tell_leave_an_indicative_choice_with_what_it_lacks() -> None:
    one = found({2: (280, 320, 294), 4: (300, 300, 300)})
    (compared,) = one.compared
    assert not compared.decides
    assert (one.setting, one.indicative) == (2, True)
    assert one.needs is not None
    assert f"it needs {one.needs} more repeats" in one.words
    assert "the repeats differ too much" in one.words


def test_the_best_is_indicative_where_a_lower_setting_may_still_do_95_percent() -> None:
    one = found({2: (265, 300, 285), 4: (300, 301, 299)})
    (compared,) = one.compared
    assert compared.ratio.value is not None
    assert compared.ratio.upper is not None
    assert compared.ratio.value < knee.KNEE_SHARE < compared.ratio.upper
    assert (one.setting, one.indicative) == (4, True)
    assert "may do 95\u00a0% of it" in one.words


def test_so_many_more_repeats_of_that_spread_would_decide() -> None:
    """The same scatter again and again: at the number said the interval is narrow enough, at one fewer it is not."""
    flat = [300.0, 300.0]
    some = knee._more_repeats(paired_ratio([280.0, 320.0], flat, each_side=knee.EACH_SIDE))
    # s of the logarithms is .0944: t(11) s / sqrt(12) = .0489 is under -ln(.95) = .0513, t(10) s / sqrt(11) = .0516 is not
    assert some == 10
    assert knee._more_repeats(paired_ratio([200.0, 400.0], flat, each_side=knee.EACH_SIDE)) is None


@pytest.mark.parametrize(("at_two", "chosen", "indicative"), [(95, 2, True), (94, 4, False)])
def test_one_repeat_is_taken_by_its_point_ratio_and_says_that_it_is_one(
    at_two: int, chosen: int, indicative: bool
) -> None:
    one = found({1: (60,), 2: (at_two,), 4: (100,)})
    assert (one.setting, one.indicative) == (chosen, indicative)
    verdict = judge(repeated({1: (60,), 2: (at_two,), 4: (100,)}))
    assert any("measured once" in caution for caution in verdict.cautions) is indicative
    assert one.needs == (2 if indicative else None)


def test_only_repeats_that_both_settings_have_are_compared() -> None:
    grid = repeated({2: (297, 297, 297), 4: (300, 300)})
    first, second = judge(grid).rows
    ratio = knee.ratio_of(grid, first, second)
    assert (ratio.n, ratio.value) == (2, pytest.approx(0.99))


def test_a_repeat_without_all_its_classes_is_no_pair() -> None:
    grid = repeated({2: (297, 297, 297)})
    whole = replace(grid, class_names=("short", "long"), class_weights={"short": 1.0, "long": 1.0})
    assert knee.by_repeat(grid, 2) == pytest.approx({1: 594.0, 2: 594.0, 3: 594.0})
    assert knee.by_repeat(whole, 2) == {}


@settings(QUIET, max_examples=60)
@given(
    rows=st.dictionaries(
        st.sampled_from([1, 2, 3, 4, 6, 8]),
        st.lists(st.integers(0, 400), min_size=1, max_size=4).map(tuple),
        min_size=1,
        max_size=4,
    )
)
def test_the_law_is_kept_wherever_a_bound_decides(rows: dict[int, tuple[int, ...]]) -> None:
    grid = repeated({s: tuple(max(n, 1) for n in counts) for s, counts in sorted(rows.items())})
    safe = [row for setting in grid.setting_values if (row := row_of(grid, setting)).safe]
    one = knee.knee(grid, safe)
    if one is None:
        assert not any(row.good.value for row in safe)
        return
    proved = [c.setting for c in one.compared if c.ratio.lower is not None and c.ratio.lower >= knee.KNEE_SHARE]
    assert one.setting in [row.setting for row in safe]
    assert one.setting <= one.best
    if proved:
        assert (one.setting, one.indicative) == (proved[0], False)
    elif one.setting != one.best:
        chosen = next(c for c in one.compared if c.setting == one.setting)
        assert one.indicative
        assert not chosen.decides
        assert chosen.ratio.value is not None
        assert chosen.ratio.value >= knee.KNEE_SHARE


@pytest.mark.parametrize(
    ("counts", "declared", "share", "said"),
    [
        ((300, 300, 300), 0.05, 0.05, ""),
        ((240, 300, 360), 0.05, 0.2, "measured over 3 repeats, 5\u00a0% declared"),
        ((300,), 0.05, 0.05, ""),
        ((240, 300, 360), 0.3, 0.3, ""),
    ],
)
def test_the_variance_reserve_is_what_was_measured_where_that_is_more(
    counts: tuple[int, ...], declared: float, share: float, said: str
) -> None:
    grid = repeated({2: counts}, asked=made.limits(reserve_variance=declared))
    (row,) = judge(grid).rows
    reserve = headroom.variance(grid, row)
    assert (reserve.share, reserve.source) == (pytest.approx(share), said)
    room = headroom.headroom(grid, row)
    assert room.after_reserves_per_min == pytest.approx(600.0 * 0.9 * (1 - share))


@pytest.mark.parametrize(
    ("asked", "cards", "share"), [(0.0, 4, 0.0), (0.1, 4, 0.25), (0.5, 4, 0.5), (0.1, 1, 0.1), (0.1, None, 0.1)]
)
def test_where_a_spare_is_asked_it_is_at_least_one_card_of_those_there_are(
    asked: float, cards: int | None, share: float
) -> None:
    grid = repeated({2: (300,)}, asked=made.limits(reserve_loss=asked), gpu_count=cards)
    assert headroom.loss(grid).share == share
