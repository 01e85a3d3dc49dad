"""An open loop keeps to its schedule whatever the server does: nothing early, nothing skipped, nothing told twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
import uvloop

from benchmarks.engine import schedule
from benchmarks.engine.load import Constant, Gamma, OpenLoop, Poisson, Replay, Sessions, Steps
from benchmarks.engine.open_loop import SPARE
from benchmarks.engine.runner import Cell
from benchmarks.engine.terms import Outcome, Phase, RequestRecord
from tests.benchmarks.engine.loads.running import MS, NO_ERROR_LIMIT, Left, S, run_cell
from tests.benchmarks.engine.scripted import (
    DONE,
    GOOD,
    LAST_CHUNK,
    SSE_HEAD,
    Hang,
    Pause,
    Scripted,
    delta,
    finish,
    piece,
    plain,
)

FIFTY = Constant(50.0)
SLOW = [SSE_HEAD + piece(delta(content="bebo")), Pause(0.15), piece(finish() + DONE) + LAST_CHUNK]
STALLED = [Pause(1.0), GOOD]


def open_loop(tmp_path, *scripts, arrivals=FIFTY, **changes) -> Left:
    return run_cell(
        tmp_path, *(scripts or [[GOOD]]), load=OpenLoop(arrivals), **({"offered_concurrency": 64} | changes)
    )  # fmt: skip


def due_of(left: Left) -> list[int]:
    """The schedule that the plan asked for, as due times of this run."""
    plan = left.columns.plan
    load = plan.load
    assert isinstance(load, OpenLoop)
    offsets = schedule.offsets_ns(load.arrivals, plan.warmup_s + plan.window_s, plan.arrival_seed or plan.seed)
    began_ns = min(record.t_scheduled_ns for record in left.records) - int(offsets[0])
    return (offsets + began_ns).tolist()


def times_of(records: Sequence[RequestRecord]) -> list[int]:
    return sorted(record.t_scheduled_ns for record in records)


@pytest.mark.parametrize("loop_factory", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    "arrivals",
    [
        Constant(150.0),
        Poisson(150.0),
        Gamma(150.0, 0.2),
        Steps(((0.3, 300.0), (0.3, 0.0), (0.3, 100.0))),
        Replay((0.0, 0.0, 0.0, 0.01, 0.5, 0.5, 0.9999)),
    ],
    ids=lambda arrivals: type(arrivals).__name__,
)
def test_every_arrival_has_one_record_at_its_own_time_and_none_is_sent_early(tmp_path, arrivals, loop_factory):
    left = open_loop(tmp_path, arrivals=arrivals, warmup_s=0.2, window_s=0.8, loop_factory=loop_factory)
    assert times_of(left.records) == due_of(left)
    assert all(record.t_sent_ns >= record.t_scheduled_ns for record in left.records)
    assert left.outcomes == {Outcome.OK: len(left.records)}
    assert sorted(record.index for record in left.records) == list(range(len(left.records)))
    assert left.summary.conserved
    found = left.summary.open_loop
    assert (found.planned, found.on_time.n) == (left.summary.scheduled, left.summary.scheduled)


def test_the_window_begins_at_a_known_time_and_phase_goes_by_when_a_request_was_due(tmp_path):
    left = open_loop(tmp_path, arrivals=Constant(100.0), warmup_s=0.3, window_s=0.5)
    window, first_ns = left.columns.window, times_of(left.records)[0]
    assert (window.start_ns - first_ns, window.end_ns - first_ns) == (300 * MS, 800 * MS)
    phases = [record.phase for record in sorted(left.records, key=lambda record: record.t_scheduled_ns)]
    assert phases == [Phase.WARMUP] * 30 + [Phase.WINDOW] * 50
    assert (left.summary.open_loop.planned, left.summary.open_loop.requested_per_s) == (50, 100.0)


def test_no_more_are_sent_by_any_time_than_were_due_by_then(tmp_path):
    left = open_loop(tmp_path, SLOW, arrivals=Gamma(120.0, 0.3), window_s=1.0)
    due = times_of(left.records)
    for position, sent_ns in enumerate(sorted(record.t_sent_ns for record in left.records)):
        assert sent_ns >= due[position]


def test_a_slow_server_does_not_slow_the_schedule(tmp_path):
    left = open_loop(tmp_path, [Pause(0.4), GOOD], arrivals=Constant(40.0), window_s=0.8)
    assert times_of(left.records) == due_of(left)
    assert left.summary.mean_in_flight > 8  # of 16 once it is full
    assert left.server.accepted == 64


@pytest.mark.parametrize(("most", "in_server_view"), [(64, True), (1, False)])
def test_a_stalled_server_shows_in_the_user_view_whether_or_not_the_servers_does(tmp_path, most, in_server_view):
    """The first answer takes a second; with one request in flight at most all others wait where only the user sees it."""
    scripts = [STALLED, [GOOD]] if most == 1 else [STALLED] * 25 + [[GOOD]]
    left = open_loop(tmp_path, *scripts, offered_concurrency=most, arrivals=Constant(50.0), window_s=1.0)
    waited = [r for r in left.records if r.t_first_ns - r.t_scheduled_ns > 300 * MS]
    slow_server = [r for r in left.records if r.t_first_ns - r.t_sent_ns > 300 * MS]
    assert len(waited) >= 25
    assert len(slow_server) == (25 if in_server_view else 1)
    assert len(left.records) == 50
    assert left.summary.conserved


def test_debt_is_kept_in_order_and_worked_off_after_the_window(tmp_path):
    left = open_loop(tmp_path, SLOW, offered_concurrency=2, arrivals=Constant(40.0), window_s=0.5)
    sent = sorted(left.records, key=lambda record: record.t_sent_ns)
    assert [record.index for record in sent] == list(range(20))
    assert left.outcomes == {Outcome.OK: 20}
    assert sent[-1].t_sent_ns > left.columns.window.end_ns
    assert {record.phase for record in left.records} == {Phase.WINDOW}
    found = left.summary.open_loop
    assert (found.planned, found.requested_per_s) == (20, 40.0)
    assert 0 < found.sent_per_s <= 2 * 0.5 / 0.15 / 0.5 + 2 / 0.5  # two at a time, each of 150 ms
    assert left.summary.completed_per_s == 40.0  # all came to their end, though late: membership is by when it was due
    assert found.on_time.hits <= 3


def test_the_wait_for_a_free_slot_is_the_plans_and_not_the_clients_lateness(tmp_path):
    left = open_loop(tmp_path, SLOW, offered_concurrency=2, arrivals=Constant(40.0), window_s=0.5)
    lateness_ms = max((r.t_sent_ns - r.t_scheduled_ns) / MS for r in left.records)
    assert lateness_ms > 500
    assert left.columns.health.send_late_p99_ms < lateness_ms / 4
    assert "sends late" not in left.columns.health.why or left.columns.health.send_late_p99_ms > 5


def stop_after(seconds: float, word: str):
    async def at_work(cell: Cell, server: Scripted) -> None:
        while not server.requests:
            await asyncio.sleep(0.005)
        await asyncio.sleep(seconds)
        cell.command(word)

    return at_work


@pytest.mark.parametrize(
    ("word", "in_flight", "never_sent"),
    [("drain", Outcome.OK, Outcome.UNFINISHED), ("cancel", Outcome.CANCELLED, Outcome.CANCELLED)],
)
def test_a_stop_ends_what_is_in_flight_as_told_and_debt_as_never_sent(tmp_path, word, in_flight, never_sent):
    left = open_loop(
        tmp_path, [Pause(0.5), GOOD], offered_concurrency=3, arrivals=Constant(50.0), window_s=30.0,
        at_work=stop_after(0.3, word),
    )  # fmt: skip
    sent = [record for record in left.records if record.t_sent_ns is not None]
    unsent = [record for record in left.records if record.t_sent_ns is None]
    assert {record.outcome for record in sent} == {in_flight}
    assert {record.outcome for record in unsent} == {never_sent}
    assert len(sent) == len(left.server.requests) == 3
    assert left.summary.conserved
    assert left.summary.outcomes == {outcome.value: n for outcome, n in left.outcomes.items()}
    assert left.columns.end.reason == f"stopped: {word} was asked for"
    window = left.columns.window
    assert window.end_ns - window.start_ns < 20 * S
    assert left.summary.open_loop.planned == len(left.records)  # due up to the stop, not to the window's planned end
    assert all(record.t_scheduled_ns < window.end_ns for record in left.records)


def test_a_stop_in_warm_up_leaves_no_window(tmp_path):
    left = open_loop(tmp_path, [GOOD], warmup_s=20.0, window_s=20.0, at_work=stop_after(0.1, "drain"))
    assert left.columns.window is None
    assert {record.phase for record in left.records} == {Phase.WARMUP}
    assert (left.summary.scheduled, left.summary.warmup_requests) == (0, len(left.records))
    assert left.summary.completed_per_s is None
    assert left.summary.conserved


def test_what_the_drain_does_not_see_end_is_unfinished_sent_or_not(tmp_path):
    left = open_loop(
        tmp_path, [SSE_HEAD, Hang()], offered_concurrency=4, arrivals=Constant(40.0), window_s=0.5, total_timeout_s=1.0,
        first_byte_timeout_s=60.0,
    )  # fmt: skip
    outcomes = [record.outcome for record in left.records]
    assert len(outcomes) == 20
    assert left.summary.conserved
    never = [record for record in left.records if record.t_sent_ns is None]
    assert {record.outcome for record in never} <= {Outcome.UNFINISHED}
    assert len(left.server.requests) + len(never) == 20
    assert left.summary.of_class("short").success.hits == 0
    assert left.summary.open_loop.late_s.p99.value in (None, float("inf"))


def test_the_wall_time_ends_an_open_loop_in_its_window(tmp_path):
    left = open_loop(tmp_path, [SSE_HEAD, Hang()], offered_concurrency=2, window_s=30.0, max_wall_s=0.6)
    assert left.columns.end.reason == "ceiling: 0.6 s of wall time"
    assert set(left.outcomes) == {Outcome.UNFINISHED}
    assert sum(record.t_sent_ns is not None for record in left.records) == 2
    assert len(left.records) > 20
    assert left.summary.conserved


@pytest.mark.parametrize(("ceiling", "issued"), [({"max_requests": 7}, 7), ({"max_tokens": 55}, 5)])
def test_a_ceiling_ends_the_load_and_what_it_allowed_is_still_asked(tmp_path, ceiling, issued):
    left = open_loop(tmp_path, SLOW, offered_concurrency=1, window_s=20.0, **ceiling)
    assert left.outcomes == {Outcome.OK: issued}
    assert left.columns.end.reason.startswith("ceiling: ")
    assert left.summary.conserved


def test_a_refusing_server_is_offered_the_whole_schedule(tmp_path):
    left = open_loop(tmp_path, [plain(503, b"{}", "retry-after: 5")], window_s=1.0, guard=NO_ERROR_LIMIT)
    assert left.outcomes == {Outcome.REJECTED: 50}
    assert times_of(left.records) == due_of(left)


def test_turns_of_a_session_follow_their_answer_after_the_thinking_and_not_before(tmp_path):
    left = open_loop(
        tmp_path, [Pause(0.05), GOOD], arrivals=Constant(10.0), window_s=1.0, sessions=Sessions(turns=3, think_s=0.1),
    )  # fmt: skip
    by_session: dict[int, list[RequestRecord]] = {}
    for record in sorted(left.records, key=lambda record: record.t_scheduled_ns):
        by_session.setdefault(record.session, []).append(record)
    assert sorted(by_session) == list(range(10))
    for turns in by_session.values():
        assert [record.turn for record in turns] == list(range(len(turns)))
        for earlier, later in pairwise(turns):
            assert later.t_scheduled_ns >= earlier.t_closed_ns + 100 * MS
            assert later.t_sent_ns >= later.t_scheduled_ns
    assert [len(by_session[number]) for number in (0, 9)] == [3, 1]  # no turn is due after the window
    assert left.summary.conserved
    assert left.summary.open_loop.planned == len(left.records)


def test_a_turn_due_after_the_window_is_not_sent_however_late_its_end_is_noticed(tmp_path, monkeypatch):
    look = Cell._look

    def late(cell: Cell, now_s: float) -> None:
        if not 0 <= now_s * S - cell.window_end_ns < 250 * MS:
            look(cell, now_s)

    monkeypatch.setattr(Cell, "_look", late)
    left = open_loop(
        tmp_path, [Pause(0.05), GOOD], arrivals=Constant(10.0), window_s=1.0, sessions=Sessions(turns=3, think_s=0.1),
    )  # fmt: skip
    assert max(times_of(left.records)) < left.columns.window.end_ns
    assert left.summary.open_loop.planned == len(left.records)


@pytest.mark.parametrize("quiet_s", [4.5, 5.5])
def test_a_burst_after_a_quiet_finds_its_connections_open_and_few_are_kept_so(tmp_path, quiet_s):
    """Connections expire after four seconds of idleness; those that a burst takes were opened anew in the quiet, soon after
    they had expired."""
    left = open_loop(tmp_path, arrivals=Replay((0.0, *[quiet_s] * 20)), window_s=6.0, offered_concurrency=128)
    burst = [record for record in left.records if record.t_scheduled_ns > times_of(left.records)[0]]
    assert len(burst) == 20
    assert [record.connect_us for record in burst] == [0] * 20
    assert left.columns.health.connection_wait_share == 0.0
    assert not any(record.resent for record in left.records)
    assert left.server.accepted <= 128 + 2 * SPARE


def test_connections_that_expired_are_opened_before_a_held_up_server_wants_them(tmp_path):
    """Of 128 opened at the start 32 are kept so; after the quiet a hundred are wanted in half a second."""
    arrivals = Replay((0.0, *[5.2 + n / 200 for n in range(100)]))
    left = open_loop(tmp_path, [GOOD], [Pause(1.0), GOOD], arrivals=arrivals, window_s=5.8, offered_concurrency=128)
    assert left.outcomes == {Outcome.OK: 101}
    assert left.server.accepted > 128 + SPARE
    assert sum(record.connect_us > 0 for record in left.records) <= 2


def test_a_server_that_holds_its_answers_finds_connections_opened_before_they_are_wanted(tmp_path):
    """More come to be in flight than were opened at the start; the window is not the client's fault for that."""
    left = open_loop(tmp_path, [Pause(1.2), GOOD], arrivals=Constant(200.0), window_s=1.0, offered_concurrency=1000)
    assert left.outcomes == {Outcome.OK: 200}
    assert left.server.connections > 128
    assert sum(record.connect_us > 0 for record in left.records) <= 2
    assert left.columns.health.connection_wait_share <= 0.01


def test_a_schedule_that_the_client_cannot_keep_is_offered_whole_and_answers_are_read_meanwhile(tmp_path):
    """Far more than this client sends in the time: lateness is debt, not silence."""
    left = open_loop(tmp_path, arrivals=Constant(8000.0), window_s=0.3, offered_concurrency=32)
    assert len(left.records) == 2400
    assert left.outcomes == {Outcome.OK: 2400}
    assert left.summary.conserved
    first_answer_ns = min(record.t_end_ns for record in left.records)
    assert first_answer_ns < left.columns.window.end_ns


def test_the_arrival_seed_alone_moves_the_times_and_never_the_prompts(tmp_path):
    one = open_loop(tmp_path, arrivals=Poisson(60.0), window_s=0.5, arrival_seed=5)
    other = open_loop(tmp_path, arrivals=Poisson(60.0), window_s=0.5, arrival_seed=6)
    same = open_loop(tmp_path, arrivals=Poisson(60.0), window_s=0.5, arrival_seed=5)
    assert one.due_s == same.due_s != other.due_s
    shared = min(len(one.records), len(other.records))
    assert one.server.bodies[0] == other.server.bodies[0]
    assert set(one.server.bodies[:shared]) >= set(other.server.bodies[: shared // 2])


def test_a_stop_before_the_first_request_ends_the_cell(tmp_path):
    async def at_once(cell: Cell, server: Scripted) -> None:
        cell.command("drain")

    began_s = time.monotonic()
    left = open_loop(tmp_path, arrivals=Constant(50.0), window_s=30.0, at_work=at_once)
    assert time.monotonic() - began_s < 25
    assert (left.records, left.columns.window, left.columns.end.sent) == ([], None, 0)
