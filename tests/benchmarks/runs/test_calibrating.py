"""Self-calibration of a grid: what may be reused, what is kept, and that an untrue client starts nothing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from msgspec.structs import replace

from benchmarks import calibrating, engine_child, runs, worker
from benchmarks.engine.plan import Fixed
from benchmarks.models import Event, Grid
from benchmarks.records import kept_calibration
from benchmarks.records.calibration import Calibration
from benchmarks.records.kept_calibration import Kept, Need
from benchmarks.records.modes import ClosedTerms, MicroTerms, OpenTerms, SearchTerms, StaticTerms, Terms
from tests import factories
from tests.benchmarks.runs.made import claim, running_grid, states

pytestmark = pytest.mark.django_db

TRUE = Calibration(n=100, ttft_error_p50_ms=0.05, ttft_error_p99_ms=0.3, gap_error_p99_ms=0.1, ok=True, why="")
UNTRUE = Calibration(
    n=100,
    ttft_error_p50_ms=1.0,
    ttft_error_p99_ms=3.2,
    gap_error_p99_ms=0.1,
    ok=False,
    why="TTFT error p99 3.20 ms, allowed 2",
)


def _need(**changes: object) -> Need:
    plain = Need(host="host-a", boot="b", client_cpus=(), engine_sha256="e", processes=1, offered_concurrency=8)
    return replace(plain, **changes)


def _keep(grid: Grid, need: Need, *tries: Calibration) -> Kept:
    return calibrating.keep(grid, need, tries or (TRUE,), engine_version="0.2.0", worker="host-a|b|7|1")


# claim, what changed of the need, minutes since, whether it may stand
REUSE = [
    ("the same", {}, 0, True),
    ("59 minutes later", {}, 59, True),
    ("an hour later", {}, 60, False),
    ("from the future", {}, -1, False),
    ("less offered", {"offered_concurrency": 7}, 0, True),
    ("more offered", {"offered_concurrency": 9}, 0, False),
    ("another boot", {"boot": "c"}, 0, False),
    ("another host", {"host": "host-b"}, 0, False),
    ("other cores", {"client_cpus": (2, 3)}, 0, False),
    ("another engine", {"engine_sha256": "f"}, 0, False),
    ("more processes", {"processes": 2}, 0, False),
]


@pytest.mark.parametrize(("changes", "minutes", "stands"), [row[1:] for row in REUSE], ids=[row[0] for row in REUSE])
def test_a_calibration_stands_for_another_grid_only_where_nothing_that_matters_changed(
    changes: dict[str, object], minutes: int, stands: bool
) -> None:
    first = factories.make_grid(settings=(1,))
    kept = _keep(first, _need())
    other = factories.make_grid(first.runtime, first.workload, first.drawn_by, settings=(1,))
    at = kept.at + timedelta(minutes=minutes)
    assert calibrating.settled(other, _need(**changes), at=at) is stands
    other.refresh_from_db()
    found = kept_calibration.read(other.calibration)
    assert (found is not None) is stands
    if found is not None:
        assert (found.reused_from, found.at, found.tries) == (first.pk, kept.at, kept.tries)


def test_a_calibration_within_looser_limits_does_not_stand_where_they_are_stricter(settings: Any) -> None:
    first, other = factories.make_grid(settings=(1,)), factories.make_grid(settings=(1,))
    stated = dict(settings.CALIBRATION_LIMITS_MS)
    settings.CALIBRATION_LIMITS_MS = stated | {"gap_error_p99_ms": 50.0}
    kept = _keep(first, _need())
    assert kept.limits.gap_error_p99_ms == 50.0
    assert calibrating.fits(kept, _need(), at=kept.at)
    settings.CALIBRATION_LIMITS_MS = stated
    assert not calibrating.settled(other, _need(), at=kept.at)


def test_what_was_reused_names_the_grid_that_ran_it_however_often_it_is_handed_on() -> None:
    grids = [factories.make_grid(settings=(1,)) for _ in range(3)]
    kept = _keep(grids[0], _need())
    for grid in grids[1:]:
        assert calibrating.settled(grid, _need(), at=kept.at)
    found = kept_calibration.read(grids[2].calibration)
    assert found is not None
    assert found.reused_from == grids[0].pk


def test_a_failed_calibration_stands_for_nobody_not_even_its_own_grid() -> None:
    grid, other = factories.make_grid(settings=(1,)), factories.make_grid(settings=(1,))
    kept = _keep(grid, _need(), UNTRUE, UNTRUE, UNTRUE)
    assert not kept.agrees
    assert not calibrating.settled(grid, _need(), at=kept.at)
    assert not calibrating.settled(other, _need(), at=kept.at)


def test_a_grid_that_was_calibrated_goes_on_later_without_doing_it_again() -> None:
    grid = factories.make_grid(settings=(1,))
    kept = _keep(grid, _need())
    assert calibrating.settled(grid, _need(boot="c"), at=kept.at + timedelta(days=9))


def test_figures_limits_and_tries_stand_on_the_grid_and_in_an_event() -> None:
    grid = factories.make_grid(settings=(1,))
    _keep(grid, _need(), UNTRUE, TRUE)
    grid.refresh_from_db()
    kept = kept_calibration.read(grid.calibration)
    assert kept is not None
    assert (kept.agrees, kept.tries, kept.limits.ttft_error_p99_ms, kept.limits.gap_error_p99_ms) == (
        True,
        (UNTRUE, TRUE),
        2.0,
        1.0,
    )
    event = Event.objects.get(subject=f"grid {grid.pk}", verb="calibrated the client")
    assert event.changes == {"offered": 8, "tries": 2, "ttft_error_p99_ms": 0.3, "gap_error_p99_ms": 0.1}


def test_the_refusal_says_by_how_much_and_what_to_do() -> None:
    kept = _keep(factories.make_grid(settings=(1,)), _need(), UNTRUE, UNTRUE, UNTRUE)
    words = calibrating.refusal(kept)
    assert "TTFT error p99 3.20 ms, allowed 2 (3 tries at 8 in flight)" in words
    assert "HEADROOM_CLIENT_CPUS" in words
    long = replace(UNTRUE, why="x" * 500)
    for told in (kept, _keep(factories.make_grid(settings=(1,)), _need(offered_concurrency=1024), long)):
        assert len(calibrating.refusal(told)) <= 300
        assert calibrating.refusal(told).endswith("then go on.")


@pytest.mark.parametrize(
    ("load", "settings", "offered", "processes"),
    [
        (ClosedTerms(processes=4), (1, 8), 8, 4),
        (ClosedTerms(processes=4), (1, 2), 2, 2),
        (ClosedTerms(), (1, 2000), 1024, 1),
        (OpenTerms(max_in_flight=64), (600,), 64, 1),
        (MicroTerms(max_batches=3), (8,), 3, 1),
        (StaticTerms(beside=2), (4, 8), 16, 1),
        (SearchTerms(), (1, 64), 64, 1),
    ],
)
def test_it_runs_at_what_the_client_has_open_at_the_highest_setting(
    load: Terms, settings: tuple[int, ...], offered: int, processes: int
) -> None:
    runtime = factories.make_runtime(dialect="openai_embeddings")
    need = calibrating.need_of(factories.make_grid(runtime, settings=settings, class_names=("short",), load=load))
    assert (need.offered_concurrency, need.processes) == (offered, processes)


@pytest.mark.parametrize(
    ("offered", "window_s", "tokens"),
    [(1, 4.0, 4), (4, 3.15, 4), (8, 2.0, 4), (16, 2.0, 12), (64, 2.0, 32), (256, 2.0, 64), (1024, 2.0, 64)],
)
def test_the_plan_is_brief_and_still_makes_a_hundred_requests_from_four_streams_up(
    offered: int, window_s: float, tokens: int
) -> None:
    need = _need(offered_concurrency=offered, processes=1, client_cpus=(0,))
    plan = calibrating.plan_for(need, "http://127.0.0.1:9")
    length = plan.classes[0].output_tokens
    assert (plan.window_s, length, plan.warmup_s) == (pytest.approx(window_s), Fixed(tokens), 0.5)
    assert (plan.offered_concurrency, plan.client_cpus) == (offered, (0,))
    made = offered * plan.window_s / (calibrating.WAIT_S + calibrating.STEP_S * tokens)
    assert (made >= 100) is (offered >= 4)
    assert plan.seed != calibrating.plan_for(need, "http://127.0.0.1:9").seed


def test_the_worker_calibrates_against_a_simulator_of_its_own_before_the_first_cell() -> None:
    """With the real engine and the real simulator; whether they agree is this machine's affair, that they met is not."""
    grid = running_grid(settings=(2,), class_names=("short",))
    taken = claim(grid)
    with worker._folder(taken) as folder:
        proved, _ = worker._calibrated(taken, grid, folder)
    kept = kept_calibration.read(Grid.objects.get(pk=grid.pk).calibration)
    assert kept is not None
    assert kept.last is not None
    assert (kept.last.n > 10, kept.engine_version != "", kept.need.offered_concurrency) == (True, True, 2), kept
    assert kept.agrees is proved
    assert states(grid) == (["running"] if kept.agrees else ["not_run"])
    assert timezone.now() - kept.at < timedelta(minutes=5)


def test_above_the_limits_the_grid_does_not_start_after_three_tries_and_can_go_on_later(settings: Any) -> None:
    """No client is true to a millionth of a millisecond."""
    settings.CALIBRATION_LIMITS_MS = {"ttft_error_p99_ms": 1e-6, "gap_error_p99_ms": 1e-6}
    grid = running_grid(settings=(1, 8), class_names=("short",))
    assert worker.run_cell(claim(grid))
    grid.refresh_from_db()
    kept = kept_calibration.read(grid.calibration)
    assert kept is not None
    assert (kept.agrees, len(kept.tries), kept.limits.ttft_error_p99_ms) == (False, calibrating.TRIES, 1e-6)
    assert (states(grid), grid.status, grid.stop_reason) == (["not_run"] * 2, "stopped", calibrating.refusal(kept))
    assert set(grid.cells.values_list("reason", flat=True)) == {calibrating.refusal(kept)}
    assert grid.cells.first().progress.get("spent") == {"requests": 0, "tokens": 0}  # type: ignore[union-attr]
    runs.resume(grid=grid, by=grid.drawn_by)
    assert states(grid) == ["queued"] * 2


def test_a_simulator_that_does_not_start_is_a_try_without_figures_and_its_words_are_kept(
    settings: Any, tmp_path: Path
) -> None:
    settings.BASE_DIR = tmp_path  # there is no benchmarks package here
    environment = engine_child.environment(None)
    with (
        pytest.raises(calibrating.CalibrationFailedError, match="it said nothing"),
        calibrating.simulator(tmp_path, environment),
    ):
        raise AssertionError("it started")
    assert "No module named" in (tmp_path / "simulator.stderr").read_text()


def test_a_stop_during_the_calibration_ends_it_and_starts_no_cell() -> None:
    grid = running_grid(settings=(2,), class_names=("short",))
    taken = claim(grid)
    Grid.objects.filter(pk=grid.pk).update(stop_requested="cancel", stop_reason="Stopped by owner (cancel).")
    with worker._folder(taken) as folder:
        proved, watch = worker._calibrated(taken, grid, folder)
    assert (proved, watch.pulse.stop) == (False, "cancel")
    assert states(grid) == ["not_run"]
    assert Grid.objects.get(pk=grid.pk).calibration is None
