"""What the plan beside the new-grid form says of energy, pace, memory, hours and grids that go first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchmarks import runs
from benchmarks.engine.summary_types import Gauge
from benchmarks.models import Grid, Runtime, Team
from benchmarks.records.modes import SearchTerms
from capacity import plan_checks
from capacity.grid_plans import Plan, Wish, plan_of
from capacity.plan_past import nearest, past_of
from tests.benchmarks.memory.test_foreseen import CARD, kept
from tests.benchmarks.runs.made import claim, record, running_grid, summary
from tests.factories import make_hardware, make_runtime, make_workload

pytestmark = pytest.mark.django_db

NIGHT = datetime(2026, 11, 14, 2, 0, tzinfo=UTC)


def plan(team: Team, operator: User, runtime: Runtime, **changes: Any) -> Plan:
    plain: dict[str, Any] = {
        "runtime": runtime, "workload": None, "objective": None, "settings": [1, 4], "class_names": ["short"],
        "repeats": 3, "window_s": 30.0, "warmup_s": 5.0, "conditions": True,
    }  # fmt: skip
    return plan_of(Wish(**plain | changes), team_id=team.pk, person_id=operator.pk, at=NIGHT)


def measured(runtime: Runtime, *, watts: float | None, settings: tuple[int, ...] = (1, 4)) -> Grid:
    """A finished grid; at each setting 20 requests a second were answered."""
    workload = make_workload(runtime.team, classes={"short": (16, 16)})
    grid = running_grid(runtime=runtime, workload=workload, settings=settings, class_names=("short",))
    for setting in settings:
        read = (
            [Gauge(name="gpu_power_w", source="x", device="0", n=5, mean=watts, low=watts, peak=watts)] if watts else []
        )
        record(claim(grid), msgspec.structs.replace(summary(setting=setting), gauges=tuple(read)))
    return grid


def test_energy_is_that_of_what_the_host_drew_before(team: Team, operator: User) -> None:
    runtime = make_runtime(make_hardware(team))
    grid = measured(runtime, watts=360.0)
    found = plan(team, operator, runtime)
    assert found.past is not None
    assert (round(found.energy_kwh or 0, 4), found.past.power_of) == (0.021, grid.pk)  # 6 cells of 35 s at 360 W


def test_energy_is_not_recorded_where_no_power_was_ever_measured(client: Client, team: Team, operator: User) -> None:
    runtime = make_runtime(make_hardware(team))
    measured(runtime, watts=None)
    assert plan(team, operator, runtime).energy_kwh is None
    said = client.post("/grids/new/", {"action": "plan", "runtime": runtime.pk, "setting_values": ["1"]})
    assert "not recorded: no power was ever measured on this host" in " ".join(said.content.decode().split())


def test_requests_of_a_closed_loop_go_by_the_pace_of_the_same_runtime_and_workload(team: Team, operator: User) -> None:
    runtime = make_runtime(make_hardware(team))
    grid = measured(runtime, watts=None)
    found = plan(team, operator, runtime, workload=grid.workload)
    assert found.past is not None
    assert (found.by_past, found.past.rates_of, found.requests) == (True, grid.pk, 2 * 3 * 35.0 * 20)
    assert found.tokens == pytest.approx(found.requests * 32)
    other = plan(team, operator, runtime, workload=make_workload(team, classes={"short": (16, 16)}))
    assert (other.by_past, other.requests, other.tokens) == (False, None, None)


def test_the_pace_of_another_host_says_nothing(team: Team) -> None:
    grid = measured(make_runtime(make_hardware(team)), watts=300.0)
    past = past_of(make_runtime(make_hardware(team)), grid.workload)
    assert (past.power_w, past.rates, past.requests([1], ["short"], 35.0)) == ({}, {}, None)


@pytest.mark.parametrize(("setting", "power"), [(1, 100.0), (2, 100.0), (3, 200.0), (4, 200.0), (64, 200.0)])
def test_a_setting_goes_by_the_measured_one_that_is_nearest_in_proportion(setting: int, power: float) -> None:
    assert nearest({1: 100.0, 4: 200.0}, setting) == power


@pytest.mark.parametrize(("load", "ends"), [(None, True), (SearchTerms(), False)])
def test_a_plan_says_when_it_would_be_over_unless_it_ends_when_it_knows(
    team: Team, operator: User, load: Any, ends: bool
) -> None:
    found = plan(team, operator, make_runtime(make_hardware(team)), **({"load": load} if load else {}))
    assert (found.ends_at is not None) is ends
    if found.ends_at and found.time_s:
        assert (found.ends_at - NIGHT).total_seconds() == found.time_s


def test_memory_is_foreseen_for_each_setting_and_the_gate_is_said_to_skip_what_does_not_fit(
    client: Client, team: Team, operator: User
) -> None:
    """24 GiB of VRAM for 16 of weights: 22.08 may be used, so four long sequences of a GiB fit, and eight do not."""
    runtime = make_runtime(
        make_hardware(team, **{**CARD, "vram_gib": 24.0}), kind="tgi", geometry=kept(), max_active_sequences=None
    )
    workload = make_workload(team, classes={"long": (8000, 192)})
    memory = plan(team, operator, runtime, workload=workload, settings=[1, 4, 8], class_names=["long"]).memory
    assert memory is not None
    assert ([need.fits for need in memory.needs], memory.skipped) == ([True, True, False], ("8 offered",))
    typed = {"action": "plan", "runtime": runtime.pk, "workload": workload.pk, "setting_values": ["1", "8"]}
    said = " ".join(client.post("/grids/new/", typed | {"class_names": ["long"]}).content.decode().split())
    assert "At 8 offered the memory foreseen is above the limit, so the gate will skip that stage." in said


def test_memory_that_cannot_be_foreseen_has_its_reason_and_no_figure(team: Team, operator: User) -> None:
    runtime = make_runtime(make_hardware(team), kind="vllm")
    found = plan(team, operator, runtime, workload=make_workload(team)).memory
    assert found is not None
    assert (found.needs, found.skipped, "geometry is not recorded" in found.reason) == ((), (), True)


@pytest.mark.parametrize(
    ("at", "kind"),
    [
        (datetime(2026, 11, 16, 9, 0, tzinfo=UTC), "warn"), (datetime(2026, 11, 16, 7, 59, tzinfo=UTC), "ok"),
        (datetime(2026, 11, 16, 18, 0, tzinfo=UTC), "ok"), (datetime(2026, 11, 14, 9, 0, tzinfo=UTC), "ok"),
    ],
)  # fmt: skip
def test_load_in_working_hours_is_warned_about(at: datetime, kind: str) -> None:
    assert plan_checks.hours(at).kind == kind


def test_grids_that_go_first_on_the_host_are_named_and_paused_ones_are_not(team: Team) -> None:
    runtime = make_runtime(make_hardware(team))
    assert plan_checks.others(runtime.hardware)[0].kind == "ok"
    grid = running_grid(runtime=runtime)
    found = plan_checks.others(runtime.hardware)
    assert (found[0].kind, f"grid {grid.pk} on the same host" in found[0].text) == ("warn", True)
    runs.pause(grid=grid, by=grid.drawn_by)
    assert plan_checks.others(runtime.hardware)[0].kind == "ok"


def test_the_page_says_which_grid_filled_it_in_also_after_the_plan_was_updated(
    client: Client, team: Team, operator: User
) -> None:
    grid = running_grid(runtime=make_runtime(make_hardware(team)), drawn_by=operator)
    first = client.get("/grids/new/")
    again = client.post("/grids/new/", {"action": "plan", "earlier": grid.pk})
    foreign = client.post("/grids/new/", {"action": "plan", "earlier": running_grid().pk})
    said = [f"grid {grid.pk}, " in " ".join(a.content.decode().split()) for a in (first, again)]
    assert (said, foreign.context["earlier"]) == ([True, True], None)


def test_what_was_typed_stands_there_again_when_the_form_is_refused(client: Client, operator: User) -> None:
    typed = {"name": "Support chat", "reason": "Winter term", "repeats": "4", "window_s": "45", "notes": "door open"}
    answer = client.post("/grids/new/", typed)
    text = answer.content.decode()
    assert (answer.status_code, [value in text for value in typed.values()]) == (422, [True] * len(typed))
