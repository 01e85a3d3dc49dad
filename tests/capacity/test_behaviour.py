"""Behaviour probes beside the load: what they found is on the page and in files, and settings are judged by it."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.test import Client
from django.urls import reverse

from benchmarks import probe_tables, queries
from benchmarks.engine.probe_plan import BY_NAME, Cancellation, Fairness, Idle, Overload, Probe, name_of
from benchmarks.engine.verdicts import Figure, ProbeVerdict
from benchmarks.models import Cell, Grid, Role
from capacity import behaviour_tables, exports
from capacity.assessment.verdict import Kind
from capacity.queries import result_of
from tests import factories
from tests.benchmarks.runs import probed
from tests.benchmarks.runs.made import running_grid
from tests.capacity import stored
from tests.capacity import synthetic as made
from tests.capacity.test_approvals import Office
from tests.capacity.test_no_safe_setting import slow

pytestmark = pytest.mark.django_db
FIGURES = {
    "p95_ratio": Figure(value=3.456, unit="times", n=1200),
    "blocked_share": Figure(value=0.25, unit="share", n=40),
    "vram_used_bytes GPU-1": Figure(value=2.0**30, unit="bytes", n=5),
    "gpu_temperature_c": Figure(value=61.04, unit="degC", n=5),
    "p95_alone": Figure(value=None, unit="s"),
}


def add(grid: Grid, probe: Probe, found: ProbeVerdict | None, **fields: object) -> Cell:
    """One more cell of a grid that is measured already."""
    cell = Cell.objects.create(
        grid=grid, hardware=grid.hardware, position=100 + grid.cells.count(), setting=8, class_name="mixed",
        probe=name_of(probe), **fields,
    )  # fmt: skip
    if found is not None:
        probed.give(cell, found)
    return cell


def client_of(grid: Grid) -> Client:
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.VIEWER))
    return client


def page(grid: Grid, client: Client | None = None) -> str:
    return " ".join((client or client_of(grid)).get(grid.get_absolute_url()).content.decode().split())


def test_the_load_of_a_grid_with_probes_is_compared_and_exported_exactly_as_without() -> None:
    office = Office()

    def seen() -> tuple[object, ...]:
        result = result_of(Grid.objects.get(pk=office.grid.pk))
        evidence = result.evidence
        return (
            result.facts.cells, exports.as_csv(result), evidence.cells, evidence.measured, evidence.manifest(),
            evidence.leaves, evidence.authorization,
        )  # fmt: skip

    without = seen()
    office.authorize(office.grid, office.owner)  # the probes ran under another leave than the load
    add(office.grid, Overload(), probed.verdict(Overload(), "queues_without_bound"))
    add(office.grid, Fairness(), None, status="not_run", reason="Not safe to go on: the guard stopped it")
    assert len(queries.evidence(office.grid).probes) == 2
    assert seen() == without


def test_what_a_probe_finds_of_the_deployment_decides_and_one_that_did_not_run_does_not() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()))
    add(grid, Fairness(), None, status="not_run", reason="Not safe to go on: the guard stopped it")
    before = result_of(grid).verdict
    assert before.kind == Kind.RECOMMENDED
    add(grid, Overload(), probed.verdict(Overload(), "queues_without_bound"))
    after = result_of(grid).verdict
    assert (after.kind, after.recommended) == (Kind.NO_SAFE_SETTING, None)
    assert "Put a gateway with a bounded queue in front." in after.summary


def test_the_policy_stands_on_the_page_and_in_files_with_its_sources() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits(), name="=SUM(1)"))
    client = client_of(grid)
    html, verdict = page(grid, client), result_of(grid).verdict
    assert 'id="policy"' in html
    assert "Outside what was measured" in html
    answer = client.get(reverse("grid-policy", args=[grid.pk, "csv"]))
    assert answer["Content-Disposition"] == f'attachment; filename="grid-{grid.pk}-policy-simulated.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    plain = json.loads(client.get(reverse("grid-policy", args=[grid.pk, "json"])).content)["rows"]
    assert (
        [row["control"] for row in rows] == [row["control"] for row in plain] == [line.key for line in verdict.policy]
    )
    assert (rows[0]["grid_name"], plain[0]["number"], rows[0]["setting"]) == ("'=SUM(1)", 4.0, "4")


def test_a_link_to_what_is_not_measured_fills_the_new_grid() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()))
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.OPERATOR))
    link = f"{reverse('grid-new')}?from={grid.pk}&amp;mode=closed&amp;settings=4,6,8"
    assert link in page(grid, client)
    asked = client.get(f"{reverse('grid-new')}?from={grid.pk}&settings=4,6,8,{'9' * 5000},0,x")
    assert asked.context["form"].initial["other_settings"] == "6"
    assert asked.context["form"].initial["setting_values"] == ["4", "8"]


def test_a_new_grid_of_a_runtime_is_filled_in_from_a_grid_of_that_runtime_and_of_no_other() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()))
    own = factories.make_runtime(grid.hardware, slug="own", name="Own")
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.OPERATOR))
    asked = client.get(f"{reverse('grid-new')}?runtime={own.pk}")
    assert asked.context["earlier"] is None
    initial = asked.context["form"].initial
    assert ("name" in initial, initial["workload"], initial["runtime"]) == (False, str(grid.workload_id), str(own.pk))
    asked = client.get(f"{reverse('grid-new')}?runtime={grid.runtime_id}")
    assert asked.context["earlier"] == grid


def test_where_no_setting_is_safe_the_page_says_what_was_not_tested() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()), slow)
    assert result_of(grid).verdict.kind is Kind.NO_SAFE_SETTING
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.OPERATOR))
    said = [one.sentence for one in client.get(grid.get_absolute_url()).context["untested"]]
    assert any(sentence.startswith("Overload") for sentence in said), said


@pytest.mark.parametrize(
    ("word", "pill", "words"),
    [
        ("fair", "ok", "Fair"),
        ("watch", "warn", "Watch"),
        ("unfair", "bad", "Unfair"),
        ("not_judged", "idle", "Cannot be judged"),
    ],
)
def test_a_verdict_is_a_word_with_its_colour_its_figures_with_units_and_n_and_its_reason(
    word: str, pill: str, words: str
) -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()))
    reasons = ("Only 7 short requests were asked alone.",)
    cell = add(grid, Fairness(), probed.verdict(Fairness(), word, reasons=reasons, figures=FIGURES))
    html = page(grid)
    assert f'class="hr-pill hr-pill-{pill}"' in html
    assert f"</svg>{words}</span>" in html
    assert reasons[0] in html
    assert '3.46 <span class="hr-u">×</span><span class="hr-u">, n = 1,200</span>' in html
    assert '25.0 <span class="hr-u">%</span>' in html
    assert "<dt>VRAM used GPU-1</dt><dd>1.00" in html
    assert "<dt>p95 alone</dt><dd>not known" in html
    assert "<dt>Unfair ratio</dt><dd>5" in html
    assert reverse("cell-detail", args=[grid.pk, cell.pk]) in html


def test_a_probe_that_did_not_run_says_why_and_a_grid_without_probes_has_no_such_section() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()))
    assert 'id="behaviour"' not in page(grid)
    add(grid, Idle(), None, status="not_run", reason="Not safe to go on: GPU at 90 C")
    html = page(grid)
    assert ("Not run" in html, "GPU at 90 C" in html, "Not safe to go on" in html) == (True, True, False)


def test_what_a_probe_answered_is_no_longer_untested_and_what_it_tried_in_vain_says_so() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()))
    sentences = result_of(grid).verdict.not_tested
    add(grid, Cancellation(slots=4), probed.verdict(Cancellation(slots=4), "frees_in_time"))
    add(grid, Overload(), probed.verdict(Overload(), "kept_up"))
    result = result_of(grid)
    left = [sentence.partition(":")[0] for sentence in result.verdict.not_tested]
    assert {sentence.partition(":")[0] for sentence in sentences} - set(left) == {"Cancellation"}
    found = behaviour_tables.untested(result.verdict.not_tested, behaviour_tables.lines(result))
    assert [one.sentence.partition(":")[0] for one in found if one.tried] == ["Overload"]
    assert page(grid).count("A probe tried it") == 1


def test_every_probe_that_the_judge_calls_untested_has_its_sentence() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()))
    firsts = {sentence.partition(":")[0] for sentence in result_of(grid).verdict.not_tested}
    assert set(behaviour_tables.TRIED_BY) <= firsts
    assert set(behaviour_tables.TRIED_BY.values()) <= set(BY_NAME)


def test_files_have_a_row_for_each_figure_with_its_unit_and_the_conditions() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits(), name="=SUM(1)"))
    cell = add(grid, Fairness(), probed.verdict(Fairness(), "watch", figures=FIGURES))
    add(grid, Idle(), None, status="not_run", reason="Stopped by owner (cancel).")
    client = client_of(grid)
    answer = client.get(reverse("grid-behaviour", args=[grid.pk, "csv"]))
    assert answer["Content-Disposition"] == f'attachment; filename="grid-{grid.pk}-behaviour-simulated.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    plain = json.loads(client.get(reverse("grid-behaviour", args=[grid.pk, "json"])).content)["rows"]
    assert [row["figure"] for row in rows] == [*FIGURES, ""]
    assert list(rows[0]) == list(plain[0]) == list(behaviour_tables.COLUMNS)
    first, alone, last = plain[0], plain[4], plain[-1]
    assert (first["cell"], first["verdict"], first["value"], first["unit"], first["n"]) == (
        cell.pk, "watch", 3.456, "times", 1200,
    )  # fmt: skip
    assert (alone["value"], rows[4]["value"]) == (None, "")
    assert json.loads(first["parameters"])["unfair_ratio"] == 5.0
    assert (last["status"], last["reason"], last["verdict"]) == ("not_run", "Stopped by owner (cancel).", None)
    assert (rows[0]["grid_name"], first["room"]) == ("'=SUM(1)", "Room 1, ground floor, 21 °C")


def test_the_page_of_a_cell_shows_what_was_recorded_around_it_and_who_signed() -> None:
    grid = running_grid(settings=(1,), class_names=("short",))
    Grid.objects.filter(pk=grid.pk).update(baseline={"gpu_power_w": 35.04, "vram_used_bytes": None})
    cell = add(
        grid, Idle(), probed.verdict(Idle(), "steady", figures=FIGURES)
    )  # fmt: skip
    cell.attempts.update(
        conditions={
            "before": {"power": {"source": "grid", "on_battery": False}, "ambient_c": 21.0},
            "after": {"power": {"source": "ups", "on_battery": True}, "at": "2026-11-14T10:02:00+00:00"},
            "power_change": "It was mains, it is the UPS.",
            "cooling": {"waited_s": 12.0, "kv_capacity_tokens": 8192},
        }
    )
    html = " ".join(client_of(grid).get(reverse("cell-detail", args=[grid.pk, cell.pk])).content.decode().split())
    for name, value in (
        ("Power change", "It was mains, it is the UPS."),
        ("Waited", "12.0 s"), ("KV capacity", "8,192 tokens"), ("GPU power", "35.0 W"), ("VRAM used", "not recorded"),
    ):  # fmt: skip
        assert f"<dt>{name}</dt><dd>{value}</dd>" in html, name
    for name, before, after in (
        ("Power source", "grid", "ups"), ("Power on battery", "no", "yes"), ("Ambient", "21.0 °C", "not recorded"),
        ("At", "not recorded", "14 Nov 2026, 10:02 UTC"),
    ):  # fmt: skip
        assert f'<th scope="row">{name}</th><td>{before}</td><td>{after}</td>' in html, name
    assert "Idle: steady" in html
    assert '<th scope="row">Short alone</th><td class="hr-num">40</td><td>ok 38, rejected 2</td>' in html
    assert "its worker had not enrolled" in html
    assert reverse("evidence-download", args=[grid.pk, cell.pk]) in html


def test_a_cell_of_load_has_such_a_page_too_and_another_team_has_neither() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()))
    cell = grid.cells.order_by("position")[0]
    address = reverse("cell-detail", args=[grid.pk, cell.pk])
    html = client_of(grid).get(address).content.decode()
    assert "Nothing was recorded" in html
    assert "Behaviour probe" not in html
    stranger = Client()
    stranger.force_login(factories.make_user(factories.make_team("Others"), Role.OPERATOR))
    assert stranger.get(address).status_code == 404
    assert stranger.get(reverse("grid-behaviour", args=[grid.pk, "csv"])).status_code == 404


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("p95_beside", "p95 beside"),
        ("blocked_share", "Blocked"),
        ("gpu_power_w GPU-0 peak", "GPU power GPU-0 peak"),
        ("capacity_per_s", "Capacity per s"),
        ("time_to_reject_s", "Time to reject"),
    ],
)
def test_a_figure_is_named_without_its_unit(key: str, name: str) -> None:
    assert probe_tables.name_of_figure(key) == name
