"""Every list: filters, order, pages and columns stand in the address; its files are exactly the rows that it shows."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks import tasks, triggers
from benchmarks.facts import fresh_since, worker_state
from benchmarks.listing import PER_PAGE, plain
from benchmarks.models import Event, Grid, GridFigures, Hardware, Role, Team
from tests import factories
from tests.benchmarks.runs.made import INFINITE, claim, record, running_grid, summary
from tests.benchmarks.runs.protected import authorized, decided, make_choice, make_statement
from tests.factories import make_grid, make_hardware, make_objective, make_runtime, make_team, make_user, make_workload

pytestmark = pytest.mark.django_db

LISTS = {
    "hardware-list": "hosts",
    "runtime-list": "runtimes",
    "workload-list": "workloads",
    "objective-list": "objectives",
    "grid-list": "grids",
    "authorization-list": "authorisations",
    "choice-list": "approvals",
    "statement-list": "statements",
    "audit-list": "events",
}
# What a list asks the database beside what every page asks; on the page of approvals more stands than its list.
QUERIES = {
    "hardware-list": 3, "runtime-list": 4, "workload-list": 3, "objective-list": 3, "grid-list": 8, "authorization-list": 5,
    "statement-list": 4, "audit-list": 5,
}  # fmt: skip


@pytest.fixture
def team() -> Team:
    return make_team()


@pytest.fixture
def viewer(client: Client, team: Team) -> User:
    user = make_user(team, Role.VIEWER)
    client.force_login(user)
    return user


def shown(client: Client, name: str, **values: object) -> str:
    answer = client.get(reverse(name), values)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def rows(client: Client, name: str, **values: object) -> list[dict[str, Any]]:
    found = json.loads(client.get(reverse(name), {**values, "format": "json"}).getvalue())
    listed: list[dict[str, Any]] = found[LISTS[name]]
    return listed


def sheet(client: Client, name: str, **values: object) -> list[dict[str, str]]:
    text = client.get(reverse(name), {**values, "format": "csv"}).getvalue().decode("utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def one_of_each(team: Team) -> Grid:
    """A grid with all that it stands on; each call adds one row to most lists."""
    make_objective(team)
    return make_grid(make_runtime(make_hardware(team)), make_workload(team))


def stated(team: Team, number: int) -> None:
    """One more row in each list: a grid from its host to its statement, and a draft."""
    grid = one_of_each(team)
    leave = authorized(grid)
    choice = make_choice(grid, make_user(team, Role.OPERATOR))
    decided(choice, make_user(team, Role.APPROVER))
    make_statement(choice, leave, f"CS-2026-00{number}")
    one_of_each(team)


# --- what all lists do alike -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LISTS)
def test_an_empty_list_says_so_and_hands_out_a_file_with_its_columns(client: Client, viewer: User, name: str) -> None:
    assert 'class="hr-empty"' in shown(client, name)
    assert rows(client, name) == []
    head = client.get(reverse(name), {"format": "csv"}).getvalue().decode().strip().split(",")
    assert all(column == column.lower() and " " not in column for column in head)
    assert len(set(head)) == len(head) > 5


@pytest.mark.parametrize("name", LISTS)
def test_a_list_in_which_nothing_matches_offers_to_clear_the_filters(
    client: Client, viewer: User, team: Team, name: str
) -> None:
    one_of_each(team)
    text = shown(client, name, q="no such thing")
    assert ("Nothing matches" in text, f'href="{reverse(name)}"' in text) == (True, True)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"sort": "nonsense"}, "no column “nonsense” to sort by"),
        ({"columns": "nonsense"}, "no column “nonsense”"),
        ({"page": "x"}, "“x” is no page"),
        ({"q": "x" * 500}, "This filter was left out"),
        ({"q": "\0"}, "This filter was left out"),
    ],
)
def test_what_is_not_understood_is_said_and_the_list_still_stands(
    client: Client, viewer: User, name: str, values: dict[str, str], said: str
) -> None:
    assert said in shown(client, name, **values)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(
    "values", [{"format": "xml"}, {"format": "csv", "sort": "nonsense"}, {"format": "json", "q": "\0"}]
)
def test_no_file_is_made_of_an_address_that_is_not_understood(
    client: Client, viewer: User, name: str, values: dict[str, str]
) -> None:
    answer = client.get(reverse(name), values)
    assert (answer.status_code, answer["Content-Type"]) == (422, "text/plain; charset=utf-8")


@pytest.mark.parametrize("name", LISTS)
def test_every_column_can_be_chosen_and_every_sortable_one_sorts_both_ways(
    client: Client, viewer: User, team: Team, name: str
) -> None:
    one_of_each(team)
    one_of_each(team)
    listing = client.get(reverse(name)).context["list"]
    every = [name for name, _label, _shown in listing.columns]
    whole = client.get(reverse(name), {"columns": every}).context["list"]
    assert [name for name, _label, chosen in whole.columns if chosen] == every
    for column, found in listing.table.base_columns.items():
        for way in ("", "-") if found.orderable is not False else ():
            answer = client.get(reverse(name), {"sort": f"{way}{column}", "columns": every})
            assert (answer.status_code, answer.context["list"].notes) == (200, []), (column, way)


@pytest.mark.parametrize("name", QUERIES)
def test_a_list_costs_these_queries_for_one_row_and_for_three(
    client: Client, viewer: User, team: Team, name: str, django_assert_num_queries: Any
) -> None:
    stated(team, 1)
    around = _around(client)
    with django_assert_num_queries(QUERIES[name] + around):
        client.get(reverse(name))
    stated(team, 2)
    stated(team, 3)
    with django_assert_num_queries(QUERIES[name] + around):
        client.get(reverse(name))


def _around(client: Client) -> int:
    """What every page of a signed-in person asks, measured on a page without a list of its own."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        client.get(reverse("docs"))
    return len(captured)


@pytest.mark.parametrize("name", ["hardware-list", "grid-list", "audit-list"])
def test_the_pages_of_a_list_hold_each_row_once_and_its_file_holds_all(
    client: Client, viewer: User, team: Team, name: str
) -> None:
    runtime, workload = make_runtime(make_hardware(team)), make_workload(team)
    for _ in range(PER_PAGE + 3):
        make_grid(runtime, workload, viewer)
        make_hardware(team)
    seen: list[int] = []
    for page in range(1, 10):
        listing = client.get(
            reverse(name), {"page": page, "sort": "-name" if name != "audit-list" else "what"}
        ).context["list"]
        seen += [row.record.pk for row in listing.rows]
        if not listing.page.has_next():
            break
    assert len(seen) == len(set(seen)) == len(rows(client, name))


def test_filters_order_and_columns_are_carried_along_by_each_other(client: Client, viewer: User, team: Team) -> None:
    one_of_each(team)
    text = shown(client, "hardware-list", q="h", sort="-grids", columns=["gpu", "place"])
    assert '<input type="hidden" name="sort" value="-grids">' in text
    assert '<input type="hidden" name="columns" value="gpu">' in text
    assert 'aria-sort="descending"' not in text, "the column that sorts is not shown, so no head says it"
    assert ("Power cap</a>" in text, "Place</a>" in text) == (False, True)
    assert "?q=h&amp;sort=-grids&amp;columns=gpu&amp;columns=place&amp;format=csv" in text


def test_a_filter_that_holds_is_named_and_can_be_taken_away_alone(client: Client, viewer: User, team: Team) -> None:
    grid = one_of_each(team)
    text = shown(client, "grid-list", host=grid.hardware.slug, status="draft")
    assert f"Host: <b>{grid.hardware.name}</b>" in text
    assert f'<a class="hr-lchip" href="?host={grid.hardware.slug}">' in text
    assert '<a class="hr-lchip" href="?status=draft">' in text


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (INFINITE, "inf"), (float("nan"), None), (0.0, 0.0), (None, None), ([1, 2], "1 2"), (("a",), "a"), (True, True),
        (datetime(2026, 11, 14, 10, 2, tzinfo=timezone.get_fixed_timezone(300)), "2026-11-14T10:02:00+05:00"),
    ],
)  # fmt: skip
def test_values_of_a_file_are_plain_and_a_time_has_its_offset(value: Any, kept: Any) -> None:
    assert plain(value) == kept


def test_a_sheet_has_the_mark_that_spreadsheets_want_only_where_it_is_asked_for(client: Client, viewer: User) -> None:
    def start(**values: str) -> bytes:
        return client.get(reverse("hardware-list"), {"format": "csv", **values}).getvalue()[:3]

    assert (start(), start(bom="1")) == (b"hos", b"\xef\xbb\xbf")


def test_csv_and_json_have_the_same_rows_and_columns_as_the_filter_lets_through(
    client: Client, viewer: User, team: Team
) -> None:
    make_hardware(team, name="=SUM(A1)", gpu="L4", gpu_count=2)
    make_hardware(team, name="Other")
    [wanted] = rows(client, "hardware-list", gpu="yes")
    [line] = sheet(client, "hardware-list", gpu="yes")
    assert list(line) == list(wanted)
    assert (wanted["name"], line["name"], wanted["gpu_count"], line["gpu_count"]) == ("=SUM(A1)", "'=SUM(A1)", 2, "2")
    assert (wanted["ram_gib"] is None) == (line["ram_gib"] == "")


# --- grids -----------------------------------------------------------------------------------------------------------


def _measured(team: Team, *, p95_s: float = 0.5, **fields: Any) -> Grid:
    grid = running_grid(runtime=make_runtime(make_hardware(team)), settings=(1,), class_names=("short",), **fields)
    record(claim(grid), summary(p95_s=p95_s))
    return Grid.objects.get(pk=grid.pk)


def test_the_list_of_grids_is_narrowed_by_each_of_its_filters(client: Client, viewer: User, team: Team) -> None:
    old = _measured(team, name="Old")
    new = make_grid(make_runtime(make_hardware(team)), conditions=factories.make_room(power_source="ups"), name="New")

    def names(**values: object) -> list[str]:
        return [row["name"] for row in rows(client, "grid-list", **values)]

    assert names() == ["New", "Old"]
    assert names(sort="drawn") == ["Old", "New"]
    assert names(host=old.hardware.slug) == ["Old"]
    assert names(workload=new.workload.slug) == ["New"]
    assert names(status="measured") == ["Old"]
    assert names(power="ups") == ["New"]
    assert names(since=timezone.localdate().isoformat()) == ["New", "Old"]
    assert names(since=(timezone.localdate() + timedelta(days=1)).isoformat()) == []
    assert names(band="none") == ["New", "Old"]
    assert names(band="complete") == []
    assert names(q="ol") == ["Old"]


def test_grids_are_sorted_by_what_was_measured_and_unknown_comes_last_both_ways(
    client: Client, viewer: User, team: Team
) -> None:
    for name, p95_s in (("Mild", 0.5), ("Bad", INFINITE), ("Near", 1.9)):
        _measured(team, p95_s=p95_s, name=name)
    make_grid(make_runtime(make_hardware(team)), name="Draft")
    tasks.keep_figures()

    def names(sort: str) -> list[str]:
        return [row["name"] for row in rows(client, "grid-list", sort=sort)]

    assert (names("ratio"), names("-ratio")) == (["Mild", "Near", "Bad", "Draft"], ["Bad", "Near", "Mild", "Draft"])


def test_figures_of_an_ended_grid_are_kept_by_the_scheduler_and_again_when_it_went_on(
    client: Client, viewer: User, team: Team
) -> None:
    grid = _measured(team)
    first = rows(client, "grid-list")
    assert not GridFigures.objects.exists(), "a page keeps nothing"
    tasks.keep_figures()
    kept = GridFigures.objects.get(grid=grid)
    assert (kept.version, kept.cells_measured, kept.cells_total) == (grid.progress_version, 1, 1)
    assert rows(client, "grid-list") == first
    GridFigures.objects.update(cells_total=7)
    assert rows(client, "grid-list")[0]["cells_total"] == 7, "kept figures are shown as they are kept"
    Grid.objects.update(progress_version=grid.progress_version + 1)
    assert rows(client, "grid-list") == first
    tasks.keep_figures()
    kept.refresh_from_db()
    assert (kept.version, kept.cells_total) == (grid.progress_version + 1, 1)


def test_a_damaged_summary_leaves_its_own_grid_without_figures_and_no_other(
    client: Client, viewer: User, team: Team
) -> None:
    damaged, whole = _measured(team), _measured(team)
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER headroom_measured_cell")
    damaged.cells.update(summary={"setting": "four"})
    triggers.reinstall()
    tasks.keep_figures()
    kept = {one.grid_id: (one.worst_ratio is None, one.cells_total) for one in GridFigures.objects.all()}
    assert kept == {damaged.pk: (True, 1), whole.pk: (False, 1)}


def test_a_grid_that_runs_or_waits_keeps_no_figures(client: Client, viewer: User, team: Team) -> None:
    running_grid(runtime=make_runtime(make_hardware(team)), settings=(1,), class_names=("short",))
    tasks.keep_figures()
    assert rows(client, "grid-list")[0]["cells_total"] == 1
    assert not GridFigures.objects.exists()


def test_the_list_says_how_many_run_and_how_many_wait(client: Client, viewer: User, team: Team) -> None:
    make_grid(make_runtime(make_hardware(team)))
    running = make_grid(make_runtime(make_hardware(team)))
    Grid.objects.filter(pk=running.pk).update(status=Grid.Status.RUNNING)
    assert "2 grids, 1 running, 1 waits for its authorisation" in shown(client, "grid-list")


def test_two_ticked_grids_go_to_be_compared_and_any_other_number_is_told(
    client: Client, viewer: User, team: Team
) -> None:
    one, two, three = (_measured(team).pk for _ in range(3))

    def ticked(*picked: int) -> Any:
        return client.get(reverse("grid-list"), {"grid": picked, "compare": "1", "status": "measured"})

    assert ticked(two, one).url == f"{reverse('compare')}?grid={one}&grid={two}"
    for picked in ((), (one,), (one, two, three)):
        answer = ticked(*picked)
        assert answer.url == f"{reverse('grid-list')}?status=measured"
        assert f"Two grids are compared; {len(picked)} are ticked" in client.get(answer.url).content.decode()


def test_only_what_has_something_measured_can_be_ticked(client: Client, viewer: User, team: Team) -> None:
    measured = _measured(team)
    make_grid(make_runtime(make_hardware(team)))
    text = shown(client, "grid-list")
    assert (text.count("data-pick"), f'value="{measured.pk}" form="tray"' in text) == (1, True)


def test_a_grid_shows_what_was_proposed_of_it_and_is_found_by_its_grade(
    client: Client, viewer: User, team: Team
) -> None:
    grid = _measured(team, name="Proposed")
    proposer = make_user(team, Role.OPERATOR)
    make_choice(grid, proposer, setting=4, grade="needs revision", verdict={"good_per_min": 31.25})
    make_choice(_measured(team), proposer, setting=None, grade="no safe setting found", verdict={"good_per_min": None})
    [row] = rows(client, "grid-list", band="needs revision")
    assert [row[name] for name in ("setting", "grade", "decision", "good_per_min")] == [
        4,
        "needs revision",
        "proposed",
        31.25,
    ]
    by_rate = {"sort": "-rate", "columns": ["name", "setting", "rate", "grade"]}
    text = shown(client, "grid-list", **by_rate)
    assert ("4 in flight" in text, "31.2" in text, "No safe setting" in text) == (True, True, True)
    assert [found["setting"] for found in rows(client, "grid-list", **by_rate)] == [4, None]


# --- registry --------------------------------------------------------------------------------------------------------


def test_of_what_has_versions_the_newest_is_listed_unless_all_are_asked_for(
    client: Client, viewer: User, team: Team
) -> None:
    for name, made in (
        ("runtime-list", [make_runtime(make_hardware(team), slug="same", version=v) for v in (1, 2)]),
        ("workload-list", [make_workload(team, slug="same", version=v) for v in (1, 2)]),
        ("objective-list", [make_objective(team, slug="same", version=v) for v in (1, 2)]),
    ):
        assert [row["version"] for row in rows(client, name)] == [2], name
        assert sorted(row["version"] for row in rows(client, name, versions="all")) == [1, 2], name
        assert len(made) == 2


def test_hosts_are_told_apart_by_their_workers(client: Client, viewer: User, team: Team) -> None:
    for name, seen in (("Now", timezone.now()), ("Late", timezone.now() - timedelta(days=1)), ("Never", None)):
        make_hardware(team, name=name, worker_seen_at=seen)
    found = {
        state: [row["name"] for row in rows(client, "hardware-list", worker=state)]
        for state in ("running", "late", "never")
    }
    assert found == {"running": ["Now"], "late": ["Late"], "never": ["Never"]}
    assert "3 hosts, 1 with a running worker" in shown(client, "hardware-list")


def test_counts_of_a_host_are_not_multiplied_by_each_other(client: Client, viewer: User, team: Team) -> None:
    host = make_hardware(team)
    for runtime in (make_runtime(host), make_runtime(host)):
        for _ in range(3):
            make_grid(runtime)
    [row] = rows(client, "hardware-list")
    assert (row["runtimes"], row["grids"], row["grids_running"]) == (2, 6, 0)


def test_events_are_found_by_person_subject_and_day(client: Client, viewer: User, team: Team) -> None:
    make_grid(make_runtime(make_hardware(team)), drawn_by=viewer)
    [grid] = Grid.objects.all()
    today = timezone.localdate().isoformat()
    assert {row["subject"] for row in rows(client, "audit-list", subject=f"grid {grid.pk}")} == {f"grid {grid.pk}"}
    assert rows(client, "audit-list", actor="nobody") == []
    assert len(rows(client, "audit-list", since=today, until=today)) == Event.objects.filter(team=team).count()


def test_a_host_never_changes_its_short_name_so_its_address_stands(client: Client, team: Team) -> None:
    client.force_login(make_user(team, Role.HOST_OWNER))
    host = make_hardware(team, slug="lhr-gpu-01")
    client.post(reverse("hardware-edit", args=[host.slug]), {"name": "A new name", "slug": "another", "gpu_count": "0"})
    assert list(Hardware.objects.values_list("slug", "name")) == [("lhr-gpu-01", "A new name")]


@pytest.mark.parametrize(("ago_s", "running"), [(59, True), (61, False)])
def test_the_list_and_the_host_agree_on_which_worker_runs_and_it_is_asked_in_time(
    client: Client, viewer: User, team: Team, ago_s: int, running: bool
) -> None:
    host = make_hardware(team)
    Hardware.objects.filter(pk=host.pk).update(worker_seen_at=timezone.now() - timedelta(seconds=ago_s))
    host.refresh_from_db()
    assert (worker_state(host).kind == "ok") is running
    assert len(rows(client, "hardware-list", worker="running" if running else "late")) == 1
    now = timezone.now()
    assert now - fresh_since(now) >= 2 * tasks.SEEN_EVERY
