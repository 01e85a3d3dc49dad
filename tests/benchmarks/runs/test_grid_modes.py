"""Grids in each mode: drawn, digested, planned and held to their ceilings in their own words."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from benchmarks import plans, queries, registry, runs
from benchmarks.drafts import DraftRefused
from benchmarks.engine.load import Closed, MicroBatch, OpenLoop, Poisson, StaticBatch
from benchmarks.models import Grid
from benchmarks.permits import Permit, Refusal, permit
from benchmarks.records.modes import (
    ArrivalKind,
    ClosedTerms,
    MicroTerms,
    OpenTerms,
    SearchTerms,
    StaticTerms,
    Terms,
)
from tests import factories
from tests.benchmarks.runs import protected
from tests.benchmarks.runs.made import running_grid

pytestmark = pytest.mark.django_db


def _plan(grid: Grid) -> Any:
    cell = grid.cells.order_by("position").first()
    assert cell is not None
    leave = permit(cell.grid, setting=cell.setting, at=timezone.now())
    assert isinstance(leave, Permit), leave
    return plans.cell_plan(cell=cell, permit=leave)


def _lists(**fields: Any) -> Any:
    return factories.make_runtime(dialect="openai_completions", **fields)


def test_a_plain_closed_grid_has_the_digest_that_it_had_before_there_were_modes() -> None:
    grid = factories.make_grid(settings=(1,), class_names=("short",))
    assert (grid.mode, grid.load) == ("closed", {})
    told = {
        "runtime": grid.runtime.digest, "workload": grid.workload.digest, "hardware": grid.declared,
        "endpoint": grid.runtime.endpoint, "settings": [1], "classes": ["short"], "repeats": 1, "window_s": 5.0,
        "warmup_s": 1.0, "limits": grid.limits, "objective": grid.objective_digest,
    }  # fmt: skip
    assert grid.digest == queries.digest_of(told)


@pytest.mark.parametrize("load", [ClosedTerms(processes=2), OpenTerms(), StaticTerms(), SearchTerms()])
def test_every_other_mode_or_term_gives_a_digest_of_its_own(load: Terms) -> None:
    grid = factories.make_grid(settings=(1,), class_names=("short",))
    other = factories.make_grid(
        grid.runtime, grid.workload, grid.drawn_by, settings=(1,), class_names=("short",), load=load
    )
    assert other.digest != grid.digest
    assert queries.terms(other) == load


def test_a_runtime_that_speaks_openai_chat_keeps_its_digest_and_another_dialect_changes_it() -> None:
    runtime = factories.make_runtime()
    kept = {name: getattr(runtime, name) for name in registry.RUNTIME_MEASURED if name not in registry._LATER}
    assert runtime.digest == queries.digest_of({"hardware": runtime.hardware.slug, **kept})
    runtime.dialect = "openai_completions"
    assert registry.digest_of_runtime(runtime) != runtime.digest


@pytest.mark.parametrize(
    ("load", "runtime", "setting", "expected"),
    [
        (ClosedTerms(), {}, 4, (Closed(), 4, 1.0, True)),
        (SearchTerms(), {}, 4, (Closed(), 4, 1.0, True)),
        (OpenTerms(max_in_flight=6), {}, 120, (OpenLoop(arrivals=Poisson(2.0)), 6, 1.0, True)),
        (
            MicroTerms(arrivals_per_min=60, max_batches=2), {"dialect": "openai_embeddings"}, 4,
            (MicroBatch(arrivals=Poisson(1.0), max_items=4, max_wait_ms=20.0), 2, 1.0, False),
        ),
        (StaticTerms(items=50, beside=2), {}, 4, (StaticBatch(items=50, batch_size=4, tries=3), 2, 0.0, True)),
    ],
)  # fmt: skip
def test_the_plan_of_a_cell_carries_the_mode(
    load: Terms, runtime: dict[str, str], setting: int, expected: tuple[object, ...]
) -> None:
    grid = running_grid(
        runtime=factories.make_runtime(**runtime), settings=(setting,), class_names=("short",), load=load
    )
    plan = _plan(grid)
    assert (plan.load, plan.offered_concurrency, plan.warmup_s, plan.stream) == expected
    assert plan.dialect == grid.runtime.dialect


def test_arrivals_have_a_seed_of_their_own_and_processes_and_cores_come_from_grid_and_host(settings: Any) -> None:
    settings.CLIENT_CPUS = [2, 3]
    plan = _plan(running_grid(settings=(4,), class_names=("short",), load=ClosedTerms(processes=2)))
    assert plan.seed != plan.arrival_seed
    assert (plan.processes, plan.client_cpus) == (2, (2, 3))


@pytest.mark.parametrize(
    ("load", "setting", "words"),
    [
        (ClosedTerms(), 8, None),
        (ClosedTerms(), 9, "allows 8 at a time, the cell offers 9."),
        (OpenTerms(max_in_flight=8), 6000, None),
        (OpenTerms(max_in_flight=9), 60, "the cell offers 9, with 60 arrivals a minute."),
        (MicroTerms(max_batches=2), 4, None),
        (MicroTerms(max_batches=2), 5, "the cell offers 10, with at most 5 items a request."),
        (StaticTerms(beside=2), 4, None),
        (StaticTerms(beside=2), 5, "the cell offers 10, with batches of 5."),
        (SearchTerms(), 9, "the cell offers 9."),
    ],
)
def test_the_ceiling_is_compared_with_what_the_mode_puts_in_flight(
    load: Terms, setting: int, words: str | None
) -> None:
    grid = factories.make_grid(_lists(), settings=(setting,), class_names=("short",), load=load)
    protected.authorized(grid)  # 8 at a time
    answer = permit(grid, setting=setting, at=timezone.now())
    assert isinstance(answer, Permit) if words is None else isinstance(answer, Refusal) and words in answer.reason


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"load": MicroTerms()}, "which OpenAI chat cannot carry"),
        ({"load": OpenTerms(arrivals=ArrivalKind.REPLAY)}, "keeps no trace of arrivals"),
        ({"load": SearchTerms(most_cells=2)}, "One try of the search takes 3 cells, and it may run 2"),
        ({"load": StaticTerms(items=0)}, "items"),
        ({"settings": ()}, "at least one setting"),
    ],
)
def test_what_a_mode_lacks_is_said_when_the_grid_is_drawn(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(DraftRefused, match=words):
        factories.make_grid(**fields)
    assert not Grid.objects.exists()


REPLAYED = OpenTerms(arrivals=ArrivalKind.REPLAY)


@pytest.mark.parametrize(
    ("load", "settings", "lasts_s"),
    [
        (REPLAYED, (60, 600), None),  # 60 arrivals and 6 s of warm-up and window
        (REPLAYED, (60, 601), "6.0 s at 601 a minute"),
        (MicroTerms(arrivals=ArrivalKind.REPLAY, arrivals_per_min=600), (8,), None),
        (MicroTerms(arrivals=ArrivalKind.REPLAY, arrivals_per_min=1200), (8,), "3.0 s at 1,200 a minute"),
    ],
)
def test_a_trace_that_would_end_inside_the_window_is_refused(
    load: Terms, settings: tuple[int, ...], lasts_s: str | None
) -> None:
    runtime = _lists()
    workload = factories.make_workload(runtime.team, arrivals_s=[n * 0.5 for n in range(60)])
    if lasts_s is None:
        assert factories.make_grid(runtime, workload, settings=settings, load=load).pk
        return
    with pytest.raises(DraftRefused, match=f"60 arrivals .* last {lasts_s}; warm-up and window take 6 s"):
        factories.make_grid(runtime, workload, settings=settings, load=load)


@pytest.mark.parametrize(("load", "drawn"), [(StaticTerms(), False), (OpenTerms(), True), (ClosedTerms(), True)])
def test_conversations_run_in_loops_only(load: Terms, drawn: bool) -> None:
    runtime = factories.make_runtime()
    workload = factories.make_workload(runtime.team, turns=3)
    if drawn:
        assert factories.make_grid(runtime, workload, settings=(4,), load=load).pk
        return
    with pytest.raises(DraftRefused, match="several turns"):
        factories.make_grid(runtime, workload, settings=(4,), load=load)


def test_a_search_begins_with_the_cells_of_its_lowest_setting() -> None:
    grid = factories.make_grid(settings=(2, 64), class_names=("short", "long"), load=SearchTerms())
    assert list(grid.cells.values_list("setting", "class_name")) == [(2, "short"), (2, "long")]


def test_terms_of_another_mode_in_the_row_refuse_the_cell_and_raise_nothing() -> None:
    grid = running_grid(settings=(1,), class_names=("short",))
    Grid.objects.filter(pk=grid.pk).update(load={"items": 3})
    grid.refresh_from_db()
    grid.digest = queries.digest_of_grid(grid)
    grid.save(update_fields=["digest"])
    grid.authorizations.update(revoked_at=timezone.now())
    Grid.objects.filter(pk=grid.pk).update(status="draft")
    grid.refresh_from_db()
    runs.authorize(
        grid=grid, by=factories.make_user(grid.team, "host_owner"), valid_from=protected.NOON, valid_until=protected.LATE,
        ceilings=runs.Ceilings(max_concurrency=8, max_requests=1, max_tokens=1, max_minutes=1),
    )  # fmt: skip
    answer = permit(grid, setting=1, at=timezone.now())
    assert isinstance(answer, Refusal)
    assert "not terms of a grid" in answer.reason
