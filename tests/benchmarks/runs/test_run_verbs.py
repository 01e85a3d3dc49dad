"""What people may do with a grid, when, and in whose name."""

from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarks import claims, runs
from benchmarks.models import Authorization, Event, Grid
from tests import factories
from tests.benchmarks.runs.made import claim, record, running_grid, states, summary

pytestmark = pytest.mark.django_db
CEILINGS = runs.Ceilings(max_concurrency=8, max_requests=100, max_tokens=1000, max_minutes=5)


def _authorize(grid, by, start=timedelta(0), end=timedelta(hours=1)):
    now = timezone.now()
    return runs.authorize(grid=grid, by=by, valid_from=now + start, valid_until=now + end, ceilings=CEILINGS)


def test_authorising_binds_the_plan_queues_the_cells_and_is_written_down():
    grid = factories.make_grid(settings=(1, 2), class_names=("short",))
    leave = _authorize(grid, factories.make_user(grid.team, "host_owner"))
    assert (grid.status, states(grid)) == ("authorized", ["queued", "queued"])
    assert (leave.grid_digest, leave.target, leave.requested_by) == (grid.digest, grid.runtime.endpoint, grid.drawn_by)
    assert Event.objects.filter(verb="authorised", subject=f"grid {grid.pk}").count() == 1


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (timedelta(hours=2), timedelta(hours=1), "end after it begins"),
        (timedelta(hours=-2), timedelta(hours=-1), "ended already"),
    ],
)
def test_a_window_must_lie_ahead(start, end, words):
    grid = factories.make_grid()
    with pytest.raises(runs.RunRefused, match=words):
        _authorize(grid, factories.make_user(grid.team, "host_owner"), start, end)
    grid.refresh_from_db()
    assert (grid.status, Authorization.objects.count()) == ("draft", 0)


def test_who_drew_a_grid_cannot_authorise_it():
    grid = factories.make_grid()
    with pytest.raises(runs.RunRefused, match="You drew this grid"):
        _authorize(grid, grid.drawn_by)


def test_a_grid_is_authorised_once():
    grid = factories.make_grid()
    owner = factories.make_user(grid.team, "host_owner")
    stale = Grid.objects.get(pk=grid.pk)
    _authorize(grid, owner)
    for seen in (grid, stale):
        with pytest.raises(runs.RunRefused):
            _authorize(seen, owner)
    assert Authorization.objects.count() == 1


def test_a_changed_plan_cannot_be_authorised():
    grid = factories.make_grid()
    grid.window_s = 600
    grid.save()
    with pytest.raises(runs.RunRefused, match="changed since"):
        _authorize(grid, factories.make_user(grid.team, "host_owner"))


def test_revoking_closes_a_waiting_grid_at_once_and_keeps_what_was_measured():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    record(claim(grid))
    leave = Authorization.objects.get()
    runs.revoke(authorization=leave, by=leave.authorized_by, reason="the room is hot")
    grid.refresh_from_db()
    assert (grid.status, states(grid)) == ("stopped", ["measured", "not_run"])
    assert "the room is hot" in grid.stop_reason
    with pytest.raises(runs.RunRefused, match="revoked already"):
        runs.revoke(authorization=leave, by=leave.authorized_by)


@pytest.mark.parametrize("how", ["drain", "cancel"])
def test_stopping_a_waiting_grid_ends_it_and_a_running_one_is_left_to_its_worker(how):
    waiting, running = running_grid(settings=(1,)), running_grid(settings=(1,), class_names=("short",))
    claim(running)
    for grid in (waiting, running):
        runs.stop(grid=grid, how=how, by=grid.drawn_by)
    assert (waiting.status, set(states(waiting))) == ("stopped", {"not_run"})
    assert (running.status, running.stop_requested, states(running)) == ("running", how, ["running"])


def test_a_softer_stop_does_not_undo_a_firmer_one_and_a_firmer_one_follows_a_softer():
    grid = running_grid(settings=(1,), class_names=("short",))
    taken = claim(grid)
    runs.stop(grid=grid, how="finish", by=grid.drawn_by)
    runs.stop(grid=grid, how="cancel", by=grid.drawn_by)
    for softer in ("finish", "drain"):
        with pytest.raises(runs.RunRefused, match="more firmly"):
            runs.stop(grid=grid, how=softer, by=grid.drawn_by)
    assert (claims.beat(claim=taken, progress={}).stop, Grid.objects.get(pk=grid.pk).stop_requested) == (
        "cancel",
        "cancel",
    )


def test_only_a_running_grid_is_stopped_and_only_in_two_ways():
    grid = factories.make_grid()
    with pytest.raises(runs.RunRefused, match="not running"):
        runs.stop(grid=grid, how="drain", by=grid.drawn_by)
    with pytest.raises(runs.RunRefused, match="drain"):
        runs.stop(grid=running_grid(), how="now", by=grid.drawn_by)


def test_a_stopped_grid_goes_on_where_it_was():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    record(claim(grid))
    runs.stop(grid=grid, how="drain", by=grid.drawn_by)
    runs.resume(grid=grid, by=grid.drawn_by)
    assert (grid.status, states(grid), grid.stop_reason) == ("running", ["measured", "queued"], "")
    assert record(claim(grid))
    grid.refresh_from_db()
    assert (grid.status, states(grid)) == ("measured", ["measured", "measured"])


def test_resuming_does_not_run_what_a_gate_held_back():
    grid = running_grid(settings=(1, 2), class_names=("short", "median"))
    record(claim(grid), summary(p95_s=9.0))
    runs.stop(grid=grid, how="drain", by=grid.drawn_by)
    runs.resume(grid=grid, by=grid.drawn_by)
    assert states(grid) == ["measured", "queued", "not_run", "not_run"]


def test_resuming_needs_an_authorisation_that_holds():
    grid = running_grid(settings=(1,), class_names=("short",))
    leave = Authorization.objects.get()
    runs.revoke(authorization=leave, by=leave.authorized_by)
    with pytest.raises(runs.RunRefused, match="authorise it again"):
        runs.resume(grid=grid, by=grid.drawn_by)
    grid.refresh_from_db()
    _authorize(grid, leave.authorized_by)
    runs.resume(grid=grid, by=grid.drawn_by)
    assert (grid.status, Authorization.objects.filter(revoked_at=None).count()) == ("running", 1)


def test_a_measured_grid_has_nothing_to_resume():
    grid = running_grid(settings=(1,), class_names=("short",))
    record(claim(grid))
    with pytest.raises(runs.RunRefused):
        runs.resume(grid=grid, by=grid.drawn_by)


def test_a_grid_is_withdrawn_before_it_starts_and_not_after():
    draft, waiting, running = factories.make_grid(), running_grid(), running_grid(settings=(1,))
    claim(running)
    for grid in (draft, waiting):
        runs.withdraw(grid=grid, by=grid.drawn_by)
        assert (grid.status, set(states(grid))) == ("withdrawn", {"not_run"})
    assert not waiting.authorizations.filter(revoked_at=None).exists()
    with pytest.raises(runs.RunRefused, match="stop it instead"):
        runs.withdraw(grid=running, by=running.drawn_by)


def test_a_grid_whose_time_is_over_is_closed_unless_a_cell_still_runs():
    late = timezone.now() + timedelta(days=36_500)
    idle, busy, early = running_grid(settings=(1,)), running_grid(settings=(1,)), running_grid(settings=(1,))
    claim(busy)
    assert runs.close_unauthorized(at=timezone.now()) == 0
    assert runs.close_unauthorized(at=late) == 2
    for grid in (idle, busy, early):
        grid.refresh_from_db()
    assert [g.status for g in (idle, busy, early)] == ["stopped", "running", "stopped"]
    assert "ended at" in idle.stop_reason


def test_the_chain_of_events_holds_after_a_whole_run():
    from benchmarks import audit

    grid = running_grid(settings=(1,), class_names=("short",))
    claims.interrupt(claim=claim(grid), reason="gone")
    record(claim(grid))
    assert audit.broken_links() == []
