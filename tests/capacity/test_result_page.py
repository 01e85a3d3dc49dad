"""The result page in each of its states, for the people who may see it."""

from __future__ import annotations

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from msgspec.structs import replace

from benchmarks.engine.summary_types import CellSummary, Counter, GpuTotal, TelemetryGap
from benchmarks.models import Cell, Grid, Role
from benchmarks.stats.quantiles import tail
from capacity.models import Choice
from capacity.queries import result_of
from capacity.result_views import cell_rows, heat_rows, meters
from capacity.telemetry_rows import gauge_rows
from tests import factories
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db


def draft(**fields: object) -> Grid:
    return factories.make_grid(**({"limits": made.limits()} | fields))


def page(grid: Grid, *roles: str, user: User | None = None) -> str:
    client = Client()
    client.force_login(user or factories.make_user(grid.team, *(roles or (Role.VIEWER,))))
    answer = client.get(grid.get_absolute_url())
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_first_heading_is_the_finding_and_the_recommended_number_stands_large() -> None:
    html = page(stored.measure(draft()))
    assert html.count("<h1") == 1
    assert "<h1>4 requests in flight give the most useful work inside the limits</h1>" in html
    assert '<span class="hr-pickno">4</span>' in html
    assert "Why not 8" in html
    assert 'id="fig-trade-off"' in html
    assert 'id="fig-latency-3"' in html
    assert "This is not a number of users." in html


def test_a_simulated_result_is_labelled_and_a_real_one_is_not() -> None:
    real = factories.make_runtime(kind="llamacpp", name="llama.cpp")
    assert "hr-sim" in page(stored.measure(draft()))
    html = page(stored.measure(draft(runtime=real)))
    assert "hr-sim" not in html
    assert "llama.cpp never refuses" in html


def test_each_state_says_what_it_is_and_offers_the_next_step_to_who_may_take_it() -> None:
    grid = draft()
    authorise = reverse("grid-authorize", args=[grid.pk])
    assert "This grid is a draft" in page(grid)
    assert authorise in page(grid, Role.HOST_OWNER)
    assert authorise not in page(grid, Role.OPERATOR)
    assert "fig-trade-off" not in page(grid)
    stored.measure(grid, settings=[1, 2])
    html = page(grid)
    assert "6 of 12 cells are measured" in html
    assert reverse("grid-live", args=[grid.pk]) in html
    assert 'id="fig-trade-off"' in html
    assert reverse("grid-propose", args=[grid.pk]) not in page(grid, Role.OPERATOR)


def test_a_stopped_grid_keeps_what_it_measured_and_its_reason() -> None:
    grid = stored.measure(draft(), settings=[1, 2])
    grid.cells.filter(setting__gt=2).update(status="not_run", reason="GPU temperature 91 C at 2")
    Grid.objects.filter(pk=grid.pk).update(status="stopped", stop_reason="GPU temperature 91 C")
    html = page(grid)
    assert "Stopped: GPU temperature 91 C" in html
    assert "6 of 12 cells were measured" in html
    assert "Not_run: GPU temperature 91 C at 2" not in html
    assert "Not run: GPU temperature 91 C at 2" in html


def test_a_grid_that_stopped_before_any_cell_promises_nothing_and_leads_to_where_it_is_gone_on_with() -> None:
    grid = draft(warmup_s=0.5)
    grid.cells.update(status="not_run", reason="The client is not true enough; then go on.")
    Grid.objects.filter(pk=grid.pk).update(status="stopped", stop_reason="The client is not true enough; then go on.")
    html = page(grid)
    assert "<h1>Stopped before anything was measured</h1>" in html
    assert "Nothing is measured yet" not in html
    assert "Stopped: The client is not true enough; then go on.</b> 0 of 12 cells" in html
    assert ("The grid stopped before any cell was measured." in html, "as it comes" in html) == (True, False)
    assert "That is a result too" not in html
    assert f'{reverse("grid-live", args=[grid.pk])}">Where it stopped' in html
    assert "s after 0.5 s warm-up" in html


def test_without_successes_no_setting_is_recommended_and_that_itself_can_be_proposed() -> None:
    grid = stored.measure(draft(), lambda cell: stored.summary_of(cell, failed=30))
    html = page(grid, Role.OPERATOR)
    assert "<h1>No safe setting found</h1>" in html
    assert reverse("grid-propose", args=[grid.pk]) in html
    assert "Propose this result" in html
    assert "0.0 successful requests a minute" in html
    assert "No point can be drawn" in html
    assert "fig-trade-off" not in html


def test_a_small_sample_says_indicative_and_what_it_needs() -> None:
    html = page(stored.measure(draft(settings=[1]), lambda cell: stored.summary_of(cell, scale=0.3)))
    assert "Holds, indicative: needs" in html
    assert "Indicative: the point values hold" in html


def test_a_measured_grid_is_proposed_by_operators_only_and_an_open_choice_is_linked_instead() -> None:
    grid = stored.measure(draft())
    propose = reverse("grid-propose", args=[grid.pk])
    operator = factories.make_user(grid.team, Role.OPERATOR)
    assert propose in page(grid, user=operator)
    assert propose not in page(grid, Role.APPROVER)
    choice = Choice.objects.create(
        grid=grid, objective=factories.make_objective(grid.team), setting=4, verdict={}, digest="0" * 64, reason="Best",
        measured_by=grid.drawn_by, proposed_by=operator,
    )  # fmt: skip
    html = page(grid, user=operator)
    assert propose not in html
    assert choice.get_absolute_url() in html


def test_conditions_that_are_missing_offer_to_record_them() -> None:
    grid = stored.measure(draft())
    html = page(grid, Role.OPERATOR)
    assert reverse("grid-conditions", args=[grid.pk, "after"]) in html
    assert reverse("grid-conditions", args=[grid.pk, "before"]) not in html
    assert reverse("grid-conditions", args=[grid.pk, "after"]) not in page(grid, Role.VIEWER)


def test_another_team_sees_neither_the_page_nor_the_files() -> None:
    grid = stored.measure(draft())
    client = Client()
    client.force_login(factories.make_user(factories.make_team("Others"), Role.OPERATOR))
    assert client.get(grid.get_absolute_url()).status_code == 404
    assert client.get(reverse("grid-cells", args=[grid.pk, "csv"])).status_code == 404


@pytest.mark.parametrize(("fmt", "kind"), [("csv", "text/csv; charset=utf-8"), ("json", "application/json")])
def test_the_cells_download_under_a_name_that_says_simulated(fmt: str, kind: str) -> None:
    grid = stored.measure(draft())
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.VIEWER))
    answer = client.get(reverse("grid-cells", args=[grid.pk, fmt]))
    assert (answer.status_code, answer["Content-Type"]) == (200, kind)
    assert answer["Content-Disposition"] == f'attachment; filename="grid-{grid.pk}-cells-simulated.{fmt}"'


def test_the_page_asks_the_database_as_often_for_three_cells_as_for_one() -> None:
    team = factories.make_team()
    runtime, workload = factories.make_runtime(factories.make_hardware(team)), factories.make_workload(team)
    viewer = factories.make_user(team, Role.VIEWER)
    drawn_by = factories.make_user(team, Role.OPERATOR)
    counts = []
    for classes in (["short"], ["short", "median", "long"]):
        grid = draft(runtime=runtime, workload=workload, drawn_by=drawn_by, settings=[1], class_names=classes)
        stored.measure(grid)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            page(grid, user=viewer)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_the_heat_table_has_a_square_for_every_class_and_setting_and_none_is_invented() -> None:
    grid = stored.measure(draft(), settings=[1, 8])
    rows = heat_rows(result_of(grid).verdict)
    assert [row.label for row in rows] == ["short", "median", "long"]
    assert [[cell.words for cell in row.cells] for row in rows] == [
        ["0.25", "not measured", "not measured", "1.40"]
    ] * 3
    assert [cell.chosen for cell in rows[0].cells] == [True, False, False, False]


def test_telemetry_shows_peaks_with_units_and_groups_what_is_missing_by_its_reason() -> None:
    read = [
        made.gauge("vram_used_bytes", 2 * made.GIB),
        made.gauge("vram_total_bytes", 8 * made.GIB),
        made.gauge("runtime_kv_usage_share", 0.25),
        made.gauge("runtime_prompt_tokens_total", 12345.0),
    ]
    silent = {"gpu_power_w": "not supported", "gpu_temperature_c": "not supported"}
    grid = stored.measure(
        draft(settings=[1], class_names=["short"]),
        lambda cell: replace(stored.summary_of(cell, gauges=read), not_reported=silent),
    )
    rows = gauge_rows(result_of(grid).evidence)
    assert [(row.name, row.unit, row.values, row.missing) for row in rows] == [
        ("VRAM in use", "GiB", ("2.00",), ""),
        ("KV cache in use", "%", ("25.0",), ""),
        ("GPU board power, GPU temperature", "", (), "not supported"),
    ]


def test_sums_over_gpus_say_what_they_lack_and_counters_give_the_wait_in_the_queue() -> None:
    totals = (
        GpuTotal(name="gpu_power_w", value=250.0, known=1, of=2, how="energy counter", missing=("GPU-2",)),
        GpuTotal(name="gpu_energy_j", value=9000.0, known=2, of=2, how="energy counter"),
    )
    counters = tuple(
        Counter(name=name, source="s", device="", increase=value, over_s=5.0, resets=0)
        for name, value in (("runtime_queue_time_s_total", 3.0), ("runtime_queue_count_total", 12.0))
    )
    grid = stored.measure(
        draft(settings=[1], class_names=["short"]),
        lambda cell: replace(stored.summary_of(cell, gauges=[]), gpu_totals=totals, counters=counters),
    )
    rows = gauge_rows(result_of(grid).evidence)
    assert [(row.name, row.unit, row.values) for row in rows] == [
        ("Mean wait in the server's queue", "s", ("0.250",)),
        ("Mean power of all GPUs", "W", ("250.0 (partial, 1 of 2)",)),
        ("Energy of all GPUs", "kJ", ("9.0",)),
    ]


def test_one_gpu_has_no_sum() -> None:
    only = (GpuTotal(name="gpu_power_w", value=250.0, known=1, of=1, how="sampled power"),)
    grid = stored.measure(
        draft(settings=[1], class_names=["short"]),
        lambda cell: replace(stored.summary_of(cell, gauges=[]), gpu_totals=only),
    )
    assert gauge_rows(result_of(grid).evidence) == []


def test_a_time_without_readings_is_named_with_its_cell() -> None:
    gap = TelemetryGap(source="nvml", device="GPU-1", from_s=14.0, to_s=18.5)
    grid = stored.measure(
        draft(settings=[1], class_names=["short"]),
        lambda cell: replace(stored.summary_of(cell), telemetry_gaps=(gap,)),
    )
    html = page(grid)
    assert "<b>1 in flight, short, repeat 1</b>" in html
    assert "No reading from nvml (GPU-1) from 14.0 s to 18.5 s of the window." in html
    assert "No reading from" not in page(stored.measure(draft(settings=[1], class_names=["short"])))


def test_the_margins_of_the_recommended_setting_are_bars_with_their_limit() -> None:
    read = [made.gauge("vram_used_bytes", 2 * made.GIB), made.gauge("vram_total_bytes", 8 * made.GIB),
            made.gauge("gpu_temperature_c", 70.0)]  # fmt: skip
    grid = stored.measure(draft(class_names=["short"]), lambda cell: stored.summary_of(cell, gauges=read))
    assert [(m.name, m.text, m.of) for m in meters(result_of(grid))] == [
        ("p95 ÷ objective, short", "0.60", ""),
        ("Peak VRAM", "2.0", "of 7.4 GiB"),
        ("GPU temperature", "70", "of 85 °C"),
    ]


def test_the_page_says_that_all_sent_requests_are_accounted_for_and_who_counted_the_tokens() -> None:
    html = page(stored.measure(draft(settings=[1], class_names=["short"], repeats=3)))
    assert "sent = sum of outcomes" in html
    assert "288 sent in the windows = 288 ok. With warm-up: 300 sent = 300 recorded." in html
    assert "<td>server</td>" in html


def test_a_count_that_does_not_add_up_is_shown_open_and_nothing_is_concluded_from_it() -> None:
    def lost(cell: Cell) -> CellSummary:
        found = stored.summary_of(cell)
        return replace(found, conserved=False, recorded=99) if cell.repeat == 2 else found

    html = page(stored.measure(draft(settings=[1], class_names=["short"], repeats=3), lost))
    assert "sent ≠ sum of outcomes" in html
    assert "300 sent ≠ 299 recorded" in html
    assert "1 cell: sent requests and recorded outcomes differ." in html
    assert "<h1>No setting is validly measured yet</h1>" in html
    assert "Not valid" in html


def test_a_cut_prompt_and_short_answers_stand_on_the_page() -> None:
    def spoilt(cell: Cell) -> CellSummary:
        found = stored.summary_of(cell)
        part = replace(
            found.classes[0], truncated_prompts=int(cell.setting == 8), short_outputs=2, output_tokens_p50=41.0
        )
        return replace(found, classes=(part,))

    html = page(stored.measure(draft(class_names=["short"]), spoilt))
    assert "so this point is not valid for short" in html
    assert "8 of 886 answers of short were more than 5 % shorter than asked" in html
    assert '<td class="hr-num">60</td><td class="hr-num">41</td>' in html


@pytest.mark.parametrize(
    ("fields", "first_token", "per_token"),
    [
        ({}, "0.050", "0.0025"),
        ({"ttft_s": tail(np.array([])), "tpot_s": tail(np.array([]))}, "not streamed", "not streamed"),
        ({"tpot_s": tail(np.array([]))}, "0.050", "one token"),
        ({"tpot_s": tail(np.array([])), "output_tokens_p50": None}, "0.050", "not counted"),
        ({"tpot_s": tail(np.array([0.01] * 3))}, "0.050", "too few"),
        ({"tpot_s": tail(np.array([float("inf")] * 30))}, "0.050", "failed"),
    ],
)
def test_the_cells_show_tpot_or_why_there_is_none(fields: dict[str, object], first_token: str, per_token: str) -> None:
    def measured(cell: Cell) -> CellSummary:
        found = stored.summary_of(cell)
        return replace(found, classes=(replace(found.classes[0], **fields),))

    grid = stored.measure(draft(settings=[1], class_names=["short"], repeats=1), measured)
    row = cell_rows(result_of(grid))[0]
    assert (row.ttft_p95, row.tpot_p95) == (first_token, per_token)


def test_without_scripts_each_chart_says_where_its_numbers_are() -> None:
    html = page(stored.measure(draft()))
    assert html.count('class="hr-chart') == html.count("<noscript>") == 4
