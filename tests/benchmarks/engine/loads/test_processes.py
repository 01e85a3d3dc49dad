"""Several generator processes are one load and one result: what one would have asked, in one window, judged by the worst."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.engine import guard, schedule
from benchmarks.engine.load import Constant, MicroBatch, OpenLoop, Poisson, Sessions, StaticBatch
from benchmarks.engine.plan import CellPlan, Fixed, Guard, Uniform
from benchmarks.engine.processes import host_stop, joined_end, worst
from benchmarks.engine.progress import Progress, Stage, parse
from benchmarks.engine.prompts import Workload
from benchmarks.engine.runner import WINDOW_COMPLETED
from benchmarks.engine.terms import ClientHealth, End, Outcome, Phase, Reading, Window
from tests.benchmarks.engine.loads.running import (
    MODEL,
    NO_ERROR_LIMIT,
    Left,
    finish_program,
    run_program,
    simulator,
    start_program,
)
from tests.benchmarks.engine.plans import S, a_class, a_plan

LENGTHS = (a_class(prompt_tokens=Uniform(8, 12), output_tokens=Uniform(2, 6)),)


@pytest.fixture(scope="module")
def url():
    with simulator() as address:
        yield address


def a_cell(url: str, processes: int, **changes) -> CellPlan:
    defaults = {
        "base_url": url, "model": MODEL, "processes": processes, "offered_concurrency": 6, "warmup_s": 0.3,
        "window_s": 1.0, "max_requests": 100_000, "max_tokens": 10**8, "classes": LENGTHS,
    }  # fmt: skip
    return a_plan(**(defaults | changes))


def run(folder: Path, plan: CellPlan) -> Left:
    code, words, left = run_program(plan, folder)
    assert (code, words) == (0, "")
    (folder / "cell.log").unlink()
    return left


def asked(left: Left) -> dict[int, tuple[int, int]]:
    return {r.index: (r.intended_prompt_tokens, r.asked_output_tokens) for r in left.records}


def of_workload(left: Left) -> dict[int, tuple[int, int]]:
    workload = Workload(left.columns.plan)
    built = {index: workload.build(index) for index in asked(left)}
    return {index: (p.intended_prompt_tokens, p.asked_output_tokens) for index, p in built.items()}


@pytest.mark.parametrize("load", [OpenLoop(Poisson(60.0)), OpenLoop(Constant(45.0))], ids=["poisson", "constant"])
def test_an_open_loop_of_two_offers_the_one_schedule_with_the_one_workload(tmp_path, url, load):
    one, two = (run(tmp_path, a_cell(url, processes, load=load)) for processes in (1, 2))
    assert one.due_s == two.due_s
    assert asked(one) == asked(two) == of_workload(two)
    plan = two.columns.plan
    offsets = schedule.offsets_ns(load.arrivals, plan.warmup_s + plan.window_s, plan.seed)
    first_ns = min(r.t_scheduled_ns for r in two.records)
    assert {r.index: r.t_scheduled_ns - first_ns for r in two.records} == dict(enumerate(offsets - offsets[0]))
    assert (one.summary.scheduled, one.summary.open_loop.planned) == (
        two.summary.scheduled,
        two.summary.open_loop.planned,
    )
    for left in (one, two):
        assert left.outcomes == {Outcome.OK: len(offsets)}
        assert (left.summary.conserved, left.columns.end.complete, left.columns.end.sent) == (True, True, len(offsets))
    assert (one.columns.health.processes, two.columns.health.processes) == (1, 2)


@pytest.mark.parametrize("processes", [2, 3])
def test_a_closed_loop_of_several_shares_one_window_and_is_conserved(tmp_path, url, processes):
    left = run(tmp_path, a_cell(url, processes))
    assert asked(left) == of_workload(left)
    assert sum(isinstance(frame, Window) for frame in left.frames) == 1
    assert sum(isinstance(frame, ClientHealth) for frame in left.frames) == 1
    assert sum(isinstance(frame, End) for frame in left.frames) == 1
    window = left.columns.window
    assert window.end_ns - window.start_ns == S
    for record in left.records:
        expected = Phase.WARMUP if record.t_scheduled_ns < window.start_ns else Phase.WINDOW
        assert record.phase is expected
        assert record.slot % processes == record.index % processes
    assert {r.slot for r in left.records} == set(range(6))
    assert left.summary.conserved
    assert left.summary.scheduled == sum(r.phase is Phase.WINDOW for r in left.records)
    assert left.columns.end.sent == len(left.records)
    assert not list(tmp_path.glob("cell.log.*"))
    assert left.columns.health.cpu_share is not None
    assert left.columns.health.loop_lag_p99_ms is not None


def test_without_warm_up_no_process_begins_before_the_window(tmp_path, url):
    left = run(tmp_path, a_cell(url, 2, warmup_s=0.0, burst_start=True))
    assert {r.phase for r in left.records} == {Phase.WINDOW}
    assert min(r.t_scheduled_ns for r in left.records) >= left.columns.window.start_ns


@pytest.mark.parametrize(
    "changes",
    [
        {"sessions": Sessions(turns=3, think_s=0.02)},
        {"sessions": Sessions(turns=2), "load": OpenLoop(Constant(30.0))},
        {
            "load": MicroBatch(arrivals=Poisson(120.0), max_items=4, max_wait_ms=40.0),
            "dialect": "openai_embeddings", "stream": False,
        },
    ],
    ids=["sessions closed", "sessions open", "micro-batches"],
)  # fmt: skip
def test_other_loads_of_two_are_conserved_and_no_number_is_given_twice(tmp_path, url, changes):
    left = run(tmp_path, a_cell(url, 2, **changes))
    assert left.outcomes == {Outcome.OK: len(left.records)}
    assert left.summary.conserved
    assert len({r.index for r in left.records}) == len(left.records)
    assert len({b.batch for b in left.batches}) == len(left.batches)
    assert sum(b.items for b in left.batches) in (0, len(left.records))
    turns = [(r.session, r.turn) for r in left.records if r.session is not None]
    assert len(set(turns)) == len(turns)


def test_a_ceiling_of_one_part_ends_all_and_none_is_passed(tmp_path, url):
    left = run(tmp_path, a_cell(url, 2, window_s=30.0, max_requests=31))
    assert len(left.records) <= 31
    assert left.columns.end.reason == "ceiling: 31 requests"
    assert left.summary.conserved
    assert len(left.records) >= 25


@pytest.mark.parametrize(
    ("word", "outcomes"), [("drain", {Outcome.OK}), ("cancel", {Outcome.OK, Outcome.CANCELLED})]
)  # fmt: skip
def test_a_command_reaches_all_processes(tmp_path, url, word, outcomes):
    long = (a_class(output_tokens=Fixed(40)),)
    child = start_program(a_cell(url, 2, window_s=60.0, max_wall_s=60.0, classes=long), tmp_path)
    wait_for(child, Stage.WINDOW)
    child.stdin.write(f"{word}\n")
    child.stdin.flush()
    code, words, left = finish_program(child, tmp_path)
    assert (code, words) == (0, "")
    assert left.columns.end.reason == f"stopped: {word} was asked for"
    assert not left.columns.end.complete
    assert set(left.outcomes) == outcomes
    assert left.summary.conserved
    assert left.columns.window.end_ns - left.columns.window.start_ns < 50 * S


@pytest.mark.parametrize("word", ["drain", "cancel"])
def test_a_command_given_before_there_are_processes_sends_nothing(tmp_path, url, word):
    child = start_program(a_cell(url, 2, window_s=60.0, max_wall_s=60.0), tmp_path)
    child.stdin.write(f"{word}\n")
    child.stdin.flush()
    code, words, left = finish_program(child, tmp_path)
    assert (code, words, left.records) == (0, "", [])
    assert (left.columns.end.reason, left.columns.end.sent) == (f"stopped: {word} was asked for", 0)


def wait_for(child: subprocess.Popen[str], stage: Stage) -> Progress:
    """Reads progress lines up to one of this stage."""
    while True:
        line = child.stdout.readline()
        assert line, "the engine ended before it got there"
        progress = parse(line.encode())
        if list(Stage).index(progress.phase) >= list(Stage).index(stage):
            return progress


def generators_of(child: subprocess.Popen[str]) -> list[psutil.Process]:
    return [p for p in psutil.Process(child.pid).children() if "--part" in p.cmdline()]


def test_a_killed_generator_ends_the_cell_with_words_and_what_was_measured_stands(tmp_path, url):
    child = start_program(a_cell(url, 2, window_s=60.0, max_wall_s=60.0), tmp_path)
    wait_for(child, Stage.WINDOW)
    time.sleep(0.5)
    generators_of(child)[1].send_signal(signal.SIGKILL)
    code, words, left = finish_program(child, tmp_path)
    assert code == 1
    assert "generator process 1 with -9 of 2 ended badly" in words
    assert "generator process 1 with -9 of 2 ended badly" in left.columns.end.reason
    assert not left.columns.end.complete
    assert len(left.records) > 5
    assert left.summary.conserved is not True
    assert not list(tmp_path.glob("cell.log.*"))


def test_a_generator_killed_before_the_first_request_does_not_leave_the_others_waiting(tmp_path, url):
    child = start_program(a_cell(url, 3, window_s=60.0, max_wall_s=60.0), tmp_path)
    while len(found := generators_of(child)) < 3:
        time.sleep(0.01)
    found[0].send_signal(signal.SIGKILL)
    code, words, left = finish_program(child, tmp_path)
    assert code == 1
    assert "generator process 0 with -9 of 3 ended badly" in words
    assert not left.columns.end.complete


def test_when_the_parent_is_killed_its_generators_are_gone(tmp_path, url):
    child = start_program(a_cell(url, 2, window_s=60.0, max_wall_s=60.0), tmp_path)
    wait_for(child, Stage.WARMUP)
    found = generators_of(child)
    child.kill()
    gone, alive = psutil.wait_procs(found, 5)
    assert (len(gone), alive) == (2, [])
    finish_program(child, tmp_path)


def test_errors_end_all_processes_by_the_guard_of_one(tmp_path):
    with simulator("--fault", "http_400=1") as address:
        code, _, left = run_program(a_cell(address, 2, window_s=60.0, max_wall_s=60.0, guard=Guard()), tmp_path)
    assert code == 0
    assert left.columns.end.reason.startswith("guard: ")
    assert not left.columns.end.complete
    assert left.summary.conserved


def test_faults_are_pooled_over_the_processes(tmp_path):
    with simulator("--fault", "http_500=0.2", "--fault", "truncated=0.2") as address:
        left = run(tmp_path, a_cell(address, 2, guard=NO_ERROR_LIMIT, load=OpenLoop(Constant(80.0))))
    assert set(left.outcomes) == {Outcome.OK, Outcome.SERVER_ERROR, Outcome.TRUNCATED}
    assert sum(left.outcomes.values()) == len(left.records) == 104
    in_window = sum(r.phase is Phase.WINDOW for r in left.records)
    assert sum(left.summary.outcomes.values()) == left.summary.scheduled == in_window == 80
    assert left.summary.of_class("short").success.n == 80


def test_progress_sums_the_processes_and_ends_with_all_of_them(tmp_path, url):
    left = run(tmp_path, a_cell(url, 2, window_s=2.5))
    assert len(left.shown) >= 4
    assert [shown.phase for shown in left.shown] == sorted((s.phase for s in left.shown), key=list(Stage).index)
    last = left.shown[-1]
    assert (last.phase, last.sent, last.finished, last.ok) == (Stage.ENDED, *[len(left.records)] * 3)
    assert last.in_flight == 0
    assert max(shown.in_flight for shown in left.shown) <= 6
    assert last.reason == WINDOW_COMPLETED


def test_a_static_batch_is_refused_in_several_processes(tmp_path, url):
    code, words, _ = run_program(a_cell(url, 2, load=StaticBatch(items=9, batch_size=3)), tmp_path)
    assert code == 2
    assert "a static batch runs in one generator process" in words


def health(**changes) -> ClientHealth:
    fields = {"loop_lag_p99_ms": 1.0, "cpu_share": 0.2, "send_late_p99_ms": 0.5, "client_limited": False, "stalls": 1}
    return ClientHealth(**(fields | changes))


def test_health_is_that_of_the_worst_in_each_figure():
    limited = health(cpu_share=0.9, client_limited=True, why="busy", loop_lag_p99_ms=None, stalls=3)
    found = worst([health(loop_lag_p99_ms=2.0), limited, health(send_late_p99_ms=None)])
    assert (found.loop_lag_p99_ms, found.cpu_share, found.send_late_p99_ms) == (2.0, 0.9, 0.5)
    assert (found.client_limited, found.why) == (True, "process 1: busy")
    assert (found.stalls, found.processes, found.connect_p99_ms) == (5, 3, None)
    assert not worst([health(), health()]).client_limited


def end(**changes) -> End:
    return End(**({"t_ns": 5, "complete": True, "reason": WINDOW_COMPLETED, "sent": 3, "planned": 2} | changes))


@pytest.mark.parametrize(
    ("ends", "reason", "complete", "words", "sent", "planned"),
    [
        ([end(), end(sent=4)], "", True, WINDOW_COMPLETED, 7, 4),
        ([end(planned=None), end(planned=None)], "", True, WINDOW_COMPLETED, 6, None),
        ([end()], "", False, "a generator process left no end", None, 2),
        ([end(), end(complete=False, reason="guard: hot")], "", False, "guard: hot", 6, 4),
        ([end(), end()], "stopped: drain was asked for", False, "stopped: drain was asked for", 6, 4),
        ([], "", False, "a generator process left no end", None, None),
    ],
)
def test_the_joined_end_is_complete_when_all_are(ends, reason, complete, words, sent, planned):
    found = joined_end(ends, 2, reason)
    assert (found.complete, found.reason, found.sent, found.planned) == (complete, words, sent, planned)


@pytest.mark.parametrize(
    ("at_s", "words"), [(9, None), (12, "no temperature of GPU-1 was read for 12 s, though it is limited")]
)
def test_the_parent_of_several_stops_when_a_limit_is_no_longer_read(at_s, words):
    heat = Reading(t_ns=0, name="gpu_temperature_c", value=60.0, source="nvml", device="GPU-1")
    now = guard.latest([heat], guard.Latest(values={}))
    assert host_stop(a_plan(processes=2), now, at_ns=at_s * S) == words
