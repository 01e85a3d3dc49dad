"""Heartbeats: whose clock they are by, how often they come, and what a worker does that could not give them."""

import os
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks import claims, engine_child, permits, queries, runs, tasks
from benchmarks.models import Attempt, Cell
from tests.benchmarks.runs import protected
from tests.benchmarks.runs.made import claim, record, running_grid, states

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("wrong_by", [timedelta(hours=-1), timedelta(0), timedelta(hours=1)])
def test_a_worker_whose_clock_is_wrong_is_silent_only_when_it_is_silent(settings, monkeypatch, wrong_by):
    grid = running_grid(settings=(1,), class_names=("short",))
    true_now = timezone.now
    monkeypatch.setattr(claims.timezone, "now", lambda: true_now() + wrong_by)
    taken = claim(grid)
    claims.beat(claim=taken, progress={})
    monkeypatch.undo()
    assert claims.interrupt_stale(at=queries.database_now()) == 0
    silent = timedelta(seconds=settings.STALE_AFTER_S)
    beat_at = Cell.objects.get(pk=taken.cell_id).heartbeat_at
    assert claims.interrupt_stale(at=beat_at + silent) == 0
    assert claims.interrupt_stale(at=beat_at + silent + timedelta(seconds=1)) == 1


def test_the_time_of_the_database_goes_forward():
    before = queries.database_now()
    assert before <= queries.database_now()
    assert before.tzinfo is not None, connection.vendor


@pytest.mark.parametrize(("heartbeat_s", "beats"), [(0.05, range(3, 1000)), (600.0, range(1, 2))])
def test_a_worker_beats_as_often_as_the_setting_says_and_once_at_the_end(settings, heartbeat_s, beats):
    settings.HEARTBEAT_S = heartbeat_s
    grid = running_grid(settings=(1,), class_names=("short",))
    taken = claim(grid)
    command = [sys.executable, "-c", "import time; time.sleep(1.5)"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child,
        CaptureQueriesContext(connection) as asked,
    ):
        engine_child.watched(taken, child)
    written = [one for one in asked if one["sql"].startswith("UPDATE") and "heartbeat_at" in one["sql"]]
    assert len(written) in beats


@pytest.mark.parametrize("set_back_by", [timedelta(0), timedelta(days=1)])
def test_a_clock_that_is_set_back_does_not_prolong_an_authorisation(monkeypatch, set_back_by):
    grid = running_grid(settings=(1,), class_names=("short",))
    taken = claim(grid)
    assert claims.beat(claim=taken, progress={}) == claims.Pulse()
    ended = protected.LATE + timedelta(seconds=1)
    monkeypatch.setattr(claims, "database_now", lambda: ended)
    monkeypatch.setattr(claims.timezone, "now", lambda: ended - set_back_by)
    assert claims.beat(claim=taken, progress={}).stop == "cancel"


def test_an_attempt_during_which_the_clock_was_set_back_gives_no_minutes_back():
    grid = running_grid(settings=(1, 2, 3), class_names=("short",))
    for minutes in (-600, 30, 29):
        taken = claim(grid)
        record(taken)
        began = Attempt.objects.get(cell_id=taken.cell_id).started_at
        Attempt.objects.filter(cell_id=taken.cell_id).update(ended_at=began + timedelta(minutes=minutes))
    found = permits.permit(grid, setting=1, at=timezone.now())
    assert isinstance(found, permits.Permit)
    assert found.seconds_left == 60.0


def test_what_a_host_with_a_slow_clock_sent_counts_against_its_authorisation():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    leave = grid.authorizations.get()
    taken = claim(grid)
    Cell.objects.filter(pk=taken.cell_id).update(started_at=leave.authorized_at - timedelta(seconds=3))
    record(taken, sent=7, tokens=40)
    found = permits.permit(grid, setting=2, at=timezone.now())
    assert isinstance(found, permits.Permit)
    assert (found.requests_left, found.tokens_left) == (leave.max_requests - 7, leave.max_tokens - 40)


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize(("share", "out_of_touch"), [(0.0, False), (0.45, False), (0.5, True), (0.9, True)])
def test_half_of_the_stale_time_without_a_heartbeat_is_out_of_touch(settings, answers, share, out_of_touch):
    settings.STALE_AFTER_S = 10_000.0
    taken = claim(running_grid(settings=(1,), class_names=("short",)))
    heard_at = time.monotonic() - share * settings.STALE_AFTER_S
    watch = engine_child.Watch(heard_at=heard_at)
    with transaction.atomic():
        transaction.set_rollback(not answers)  # a transaction that is lost answers nothing
        engine_child.beat(taken, watch)
        transaction.set_rollback(False)
    assert watch.out_of_touch is out_of_touch
    assert (watch.heard_at > heard_at) is answers


@pytest.mark.parametrize(("age", "rests"), [(None, False), (0.0, True), (0.9, True), (1.1, False), (-500.0, False)])
def test_a_worker_that_was_out_of_touch_starts_no_cell_until_others_had_their_time(settings, tmp_path, age, rests):
    settings.VAR, settings.STALE_AFTER_S = tmp_path, 1000.0
    (tmp_path / "cells").mkdir()
    if age is not None:
        file = tmp_path / "cells" / "out-of-touch"
        file.touch()
        then = time.time() - age * settings.STALE_AFTER_S
        os.utime(file, (then, then))
    assert tasks.resting() is rests
    if rests:
        grid = running_grid()
        tasks.ring(grid.hardware.slug)
        assert set(states(grid)) == {"queued"}


def authorized_again(grid):
    """Stopped, authorised by another person, and resumed."""
    runs.stop(grid=grid, how="drain", by=grid.drawn_by)
    leave = protected.authorized(grid)
    runs.resume(grid=grid, by=grid.drawn_by)
    return leave


def test_each_attempt_keeps_the_leave_it_ran_under():
    grid = running_grid(settings=(1,), class_names=("short", "median"))
    first = grid.authorizations.get()
    record(claim(grid))
    second = authorized_again(grid)
    assert record(claim(grid))
    assert list(Attempt.objects.order_by("cell__position").values_list("authorization", flat=True)) == [
        first.pk,
        second.pk,
    ]
    found = queries.evidence(grid)
    assert (found.leaves, found.authorization) == ((first, second), second)


def test_an_interrupted_attempt_names_nobody_for_evidence_that_it_did_not_leave():
    grid = running_grid(settings=(1,), class_names=("short",))
    assert claims.interrupt(claim=claim(grid), reason="gone")
    second = authorized_again(grid)
    assert queries.evidence(grid).leaves == ()
    assert queries.evidence(grid).authorization == second
    assert record(claim(grid))
    assert queries.evidence(grid).leaves == (second,)
