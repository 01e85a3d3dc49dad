"""The grid pages as people meet them: what they show, what they refuse, in words."""

import csv
import io
import json
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from benchmarks import claims, runs
from benchmarks.models import Authorization, Conditions, Grid
from benchmarks.records.modes import ClosedTerms, OpenTerms, SearchTerms, StaticTerms
from tests import factories
from tests.benchmarks.runs.made import INFINITE, claim, record, running_grid, states, summary

pytestmark = pytest.mark.django_db


@pytest.fixture
def team():
    return factories.make_team()


@pytest.fixture
def signed_in(client, team):
    def sign_in(*roles, user=None):
        client.force_login(user or factories.make_user(team, *roles))
        return client

    return sign_in


def _runtime(team, **fields):
    return factories.make_runtime(factories.make_hardware(team), **fields)


def _window():
    now = timezone.localtime()
    return {"valid_from": f"{now:%Y-%m-%dT%H:%M}", "valid_until": f"{now + timedelta(hours=2):%Y-%m-%dT%H:%M}"}


def _leave(**fields):
    return _window() | {
        "max_concurrency": 8, "max_requests": 1000, "max_tokens": 100_000, "max_minutes": 10, "password": factories.PASSWORD,
    } | fields  # fmt: skip


def test_a_host_owner_authorises_with_their_password(signed_in, team):
    grid = factories.make_grid(_runtime(team), settings=(1, 2), class_names=("short",))
    browser = signed_in("host_owner")
    page = browser.get(reverse("grid-authorize", args=[grid.pk]))
    assert grid.runtime.endpoint in page.content.decode()
    answer = browser.post(reverse("grid-authorize", args=[grid.pk]), _leave())
    assert (answer.status_code, answer.url) == (302, reverse("grid-live", args=[grid.pk]))
    assert states(grid) == ["queued", "queued"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"password": "something else"}, "not your password"),
        ({"password": ""}, "required"),
        ({"max_concurrency": 1}, "offers up to 2 at a time"),
        ({"valid_until": "2020-01-01T10:00"}, "must come after"),
        ({"valid_until": "2099-01-01T10:00"}, "At most seven days"),
        ({"max_requests": 0}, "greater than or equal to 1"),
    ],
)
def test_a_wrong_authorisation_is_refused_in_words_and_nothing_runs(signed_in, team, change, words):
    grid = factories.make_grid(_runtime(team), settings=(2,), class_names=("short",))
    answer = signed_in("host_owner").post(reverse("grid-authorize", args=[grid.pk]), _leave(**change))
    assert (answer.status_code, words in answer.content.decode()) == (422, True)
    assert (states(grid), Authorization.objects.count()) == (["planned"], 0)


def test_who_drew_the_grid_is_refused_in_the_form_even_with_the_role(signed_in, team):
    both = factories.make_user(team, "operator", "host_owner")
    grid = factories.make_grid(_runtime(team), drawn_by=both)
    browser = signed_in(user=both)
    page = browser.get(reverse("grid-authorize", args=[grid.pk])).content.decode()
    assert ("You drew this grid" in page, 'name="password"' in page) == (True, False)
    answer = browser.post(reverse("grid-authorize", args=[grid.pk]), _leave())
    assert (answer.status_code, Authorization.objects.count()) == (422, 0)


@pytest.mark.parametrize("phase", ["after", "before"])
@pytest.mark.parametrize("refused", [True, False])
def test_an_empty_post_is_judged_and_answered_in_words(signed_in, team, phase, refused):
    """Conditions before a run are refused once it started, those after it until then."""
    grid = factories.make_grid(_runtime(team), recorded=False)
    if (phase == "before") is refused:
        Grid.objects.filter(pk=grid.pk).update(started_at=timezone.now())
    answer = signed_in("operator").post(reverse("grid-conditions", args=[grid.pk, phase]), {})
    text = answer.content.decode()
    assert (answer.status_code, ("has started" in text or "has not started" in text)) == (422, refused)
    assert Conditions.objects.count() == 0


def test_an_empty_authorisation_is_refused_and_not_shown_as_if_nothing_was_sent(signed_in, team):
    grid = factories.make_grid(_runtime(team))
    answer = signed_in("host_owner").post(reverse("grid-authorize", args=[grid.pk]), {})
    assert (answer.status_code, "required" in answer.content.decode()) == (422, True)
    assert Authorization.objects.count() == 0


@pytest.mark.parametrize("name", ["grid-live", "grid-authorize", "grid-stop", "grid-resume", "grid-withdraw"])
def test_another_teams_grid_does_not_exist(signed_in, team, name):
    grid = running_grid()
    address = reverse(name, args=[grid.pk])
    browser = signed_in("operator", "host_owner", "administrator")
    ask = browser.get if name in ("grid-live", "grid-authorize") else browser.post
    assert ask(address).status_code == 404
    assert states(grid)[0] == "queued"


def test_the_live_page_polls_while_it_runs_and_not_after(signed_in, team):
    grid = running_grid(runtime=_runtime(team), settings=(1,), class_names=("short",))
    taken = claim(grid)
    claims.beat(
        claim=taken,
        progress={"phase": "window", "elapsed_s": 3.0, "finished": 12, "ok": 12, "in_flight": 1, "p50_e2e_s": 0.4},
    )
    browser, address = signed_in("viewer"), reverse("grid-live", args=[grid.pk])
    page = browser.get(address)
    text = page.content.decode()
    assert ('hx-trigger="every 2s"' in text, "12 requests finished" in text, "<html" in text) == (True, True, True)
    part = browser.get(address, headers={"HX-Request": "true"})
    assert ("<html" in part.content.decode(), "HX-Request" in part["Vary"]) == (False, True)
    same = browser.get(address, headers={"HX-Request": "true", "HX-PTag": part["HX-PTag"]})
    assert (same.status_code, same.content) == (304, b"")
    record(taken)
    ended = browser.get(address, headers={"HX-Request": "true", "HX-PTag": part["HX-PTag"]})
    assert (ended.status_code, "hx-trigger" in ended.content.decode()) == (200, False)


def test_a_poll_that_finds_nothing_new_costs_one_read_of_the_grid(signed_in, team, django_assert_max_num_queries):
    grid = running_grid(runtime=_runtime(team))
    browser, address = signed_in("viewer"), reverse("grid-live", args=[grid.pk])
    tag = browser.get(address, headers={"HX-Request": "true"})["HX-PTag"]
    with django_assert_max_num_queries(4):  # session, user, memberships, grid
        assert browser.get(address, headers={"HX-Request": "true", "HX-PTag": tag}).status_code == 304


@pytest.mark.parametrize(("roles", "stops"), [(("operator",), True), (("host_owner",), True), (("viewer",), False)])
def test_stop_is_a_plain_form_for_those_who_may(signed_in, team, roles, stops):
    grid = running_grid(runtime=_runtime(team))
    browser = signed_in(*roles)
    text = browser.get(reverse("grid-live", args=[grid.pk])).content.decode()
    assert (reverse("grid-stop", args=[grid.pk]) in text) is stops
    answer = browser.post(reverse("grid-stop", args=[grid.pk]), {"how": "drain"})
    assert answer.status_code == (302 if stops else 403)
    assert Grid.objects.get(pk=grid.pk).status == ("stopped" if stops else "authorized")


def test_stop_without_saying_how_stops_nothing(signed_in, team):
    grid = running_grid(runtime=_runtime(team))
    signed_in("operator").post(reverse("grid-stop", args=[grid.pk]), {})
    assert Grid.objects.get(pk=grid.pk).status == "authorized"


def test_a_stopped_grid_offers_to_go_on_and_does(signed_in, team):
    grid = running_grid(runtime=_runtime(team), settings=(1, 2), class_names=("short",))
    record(claim(grid))
    runs.stop(grid=grid, how="drain", by=grid.drawn_by)
    browser = signed_in("operator")
    assert "Go on" in browser.get(reverse("grid-live", args=[grid.pk])).content.decode()
    browser.post(reverse("grid-resume", args=[grid.pk]))
    assert states(grid) == ["measured", "queued"]


def test_the_stage_table_tells_measured_held_back_and_failing_cells_apart(signed_in, team):
    grid = running_grid(runtime=_runtime(team), settings=(1, 2), class_names=("short", "median"))
    record(claim(grid), summary(ok=50, failed=50, p95_s=INFINITE))
    text = signed_in("viewer").get(reverse("grid-live", args=[grid.pk])).content.decode()
    assert ("p95 among failures" in text, "50.0\u00a0% of requests failed" in text) == (True, True)


def test_the_list_shows_filters_and_exports_the_same_rows(signed_in, team):
    one, two = _runtime(team), _runtime(team)
    measured = running_grid(runtime=one, settings=(1,), class_names=("short",), name="=danger")
    record(claim(measured), summary(p95_s=INFINITE))
    factories.make_grid(two, name="Other")
    factories.make_grid(name="Foreign")
    browser, address = signed_in("viewer"), reverse("grid-list")
    text = browser.get(address).content.decode()
    assert ("2 grids" in text, "Foreign" in text, "among failures" in text) == (True, False, True)
    wanted = {"host": one.hardware.slug}
    assert "1 grid" in browser.get(address, wanted).content.decode()
    rows = json.loads(browser.get(address, wanted | {"format": "json"}).getvalue())["grids"]
    assert [(r["grid"], r["worst_p95_over_objective"], r["cells_measured"]) for r in rows] == [(measured.pk, "inf", 1)]
    sheet = browser.get(address, wanted | {"format": "csv"}).getvalue().decode()
    assert [r["name"] for r in csv.DictReader(io.StringIO(sheet))] == ["'=danger"]


@pytest.mark.parametrize("values", [{"status": "nonsense"}, {"page": "9999"}, {"host": "nowhere", "power": "x"}])
def test_a_wrong_address_of_the_list_still_shows_the_list(signed_in, team, values):
    factories.make_grid(_runtime(team))
    assert signed_in("viewer").get(reverse("grid-list"), values).status_code == 200


def test_the_list_costs_the_same_with_one_grid_and_with_three(signed_in, team, django_assert_max_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    browser, runtime = signed_in("viewer"), _runtime(team)
    counts = []
    for more in (1, 2):
        for _ in range(more):
            factories.make_grid(runtime)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            browser.get(reverse("grid-list"))
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_evidence_is_downloaded_byte_for_byte_and_named_simulated(signed_in, team):
    grid = running_grid(runtime=_runtime(team), settings=(1,), class_names=("short",))
    record(claim(grid), content=b"PAR1 bytes PAR1")
    cell = grid.cells.get()
    answer = signed_in("viewer").get(reverse("evidence-download", args=[grid.pk, cell.pk]))
    assert (answer.content, "simulated.parquet" in answer["Content-Disposition"]) == (b"PAR1 bytes PAR1", True)


def test_a_cell_without_evidence_has_no_file(signed_in, team):
    grid = running_grid(runtime=_runtime(team), settings=(1,), class_names=("short",))
    assert signed_in("viewer").get(reverse("evidence-download", args=[grid.pk, grid.cells.get().pk])).status_code == 404


@pytest.mark.parametrize(
    ("phase", "started", "status"),
    [("before", False, 302), ("before", True, 422), ("after", True, 302), ("after", False, 422)],
)
def test_conditions_are_recorded_before_and_after_once(signed_in, team, phase, started, status):
    grid = factories.make_grid(_runtime(team), recorded=False)
    if started:
        Grid.objects.filter(pk=grid.pk).update(started_at=timezone.now())
    values = {
        "at": f"{timezone.localtime():%Y-%m-%dT%H:%M}",
        "room": "Room 1",
        "power_source": "ups",
        "ambient_source": "unknown",
    }
    browser, address = signed_in("operator"), reverse("grid-conditions", args=[grid.pk, phase])
    assert browser.post(address, values).status_code == status
    assert Conditions.objects.filter(phase=phase).count() == (status == 302)
    assert browser.post(address, values).status_code == 422


@pytest.mark.parametrize("phase", ["during", "x"])
def test_there_are_two_phases_of_conditions(signed_in, team, phase):
    grid = factories.make_grid(_runtime(team))
    assert signed_in("operator").get(reverse("grid-conditions", args=[grid.pk, phase])).status_code == 404


def test_authorisations_are_listed_shown_and_revoked_by_a_host_owner(signed_in, team):
    grid = running_grid(runtime=_runtime(team))
    leave = Authorization.objects.get()
    browser = signed_in("host_owner")
    assert str(leave) in browser.get(reverse("authorization-list")).content.decode()
    assert grid.digest in browser.get(leave.get_absolute_url()).content.decode()
    assert browser.post(reverse("authorization-revoke", args=[leave.pk]), {"reason": "heat"}).status_code == 302
    assert Grid.objects.get(pk=grid.pk).status == "stopped"
    assert "Revoked" in browser.get(leave.get_absolute_url()).content.decode()


def test_an_operator_cannot_authorise_or_revoke(signed_in, team):
    grid = running_grid(runtime=_runtime(team))
    browser = signed_in("operator", "administrator")
    assert browser.get(reverse("grid-authorize", args=[grid.pk])).status_code == 403
    assert browser.post(reverse("authorization-revoke", args=[Authorization.objects.get().pk])).status_code == 403


def test_the_list_can_be_narrowed_to_one_way_of_loading(signed_in, team):
    runtime = _runtime(team)
    closed = factories.make_grid(runtime, name="The closed one")
    static = factories.make_grid(runtime, closed.workload, closed.drawn_by, load=StaticTerms(), name="The static one")
    browser = signed_in("viewer")
    for mode, shown in (
        ("", (True, True)),
        ("static", (False, True)),
        ("closed", (True, False)),
        ("odd", (True, True)),
    ):
        text = browser.get(reverse("grid-list"), {"mode": mode}).content.decode()
        assert (closed.name in text, static.name in text) == shown, mode
    assert "static batch, offline" in browser.get(reverse("grid-list"), {"mode": "static"}).content.decode()


@pytest.mark.parametrize(
    ("load", "settings", "offered", "said"),
    [
        (ClosedTerms(), (1, 2), 2, "requests in flight, one stage after the other"),
        (OpenTerms(max_in_flight=9), (60,), 9, "Arrivals a minute"),
        (StaticTerms(items=50, beside=2), (4,), 8, "at most 8 in flight"),
        (SearchTerms(), (1, 64), 64, "from 1 to at most 64"),
    ],
)
def test_who_authorises_reads_how_it_loads_and_is_offered_enough_for_it(signed_in, team, load, settings, offered, said):
    grid = factories.make_grid(_runtime(team), settings=settings, class_names=("short",), load=load)
    answer = signed_in("host_owner").get(reverse("grid-authorize", args=[grid.pk]))
    assert answer.context["form"].initial["max_concurrency"] == offered
    assert said in " ".join(answer.content.decode().split())
    refused = answer.client.post(reverse("grid-authorize", args=[grid.pk]), _leave(max_concurrency=offered - 1 or 1))
    assert (refused.status_code, f"offers up to {offered} at a time" in refused.content.decode()) == (422, True)


@pytest.mark.parametrize(
    ("load", "settings", "stage"),
    [
        (ClosedTerms(), (4,), "4 offered"),
        (OpenTerms(max_in_flight=8), (60,), "60 arrivals a minute"),
        (StaticTerms(), (4,), "batches of 4"),
    ],
)
def test_the_live_page_names_a_stage_by_its_mode(signed_in, team, load, settings, stage):
    grid = running_grid(runtime=_runtime(team), settings=settings, class_names=("short",), load=load)
    address = reverse("grid-live", args=[grid.pk])
    browser = signed_in("viewer")
    assert f"take the next cell: {stage}, short" in browser.get(address).content.decode()
    taken = claim(grid)
    claims.beat(claim=taken, progress={"phase": "calibrating"})
    text = " ".join(browser.get(address).content.decode().split())
    assert (f"Now: short requests, {stage}" in text, "whose true times are known" in text) == (True, True)


def test_the_live_page_of_a_search_promises_no_end_and_shows_its_answer(signed_in, team):
    grid = running_grid(
        runtime=_runtime(team),
        settings=(1, 4),
        class_names=("short",),
        load=SearchTerms(most_cells=2),
        limits=factories.make_limits(),
    )
    address, browser = reverse("grid-live", args=[grid.pk]), signed_in("viewer")
    taken = claim(grid)
    text = browser.get(address).content.decode()
    assert ("the search decides which setting it tries next" in text, "min left" in text) == (True, False)
    record(taken, summary(setting=1, ok=400))
    assert "2 offered" in browser.get(address).content.decode()
    record(claim(grid), summary(setting=2, ok=400), content=b"second")
    text = browser.get(address).content.decode()
    assert "Indeterminate: the budget of 2 measurements ended" in text


def test_a_grid_that_stopped_before_any_cell_says_that_none_was_measured(signed_in, team):
    grid = factories.make_grid(_runtime(team), settings=(1, 2), class_names=("short",))
    grid.cells.update(status="not_run", reason="too hot")
    Grid.objects.filter(pk=grid.pk).update(status="stopped", stop_reason="too hot")
    html = signed_in("viewer").get(reverse("grid-live", args=[grid.pk])).content.decode()
    assert "0 of 2 cells measured, 2 not run." in html


def test_a_running_cell_that_has_said_nothing_yet_has_failures_of_no_number(signed_in, team):
    grid = factories.make_grid(_runtime(team), settings=(1,), class_names=("short",))
    grid.cells.update(status="running", progress={})
    Grid.objects.filter(pk=grid.pk).update(status="running")
    html = signed_in("viewer").get(reverse("grid-live", args=[grid.pk])).content.decode()
    assert ("Failed" in html, "of not yet" in html) == (True, False)


@pytest.mark.parametrize(("load", "times"), [(OpenTerms(max_in_flight=9), 3), (ClosedTerms(), 1)])
def test_an_open_loop_of_conversations_is_offered_a_ceiling_for_all_their_turns(signed_in, team, load, times):
    runtime, browser = _runtime(team), signed_in("host_owner")
    offered = []
    for turns in (1, 3):
        work = factories.make_workload(team, turns=turns)
        grid = factories.make_grid(runtime, work, settings=(60,), class_names=("short",), load=load)
        page = browser.get(reverse("grid-authorize", args=[grid.pk]))
        offered.append(page.context["form"].initial["max_requests"])
    assert offered[1] == offered[0] * times
