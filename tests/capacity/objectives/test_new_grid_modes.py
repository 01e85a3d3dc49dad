"""Choosing how a grid is loaded: each mode with its sentence and its own fields, without scripts, and a plan in its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchmarks.models import Grid, Team
from benchmarks.queries import terms
from benchmarks.records.mode_words import WORDS
from benchmarks.records.modes import (
    ArrivalKind,
    ClosedTerms,
    MicroTerms,
    Mode,
    OpenTerms,
    SearchTerms,
    StaticTerms,
    Terms,
)
from capacity import objectives
from capacity.grid_plans import Tick, plan_of
from capacity.mode_forms import DEFAULTS
from tests.capacity.objectives.test_new_grid import page, wish
from tests.factories import CLASSES, make_grid, make_hardware, make_runtime, make_workload

pytestmark = pytest.mark.django_db

OPEN = {"mode": "open", "setting_values": ["60", "120"], "arrivals": "poisson", "max_in_flight": "32"}
MICRO = {
    "mode": "micro", "setting_values": ["4"], "arrivals_per_min": "300", "arrivals": "constant", "max_wait_ms": "15",
    "max_batches": "2",
}  # fmt: skip
STATIC = {"mode": "static", "setting_values": ["4", "8"], "items": "500", "beside": "2", "tries": "3"}
SEARCH = {"mode": "search", "setting_values": ["1", "32"], "most_cells": "30"}


@pytest.fixture
def form(team: Team, operator: User) -> dict[str, Any]:
    limits = [objectives.ClassValues(name, 4.0) for name in CLASSES]
    objective = objectives.set_objective(team=team, by=operator, slug="chat", values={"name": "Chat"}, classes=limits)
    runtime = make_runtime(make_hardware(team), dialect="openai_completions")
    return {
        "name": "Support chat", "runtime": runtime.pk, "workload": make_workload(team).pk, "class_names": ["short"],
        "setting_values": ["1"], "objective": objective.pk, "repeats": "1", "window_s": "30", "warmup_s": "5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "drawn", "settings", "cells"),
    [
        ({}, ClosedTerms(), [1], 1),
        ({"processes": "2"}, ClosedTerms(processes=2), [1], 1),
        (OPEN | {"other_settings": "90"}, OpenTerms(max_in_flight=32), [60, 90, 120], 3),
        (
            OPEN | {"arrivals": "steps", "steps": "30 × 1, 10 x 3; 5s*0.5"},
            OpenTerms(arrivals=ArrivalKind.STEPS, steps=((30, 1), (10, 3), (5, 0.5)), max_in_flight=32), [60, 120], 2,
        ),
        (MICRO, MicroTerms(arrivals=ArrivalKind.CONSTANT, arrivals_per_min=300, max_wait_ms=15), [4], 1),
        (STATIC, StaticTerms(items=500, beside=2), [4, 8], 2),
        (SEARCH, SearchTerms(most_cells=30), [1, 32], 1),
    ],
)  # fmt: skip
def test_a_grid_is_drawn_in_the_chosen_mode_by_a_plain_form(
    client: Client, form: dict[str, Any], typed: dict[str, Any], drawn: Terms, settings: list[int], cells: int
) -> None:
    assert client.post("/grids/new/", form | typed).status_code == 302
    grid = Grid.objects.get()
    assert (terms(grid), grid.setting_values, grid.cells.count()) == (drawn, settings, cells)


@pytest.mark.parametrize("mode", Mode)
def test_the_page_offers_every_mode_with_its_sentence_and_shows_what_the_chosen_one_needs(
    client: Client, form: dict[str, Any], mode: Mode
) -> None:
    answer = client.post("/grids/new/", form | {"action": "plan", "mode": mode})
    html = page(answer)
    assert [words.sentence in html for words in WORDS.values()] == [True] * len(Mode)
    assert html.count('type="radio" name="mode"') == len(Mode)
    assert f'value="{mode}" checked' in html
    assert WORDS[mode].definition in html
    shown = {"max_in_flight": "open", "max_wait_ms": "micro", "items": "static", "most_cells": "search"}
    assert {n: f'name="{n}"' in html for n in shown} == {n: of == mode for n, of in shown.items()}


def test_a_mode_whose_fields_were_never_shown_is_not_drawn_with_values_that_nobody_saw(
    client: Client, form: dict[str, Any]
) -> None:
    answer = client.post("/grids/new/", form | {"mode": "static"})
    assert (answer.status_code, Grid.objects.count()) == (422, 0)
    html = page(answer)
    assert "Static batch, offline needs more than was shown" in html
    assert 'name="items" value="200"' in html


def test_settings_of_another_way_of_loading_are_in_no_plan_once_they_are_off_the_page(
    client: Client, form: dict[str, Any]
) -> None:
    for typed, cells in ((["4", "8"], "not known yet"), (["4", "60"], "1 (1 × 1 × 1)")):
        html = page(client.post("/grids/new/", form | OPEN | {"action": "plan", "setting_values": typed}))
        assert f"<dt>Cells</dt><dd>{cells}</dd>" in html


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (OPEN | {"setting_values": ["4"]}, "4 belongs to another way of loading"),
        (OPEN | {"other_settings": "60001"}, "is not a setting"),
        (OPEN | {"arrivals": "steps"}, "Steps need at least one"),
        (OPEN | {"steps": "fast"}, "“fast” is no step"),
        (OPEN | {"steps": "1.1.1 × 2"}, "has a number that cannot be read"),
        (OPEN | {"arrivals": "replay"}, "keeps no trace of arrivals"),
        (OPEN | {"max_in_flight": ""}, "This field is required"),
        (STATIC | {"items": "0"}, "greater than or equal to 1"),
        (STATIC | {"setting_values": [], "other_settings": "4096"}, "would be in flight at once"),
        (SEARCH | {"class_names": list(CLASSES), "most_cells": "2"}, "One try of the search takes 3 cells"),
    ],
)
def test_what_a_mode_cannot_run_is_said_in_words(
    client: Client, form: dict[str, Any], typed: dict[str, Any], said: str
) -> None:
    answer = client.post("/grids/new/", form | typed)
    assert (answer.status_code, Grid.objects.count()) == (422, 0)
    assert said in page(answer)


def test_micro_batching_on_a_chat_runtime_says_which_dialect_it_needs(
    client: Client, team: Team, form: dict[str, Any]
) -> None:
    chat = make_runtime(make_hardware(team))
    answer = client.post("/grids/new/", form | MICRO | {"runtime": chat.pk})
    assert "which OpenAI chat cannot carry" in page(answer)


def test_a_new_grid_is_filled_in_from_an_earlier_one_of_another_mode(
    client: Client, team: Team, operator: User
) -> None:
    load = OpenTerms(arrivals=ArrivalKind.STEPS, steps=((30, 1), (10, 3)), max_in_flight=9)
    grid = make_grid(make_runtime(make_hardware(team)), drawn_by=operator, settings=(60, 77), load=load)
    context = client.get(f"/grids/new/?from={grid.pk}").context
    got = {name: context["mode_form"][name].value() for name in ("arrivals", "steps", "max_in_flight")}
    assert got == {"arrivals": "steps", "steps": "30 × 1, 10 × 3", "max_in_flight": 9}
    assert (context["mode"], context["form"]["setting_values"].value(), context["form"]["other_settings"].value()) == (
        "open", ["60"], "77",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("load", "settings", "cells", "highest", "requests", "tokens"),
    [
        (ClosedTerms(), [1, 4], 6, 4, None, None),
        (OpenTerms(max_in_flight=9), [60, 120], 6, 9, 315.0, 315.0 * 32),
        (MicroTerms(arrivals_per_min=60), [2, 4], 6, 8, 210.0, 210.0 * 32),
        (StaticTerms(items=100, beside=2), [2, 4], 6, 8, 600.0, 600.0 * 32),
        (SearchTerms(most_cells=20), [1, 64], 20, 64, None, None),
    ],
)
def test_the_plan_counts_cells_requests_and_tokens_as_the_mode_has_them(
    team: Team, operator: User, load: Terms, settings: list[int], cells: int, highest: int, requests: float | None,
    tokens: float | None,
) -> None:  # fmt: skip
    wanted = wish(team, load=load, settings=settings, workload=make_workload(team))
    plan = plan_of(wanted, team_id=team.pk, person_id=operator.pk)
    assert (plan.cells, plan.highest, plan.requests) == (cells, highest, requests)
    assert plan.tokens == (None if tokens is None else pytest.approx(tokens))


@pytest.mark.parametrize(("turns", "times"), [(1, 1.0), (2, 1.5), (5, 3.0)])
def test_a_turn_of_a_conversation_counts_all_before_it(team: Team, operator: User, turns: int, times: float) -> None:
    wanted = wish(team, load=StaticTerms(items=100), settings=[1], repeats=1, workload=make_workload(team, turns=turns))
    assert plan_of(wanted, team_id=team.pk, person_id=operator.pk).tokens == pytest.approx(100 * 32 * times)


def test_each_arrival_of_an_open_loop_is_a_conversation_of_as_many_requests_as_turns(
    team: Team, operator: User
) -> None:
    for turns, requests in ((1, 105.0), (3, 315.0)):
        wanted = wish(team, load=OpenTerms(), settings=[60], repeats=3, workload=make_workload(team, turns=turns))
        assert plan_of(wanted, team_id=team.pk, person_id=operator.pk).requests == requests


def test_the_mix_of_classes_counts_by_its_weights(team: Team, operator: User) -> None:
    load = StaticTerms(items=100)
    wanted = wish(team, load=load, settings=[1], class_names=["mixed"], repeats=1, workload=make_workload(team))
    plan = plan_of(wanted, team_id=team.pk, person_id=operator.pk)
    assert plan.tokens == pytest.approx(100 * (32 + 80 + 176) / 3)


@pytest.mark.parametrize(
    ("load", "settings", "said"),
    [
        (StaticTerms(), [4], None),
        (StaticTerms(), [4, 8], "In batches of 8, items above 4 active sequences wait"),
        (StaticTerms(beside=2), [4], "In batches of 4, items above 4 active sequences wait"),
        (OpenTerms(), [600], None),
        (SearchTerms(), [1, 64], None),
    ],
)
def test_what_waits_in_the_runtime_is_said_where_the_mode_keeps_that_much_in_flight(
    team: Team, operator: User, load: Terms, settings: list[int], said: str | None
) -> None:
    ticks = plan_of(wish(team, load=load, settings=settings), team_id=team.pk, person_id=operator.pk).ticks
    waits = [tick.text for tick in ticks if "wait in the runtime" in tick.text]
    assert len(waits) == (0 if said is None else 1)
    assert said is None or said in waits[0]


@pytest.mark.parametrize(
    ("load", "warned"),
    [
        (OpenTerms(arrivals=ArrivalKind.CONSTANT), True),
        (MicroTerms(arrivals=ArrivalKind.CONSTANT), True),
        (OpenTerms(arrivals=ArrivalKind.GAMMA), False),
        (ClosedTerms(), False),
    ],
)
def test_arrivals_at_equal_distances_are_warned_about(team: Team, operator: User, load: Terms, warned: bool) -> None:
    ticks = plan_of(wish(team, load=load, settings=[4]), team_id=team.pk, person_id=operator.pk).ticks
    assert any("equal distances" in tick.text for tick in ticks if tick.kind == "warn") == warned


@pytest.mark.parametrize(
    ("load", "turns", "dialect", "said"),
    [
        (MicroTerms(), 1, "openai_completions", []),
        (MicroTerms(), 1, "openai_chat", ["Micro-batching sends several items"]),
        (MicroTerms(), 2, "openai_completions", ["Conversations of several turns"]),
        (StaticTerms(), 2, "openai_chat", ["Conversations of several turns"]),
        (OpenTerms(), 2, "openai_chat", []),
    ],
)
def test_the_plan_says_before_it_is_drawn_what_a_draft_would_be_refused_for(
    team: Team, operator: User, load: Terms, turns: int, dialect: str, said: list[str]
) -> None:
    workload, runtime = make_workload(team), make_runtime(make_hardware(team), dialect=dialect)
    workload.turns = turns
    wanted = wish(team, load=load, settings=[4], runtime=runtime, workload=workload)
    ticks = plan_of(wanted, team_id=team.pk, person_id=operator.pk).ticks
    assert [" ".join(t.text.split()[: len(said[i].split())]) for i, t in enumerate(_bad(ticks))] == said


def _bad(ticks: Sequence[Tick]) -> list[Tick]:
    return [tick for tick in ticks if tick.kind == "bad" and "objective" not in tick.text]


@pytest.mark.parametrize("mode", list(Mode))
def test_the_plan_of_a_way_of_loading_that_is_not_judged_says_so(team: Team, operator: User, mode: Mode) -> None:
    ticks = plan_of(wish(team, load=DEFAULTS[mode], settings=[4]), team_id=team.pk, person_id=operator.pk).ticks
    assert any("no recommendation and no statement" in tick.text for tick in ticks) == (mode != Mode.CLOSED)
