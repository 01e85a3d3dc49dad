"""The new-grid page asks for behaviour probes: ticked ones have parameters, cost and a place in the plan."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils.datastructures import MultiValueDict

from benchmarks.engine.probe_plan import BY_NAME, Cancellation, Fairness, Idle, Overload, Recovery, RetryStorm
from benchmarks.models import Grid, Team
from benchmarks.records import probes
from capacity.probe_forms import PARAMETERS, ProbesForm, from_kept, probes_typed
from tests.capacity.objectives.test_new_grid import form, page
from tests.factories import make_grid, make_hardware, make_runtime, make_user

pytestmark = pytest.mark.django_db
__all__ = ["form"]


def test_every_parameter_of_the_form_is_one_of_its_probe() -> None:
    for kind, names in PARAMETERS.items():
        assert set(names) - {"load"} <= set(BY_NAME[kind].__struct_fields__), kind
        assert all(f"{kind}_{name}" in ProbesForm.base_fields for name in names)
    assert set(PARAMETERS) == set(BY_NAME)


@pytest.mark.parametrize(
    ("typed", "slots", "wanted"),
    [
        ({}, 8, ()),
        ({"probes": ["idle"]}, 8, (Idle(idle_s=30),)),
        ({"probes": ["idle"], "idle_idle_s": "45"}, 8, (Idle(idle_s=45.0),)),
        ({"probes": ["fairness"], "fairness_long_clients": ""}, 8, (Fairness(),)),
        ({"probes": ["overload"]}, 2, (Overload(most_in_flight=64, measure_clients=8),)),
        ({"probes": ["overload"], "overload_most_in_flight": "32"}, 40, (Overload(most_in_flight=32, measure_clients=32),)),
        ({"probes": ["cancellation"], "cancellation_frees_within_s": "0.5"}, 8, (Cancellation(frees_within_s=0.5),)),
        (
            {"probes": ["retry_storm"], "retry_storm_load": "both", "retry_storm_times_capacity": "3"}, 16,
            (
                RetryStorm(times_capacity=3.0, most_in_flight=64, measure_clients=16),
                RetryStorm(times_capacity=3.0, most_in_flight=64, measure_clients=16, burst_s=10.0),
            ),
        ),
        ({"probes": ["recovery"], "recovery_after": "cancel_storm"}, 8, (Recovery(after="cancel_storm"),)),
    ],
)  # fmt: skip
def test_what_is_ticked_becomes_a_probe_with_what_was_typed(
    typed: dict[str, Any], slots: int, wanted: tuple[object, ...]
) -> None:
    sent = MultiValueDict({name: value if isinstance(value, list) else [value] for name, value in typed.items()})
    bound = ProbesForm(sent)
    assert bound.is_valid(), bound.errors
    assert bound.wanted(slots=slots) == wanted == probes_typed(typed, slots=slots)


def test_nonsense_is_refused_when_drawing_and_has_its_default_in_the_plan() -> None:
    typed = {"probes": ["idle", "gossip"], "idle_idle_s": "-4"}
    assert probes_typed(typed, slots=8) == (Idle(idle_s=30),)
    bound = ProbesForm(MultiValueDict({"probes": typed["probes"], "idle_idle_s": ["-4"]}))  # type: ignore[dict-item]
    assert not bound.is_valid()
    assert set(bound.errors) == {"probes", "idle_idle_s"}


def test_probes_are_drawn_with_the_grid_and_come_back_when_it_is_drawn_again(
    client: Client, form: dict[str, Any]
) -> None:
    asked = {"probes": ["idle", "retry_storm"], "idle_idle_s": "20", "retry_storm_load": "burst"}
    assert client.post("/grids/new/", form | asked).status_code == 302
    grid = Grid.objects.get()
    drawn = list(grid.cells.exclude(probe="").values_list("probe", "setting", "class_name"))
    assert drawn == [("retry_storm", 12, "mixed"), ("idle", 12, "mixed")]
    kept = probes.read(grid.probes)
    assert kept == (RetryStorm(most_in_flight=64, measure_clients=12, burst_s=10.0), Idle(idle_s=20.0))
    start = from_kept(kept)
    assert (start["probes"], start["idle_idle_s"], start["retry_storm_load"]) == (
        ["retry_storm", "idle"],
        20.0,
        "burst",
    )
    again = page(client.get(f"/grids/new/?from={grid.pk}"))
    assert 'name="probes" value="idle" checked' in again
    assert 'name="idle_idle_s" value="20.0"' in again
    assert 'name="probes" value="overload" checked' not in again


def test_the_plan_counts_probes_apart_and_shows_parameters_of_ticked_ones_only(
    client: Client, form: dict[str, Any]
) -> None:
    plain = client.post("/grids/new/", form | {"action": "plan"}).context["plan"]
    answer = client.post("/grids/new/", form | {"action": "plan", "probes": ["overload"]})
    plan = answer.context["plan"]
    assert (plan.cells, plan.requests, plan.tokens) == (plain.cells, plain.requests, plain.tokens)
    assert (plan.probes, plan.highest, plain.highest) == (1, 64, 12)
    assert plan.time_s == pytest.approx(plain.time_s + plan.probes_s)
    html = page(answer)
    assert 'name="overload_most_in_flight"' in html
    assert 'name="idle_idle_s"' not in html
    assert "at most 64 in flight" in html
    assert html.count('type="checkbox" name="probes"') == 7


def test_another_way_of_loading_offers_no_probes_and_says_why(client: Client, form: dict[str, Any]) -> None:
    html = page(client.post("/grids/new/", form | {"action": "plan", "mode": "static"}))
    assert 'name="probes"' not in html
    assert "Behaviour probes go with a closed loop" in html


def test_who_authorises_sees_what_probes_send_and_is_offered_ceilings_that_allow_them(
    client: Client, team: Team, form: dict[str, Any]
) -> None:
    runtime = make_runtime(make_hardware(team))
    wanted = (Overload(most_in_flight=40, capacity_per_s=5), Idle(idle_s=30))
    plain, probed = (
        make_grid(runtime, settings=(1, 2), class_names=["short"], drawn_by=make_user(team, "operator"), probes=asked)
        for asked in ((), wanted)
    )
    client.force_login(make_user(team, "host_owner"))
    offers = [client.get(f"/grids/{grid.pk}/authorise/").context["form"].initial for grid in (plain, probed)]
    costs = [probes.cost(probe, 2) for probe in wanted]
    assert [offer["max_concurrency"] for offer in offers] == [2, 40]
    assert offers[1]["max_requests"] - offers[0]["max_requests"] == sum(cost.requests for cost in costs)
    assert offers[1]["max_tokens"] - offers[0]["max_tokens"] == costs[0].requests * (128 + 48)
    assert offers[1]["max_minutes"] > offers[0]["max_minutes"] + sum(cost.seconds for cost in costs) / 60
    html = page(client.get(f"/grids/{probed.pk}/authorise/"))
    assert "At most 40 in flight" in html
    assert "30 s without load" in html
