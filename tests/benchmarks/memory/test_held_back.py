"""A cell whose memory is foreseen not to suffice never runs: it says why, and so do those that need more."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from msgspec.structs import replace

from benchmarks import foreseen, holding, recording, worker
from benchmarks.claims import Claim
from benchmarks.engine.summary_types import CellSummary
from benchmarks.foreseen_words import beside
from benchmarks.models import Attempt, Cell, Event, Grid, Runtime
from benchmarks.queries import evidence
from capacity.told import memory_of
from tests import factories
from tests.benchmarks.hosts.counting import counting
from tests.benchmarks.memory.test_foreseen import CARD, kept
from tests.benchmarks.runs import made
from tests.capacity import synthetic

pytestmark = pytest.mark.django_db


def too_small(**fields: Any) -> Runtime:
    """24 GiB of VRAM for 16 of weights: 22.08 may be used, so five sequences of a GiB fit, and eight do not."""
    host = factories.make_hardware(**{**CARD, "vram_gib": 24.0})
    plain = {"kind": "tgi", "geometry": kept(), "max_active_sequences": None}
    return factories.make_runtime(host, **plain | fields)


def grid_of(runtime: Runtime, **fields: Any) -> Grid:
    workload = factories.make_workload(runtime.team, classes={"short": (60, 40), "long": (8000, 192)})
    limits = factories.make_limits(classes=("short", "long"))
    plain: dict[str, Any] = {"settings": (1, 4, 8, 16), "class_names": ["short", "long"], "limits": limits}
    return made.running_grid(runtime=runtime, workload=workload, **plain | fields)


def measure_until(grid: Grid, setting: int, name: str) -> Claim:
    """Records every cell before this one, and claims it."""
    while True:
        taken = made.claim(grid)
        cell = Cell.objects.get(pk=taken.cell_id)
        if (cell.setting, cell.class_name) == (setting, name):
            return taken
        summary = made.summary(setting=cell.setting, name=cell.class_name)
        assert recording.record(claim=taken, result=made.result(summary))


def by_status(grid: Grid) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for cell in grid.cells.order_by("position"):
        found.setdefault(cell.status, []).append(f"{cell.setting} {cell.class_name}")
    return found


def test_a_cell_is_refused_with_its_figures_before_a_byte_is_sent() -> None:
    with counting() as target:
        grid = grid_of(too_small(endpoint=target.address))
        taken = measure_until(grid, 8, "long")
        assert worker.run_cell(taken) is True
        assert target.connections == 0
    cell = Cell.objects.get(pk=taken.cell_id)
    assert cell.status == Cell.Status.NOT_RUN
    assert cell.reason == (
        "Not safe to go on: predicted memory at 8 offered is above 92\u00a0%: weights 16.00 GiB, KV of 8 sequences of "
        "8,192 tokens 8.00 GiB, 1.00 GiB assumed for the rest: 25.00 GiB, 104\u00a0% of 24.00 GiB VRAM as declared."
    )
    assert by_status(grid) == {
        "measured": ["1 short", "1 long", "4 short", "4 long", "8 short"],
        "not_run": ["8 long", "16 long"],
        "queued": ["16 short"],
    }
    assert Attempt.objects.get(cell=cell).outcome == Cell.Status.STOPPED
    assert Event.objects.filter(verb="held back cell", subject=f"grid {grid.pk}").count() == 1


def test_the_grid_ends_measured_with_the_reason_when_nothing_is_left() -> None:
    grid = grid_of(too_small(), class_names=["long"])
    assert worker.run_cell(measure_until(grid, 8, "long")) is True
    grid.refresh_from_db()
    assert grid.status == Grid.Status.MEASURED
    assert grid.stop_reason.startswith("Not safe to go on: predicted memory at 8 offered")


@pytest.mark.parametrize(
    ("fields", "says"),
    [({}, True), ({"geometry": None}, False), ({"geometry": kept(None)}, False), ({"max_active_sequences": 5}, False)],
)
def test_only_what_is_known_holds_back(fields: dict[str, Any], says: bool) -> None:
    grid = grid_of(too_small(**fields))
    cell = grid.cells.get(setting=16, class_name="long")
    assert (foreseen.refusal(cell) is not None) == says


def test_the_mix_is_as_long_as_its_longest_class_and_a_probe_is_not_asked() -> None:
    grid = grid_of(too_small(), class_names=["short", "mixed"], probes=[])
    assert foreseen.refusal(grid.cells.get(setting=8, class_name="short")) is None
    mixed = grid.cells.get(setting=8, class_name="mixed")
    assert foreseen.refusal(mixed) is not None
    mixed.probe = "idle"
    assert foreseen.refusal(mixed) is None


def test_a_search_ends_and_says_that_it_could_not_tell() -> None:
    from benchmarks.records.modes import SearchTerms

    grid = grid_of(too_small(), class_names=["long"], settings=(8, 64), load=SearchTerms())
    assert worker.run_cell(made.claim(grid)) is True
    grid.refresh_from_db()
    assert grid.answer["setting"] is None
    assert "predicted memory at" in grid.answer["reason"]
    assert set(by_status(grid)) == {"not_run"}


def test_an_attempt_that_was_taken_over_holds_nothing_back() -> None:
    grid = grid_of(too_small())
    taken = made.claim(grid)
    Cell.objects.filter(pk=taken.cell_id).update(attempt=7)
    assert holding.hold_back(claim=taken, reason="too much") is False
    assert not grid.cells.filter(status=Cell.Status.NOT_RUN).exists()


# --- beside what was measured ----------------------------------------------------------------------------------------


def measured(grid: Grid, gauges: dict[int, list[tuple[str, float]]], why: str = "") -> Grid:
    from tests.capacity import stored

    def summary_of(cell: Cell) -> CellSummary:
        found = stored.summary_of(
            cell, gauges=[synthetic.gauge(name, peak) for name, peak in gauges.get(cell.setting, [])]
        )
        return replace(found, not_reported={"vram_used_bytes": why} if why else {})

    return stored.measure(grid, summary_of)


def drawn(runtime: Runtime) -> Grid:
    return factories.make_grid(runtime, limits=synthetic.limits())


def test_predicted_stands_beside_measured_with_its_difference() -> None:
    gib = float(1 << 30)
    gauges = {
        1: [("vram_used_bytes", 17.5 * gib)],
        2: [("vram_used_bytes", 21.0 * gib)],
        4: [("vram_used_bytes", 12.0 * gib)],
    }
    table = beside(evidence(measured(drawn(too_small()), gauges, "driver missing")))
    assert table is not None
    assert [(row.setting, row.measured, row.difference, row.watch) for row in table.rows] == [
        ("1 in flight", "17.50", "+3\u00a0%", False),
        ("2 in flight", "21.00", "+23\u00a0%", True),
        ("4 in flight", "12.00", "-30\u00a0%", True),
        ("8 in flight", "not reported: driver missing", "", False),
    ]


def test_without_a_gpu_the_runtimes_own_memory_is_measured() -> None:
    host = factories.make_hardware(ram_gib=64.0)
    runtime = factories.make_runtime(host, kind="llamacpp", geometry=kept(1.0), flags="llama-server -np 2 -c 8192")
    table = beside(evidence(measured(drawn(runtime), {1: [("runtime_rss_bytes", 2.3e9)]})))
    assert table is not None
    assert (table.words, table.rows[0].predicted, table.rows[0].measured) == (
        "host memory, without a GPU",
        "2.06",
        "2.14",
    )


def test_vram_that_was_read_holds_the_model_on_a_host_for_which_nobody_declared_a_gpu() -> None:
    host = factories.make_hardware(ram_gib=64.0)
    runtime = factories.make_runtime(host, kind="llamacpp", geometry=kept(1.0), flags="llama-server -np 2 -c 8192")
    gauges = {1: [("runtime_rss_bytes", 3e7), ("vram_used_bytes", 2.3e9)]}
    grid = measured(drawn(runtime), gauges)
    table = beside(evidence(grid))
    assert table is not None
    assert (table.rows[0].measured, table.rows[0].watch) == ("2.14", False)
    assert memory_of(evidence(grid)).measured_bytes == {1: 2.3e9}


def test_the_pool_that_the_runtime_reports_is_turned_into_sequences() -> None:
    gauges = {8: [("runtime_kv_capacity_tokens", 2000.0)]}
    table = beside(evidence(measured(drawn(too_small()), gauges)))
    assert table is not None
    assert table.pool == (
        "The runtime reports a KV pool of 2,000 tokens: it holds 11 sequences if all are long (p99), "
        "13 by the workload's lengths with 0.1\u00a0% overflow."
    )


def test_nothing_is_shown_before_a_measurement_and_the_reason_where_nothing_is_known() -> None:
    runtime = too_small(geometry=None)
    assert beside(evidence(drawn(runtime))) is None
    table = beside(evidence(measured(drawn(runtime), {})))
    assert table is not None
    assert table.rows == ()
    assert "geometry is not recorded" in table.reason
    assert beside(evidence(measured(drawn(factories.make_runtime()), {}))) is None


def page(grid: Grid) -> str:
    client = Client()
    client.force_login(factories.make_user(grid.team, "viewer"))
    return " ".join(client.get(grid.get_absolute_url()).content.decode().split())


def test_the_result_page_shows_it_or_why_it_cannot() -> None:
    gauges = {setting: [("vram_used_bytes", 21.0 * (1 << 30))] for setting in (1, 2, 4, 8)}
    shown = page(measured(drawn(too_small()), gauges))
    assert "Memory, predicted beside measured" in shown
    assert "In VRAM as declared: weights, KV of the sequences in flight" in shown
    assert '<td class="hr-num">+23 %</td>' in shown
    shown = page(measured(drawn(too_small(geometry=None)), gauges))
    assert "Not predicted. The model&#x27;s geometry is not recorded" in shown


def test_the_plan_of_a_new_grid_says_it_before_it_is_drawn() -> None:
    from benchmarks.records.modes import ClosedTerms
    from capacity.grid_plans import Wish, plan_of

    runtime = too_small()
    workload = factories.make_workload(runtime.team, classes={"short": (60, 40), "long": (8000, 192)})
    person = factories.make_user(runtime.team, "operator")
    wish = Wish(
        runtime=runtime, workload=workload, objective=None, settings=[1, 8], class_names=["short", "long"], repeats=3,
        window_s=30.0, warmup_s=5.0, conditions=True, load=ClosedTerms(),
    )  # fmt: skip
    ticks = plan_of(wish, team_id=runtime.team_id, person_id=person.pk).ticks
    found = [tick for tick in ticks if tick.text.startswith("Memory foreseen at 8 in flight")]
    assert [tick.kind for tick in found] == ["warn"]
    assert "104\u00a0% of 24.00 GiB VRAM as declared. That is above 92\u00a0%" in found[0].text
