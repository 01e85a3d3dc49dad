"""Events do not depend on how the network cut the bytes, nor on how the server spells its lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.engine.sse import Event, Parser


def parse(*chunks: bytes) -> list[Event]:
    """Both ways that a read may go, the one for reads of a single event and the one for all, to the same events."""
    parser, short = Parser(), Parser()
    found, shorter = [], []
    for chunk in chunks:
        found += parser.feed(chunk)
        alone = short.one(chunk)
        shorter += [Event(alone)] if alone else short.feed(chunk)
    assert shorter == found
    return found


CASES = [
    ("data with a blank", b"data: a\n\n", [Event(b"a")]),
    ("data without a blank", b"data:a\n\n", [Event(b"a")]),
    ("only one blank is taken", b"data:  a\n\n", [Event(b" a")]),
    ("several lines are joined", b"data: a\ndata: b\n\n", [Event(b"a\nb")]),
    ("an empty data line is an event", b"data:\n\n", [Event(b"")]),
    ("data without a colon", b"data\n\n", [Event(b"")]),
    ("comments are nothing", b": ping\n\n:\n\ndata: a\n\n", [Event(b"a")]),
    ("other fields are nothing", b"id: 1\nretry: 5\nfoo: bar\ndata: a\n\n", [Event(b"a")]),
    ("a named event", b"event: error\ndata: a\n\ndata: b\n\n", [Event(b"a", b"error"), Event(b"b")]),
    ("CRLF", b"data: a\r\n\r\ndata: b\r\n\r\n", [Event(b"a"), Event(b"b")]),
    ("CR", b"data: a\r\rdata: b\r\r", [Event(b"a"), Event(b"b")]),
    ("mixed line ends", b"data: a\r\ndata: b\n\r\n", [Event(b"a\nb")]),
    ("a byte order mark", b"\xef\xbb\xbfdata: a\n\n", [Event(b"a")]),
    ("U+2028, U+2029, U+0085, VT and FF do not end a line", "data: a\u2028b\u2029c\u0085d\x0be\x0c\n\n".encode(), [
        Event("a\u2028b\u2029c\u0085d\x0be\x0c".encode())
    ]),
    ("an event without its blank line is discarded", b"data: a\n\ndata: b\n", [Event(b"a")]),
]  # fmt: skip


@pytest.mark.parametrize("raw, events", [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_events_of_a_stream_whole_and_byte_by_byte(raw, events):
    assert parse(raw) == events
    assert parse(*[raw[i : i + 1] for i in range(len(raw))]) == events


def test_a_carriage_return_at_the_end_of_a_read_makes_no_empty_line():
    assert parse(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [Event(b"a\nb")]


SHORT = [
    ("one event", b"data: a\n\n", b"a"), ("two", b"data: a\n\ndata: b\n\n", b""), ("two lines", b"data: a\ndata: b\n\n", b""),
    ("without a blank", b"data:a\n\n", b""), ("CRLF", b"data: a\r\n\r\n", b""), ("a CR inside", b"data: a\rb\n\n", b""),
    ("half an end", b"data: a\n", b""), ("no end", b"data: a", b""), ("a comment", b": data: a\n\n", b""),
    ("empty", b"data: \n\n", b""),
    ("a named one", b"event: e\ndata: a\n\n", b""), ("nothing", b"", b""), ("an end alone", b"\n\n", b""),
    ("its end first", b"\ndata: a", b""),
]  # fmt: skip


@pytest.mark.parametrize("read, alone", [row[1:] for row in SHORT], ids=[row[0] for row in SHORT])
def test_a_read_of_exactly_one_plain_event_takes_the_short_way_and_no_other(read, alone):
    parser = Parser()
    assert parser.one(read) == b""  # the first read may begin with a byte order mark
    parser.feed(b":\n")
    assert parser.one(read) == alone


@pytest.mark.parametrize("before", [b"data: x\n", b"event: e\n", b"da", b"data: x", b":", b"\xef\xbb"])
def test_what_has_begun_bars_the_short_way_until_it_has_ended(before):
    parser = Parser()
    assert parser.feed(before) == []
    assert parser.one(b"data: a\n\n") == b""
    parser.feed(b"\n\n")
    assert parser.one(b"data: a\n\n") == b"a"


STREAMS = st.lists(
    st.sampled_from(
        [
            b"data: x",
            b"data:",
            b": c",
            b"event: e",
            "data: \U0001f600\u2028".encode(),
            b"\n",
            b"\r",
            b"\r\n",
            b"\xef\xbb\xbf",
        ]
    ),
    max_size=30,
).map(b"".join)


@given(STREAMS, st.data())
def test_any_split_of_any_stream_gives_the_same_events(raw, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    chunks = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert parse(*chunks) == parse(raw)
