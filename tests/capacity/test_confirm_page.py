"""Drawing the confirmation from the result page, and what the page says of it before and after."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest
from django.test import Client
from msgspec.structs import replace

from benchmarks.drafts import Confirms, record_conditions
from benchmarks.engine.probe_plan import Overload
from benchmarks.engine.summary_types import CellSummary, OpenLoopSummary
from benchmarks.models import Cell, Grid, HardwareProbe, Role
from benchmarks.records.modes import OpenTerms
from benchmarks.stats.quantiles import tail
from benchmarks.stats.shares import share
from capacity import confirm_forms, confirmed
from capacity.assessment.verdict import Answer
from capacity.queries import result_of
from tests import factories
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db


def measured() -> Grid:
    grid = stored.measure(factories.make_grid(limits=made.limits(), class_names=("short",)))
    return grid


def client_of(grid: Grid, role: Role = Role.OPERATOR) -> Client:
    client = Client()
    client.force_login(factories.make_user(grid.team, role))
    return client


def page(client: Client, address: str) -> str:
    return " ".join(client.get(address).content.decode().split())


def typed_in(form: Any) -> dict[str, Any]:
    """As the page holds it, an empty field as empty."""
    return {name: "" if (value := form[name].value()) is None else value for name in form.fields}


def open_window(cell: Cell) -> CellSummary:
    parts = [made.class_summary(name, np.linspace(0.2, 0.6, 200).tolist()) for name in ("short", "median", "long")]
    opened = OpenLoopSummary(
        planned=600, requested_per_s=2, sent_per_s=2, on_time=share(600, 600), late_s=tail(np.zeros(600)), late_max_s=0
    )
    found = made.summary(16, "mixed", parts, simulated=cell.grid.simulated)
    return replace(found, open_loop=opened, mean_in_flight=1.0)


def drawn(grid: Grid, **fields: Any) -> Grid:
    recommended = result_of(grid).verdict.recommended
    assert recommended is not None
    spec = {
        "settings": (120,), "class_names": ("mixed",), "load": OpenTerms(max_in_flight=64), "limits": made.limits(),
        "confirms": Confirms(grid=grid, setting=recommended, queue_cap=4), "repeats": 1,
    } | fields  # fmt: skip
    return factories.make_grid(spec.pop("runtime", grid.runtime), spec.pop("workload", grid.workload), **spec)


def test_a_person_draws_the_proposed_confirmation_from_the_result_page() -> None:
    grid = measured()
    client = client_of(grid)
    address = f"/grids/{grid.pk}/confirm/"
    assert address in page(client, grid.get_absolute_url())
    assert address not in page(client_of(grid, Role.VIEWER), grid.get_absolute_url())

    form = client.get(address).context["form"]
    typed = typed_in(form)
    verdict = result_of(grid).verdict
    cap = verdict.queue_cap
    assert cap is not None
    assert (typed["setting"], typed["queue_cap"]) == (verdict.recommended, cap.cap)
    assert typed["rate_per_min"] == int(cap.arrivals_per_min)
    shown = page(client, address)
    assert "--active 4" in shown
    assert "refused at once with Retry-After" in shown

    again = client.post(address, {**typed, "action": "plan", "rate_per_min": 60})
    assert (again.status_code, Grid.objects.count()) == (200, 1)
    assert "60 requests a minute" in " ".join(again.content.decode().split())
    answer = client.post(address, {**typed, "action": "draw"})
    found = Grid.objects.get(confirms=grid)
    assert answer["Location"] == found.get_absolute_url()
    assert (found.mode, found.status, found.class_names) == ("open", Grid.Status.DRAFT, ["mixed"])
    assert (found.confirms_setting, found.confirms_queue_cap) == (typed["setting"], typed["queue_cap"])
    assert found.setting_values == [typed["rate_per_min"]]
    assert found.load["max_in_flight"] > typed["setting"] + typed["queue_cap"]
    assert (found.objective_digest, found.limits, found.workload) == (grid.objective_digest, grid.limits, grid.workload)
    assert "It was drawn to confirm 4 in flight" in page(client, found.get_absolute_url())
    assert f"grid {found.pk} is drawn for" in page(client, grid.get_absolute_url())


def test_a_rate_that_is_none_is_refused_in_words_and_draws_nothing() -> None:
    grid = measured()
    client, address = client_of(grid), f"/grids/{grid.pk}/confirm/"
    form = client.get(address).context["form"]
    typed = typed_in(form)
    answer = client.post(address, {**typed, "rate_per_min": 0})
    assert (answer.status_code, Grid.objects.count()) == (422, 1)
    assert client.post(f"/grids/{grid.pk}/confirm/", {**typed, "queue_cap": "many"}).status_code == 422


def test_what_the_open_loop_measured_stands_on_the_page_of_what_it_confirms() -> None:
    grid = measured()
    found = stored.measure(drawn(grid), of=open_window)
    verdict = result_of(grid).verdict
    assert verdict.confirmation is not None
    assert verdict.confirmation.answer == Answer.HOLDS, verdict.confirmation.words
    html = page(client_of(grid), grid.get_absolute_url())
    assert 'id="confirm"' in html
    assert f'href="{found.get_absolute_url()}"' in html
    assert "Refused: 0 % (0 of 600" in html
    assert f"{grid.get_absolute_url()}#confirm" in page(client_of(grid), found.get_absolute_url())


def test_an_open_loop_of_another_runtime_version_workload_or_objective_says_what_differs() -> None:
    grid = measured()
    other = factories.make_runtime(grid.hardware, runtime_version="99.1")
    found = stored.measure(drawn(grid, runtime=other, objective_digest="1" * 64), of=open_window)
    differs = confirmed.differences(grid, found)
    assert any(words.startswith("runtime version (99.1, not ") for words in differs)
    assert "objective" in differs
    confirmation = result_of(grid).verdict.confirmation
    assert confirmation is not None
    assert confirmation.answer == Answer.NOT_TESTED
    assert "is not like this grid in" in confirmation.words


def test_confirmations_of_a_grid_are_one_query_however_many_there_are(django_assert_num_queries: Any) -> None:
    grid = measured()
    for _ in range(3):
        drawn(grid)
    grid = Grid.objects.select_related("runtime", "workload").get(pk=grid.pk)
    with django_assert_num_queries(1):
        assert len(confirmed.confirmations_of(grid)) == 3
    Grid.objects.filter(confirms=grid).update(status=Grid.Status.WITHDRAWN)
    assert confirmed.confirmations_of(grid) == ()
    with django_assert_num_queries(0):
        assert confirmed.confirmations_of(Grid(mode="open")) == ()


def test_the_table_of_caps_is_a_file_too() -> None:
    grid = measured()
    cap = result_of(grid).verdict.queue_cap
    assert cap is not None
    rows = list(csv.DictReader(io.StringIO(client_of(grid).get(f"/grids/{grid.pk}/queue.csv").content.decode())))
    assert [int(row["cap"]) for row in rows] == [row.cap for row in cap.rows]
    assert [row["cap"] for row in rows if row["recommended"] == "True"] == [str(cap.cap)]


@pytest.mark.parametrize(
    ("rate_per_min", "shares", "window_s"),
    [
        (600.0, (1.0,), 56),  # of p99 too: 2 x 838 requests at 10 a second in 3 windows; of p95 alone they are 2 x 165
        (
            60.0,
            (0.8, 0.2),
            550,
        ),  # the rarest class: 2 x 165 requests at .2 a second in 3 windows; p99 would take too long
        (6.0, (1.0,), 600),
        (60_000.0, (1.0,), 30),
    ],
)
def test_the_window_is_long_enough_for_the_rarest_class_and_at_most_ten_minutes(
    rate_per_min: float, shares: tuple[float, ...], window_s: int
) -> None:
    assert confirm_forms.window_s(95.0, rate_per_min, shares, 3) == window_s


def test_an_open_loop_on_another_driver_or_power_source_confirms_nothing_and_says_so() -> None:
    grid = stored.measure(
        factories.make_grid(
            limits=made.limits(), class_names=("short",), conditions=factories.make_room(power_source="grid")
        )
    )
    found = stored.measure(drawn(grid, conditions=factories.make_room(power_source="generator")), of=open_window)
    for one, driver in ((grid, "570.10"), (found, "580.65")):
        read = HardwareProbe.objects.create(
            hardware=one.hardware, at=stored.STARTED, worker="w", digest=driver,
            facts={"gpus": [{"name": "L40S", "uuid": "a", "driver": driver}]},
        )  # fmt: skip
        Grid.objects.filter(pk=one.pk).update(probe=read)
    (told,) = {fact.differs for fact in confirmed.confirmations_of(Grid.objects.get(pk=grid.pk))}
    assert told == ("GPU driver (580.65, not 570.10)", "power source was grid, is generator")
    confirmation = result_of(Grid.objects.get(pk=grid.pk)).verdict.confirmation
    assert confirmation is not None
    assert confirmation.answer == Answer.NOT_TESTED


@pytest.mark.parametrize("named", ["9" * 5000, "٤", "-1", ""])
def test_a_setting_that_is_none_of_the_grids_is_the_recommended_one(named: str) -> None:
    grid = measured()
    assert client_of(grid).get(f"/grids/{grid.pk}/confirm/", {"setting": named}).status_code == 200


def test_the_confirmation_of_another_teams_grid_is_not_found() -> None:
    grid, stranger = measured(), client_of(factories.make_grid())
    for answer in (stranger.get(f"/grids/{grid.pk}/confirm/"), stranger.post(f"/grids/{grid.pk}/confirm/", {})):
        assert answer.status_code == 404


def late_window(cell: Cell) -> CellSummary:
    """A third of each class beyond its limit."""
    found = open_window(cell)
    parts = [
        made.class_summary(name, [*np.linspace(0.2, 0.6, 133).tolist(), *[made.LIMITS[name] * 3] * 67])
        for name in ("short", "median", "long")
    ]
    return replace(found, classes=tuple(parts))


def test_after_an_open_loop_that_did_not_hold_the_next_draft_begins_with_the_rate_that_it_supports() -> None:
    grid = measured()
    found = stored.measure(drawn(grid, settings=(600,)), of=late_window)
    confirmation = result_of(grid).verdict.confirmation
    assert confirmation is not None
    assert confirmation.answer == Answer.FAILS, confirmation.words
    rate = confirmation.next_rate_per_min
    assert rate is not None
    assert rate < 600
    client = client_of(grid)
    form = client.get(f"/grids/{grid.pk}/confirm/").context["form"]
    assert (form["rate_per_min"].value(), form["queue_cap"].value()) == (int(rate), 4)
    shown = page(client, f"/grids/{grid.pk}/confirm/")
    assert f"What grid {found.pk} showed" in shown
    assert "times as many were late or refused at 600 requests a minute as foretold" in shown
    assert f"Draw the confirmation at {rate:g} requests a minute" in page(client, grid.get_absolute_url())


def test_an_open_loop_that_proved_too_little_is_drawn_again_at_its_own_rate_and_for_longer() -> None:
    grid = measured()

    def few(cell: Cell) -> CellSummary:
        parts = [made.class_summary(name, np.linspace(0.2, 0.6, 60).tolist()) for name in ("short", "median", "long")]
        return replace(open_window(cell), classes=tuple(parts))

    gateway = factories.make_runtime(grid.hardware, slug="gateway", name="Gateway")
    ran = stored.measure(drawn(grid, runtime=gateway, window_s=40.0), of=few)
    confirmation = result_of(grid).verdict.confirmation
    assert confirmation is not None
    assert (confirmation.indicative, confirmation.needs) == (True, 30), confirmation.words  # 90 without a miss
    form = client_of(grid).get(f"/grids/{grid.pk}/confirm/").context["form"]
    assert form["rate_per_min"].value() == ran.setting_values[0]
    assert form["runtime"].value() == gateway.pk
    assert form["window_s"].value() >= 72  # 40 s x 90 / 60, and a fifth to spare


def test_a_confirmation_asks_for_its_conditions_as_every_grid_does_and_keeps_them() -> None:
    grid = stored.measure(
        factories.make_grid(limits=made.limits(), class_names=("short",), conditions=factories.make_room())
    )
    client, address = client_of(grid), f"/grids/{grid.pk}/confirm/"
    form = client.get(address).context["form"]
    typed = typed_in(form)
    assert (typed["room"], typed["power_source"], typed["ambient_c"]) == ("Room 1, ground floor", "", "")
    half = client.post(address, {**typed, "ambient_c": "24", "action": "draw"})
    assert (half.status_code, Grid.objects.count()) == (422, 1)
    assert "Which power source?" in half.content.decode()
    whole = {"power_source": "grid", "ambient_c": "22", "ambient_source": "hand", "action": "draw"}
    client.post(address, {**typed, **whole})
    (kept,) = Grid.objects.get(confirms=grid).conditions.all()
    assert (kept.phase, kept.room, kept.power_source, kept.ambient_c) == (
        "before",
        "Room 1, ground floor",
        "grid",
        22.0,
    )


def test_what_confirms_counts_its_own_conditions_and_the_overload_probe_of_the_runtime_that_it_went_through() -> None:
    grid = measured()
    found = stored.measure(drawn(grid, conditions=factories.make_room()), of=open_window)
    (told,) = confirmed.confirmations_of(grid)
    assert (told.recorded, told.probed) == (False, ())
    record_conditions(grid=found, phase="after", conditions=factories.make_room(), recorded_by=grid.drawn_by)
    probed = [factories.make_grid(found.runtime, grid.workload, probes=(Overload(),)) for _ in range(2)]
    for one, word in zip(probed, ("queues_without_bound", "refused_clearly"), strict=True):
        assert confirmed.confirmations_of(grid)[0].probed == ()
        one.cells.filter(probe="overload").update(status="measured", verdict={"verdict": word})
    (told,) = confirmed.confirmations_of(grid)
    assert (told.recorded, told.probed) == (True, (probed[1].cells.get(probe="overload").pk,))


def test_the_proposal_shows_each_safe_setting_with_its_policy_and_its_grade() -> None:
    grid = measured()
    verdict = result_of(grid).verdict
    shown = page(client_of(grid), f"/grids/{grid.pk}/propose/")
    safe = [row.setting for row in verdict.rows if row.safe]
    assert len(safe) > 1
    for setting in safe:
        part = shown.partition(f'id="with-{setting}"')[2].partition("</section>")[0]
        for title in ("Queue cap", "Maximum input", "Maximum output", "Overload answer", "Rollback"):
            assert title in part
        assert "Needs revision" in part or "Not complete" in part
        assert "Confirmed in an open loop" in part
