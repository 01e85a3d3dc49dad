"""Power and room around real cells: kept with each attempt, a changed supply interrupts, unlike conditions stop the grid.

The supply is a UPS daemon of the test's own on loopback; runtime, engine and worker are real.
"""

from __future__ import annotations

import itertools
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from benchmarks import claims, comparable, probe, runs, surroundings, tasks, worker
from benchmarks.conditions import clocks
from benchmarks.models import Attempt, Cell, Grid
from benchmarks.records.calibration import Limits
from benchmarks.records.kept_calibration import Kept, Need
from tests import factories
from tests.benchmarks.conditions import upsd
from tests.benchmarks.conditions.upsd import Upsd
from tests.benchmarks.runs import protected
from tests.benchmarks.runs.installation import PYTHON, ROOT
from tests.benchmarks.runs.made import claim, record, running_grid, states

pytestmark = pytest.mark.django_db

TRUE = msgspec.to_builtins(
    Kept(
        agrees=True, why="", at=datetime(2026, 11, 14, tzinfo=UTC), engine_version="0.2.0", limits=Limits(), tries=(),
        need=Need(host="h", boot="b", client_cpus=(), engine_sha256="e", processes=1, offered_concurrency=4),
    )
)  # fmt: skip
MAINS, BATTERY = {"ups.status": "OL", "battery.charge": "100"}, {"ups.status": "OB DISCHRG", "battery.charge": "93"}


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A simulated runtime of its own."""
    command = [PYTHON, "-m", "benchmarks.simulator", "--port", "0", "--with-parent"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield next(word for word in process.stdout.readline().decode().split() if word.startswith("http://"))
        process.terminate()


@pytest.fixture
def supply(settings: Any, tmp_path: Path) -> Iterator[Upsd]:
    settings.VAR, settings.HEARTBEAT_S = tmp_path, 0.2
    settings.CALIBRATION_LIMITS_MS = {"ttft_error_p99_ms": 500.0, "gap_error_p99_ms": 500.0}
    with upsd.serving(office=dict(MAINS)) as daemon:
        settings.NUT, settings.NUT_ASKED_FOR = daemon.address, True
        yield daemon


def grid_at(endpoint: str, *, settings: tuple[int, ...] = (1, 2), window_s: float = 1.0) -> Grid:
    runtime = factories.make_runtime(endpoint=endpoint, model_name="headroom-simulated-demo")
    grid = running_grid(
        runtime=runtime, workload=factories.make_workload(runtime.team, classes={"short": (8, 8)}), settings=settings,
        class_names=("short",), window_s=window_s, warmup_s=0.0, limits=factories.make_limits(classes=("short",), e2e_s=60.0),
    )  # fmt: skip
    Grid.objects.filter(pk=grid.pk).update(calibration=TRUE)
    return grid


def run_next(grid: Grid) -> None:
    taken = claims.claim_next_cell(
        hardware_slugs=[grid.hardware.slug], worker=probe.claimant(), wait_for=comparable.wait_reason
    )
    assert taken is not None
    assert worker.run_cell(taken)


def reasons(grid: Grid) -> list[str]:
    return list(grid.cells.order_by("position").values_list("reason", flat=True))


def test_each_attempt_keeps_what_surrounded_it_before_and_after(endpoint, supply):
    grid = grid_at(endpoint, settings=(1,))
    run_next(grid)
    assert states(grid) == ["measured"]
    kept = Attempt.objects.get().conditions
    assert [(kept[when]["power_source"], kept[when]["on_battery"]) for when in ("before", "after")] == [
        ("grid", False)
    ] * 2
    assert kept["before"]["supplies"] == [{"name": "office", "status": ["OL"], "charge_share": 1.0, "load_share": None}]
    assert kept["before"]["at"] < kept["after"]["at"]
    assert kept["facts"]["runtime"]["serves the model"] is True
    assert not {"differs", "clock_step_s", "power_change"} & set(kept)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (MAINS, BATTERY, "it was mains, it is UPS on battery (office)."),
        (BATTERY, MAINS, "it was UPS on battery (office), it is mains."),
    ],
)
def test_a_changed_supply_interrupts_the_cell_and_says_so(endpoint, supply, before, after, change):
    supply.supplies["office"] = dict(before)
    grid = grid_at(endpoint, settings=(1,), window_s=60.0)
    switch = threading.Timer(3.0, lambda: supply.supplies.update(office=dict(after)))
    switch.start()
    began = time.monotonic()
    run_next(grid)
    switch.join()
    assert time.monotonic() - began < 30
    attempt = Attempt.objects.get()
    assert (states(grid), attempt.outcome) == (["queued"], "interrupted")
    assert attempt.reason == f"The power changed during the cell: {change}"
    assert attempt.conditions["power_change"] == attempt.reason
    assert attempt.conditions["before"]["on_battery"] is not attempt.conditions["after"]["on_battery"]


def test_a_change_in_the_last_second_of_a_cell_is_seen_when_it_has_ended(supply, monkeypatch):
    """Also one that came before the watch had looked at all."""
    monkeypatch.setattr(surroundings, "POLL_S", 60.0)
    before = msgspec.to_builtins(surroundings.read())
    supply.supplies["office"] = dict(BATTERY)
    with surroundings.Around({"before": before}) as around:
        assert around.look() == "The power changed during the cell: it was mains, it is UPS on battery (office)."
    assert around.ended()["power_change"] == around.alarm


def test_a_supply_that_falls_silent_and_comes_back_the_same_interrupts_nothing(endpoint, supply):
    grid = grid_at(endpoint, settings=(1,), window_s=6.0)
    threading.Timer(2.0, lambda: supply.answers.update({"LIST UPS": "ERR DRIVER-NOT-CONNECTED\n"})).start()
    threading.Timer(4.5, supply.answers.clear).start()
    run_next(grid)
    assert states(grid) == ["measured"]


def test_a_grid_that_was_begun_on_mains_waits_while_the_supply_runs_on_battery(endpoint, supply):
    grid = grid_at(endpoint)
    run_next(grid)
    supply.supplies["office"] = dict(BATTERY)
    tasks.ring(grid.hardware.slug)
    assert states(grid) == ["measured", "queued"]
    assert reasons(grid)[1] == "Waits for the power to come back: UPS on battery (office) now."
    supply.supplies["office"] = dict(MAINS)
    run_next(grid)
    assert (states(grid), Attempt.objects.count()) == (["measured", "measured"], 2)


def test_a_grid_whose_first_cell_ran_on_battery_does_not_go_on_on_mains(endpoint, supply):
    supply.supplies["office"] = dict(BATTERY)
    grid = grid_at(endpoint)
    run_next(grid)
    supply.supplies["office"] = dict(MAINS)
    run_next(grid)
    grid.refresh_from_db()
    assert (states(grid), grid.status) == (["measured", "not_run"], "stopped")
    assert grid.stop_reason == (
        "Not comparable with the first cell: power source was ups, is grid. "
        "Put it back and resume, have a host owner authorise the grid again, or draw a new one."
    )


def changed_first(grid: Grid, **facts: object) -> None:
    """As if the first cell had been measured under other facts."""
    attempt = Attempt.objects.get(cell__grid=grid, cell__position=0)
    attempt.conditions["facts"] |= facts
    attempt.save(update_fields=["conditions"])


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"host": {"cpu": "another"}}, "cpu was another, is "),
        ({"runtime": {"version": "0.0.1"}}, "runtime version was 0.0.1, is "),
        ({"runtime": {"max_active_sequences": 99}}, "runtime max_active_sequences was 99, is "),
        ({"power_source": "generator"}, "power source was generator, is grid"),
    ],
)
def test_what_differs_from_the_first_cell_stops_the_grid_and_is_named(endpoint, supply, facts, words):
    grid = grid_at(endpoint)
    run_next(grid)
    changed_first(grid, **facts)
    before = Cell.objects.filter(grid=grid, position=0).values().get()
    run_next(grid)
    grid.refresh_from_db()
    assert (states(grid), grid.status) == (["measured", "not_run"], "stopped")
    assert grid.stop_reason.startswith(f"Not comparable with the first cell: {words}")
    assert Cell.objects.filter(grid=grid, position=0).values().get() == before


def test_resuming_alone_does_not_mix_and_a_host_owner_who_authorises_anew_accepts_it_in_the_open(endpoint, supply):
    grid = grid_at(endpoint, settings=(1, 2, 3))
    run_next(grid)
    changed_first(grid, power_source="generator")
    run_next(grid)
    runs.resume(grid=Grid.objects.get(pk=grid.pk), by=grid.drawn_by)
    run_next(grid)
    assert states(grid) == ["measured", "not_run", "not_run"]
    protected.authorized(Grid.objects.get(pk=grid.pk))
    runs.resume(grid=Grid.objects.get(pk=grid.pk), by=grid.drawn_by)
    run_next(grid)
    run_next(grid)
    assert states(grid) == ["measured"] * 3
    last = Attempt.objects.filter(cell__grid=grid, outcome="measured").order_by("pk")
    assert [attempt.conditions.get("differs") for attempt in last] == [
        None, ["power source was generator, is grid"], ["power source was generator, is grid"],
    ]  # fmt: skip


def test_an_authorisation_that_was_renewed_before_anything_differed_accepts_nothing(endpoint, supply):
    grid = grid_at(endpoint)
    run_next(grid)
    runs.stop(grid=Grid.objects.get(pk=grid.pk), how="drain", by=grid.drawn_by)
    protected.authorized(Grid.objects.get(pk=grid.pk))
    runs.resume(grid=Grid.objects.get(pk=grid.pk), by=grid.drawn_by)
    changed_first(grid, power_source="generator")
    run_next(grid)
    assert states(grid) == ["measured", "not_run"]


def test_a_cell_measured_before_conditions_were_kept_is_no_reference(endpoint, supply):
    grid = grid_at(endpoint)
    assert record(claim(grid))
    run_next(grid)
    assert states(grid) == ["measured", "measured"]


@pytest.mark.parametrize(("step_s", "told"), [(0, None), (7200, 7200.0), (-7200, -7200.0)])
def test_a_wall_clock_that_was_set_during_the_cell_is_told_and_moves_no_duration(
    endpoint, supply, monkeypatch, step_s, told
):
    steps = itertools.chain(
        [0], itertools.repeat(step_s * 10**9)
    )  # set between the first look at the clock and the next
    wall = SimpleNamespace(time_ns=lambda: time.time_ns() + next(steps), monotonic_ns=time.monotonic_ns)
    grid = grid_at(endpoint, settings=(1,))
    monkeypatch.setattr(clocks, "time", wall)
    run_next(grid)
    monkeypatch.undo()
    kept = Attempt.objects.get().conditions
    assert states(grid) == ["measured"]
    assert kept.get("clock_step_s") == (None if told is None else pytest.approx(told, abs=1.0))
    assert ("clock" in kept) is (told is not None)


def test_the_form_suggests_what_the_worker_read_within_the_hour_and_nothing_older(supply):
    grid = running_grid(settings=(1,), class_names=("short",))
    taken = claim(grid)
    assert surroundings.suggested(grid, at=timezone.now()) == {}
    supply.supplies["office"] = dict(BATTERY)
    surroundings.keep(taken, {"before": msgspec.to_builtins(surroundings.read())})
    found = surroundings.suggested(grid, at=timezone.now())
    assert (found["power_source"], found["ups_on_battery"]) == ("ups", True)
    assert str(found["notes"]).endswith("UTC: power UPS on battery (office).")
    assert surroundings.suggested(grid, at=timezone.now() + surroundings.FRESH + timedelta(seconds=5)) == {}


def test_the_conditions_page_is_filled_in_with_it(supply, client):
    grid = running_grid(settings=(1,), class_names=("short",))
    taken = claim(grid)
    supply.supplies["office"] = dict(BATTERY)
    surroundings.keep(taken, {"before": msgspec.to_builtins(surroundings.read())})
    client.force_login(factories.make_user(grid.team, "operator"))
    Grid.objects.filter(pk=grid.pk).update(status="stopped", finished_at=timezone.now())
    page = client.get(f"/grids/{grid.pk}/conditions/after/").content.decode()
    assert "Read by the worker at " in page
    assert '<option value="ups" selected>' in page


def test_a_host_that_does_not_keep_the_files_of_a_cell_costs_the_attempt_and_says_so(endpoint, supply, tmp_path):
    grid = grid_at(endpoint, settings=(1,))
    (tmp_path / "cells").write_text("a file where the folder should be")
    run_next(grid)
    assert states(grid) == ["queued"]
    assert Attempt.objects.get().reason.startswith("This host did not keep the cell's files: ")
