"""Claiming, holding and recording cells: who wins, who is refused, and what stays behind."""

import hashlib
from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarks import claims, probe, queries, recording, runs
from benchmarks.models import Attempt, Authorization, Event, Evidence, Grid
from tests import factories
from tests.benchmarks.runs.made import INFINITE, ME, claim, record, running_grid, states, summary

pytestmark = pytest.mark.django_db


def test_cells_are_claimed_in_running_order_and_one_at_a_time():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    first = claim(grid)
    assert (first.attempt, first.cell_id) == (1, grid.cells.get(position=0).pk)
    assert claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker="other") is None
    assert record(first)
    assert claim(grid).cell_id == grid.cells.get(position=1).pk


def test_two_grids_on_one_host_do_not_run_together_and_two_hosts_do():
    host = factories.make_hardware()
    runtime = factories.make_runtime(host)
    a, b, elsewhere = running_grid(runtime=runtime), running_grid(runtime=runtime), running_grid()
    assert claim(a).grid_id == a.pk
    assert claims.claim_next_cell(hardware_slugs=[host.slug], worker=ME) is None
    assert claim(elsewhere).grid_id == elsewhere.pk
    assert states(b).count("running") == 0


@pytest.mark.parametrize("slugs", [[], ["another-host"]])
def test_a_worker_claims_only_for_hosts_it_serves(slugs):
    running_grid()
    assert claims.claim_next_cell(hardware_slugs=slugs, worker=ME) is None


def test_a_draft_is_never_claimed():
    grid = factories.make_grid()
    assert claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker=ME) is None


@pytest.mark.parametrize(
    ("what", "change", "words"),
    [
        ("the window has not begun", {"valid_from": timedelta(hours=1)}, "begins at"),
        ("the window is over", {"valid_from": timedelta(hours=-2), "valid_until": timedelta(hours=-1)}, "ended at"),
        ("fewer at a time than the cell offers", {"max_concurrency": 1}, "allows 1 at a time"),
    ],
)
def test_a_grid_whose_authorisation_does_not_hold_waits_with_the_reason(what, change, words):
    grid = factories.make_grid(settings=(2,), class_names=("short",))
    Grid.objects.filter(pk=grid.pk).update(status="authorized")
    grid.cells.update(status="queued")
    now = timezone.now()
    times = {name: now + change.get(name, offset) for name, offset in
             (("valid_from", timedelta(hours=-3)), ("valid_until", timedelta(hours=3)))}  # fmt: skip
    Authorization.objects.create(
        grid=grid, grid_digest=grid.digest, requested_by=grid.drawn_by, max_requests=9, max_tokens=9, max_minutes=9,
        authorized_by=factories.make_user(grid.team, "host_owner"), target=grid.runtime.endpoint,
        max_concurrency=change.get("max_concurrency", 8), **times,
    )  # fmt: skip
    assert claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker=ME) is None
    cell = grid.cells.get()
    assert (cell.status, words in cell.reason, cell.attempt) == ("queued", True, 0)


def test_a_changed_plan_voids_the_authorisation():
    grid = running_grid(settings=(1,), class_names=("short",))
    Grid.objects.filter(pk=grid.pk).update(window_s=500)
    assert claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker=ME) is None
    assert "plan changed" in grid.cells.get().reason


@pytest.mark.parametrize(
    ("spent", "allowed"), [({"sent": 999_999}, True), ({"sent": 1_000_000}, False), ({"tokens": 100_000_000}, False)]
)
def test_ceilings_count_over_all_cells_of_the_grid(spent, allowed):
    grid = running_grid(settings=(1,), class_names=("short", "median"))
    assert record(claim(grid), **spent)
    found = claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker=ME)
    assert (found is not None) is allowed
    if not allowed:
        assert "all" in grid.cells.get(position=1).reason
        assert runs.close_unauthorized(at=timezone.now()) == 1
        grid.refresh_from_db()
        assert (grid.status, states(grid)) == ("stopped", ["measured", "not_run"])


def test_requests_of_interrupted_attempts_count_against_the_ceiling_too():
    grid = running_grid(settings=(1,), class_names=("short",))
    first = claim(grid)
    claims.beat(claim=first, progress={"sent": 40, "tokens": 400})
    assert claims.interrupt(claim=first, reason="gone")
    second = claim(grid)
    assert (second.attempt, second.spent_requests, second.spent_tokens) == (2, 40, 400)
    assert record(second, sent=10, tokens=100)
    assert grid.cells.get().progress["spent"] == {"requests": 50, "tokens": 500}


def test_a_result_is_kept_with_its_digest_in_one_piece():
    grid = running_grid(settings=(1,), class_names=("short",))
    content = bytes(range(256)) * 4
    assert record(claim(grid), content=content)
    cell = grid.cells.select_related("evidence").get()
    assert (cell.status, cell.evidence.sha256) == ("measured", hashlib.sha256(content).hexdigest())
    assert queries.evidence_bytes(cell.pk) == content
    grid.refresh_from_db()
    assert (grid.status, grid.finished_at is not None) == ("measured", True)
    assert Event.objects.filter(verb="recorded measured cell", changes__sha256=cell.evidence.sha256).count() == 1


@pytest.mark.parametrize("size", [recording.CHUNK_BYTES, recording.CHUNK_BYTES + 1])
def test_large_evidence_is_cut_into_pieces_and_joined_again(size):
    grid = running_grid(settings=(1,), class_names=("short",))
    content = bytes(size)
    assert record(claim(grid), content=content)
    evidence = Evidence.objects.get()
    assert evidence.chunks.count() == -(-size // recording.CHUNK_BYTES)
    assert queries.evidence_bytes(evidence.cell_id) == content


def test_infinite_times_survive_the_column():
    grid = running_grid(settings=(1,), class_names=("short",))
    assert record(claim(grid), summary(ok=90, failed=10, p95_s=INFINITE))
    found = queries.evidence(grid).cells[0].summary
    assert found is not None
    assert found.classes[0].e2e_s.p95.value == INFINITE


def test_a_late_older_attempt_is_not_accepted():
    grid = running_grid(settings=(1,), class_names=("short",))
    old = claim(grid)
    assert claims.interrupt(claim=old, reason="silent")
    new = claim(grid)
    assert claims.beat(claim=old, progress={}).lost
    assert record(old, content=b"old") is False
    assert record(new, content=b"new") is True
    assert record(new, content=b"again") is False
    assert queries.evidence_bytes(grid.cells.get().pk) == b"new"
    assert [(a.number, a.outcome) for a in Attempt.objects.order_by("number")] == [(1, "interrupted"), (2, "measured")]


def test_a_silent_worker_is_interrupted_and_its_cell_queued_again(settings):
    grid = running_grid(settings=(1,), class_names=("short",))
    taken = claim(grid)
    now = timezone.now()
    assert claims.interrupt_stale(at=now + timedelta(seconds=settings.STALE_AFTER_S - 5)) == 0
    assert claims.interrupt_stale(at=now + timedelta(seconds=settings.STALE_AFTER_S + 5)) == 1
    cell = grid.cells.get()
    assert (cell.status, cell.attempt, "No heartbeat" in cell.reason) == ("queued", 1, True)
    assert Attempt.objects.get(cell=taken.cell_id).outcome == "interrupted"


def test_a_dead_process_of_this_host_needs_no_waiting():
    grid = running_grid(settings=(1,), class_names=("short",))
    host, boot, pid, _ = probe.claimant().split("|")
    claim(grid, worker=f"{host}|{boot}|{pid}|another-start")
    assert claims.interrupt_stale(at=timezone.now()) == 1
    claim(grid, worker=probe.claimant())
    assert claims.interrupt_stale(at=timezone.now()) == 0


def test_a_cell_that_is_interrupted_again_and_again_is_left_for_a_person():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    for _ in range(claims.MOST_INTERRUPTIONS):
        assert claims.interrupt(claim=claim(grid), reason="the engine crashed")
    grid.refresh_from_db()
    assert (grid.status, states(grid)) == ("stopped", ["interrupted", "not_run"])
    assert f"{claims.MOST_INTERRUPTIONS} times" in grid.stop_reason


@pytest.mark.parametrize(
    ("what", "made", "left"),
    [
        ("all is well", summary(), ["measured", "queued", "queued", "queued"]),
        (
            "the gate fails: this stage goes on, higher ones do not",
            summary(p95_s=9.0),
            ["measured", "queued", "not_run", "not_run"],
        ),
        (
            "the guard stops: nothing of this stage goes on either",
            summary(complete=False, end_reason="guard: GPU at 91 C"),
            ["stopped", "not_run", "not_run", "not_run"],
        ),
    ],
)  # fmt: skip
def test_stages_go_upward_only_while_it_is_safe(what, made, left):
    grid = running_grid(settings=(1, 2), class_names=("short", "median"))
    assert record(claim(grid), made)
    assert states(grid) == left


def test_a_grid_that_a_gate_cut_short_is_measured_and_says_why():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    assert record(claim(grid), summary(p95_s=9.0))
    grid.refresh_from_db()
    assert (grid.status, states(grid)) == ("measured", ["measured", "not_run"])
    assert "Not safe to go on" in grid.stop_reason


def test_every_change_of_state_raises_the_version_that_pages_poll_and_a_heartbeat_does_not():
    grid = running_grid(settings=(1,), class_names=("short",))

    def version() -> int:
        return Grid.objects.get(pk=grid.pk).progress_version

    seen = [version()]
    taken = claim(grid)
    seen.append(version())
    claims.beat(claim=taken, progress={"sent": 1})
    assert version() == seen[-1]
    record(taken)
    seen.append(version())
    assert seen == sorted(set(seen))


def test_a_running_cell_hears_a_stop_and_a_revocation():
    grid = running_grid(settings=(1,), class_names=("short",))
    taken = claim(grid)
    assert claims.beat(claim=taken, progress={}).stop == ""
    runs.stop(grid=grid, how="drain", by=grid.drawn_by)
    assert claims.beat(claim=taken, progress={}).stop == "drain"
    leave = Authorization.objects.get()
    runs.revoke(authorization=leave, by=leave.authorized_by, reason="power is needed")
    pulse = claims.beat(claim=taken, progress={})
    assert (pulse.stop, "power is needed" in pulse.reason) == ("cancel", True)


def test_a_stopped_cell_gives_its_place_back_and_the_grid_ends():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    taken = claim(grid)
    runs.stop(grid=grid, how="cancel", by=grid.drawn_by)
    assert claims.give_back(claim=taken, reason="Stopped by operator (cancel).")
    grid.refresh_from_db()
    assert (grid.status, states(grid), grid.stop_requested) == ("stopped", ["not_run", "not_run"], "")
    assert not claims.give_back(claim=taken, reason="again")


def test_a_dead_worker_of_a_grid_that_was_asked_to_stop_leaves_a_stopped_grid():
    grid = running_grid(settings=(1, 2), class_names=("short",))
    taken = claim(grid)
    runs.stop(grid=grid, how="drain", by=grid.drawn_by)
    assert claims.interrupt(claim=taken, reason="gone")
    grid.refresh_from_db()
    assert (grid.status, states(grid)) == ("stopped", ["not_run", "not_run"])
