"""Conversations in a closed loop: a turn follows its answer after the thinking, inside the same session."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.engine import transport
from benchmarks.engine.load import Sessions
from benchmarks.engine.terms import Outcome, RequestRecord
from tests.benchmarks.engine.loads.running import MS, NO_ERROR_LIMIT, Left, run_cell
from tests.benchmarks.engine.scripted import GOOD, Close, Hang, Pause, plain

SLOW = [Pause(0.02), GOOD]


def sessions(tmp_path, *scripts, turns=3, think_s=0.0, **changes) -> Left:
    defaults = {"offered_concurrency": 3, "window_s": 0.8}
    return run_cell(
        tmp_path, *(scripts or [SLOW]), sessions=Sessions(turns=turns, think_s=think_s), **(defaults | changes)
    )


def by_session(left: Left) -> list[list[RequestRecord]]:
    found: dict[int, list[RequestRecord]] = {}
    for record in sorted(left.records, key=lambda record: record.t_scheduled_ns):
        found.setdefault(record.session, []).append(record)
    return [found[session] for session in sorted(found)]


@pytest.mark.parametrize("think_s", [0.0, 0.06])
def test_turns_follow_in_order_each_after_the_last_ones_end_and_the_thinking(tmp_path, think_s):
    left = sessions(tmp_path, think_s=think_s)
    found = by_session(left)
    assert len(found) > 3
    for turns in found:
        assert [record.turn for record in turns] == list(range(len(turns)))
        assert len({record.slot for record in turns}) == 1
        for earlier, later in pairwise(turns):
            assert later.t_scheduled_ns >= earlier.t_closed_ns + (think_s - 0.002) * 1000 * MS
    assert sum(len(turns) == 3 for turns in found) >= len(found) - 3  # at most those under way at the end are short
    assert left.summary.conserved


def test_thinking_is_between_turns_and_not_between_sessions(tmp_path):
    left = sessions(tmp_path, turns=2, think_s=0.15, offered_concurrency=1, window_s=1.2)
    of_slot = sorted(left.records, key=lambda record: record.t_scheduled_ns)
    pauses_ms = [
        (earlier.turn, (later.t_scheduled_ns - earlier.t_closed_ns) / MS) for earlier, later in pairwise(of_slot)
    ]
    assert len(pauses_ms) > 4
    assert all(pause_ms >= 148 for turn, pause_ms in pauses_ms if turn == 0)
    assert min(pause_ms for turn, pause_ms in pauses_ms if turn == 1) < 75


def test_a_prompt_holds_the_turns_before_it_whatever_became_of_them(tmp_path):
    refused = [plain(500, b"{}")]
    left = sessions(
        tmp_path, [GOOD], refused, [GOOD], offered_concurrency=1, window_s=10.0, max_requests=6, guard=NO_ERROR_LIMIT
    )  # fmt: skip
    outcomes = [record.outcome for record in sorted(left.records, key=lambda record: record.index)]
    assert outcomes == [Outcome.OK, Outcome.SERVER_ERROR, *[Outcome.OK] * 4]
    intended = [record.intended_prompt_tokens for record in sorted(left.records, key=lambda record: record.index)]
    assert intended[0] < intended[1] < intended[2]
    assert intended[3] == intended[0]  # a new conversation
    assert left.summary.conserved


def test_a_stop_does_not_wait_for_the_thinking(tmp_path):
    left = sessions(tmp_path, think_s=30.0, window_s=0.4)
    assert [len(turns) for turns in by_session(left)] == [1, 1, 1]
    assert left.columns.end.complete


@pytest.mark.parametrize("expiry_s, kept", [(4.0, True), (0.05, False)])
def test_a_connection_that_expired_while_thinking_is_open_again_before_it_is_wanted(
    tmp_path, monkeypatch, expiry_s, kept
):
    monkeypatch.setattr(transport, "KEEPALIVE_EXPIRY_S", expiry_s)
    left = sessions(tmp_path, [GOOD], turns=50, think_s=0.15)
    assert left.outcomes.keys() == {Outcome.OK}
    assert (left.server.accepted == 3) == kept
    assert {record.connect_us for record in left.records} == {0}
    assert left.columns.health.connection_wait_share == 0.0


@pytest.mark.parametrize("end", [Hang(), Close()])
def test_a_server_that_stalls_or_hangs_up_is_not_a_client_that_waits_for_its_connection(tmp_path, end):
    """What has to be opened after it is the server's doing."""
    left = run_cell(
        tmp_path, [GOOD, end], [end], offered_concurrency=2, window_s=1.0, first_byte_timeout_s=0.2, guard=NO_ERROR_LIMIT
    )  # fmt: skip
    assert any(record.connect_us for record in left.records)
    assert left.columns.health.connection_wait_share == 0.0
