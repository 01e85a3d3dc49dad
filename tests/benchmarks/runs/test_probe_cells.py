"""Behaviour probes as cells: where they stand, what they may send, which setting they get, and what they leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarks import claims, grid_tables, plans, queries, runs
from benchmarks.drafts import DraftRefused
from benchmarks.engine.probe_plan import (
    Cancellation,
    Fairness,
    Idle,
    LimitsProbe,
    Overload,
    Probe,
    Recovery,
    RetryStorm,
)
from benchmarks.models import Authorization, Grid
from benchmarks.permits import Permit, Refusal, permit
from benchmarks.queries import digest_of_grid
from benchmarks.records.modes import OpenTerms
from tests import factories
from tests.benchmarks.runs import probed
from tests.benchmarks.runs.made import claim, record, running_grid, summary

pytestmark = pytest.mark.django_db
SMALL = (Fairness(), Idle(idle_s=5))
"""At most three in flight: no more than the ceilings of a test's authorisation."""


def test_probes_are_drawn_behind_the_load_once_each_at_the_highest_setting_with_every_parameter_kept() -> None:
    storm = RetryStorm(most_in_flight=64)
    wanted = (Idle(), storm, RetryStorm(burst_s=10.0), Fairness())
    grid = factories.make_grid(settings=(4, 1), class_names=["short"], probes=wanted)
    drawn = [(c.setting, c.repeat, c.class_name, c.probe) for c in grid.cells.order_by("position")]
    assert drawn == [
        (1, 1, "short", ""), (4, 1, "short", ""),
        (4, 1, "mixed", "fairness"), (4, 1, "mixed", "retry_storm"), (4, 2, "mixed", "retry_storm"), (4, 1, "mixed", "idle"),
    ]  # fmt: skip
    first, second = grid.cells.filter(probe="retry_storm").order_by("repeat")
    assert (queries.probe_of(first), queries.probe_of(second)) == (storm, RetryStorm(burst_s=10.0))
    assert grid.probes[0]["unfair_ratio"] == 5.0


def test_a_parameter_of_a_probe_is_part_of_what_is_authorised_and_a_grid_without_probes_keeps_its_digest() -> None:
    grid = factories.make_grid(probes=(Idle(),))
    grid.probes[0]["idle_s"] = 61.0
    assert digest_of_grid(grid) != grid.digest
    grid.probes = []
    without = factories.make_grid(grid.runtime, grid.workload)
    assert digest_of_grid(grid) == without.digest


@pytest.mark.parametrize(
    ("probe", "fields", "sentence"),
    [
        (Idle(), {"load": OpenTerms()}, "Behaviour probes go with a closed loop"),
        (Overload(most_in_flight=5000), {}, "Overload: at most 4,096 in flight can be asked for."),
        (Overload(times_capacity=1.0), {}, "Overload: 1 times the capacity is not beyond it."),
        (Idle(idle_s=3601), {}, "Idle: it would take 3,601 s."),
        (Idle(idle_s=0), {}, "Idle: it would take 0 s."),
    ],
)
def test_a_probe_that_cannot_be_drawn_is_refused_in_words(
    probe: Probe, fields: dict[str, object], sentence: str
) -> None:
    with pytest.raises(DraftRefused, match=sentence):
        factories.make_grid(probes=(probe,), **fields)  # type: ignore[arg-type]
    assert Grid.objects.count() == 0


def test_a_runtime_of_embeddings_streams_nothing_that_a_probe_could_watch() -> None:
    runtime = factories.make_runtime(dialect="openai_embeddings")
    with pytest.raises(DraftRefused, match="Behaviour probes need answers that are streamed"):
        factories.make_grid(runtime, probes=(Idle(),))


@pytest.mark.parametrize(
    ("probe", "most"),
    [
        (Fairness(short_clients=2, long_clients=3), 5),
        (Overload(most_in_flight=40), 40),
        (Overload(most_in_flight=4, measure_clients=9), 9),
        (RetryStorm(most_in_flight=50), 50),
        (Cancellation(), 6),  # four slots of the runtime, one that waits, one that comes after
        (Cancellation(slots=9), 11),
        (LimitsProbe(), 2),
        (Recovery(storm_clients=20), 21),
        (Idle(), 2),
    ],
)
def test_what_a_probe_has_in_flight_must_be_allowed_and_the_offer_allows_it(probe: Probe, most: int) -> None:
    grid = factories.make_grid(settings=(2,), class_names=["short"], probes=(probe,))
    assert queries.most_in_flight(grid) == most


@pytest.mark.parametrize(("allowed", "refused"), [(39, True), (40, False)])
def test_an_overload_runs_only_where_the_authorisation_allows_as_many_at_a_time(allowed: int, refused: bool) -> None:
    grid = factories.make_grid(settings=(2,), class_names=["short"], probes=(Overload(most_in_flight=40),))
    now = timezone.now()
    ceilings = runs.Ceilings(max_concurrency=allowed, max_requests=1000, max_tokens=10_000, max_minutes=60)
    runs.authorize(
        grid=grid, by=factories.make_user(grid.team, "host_owner"), valid_from=now - timedelta(minutes=1),
        valid_until=now + timedelta(hours=1), ceilings=ceilings,
    )  # fmt: skip
    load, overload = grid.cells.order_by("position")
    assert isinstance(permit(grid, setting=2, at=now, cell=load), Permit)
    answer = permit(grid, setting=2, at=now, cell=overload)
    assert isinstance(answer, Refusal) is refused
    if isinstance(answer, Refusal):
        assert "allows 39 at a time, the cell offers 40" in answer.reason


def test_the_plan_of_a_probe_has_what_is_registered_of_the_runtime_and_no_guard_of_speed() -> None:
    runtime = factories.make_runtime(max_active_sequences=4, context_per_sequence_tokens=2048)
    grid = factories.make_grid(
        runtime, settings=(2,), class_names=["short"], probes=(Cancellation(), LimitsProbe(), Fairness())
    )
    leave = Permit(authorization=_leave(grid), requests_left=9, tokens_left=99, seconds_left=60.0)
    load, fairness, cancellation, limits = (
        plans.cell_plan(cell=c, permit=leave) for c in grid.cells.order_by("position")
    )
    assert load.probe is None
    fits = Cancellation(slots=4, prefill_prompt_tokens=744, fill_output_tokens=496)
    assert (cancellation.probe, limits.probe) == (fits, LimitsProbe(context_tokens=2048))
    assert (cancellation.guard.max_error_share, cancellation.guard.max_p95_over_objective) == (None, None)
    assert cancellation.guard.max_temperature_c == load.guard.max_temperature_c
    assert (cancellation.max_requests, cancellation.max_tokens) == (9, 99)
    assert [c.name for c in fairness.classes] == ["short", "median", "long"]


@pytest.mark.parametrize(
    ("at_each", "setting", "status"),
    [
        ([{}, {}, {}], 4, "queued"),
        ([{}, {}, {"p95_s": 9.0}], 2, "queued"),
        ([{}, {"p95_s": 9.0}], 1, "queued"),
        ([{}, {"complete": False, "end_reason": "guard: GPU 90 C"}], 1, "queued"),
        ([{"p95_s": 9.0}], 4, "not_run"),
    ],
)
def test_probes_fall_to_the_highest_setting_that_passed_and_do_not_run_without_one(
    at_each: Sequence[dict[str, object]], setting: int, status: str
) -> None:
    grid = running_grid(settings=(1, 2, 4), class_names=("short",), probes=SMALL)
    for fields in at_each:
        assert record(claim(grid), summary(**fields))  # type: ignore[arg-type]
    found = grid.cells.exclude(probe="").values_list("setting", "status", "reason")
    assert {(s, state) for s, state, _ in found} == {(setting, status)}
    assert all(reason.startswith("Not safe to go on: ") == (status == "not_run") for _, _, reason in found)


@pytest.mark.parametrize(
    ("word", "complete", "end_reason", "second"),
    [
        ("unfair", True, "the probe is through", "queued"),
        ("not_judged", True, "the probe is through", "queued"),
        ("not_judged", False, "the ceiling of requests is reached", "queued"),
        ("not_judged", False, "guard: GPU temperature 91 C, the limit is 85 C", "not_run"),
    ],
)
def test_only_a_guard_of_the_host_keeps_the_next_probe_from_running(
    word: str, complete: bool, end_reason: str, second: str
) -> None:
    grid = running_grid(settings=(1,), class_names=("short",), probes=SMALL)
    record(claim(grid))
    found = probed.verdict(SMALL[0], word, complete=complete, end_reason=end_reason)
    assert probed.record(claim(grid), found)
    first, then = grid.cells.exclude(probe="").order_by("position")
    assert (first.status, then.status) == ("measured" if complete else "stopped", second)
    assert ("fairness" in then.reason) == (second == "not_run")


def test_a_grid_is_measured_by_its_load_and_closes_behind_its_last_probe() -> None:
    grid = running_grid(settings=(1,), class_names=("short",), probes=SMALL)
    record(claim(grid))
    grid.refresh_from_db()
    assert grid.status == "running"
    probed.record(claim(grid), probed.verdict(SMALL[0], "fair"))
    last = claim(grid)
    probed.record(last, probed.verdict(SMALL[1], "not_judged", complete=False, end_reason="the ceiling is reached"))
    grid.refresh_from_db()
    assert (grid.status, grid.stop_reason) == ("measured", "")
    assert claims.claim_next_cell(hardware_slugs=[grid.hardware.slug], worker="w") is None


def test_pages_count_load_and_probes_apart() -> None:
    grid = running_grid(settings=(1, 2), class_names=("short",), probes=SMALL)
    found = queries.progress(grid)
    assert (found.cells_total, found.cells_finished, found.probes_total, found.probes_finished) == (2, 0, 2, 0)
    assert found.eta_s == pytest.approx(2 * 7 + 2 * 1 + sum(c.seconds for c in queries.probe_costs(grid)))
    row = grid_tables.lines_of([grid])[grid.pk]
    assert (row.total, row.columns, len(row.levels)) == (2, 2, 2)


def _leave(grid: Grid) -> Authorization:
    return runs.authorize(
        grid=grid, by=factories.make_user(grid.team, "host_owner"), valid_from=timezone.now(),
        valid_until=timezone.now() + timedelta(hours=1),
        ceilings=runs.Ceilings(max_concurrency=64, max_requests=10, max_tokens=100, max_minutes=1),
    )  # fmt: skip
