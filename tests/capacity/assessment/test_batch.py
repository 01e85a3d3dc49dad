"""A static batch is judged by its window: when it is done, with its bound, with and without power, safely."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.engine.plan import BatchTerms, GridLimits, ObjectiveTerms
from benchmarks.engine.summary_types import StaticBatchSummary
from capacity.assessment import clock
from capacity.assessment.batch import NOT_SET, batch, pace, runs
from capacity.assessment.facts import CellFact, GridFacts
from capacity.assessment.verdict import Answer
from tests.capacity import synthetic as made

NIGHT = BatchTerms(items=7200, window_start="22:00", window_end="06:00", latest_finish="05:30")
"""27,000 s are allowed. At an item a second all is done after 7,200 s, at midnight."""


def limits(terms: BatchTerms | None = NIGHT, **changes: Any) -> GridLimits:
    return replace(made.limits(**changes), terms=ObjectiveTerms(batch=terms))


def run(
    repeat: int,
    makespan_s: float,
    *,
    setting: int = 8,
    lanes: int = 2,
    status: str = "measured",
    name: str = "short",
    **changes: Any,
) -> CellFact:
    """A run of 200 items, all of them done, each within its interactive limit."""
    static = StaticBatchSummary(
        **{"items": 200, "done": 200, "failed": 0, "open": 0, "batches": 25, "makespan_s": makespan_s,
           "items_per_s": 200 / makespan_s, "resumed": 0} | changes
    )  # fmt: skip
    done, failed = static.done, static.failed
    part = made.class_summary(name, made.latencies(done, 0.8 * made.LIMITS[name]), failed=failed)
    whole = made.summary(setting, name, [part], complete=not static.open)
    return made.cell(
        repeat * 100 + setting, setting, name, replace(whole, offered_concurrency=lanes, static_batch=static),
        repeat=repeat, status=status, reason="the window ended" if static.open else "",
    )  # fmt: skip


def facts(*cells: CellFact, terms: BatchTerms | None = NIGHT, **changes: Any) -> GridFacts:
    given = {"limits": limits(terms), "class_names": ("short",), "class_weights": {"short": 1.0, "long": 1.0}} | changes
    return GridFacts(setting_values=tuple(sorted({c.setting for c in cells})), cells=cells, has_gpu=False, **given)


THREE = (run(1, 200.0), run(2, 202.0), run(3, 198.0))


def test_an_objective_without_a_batch_is_asked_for_one() -> None:
    found = batch(facts(*THREE, terms=None))
    assert (found.answer, found.words, found.rows, found.heading) == (Answer.NOT_TESTED, NOT_SET, (), "")


def test_three_runs_of_an_item_a_second_are_done_by_midnight_with_students_bound_for_a_fourth() -> None:
    """Seconds an item 1.00, 1.01, 0.99: s = 0.01, t(2, 95 %) = 2.920: 1 + 2.920 x 0.01 x sqrt(4 / 3) = 1.03372."""
    found = batch(facts(*THREE), "grid")
    assert (found.answer, found.setting, found.indicative, found.restarts) == (Answer.HOLDS, 8, False, 0)
    assert (found.finish_s.value, found.finish_s.lower) == (pytest.approx(7200.0), None)
    assert found.finish_s.upper == pytest.approx(7200 * (1 + 2.9200 * 0.01 * (4 / 3) ** 0.5), rel=1e-4)
    assert found.stated_finish_s == found.finish_s
    assert (found.allowed_s, found.items_left) == (27_000.0, 0)
    assert found.heading == "Batches of 8: done by 00:05, in time for 05:30"
    assert found.words == (
        "7,200 items are done by 00:00, 2 h after the start, at the latest by 00:05 (95 %, 3 runs); 05:30 is allowed."
    )
    row = found.rows[0]
    assert (row.finish, row.latest, row.done_again) == ("00:00", "00:05", 16)
    # 27,000 s less the bound, for restarts that cost a batch of 8 in each of two lanes.
    assert row.restarts_left == int((27_000 - found.finish_s.upper) // (16 * found.finish_s.upper / 7200))


def test_an_outage_stops_everything_and_costs_a_batch_of_each_lane() -> None:
    terms = replace(NIGHT, outage_s=3600.0)
    found = batch(facts(*THREE, terms=terms), "grid")
    assert found.answer == Answer.HOLDS
    assert found.finish_s.value == pytest.approx(7200.0)
    assert found.stated_finish_s.value == pytest.approx(7200 + 3600 + 16)
    assert found.words.endswith("With 1 h without power and 16 items done again: by 01:01, at the latest by 01:05.")


def test_what_holds_only_with_power_fails_and_says_how_many_items_are_left() -> None:
    terms = replace(NIGHT, outage_s=20_000.0)
    found = batch(facts(*THREE, terms=terms), "grid")
    assert (found.answer, found.rows[0].items_left) == (Answer.FAILS, 0)
    bound = found.finish_s.upper or 0.0
    assert found.items_left == 7200 + 16 - int(7000 / (bound / 7200))
    assert (
        f"It is done in time only without the outage: {found.items_left:,} of 7,200 items are left at 05:30."
        in found.words
    )
    assert found.heading == "No batch size is done by 05:30 safely"


def test_what_is_too_slow_fails_and_says_what_to_change() -> None:
    found = batch(facts(run(1, 1000.0), run(2, 1000.0), run(3, 1000.0)), "grid")
    assert (found.answer, found.items_left) == (Answer.FAILS, 7200 - 27_000 // 5)
    assert found.rows[0].finish == "08:00"
    assert "It is not done in time: 1,800 of 7,200 items are left at 05:30." in found.words
    assert found.rows[0].remedy.startswith("Try a larger batch size or more batches beside each other")


def test_one_run_has_no_bound_and_is_indicative() -> None:
    found = batch(facts(run(1, 200.0)), "grid")
    assert (found.answer, found.indicative, found.needs, found.finish_s.upper) == (Answer.HOLDS, True, 2, None)
    assert "(1 run); 05:30 is allowed. Indicative: needs 2 more runs to be sure of 05:30." in found.words


def test_a_bound_past_the_latest_finish_needs_more_runs_as_long_as_more_would_do() -> None:
    """3.5 s an item end at 05:00; s = 0.1: with three runs the bound is 3.837 s, with four 3.763, and 3.75 are allowed."""
    found = batch(facts(run(1, 680.0), run(2, 700.0), run(3, 720.0)), "grid")
    assert (found.answer, found.indicative, found.needs) == (Answer.HOLDS, True, 2)
    worse = batch(facts(run(1, 600.0), run(2, 700.0), run(3, 800.0)), "grid")
    assert worse.answer == Answer.FAILS
    assert "more than one night in twenty may end after 05:30" in worse.words


def test_the_smallest_proven_batch_size_is_taken_though_a_larger_one_is_faster() -> None:
    cells = (run(1, 200.0, setting=4), *THREE, *(run(k, 100.0, setting=16) for k in (1, 2, 3)))
    found = batch(facts(*cells), "grid")
    assert [(row.setting, row.answer, row.indicative) for row in found.rows] == [
        (4, Answer.HOLDS, True), (8, Answer.HOLDS, False), (16, Answer.HOLDS, False),
    ]  # fmt: skip
    assert found.setting == 8


def test_items_that_were_never_begun_are_a_failure_of_that_run_not_a_faster_one() -> None:
    found = batch(facts(run(1, 200.0, done=160, open=40, status="stopped")), "grid")
    assert (found.answer, found.setting, found.heading) == (
        Answer.FAILS, None, "When the batch would be done is not measured",
    )  # fmt: skip
    assert "stopped before the end of the window: the window ended. 40 of 200 items were not begun." in found.words


def test_items_that_failed_for_good_break_the_objective_however_early_the_batch_is_done() -> None:
    found = batch(facts(*(run(k, 200.0, done=150, failed=50) for k in (1, 2, 3))), "grid")
    assert found.answer == Answer.FAILS
    assert found.words.startswith(
        "450 of 600 scheduled requests succeeded in short, 75.0\u00a0%; at least 90.0\u00a0% is asked."
    )


def test_a_host_that_is_not_safe_is_not_made_safe_by_a_window() -> None:
    hot = [replace(c, summary=replace(c.summary, gauges=(made.gauge("gpu_temperature_c", 91.0),))) for c in THREE]  # type: ignore[type-var]
    found = batch(facts(*hot), "grid")
    assert found.answer == Answer.FAILS
    assert found.words.startswith("Peak GPU temperature was 91.0 °C, limit 85 °C.")


def test_runs_that_went_on_after_an_interruption_count_only_where_there_are_no_others() -> None:
    found = batch(facts(run(1, 900.0, resumed=2), run(2, 200.0), run(3, 202.0)), "grid")
    assert (found.rows[0].runs, found.restarts) == (2, 2)
    assert found.finish_s.value == pytest.approx(7200 * 1.005)
    assert "went on 2 times; only runs without one are in the time above." in found.cautions[1]
    alone = batch(facts(run(1, 400.0, resumed=1)), "grid")
    assert (alone.rows[0].runs, alone.finish_s.value) == (1, pytest.approx(14_400.0))
    assert "its interruption is in the time above." in alone.cautions[1]


def test_a_window_on_another_power_is_not_tested_and_an_unknown_one_is_said() -> None:
    on_battery = replace(NIGHT, power_expected="battery")
    found = batch(facts(*THREE, terms=on_battery), "grid")
    assert found.answer == Answer.NOT_TESTED
    assert "Measured on mains, and the window is expected on a battery" in found.words
    unknown = batch(facts(*THREE))
    assert (unknown.answer, "is not recorded" in unknown.cautions[0]) == (Answer.HOLDS, True)


def test_few_items_that_stand_for_a_whole_night_are_said() -> None:
    found = batch(facts(*THREE), "grid")
    assert any("Runs of 200 items stand for 7,200" in caution for caution in found.cautions)
    assert not batch(facts(*THREE, terms=replace(NIGHT, items=2000)), "grid").cautions


def test_a_client_that_was_the_bottleneck_makes_the_time_too_long_never_too_short_and_is_said() -> None:
    slowed = replace(made.STEADY, client_limited=True)
    cells = [replace(c, summary=replace(c.summary, client=slowed)) for c in THREE]  # type: ignore[type-var]
    found = batch(facts(*cells), "grid")
    assert found.answer == Answer.HOLDS
    assert any(
        "was the bottleneck in 3 of 3 runs: the server alone may be faster" in caution for caution in found.cautions
    )


def test_a_batch_may_take_what_interactive_work_refuses_and_says_so() -> None:
    slow = [
        replace(c, summary=replace(c.summary, classes=(made.class_summary("short", made.latencies(200, 4.0)),)))  # type: ignore[type-var]
        for c in THREE
    ]
    found = batch(facts(*slow), "grid")
    assert found.answer == Answer.HOLDS
    assert any(
        caution.startswith(
            "Interactive work would refuse batches of 8: p95 of short is 4.00 s, over the limit of 1.00 s"
        )
        for caution in found.cautions
    )


def test_classes_that_ran_apart_make_an_item_of_the_mix_by_their_weights() -> None:
    cells = (run(1, 200.0), run(1, 600.0, name="long"))
    told = facts(*cells, class_names=("short", "long"), class_weights={"short": 3.0, "long": 1.0})
    assert [one.item_s for one in runs(told, cells)] == [pytest.approx(0.75 * 1 + 0.25 * 3)]
    assert runs(told, cells[:1]) == []


def test_a_batch_size_without_a_run_is_not_tested_and_keeps_the_rest_from_failing_as_a_whole() -> None:
    pending = made.cell(9, 16, "short", None, status="planned")
    found = batch(facts(*(run(k, 1000.0) for k in (1, 2, 3)), pending), "grid")
    assert [row.answer for row in found.rows] == [Answer.FAILS, Answer.NOT_TESTED]
    assert found.answer == Answer.NOT_TESTED


@settings(derandomize=True)
@given(
    times=st.lists(st.floats(50.0, 5000.0), min_size=2, max_size=6),
    items=st.integers(1, 100_000),
    outage_s=st.floats(0.0, 20_000.0),
)
def test_an_outage_never_makes_it_earlier_and_the_bound_never_lies_before_the_mean(
    times: list[float], items: int, outage_s: float
) -> None:
    cells = [run(k, makespan_s) for k, makespan_s in enumerate(times, start=1)]
    found = batch(facts(*cells, terms=replace(NIGHT, items=items, outage_s=outage_s)), "grid")
    row = found.rows[0]
    assert row.finish_s.upper is not None
    assert row.stated_finish_s.upper is not None
    assert row.finish_s.value is not None
    assert row.finish_s.value <= row.finish_s.upper <= row.stated_finish_s.upper
    assert 0 <= row.items_left <= row.stated_items_left <= items
    if row.answer == Answer.HOLDS and not row.indicative:
        assert (row.stated_items_left, row.stated_finish_s.upper <= 27_000.0) == (0, True)


def test_pace_takes_students_t_of_the_runs_it_has() -> None:
    two = pace(runs(facts(*THREE[:2]), THREE[:2]))
    assert two.bound_s == pytest.approx(1.005 + 6.3138 * 0.00707107 * 1.5**0.5, rel=1e-4)


@pytest.mark.parametrize(
    ("start", "after_s", "words"),
    [
        ("22:00", 0, "22:00"),
        ("22:00", 7 * 3600 + 1, "05:01"),
        ("22:00", 2 * 3600, "00:00"),
        ("22:00", 86_400 - 60, "21:59"),
        ("22:00", 86_400, "22:00 a day later"),
        ("09:00", 2 * 86_400 + 3600, "10:00 2 days later"),
    ],
)
def test_a_time_of_day_is_told_over_midnight_and_never_too_early(start: str, after_s: float, words: str) -> None:
    assert clock.at(start, after_s) == words


@pytest.mark.parametrize(
    "start, end, span", [("22:00", "06:00", 28_800), ("06:00", "22:00", 57_600), ("20:00", "20:00", 86_400)]
)
def test_a_window_that_ends_before_it_starts_runs_past_midnight(start: str, end: str, span: int) -> None:
    assert clock.span_s(start, end) == span


@pytest.mark.parametrize("text", ["24:00", "7:00", "12:60", "noon", "22:00 "])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time of day"):
        clock.seconds_of(text)
