"""One field over everything a team has, and over nothing else."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.models import Role
from tests.factories import make_grid, make_hardware, make_runtime, make_team, make_user, make_workload

pytestmark = pytest.mark.django_db
QUERIES = 10
"""Session, person and memberships 3, the side bar 1, and one of each of the six kinds."""


def found(user: User, words: str) -> str:
    client = Client()
    client.force_login(user)
    answer = client.get(f"/search/?q={quote(words)}")
    assert answer.status_code == 200
    html = answer.content.decode()
    return html[html.index("<h1>") :]


def test_every_kind_is_found_by_a_part_of_its_name() -> None:
    host = make_hardware(name="Lahore rack", gpu="RTX 4090")
    runtime = make_runtime(host, name="Chat server", model_name="qwen-14b")
    grid = make_grid(runtime, make_workload(host.team, name="Support mix"))
    viewer = make_user(host.team, Role.VIEWER)
    assert 'href="/hosts/' in found(viewer, "4090")
    assert 'href="/runtimes/' in found(viewer, "QWEN")
    assert 'href="/workloads/' in found(viewer, "support MIX")
    assert f'href="{grid.get_absolute_url()}"' in found(viewer, "lahore")
    assert f'href="{grid.get_absolute_url()}"' in found(viewer, f"grid {grid.pk}")
    assert 'href="/docs/' in found(viewer, "goodput")


def test_every_word_must_be_found() -> None:
    host = make_hardware(name="Lahore rack")
    viewer = make_user(host.team, Role.VIEWER)
    assert "/hosts/" in found(viewer, "lahore rack")
    assert "/hosts/" not in found(viewer, "lahore cellar")
    assert "Nothing of this team has “lahore cellar”" in found(viewer, "lahore cellar")


def test_another_teams_rows_are_never_found() -> None:
    grid = make_grid()
    stranger = make_user(make_team("Other"), Role.OPERATOR)
    for words in (grid.name, str(grid.pk), grid.hardware.name):
        assert grid.get_absolute_url() not in found(stranger, words)


@pytest.mark.parametrize("words", ["", "   ", "%", "' OR 1=1", "<script>", "9" * 30, "\x00"])
def test_odd_words_find_nothing_and_break_nothing(words: str) -> None:
    html = found(make_user(make_team(), Role.VIEWER), words)
    assert "<script>" not in html.partition("<footer")[0].partition("htmx")[0]


def test_of_many_hits_the_page_shows_some_and_says_that_there_are_more() -> None:
    team = make_team()
    for number in range(9):
        make_hardware(team, name=f"Rack {number}")
    html = found(make_user(team, Role.VIEWER), "rack")
    assert html.count('class="hr-main-l" href="/hosts/') == 8
    assert "There are more" in html


@pytest.mark.parametrize("hosts", [1, 3])
def test_a_search_costs_the_same_for_one_hit_and_for_three(hosts: int) -> None:
    team = make_team()
    for number in range(hosts):
        make_grid(make_runtime(make_hardware(team, name=f"Rack {number}")))
    client = Client()
    client.force_login(make_user(team, Role.VIEWER))
    with CaptureQueriesContext(connection) as queries:
        client.get("/search/?q=rack")
    assert len(queries) == QUERIES


def test_the_field_stands_on_every_page_for_who_is_signed_in_and_on_none_for_a_stranger() -> None:
    client = Client()
    assert 'action="/search/"' not in client.get("/login/").content.decode()
    client.force_login(make_user(make_team(), Role.VIEWER))
    for path in ("/", "/docs/", "/grids/", "/v/"):
        html = client.get(path).content.decode()
        assert html.count('action="/search/"') == 1
        assert 'aria-label="Search"' in html
