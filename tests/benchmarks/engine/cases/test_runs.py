"""Runs that end, starts that do not measure themselves, and a client that agrees with the server's own word: cases of
other tools' users, each with its kind.

Numbers such as `complaint 26` are the rows of this folder's README.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import time

import httpx
import pytest

from benchmarks.engine.columns import NoHeaderError, from_frames
from benchmarks.engine.load import Constant, OpenLoop
from benchmarks.engine.plan import Fixed
from benchmarks.engine.prompts import Workload
from benchmarks.engine.summary import summarise
from benchmarks.engine.terms import Outcome, Phase
from benchmarks.simulator.truth import prompt_digest
from tests.benchmarks.engine import simulated
from tests.benchmarks.engine import slots as slots_at_once
from tests.benchmarks.engine.loads.running import (
    NO_ERROR_LIMIT,
    Left,
    finish_program,
    run_cell,
    run_program,
    start_program,
)
from tests.benchmarks.engine.plans import MS, S, a_class, a_plan
from tests.benchmarks.engine.scripted import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
    Close,
    Endless,
    Hang,
    Pause,
    Script,
    Scripted,
    delta,
    finish,
    piece,
    plain,
)

TEXT = delta(content="bebo")
SLOW = [SSE_HEAD + piece(TEXT), Pause(0.1), piece(finish() + DONE) + LAST_CHUNK]
SLOWER = [SSE_HEAD + piece(TEXT), Pause(0.4), piece(finish() + DONE) + LAST_CHUNK]
FOREVER = {"window_s": 60.0, "max_wall_s": 60.0, "max_requests": 100_000, "max_tokens": 10**9}


def program_against(scripts: list[Script], folder, **plan_changes) -> tuple[int, str, Left]:
    async def run() -> tuple[int, str, Left]:
        async with Scripted(scripts) as server:
            plan = a_plan(**({"base_url": server.url, "guard": NO_ERROR_LIMIT} | FOREVER | plan_changes))
            return await asyncio.to_thread(run_program, plan, folder)

    return asyncio.run(run())


# ── complaint 26: every run ends, and leaves its report ────────────────────────────────────────────────────────────

WALL = {"max_wall_s": 1.0}
ENDINGS = [
    ("a server that never answers", [[Hang()]], WALL, "ceiling: 1 s of wall time", {"unfinished"}),
    ("one that sends heads and no more", [[SSE_HEAD, Hang()]], WALL, "ceiling: 1 s of wall time", {"unfinished"}),
    ("one that never stops talking", [[SSE_HEAD, *[piece(TEXT), Pause(0.05)] * 100]], WALL, "ceiling: 1 s of wall time",
     {"unfinished"}),
    ("one that sends comments for ever", [[SSE_HEAD, *[piece(b": ping\n\n"), Pause(0.05)] * 100]], WALL,
     "ceiling: 1 s of wall time", {"unfinished"}),
    ("one that floods", [[SSE_HEAD, Endless(piece(b": " + b"x" * 65536 + b"\n"))]], WALL, "ceiling: 1 s of wall time",
     {"malformed", "unfinished"}),
    ("one that stops answering", [SLOW, SLOW, [Hang()]], WALL, "ceiling: 1 s of wall time", {"ok", "unfinished"}),
    ("a window whose last answers never end", [[SSE_HEAD + piece(TEXT), Hang()]], {"window_s": 0.3, "total_timeout_s": 0.6},
     "window completed", {"total_timeout", "unfinished"}),
    ("an open loop that nobody answers", [[Hang()]], WALL | {"load": OpenLoop(Constant(20.0)), "offered_concurrency": 2},
     "ceiling: 1 s of wall time", {"unfinished"}),
    ("answers until the requests are used up", [SLOW], {"max_requests": 5}, "ceiling: 5 requests", {"ok"}),
    ("refusals until the window ends", [[plain(503, b"{}")]], {"window_s": 0.6}, "window completed", {"rejected"}),
    ("closed connections until the window ends", [[Close()]], {"window_s": 0.6}, "window completed", {"connect_error"}),
]  # fmt: skip


@pytest.mark.parametrize(
    "scripts, plan, reason, outcomes", [row[1:] for row in ENDINGS], ids=[row[0] for row in ENDINGS]
)
def test_every_run_ends_by_itself_and_its_report_says_how(tmp_path, scripts, plan, reason, outcomes):
    """Complaint 26: nothing hangs, and nothing ends without a word and a number for each request."""
    code, words, left = program_against(scripts, tmp_path, **({"offered_concurrency": 2} | plan))
    found = left.summary
    assert (code, words, found.end_reason, found.complete) == (0, "", reason, reason == "window completed")
    assert (found.conserved, set(found.outcomes) <= outcomes) == (True, True)
    assert found.sent == found.recorded == len(left.records) > 0
    assert left.shown[-1].reason == reason


def test_a_server_that_is_not_there_ends_the_run_at_once_with_a_report(tmp_path):
    """Complaint 26."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, and not listening
        code, _, left = run_program(a_plan(base_url=f"http://127.0.0.1:{held.getsockname()[1]}"), tmp_path)
    assert (code, left.summary.complete, left.summary.scheduled, left.summary.sent) == (3, False, 0, 0)
    assert left.summary.end_reason.startswith("target unreachable: 127.0.0.1:")


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_run_left_is_whole_or_nothing_and_never_called_complete(tmp_path, sign):
    """Complaint 26: the frames that reached the file are read, and the summary says that the end is missing."""

    def killed(url: str) -> Left:
        child = start_program(a_plan(base_url=url, offered_concurrency=8, **FOREVER), tmp_path)
        assert child.stdout is not None
        while '"finished":0' in child.stdout.readline():
            pass
        child.send_signal(sign)
        code, _, left = finish_program(child, tmp_path)
        assert code == -sign
        return left

    async def run() -> Left:
        async with Scripted([SLOW]) as server:
            return await asyncio.to_thread(killed, server.url)

    left = asyncio.run(run())
    try:
        columns = from_frames(left.frames)
    except NoHeaderError:
        return  # killed before the first buffer went to the file
    found = summarise(columns, columns.plan)
    assert (found.complete, found.conserved) == (False, None)
    assert found.end_reason == "the log has no end: the engine was killed"


# ── report 8: who leaves is gone ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("active", [2, 8], ids=["most still wait", "all are being served"])
def test_what_the_client_gives_up_the_server_sees_it_leave(active):
    """Report 8: no slot goes on for an answer that nobody reads. Who waits for that before the next cell is the worker."""
    with simulated.simulator("--active", str(active)) as (url, model):
        of_class = a_class(output_tokens=Fixed(2000))
        plan = a_plan(base_url=url, model=model, classes=(of_class,), total_timeout_s=0.5)
        records = slots_at_once.at_once(plan, 6)
        assert {record.outcome for record in records} == {Outcome.TOTAL_TIMEOUT}
        for _ in range(200):
            seen = simulated.truths(url)
            if all(truth.outcome != "running" for truth in seen):
                break
            time.sleep(0.02)
        assert [truth.outcome for truth in seen] == ["cancelled"] * 6
        metrics = httpx.get(url + "/metrics", trust_env=False).text
    gauges = [line for line in metrics.splitlines() if "requests_running" in line or "requests_waiting" in line]
    values = [float(line.split()[-1]) for line in gauges if not line.startswith("#")]
    assert values
    assert set(values) == {0.0}


# ── complaint 27: the server's own word ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("slots", [1, 6])
def test_what_the_client_counts_is_what_the_server_sent_and_no_time_is_before_its_cause(tmp_path, slots):
    """Complaint 27: requests, tokens and chunks one to one, and no stamp earlier than the server's own of the same byte.

    How far behind they may be is the self-calibration's to judge, before each grid and on the host that measures.
    """
    with simulated.simulator("--active", "8") as (url, model):
        plan = a_plan(base_url=url, model=model, classes=(a_class(output_tokens=Fixed(12)),), offered_concurrency=slots,
                      window_s=30.0, max_requests=40, max_wall_s=40.0)  # fmt: skip
        code, _, left = run_program(plan, tmp_path)
        seen = {truth.prompt_digest: truth for truth in simulated.truths(url)}
    workload, found = Workload(plan), left.summary
    assert (code, found.outcomes, len(seen)) == (0, {"ok": 40}, 40)
    assert found.completed_per_s == pytest.approx(40 / found.window_s)
    for record in left.records:
        truth = seen[prompt_digest(workload.build(record.index).text)]
        assert (record.prompt_tokens, record.output_tokens) == (truth.prompt_tokens, truth.output_tokens)
        assert len(record.gaps_us) // 4 + 1 == len(truth.t_tokens_ns)
        assert record.t_headers_ns >= truth.t_head_ns
        assert record.t_first_ns >= truth.t_first_ns
        assert record.t_last_ns >= truth.t_last_ns
        assert record.t_end_ns >= truth.t_end_ns
        assert record.t_scheduled_ns <= record.t_sent_ns  # and the server may have read it before we knew it was out


# ── complaint 47: the start is not the measurement ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("slots", [2, 8])
def test_slots_start_one_after_the_other_unless_a_burst_is_asked_for(tmp_path, slots):
    """Complaint 47."""
    burst = run_cell(tmp_path, SLOWER, offered_concurrency=slots, window_s=0.3, burst_start=True)
    spread = run_cell(tmp_path, SLOWER, offered_concurrency=slots, window_s=0.3)
    at_once, apart = ({r.slot: r for r in reversed(left.records)}.values() for left in (burst, spread))
    assert max(r.t_sent_ns for r in at_once) < min(r.t_end_ns for r in at_once)
    due_s = sorted(r.t_scheduled_ns / S for r in apart)
    assert len(due_s) == slots
    apart_s = 0.01  # each slot a hundredth of a second after the one before, up to half a second for all
    assert due_s[-1] - due_s[0] >= (slots - 1) * apart_s - 0.002


def test_the_load_does_not_fall_between_warm_up_and_window_and_neither_counts_for_the_other(tmp_path):
    """Complaints 13, 29 and 47: handed over, not drained; a request belongs to where it was due."""
    left = run_cell(tmp_path, SLOW, offered_concurrency=4, warmup_s=0.4, window_s=0.6)
    window = left.columns.window
    for record in left.records:
        inside = window.start_ns <= record.t_scheduled_ns < window.end_ns
        assert record.phase is (Phase.WINDOW if inside else Phase.WARMUP)
    across = [r for r in left.records if r.phase is Phase.WARMUP and r.t_end_ns > window.start_ns]
    assert across  # in flight while the window opened: nothing was drained
    for slot in range(4):  # each slot was in flight then, or between two requests that follow on each other
        mine = sorted((r for r in left.records if r.slot == slot), key=lambda r: r.t_scheduled_ns)
        before = [r for r in mine if r.phase is Phase.WARMUP][-1]
        after = next(r for r in mine if r.phase is Phase.WINDOW)
        assert 0 <= after.t_scheduled_ns - before.t_closed_ns < before.t_closed_ns - before.t_sent_ns
    found = left.summary
    assert (found.scheduled, found.warmup_requests) == (
        sum(r.phase is Phase.WINDOW for r in left.records), sum(r.phase is Phase.WARMUP for r in left.records),
    )  # fmt: skip
    assert found.mean_in_flight == pytest.approx(4, abs=0.5)
    assert found.of_class("short").e2e_s.p50.n == found.scheduled


# ── complaint 6: the schedule is kept ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pause_s", [0.0, 0.2])
def test_two_hundred_a_second_are_all_offered_at_their_own_times(tmp_path, pause_s):
    """Complaint 6: relative sleeps made 183.5 of them. However slow the answers, the n-th is due n times 5 ms after the
    first, and each has its record."""
    slow = [SSE_HEAD + piece(TEXT), Pause(pause_s), piece(finish() + DONE) + LAST_CHUNK]
    left = run_cell(tmp_path, slow, load=OpenLoop(Constant(200.0)), offered_concurrency=128, window_s=1.5)
    found = left.summary.open_loop
    assert (found.planned, found.requested_per_s, len(left.records)) == (300, 200.0, 300)
    assert left.due_s == pytest.approx([n * 0.005 for n in range(300)], abs=1e-6)
    assert all(r.t_sent_ns >= r.t_scheduled_ns for r in left.records)


# ── complaint 5: a wait inside the client ──────────────────────────────────────────────────────────────────────────


def test_the_wait_for_a_place_in_flight_is_in_the_users_time_and_not_in_the_servers(tmp_path):
    """Complaint 5: ten requests due at once and two places; the server's view is flat, the user's grows with the queue."""
    left = run_cell(tmp_path, SLOW, load=OpenLoop(Constant(1000.0)), offered_concurrency=2, window_s=0.01)
    assert (len(left.records), left.outcomes[Outcome.OK]) == (10, 10)
    users = sorted(r.t_end_ns - r.t_scheduled_ns for r in left.records)
    assert users[-1] - users[0] >= 4 * 98 * MS  # five rounds of two
    assert all(r.t_scheduled_ns <= r.t_sent_ns for r in left.records)
    short = left.summary.of_class("short")
    assert short.e2e_s.p50.value > 2 * short.server_e2e_s.p50.value
