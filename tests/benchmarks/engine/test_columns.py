"""Columns hold what the log held: every field, in its order, on one clock, whatever the pieces it was read in."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine.column_types import MASKED_INTS, OUTCOMES, PHASES, PLAIN_INTS, Requests, texts_of
from benchmarks.engine.columns import AT_ONCE, from_frames, from_log
from benchmarks.engine.log import LogWriter
from benchmarks.engine.terms import BatchRecord, End, Outcome, Phase, Reading, RequestRecord, Resumed, Window
from tests.benchmarks.engine.plans import FAILED, MS, S, a_header, a_record

maybe = st.one_of(st.none(), st.integers(0, 2**62))
RECORDS = st.builds(
    RequestRecord,
    index=st.integers(0, 2**40),
    class_name=st.sampled_from(["short", "long", "é"]),
    phase=st.sampled_from(Phase),
    slot=st.integers(0, 4096),
    attempt=st.integers(1, 5),
    outcome=st.sampled_from(Outcome),
    t_scheduled_ns=st.integers(0, 2**62),
    intended_prompt_tokens=st.integers(0, 10**6),
    asked_output_tokens=st.integers(0, 10**6),
    finish_reason=st.one_of(st.none(), st.text(max_size=5)),
    retry_after_s=st.one_of(st.none(), st.floats(0, 1e6)),
    valid=st.one_of(st.none(), st.booleans()),
    resent=st.booleans(),
    detail=st.text(max_size=8),
    role=st.sampled_from([None, "", "fresh"]),
    gaps_us=st.lists(st.integers(0, 2**32 - 1), max_size=4).map(lambda gaps: array("I", gaps).tobytes()),
    **{name: maybe for name in MASKED_INTS if name != "valid"},
)


def rows_of(requests: Requests) -> list[dict[str, object]]:
    rows = []
    for row in range(len(requests)):
        found: dict[str, object] = {name: int(requests.plain[name][row]) for name in PLAIN_INTS}
        for name, masked in requests.masked.items():
            found[name] = int(masked.values[row]) if masked.known[row] else None
        for name, masked_floats in requests.masked_floats.items():
            found[name] = float(masked_floats.values[row]) if masked_floats.known[row] else None
        found |= {name: texts[row] for name, texts in requests.texts.items()}
        found["outcome"], found["phase"] = (
            OUTCOMES[requests.codes["outcome"][row]],
            PHASES[requests.codes["phase"][row]],
        )
        found["resent"] = bool(requests.resent[row])
        found["gaps_us"] = requests.gaps_us[requests.gap_offsets[row] : requests.gap_offsets[row + 1]].tolist()
        rows.append(found)
    return rows


def told(record: RequestRecord) -> dict[str, object]:
    names = (*PLAIN_INTS, *MASKED_INTS, "retry_after_s", "class_name", "finish_reason", "detail", "role", "resent")
    found = {name: getattr(record, name) for name in names}
    gaps = array("I", record.gaps_us).tolist()
    return found | {"outcome": record.outcome.value, "phase": record.phase.value, "gaps_us": gaps}


@given(st.lists(RECORDS, max_size=12), st.sampled_from([1, 2, 5, 4096]))
@settings(max_examples=150)
def test_every_field_comes_back_in_whatever_pieces_it_was_taken(records, at_once):
    requests = from_frames([a_header(), *records], at_once=at_once).requests
    assert rows_of(requests) == [told(record) for record in records]


def test_a_log_of_more_records_than_are_taken_at_once_is_whole(tmp_path):
    path = tmp_path / "x"
    with LogWriter(path) as writer:
        writer.append(a_header())
        for index in range(2 * AT_ONCE + 1):
            writer.append(a_record(index, slot=index % 7))
    requests = from_log(path).requests
    assert requests.plain["index"].tolist() == list(range(2 * AT_ONCE + 1))
    assert requests.plain["slot"][-1] == (2 * AT_ONCE) % 7


def test_words_are_kept_once_and_coded():
    texts = texts_of(["b", None, "a", "b"])
    assert (texts.codes.tolist(), texts.words) == ([0, -1, 1, 0], ("b", "a"))
    assert [*texts] == ["b", None, "a", "b"]
    assert texts.equal("b").tolist() == [True, False, False, True]
    assert texts.equal("c").tolist() == [False] * 4


# The first run's clocks were read at wall 1,796,000,000 s and monotonic 0; the second run began 100 s later, on a
# machine that was up for 3 s.
LATER = Resumed(wall_ns=1_796_000_100 * S, monotonic_ns=3 * S)


def test_what_follows_a_resumed_frame_is_moved_onto_the_first_clock():
    second = a_record(1, t_scheduled_ns=4 * S, t_sent_ns=4 * S + 1, t_end_ns=None, gathered_ns=5 * S)
    columns = from_frames(
        [
            a_header(),
            a_record(0, t_scheduled_ns=7),
            Reading(t_ns=8, name="n", value=1.0, source="s"),
            LATER,
            second,
            Reading(t_ns=3 * S, name="n", value=1.0, source="s"),
            BatchRecord(batch=1, items=1, t_gathered_ns=4 * S, t_sent_ns=None, t_end_ns=5 * S, outcome=Outcome.OK),
            Window(start_ns=3 * S, end_ns=6 * S),
            End(t_ns=7 * S, complete=True, reason="done", sent=2, planned=2),
        ]
    )
    requests, batches = columns.requests, columns.batches
    assert requests.plain["t_scheduled_ns"].tolist() == [7, 101 * S]
    assert requests.masked["t_sent_ns"].values.tolist() == [MS, 101 * S + 1]
    assert requests.masked["gathered_ns"].values.tolist() == [0, 102 * S]
    assert requests.masked["t_end_ns"].known.tolist() == [True, False]
    assert requests.masked["t_end_ns"].values.tolist()[1] == 0
    assert requests.masked["output_tokens"].values.tolist() == [11, 11]
    assert columns.readings.t_ns.tolist() == [8, 100 * S]
    assert (batches.plain["gathered_ns"].tolist(), batches.masked["t_end_ns"].values.tolist()) == ([101 * S], [102 * S])
    assert not batches.masked["t_sent_ns"].known.any()
    assert (columns.window, columns.end.t_ns) == (Window(start_ns=100 * S, end_ns=103 * S), 104 * S)
    assert (columns.end.sent, columns.end.planned, columns.resumed) == (2, 2, (LATER,))


def test_a_log_resumed_twice_is_still_on_the_first_clock():
    third = Resumed(wall_ns=1_796_000_200 * S, monotonic_ns=1 * S)
    frames = [a_header(), LATER, a_record(0, t_scheduled_ns=3 * S), third, a_record(1, t_scheduled_ns=2 * S)]
    assert from_frames(frames).requests.plain["t_scheduled_ns"].tolist() == [100 * S, 201 * S]


def test_the_first_header_stands_and_the_last_window():
    first, second = a_header(), a_header(a_header().plan)
    columns = from_frames([first, Window(start_ns=0, end_ns=1), second, Window(start_ns=0, end_ns=2)])
    assert columns.header is first
    assert columns.window.end_ns == 2


@pytest.mark.parametrize("name", ["batch", "session", "first_chunk_tokens"])
def test_a_column_that_nobody_filled_knows_nothing_and_costs_nothing(name):
    column = from_frames([a_header(), *[a_record(i) for i in range(100)]]).requests.masked[name]
    assert not column.known.any()
    assert column.values.strides == column.known.strides == (0,)


def test_a_failed_request_has_no_times_that_it_does_not_have():
    requests = from_frames([a_header(), a_record(0, outcome=Outcome.REJECTED, **FAILED)]).requests
    assert [requests.masked[name].known[0] for name in ("t_sent_ns", "t_first_ns", "valid")] == [True, False, False]
