"""Pausing a grid, and stopping it after its running cell: what ends, what is not taken, what is kept."""

import pytest
from django.urls import reverse
from django.utils import timezone

from benchmarks import claims, queries, runs
from benchmarks.models import Authorization, Event, Grid
from tests import factories
from tests.benchmarks.runs.made import ME, claim, record, running_grid, states

pytestmark = pytest.mark.django_db


def _next(grid):
    return claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker=ME)


def _again(grid):
    return Grid.objects.get(pk=grid.pk)


def _said_of(grid):
    return list(Event.objects.filter(subject=f"grid {grid.pk}").order_by("pk").values_list("verb", flat=True))


def test_the_running_cell_of_a_paused_grid_ends_and_is_kept_and_the_next_is_not_claimed():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    taken = claim(grid)
    runs.pause(grid=grid, by=grid.drawn_by)
    assert claims.beat(claim=taken, progress={"phase": "window"}).stop == ""
    assert record(taken)
    assert (states(grid), _next(grid), _again(grid).status) == (["measured", "queued"], None, "running")
    assert (grid.paused_by, grid.paused_at is not None) == (grid.drawn_by.username, True)


def test_a_paused_grid_goes_on_where_it_was_and_both_steps_are_in_the_audit_log():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    record(claim(grid))
    runs.pause(grid=grid, by=grid.drawn_by)
    runs.resume(grid=grid, by=grid.drawn_by)
    assert (grid.paused_at, grid.paused_by, states(grid)) == (None, "", ["measured", "queued"])
    assert record(claim(grid))
    assert _again(grid).status == "measured"
    assert [verb for verb in _said_of(grid) if "pause" in verb] == ["paused", "went on after a pause"]


def test_a_grid_can_be_paused_before_its_first_cell():
    grid = running_grid(settings=(1,), class_names=("short",))
    runs.pause(grid=grid, by=grid.drawn_by)
    assert (_next(grid), _again(grid).status) == (None, "authorized")


def test_another_grid_of_the_host_may_run_while_one_is_paused():
    grid = running_grid(settings=(1,), class_names=("short",))
    other = running_grid(runtime=grid.runtime, workload=grid.workload, settings=(1,), class_names=("short",))
    runs.pause(grid=grid, by=grid.drawn_by)
    assert claim(grid).grid_id == other.pk


@pytest.mark.parametrize("state", ["draft", "measured", "stopped", "withdrawn", "paused", "stopping"])
def test_what_does_not_wait_or_run_or_is_paused_already_cannot_be_paused(state):
    grid = running_grid(settings=(1,), class_names=("short",))
    if state == "paused":
        runs.pause(grid=grid, by=grid.drawn_by)
    elif state == "stopping":
        Grid.objects.filter(pk=grid.pk).update(stop_requested="drain")
    else:
        Grid.objects.filter(pk=grid.pk).update(status=state)
    with pytest.raises(runs.RunRefused, match="Only a grid that waits or runs can be paused"):
        runs.pause(grid=grid, by=grid.drawn_by)


@pytest.mark.parametrize("ended", ["stop", "revoke", "withdraw"])
def test_a_paused_grid_that_is_ended_is_paused_no_more(ended):
    grid = running_grid(settings=(1,), class_names=("short",))
    runs.pause(grid=grid, by=grid.drawn_by)
    if ended == "stop":
        runs.stop(grid=grid, how="finish", by=grid.drawn_by)
    elif ended == "revoke":
        runs.revoke(authorization=queries.live_authorization(grid), by=grid.drawn_by)
    else:
        runs.withdraw(grid=grid, by=grid.drawn_by)
    found = _again(grid)
    assert (found.paused_at, found.paused_by, states(grid)) == (None, "", ["not_run"])
    assert found.status == ("withdrawn" if ended == "withdraw" else "stopped")


def test_a_paused_grid_whose_authorisation_was_revoked_cannot_go_on():
    grid = running_grid(settings=(1,), class_names=("short",))
    runs.pause(grid=grid, by=grid.drawn_by)
    Authorization.objects.filter(grid=grid).update(revoked_at=timezone.now(), revoked_by=grid.drawn_by)
    with pytest.raises(runs.RunRefused, match="authorisation of this grid has ended"):
        runs.resume(grid=grid, by=grid.drawn_by)


@pytest.mark.parametrize(("how", "told"), [("finish", ""), ("drain", "drain"), ("cancel", "cancel")])
def test_a_worker_hears_of_a_stop_unless_its_cell_may_finish(how, told):
    grid = running_grid(settings=(1, 2), class_names=("short",))
    taken = claim(grid)
    runs.stop(grid=grid, how=how, by=grid.drawn_by)
    assert claims.beat(claim=taken, progress={}).stop == told


def test_a_grid_stopped_after_its_cell_keeps_that_cell_and_runs_no_other():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    taken = claim(grid)
    runs.stop(grid=grid, how="finish", by=grid.drawn_by)
    assert record(taken)
    found = _again(grid)
    assert (states(grid), found.status) == (["measured", "not_run"], "stopped")
    assert found.stop_reason == f"Stopped by {grid.drawn_by.username}, after the running cell."


def test_a_grid_stopped_after_its_last_cell_is_measured_whole():
    grid = running_grid(settings=(1,), class_names=("short",))
    taken = claim(grid)
    runs.stop(grid=grid, how="finish", by=grid.drawn_by)
    assert record(taken)
    assert (_again(grid).status, _again(grid).stop_reason) == ("measured", "")


@pytest.mark.parametrize(("roles", "pauses"), [(("operator",), True), (("host_owner",), True), (("viewer",), False)])
def test_pause_is_a_plain_form_for_those_who_may(client, roles, pauses):
    team = factories.make_team()
    grid = running_grid(runtime=factories.make_runtime(factories.make_hardware(team)))
    client.force_login(factories.make_user(team, *roles))
    address, live = reverse("grid-pause", args=[grid.pk]), reverse("grid-live", args=[grid.pk])
    assert (f'action="{address}"' in client.get(live).content.decode()) is pauses
    assert client.post(address).status_code == (302 if pauses else 403)
    assert (_again(grid).paused_at is not None) is pauses
    shown = client.get(live).content.decode()
    assert ("Paused" in shown, f'action="{address}"' in shown) == (pauses, False)


def test_who_saw_a_pause_does_not_undo_a_stop_that_came_meanwhile():
    grid = running_grid(settings=(1,), class_names=("short",))
    runs.pause(grid=grid, by=grid.drawn_by)
    runs.stop(grid=grid, how="cancel", by=grid.drawn_by)
    with pytest.raises(runs.RunRefused, match="no longer paused"):
        runs.resume(grid=grid, by=grid.drawn_by, paused=True)
    assert _again(grid).status == "stopped"
    runs.resume(grid=grid, by=grid.drawn_by)
    assert _again(grid).status == "running"
