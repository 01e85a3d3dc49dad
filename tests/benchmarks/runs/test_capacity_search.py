"""A capacity search as rows: each try after what was measured, one answer, and words where there is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from benchmarks import claims, queries, runs
from benchmarks.engine.summary_types import CellSummary
from benchmarks.models import Cell, Grid
from benchmarks.records import search_answer
from benchmarks.records.modes import SearchTerms
from tests import factories
from tests.benchmarks.runs.made import ME, record, running_grid, summary

pytestmark = pytest.mark.django_db


def _search(*, top: int = 8, start: int = 1, most_cells: int = 40, **fields: object) -> Grid:
    return running_grid(
        settings=(start, top), load=SearchTerms(most_cells=most_cells), **({"class_names": ("short",)} | fields)
    )


def _holds_up_to(most: int) -> Callable[[Cell], CellSummary]:
    """400 requests a cell: all good up to `most`, one in four failed above it (far from 95 % either way)."""

    def measured(cell: Cell) -> CellSummary:
        failed = 0 if cell.setting <= most else 100
        return summary(setting=cell.setting, name=cell.class_name, ok=400 - failed, failed=failed)

    return measured


def _run(grid: Grid, measured: Callable[[Cell], CellSummary], *, most: int = 60) -> list[int]:
    """Runs cells until none is left; the settings in the order in which they ran."""
    tried = []
    for _ in range(most):
        claim = claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker=ME)
        if claim is None:
            break
        cell = Cell.objects.select_related("grid").get(pk=claim.cell_id)
        tried.append(cell.setting)
        assert record(claim, measured(cell), content=str(cell.pk).encode())
    grid.refresh_from_db()
    return tried


def test_it_doubles_bisects_and_confirms_the_answer_and_the_one_above() -> None:
    grid = _search(top=64)
    tried = _run(grid, _holds_up_to(5))
    assert tried == [1, 2, 4, 8, 6, 5, 5, 6]
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert (answer.setting, answer.failed, answer.at_limit, answer.measurements) == (5, 6, False, 8)
    assert (answer.attained.hits, answer.attained.n) == (400, 400)  # type: ignore[union-attr]
    assert (answer.refused.hits, answer.refused.n) == (300, 400)  # type: ignore[union-attr]
    assert search_answer.words(answer) == "5 in flight hold and 6 do not, both confirmed with fresh requests."
    assert grid.status == "measured"


def test_each_measurement_is_every_class_and_repeat_and_counts_them_together() -> None:
    grid = _search(top=2, class_names=("short", "median"), repeats=2)
    tried = _run(grid, _holds_up_to(9))
    assert tried == [1] * 4 + [2] * 4 + [2] * 4
    assert list(grid.cells.filter(setting=2).order_by("position").values_list("repeat", flat=True)) == [
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
    ]
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert (answer.setting, answer.at_limit, answer.attained.n) == (2, True, 1600)  # type: ignore[union-attr]
    assert "highest setting allowed here" in search_answer.words(answer)


def test_where_not_even_one_holds_the_answer_is_none_at_all() -> None:
    grid = _search()
    _run(grid, _holds_up_to(0))
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert (answer.setting, search_answer.words(answer)) == (
        0,
        "Not even 1 in flight holds, which was confirmed with fresh requests.",
    )


def test_a_budget_that_ends_before_an_answer_is_indeterminate_and_says_between_what() -> None:
    grid = _search(top=64, most_cells=5)
    assert len(_run(grid, _holds_up_to(5))) == 5
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert (answer.setting, answer.held, answer.failed) == (None, 4, 6)
    assert search_answer.words(answer) == (
        "Indeterminate: the budget of 5 measurements ended. As far as it came, 4 held, and 6 did not."
    )


def test_too_few_requests_are_measured_again_and_then_called_indeterminate() -> None:
    grid = _search(top=1)
    tried = _run(grid, lambda cell: summary(setting=1, name="short", ok=10))
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert (tried, answer.setting) == ([1, 1, 1], None)
    assert "straddles the attainment" in answer.reason


def test_a_stop_ends_the_search_with_its_reason_and_going_on_finds_the_answer() -> None:
    grid = _search()
    claim = claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker=ME)
    assert claim is not None
    runs.stop(grid=grid, how="drain", by=factories.make_user(grid.team, "operator"))
    record(claim, summary(setting=1, ok=400))
    grid.refresh_from_db()
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert (grid.status, answer.setting, answer.held) == ("stopped", None, 1)
    assert "Stopped by" in answer.reason
    runs.resume(grid=grid, by=grid.drawn_by)
    _run(grid, _holds_up_to(2))
    again = search_answer.read(grid.answer)
    assert again is not None
    assert (again.setting, again.failed) == (2, 3)


def test_failing_requests_that_the_guard_stopped_count_as_a_setting_that_does_not_hold() -> None:
    grid = _search(top=2)

    def measured(cell: Cell) -> CellSummary:
        if cell.setting == 1:
            return summary(setting=1, ok=400)
        return summary(
            setting=2,
            ok=40,
            failed=30,
            complete=False,
            end_reason="guard: 30 of the last 70 requests failed, limit 5\u00a0%",
        )

    _run(grid, measured)
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert (answer.setting, answer.failed, answer.refused.n) == (1, 2, 70)  # type: ignore[union-attr]


def test_a_host_that_gets_too_hot_ends_the_search_and_nothing_higher_runs() -> None:
    grid = _search(top=8, class_names=("short", "median"))

    def measured(cell: Cell) -> CellSummary:
        if cell.setting < 4:
            return summary(setting=cell.setting, name=cell.class_name, ok=400)
        return summary(
            setting=4, name=cell.class_name, ok=9, complete=False, end_reason="guard: GPU-1 at 91 °C, limit 85 °C"
        )

    assert _run(grid, measured) == [1, 1, 2, 2, 4]
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert answer.setting is None
    assert "the cell at 4 was stopped (GPU-1 at 91 °C, limit 85 °C)" in answer.reason
    assert grid.cells.order_by("-position").first().status == "not_run"  # type: ignore[union-attr]


def test_a_search_keeps_to_the_highest_setting_of_the_grid_and_so_to_the_authorisation() -> None:
    grid = _search(top=3)
    assert max(_run(grid, _holds_up_to(9))) == 3


def test_a_slow_p95_holds_no_setting_of_a_search_back() -> None:
    grid = _search(top=4)
    slow = 60.0  # twice the objective and more, with every request good as far as the counts say
    tried = _run(grid, lambda cell: replace(summary(setting=cell.setting, ok=400, p95_s=slow)))
    assert tried[:3] == [1, 2, 4]
    assert queries.progress(grid).cells_finished == len(tried)


def _limited_at(setting: int, times: int) -> Callable[[Cell], CellSummary]:
    """Holds everywhere, but the first measurements at that setting had a client that was the bottleneck."""

    def measured(cell: Cell) -> CellSummary:
        made = _holds_up_to(9)(cell)
        limited = cell.setting == setting and cell.repeat <= times
        return replace(made, client=replace(made.client, client_limited=limited, why="loop lag" if limited else ""))

    return measured


def test_a_window_whose_client_was_the_bottleneck_does_not_count_and_is_measured_again() -> None:
    grid = _search(top=2)
    assert _run(grid, _limited_at(2, times=1)) == [1, 2, 2, 2]
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert (answer.setting, answer.measurements, answer.at_limit) == (2, 3, True)


def test_a_client_that_stays_the_bottleneck_ends_the_search_without_a_word_on_the_server() -> None:
    grid = _search(top=8)
    assert _run(grid, _limited_at(2, times=9)) == [1, 2, 2]
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert (answer.setting, answer.held, answer.failed) == (None, 1, None)
    assert "the load client was the bottleneck at 2 (loop lag)" in answer.reason


def test_limited_windows_use_the_budget_up_too() -> None:
    grid = _search(top=2, most_cells=3)
    assert _run(grid, _limited_at(2, times=1)) == [1, 2, 2]
    answer = search_answer.read(grid.answer)
    assert answer is not None
    assert "the budget of 3 measurements ended" in answer.reason
