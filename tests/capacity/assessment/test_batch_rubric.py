"""A night is graded by the same bands as a setting, from fixtures alone, and the page is told what a person does next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from capacity.assessment import batch_rubric
from capacity.assessment.batch import batch
from capacity.assessment.batch_types import BatchVerdict
from capacity.assessment.facts import CellFact, ConditionFacts
from capacity.assessment.verdict import Answer, Grade, Rubric
from capacity.docs_index import PAGES
from tests.capacity import synthetic as made
from tests.capacity.assessment.test_batch import NIGHT, facts, run

SHORT = replace(NIGHT, items=2000)
"""Ten times the 200 items of a run: as many as such a run may stand for."""


def read(cell: CellFact) -> CellFact:
    """With the host's memory read, as a worker on the host does."""
    assert cell.summary is not None
    return replace(cell, summary=replace(cell.summary, gauges=(made.gauge("host_memory_used_share", 0.4),)))


THREE = tuple(read(run(repeat, seconds)) for repeat, seconds in ((1, 200.0), (2, 202.0), (3, 198.0)))


def graded(*cells: CellFact, power: str = "grid", **changes: Any) -> tuple[BatchVerdict, Rubric]:
    given = {"terms": SHORT, "conditions": ConditionFacts(recorded=True)} | changes
    told = facts(*(cells or THREE), **given)
    held = batch(told, power)
    return held, batch_rubric.graded(told, held, power)


def test_a_night_with_its_bound_its_power_and_its_readings_is_complete_and_says_how_to_run_it() -> None:
    held, found = graded()
    assert (found.grade, [one.key for one in found.open]) == (Grade.COMPLETE, [])
    assert batch_rubric.steps(held, found) == (
        "Run the night with batches of 8 from 22:00, in a lane of its own; by what was measured it ends at 22:35 at the latest.",
        "After an interruption go on with the same ledger, and give each item an idempotency key: at most 16 items are asked "
        "again. There is room for 1,507 more such restarts before 05:30.",
        batch_rubric.LANE,
    )


@pytest.mark.parametrize(
    ("changes", "cells", "open_ones"),
    [
        ({"terms": NIGHT}, (), ["length"]),
        ({"conditions": ConditionFacts()}, (), ["conditions"]),
        ({"power": ""}, (), ["power"]),
        ({"power": "ups"}, (), ["finish", "power"]),
        ({}, THREE[:1], ["finish", "sample"]),
        ({}, THREE[:2], ["sample"]),
        ({}, tuple(replace(c, summary=replace(c.summary, gauges=())) for c in THREE if c.summary), ["readings"]),
    ],
)
def test_each_criterion_alone_keeps_a_night_from_complete_and_says_what_to_run(
    changes: dict[str, Any], cells: tuple[CellFact, ...], open_ones: list[str]
) -> None:
    held, found = graded(*cells, **changes)
    assert (found.grade, [one.key for one in found.open]) == (Grade.NEEDS_REVISION, open_ones)
    assert all(one.next_cell for one in found.open)
    assert found.open[0].next_cell in batch_rubric.steps(held, found)[0]


def test_one_run_ends_at_about_a_time_and_never_at_the_latest() -> None:
    held, found = graded(THREE[0])
    told = " ".join(batch_rubric.steps(held, found))
    assert ("it ends at about 22:34." in told, "at the latest" in told) == (True, False)


def test_a_night_that_no_batch_size_makes_is_no_safe_setting_and_its_remedy_is_the_next_step() -> None:
    held, found = graded(terms=replace(NIGHT, items=60_000))
    assert found.grade == Grade.NO_SAFE_SETTING
    assert batch_rubric.steps(held, found)[0].startswith("Try a larger batch size")


def test_a_size_without_a_run_beside_one_that_is_late_is_not_yet_no_safe_setting() -> None:
    waiting = replace(run(1, 200.0, setting=16), status="planned", summary=None)
    held, found = graded(*THREE, waiting, terms=replace(NIGHT, items=60_000))
    assert (held.answer, found.grade) == (Answer.NOT_TESTED, Grade.NEEDS_REVISION)
    assert (
        next(one for one in found.open if one.key == "finish").next_cell == "Run the batch sizes that have no run yet."
    )


def test_an_objective_set_afterwards_is_not_complete_whatever_was_measured_and_no_night_is_advised() -> None:
    for terms in (SHORT, replace(NIGHT, items=60_000)):
        held, found = graded(terms=terms, objective_before_run=False)
        assert found.grade == Grade.NOT_COMPLETE
        assert batch_rubric.steps(held, found) == ("Draw the grid again with the objective as it stands.",)


def test_a_night_without_room_for_one_restart_keeps_no_headroom_unless_its_outage_is_stated() -> None:
    """26,110 items of 1.03372 s end 10 s before 05:30, and a restart costs 16 items again."""
    tight = replace(NIGHT, items=26_110)
    assert graded(terms=tight)[1].grade == Grade.NOT_COMPLETE
    less = replace(NIGHT, items=26_000, outage_s=60.0)
    assert next(one for one in graded(terms=less)[1].criteria if one.key == "room").answer == Answer.HOLDS


def test_without_a_batch_in_the_objective_or_without_a_run_nothing_is_graded() -> None:
    assert graded(terms=None)[1].grade == Grade.UNGRADED
    waiting = replace(THREE[0], status="planned", summary=None)
    assert graded(waiting)[1].grade == Grade.UNGRADED


def test_every_criterion_of_a_night_links_a_page_that_exists() -> None:
    assert {one.doc for one in graded()[1].criteria} <= set(PAGES)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(min_value=1.0, max_value=1e5), min_size=1, max_size=4),
    st.integers(min_value=1, max_value=200_000),
    st.sampled_from(["", "grid", "ups"]),
    st.booleans(),
    st.sampled_from([0.0, 600.0]),
)
def test_the_grade_of_a_night_is_total_and_complete_only_where_every_criterion_is_met(
    times: list[float], items: int, power: str, before: bool, outage_s: float
) -> None:
    cells = [read(run(repeat, seconds)) for repeat, seconds in enumerate(times, 1)]
    terms = replace(NIGHT, items=items, outage_s=outage_s)
    held, found = graded(*cells, power=power, terms=terms, objective_before_run=before)
    assert found.grade in set(Grade) - {Grade.UNGRADED}
    assert (found.grade == Grade.COMPLETE) == (not found.open and held.answer == Answer.HOLDS)
    assert batch_rubric.steps(held, found)
