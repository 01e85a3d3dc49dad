"""Lines do not depend on how the network cut the bytes, nor on how the server ends them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.engine import sse
from benchmarks.engine.ndjson import Parser


def parse(*chunks: bytes) -> list[bytes]:
    parser = Parser()
    found = [event for chunk in chunks for event in parser.feed(chunk)] + parser.end()
    assert {event.kind for event in found} <= {b""}
    return [event.data for event in found]


CASES = [
    ("LF", b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    ("CRLF", b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}']),
    ("a last line without its end", b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}']),
    ("a last line with half its end", b'{"a":1}\r', [b'{"a":1}']),
    ("blank lines are nothing", b'\n\r\n  \t\n{"a":1}\n\n', [b'{"a":1}']),
    ("a CR inside a line does not end it", b'{"a":\r1}\n', [b'{"a":\r1}']),
    ("U+2028, U+0085, VT and FF do not end a line", "a\u2028b\u0085c\x0bd\x0ce\n".encode(), [
        "a\u2028b\u0085c\x0bd\x0ce".encode()
    ]),
    ("nothing", b"", []),
]  # fmt: skip


@pytest.mark.parametrize("raw, lines", [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_lines_of_a_stream_whole_and_byte_by_byte(raw, lines):
    assert parse(raw) == lines
    assert parse(*[raw[i : i + 1] for i in range(len(raw))]) == lines


STREAMS = st.lists(
    st.sampled_from([b'{"a":1}', b"x", b" ", b"\n", b"\r", b"\r\n", "\U0001f600\u2028".encode()]), max_size=30
).map(b"".join)


@given(STREAMS, st.data())
def test_any_split_of_any_stream_gives_the_same_lines(raw, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    assert parse(*[raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]) == parse(raw)


def test_a_line_waits_for_its_end_and_is_given_once():
    parser = Parser()
    assert parser.feed(b'{"a"') == []
    assert [event.data for event in parser.feed(b":1}\nrest")] == [b'{"a":1}']
    assert [event.data for event in parser.end()] == [b"rest"]
    assert parser.end() == []


def test_a_line_without_end_is_given_up_before_it_fills_the_memory():
    parser, half = Parser(), b"x" * (sse.MOST_EVENT_BYTES // 2)
    assert parser.feed(half) == parser.feed(half) == []
    with pytest.raises(sse.TooLongError, match="line of more than"):
        parser.feed(b"x")
