"""The first page: what broke, what waits for the person who looks, what stands; and the frame of every page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from benchmarks import tasks
from benchmarks.models import Cell, Grid, Hardware, HardwareProbe, Role, Runtime
from capacity import approvals
from capacity.models import Statement
from capacity.standing import Change, standing
from capacity.statement.keys import make_keyset
from tests.capacity.stored import measure
from tests.capacity.synthetic import limits
from tests.capacity.test_approvals import Office
from tests.factories import make_grid, make_team, make_user

pytestmark = pytest.mark.django_db
QUERIES = 19
"""Session, person and memberships 3, the side bar 1, and 15 of the page; the same however many rows there are."""


@pytest.fixture
def keys(settings: object, tmp_path: Path) -> Path:
    settings.KEYS_DIR = tmp_path  # type: ignore[attr-defined]
    make_keyset(tmp_path, name="demonstration", demonstration=True, now=datetime.now(UTC))
    return tmp_path


def page(user: User, path: str = "/", *, status: int = 200) -> str:
    client = Client()
    client.force_login(user)
    answer = client.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def again(office: Office) -> Grid:
    """Another grid of the same runtime and workload."""
    return make_grid(
        office.runtime, office.grid.workload, office.operator, limits=limits(),
        objective_digest=office.objective.digest, objective_set_at=office.set_at,
    )  # fmt: skip


def stated(office: Office, *, days: int = 90) -> Statement:
    choice = office.approved()
    return approvals.issue_statement(choice=choice, by=office.signer, title="Chat", valid_days=days)


def test_what_waits_for_the_person_has_their_step_and_the_others_only_look() -> None:
    office = Office()
    office.proposed()
    mine, others = page(office.approver), page(office.signer)
    assert "4 requests in flight: proposed for" in mine
    assert mine.count(">Review<") == 1
    assert ">Review<" not in others
    assert ">Look at it<" in others


def test_a_statement_that_ends_soon_says_when_and_what_measuring_again_costs(keys: Path) -> None:
    office = Office()
    statement = stated(office, days=6)
    html = page(office.operator)
    assert f"The statement about {office.grid.name} ends in 6 days" in html
    assert f"{statement.number} is valid until" in html
    cells = office.grid.cells.filter(probe="").count()
    assert f"A re-test is {cells} cells, about" in html
    assert f'href="{reverse("grid-new")}?from={office.grid.pk}">Plan re-test' in html


@pytest.mark.parametrize(("days", "told"), [(14, True), (15, False)])
def test_only_the_last_fourteen_days_are_told(keys: Path, days: int, told: bool) -> None:
    office = Office()
    stated(office, days=days)
    assert (" ends in 14 days" in page(office.operator)) is told


def test_a_driver_that_changed_after_the_approval_is_told_with_both_values() -> None:
    office = Office()
    card = {"name": "L4", "uuid": "GPU-1", "driver": "570.124"}
    office.grid.probe = _read(office.grid, card)
    office.grid.save(update_fields=["probe"])
    office.approved()
    assert standing(office.team.pk)[0].changed == ()
    _read(office.grid, card | {"driver": "575.57"})
    assert standing(office.team.pk)[0].changed == (Change("GPU driver", "GPU driver was 570.124 and is 575.57."),)
    html = page(office.operator)
    assert f"GPU driver changed on {office.grid.hardware.name}" in html
    rests = f"The approval of {office.grid.name} rests on what was there before."
    assert f"GPU driver was 570.124 and is 575.57. {rests}" in html
    Hardware.objects.filter(pk=office.grid.hardware_id).update(worker_seen_at=timezone.now())
    row = page(office.operator).partition('id="h-hosts"')[2].partition("</section>")[0]
    assert "Idle. GPU driver changed since it was measured." in row
    assert '<span class="hr-t-warn">GPU driver changed</span>' in html


def test_what_the_later_reading_could_not_say_is_no_change() -> None:
    office = Office()
    office.grid.probe = _read(office.grid, {"name": "L4", "uuid": "GPU-1", "driver": "570.124"})
    office.grid.save(update_fields=["probe"])
    office.approved()
    _read(office.grid, {"name": "L4", "uuid": "GPU-1", "driver": "not reported"})
    assert standing(office.team.pk)[0].changed == ()


def test_a_newer_registration_of_the_runtime_is_a_change() -> None:
    office = Office()
    office.approved()
    old = office.runtime
    Runtime.objects.create(
        team=old.team, slug=old.slug, version=2, name=old.name, kind=old.kind, hardware=old.hardware,
        endpoint=old.endpoint, model_name="another", digest="1" * 64,
    )  # fmt: skip
    assert standing(office.team.pk)[0].changed == (
        Change("The registration", "Simulated runtime is registered as version 2; version 1 was measured."),
    )


def _read(grid: Grid, card: dict[str, str]) -> HardwareProbe:
    facts = {"host": "h", "cpu": "2 cores", "gpus": [card]}
    return HardwareProbe.objects.create(
        hardware=grid.hardware, at=timezone.now(), worker="w", facts=facts, digest="0" * 64
    )


def test_a_grid_that_a_guard_stopped_stays_until_it_is_measured_again() -> None:
    office = Office()
    drawn = office.drawn()
    Grid.objects.filter(pk=drawn.pk).update(status=Grid.Status.STOPPED, stop_reason="The GPU reached 85 °C")
    first = drawn.cells.order_by("position").first()
    assert first is not None
    Cell.objects.filter(pk=first.pk).update(status=Cell.Status.STOPPED, reason="85 °C")
    html = page(office.operator)
    assert f"Grid {drawn.pk}, {drawn.name} was stopped at a limit" in html
    assert f"The GPU reached 85 °C. 0 of {drawn.cells.filter(probe='').count()} cells are kept." in html
    make_grid(office.runtime, drawn.workload, office.operator)
    assert "was stopped at a limit" not in page(office.operator)


@pytest.mark.parametrize(("minutes", "told"), [(0, False), (60, True)])
def test_a_silent_worker_is_told_only_where_work_waits(minutes: int, told: bool) -> None:
    office = Office()
    host = office.grid.hardware
    host.worker_seen_at = timezone.now() - timedelta(minutes=minutes)
    host.save(update_fields=["worker_seen_at"])
    words = f"The worker of {host.name} does not call"
    assert words not in page(office.operator)
    waiting = office.drawn()
    waiting.cells.update(status=Cell.Status.QUEUED)
    assert (words in page(office.operator)) is told


def test_an_approved_setting_stands_with_its_distance_to_both_limits_and_its_last_day(keys: Path) -> None:
    office = Office()
    statement = stated(office)
    html = page(office.operator)
    row = html[html.index('id="h-approved"') :].partition("</section>")[0]
    assert "4 in flight" in row
    assert row.count('class="hr-bar') >= 1
    assert f'<a href="{statement.get_absolute_url()}">' in row
    assert "by approver" in row


def test_a_newer_approval_of_the_same_service_takes_the_place_of_the_older() -> None:
    office = Office()
    office.approved()
    later = again(office)
    office.authorize(later, office.owner)
    office.grid = measure(later)
    newest = office.approved()
    assert [one.choice.pk for one in standing(office.team.pk)] == [newest.pk]


def test_a_result_that_decides_nothing_is_told_until_a_later_one_of_the_service_is_decided() -> None:
    office = Office()
    words = f"Grid {office.grid.pk}, {office.grid.name} is measured, nothing is proposed yet"
    assert words in page(office.operator)
    later = again(office)
    office.authorize(later, office.owner)
    office.grid = measure(later)
    assert words in page(office.operator)
    office.proposed()
    assert words not in page(office.operator)


def test_a_host_that_runs_says_which_cell_and_how_warm_it_is() -> None:
    office = Office()
    grid = office.drawn()
    Grid.objects.filter(pk=grid.pk).update(status=Grid.Status.RUNNING)
    Hardware.objects.filter(pk=grid.hardware_id).update(worker_seen_at=timezone.now())
    first, second = grid.cells.filter(probe="").order_by("position")[:2]
    grid.cells.filter(pk=first.pk).update(status=Cell.Status.NOT_RUN)
    readings = {"readings": {"gpu_temperature_c": 70.6}}
    grid.cells.filter(pk=second.pk).update(status=Cell.Status.RUNNING, progress=readings)
    html = page(office.operator)
    row = html[html.index('id="h-hosts"') :].partition("</section>")[0]
    assert f"Runs grid {grid.pk}, cell 2 of {grid.cells.filter(probe='').count()}." in row
    assert "71&nbsp;°C" in row
    grid.cells.filter(pk=second.pk).update(progress={})
    assert "°C" not in page(office.operator).partition('id="h-hosts"')[2].partition("</section>")[0]


def test_a_new_team_is_led_from_the_host_to_the_first_grid() -> None:
    team = make_team()
    html = page(make_user(team, Role.OPERATOR))
    assert "From nothing to the first grid" in html
    assert 'hr-b-p" href="/hosts/new/">Register a host</a>' in html
    assert "Needs attention" not in html
    watched = page(make_user(team, Role.VIEWER))
    assert watched.count("another role of the team") == 5


@pytest.mark.parametrize("grids", [1, 3])
def test_the_page_asks_the_database_as_often_for_three_grids_as_for_one(grids: int) -> None:
    office = Office()
    for _ in range(grids - 1):
        measure(office.drawn())
    office.approved()
    client = Client()
    client.force_login(office.operator)
    client.get("/")
    tasks.keep_figures()
    with CaptureQueriesContext(connection) as queries:
        assert client.get("/").status_code == 200
    assert len(queries) == QUERIES


def test_the_side_bar_counts_what_runs_and_what_waits_for_the_person_alone() -> None:
    office = Office()
    office.proposed()
    draft = office.drawn()
    Grid.objects.filter(pk=office.drawn().pk).update(status=Grid.Status.RUNNING)
    assert draft.status == Grid.Status.DRAFT
    waits = '<span class="hr-count hr-count-hot">1 <span class="hr-sr">waiting for you</span></span>'
    assert page(office.approver, "/docs/").count(waits) == 1
    assert page(office.owner, "/docs/").count(waits) == 1
    html = page(office.signer, "/docs/")
    assert "hr-count-hot" not in html
    assert '<span class="hr-count">1 running</span>' in html


def test_a_stranger_to_the_team_counts_nothing_of_it() -> None:
    office = Office()
    office.proposed()
    assert "hr-count" not in page(make_user(make_team("Other"), Role.APPROVER), "/docs/")


def test_the_menu_of_a_phone_opens_and_closes_without_scripts() -> None:
    html = page(make_user(make_team(), Role.VIEWER))
    assert '<a class="hr-iconb hr-burger" href="#side"' in html
    assert '<nav class="hr-side" id="side"' in html
    assert '<a class="hr-iconb hr-side-close" href="#main"' in html
    assert '<a class="hr-skip" href="#main">' in html


def test_a_simulated_grid_says_so_wherever_it_stands() -> None:
    grid = make_grid()
    html = page(make_user(grid.team, Role.VIEWER))
    row = html[html.index('id="h-grids"') :].partition("</section>")[0]
    assert "simulated" in row
