"""The live page in every state a grid can be in, and what one poll of it costs."""

import re
from datetime import timedelta

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from benchmarks import claims, live_events, live_host, live_tables, live_views, queries, runs, triggers
from benchmarks.engine.summary_types import Gauge
from benchmarks.models import Cell, Evidence, Grid, Hardware
from benchmarks.records.modes import MicroTerms
from tests import factories
from tests.benchmarks.runs.made import claim, record, running_grid, summary

pytestmark = pytest.mark.django_db

BEAT = {
    "phase": "window", "elapsed_s": 3.0, "finished": 12, "ok": 12, "in_flight": 1, "p95_e2e_s": 0.4,
    "readings": {"gpu_temperature_c": 71, "vram_used_bytes": 8 * 2**30, "vram_total_bytes": 24 * 2**30},
}  # fmt: skip


@pytest.fixture
def team():
    return factories.make_team()


@pytest.fixture
def runtime(team):
    return factories.make_runtime(factories.make_hardware(team, worker_seen_at=timezone.now()))


@pytest.fixture
def browser(client, team):
    client.force_login(factories.make_user(team, "operator", username="who-looks"))
    return client


def _live(grid):
    return reverse("grid-live", args=[grid.pk])


def _said(browser, grid):
    return " ".join(browser.get(_live(grid)).content.decode().split())


def _poll(browser, grid, tag=""):
    return browser.get(_live(grid), headers={"HX-Request": "true", "HX-PTag": tag})


def _gauge(name, peak, low=0.0):
    return Gauge(name=name, source="x", device="0", n=5, mean=(low + peak) / 2, low=low, peak=peak)


def test_a_poll_that_finds_nothing_new_is_four_reads_and_no_body(browser, runtime):
    grid = running_grid(runtime=runtime)
    claims.beat(claim=claim(grid), progress=BEAT)
    tag = _poll(browser, grid)["HX-PTag"]
    with CaptureQueriesContext(connection) as asked:
        answer = _poll(browser, grid, tag)
    assert (answer.status_code, answer.content, len(asked)) == (304, b"", 4)  # session, user, memberships, grid


@pytest.mark.parametrize("ended", [1, 3])
def test_a_whole_poll_costs_the_same_with_one_cell_finished_and_with_three(browser, runtime, ended):
    grid = running_grid(runtime=runtime, settings=(1, 2), class_names=("short", "median", "long"))
    for _ in range(ended):
        record(claim(grid))
    claims.beat(claim=claim(grid), progress=BEAT)
    with CaptureQueriesContext(connection) as asked:
        assert _poll(browser, grid).status_code == 200
    assert len(asked) == 12


@pytest.mark.parametrize(("later_s", "seen"), [(2, False), (7, True)])
def test_a_beat_of_the_worker_is_shown_once_the_page_looks_again(browser, runtime, later_s, seen):
    grid = running_grid(runtime=runtime)
    taken = claim(grid)
    claims.beat(claim=taken, progress=BEAT)
    cell = Cell.objects.filter(pk=taken.cell_id)
    now = timezone.now()
    base = now - timedelta(seconds=now.timestamp() % live_views.LOOK_EVERY_S - 1)
    cell.update(heartbeat_at=base)
    tag = _poll(browser, grid)["HX-PTag"]
    cell.update(heartbeat_at=base + timedelta(seconds=later_s))
    assert (_poll(browser, grid, tag).status_code == 200) is seen


@pytest.mark.parametrize(
    ("state", "words", "every"),
    [
        ("draft", "waits for a host owner who did not draw it", "every 10s"),
        ("authorized", "No cell is running at this moment.", "every 2s"),
        ("running", "Now: short requests", "every 2s"),
        ("paused", "Nothing is sent. Other grids of this host may run meanwhile.", "every 10s"),
        ("pausing", "The running cell still ends, and is kept.", "every 2s"),
        ("finish", "The running cell ends first and is kept.", "every 2s"),
        ("drain", "Running requests may finish, for at most a minute", "every 2s"),
        ("stopped", "Go on", ""),
        ("silent", "The worker has said nothing since", "every 2s"),
        ("no worker", "No worker of", "every 2s"),
        ("interrupted", "was tried 2 times", "every 2s"),
        ("guard", "guard stopped 1 offered", ""),
        ("measured", "See the result", ""),
        ("withdrawn", "Withdrawn by", ""),
    ],
)
def test_each_state_says_what_it_is_and_polls_as_often_as_something_can_change(browser, runtime, state, words, every):
    grid = _in_state(runtime, state)
    said = _said(browser, grid)
    assert words in said
    assert [f'hx-trigger="every {n}s"' in said for n in (2, 10)] == [every == "every 2s", every == "every 10s"]


def _in_state(runtime, state):
    make = factories.make_grid if state == "draft" else running_grid
    grid = make(runtime=runtime, settings=(1, 2) if state != "measured" else (1,), class_names=("short",))
    by = grid.drawn_by
    if state == "paused":
        runs.pause(grid=grid, by=by)
    elif state == "stopped":
        runs.stop(grid=grid, how="cancel", by=by)
    elif state == "withdrawn":
        runs.withdraw(grid=grid, by=by)
    elif state == "no worker":
        Hardware.objects.filter(pk=grid.hardware_id).update(worker_seen_at=None)
    elif state not in ("draft", "authorized"):
        _claimed(grid, state)
    return grid


def _claimed(grid, state):
    taken = claim(grid)
    claims.beat(claim=taken, progress=BEAT)
    if state in ("finish", "drain"):
        runs.stop(grid=grid, how=state, by=grid.drawn_by)
    elif state == "pausing":
        runs.pause(grid=grid, by=grid.drawn_by)
    elif state == "silent":
        Cell.objects.filter(pk=taken.cell_id).update(heartbeat_at=timezone.now() - timedelta(seconds=20))
    elif state == "interrupted":
        claims.interrupt(claim=taken, reason="The mains failed.")
        claims.beat(claim=claim(grid), progress=BEAT)
    elif state == "guard":
        record(taken, summary(complete=False, end_reason="guard: GPU temperature 86 C"))
    elif state == "measured":
        record(taken)


def test_micro_batches_say_that_nothing_is_streamed_and_a_closed_loop_that_it_is_not_known_yet(runtime):
    closed = running_grid(runtime=runtime, settings=(1,), class_names=("short",))
    micro = Grid(mode="micro", runtime=runtime, limits=closed.limits, load={})
    assert [live_tables.is_streamed(grid) for grid in (closed, micro)] == [True, False]
    shown = live_tables.live_values(closed, closed.cells.get())[1]
    assert (shown.shown, shown.value) == ("not yet", None)


def test_a_micro_batching_cell_shows_no_time_to_first_token_and_why(browser, team):
    own = factories.make_runtime(factories.make_hardware(team), dialect="openai_completions")
    grid = running_grid(runtime=own, settings=(2,), class_names=("short",), load=MicroTerms())
    claims.beat(claim=claim(grid), progress=BEAT)
    said = _said(browser, grid)
    assert ("not streamed" in said, "answers come whole" in said) == (True, True)


def test_the_gate_of_the_next_stage_is_told_while_this_one_runs(browser, runtime):
    grid = running_grid(runtime=runtime, settings=(1, 2), class_names=("short", "median"))
    claims.beat(claim=claim(grid), progress=BEAT)
    said = _said(browser, grid)
    assert "Median requests, 1 offered. <b>As it stands 2 offered would start.</b>" in said
    assert "The stage of 2 offered starts only if all of this holds when the one before it has ended" in said
    assert _gate(said) == [
        ("Failures", "not known yet", "5 %"), ("Worst p95 ÷ objective", "not known yet", "2.00"),
        ("VRAM", "33 %", "92 %"), ("GPU temperature", "71 °C", "85 °C"),
    ]  # fmt: skip


def _gate(said):
    rows = re.findall(r"<span>([^<]*?) <b>([^<]*)</b> <span class=\"hr-u\">at most ([^<]*)</span>", said)
    return [tuple(row) for row in rows]


@pytest.mark.parametrize(
    ("readings", "p95_s", "would", "told"),
    [
        ({"gpu_temperature_c": 84}, 0.5, "start", {"Worst p95 ÷ objective": "0.25", "GPU temperature": "84 °C"}),
        ({"gpu_temperature_c": 86}, 0.5, "be held back", {"GPU temperature": "86 °C", "VRAM": "not known yet"}),
        ({}, 3.6, "start", {"Worst p95 ÷ objective": "1.80", "GPU temperature": "not known yet"}),
        ({"vram_used_bytes": 93, "vram_total_bytes": 100}, 0.5, "be held back", {"VRAM": "93 %"}),
    ],
)
def test_whether_the_next_stage_would_start_goes_by_every_limit_that_is_known(
    browser, runtime, readings, p95_s, would, told
):
    grid = running_grid(runtime=runtime, settings=(1, 2), class_names=("short", "median", "long"))
    record(claim(grid), summary(p95_s=p95_s))
    claims.beat(claim=claim(grid), progress=BEAT | {"readings": readings})
    said = _said(browser, grid)
    assert f"As it stands 2 offered would {would}." in said
    assert told.items() <= {name: now for name, now, _most in _gate(said)}.items()


def test_what_is_left_goes_by_the_pace_so_far_and_says_when_the_authorisation_ends_first(runtime):
    grid = running_grid(runtime=runtime, settings=(1, 2, 4), class_names=("short",))
    now = timezone.now()
    leave = queries.live_authorization(grid)
    grid.status = "running"
    cells = list(grid.cells.order_by("position"))
    by_plan = live_tables.what_is_left(grid, cells, leave, now)
    assert (by_plan.minutes, by_plan.by_pace, by_plan.words) == (1, 0, "")
    cells[0].status, cells[0].started_at, cells[0].finished_at = "measured", now - timedelta(seconds=150), now
    by_pace = live_tables.what_is_left(grid, cells, leave, now)
    assert (by_pace.minutes, by_pace.by_pace, by_pace.ends_at) == (5, 1, now + timedelta(seconds=300))
    leave.valid_until = now + timedelta(minutes=2)
    assert "authorisation ends before that" in live_tables.what_is_left(grid, cells, leave, now).words


@pytest.mark.parametrize("state", ["measured", "stopped", "withdrawn"])
def test_nothing_is_left_of_a_grid_that_is_over(runtime, state):
    grid = running_grid(runtime=runtime, settings=(1,), class_names=("short",))
    grid.status = state
    assert live_tables.what_is_left(grid, list(grid.cells.all()), None, timezone.now()) is None


def test_the_events_tell_people_and_cells_newest_first(runtime):
    grid = running_grid(runtime=runtime, settings=(1, 2), class_names=("short",))
    record(claim(grid), summary(ok=98, failed=2, p95_s=0.5))
    runs.pause(grid=grid, by=grid.drawn_by)
    texts = [one.text for one in live_events.of_grid(grid, list(grid.cells.order_by("position")))]
    assert texts[0] == f"{grid.drawn_by.username} paused the grid"
    assert "1 offered, short: measured, p95 0.50 s, 2 of 100 failed" in texts
    assert not any("recorded measured cell" in text for text in texts)


def test_an_interrupted_attempt_is_an_event_with_its_reason(runtime):
    grid = running_grid(runtime=runtime, settings=(1,), class_names=("short",))
    claims.interrupt(claim=claim(grid), reason="The mains failed.")
    claim(grid)
    texts = [one.text for one in live_events.of_grid(grid, list(grid.cells.all()))]
    assert "1 offered, short: attempt 1 was interrupted. The mains failed." in texts


def test_the_host_so_far_draws_what_was_read_and_says_what_was_not(runtime):
    grid = running_grid(runtime=runtime, settings=(1, 2), class_names=("short",))
    assert live_host.rows_of(grid, list(grid.cells.all()), timezone.now()) is None
    read = msgspec.structs.replace(summary(), gauges=(_gauge("gpu_temperature_c", 70.0, 60.0),))
    record(claim(grid), read)
    host = live_host.rows_of(grid, list(grid.cells.order_by("position")), timezone.now())
    drawn = {row.title: (len(row.boxes), row.limit_words, row.absent) for row in host.rows}
    assert drawn["GPU temperature"] == (1, "limit 85 °C", "")
    assert drawn["GPU board power"] == (0, "", "no cell so far has a reading")
    box = next(row for row in host.rows if row.boxes).boxes[0]
    assert 0 < box.y < box.y + box.height < live_host.HEIGHT
    assert (host.running, [band.words for band in host.bands]) == (False, ["1 offered"])


def test_the_points_beside_the_evidence_are_drawn_and_a_gap_stays_a_gap(runtime):
    grid = running_grid(runtime=runtime, settings=(1, 2), class_names=("short",))
    record(claim(grid), msgspec.structs.replace(summary(), gauges=(_gauge("gpu_temperature_c", 70.0, 60.0),)))
    cell = grid.cells.get(status="measured")
    points = {"window_s": 5.0, "spans": {"gpu_temperature_c": [60.0, 65.0, None, 68.0, 70.0, 69.0]}}
    triggers.take_away()
    Evidence.objects.filter(cell=cell).update(readings=points)
    triggers.reinstall()
    host = live_host.rows_of(grid, list(grid.cells.order_by("position")), timezone.now())
    row = next(row for row in host.rows if row.lines)
    assert ([len(line.split()) for line in row.lines], row.boxes) == ([2, 3], ())
    heights = [float(point.partition(",")[2]) for line in row.lines for point in line.split()]
    assert heights == [round(live_host.HEIGHT * (1 - value / 100), 1) for value in (60, 65, 68, 70, 69)]


def test_a_reading_that_stands_alone_is_drawn_as_long_as_its_span(runtime):
    grid = running_grid(runtime=runtime, settings=(1,), class_names=("short",))
    record(claim(grid), msgspec.structs.replace(summary(), gauges=(_gauge("gpu_temperature_c", 70.0, 60.0),)))
    triggers.take_away()
    points = {"window_s": 5.0, "spans": {"gpu_temperature_c": [None, 70.0, None, None]}}
    Evidence.objects.filter(cell__grid=grid).update(readings=points)
    triggers.reinstall()
    host = live_host.rows_of(grid, list(grid.cells.order_by("position")), timezone.now())
    row = next(row for row in host.rows if row.words)
    (begun, ended), boxes = row.lines[0].split(), row.boxes
    assert (len(row.lines), boxes, begun.partition(",")[2]) == (1, (), ended.partition(",")[2])
    assert float(ended.partition(",")[0]) > float(begun.partition(",")[0])


def test_the_running_cell_stands_beside_the_finished_ones_with_its_newest_reading(runtime):
    grid = running_grid(runtime=runtime, settings=(1, 2), class_names=("short",))
    record(claim(grid), msgspec.structs.replace(summary(), gauges=(_gauge("gpu_temperature_c", 70.0, 60.0),)))
    claims.beat(claim=claim(grid), progress=BEAT | {"readings": {"gpu_temperature_c": 78.0}})
    host = live_host.rows_of(grid, list(grid.cells.order_by("position")), timezone.now() + timedelta(seconds=30))
    row = next(row for row in host.rows if row.boxes)
    assert (host.running, host.cells, len(row.boxes), row.highest) == (True, 1, 1, "highest 78 °C")
    assert [(band.words, band.shaded) for band in host.bands] == [("1 offered", True), ("2 offered", False)]
    assert row.newest == f"M{live_host.WIDTH} {round(live_host.HEIGHT * (1 - 78 / 100), 1):g}h.01"
