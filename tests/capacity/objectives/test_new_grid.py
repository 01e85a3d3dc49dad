"""The new-grid page: a plan before anything is drawn, refusals in words, a draft through the one door."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from benchmarks.models import Grid, Hardware, Team
from benchmarks.queries import digest_of_grid
from capacity import objectives
from capacity.grid_plans import Wish, plan_of
from capacity.models import Objective
from tests.factories import CLASSES, make_grid, make_hardware, make_runtime, make_team, make_user, make_workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def form(team: Team, operator: User) -> dict[str, Any]:
    limits = [objectives.ClassValues(name, 4.0) for name in CLASSES]
    objective = objectives.set_objective(team=team, by=operator, slug="chat", values={"name": "Chat"}, classes=limits)
    return {
        "name": "Support chat", "runtime": make_runtime(make_hardware(team)).pk, "workload": make_workload(team).pk,
        "class_names": list(CLASSES), "setting_values": ["1", "2", "4"], "other_settings": "12", "objective": objective.pk,
        "repeats": "3", "window_s": "30", "warmup_s": "5",
    }  # fmt: skip


def page(response: Any) -> str:
    return " ".join(response.content.decode().split())


def test_a_grid_is_drawn_with_the_limits_of_the_objective(client: Client, operator: User, form: dict[str, Any]) -> None:
    conditions = {"power_source": "generator", "room": "Server room", "ambient_c": "31", "ambient_source": "hand"}
    answer = client.post("/grids/new/", form | conditions)
    grid, objective = Grid.objects.get(), Objective.objects.get()
    assert answer["Location"] == f"/grids/{grid.pk}/"
    assert (grid.setting_values, grid.cells.count(), grid.status) == ([1, 2, 4, 12], 36, "draft")
    assert (grid.objective_digest, grid.objective_set_at) == (objective.digest, objective.set_at)
    assert grid.limits["classes"]["short"]["e2e_s"] == 4.0
    assert list(grid.conditions.values_list("power_source", "room", "ambient_c")) == [
        ("generator", "Server room", 31.0)
    ]


@pytest.mark.parametrize(
    ("typed", "kept"), [({}, "cancel"), ({"on_guard": "cancel"}, "cancel"), ({"on_guard": "drain"}, "drain")]
)
def test_what_happens_at_a_limit_is_chosen_and_part_of_the_plan(
    client: Client, form: dict[str, Any], typed: dict[str, str], kept: str
) -> None:
    client.post("/grids/new/", form | typed)
    grid = Grid.objects.get()
    assert grid.on_guard == kept
    grid.on_guard = "cancel" if kept == "drain" else "drain"
    assert digest_of_grid(grid) != grid.digest
    assert client.get(f"/grids/new/?from={grid.pk}").context["form"]["on_guard"].value() == kept


def test_conditions_may_be_left_for_later_even_when_the_room_is_filled_in(client: Client, form: dict[str, Any]) -> None:
    assert client.post("/grids/new/", form | {"room": "Server room"}).status_code == 302
    assert Grid.objects.get().conditions.count() == 0


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"name": "Supports 50 users"}, "A capacity is not a number of users"),
        ({"notes": "good for 30 people", "power_source": "grid", "room": "r"}, "A capacity is not a number of users"),
        ({"room": "Hall for 40 users", "power_source": "grid"}, "A capacity is not a number of users"),
        (
            {"other_loads": "serves 40 users", "power_source": "grid", "room": "r"},
            "A capacity is not a number of users",
        ),
        ({"class_names": []}, "Choose at least one length class."),
        ({"setting_values": [], "other_settings": ""}, "Choose at least one setting."),
        ({"other_settings": "4, many"}, "“many” is not a setting."),
        ({"other_settings": "0"}, "“0” is not a setting."),
        ({"repeats": "0"}, "greater than or equal to 1"),
        ({"power_source": "grid"}, "Which room?"),
        ({"other_loads": "a build"}, "Which power source?"),
        ({"power_source": "grid", "room": "r", "ambient_c": "20"}, "Where does the temperature come from?"),
        ({"runtime": ""}, "This field is required."),
    ],
)
def test_the_form_says_what_to_change_and_draws_nothing(
    client: Client, form: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    answer = client.post("/grids/new/", form | changes)
    assert (answer.status_code, Grid.objects.count()) == (422, 0)
    assert said in page(answer)


def test_a_class_without_limits_is_refused_by_the_draft_in_words(client: Client, form: dict[str, Any]) -> None:
    Objective.objects.get().classes.filter(class_name="long").delete()
    answer = client.post("/grids/new/", form)
    assert (answer.status_code, Grid.objects.count()) == (422, 0)
    assert "The objective says nothing about long." in page(answer)


def test_rows_of_another_team_cannot_be_chosen(client: Client, form: dict[str, Any]) -> None:
    other = make_runtime(make_hardware(make_team("Lahore"), name="Lahore host"), name="Lahore runtime")
    answer = client.post("/grids/new/", form | {"runtime": other.pk})
    assert answer.status_code == 422
    assert "Lahore" not in page(answer)
    assert client.get(f"/grids/new/?runtime={other.pk}").context["runtime"] is None


def test_update_the_plan_draws_nothing_and_judges_nothing(client: Client, form: dict[str, Any]) -> None:
    answer = client.post("/grids/new/", form | {"action": "plan", "name": ""})
    assert (answer.status_code, Grid.objects.count(), answer.context["plan"].cells) == (200, 0, 36)
    assert "This field is required." not in page(answer)


@pytest.mark.parametrize("typed", [{"runtime": "x", "repeats": "nan", "window_s": "-1", "other_settings": "¹"}, {}])
def test_a_half_filled_form_has_a_plan_that_is_not_known_yet(
    client: Client, operator: User, typed: dict[str, Any]
) -> None:
    answer = client.post("/grids/new/", typed | {"action": "plan"})
    assert (answer.status_code, answer.context["plan"].cells, answer.context["plan"].time_s) == (200, None, None)
    assert "not known yet" in page(answer)


def test_a_new_grid_is_filled_in_from_an_earlier_one_but_not_its_power(
    client: Client, team: Team, operator: User
) -> None:
    grid = make_grid(make_runtime(make_hardware(team)), drawn_by=operator, settings=(1, 3))
    shown = client.get(f"/grids/new/?from={grid.pk}").context["form"]
    got = {n: shown[n].value() for n in ("name", "setting_values", "other_settings", "room", "power_source", "repeats")}
    assert got == {
        "name": "Demonstration grid",
        "setting_values": ["1"],
        "other_settings": "3",
        "room": "Room 1, ground floor",
        "power_source": None,
        "repeats": 1,
    }


def test_a_grid_of_another_team_cannot_be_started_from(client: Client, operator: User) -> None:
    assert client.get(f"/grids/new/?from={make_grid().pk}").status_code == 404


def wish(team: Team, **changes: Any) -> Wish:
    plain: dict[str, Any] = {
        "runtime": make_runtime(make_hardware(team)), "workload": None, "objective": None, "settings": [1, 4],
        "class_names": ["short"], "repeats": 3, "window_s": 30.0, "warmup_s": 5.0, "conditions": True,
    }  # fmt: skip
    return Wish(**plain | changes)


@pytest.mark.parametrize("age, kind", [(timedelta(seconds=20), "ok"), (timedelta(minutes=10), "warn"), (None, "warn")])
def test_the_plan_says_whether_a_worker_was_seen(team: Team, operator: User, age: timedelta | None, kind: str) -> None:
    wanted = wish(team)
    assert wanted.runtime is not None
    host: Hardware = wanted.runtime.hardware
    host.worker_seen_at = timezone.now() - age if age else None
    tick = plan_of(wanted, team_id=team.pk, person_id=operator.pk).ticks[0]
    assert tick.kind == kind
    assert ("HEADROOM_HARDWARE=" in tick.text) == (kind == "warn")


@pytest.mark.parametrize("settings, waits", [([1, 4], False), ([4, 8], True)])
def test_settings_above_the_active_sequences_are_said_to_wait(
    team: Team, operator: User, settings: list[int], waits: bool
) -> None:
    plan = plan_of(wish(team, settings=settings), team_id=team.pk, person_id=operator.pk)
    assert any("At 8 offered, requests above 4 active sequences wait" in t.text for t in plan.ticks) == waits


def test_the_plan_counts_cells_and_time_and_warns_of_what_a_statement_lacks(team: Team, operator: User) -> None:
    plan = plan_of(wish(team, repeats=1, conditions=False), team_id=team.pk, person_id=operator.pk)
    assert (plan.cells, plan.shape, plan.time_s, plan.highest) == (2, "2 × 1 × 1", 72.0, 4)
    words = " ".join(t.text for t in plan.ticks)
    assert "Repeats: 1. A statement wants 3" in words
    assert "Without them no statement can be signed" in words


def test_a_team_where_nobody_else_may_authorise_is_told_so(team: Team, client: Client) -> None:
    alone = make_user(team, "operator", "host_owner")
    ticks = plan_of(wish(team), team_id=team.pk, person_id=alone.pk).ticks
    assert (ticks[-1].kind, ticks[-1].text.split(".")[0]) == ("bad", "Nobody but you is a host owner in this team")


def test_a_workload_of_one_length_is_warned_about(team: Team, operator: User) -> None:
    ticks = plan_of(wish(team, workload=make_workload(team)), team_id=team.pk, person_id=operator.pk).ticks
    assert any(t.kind == "warn" and "has the same length" in t.text for t in ticks)


@pytest.mark.parametrize("turns, over", [(1, False), (3, False), (4, True)])
def test_a_conversation_that_outgrows_the_context_is_warned_about(
    team: Team, operator: User, turns: int, over: bool
) -> None:
    """24 + 8 tokens a turn against 100 a sequence."""
    runtime = make_runtime(make_hardware(team), context_per_sequence_tokens=100)
    workload = make_workload(team, classes={"short": (24, 8)}, turns=turns)
    ticks = plan_of(wish(team, runtime=runtime, workload=workload), team_id=team.pk, person_id=operator.pk).ticks
    assert any("exceed the context of 100 tokens a sequence" in t.text for t in ticks) == over


def test_the_linters_words_on_a_workload_stand_in_the_plan(team: Team, operator: User) -> None:
    workload = make_workload(team, task="label")
    ticks = plan_of(wish(team, workload=workload), team_id=team.pk, person_id=operator.pk).ticks
    assert any("answers end by themselves" in t.text for t in ticks)


@pytest.mark.parametrize(
    "kind, task, warned",
    [
        ("simulator", "words", False), ("simulator", "echo", False), ("simulator", "arithmetic", True),
        ("simulator", "json", True), ("simulator", "label", True), ("vllm", "json", False),
    ],
)  # fmt: skip
def test_a_task_that_the_simulated_runtime_cannot_do_is_warned_about(
    team: Team, operator: User, kind: str, task: str, warned: bool
) -> None:
    runtime = make_runtime(make_hardware(team), kind=kind)
    wanted = wish(team, runtime=runtime, workload=make_workload(team, task=task))
    ticks = plan_of(wanted, team_id=team.pk, person_id=operator.pk).ticks
    assert any("every answer will be invalid" in t.text for t in ticks) == warned
