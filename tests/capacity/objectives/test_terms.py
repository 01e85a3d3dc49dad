"""What an objective asks beyond latency: kept only where it is stated, frozen by a grid, typed in words that are judged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from benchmarks import audit
from benchmarks.engine.plan import BatchTerms, ObjectiveTerms, ProductionMix, RetryPolicy
from benchmarks.models import Event, Grid, Team
from benchmarks.queries import limits_of
from capacity import objectives
from capacity.models import Objective
from capacity.terms_forms import TermsForm
from tests.capacity.objectives.test_objectives import SHORT, objective_form, page
from tests.factories import CLASSES, make_grid, make_hardware, make_runtime, make_workload

pytestmark = pytest.mark.django_db
BACKOFF = RetryPolicy(
    kind="backoff", tries=5, base_s=0.25, most_s=8.0, jitter=True, honours_retry_after=True, budget_share=0.1
)
NIGHT = BatchTerms(
    items=20_000, window_start="22:00", window_end="06:00", latest_finish="05:30", days=(0, 1, 2, 3, 6),
    power_expected="generator", outage_s=1800.0,
)  # fmt: skip
FULL = ObjectiveTerms(
    max_slowdown=1.5, max_free_s=0.5, max_refuse_s=0.25, max_recover_s=30.0, demand_per_min=120.0, tenants=3, retry=BACKOFF,
    production=ProductionMix(
        p10_tokens=80.0, p90_tokens=900.0, p95_tokens=1800.0, repeated_share=0.02, shared_prefix_share=0.3, source="log of May"
    ),
    batch=NIGHT, published="Supports 50 users",
)  # fmt: skip
TYPED: dict[str, Any] = {
    "max_slowdown": "1.5", "max_free_s": "0.5", "max_refuse_s": "0.25", "max_recover_s": "30", "demand_per_min": "120",
    "tenants": "3", "retry_kind": "backoff", "retry_tries": "5", "retry_base_s": "0.25", "retry_most_s": "8",
    "retry_jitter": "on", "retry_honours_retry_after": "on", "retry_budget_share": "10", "production_p10_tokens": "80",
    "production_p90_tokens": "900", "production_p95_tokens": "1800", "production_repeated_share": "2",
    "production_shared_prefix_share": "30", "production_source": "log of May", "batch_items": "20000",
    "batch_window_start": "22:00", "batch_window_end": "06:00", "batch_latest_finish": "05:30",
    "batch_days": ["0", "1", "2", "3", "6"], "batch_power_expected": "generator", "batch_outage_s": "1800",
    "published": "Supports 50 users",
}  # fmt: skip


def test_an_objective_without_terms_has_the_digest_that_it_had_before_there_were_any(
    team: Team, operator: User
) -> None:
    row = objectives.set_objective(team=team, by=operator, slug="o", values={"name": "n"}, classes=[SHORT])
    limits = {name: getattr(row, name) for name in objectives.LIMITS}
    before = audit.digest_of({"slug": "o", "version": 1, **limits, "classes": [["short", 4.0, 2.0, None]]})
    assert (row.terms, row.digest) == ({}, before)
    make_grid(make_runtime(make_hardware(team)), objective_digest=before)
    assert objectives.in_use(Objective.objects.get())
    kept = objectives.revise_objective(
        objective=row, by=operator, values={"name": "n"}, classes=[SHORT], terms=ObjectiveTerms()
    )
    assert kept is row


def test_every_term_is_kept_and_comes_back_and_a_grid_freezes_it(team: Team, operator: User) -> None:
    classes = [objectives.ClassValues(name, 4.0) for name in CLASSES]
    row = objectives.set_objective(team=team, by=operator, slug="o", values={"name": "n"}, classes=classes, terms=FULL)
    stored = Objective.objects.get()
    assert objectives.terms_of(stored) == FULL
    assert objectives.limits_of(stored).terms == FULL
    grid = make_grid(
        make_runtime(make_hardware(team)), limits=objectives.limits_of(stored), objective_digest=row.digest
    )
    assert limits_of(Grid.objects.get(pk=grid.pk)).terms == FULL
    again = objectives.revise_objective(
        objective=stored, by=operator, values={"name": "n"}, classes=classes, terms=FULL
    )
    assert again is stored


def test_terms_are_limits_so_changing_them_makes_a_version_and_says_what_was_and_is(team: Team, operator: User) -> None:
    row = objectives.set_objective(team=team, by=operator, slug="o", values={"name": "n"}, classes=[SHORT])
    make_grid(make_runtime(make_hardware(team)), objective_digest=row.digest)
    terms = ObjectiveTerms(retry=BACKOFF, demand_per_min=90.0)
    kept = objectives.revise_objective(objective=row, by=operator, values={}, classes=[SHORT], terms=terms)
    assert (kept.version, kept.digest != row.digest, Objective.objects.get(version=1).terms) == (2, True, {})
    changes = Event.objects.filter(subject="objective o v2").get().changes
    assert changes == {
        "Demand": {"before": "not declared", "after": "90 requests a minute in the busiest minute"},
        "Retries of clients": {
            "before": "not declared",
            "after": "exponential backoff from 0.25 s to 8 s, with full jitter, 5 tries in all; honours Retry-After; at most "
            "10.0\u00a0% of the requests may be tried again",
        },
    }


def test_what_is_typed_is_what_is_kept_and_what_is_kept_is_shown_again(client: Client, operator: User) -> None:
    answer = client.post(reverse("objective-new"), objective_form(**TYPED))
    assert answer.status_code == 302, [found.errors for found in (answer.context["terms"], answer.context["form"])]
    row = Objective.objects.get()
    assert objectives.terms_of(row) == FULL
    shown = TermsForm(team=row.team, kept=FULL)
    values = {name: shown[name].value() for name in shown.fields if shown[name].value() not in (None, "")}
    sent = {name: [f"{v:g}" if isinstance(v, float) else str(v)] for name, v in values.items() if name != "batch_days"}
    typed = TermsForm(_posted(sent | {"batch_days": [str(d) for d in values["batch_days"]]}), team=row.team)
    assert (typed.is_valid(), typed.terms()) == (True, FULL)


def test_the_detail_page_prints_every_term_in_words(client: Client, operator: User) -> None:
    client.post(reverse("objective-new"), objective_form(**TYPED))
    html = page(client.get("/objectives/chat/1/"))
    for words in (
        "p95 at most 1.5 times what it is alone", "0.25 s, where there is no room", "120 requests a minute in the busiest minute",
        "prompts of 80 / 900 / 1,800 tokens (p10 / p90 / p95); 2.0 % of prompts repeated, "
        "30.0 % of a prompt begins alike; from "
        "log of May", "3: access without credentials must be refused",
        "20,000 items from 22:00 to 06:00, Monday, Tuesday, Wednesday, Thursday, Sunday, done by 05:30 (7 h 30 min after the "
        "start), on a generator, without power for at most 30 min", "“Supports 50 users”",
    ):  # fmt: skip
        assert words in html, words


def test_the_short_form_keeps_the_defaults_and_nothing_is_declared(client: Client, operator: User) -> None:
    assert client.post(reverse("objective-new"), objective_form()).status_code == 302
    assert Objective.objects.get().terms == {}
    html = page(client.get("/objectives/chat/1/"))
    assert html.count(">not declared</dd>") == 4
    assert "p95 at most 2 times what it is alone" in html


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"production_p10_tokens": "1000"}, "production_p90_tokens", "p90 is at least p10"),
        ({"production_p95_tokens": "800"}, "production_p95_tokens", "p95 is at least p90"),
        ({"production_p95_tokens": ""}, "production_p95_tokens", "Give p95 too"),
        ({"retry_tries": "1"}, "retry_tries", "One try is no retry"),
        ({"retry_tries": ""}, "retry_tries", "How many tries in all"),
        ({"retry_most_s": "0.1"}, "retry_most_s", "shorter than the first one"),
        ({"retry_kind": "immediate"}, "retry_jitter", "Only a backoff has this"),
        ({"retry_kind": "none"}, "retry_tries", "Without retries this says nothing"),
        ({"retry_kind": ""}, "retry_budget_share", "Say what happens to a refused request"),
        ({"batch_latest_finish": "06:01"}, "batch_latest_finish", "06:01 is outside the window from 22:00 to 06:00"),
        ({"batch_latest_finish": "21:59"}, "batch_latest_finish", "21:59 is outside the window"),
        ({"batch_items": ""}, "batch_items", "A batch needs items, a window and a latest finish"),
        ({"batch_window_end": "six"}, "batch_window_end", "Write a time of day, such as 22:00."),
        ({"batch_outage_s": "27000"}, "batch_outage_s", "The outage takes all of the 7 h 30 min"),
        ({"batch_days": []}, "batch_days", "Choose at least one day"),
        ({"tenants": "0"}, "tenants", "greater than or equal to 1"),
        ({"max_slowdown": "0.5"}, "max_slowdown", "greater than or equal to 1"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_at_its_field_and_its_section_stands_open(
    client: Client, operator: User, changes: dict[str, Any], field: str, said: str
) -> None:
    answer = client.post(reverse("objective-new"), objective_form(**(TYPED | changes)))
    assert (answer.status_code, Objective.objects.count()) == (422, 0)
    assert [said in " ".join(errors) for name, errors in answer.context["terms"].errors.items() if name == field] == [
        True
    ]
    assert [section.key for section in answer.context["sections"] if section.wrong]
    assert (said in page(answer), "Nothing was saved." in page(answer)) == (True, True)


def test_a_batch_window_of_one_day_and_one_over_midnight_are_both_windows(team: Team) -> None:
    for start, end, latest, allowed in (
        ("22:00", "06:00", "06:00", 8),
        ("09:00", "17:00", "16:00", 7),
        ("20:00", "20:00", "20:00", 24),
    ):
        typed = TYPED | {"batch_window_start": start, "batch_window_end": end, "batch_latest_finish": latest}
        form = TermsForm(
            _posted({name: value if isinstance(value, list) else [value] for name, value in typed.items()}), team=team
        )
        assert form.is_valid(), form.errors
        assert f"({allowed} h after the start)" in " ".join(
            next(s for s in form.sections() if s.key == "batch").summary
        )


def test_production_is_taken_from_a_workload_whose_lengths_came_from_a_trace(
    team: Team, operator: User, client: Client
) -> None:
    make_workload(team, slug="made-up")
    traced = make_workload(team, slug="traced", source="Own trace file; 1,000 requests", shared_prefix_share=0.25)
    form = TermsForm(team=team)
    offered = [str(value) for value, _ in form.fields["production_from"].choices]  # type: ignore[attr-defined]
    assert offered == ["", str(traced.pk)]
    client.post(reverse("objective-new"), objective_form(production_from=str(traced.pk), production_repeated_share="5"))
    mix = objectives.terms_of(Objective.objects.get()).production
    assert mix is not None
    assert 0 < mix.p10_tokens <= mix.p90_tokens <= mix.p95_tokens
    assert (mix.repeated_share, mix.shared_prefix_share) == (0.05, 0.25)
    assert mix.source == "workload traced, version 1: Own trace file; 1,000 requests"


def test_stored_terms_are_plain_json_of_what_differs() -> None:
    plain = objectives.plain(ObjectiveTerms(tenants=2, batch=NIGHT))
    assert plain == json.loads(json.dumps(plain))
    assert sorted(plain) == ["batch", "tenants"]


def _posted(values: dict[str, list[str]]) -> Any:
    from django.http import QueryDict

    data = QueryDict(mutable=True)
    for name, given in values.items():
        data.setlist(name, given)
    return data
