"""Grids of other modes: their result page in their own words, and all ways of batching a workload on one page, unranked."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary, MicroBatchSummary, OpenLoopSummary, StaticBatchSummary
from benchmarks.engine.terms import ClientHealth
from benchmarks.models import Cell, Grid, Role
from benchmarks.records.calibration import Calibration, Limits
from benchmarks.records.kept_calibration import Kept, Need
from benchmarks.records.mode_words import WORDS
from benchmarks.records.modes import ClosedTerms, MicroTerms, Mode, OpenTerms, SearchTerms, StaticTerms, Terms
from benchmarks.records.search_answer import Answer
from benchmarks.stats.quantiles import tail
from benchmarks.stats.search import Observation
from benchmarks.stats.shares import share
from capacity import mode_tables
from capacity.assessment.verdict import Kind
from capacity.queries import result_of
from tests import factories
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db

OPEN = OpenLoopSummary(
    planned=100,
    requested_per_s=2.0,
    sent_per_s=1.75,
    on_time=share(99, 100),
    late_s=tail(np.full(100, 0.0005)),
    late_max_s=0.004,
)
MICRO = MicroBatchSummary(
    batches=40, items_per_batch=2.5, added_wait_s=tail(np.full(100, 0.012)), added_wait_max_s=0.0199, over_max_wait=0
)
STATIC = StaticBatchSummary(
    items=200, done=200, failed=0, open=0, batches=50, makespan_s=24.5, items_per_s=8.16, resumed=2
)
LOADS: dict[Mode, tuple[Terms, int, dict[str, Any]]] = {
    Mode.CLOSED: (ClosedTerms(), 4, {}),
    Mode.OPEN: (OpenTerms(max_in_flight=16), 8, {"open_loop": OPEN}),
    Mode.MICRO: (MicroTerms(), 4, {"micro_batch": MICRO}),
    Mode.STATIC: (StaticTerms(), 4, {"static_batch": STATIC}),
    Mode.SEARCH: (SearchTerms(), 4, {}),
}


def _measured(mode: Mode, like: Grid | None = None, *, repeats: int = 1, **changes: Any) -> Grid:
    load, setting, parts = LOADS[mode]
    runtime = factories.make_runtime(like.hardware if like else None, dialect="openai_completions")
    grid = factories.make_grid(
        runtime, like.workload if like else None, like.drawn_by if like else None, settings=(setting,),
        class_names=("short",), limits=made.limits(), load=load, repeats=repeats,
    )  # fmt: skip

    def summary(cell: Cell) -> CellSummary:
        return replace(stored.summary_of(cell), **(parts | changes))

    return stored.measure(grid, summary)


def _get(grid: Grid, address: str, *roles: str) -> str:
    client = Client()
    client.force_login(factories.make_user(grid.team, *(roles or (Role.VIEWER,))))
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def _modes(grid: Grid) -> str:
    return reverse("workload-modes", args=[grid.workload.slug, grid.workload.version])


# --- one page for a workload -----------------------------------------------------------------------------------------


def test_static_continuous_and_micro_batched_grids_of_one_workload_digest_stand_on_one_page() -> None:
    first = _measured(Mode.CLOSED)
    others = [_measured(mode, first) for mode in Mode if mode != Mode.CLOSED]
    html = _get(first, _modes(first))
    assert [f"/grids/{grid.pk}/" in html for grid in (first, *others)] == [True] * 5
    for words in WORDS.values():
        assert words.definition in html
        assert words.judged_by in html
    assert "nothing here is ranked" in html
    assert html.count("<h2 id=") == 3
    for figure in ("24.50", "8.16", "12.00", "2.50", "120.0", "105.0", "99.00"):
        assert f'<td class="hr-num">{figure}</td>' in html, figure


def test_another_workload_and_another_team_are_not_on_it() -> None:
    first, other = _measured(Mode.CLOSED), _measured(Mode.STATIC)
    html = _get(first, _modes(first))
    assert (f"/grids/{first.pk}/" in html, f"/grids/{other.pk}/" in html) == (True, False)
    client = Client()
    client.force_login(factories.make_user(factories.make_team("Others"), Role.OPERATOR))
    assert client.get(_modes(first)).status_code == 404


def test_what_was_not_measured_says_so_and_offers_to_draw_it_to_who_may() -> None:
    grid = _measured(Mode.CLOSED)
    html = _get(grid, _modes(grid))
    assert html.count("Nothing of this kind was measured with this workload yet.") == 2
    assert "mode=static" not in html
    assert f"workload={grid.workload.pk}&amp;mode=static" in _get(grid, _modes(grid), Role.OPERATOR)


def test_a_draft_without_figures_is_not_shown_as_if_it_were_zero() -> None:
    first = _measured(Mode.CLOSED)
    draft = factories.make_grid(first.runtime, first.workload, first.drawn_by, settings=(1,), load=StaticTerms())
    assert f"/grids/{draft.pk}/" not in _get(first, _modes(first))


def test_the_page_asks_the_database_as_often_for_five_grids_as_for_two() -> None:
    first = _measured(Mode.CLOSED)
    viewer = factories.make_user(first.team, Role.VIEWER)
    client = Client()
    client.force_login(viewer)
    counts = []
    for mode in (Mode.OPEN, Mode.STATIC, Mode.MICRO, Mode.SEARCH):
        _measured(mode, first)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(_modes(first)).status_code == 200
        counts.append(len(queries))
    assert counts == [counts[0]] * 4


def test_the_file_has_a_row_a_cell_and_a_column_that_a_mode_lacks_is_empty() -> None:
    first = _measured(Mode.CLOSED)
    for mode in (Mode.OPEN, Mode.MICRO, Mode.STATIC):
        _measured(mode, first, repeats=2)
    address = reverse("workload-modes-file", args=[first.workload.slug, first.workload.version, "csv"])
    rows = {row["mode"]: row for row in csv.DictReader(io.StringIO(_get(first, address)))}
    assert sorted(rows) == ["closed", "micro", "open", "static"]
    keys = ("setting_means", "requested_per_min", "added_wait_p95_ms", "makespan_s", "simulated")
    assert [rows["static"][key] for key in keys] == ["Batch size", "", "", "24.5", "True"]
    assert [rows["open"][key] for key in keys] == ["Arrivals a minute", "120.0", "", "", "True"]
    assert [rows["micro"][key] for key in keys] == ["Items a request, at most", "", "12.0", "", "True"]
    found = json.loads(_get(first, address.replace(".csv", ".json")))
    assert len(found["rows"]) == 7


def test_several_repeats_show_from_the_least_to_the_most() -> None:
    first = _measured(Mode.STATIC)
    load = LOADS[Mode.STATIC][0]
    grid = factories.make_grid(
        first.runtime, first.workload, first.drawn_by, settings=(4,), class_names=("short",), load=load, repeats=2,
        limits=made.limits(),
    )  # fmt: skip

    def summary(cell: Cell) -> CellSummary:
        batch = replace(STATIC, makespan_s=20.0 + cell.repeat)
        return replace(stored.summary_of(cell), static_batch=batch)

    stored.measure(grid, summary)
    assert "21.00 to 22.00" in _get(grid, _modes(grid))


# --- the figures of a mode -------------------------------------------------------------------------------------------

# claim, static batch, what the column says with a window of 30 s
INSIDE = [
    ("done in time", STATIC, "yes"),
    ("exactly at its end", replace(STATIC, makespan_s=30.0), "yes"),
    ("over it", replace(STATIC, makespan_s=31.5), "no, 1.5 s over"),
    ("failed items", replace(STATIC, done=198, failed=2), "no, 2 items not done"),
    ("not all begun", replace(STATIC, done=150, open=50), "no, 50 items not done"),
    ("no time known", replace(STATIC, makespan_s=None), "not recorded"),
]


@pytest.mark.parametrize(("batch", "said"), [row[1:] for row in INSIDE], ids=[row[0] for row in INSIDE])
def test_a_static_batch_is_judged_by_completion_inside_its_window(batch: StaticBatchSummary, said: str) -> None:
    grid = _measured(Mode.STATIC, static_batch=batch)
    table = mode_tables.table(grid, result_of(grid).evidence.cells)
    place = [column.key for column in table.columns].index("inside_window")
    seen = mode_tables.seen(result_of(grid).evidence.cells, result_of(grid).facts.limits, 30.0, grid.mode)
    assert mode_tables.lines(seen, table.columns)[0].values[place] == said


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode != Mode.CLOSED])
def test_what_nobody_recorded_is_words_and_never_a_zero(mode: Mode) -> None:
    grid = _measured(mode, open_loop=None, micro_batch=None, static_batch=None)
    table = mode_tables.table(grid, result_of(grid).evidence.cells)
    by_key = dict(zip([column.key for column in table.columns], table.lines[0].values, strict=True))
    own = [column.key for column in mode_tables.OWN if column.key in by_key]
    assert [by_key[key] for key in own] == ["not recorded"] * len(own)


def test_a_percentile_of_too_few_says_so_and_one_among_failures_too() -> None:
    few = replace(OPEN, late_s=tail(np.full(3, 0.001)), sent_per_s=None)
    lost = replace(OPEN, late_s=tail(np.full(200, np.inf)))
    for found, said in ((few, "too few"), (lost, "failed")):
        grid = _measured(Mode.OPEN, open_loop=found)
        table = mode_tables.table(grid, result_of(grid).evidence.cells)
        values = dict(zip([column.key for column in table.columns], table.lines[0].values, strict=True))
        assert values["late_p99_ms"] == said


def test_a_window_that_the_client_limited_is_marked_beside_its_figures() -> None:
    limited = ClientHealth(loop_lag_p99_ms=9.0, cpu_share=0.1, send_late_p99_ms=None, client_limited=True, why="lag")
    true_grid, grid = _measured(Mode.STATIC), _measured(Mode.STATIC, client=limited, repeats=2)
    for address in (grid.get_absolute_url(), _modes(grid)):
        assert "client-limited 2 of 2<br>no evidence" in _get(grid, address)
    assert "client-limited" not in _get(true_grid, _modes(true_grid))


def test_a_limit_that_too_few_were_timed_for_is_not_said_to_be_no_limit() -> None:
    for n, said in ((2, "too few"), (0, "no limit")):
        grid = _measured(Mode.OPEN)
        one = mode_tables.seen(result_of(grid).evidence.cells, made.limits(), 30.0, grid.mode)[0]
        assert one.part is not None
        few = tail(np.full(n, 0.5))
        part = replace(one.part, e2e_s=few, ttft_s=few, tpot_s=few)
        line = mode_tables.lines([dataclasses.replace(one, part=part)], mode_tables.COLUMNS[Mode.OPEN])[0]
        assert line.values[[c.key for c in mode_tables.COLUMNS[Mode.OPEN]].index("p95_over_objective")] == said


# --- the result page -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode != Mode.CLOSED])
def test_a_grid_of_another_mode_is_shown_and_not_judged(mode: Mode) -> None:
    grid = _measured(mode)
    result = result_of(grid)
    assert (result.verdict.kind, result.verdict.recommended, result.verdict.rows) == (Kind.NOT_JUDGED, None, ())
    html = _get(grid, grid.get_absolute_url(), Role.OPERATOR)
    assert f"<h1>{WORDS[mode].name}: measured, not judged</h1>" in html
    assert "A recommendation is drawn from closed-loop grids only" in html
    assert reverse("grid-propose", args=[grid.pk]) not in html
    assert f'<th scope="col" class="hr-num">{WORDS[mode].short}</th>' in html
    assert _modes(grid) in html
    assert "fig-trade" not in html
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.OPERATOR))
    posted = client.post(reverse("grid-propose", args=[grid.pk]), {"setting": "4", "reason": "It held."})
    assert posted.status_code != 302
    assert not grid.choices.exists()


def test_a_closed_grid_is_judged_as_before_and_shows_the_client_too() -> None:
    html = _get(grid := _measured(Mode.CLOSED), grid.get_absolute_url())
    assert "A recommendation is drawn from closed-loop grids only" not in html
    assert 'id="gates"' in html
    assert 'id="client"' in html
    assert "closed loop</dd>" in html
    assert _modes(grid) in html
    assert _modes(grid) in _get(grid, grid.workload.get_absolute_url())


ANSWERS: list[tuple[Answer, Callable[[str], bool]]] = [
    (
        Answer(
            setting=5, attained=Observation(setting=5, hits=400, n=400), refused=Observation(setting=6, hits=300, n=400),
            held=5, failed=6, attainment=0.95, measurements=8,
        ),
        lambda html: "Confirmed at 5: 400 of 400 good." in html and "Refused at 6: 300 of 400 good." in html,
    ),
    (
        Answer(setting=None, reason="the budget of 5 measurements ended", held=4, failed=6, attainment=0.95, measurements=5),
        lambda html: "<h1>Indeterminate: the budget of 5 measurements ended" in html,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "shown"), ANSWERS, ids=["found", "indeterminate"])
def test_the_answer_of_a_search_is_the_heading_with_its_proof(answer: Answer, shown: Callable[[str], bool]) -> None:
    grid = _measured(Mode.SEARCH)
    Grid.objects.filter(pk=grid.pk).update(answer=msgspec.to_builtins(answer))
    grid.refresh_from_db()
    html = _get(grid, grid.get_absolute_url())
    assert shown(html)
    assert "at least 95.0 % of all scheduled requests are good" in html.replace("\u00a0", " ").replace("&nbsp;", " ")


def _calibrated(**changes: Any) -> dict[str, Any]:
    found = Calibration(n=90, ttft_error_p50_ms=0.05, ttft_error_p99_ms=0.31, gap_error_p99_ms=0.12, ok=True, why="")
    kept = Kept(
        agrees=True, why="", at=datetime(2026, 11, 14, 10, tzinfo=UTC), engine_version="0.2.0", limits=Limits(), tries=(found,),
        need=Need(host="h", boot="b", client_cpus=(2, 3), engine_sha256="e", processes=1, offered_concurrency=8),
    )  # fmt: skip
    return msgspec.to_builtins(replace(kept, **changes))  # type: ignore[no-any-return]


def test_the_calibration_stands_on_the_page_with_its_limits_and_where_it_comes_from() -> None:
    grid = _measured(Mode.CLOSED)
    assert "No self-calibration is recorded" in _get(grid, grid.get_absolute_url())
    grid = factories.make_grid(settings=(1,))
    Grid.objects.filter(pk=grid.pk).update(calibration=_calibrated(reused_from=77))
    html = " ".join(_get(grid, grid.get_absolute_url()).split())
    assert "at 8 in flight: TTFT error p99 0.31 ms (allowed 2.0), gap error p99 0.12 ms (allowed 1.0), n = 90" in html
    assert "p99 of TTFT is the worst of them" in html
    assert "Pinned to cores 2, 3." in html
    assert "Taken over from grid 77" in html


def test_a_failed_calibration_says_why_nothing_started() -> None:
    grid = factories.make_grid(settings=(1,))
    why = "gap error p99 3.20 ms, allowed 1"
    Grid.objects.filter(pk=grid.pk).update(calibration=_calibrated(agrees=False, why=why))
    html = _get(grid, grid.get_absolute_url())
    assert "Self-calibration failed." in html
    assert "Gap error p99 3.20 ms, allowed 1." in html


def test_the_clients_health_stands_there_for_each_window_with_what_was_not_recorded_in_words() -> None:
    limited = ClientHealth(
        loop_lag_p99_ms=7.25, cpu_share=0.9, send_late_p99_ms=None, client_limited=True, why="loop lag p99 7.25 ms",
        dispatch_p99_ms=0.04, connect_p99_ms=0.5, connection_wait_share=0.015, stalls=3, processes=2,
    )  # fmt: skip
    grid = _measured(Mode.CLOSED, client=limited)
    lines = mode_tables.health_lines(result_of(grid).evidence.cells)
    assert lines[0].values == (
        "limited",
        "7.25",
        "90",
        "not recorded",
        "0.04",
        "0.50",
        "1.5",
        "3",
        "2",
        "loop lag p99 7.25 ms",
    )
    assert "loop lag p99 7.25 ms" in _get(grid, grid.get_absolute_url())


def test_the_cells_download_names_the_setting_by_its_mode() -> None:
    grid = _measured(Mode.STATIC)
    rows = json.loads(_get(grid, reverse("grid-cells", args=[grid.pk, "json"])))["rows"]
    got = {key: rows[0][key] for key in ("mode", "setting", "offered_concurrency", "makespan_s", "client_cpu_share")}
    assert got == {
        "mode": "static",
        "setting": 4,
        "offered_concurrency": 1,
        "makespan_s": 24.5,
        "client_cpu_share": 0.1,
    }
