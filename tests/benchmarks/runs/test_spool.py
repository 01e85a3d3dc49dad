"""The spool: a finished result is on the host's disk before a database is asked, is stored once, and is never dropped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from django.db import DataError, OperationalError, connection
from django.utils import timezone

from benchmarks import claims, delivering, queries, recording, runs, spool, storing, tasks
from benchmarks.delivering import NotTakenError
from benchmarks.models import Attempt, Cell, Event, Evidence, Grid, SupersededEvidence
from benchmarks.recording import Delivery
from tests.benchmarks.runs import protected
from tests.benchmarks.runs.made import INFINITE, claim, record, result, running_grid, states, summary

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def here(settings, tmp_path) -> Path:
    settings.VAR = tmp_path
    return tmp_path


def taken(**fields):
    return claim(running_grid(settings=(1,), class_names=("short",), **fields))


def written(path: Path) -> list[str]:
    return sorted(found.name for found in path.iterdir()) if path.exists() else []


@contextmanager
def database(error: Exception | None) -> Iterator[list[str]]:
    """Every statement meanwhile meets this error; what was asked is counted."""
    asked: list[str] = []

    def answer(execute, sql, params, many, context):
        asked.append(sql)
        if error is not None and not sql.startswith(("SAVEPOINT", "ROLLBACK", "RELEASE")):
            raise error
        return execute(sql, params, many, context)

    with connection.execute_wrapper(answer):
        yield asked


AWAY = OperationalError("server closed the connection unexpectedly")


def test_what_lies_in_the_spool_is_what_was_put_there_infinities_too(here):
    made = msgspec.structs.replace(
        result(summary(p95_s=INFINITE), b"\0parquet\xff" * 1000, sent=7, share=INFINITE),
        conditions={"before": {"c": None}},
    )
    held = taken()
    path = spool.put(held, made)
    assert spool.read(path) == spool.Kept(claim=held, result=made)
    assert path.stat().st_mode & 0o777 == 0o600
    assert written(here / "spool") == [f"{held.grid_id}-{held.cell_id}-1.result"]


@pytest.mark.parametrize("at", [0, len(spool.MAGIC), len(spool.MAGIC) + 31, len(spool.MAGIC) + 32, -1])
def test_a_file_with_one_wrong_byte_is_set_aside_and_not_delivered(at):
    path = spool.put(taken(), result())
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert delivering.deliver_all() == 1
    assert (written(path.parent), Evidence.objects.count()) == ([path.with_suffix(".damaged").name], 0)


@pytest.mark.parametrize("length", [0, 5, len(spool.MAGIC), len(spool.MAGIC) + 40])
def test_a_torn_file_is_set_aside(length):
    path = spool.put(taken(), result())
    path.write_bytes(path.read_bytes()[:length])
    assert delivering.deliver_all() == 1
    assert (written(path.parent), Evidence.objects.count()) == ([path.with_suffix(".damaged").name], 0)


def test_one_that_cannot_be_read_keeps_no_other_waiting(here):
    path = spool.put(taken(), result())
    path.with_name("0-0-1.result").mkdir()
    assert (delivering.deliver_all(), Evidence.objects.count(), path.exists()) == (1, 1, False)


def test_what_is_set_aside_never_overwrites(here):
    path, asides = here / "spool" / "1-1-1.result", []
    path.parent.mkdir(exist_ok=True)
    for content in (b"one", b"two"):
        path.write_bytes(content)
        asides.append(spool.set_aside(path, "damaged"))
    assert [aside.read_bytes() for aside in asides] == [b"one", b"two"]


def test_a_result_is_on_the_disk_before_the_database_is_asked(here):
    held, made = taken(), result()
    with database(None) as asked:
        path = spool.put(held, made)
        assert (asked, spool.read(path).result) == ([], made)


def test_a_stored_result_leaves_nothing_in_the_spool(here):
    held = taken()
    assert storing.store(held, result())
    assert (written(here / "spool"), states(Grid.objects.get())) == ([], ["measured"])


def test_a_result_that_no_database_took_stays_and_is_delivered_once(monkeypatch, here):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    held = taken()
    with database(AWAY):
        assert not storing.store(held, result())
    assert (len(spool.waiting()), Evidence.objects.count(), states(Grid.objects.get())) == (1, 0, ["running"])
    assert (delivering.deliver_all(), delivering.deliver_all()) == (1, 0)
    assert (written(here / "spool"), Evidence.objects.count(), states(Grid.objects.get())) == ([], 1, ["measured"])
    assert Attempt.objects.get().outcome == "measured"


def test_while_no_database_answers_delivery_ends_at_the_first_file(here):
    grid = running_grid(settings=(1, 2), class_names=("short",))
    for setting in (1, 2):
        held = claim(grid)
        spool.put(held, result(summary(setting=setting)))
        if setting == 1:
            claims.interrupt(claim=held, reason="gone")
            Cell.objects.filter(pk=held.cell_id).update(status="planned")
    with database(AWAY) as asked:
        assert delivering.deliver_all() == 0
    assert (len(asked) > 0, len(spool.waiting())) == (True, 2)
    Cell.objects.filter(status="planned").update(status="queued")
    assert delivering.deliver_all() == 2
    assert states(grid) == ["measured", "measured"]


def test_two_who_deliver_the_same_file_store_it_once(here):
    held, made = taken(), result()
    path = spool.put(held, made)
    first, second = spool.read(path), spool.read(path)
    assert delivering.deliver(first.claim, first.result, path) is Delivery.RESULT
    assert delivering.deliver(second.claim, second.result, path) is Delivery.KNOWN
    assert not delivering.deliver_file(path)
    assert (Evidence.objects.count(), SupersededEvidence.objects.count(), written(here / "spool")) == (1, 0, [])


def test_a_disk_that_takes_no_spool_does_not_keep_a_result_from_the_database(here):
    (here / "spool").write_text("a file where the folder should be")
    assert storing.store(taken(), result())
    assert Evidence.objects.count() == 1


def test_a_result_that_neither_disk_nor_database_take_is_held_until_one_does(monkeypatch, here):
    (here / "spool").write_text("a file where the folder should be")
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3 * storing.STORE_TRIES:
            (here / "spool").unlink()

    monkeypatch.setattr(time, "sleep", sleep)
    held = taken()
    with database(AWAY):
        assert not storing.store(held, result())
    assert (len(naps), len(spool.waiting())) == (3 * storing.STORE_TRIES, 1)


def test_a_result_that_the_database_refuses_is_set_aside_and_its_cell_runs_again(here):
    held = taken()
    path = spool.put(held, msgspec.structs.replace(result(), schema_version=-1))
    assert delivering.deliver_all() == 1
    assert (written(here / "spool"), states(Grid.objects.get())) == ([path.with_suffix(".refused").name], ["queued"])
    assert Attempt.objects.get().reason.startswith("The database refused the result (")
    assert str(path.with_suffix(".refused")) in Attempt.objects.get().reason


@pytest.mark.parametrize("change", [{"grid_id": 999}, {"cell_id": 999}, {"attempt": 9}, {"worker": "host-b|boot|1|1"}])
def test_a_result_of_another_database_is_set_aside_never_taken_for_one_of_this(here, change):
    path = spool.put(replace(taken(), **change), result())
    assert delivering.deliver_all() == 1
    assert (written(here / "spool"), Evidence.objects.count()) == ([path.with_suffix(".unknown").name], 0)


def ended(seconds: float):
    """A result whose engine ended so many seconds after now."""
    return msgspec.structs.replace(result(), finished_at=time.time() + seconds)


def interrupted(**fields):
    """An attempt that was given up for dead, and the result it left."""
    held = taken(**fields)
    assert claims.interrupt(claim=held, reason="no heartbeat")
    return held


def test_a_late_result_becomes_the_cells_while_it_waits_to_run_again():
    held = interrupted()
    assert recording.deliver(claim=held, result=ended(-1)) is Delivery.RESULT
    cell, attempt = Cell.objects.get(), Attempt.objects.get()
    assert (cell.status, cell.evidence.attempt, cell.reason) == ("measured", 1, "")
    assert (attempt.outcome, attempt.reason) == ("measured", "window is over (delivered late)")
    assert cell.progress["spent"] == {"requests": 0, "tokens": 0}
    assert Event.objects.filter(verb="recorded measured cell", reason="delivered late").count() == 1
    assert Grid.objects.get().status == "measured"


def test_a_late_result_ends_the_newer_attempt_that_runs_for_the_same_cell():
    held = interrupted()
    newer = claim(Grid.objects.get())
    claims.beat(claim=newer, progress={"sent": 40, "tokens": 400})
    assert recording.deliver(claim=held, result=ended(-60)) is Delivery.RESULT
    assert claims.beat(claim=newer, progress={}).lost
    assert not record(newer)
    assert list(Attempt.objects.values_list("number", "outcome")) == [(1, "measured"), (2, "interrupted")]
    assert Attempt.objects.get(number=2).ended_at is not None
    assert Cell.objects.get().evidence.attempt == 1


def test_what_a_newer_attempt_sent_counts_too_when_a_late_result_takes_its_place():
    held = interrupted()
    newer = claim(Grid.objects.get())
    claims.beat(claim=newer, progress={"sent": 40, "tokens": 400})
    late = msgspec.structs.replace(ended(-60), progress={"sent": 100, "tokens": 1000})
    assert recording.deliver(claim=held, result=late) is Delivery.RESULT
    assert Cell.objects.get().progress["spent"] == {"requests": 140, "tokens": 1400}


def test_a_late_result_after_a_newer_attempt_has_finished_is_kept_and_not_the_result():
    held = interrupted()
    assert record(claim(Grid.objects.get()), content=b"newer")
    before = Cell.objects.values().get()
    late = msgspec.structs.replace(ended(-60), parquet=b"older", signature="by the worker")
    assert recording.deliver(claim=held, result=late) is Delivery.SUPERSEDED
    assert recording.deliver(claim=held, result=late) is Delivery.KNOWN
    kept = SupersededEvidence.objects.get()
    assert (kept.attempt, bytes(kept.content), kept.sha256) == (1, b"older", late.sha256)
    assert kept.signature == "by the worker"
    assert kept.reason == "Attempt 2 had finished before this result of attempt 1 arrived."
    assert (Cell.objects.values().get(), queries.evidence_bytes(held.cell_id)) == (before, b"newer")
    assert Event.objects.filter(verb="kept superseded evidence").count() == 1


@pytest.mark.parametrize(("after_s", "became"), [(-60, Delivery.RESULT), (60, Delivery.SUPERSEDED)])
def test_a_late_result_that_a_newer_attempt_ran_beside_is_kept_and_not_the_result(after_s, became):
    held = interrupted()
    newer = claim(Grid.objects.get())
    assert recording.deliver(claim=held, result=ended(after_s)) is became
    assert record(newer) is (became is Delivery.SUPERSEDED)
    assert Evidence.objects.count() == 1


@pytest.mark.parametrize(
    ("close", "became"),
    [
        (lambda grid: runs.stop(grid=grid, how="cancel", by=grid.drawn_by), Delivery.RESULT),
        (lambda grid: runs.close_unauthorized(at=timezone.now() + timedelta(days=30)), Delivery.RESULT),
        (lambda grid: Grid.objects.filter(pk=grid.pk).update(status="measured"), Delivery.SUPERSEDED),
        (lambda grid: Grid.objects.filter(pk=grid.pk).update(status="withdrawn"), Delivery.SUPERSEDED),
    ],
)
def test_a_late_result_is_added_to_a_grid_that_may_be_resumed_and_to_no_other(close, became):
    held = interrupted()
    close(Grid.objects.get())
    assert recording.deliver(claim=held, result=ended(-60)) is became
    assert (Evidence.objects.count(), SupersededEvidence.objects.count()) == (
        (1, 0) if became is Delivery.RESULT else (0, 1)
    )


def test_a_cell_measured_by_a_late_result_is_not_run_again_when_the_grid_is_resumed():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    held = claim(grid)
    claims.interrupt(claim=held, reason="no heartbeat")
    runs.stop(grid=grid, how="cancel", by=grid.drawn_by)
    assert recording.deliver(claim=held, result=ended(-60)) is Delivery.RESULT
    protected.authorized(grid)
    runs.resume(grid=Grid.objects.get(), by=grid.drawn_by)
    assert states(grid) == ["measured", "queued"]


def test_a_late_result_that_fails_the_gate_holds_back_the_higher_settings_too():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    held = claim(grid)
    claims.interrupt(claim=held, reason="no heartbeat")
    late = msgspec.structs.replace(result(summary(ok=50, failed=50)), finished_at=time.time() - 60)
    assert recording.deliver(claim=held, result=late) is Delivery.RESULT
    assert states(grid) == ["measured", "not_run"]


def test_another_error_than_an_absent_database_is_not_taken_for_one():
    held = taken()
    with database(DataError("a null byte")), pytest.raises(DataError):
        recording.deliver(claim=held, result=result())
    with database(AWAY), pytest.raises(NotTakenError, match="server closed"):
        delivering.deliver(held, result(), None)


@pytest.mark.parametrize("spooled", [True, False])
def test_a_sweep_delivers_what_lies_here_before_it_takes_an_attempt_for_dead(spooled):
    held = taken()
    if spooled:
        spool.put(held, result())
    Cell.objects.update(heartbeat_at=timezone.now() - timedelta(days=1))
    tasks.sweep()
    assert (states(Grid.objects.get()), Attempt.objects.get().outcome) == (
        (["measured"], "measured") if spooled else (["queued"], "interrupted")
    )


def test_a_worker_delivers_when_it_is_asked_what_its_host_is_and_before_it_claims():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    for task, position in ((tasks.probe_hardware, 0), (tasks.ring, 1)):
        held = claim(grid)
        spool.put(held, result(summary(setting=position + 1)))
        task(grid.hardware.slug)
        assert Cell.objects.get(grid=grid, position=position).status == "measured"
    assert spool.waiting() == []
