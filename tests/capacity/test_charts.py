"""Figures: what is drawn, what is not, and what stands on them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.models import Grid
from capacity import charts
from capacity.queries import result_of
from tests import factories
from tests.capacity import stored
from tests.capacity import synthetic as made

pytestmark = pytest.mark.django_db


def grid_with(**fields: Any) -> Grid:
    return factories.make_grid(class_names=["short"], limits=made.limits(), **fields)


def trade(grid: Grid) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(charts.trade_off(result_of(grid)))
    return found


def bars_of(figure: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """Setting -> peak memory in GiB and hatch, over the traces of both colours."""
    found = {}
    for trace in figure["data"]:
        if trace["type"] == "bar":
            shapes = trace["marker"]["pattern"]["shape"]
            found |= {name: (size, shape) for name, size, shape in zip(trace["y"], trace["x"], shapes, strict=True)}
    return found


def named(figure: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(trace for trace in figure["data"] if trace.get("name") == name)
    return found


def test_successful_and_all_requests_stand_against_the_worst_ratio_with_whiskers() -> None:
    figure = trade(stored.measure(grid_with()))
    good, every = named(figure, "Successful requests"), named(figure, "All requests")
    assert good["x"] == pytest.approx([0.25, 0.33, 0.6, 1.4])
    assert good["y"][:3] == pytest.approx([192.0, 360.0, 600.0])
    assert good["y"][3] < good["y"][2] < every["y"][3]
    assert all(up is not None and up >= 0 for up in good["error_y"]["array"])
    assert all(down is not None and down >= 0 for down in good["error_x"]["arrayminus"])


def test_hardware_room_power_and_date_stand_on_the_figure_and_simulated_is_said() -> None:
    grid = stored.measure(grid_with())
    notes = [note["text"] for note in trade(grid)["layout"]["annotations"]]
    (text,) = [note for note in notes if "Room 1" in note]
    assert text.split("<br>") == [
        "Simulated, not measured on hardware",
        "Host without GPU, 2 cores",
        "Headroom simulator 0.1.0 · 14 Nov 2026, 10:02 UTC",
        "Room 1, ground floor, 21 °C · Mains",
    ]
    assert "objective" in notes
    (figure,) = charts.latency_by_class(result_of(grid))
    assert "Room 1" in json.loads(figure.figure)["layout"]["meta"]["conditions"]


def test_a_setting_that_was_not_measured_has_no_point_and_no_bar_and_is_named() -> None:
    rss = [made.gauge("runtime_rss_bytes", made.GIB)]
    grid = stored.measure(grid_with(), lambda cell: stored.summary_of(cell, gauges=rss), settings=[1, 2])
    figure = trade(grid)
    assert [data[0] for data in named(figure, "Successful requests")["customdata"]] == [1, 2]
    words = [note["text"] for note in figure["layout"]["annotations"]]
    assert words.count("not measured") == 2
    assert "No point for 4, 8 in flight" in charts.trade_off_caption(result_of(grid))


def test_a_percentile_among_failures_is_not_drawn_anywhere() -> None:
    grid = stored.measure(grid_with(), lambda cell: stored.summary_of(cell, failed=40 if cell.setting == 8 else 0))
    result = result_of(grid)
    assert [row.setting for row in charts.drawable(result.verdict)] == [1, 2, 4]
    (figure,) = charts.latency_by_class(result)
    p95 = named(json.loads(figure.figure), "p95")
    assert p95["y"][:3] == pytest.approx([0.25, 0.33, 0.6])
    assert p95["y"][3] is None
    assert "among failed requests" in figure.caption


def test_indicative_points_are_hollow_and_their_bars_hatched() -> None:
    rss = [made.gauge("runtime_rss_bytes", made.GIB)]
    grid = stored.measure(
        grid_with(settings=[1, 2]),
        lambda cell: stored.summary_of(cell, scale=0.3 if cell.setting == 1 else 1.0, gauges=rss),
    )
    figure = trade(grid)
    assert named(figure, "Successful requests")["marker"]["color"] == ["var(--surface)", "var(--k-median)"]
    assert {name: shape for name, (_, shape) in bars_of(figure).items()} == {"1": "/", "2": ""}


@pytest.mark.parametrize(
    ("gauges", "gpu", "title"),
    [
        (["vram_used_bytes", "vram_total_bytes"], "A card", "Peak VRAM (GiB)"),
        (["runtime_rss_bytes"], "", "Peak host RAM of the runtime (GiB)"),
    ],
)
def test_memory_says_whose_it_is(gauges: list[str], gpu: str, title: str) -> None:
    runtime = factories.make_runtime(factories.make_hardware(gpu=gpu, gpu_count=1 if gpu else 0))
    read = [made.gauge(name, made.GIB * (4 if "total" in name else 2)) for name in gauges]
    grid = stored.measure(grid_with(runtime=runtime), lambda cell: stored.summary_of(cell, gauges=read))
    figure = trade(grid)
    assert figure["layout"]["xaxis2"]["title"]["text"] == title
    assert {name: size for name, (size, _) in bars_of(figure).items()} == dict.fromkeys("1248", 2.0)
    limits = [shape for shape in figure["layout"]["shapes"] if shape["xref"] == "x2"]
    assert [shape["x0"] for shape in limits] == ([pytest.approx(4 * 0.92)] if "vram_used_bytes" in gauges else [])


def test_memory_that_nothing_reported_is_left_out_in_words() -> None:
    grid = stored.measure(grid_with(), lambda cell: stored.summary_of(cell, gauges=[]))
    figure = trade(grid)
    assert "xaxis2" not in figure["layout"]
    assert bars_of(figure) == {}
    assert "Peak memory is not drawn: nothing reported it." in charts.trade_off_caption(result_of(grid))


def test_every_class_has_its_own_figure_with_its_objective_and_n() -> None:
    grid = stored.measure(factories.make_grid(limits=made.limits()))
    figures = charts.latency_by_class(result_of(grid))
    assert [figure.label for figure in figures] == ["short", "median", "long"]
    assert [[setting for setting, _ in figure.points] for figure in figures] == [[1, 2, 4, 8]] * 3
    assert "objective 8 s" in [note["text"] for note in json.loads(figures[2].figure)["layout"]["annotations"]]
    assert figures[0].caption == "n = 96 to 310 a setting."
    assert figures[0].tokens == "180 in, 60 out tokens"


def test_axes_start_at_zero_and_no_colour_is_written_out() -> None:
    rss = [made.gauge("runtime_rss_bytes", made.GIB)]
    figure = trade(stored.measure(grid_with(), lambda cell: stored.summary_of(cell, gauges=rss)))
    layout = figure["layout"]
    assert [layout[axis]["range"][0] for axis in ("xaxis", "yaxis", "xaxis2")] == [0, 0, 0]
    assert "#" not in json.dumps(figure)
