"""The charts of a result page: which there are, what stands on them, and what can be taken away of each."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from msgspec.structs import replace

from benchmarks import readings
from benchmarks.engine.columns import from_frames
from benchmarks.engine.summary_types import CellSummary
from benchmarks.engine.terms import Reading, Window
from benchmarks.models import Cell, Grid, Role
from benchmarks.records.parquet import write
from benchmarks.stats.pools import pool
from capacity import chart_set, chart_svg, curves, host_charts
from capacity.chart_types import Chart
from capacity.queries import result_of
from tests import factories
from tests.benchmarks.engine.plans import a_header, a_plan, a_record
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db
S = 1_000_000_000
CONDITIONS = [
    "Simulated, not measured on hardware",
    "Host without GPU, 2 cores",
    "Headroom simulator 0.1.0 · 14 Nov 2026, 10:02 UTC",
    "Room 1, ground floor, 21 °C · Mains",
]


def grid_with(**fields: Any) -> Grid:
    return factories.make_grid(**({"class_names": ["short"], "limits": made.limits()} | fields))


def pooled(cell: Cell, *, n: int = 200, failed: int = 0) -> CellSummary:
    """As an engine writes it now: every class keeps its sample."""
    found = stored.summary_of(cell)
    part = found.classes[0]
    times = np.concatenate((np.linspace(0.1, 0.5, n - failed) * cell.setting, np.full(failed, np.inf)))
    return replace(found, classes=(replace(part, pools={"e2e_s": pool(times, 1.0)}),))


def telemetry(cell: Cell, *, every_s: float = 1.0) -> bytes:
    frames: list[object] = [a_header(a_plan()), a_record(1), Window(start_ns=0, end_ns=30 * S)]
    for place in range(int(30 / every_s)):
        at = int(place * every_s * S)
        frames.append(Reading(t_ns=at, name="gpu_power_w", value=200.0 + cell.setting, source="nvml", device="GPU-1"))
        frames.append(Reading(t_ns=at, name="runtime_waiting", value=0.0, source="metrics"))
    return write(from_frames(frames))  # type: ignore[arg-type]


def full_grid(**fields: Any) -> Grid:
    return stored.measure(grid_with(**fields), pooled, content=telemetry)


def charts_of(grid: Grid) -> dict[str, Chart]:
    return {chart.key: chart for chart in chart_set.of(result_of(grid))}


def viewer(grid: Grid) -> Client:
    client = Client()
    client.force_login(factories.make_user(grid.team, Role.VIEWER))
    return client


def test_a_measured_grid_has_every_chart_and_an_unmeasured_one_none() -> None:
    assert list(charts_of(full_grid())) == ["trade-off", "latency-1", "distribution-1", "telemetry"]
    assert charts_of(grid_with()) == {}


def test_without_stored_readings_and_samples_those_charts_are_not_drawn_empty() -> None:
    assert list(charts_of(stored.measure(grid_with()))) == ["trade-off", "latency-1"]


def test_a_distribution_counts_failures_and_ends_below_a_hundred_per_cent() -> None:
    grid = stored.measure(grid_with(), lambda cell: pooled(cell, failed=20 if cell.setting == 8 else 0))
    (chart,) = curves.distributions(result_of(grid))
    lines = json.loads(chart.figure)["data"]
    assert [line["y"][-1] for line in lines] == [100.0, 100.0, 100.0, 90.0]
    assert "Never finished: 20 at 8" in chart.caption
    row = dict(zip([c.key for c in chart.table.columns], chart.table.lines[3], strict=True))
    assert (row["setting"], row["failed"], row["p50_s"], row["p99_s"]) == ("8", "20", "2.570", "among failures")


def test_a_curve_stays_true_to_its_sample_when_it_is_thinned_out() -> None:
    grid = stored.measure(grid_with(), lambda cell: pooled(cell, n=5000))
    (chart,) = curves.distributions(result_of(grid))
    line = json.loads(chart.figure)["data"][0]
    assert len(line["x"]) <= curves.MOST_POINTS + 1
    sample = np.linspace(0.1, 0.5, 5000)
    for time_s, percent in list(zip(line["x"], line["y"], strict=True))[1:]:
        assert percent == pytest.approx((sample <= time_s).mean() * 100, abs=0.3)


def test_telemetry_has_a_row_for_each_reading_with_its_unit_and_none_for_what_nobody_reported() -> None:
    chart = host_charts.telemetry(result_of(full_grid()))
    assert chart is not None
    figure = json.loads(chart.figure)
    assert [trace["name"] for trace in figure["data"]] == ["GPU power", "Waiting"]
    texts = [note["text"] for note in figure["layout"]["annotations"]]
    assert "GPU power (W)" in texts
    assert not [text for text in texts if "temperature" in text or "VRAM" in text]
    assert (chart.rows, chart.box) == (2, "hr-rows-2")
    assert [text for text in texts if text in ("1 in flight", "2", "4", "8")] == ["1 in flight", "2", "4", "8"]


def test_a_line_of_telemetry_breaks_between_windows_and_where_nothing_was_read() -> None:
    seen = [(1, 0, 1.0), (1, 1, 2.0), (1, 2, None), (1, 3, 3.0), (1, 12, 4.0), (2, 13, 5.0)]
    spans = [host_charts.Span(cell, 1, "short", at / 60, 1.0, {"gpu_power_w": value}) for cell, at, value in seen]
    _, y = host_charts.Track(spans=spans).line("gpu_power_w", 1.0)
    assert y == [1.0, 2.0, 3.0, None, 4.0, None, 5.0]


def test_a_single_reading_is_a_point_on_the_page_and_in_the_drawn_chart() -> None:
    for every_s, points in ((30.0, True), (1.0, False)):
        grid = stored.measure(
            grid_with(), pooled, content=lambda cell, every_s=every_s: telemetry(cell, every_s=every_s)
        )
        chart = charts_of(grid)["telemetry"]
        power = json.loads(chart.figure)["data"][0]
        assert power["mode"] == ("lines+markers" if points else "lines")
        drawn = sum(value is not None for value in power["y"])
        assert chart_svg.draw(chart, []).count("<circle") == (2 * drawn if points else 0)  # power and waiting
        assert not points or sorted(set(power["marker"]["size"])) in ([4], [0, 4])


def test_readings_are_asked_for_once_and_never_read_from_the_evidence() -> None:
    grid = full_grid()
    cells = result_of(grid).evidence.measured
    with CaptureQueriesContext(connection) as asked:
        found = readings.of_cells([cell.cell_id for cell in cells])
    assert (len(asked), len(found)) == (1, 4)
    assert "evidencechunk" not in asked[0]["sql"]


@pytest.mark.parametrize("key", ["trade-off", "latency-1", "distribution-1", "telemetry"])
def test_every_chart_downloads_as_svg_and_csv_with_hardware_room_power_and_date(key: str) -> None:
    grid = full_grid()
    client = viewer(grid)
    svg = client.get(reverse("grid-chart", args=[grid.pk, key, "svg"]))
    assert (svg.status_code, svg["Content-Type"]) == (200, "image/svg+xml")
    assert svg["Content-Disposition"] == f'attachment; filename="grid-{grid.pk}-{key}-simulated.svg"'
    texts = ["".join(one.itertext()) for one in ElementTree.fromstring(svg.content).iter() if one.tag.endswith("}text")]
    assert [text for text in texts if text in CONDITIONS] == CONDITIONS
    answer = client.get(reverse("grid-chart", args=[grid.pk, key, "csv"]))
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert {(row["hardware"], row["room"], row["power"], row["date"]) for row in rows} == {
        ("Host without GPU, 2 cores", "Room 1, ground floor, 21 °C", "Mains", "14 Nov 2026, 10:02 UTC")
    }  # fmt: skip


def test_a_drawn_chart_shows_the_same_points_and_words_as_the_page() -> None:
    grid = full_grid()
    chart = charts_of(grid)["trade-off"]
    svg = chart_svg.draw(chart, ["where"])
    figure = json.loads(chart.figure)
    good = next(trace for trace in figure["data"] if trace.get("name") == "Successful requests")
    every = next(trace for trace in figure["data"] if trace.get("name") == "All requests")
    assert svg.count("<circle") == len(good["x"]) + len(every["x"])
    for words in ("4 in flight", "objective", "Requests a minute", "p95 ÷ objective, worst class (ratio)"):
        assert f">{words}<" in svg
    assert "var(" not in svg
    assert "<script" not in svg


def test_words_of_people_cannot_break_out_of_a_drawn_chart() -> None:
    chart = charts_of(full_grid())["trade-off"]
    svg = chart_svg.draw(chart, ['<script>alert("x")</script> & co'])
    assert "<script" not in svg
    assert "&lt;script&gt;" in svg
    ElementTree.fromstring(svg)


def test_an_unknown_chart_is_not_found_nor_is_another_teams() -> None:
    grid = full_grid()
    assert viewer(grid).get(reverse("grid-chart", args=[grid.pk, "weather", "svg"])).status_code == 404
    stranger = Client()
    stranger.force_login(factories.make_user(factories.make_team("Others"), Role.OPERATOR))
    assert stranger.get(reverse("grid-chart", args=[grid.pk, "trade-off", "svg"])).status_code == 404


def test_the_table_beside_a_chart_has_its_numbers_and_says_what_is_not_known() -> None:
    grid = stored.measure(grid_with(), settings=[1, 2])
    html = viewer(grid).get(grid.get_absolute_url()).content.decode()
    assert html.count("As a table") == 2
    lines = charts_of(grid)["trade-off"].table.lines
    assert lines[0][:3] == ["1", "96", "192.0"]
    assert lines[3][2] == "not known"


def test_the_class_of_the_distribution_is_chosen_by_a_link() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()), pooled)
    client = viewer(grid)
    assert 'data-fig="fig-distribution-1"' in client.get(grid.get_absolute_url()).content.decode()
    html = client.get(f"{grid.get_absolute_url()}?class=long").content.decode()
    assert 'data-fig="fig-distribution-3"' in html
    assert f'src="{reverse("grid-chart", args=[grid.pk, "distribution-3", "svg"])}"' in html
    assert 'id="fig-distribution-3"' in html
    assert 'id="fig-distribution-1"' not in html
    other = client.get(reverse("grid-chart", args=[grid.pk, "distribution-1", "json"]))
    assert other.content.decode() == charts_of(grid)["distribution-1"].figure
    assert re.search(r'<a href="\?class=long#distribution"[^>]*aria-current="true">Long</a>', html)


def test_the_page_does_not_grow_with_the_requests() -> None:
    sizes = []
    for n in (200, 20_000):
        grid = stored.measure(grid_with(settings=[1, 2]), lambda cell, n=n: pooled(cell, n=n))
        sizes.append(sum(len(chart.figure) for chart in chart_set.of(result_of(grid))))
    assert abs(sizes[1] - sizes[0]) < 600


def test_telemetry_is_thinned_out_over_many_cells() -> None:
    few, many = (host_charts.telemetry(result_of(full_grid(settings=[1, 2], repeats=repeats))) for repeats in (1, 20))
    assert few is not None
    assert many is not None
    points = len(json.loads(many.figure)["data"][0]["x"])
    assert points <= readings.MOST_POINTS + 40
    assert len(many.figure) < 40_000


def test_a_chart_is_made_once_and_again_as_soon_as_something_it_shows_has_changed() -> None:
    grid = stored.measure(grid_with(), pooled, settings=[1, 2], content=telemetry)
    first = chart_set.of(result_of(grid))
    with CaptureQueriesContext(connection) as queries:
        assert chart_set.of(result_of(grid)) == first
    assert not [query for query in queries if "evidencechunk" in query["sql"]]
    stored.measure(grid, pooled, settings=[4, 8], content=telemetry)
    again = chart_set.of(result_of(grid))
    assert [len(json.loads(charts[0].figure)["data"][1]["x"]) for charts in (first, again)] == [2, 4]
