"""A grid of static batches on its page: from the engine's own frames through the database to a time of day."""

from __future__ import annotations

import csv
import io

import pytest
from django.test import Client
from msgspec.structs import replace

from benchmarks.engine.columns import from_frames
from benchmarks.engine.load import StaticBatch
from benchmarks.engine.plan import BatchTerms, ObjectiveTerms
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import CellSummary, GpuTotal
from benchmarks.engine.terms import End, Window
from benchmarks.models import Cell, Grid, Role
from benchmarks.records.modes import StaticTerms
from capacity import approvals
from capacity.assessment.verdict import Answer, Grade, Kind
from capacity.queries import result_of
from tests import factories
from tests.benchmarks.engine.plans import MS, S, a_header, a_plan, a_record
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db
ITEMS, SIZE = 200, 8
NIGHT = BatchTerms(
    items=100_000,
    window_start="22:00",
    window_end="06:00",
    latest_finish="05:30",
    outage_s=1800.0,
    power_expected="grid",
)
TIMES = (
    "t_scheduled_ns",
    "t_sent_ns",
    "t_headers_ns",
    "t_first_ns",
    "t_answer_ns",
    "t_last_ns",
    "t_end_ns",
    "t_closed_ns",
)


def by_the_engine(round_ms: int) -> CellSummary:
    """200 items in rounds of 8, each round that long: what the engine's own summary says of such a log."""
    plan = a_plan(load=StaticBatch(items=ITEMS, batch_size=SIZE), window_s=60.0, max_requests=1000)
    records = []
    for index in range(ITEMS):
        plain, later = a_record(index), index // SIZE * round_ms * MS
        records.append(a_record(index, batch=index // SIZE, **{name: getattr(plain, name) + later for name in TIMES}))
    end = End(t_ns=61 * S, complete=True, reason="done", sent=ITEMS)
    return summarise(from_frames([a_header(plan), *records, Window(start_ns=0, end_ns=60 * S), end]), plan)


def measured(terms: BatchTerms | None = NIGHT, *, round_ms: tuple[int, ...] = (1000, 1010, 990)) -> Grid:
    limits = replace(made.limits(), terms=ObjectiveTerms(batch=terms))
    grid = factories.make_grid(
        factories.make_runtime(None, dialect="openai_completions"), settings=(SIZE,), class_names=("short",), limits=limits,
        load=StaticTerms(items=ITEMS), repeats=len(round_ms),
    )  # fmt: skip

    def of(cell: Cell) -> CellSummary:
        return by_the_engine(round_ms[cell.repeat - 1])

    return stored.measure(grid, of)


def page(grid: Grid, *roles: str) -> str:
    client = Client()
    client.force_login(factories.make_user(grid.team, *(roles or (Role.VIEWER,))))
    return " ".join(client.get(grid.get_absolute_url()).content.decode().split())


def test_the_page_says_by_when_the_night_is_done_with_and_without_the_outage() -> None:
    """24 rounds of a second, 0.199 s for the last item's place and 0.1 s of its own: 24.299 s for 200 items."""
    grid = measured()
    found = result_of(grid).verdict
    assert (found.kind, found.rows) == (Kind.NOT_JUDGED, ())
    held = found.batch
    assert held is not None
    assert (held.answer, held.setting, held.indicative) == (Answer.HOLDS, SIZE, False)
    assert held.finish_s.value == pytest.approx(100_000 * 24.299 / 200)
    assert held.stated_finish_s.value == pytest.approx(100_008 * 24.299 / 200 + 1800)
    html = page(grid)
    for words in (
        "<h1>Batches of 8: done by 02:00, in time for 05:30</h1>", "Held to its window", "01:23", "95 %: 01:30",
        "01:53", "8.23 items a second, 3 runs", "With 30 min without power and 8 items done again: by 01:53",
        "Runs of 200 items stand for 100,000", "100,000 items from 22:00 to 06:00, Monday to Friday, done by 05:30",
    ):  # fmt: skip
        assert words in html, words


def test_a_batch_that_is_late_fails_on_its_page_with_the_items_that_are_left() -> None:
    html = page(measured(replace(NIGHT, items=300_000)))
    assert "<h1>No batch size is done by 05:30 safely</h1>" in html
    assert "items are left at 05:30" in html


def test_an_objective_without_a_batch_is_asked_for_one_by_a_link_for_who_may() -> None:
    grid = measured(None)
    held = result_of(grid).verdict.batch
    assert held is not None
    assert held.answer == Answer.NOT_TESTED
    html = page(grid)
    assert "Set when the batch must be done" in html
    assert "measured, not judged</h1>" in html


def test_one_run_is_indicative_on_the_page() -> None:
    html = page(measured(round_ms=(1000,)))
    assert "Indicative: needs 2 more runs to be sure of 05:30." in html
    assert "no bound" in html


def test_the_table_has_its_twin_as_json() -> None:
    grid = measured()
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.VIEWER))
    held = client.get(f"/grids/{grid.pk}/cells.json").json()["batch"]
    assert (held["answer"], held["setting"], held["allowed_s"]) == ("holds", SIZE, 27_000.0)
    assert held["rows"][0]["finish_s"]["value"] == pytest.approx(100_000 * 24.299 / 200)


def test_the_table_is_a_file_with_each_batch_size_its_grade_and_what_to_do_next() -> None:
    grid = measured()
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.VIEWER))
    (row,) = csv.DictReader(io.StringIO(client.get(f"/grids/{grid.pk}/batch.csv").content.decode()))
    told = {
        name: row[name] for name in ("batch_size", "taken", "answer", "finish_at", "finish_with_outage_at", "allowed_s")
    }
    assert told == {
        "batch_size": "8", "taken": "True", "answer": "holds", "finish_at": "01:23", "finish_with_outage_at": "01:53",
        "allowed_s": "27000.0",
    }  # fmt: skip
    assert (row["items_left"], row["items_left_with_outage"], row["items_done_again"]) == ("0", "0", "8")
    assert row["grade"] == result_of(grid).verdict.grade
    found = client.get(f"/grids/{grid.pk}/batch.json").json()
    assert found["rows"][0]["batch_size"] == SIZE
    assert any("lane of its own" in step for step in found["next"])


def test_without_a_stated_outage_the_file_says_nothing_of_one_rather_than_zero_items() -> None:
    grid = measured(replace(NIGHT, outage_s=0.0))
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.VIEWER))
    row = client.get(f"/grids/{grid.pk}/batch.json").json()["rows"][0]
    assert (row["finish_at"], row["finish_with_outage_at"], row["items_left_with_outage"]) == ("01:23", None, None)


def test_the_page_grades_the_night_and_says_what_to_do_next_and_nothing_can_be_proposed() -> None:
    grid = measured()
    verdict = result_of(grid).verdict
    assert verdict.grade == Grade.NEEDS_REVISION
    open_ones = {one.key for one in verdict.rubric.open}
    assert "length" in open_ones  # runs of 200 items stand for 100,000
    html = page(grid, Role.OPERATOR)
    for words in (
        "What to do next", "Run the night with batches of 8 from 22:00", "give each item an idempotency key",
        "so it is not proposed by itself", 'id="rubric"', "Runs as long as they stand for", "What to do with the batch",
        f"/grids/{grid.pk}/batch.csv",
    ):  # fmt: skip
        assert words in html, words
    assert f"/grids/{grid.pk}/propose/" not in html


def test_a_batch_that_is_late_is_graded_so_and_is_still_no_choice_that_a_person_could_propose() -> None:
    grid = measured(replace(NIGHT, items=300_000))
    verdict = result_of(grid).verdict
    assert (verdict.grade, verdict.kind) == (Grade.NO_SAFE_SETTING, Kind.NOT_JUDGED)
    assert f"/grids/{grid.pk}/propose/" not in page(grid, Role.OPERATOR)
    with pytest.raises(approvals.Refused):
        approvals.propose(
            grid=grid, setting=None, reason="It is late.", by=factories.make_user(grid.team, Role.OPERATOR)
        )


@pytest.mark.parametrize("watts, said", [(180.0, "successful requests per kWh"), (None, "per kWh is not known")])
def test_a_judged_grid_tells_its_goodput_for_each_kwh_where_power_was_read(watts: float | None, said: str) -> None:
    def of(cell: Cell) -> CellSummary:
        total = GpuTotal(name="gpu_power_w", value=watts or 0.0, known=1, of=1, how="energy counter")
        return replace(stored.summary_of(cell), gpu_totals=(total,) if watts else ())

    grid = stored.measure(factories.make_grid(settings=(1, 2), limits=made.limits()), of)
    assert result_of(grid).verdict.rows[0].items_per_s.value is not None
    html = page(grid)
    assert ("items a second" in html, said in html) == (True, True)
