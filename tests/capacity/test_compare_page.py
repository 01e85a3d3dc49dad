"""Two grids beside each other on a page and in files, for the people who may see both; and the checks of a grid."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from benchmarks.engine.summary_types import CellSummary
from benchmarks.models import Attempt, Authorization, Cell, Conditions, Grid, Role
from benchmarks.records.modes import OpenTerms
from capacity.approvals import propose
from capacity.assessment.verdict import Answer
from capacity.compare_tables import comparison
from capacity.queries import result_of
from tests import factories
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db
MOST_QUERIES = 30
"""For both grids and the page around them: 23 when this was written."""


def two(
    *, settings: tuple[int, ...] = (1, 4), of: Callable[[Cell], CellSummary] = stored.summary_of, **of_second: Any
) -> tuple[Grid, Grid]:
    """Two measured grids of one runtime, workload and room; the second differs by `of_second` and measured `of`."""
    runtime = factories.make_runtime()
    workload, drawn_by = factories.make_workload(runtime.team), factories.make_user(runtime.team, Role.OPERATOR)
    given: dict[str, Any] = {"runtime": runtime, "workload": workload, "drawn_by": drawn_by, "limits": made.limits()}
    first = stored.measure(factories.make_grid(**given, settings=settings))
    return first, stored.measure(factories.make_grid(**({"settings": settings} | given | of_second)), of)


def get(grid: Grid, path: str, *, user: User | None = None, status: int = 200) -> str:
    client = Client()
    client.force_login(user or factories.make_user(grid.team, Role.VIEWER))
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def address(*grids: Grid | int | str) -> str:
    return reverse("compare") + "?" + "&".join(f"grid={getattr(grid, 'pk', grid)}" for grid in grids)


def test_two_grids_alike_in_every_recorded_field_are_like_for_like() -> None:
    first, second = two()
    html = get(first, address(first, second))
    assert f"<h1>Grid {first.pk} and grid {second.pk} compared</h1>" in html
    assert "Like for like: nothing recorded" in html
    assert "Recorded for neither, and so not compared: Model digest, Flags," in html
    assert "0 of 24 measures differ clearly." in html
    assert "hr-note-warn" not in html


def columns(left: str, right: str) -> str:
    """Short values in columns, longer ones below each other."""
    if max(len(left), len(right)) < 11:
        return f"<td>{left}</td><td>{right}</td>"
    return f'<td colspan="2"><span class="hr-u">A</span> {left}<br><span class="hr-u">B</span> {right}</td>'


def test_unlike_grids_stand_under_the_list_of_what_differs_with_both_values() -> None:
    first, _ = two()
    flagged = factories.make_runtime(first.hardware, flags="--max-num-seqs 8")
    warm = factories.make_room(power_source="generator", ambient_c=28.5)
    drawn = factories.make_grid(
        flagged, first.workload, first.drawn_by, limits=made.limits(), settings=[4], conditions=warm
    )  # fmt: skip
    other = stored.measure(drawn)
    html = get(first, address(first, other))
    assert '<div class="hr-note hr-note-warn">' in html
    assert "<b>Not like for like.</b> Flags, power source and room temperature in °C differ, so no difference" in html
    for name, left, right in [
        ("Flags", "not recorded", "--max-num-seqs 8"), ("Power source", "Mains", "Generator"),
        ("Room temperature in °C", "21", "28.5"),
    ]:  # fmt: skip
        assert f'<tr class="hr-diff"><th scope="row">{name}</th>{columns(left, right)}</tr>' in html
    assert f"Not measured in grid {other.pk}." in html


def test_a_change_is_said_in_words_with_its_interval_and_its_n() -> None:
    def slow(cell: Cell) -> CellSummary:
        part = made.class_summary(cell.class_name, made.latencies(150, 0.9 * made.LIMITS[cell.class_name]))
        return made.summary(cell.setting, cell.class_name, [part], simulated=True)

    first, second = two(settings=(4,), of=slow)
    html = get(first, address(first, second))
    assert '<td class="hr-num" data-l="A">0.60 s<span class="hr-sub-l">n = 300</span></td>' in html
    assert '<td class="hr-num" data-l="B">0.90 s<span class="hr-sub-l">n = 150</span></td>' in html
    assert '<td class="hr-num hr-t-bad" data-l="Change">+50.0</td>' in html
    assert '<td data-l="Reading"><b>B slower</b></td>' in html
    rates = get(first, f"{address(first, second)}&measure=good_per_min")
    assert '<td data-l="Reading"><b>B fewer</b></td>' in rates
    assert '<h2 id="h-frontiers">B finishes 7.3\u00a0% fewer good requests at 4 in flight</h2>' in html


def test_the_heading_says_the_setting_both_rates_and_the_interval_of_their_change() -> None:
    first, second = two()
    found = comparison(result_of(first), result_of(second))
    assert found.overall is not None
    assert found.overall.heading == "No clear difference at 4 in flight"
    assert found.overall.sentence.startswith("323.5 and 323.5 good requests a minute; 95 % interval of the change −")
    assert found.overall.sentence.endswith(" %. Both recommend this setting.")


def test_both_frontiers_are_one_figure_with_the_same_numbers_as_a_table_and_as_files() -> None:
    first, second = two()
    html = get(first, address(first, second))
    figure = json.loads(html.partition('id="fig-frontiers">')[2].partition("</script>")[0])
    drawn = [(one["name"], one["marker"]["symbol"], one["line"]["dash"]) for one in figure["data"]]
    assert drawn == [("A", "square", "5px,3px"), ("B", "circle", "solid")]
    assert html.count(f'<th scope="row">A, grid {first.pk}</th>') == 2
    svg = get(first, address(first, second).replace("compare/", "compare/frontiers.svg"))
    assert svg.startswith("<svg ")
    assert "Room 1, ground floor, 21 °C" in svg
    points = {name: len(one["x"]) for (name, _, _), one in zip(drawn, figure["data"], strict=True)}
    assert (svg.count('width="9" height="9"'), svg.count('r="4.5"')) == (points["A"], points["B"])
    body = get(first, address(first, second).replace("compare/", "compare/frontiers.csv"))
    rows = list(csv.DictReader(io.StringIO(body)))
    assert [(row["side"], row["in_flight"]) for row in rows] == [
        (f"{letter}, grid {grid.pk}", setting)
        for letter, grid in (("A", first), ("B", second))
        for setting in ("1", "4")
    ]
    assert rows[0]["right_power"] == "Mains"


def test_a_comparison_can_be_turned_round_and_its_address_copied() -> None:
    first, second = two(settings=(4,))
    html = get(first, address(first, second))
    assert f'href="/compare/?grid={second.pk}&amp;grid={first.pk}"' in html
    assert f'data-copy="http://testserver/compare/?grid={first.pk}&amp;grid={second.pk}"' in html
    assert '<optgroup label="Same workload and way of loading">' in html


def test_grids_that_load_in_different_ways_are_not_compared_cell_by_cell() -> None:
    first, second = two(settings=(4,), load=OpenTerms())
    found = comparison(result_of(first), result_of(second))
    assert (found.rows, found.counted) == ((), "No cell was measured in both.")
    assert "Way of loading" in [field.name for field in found.fields]
    assert "The two grids load in different ways" in get(first, address(first, second))


@pytest.mark.parametrize("fmt", ["csv", "json"])
def test_the_files_hold_the_same_rows_with_what_was_measured_where_on_both_sides(fmt: str) -> None:
    first, second = two()
    body = get(first, address(first, second).replace("compare/", f"compare.{fmt}"))
    rows = list(csv.DictReader(io.StringIO(body))) if fmt == "csv" else json.loads(body)["rows"]
    assert len(rows) == 2 * 3 * 4
    row = rows[0]
    assert (row["measure"], row["unit"], row["class_name"], str(row["setting"])) == (
        "good_per_min",
        "a minute",
        "short",
        "1",
    )
    assert (row["left_room"], row["right_power"]) == ("Room 1, ground floor, 21 °C", "Mains")
    assert row["left_date"].startswith("14 Nov 2026")
    assert row["left_hardware"] == row["right_hardware"] == "Host without GPU, 2 cores"
    assert (str(row["left_grid"]), str(row["right_grid"])) == (str(first.pk), str(second.pk))
    assert row["words"].startswith("no clear difference")


def test_a_percentile_among_failures_is_a_word_in_the_file() -> None:
    first, second = two(settings=(1,), repeats=2, of=lambda cell: stored.summary_of(cell, failed=30))
    body = get(first, address(first, second).replace("compare/", "compare.json"))
    row = next(row for row in json.loads(body)["rows"] if row["measure"] == "e2e_p95_s")
    assert (row["right_value"], row["words"]) == ("inf", "not comparable: it falls among failed requests")
    assert 'among failures<span class="hr-sub-l">n = 60 in 2 repeats</span>' in get(first, address(first, second))


def test_with_fewer_than_two_the_page_asks_and_offers_what_is_measured() -> None:
    first, second = two()
    draft = factories.make_grid(first.runtime, first.workload, first.drawn_by)
    html = get(first, reverse("compare"))
    assert "Choose two grids: the second is compared with the first" in html
    assert f'<option value="{second.pk}">' in html
    assert f'<option value="{draft.pk}">' not in html
    assert f'<option value="{first.pk}" selected>' in get(first, address(first))
    assert "That is the same grid twice." in get(first, address(first, first))


def test_without_a_measured_grid_the_page_says_so() -> None:
    grid = factories.make_grid()
    html = get(grid, reverse("compare"))
    assert "No grid has a measured cell yet." in html
    assert "<form" not in html[html.index("<h1>") :]


def test_a_planned_grid_beside_a_measured_one_says_what_is_missing() -> None:
    first, _ = two()
    draft = factories.make_grid(first.runtime, first.workload, first.drawn_by, settings=[1], limits=made.limits())
    assert f"Not measured in grid {draft.pk}." in get(first, address(first, draft))


@pytest.mark.parametrize("path", [reverse("compare"), "/compare.csv", "/compare.json"])
def test_grids_of_another_team_and_what_is_no_grid_are_not_found(path: str) -> None:
    first, second = two()
    foreign = factories.make_grid()
    for told in (
        f"grid={first.pk}&grid={foreign.pk}",
        "grid=x&grid=2",
        "grid=1&grid=2&grid=3",
        f"grid={first.pk}&grid=0",
    ):
        get(first, f"{path}?{told}", status=404)
    get(second, f"/compare.csv?grid={first.pk}&grid={first.pk}", status=404)


def test_the_page_asks_the_database_as_often_for_eight_cells_as_for_two() -> None:
    counts = []
    for settings in ((1,), (1, 2, 4, 8)):
        first, second = two(settings=settings)
        viewer = factories.make_user(first.team, Role.VIEWER)
        client = Client()
        client.force_login(viewer)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address(first, second)).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1] <= MOST_QUERIES


def test_the_list_and_the_result_lead_to_the_comparison() -> None:
    first, _ = two()
    assert f'href="{reverse("compare")}"' in get(first, reverse("grid-list"))
    assert f'href="{address(first)}"' in get(first, first.get_absolute_url())


def test_the_result_page_shows_every_check_of_every_setting_folded() -> None:
    first, _ = two()
    html = get(first, first.get_absolute_url())
    panel = html[html.index('aria-labelledby="h-checks"') :].partition("</section>")[0]
    assert "22 checks: 8 hold, 2 not applicable, 12 not reported.</span></summary>" in panel
    assert "<details>" in panel
    assert panel.count("<tr>") == 23


@pytest.mark.parametrize("fmt", ["csv", "json"])
def test_the_checks_are_files_too_with_hardware_room_power_and_date(fmt: str) -> None:
    first, _ = two(settings=(4,))
    body = get(first, reverse("grid-checks", args=[first.pk, fmt]))
    rows = list(csv.DictReader(io.StringIO(body))) if fmt == "csv" else json.loads(body)["rows"]
    by_check = {row["check"]: row for row in rows}
    assert by_check["client"]["answer"] == "holds"
    assert by_check["rate"]["answer"] == "not applicable"
    assert (by_check["steady"]["power"], by_check["steady"]["room"]) == ("Mains", "Room 1, ground floor, 21 °C")
    get(first, reverse("grid-checks", args=[factories.make_grid().pk, fmt]), status=404)


def test_the_checks_of_a_proposed_setting_are_kept_with_its_choice() -> None:
    objective = factories.make_objective()
    runtime = factories.make_runtime(factories.make_hardware(objective.team))
    drawn = factories.make_grid(runtime, settings=[4], limits=made.limits(), objective_digest=objective.digest)
    choice = propose(grid=stored.measure(drawn), setting=4, reason="Best", by=drawn.drawn_by)
    choice.refresh_from_db()
    kept = {check["key"]: check["answer"] for check in choice.verdict["checks"]}
    assert (len(kept), kept["conservation"], kept["rate"]) == (11, "holds", "not applicable")


def conditions_check(grid: Grid, setting: int) -> tuple[Answer, str]:
    row = result_of(grid).verdict.row(setting)
    assert row is not None
    return next((check.answer, check.evidence) for check in row.checks if check.key == "conditions")


def test_what_a_worker_read_differently_spoils_the_setting_it_was_read_at() -> None:
    first, _ = two()
    owner = factories.make_user(first.team, Role.HOST_OWNER)
    leave = Authorization.objects.create(
        grid=first, grid_digest=first.digest, requested_by=first.drawn_by, authorized_by=owner,
        target=first.runtime.endpoint, valid_from=stored.STARTED, valid_until=stored.STARTED + timedelta(hours=1),
        max_concurrency=8, max_requests=10_000, max_tokens=1_000_000, max_minutes=60,
    )  # fmt: skip
    for cell in first.cells.all():
        told = {"differs": ["power source was grid, is generator"]} if cell.setting == 4 else {"differs": []}
        Attempt.objects.create(
            cell=cell, number=1, authorization=leave, worker="w", started_at=stored.STARTED, conditions=told
        )  # fmt: skip
    assert conditions_check(first, 1)[0] == Answer.NOT_REPORTED
    assert conditions_check(first, 4) == (
        Answer.FAILS,
        "Not as with the first cell: power source was grid, is generator.",
    )


@pytest.mark.parametrize(
    ("after_c", "answer", "words"),
    [
        (25.0, Answer.HOLDS, "Power, room, parts and runtime were as with the first cell."),
        (27.5, Answer.FAILS, "Not as with the first cell: room was 21.0 °C, is 27.5 °C."),
    ],
)
def test_a_room_that_got_warmer_by_more_than_five_degrees_spoils_the_grid(
    after_c: float, answer: Answer, words: str
) -> None:
    first, _ = two()
    before = first.conditions.get()
    Conditions.objects.create(
        grid=first, phase="after", ambient_c=after_c, room=before.room, power_source="grid", at=stored.STARTED,
        recorded_by=before.recorded_by,
    )  # fmt: skip
    assert conditions_check(first, 1) == (answer, words)
