"""Objectives: set before a run, copied whole into a grid, never changed once a grid was drawn with them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.models import Team
from capacity import objectives
from capacity.forms import ObjectiveForm
from capacity.models import Objective
from tests.factories import make_grid, make_hardware, make_runtime

pytestmark = pytest.mark.django_db
SHORT = objectives.ClassValues("short", 4.0, 2.0)


def page(response: Any) -> str:
    return " ".join(response.content.decode().split())


def objective_form(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    rows = rows or ({"class_name": "short", "e2e_s": "4"},)
    fields = {f"classes-{i}-{name}": value for i, row in enumerate(rows) for name, value in row.items()}
    return {
        "name": "Chat", "percentile": 95, "success_share": 99, "validity_share": 97, "max_vram_share": 92,
        "max_temperature_c": 85, "reserve_growth": 10, "reserve_variance": 5, "reserve_loss": 0,
        "classes-TOTAL_FORMS": len(rows), "classes-INITIAL_FORMS": 0,
    } | fields | changes  # fmt: skip


def test_every_limit_of_an_objective_reaches_the_grid(team: Team, operator: User) -> None:
    values = {
        "name": "n", "percentile": 99.0, "success_share": 0.98, "validity_share": 0.9, "max_vram_share": 0.8,
        "max_temperature_c": 70.0, "max_power_w": 200.0, "reserve_growth": 0.2, "reserve_variance": 0.1, "reserve_loss": 0.3,
    }  # fmt: skip
    row = objectives.set_objective(team=team, by=operator, slug="o", values=values, classes=[SHORT])
    limits = {name: value for name, value in values.items() if name != "name"}
    assert objectives.limits_of(row) == GridLimits(classes={"short": ClassLimits(e2e_s=4.0, ttft_s=2.0)}, **limits)


@pytest.mark.parametrize("used, versions", [(False, [(1, 5.0)]), (True, [(2, 5.0), (1, 4.0)])])
def test_an_objective_changes_in_place_until_a_grid_copies_it(
    team: Team, operator: User, used: bool, versions: list[tuple[int, float]]
) -> None:
    row = objectives.set_objective(team=team, by=operator, slug="o", values={"name": "n"}, classes=[SHORT])
    if used:
        make_grid(make_runtime(make_hardware(team)), objective_digest=row.digest)
    changed = [objectives.ClassValues("short", 5.0)]
    kept = objectives.revise_objective(objective=row, by=operator, values={"name": "n"}, classes=changed)
    assert [(o.version, o.classes.get().e2e_s) for o in Objective.objects.all()] == versions
    assert kept.digest != row.digest


@pytest.mark.parametrize(
    "values, classes, touched",
    [
        ({"notes": "Words only."}, [SHORT], False),
        ({"name": "Another name"}, [SHORT], False),
        ({"success_share": 0.9}, [SHORT], True),
        ({}, [objectives.ClassValues("short", 5.0)], True),
        ({}, [SHORT], False),
    ],
)
@pytest.mark.parametrize("used", [True, False])
def test_limits_are_set_when_they_got_their_values_and_not_before(
    team: Team, operator: User, values: dict[str, Any], classes: list[Any], touched: bool, used: bool
) -> None:
    row = objectives.set_objective(team=team, by=operator, slug="o", values={"name": "n"}, classes=[SHORT])
    first = row.set_at
    if used:
        make_grid(make_runtime(make_hardware(team)), objective_digest=row.digest)
    kept = objectives.revise_objective(objective=row, by=operator, values=values, classes=classes)
    stored = Objective.objects.get(pk=kept.pk)
    assert (stored.set_at > first) is (touched or kept.version == 2)
    assert Objective.objects.get(pk=row.pk, version=1).set_at >= first


@pytest.mark.parametrize("typed, kept", [("50", 50.0), ("95", 95.0), ("99", 99.0), ("90", None), ("99.9", None)])
def test_only_a_percentile_that_summaries_keep_can_be_asked_for(
    client: Client, operator: User, typed: str, kept: float | None
) -> None:
    client.post(reverse("objective-new"), objective_form(percentile=typed))
    assert [row.percentile for row in Objective.objects.all()] == ([] if kept is None else [kept])


@pytest.mark.parametrize("older, shown", [(50.0, "50"), (90.0, "95"), (95.0, "95"), (99.0, "99"), (99.9, "99")])
def test_an_older_objective_shows_the_next_percentile_that_is_kept(team: Team, older: float, shown: str) -> None:
    form = ObjectiveForm(team=team, instance=Objective(team=team, percentile=older))
    assert f'<option value="{shown}" selected>' in str(form["percentile"])


def test_an_objective_is_set_in_per_cent_and_kept_in_shares(client: Client, operator: User) -> None:
    assert client.post(reverse("objective-new"), objective_form(success_share="98.5")).status_code == 302
    row = Objective.objects.get()
    assert (row.success_share, row.reserve_growth, row.classes.get().e2e_s) == (0.985, 0.1, 4.0)
    shown = client.get(reverse("objective-edit", args=[row.slug, 1])).context["form"]
    assert (shown["success_share"].value(), shown["reserve_growth"].value()) == (98.5, 10.0)


@pytest.mark.parametrize(
    "form, said",
    [
        (objective_form(name="Supports 50 users"), "A capacity is not a number of users"),
        (objective_form(success_share=101), "less than or equal to 100"),
        (objective_form({"class_name": "short"}), "Give at least one limit for short."),
        (objective_form({"e2e_s": "4"}), "Which length class do these limits hold for?"),
        (
            objective_form({"class_name": "a", "e2e_s": "4", "ttft_s": "5"}),
            "The first token cannot be allowed more time",
        ),
        (objective_form({"class_name": "a", "e2e_s": "4"}, {"class_name": "a", "e2e_s": "4"}), "a stands here twice."),
        (objective_form({}), "An objective needs limits for at least one length class."),
    ],
)
def test_an_objective_form_says_what_to_change(client: Client, operator: User, form: dict[str, Any], said: str) -> None:
    answer = client.post(reverse("objective-new"), form)
    assert (answer.status_code, Objective.objects.count()) == (422, 0)
    assert said in page(answer)


def test_a_row_is_added_without_javascript_and_without_saving(client: Client, operator: User) -> None:
    answer = client.post(reverse("objective-new"), objective_form(add_class="1"))
    assert (answer.status_code, len(answer.context["classes"].forms), Objective.objects.count()) == (200, 2, 0)


def test_an_edit_of_a_used_objective_says_that_grids_keep_their_limits(
    client: Client, team: Team, operator: User
) -> None:
    row = objectives.set_objective(team=team, by=operator, slug="o", values={"name": "n"}, classes=[SHORT])
    make_grid(make_runtime(make_hardware(team)), objective_digest=row.digest)
    done = client.post("/objectives/o/1/edit/", objective_form(reason="Slower is fine"), follow=True)
    assert "Version 2 made. Grids drawn with version 1 keep its limits." in page(done)
    assert "length classes: as before → changed" in page(done)
