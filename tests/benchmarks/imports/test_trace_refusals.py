"""What is not read, each with a sentence: texts, broken rows, what is too large, what is no trace."""

from __future__ import annotations

import gzip
import json

import pytest

from benchmarks.imports import trace_text
from benchmarks.imports.trace_layouts import Columns
from benchmarks.imports.trace_text import TraceRefused
from benchmarks.imports.traces import read_trace
from tests.benchmarks.imports.files import csv, jsonl, own

HEADER = "timestamp,prompt_tokens,output_tokens"
MOON = {"timestamp": 0, "input_length": 9, "output_length": 9, "hash_ids": [1]}


def refusal(data: bytes, **said: str) -> str:
    with pytest.raises(TraceRefused) as refused:
        read_trace(data, Columns(**said))
    return str(refused.value)


@pytest.mark.parametrize(
    "data",
    [
        csv("prompt,response", "What is a bank?,A bank is"),
        csv("id,question,prompt_tokens,output_tokens", "1,Why?,3,4"),
        jsonl({"messages": [{"role": "user", "content": "hi"}], "prompt_tokens": 3, "output_tokens": 4}),
        jsonl({"conversations": ["a"], "id": 1}),
        jsonl({"instruction": "Write", "input": "", "output": "x"}),
        csv("note,prompt_tokens,output_tokens", "x" * 201 + ",3,4"),
        csv(HEADER + ",note", "1,3,4,ok", f"2,3,4,{'x' * 201}"),
        jsonl({"note": "x" * 201, "prompt_tokens": 3, "output_tokens": 4}),
    ],
)
def test_a_file_with_prompts_or_answers_is_refused_with_the_reason(data: bytes) -> None:
    assert "Only synthetic prompts are ever sent" in refusal(data)


def test_a_column_called_like_a_text_that_holds_numbers_is_a_length() -> None:
    assert read_trace(csv("prompt,completion", "3,4")) is not None
    assert read_trace(csv("note,prompt_tokens,output_tokens", "x" * 200 + ",3,4")) is not None


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "The file is empty."),
        (b" \n\r\n", "The file is empty."),
        (b"\xff\xfe\x00a", "not a text file in UTF-8"),
        (b"a\0b", "holds zero bytes"),
        (b"PK\x03\x04\x80", "not a text file in UTF-8"),
        (gzip.compress(b"x" * 100)[:-12], "gzip file"),
        (b"\x1f\x8bnonsense", "The gzip file is damaged."),
        (b"[" + json.dumps(MOON).encode() + b"]", "one JSON list"),
        (csv(HEADER), "a line of names and no requests"),
        (csv("1,2,3", "4,5,6"), "The first line must name the columns"),
        (csv(HEADER, "1,2"), "Row 1 has 2 cells, the first line has 3."),
        (csv(HEADER, "1,2,3", "1,2,3,4"), "Row 2 has 4 cells, the first line has 3."),
        (csv(HEADER, "1,2,3", '1,"2,3'), "The CSV cannot be read"),
        (csv(HEADER, "1,2,3", "1,two,3"), "Row 2: “two” in the column “prompt_tokens” is not a whole number"),
        (csv(HEADER, "1,2.5,3"), "“2.5” in the column “prompt_tokens” is not a whole number"),
        (csv(HEADER, "1,-2,3"), "“-2” in the column “prompt_tokens” is not"),
        (csv(HEADER, "1,nan,3"), "“nan” in the column “prompt_tokens” is not"),
        (csv(HEADER, "1,2,1000001"), "from 0 to 1,000,000"),
        (csv(HEADER, "1,2,inf"), "“inf” in the column “output_tokens” is not"),
        (csv(HEADER, "1,2,3", "inf,2,3"), "Row 2: “inf” in the column “timestamp” is not a number."),
        (
            csv(HEADER, "2026-01-01 00:00:00,2,3", "yesterday,2,3"),
            "“yesterday” in the column “timestamp” is not a date",
        ),
        (csv(HEADER, "1,2,3", "3155760002,2,3"), "span more than a hundred years. Is s their unit?"),
        (csv(HEADER, "-1e308,2,3", "1e308,2,3"), "span more than a hundred years."),
        (csv(HEADER, "2026-01-01 00:00:00,2,3", "9999-01-01 00:00:00,2,3"), "is not a date with a time of day."),
        (csv(HEADER, "2026-13-01 00:00:00,2,3"), "A stamp of “timestamp” is no date"),
        (csv(HEADER, "2026-01-01 00:00:00,2,3", "2026-01-01 00:00:00Z,2,3"), "name their time zone and some do not"),
        (csv("prompt_tokens,Prompt Tokens,output_tokens", "1,2,3"), "Two columns of the file have the same name."),
        (csv("a,b", "1,2"), "Which column holds the prompt tokens? None was recognised. The file has: a, b."),
        (csv("prompt_tokens,b", "1,2"), "Which column holds the answer tokens?"),
        (own((5, 0), (0, 0), (7, 0)), "Every request in the file failed"),
        (jsonl(MOON, {"timestamp": 1}), "Line 2 and the first line differ: only one of them has “hash_ids”."),
        (jsonl(MOON) + b'\n{"timestamp": 1', "Line 2 is not a JSON object"),
        (jsonl(MOON) + b"\n[1]", "Line 2 is not a JSON object"),
        (b'{"a": ' + b"[" * 100_000, "is not a JSON object"),
        (jsonl(MOON | {"input_length": True}, MOON | {"input_length": None}), "is not a whole number"),
        (jsonl(MOON | {"hash_ids": 5}), "“hash_ids” must be a list of block numbers"),
        (jsonl(MOON | {"hash_ids": [[1]]}), "“hash_ids” must hold numbers only"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_what_is_wrong(data: bytes, said: str) -> None:
    assert said in refusal(data)


@pytest.mark.parametrize(
    "said, sentence",
    [
        ({"prompt": "x"}, "The file has no column “x”. It has: a, b, c."),
        ({"prompt": "a", "output": "b", "time": "x"}, "The file has no column “x”."),
        ({"prompt": "a", "output": "a"}, "must be three different columns"),
        (
            {"prompt": "a", "output": "b", "time": "c", "unit": "h"},
            "“h” is not a unit of time here: choose one of s, ms",
        ),
    ],
)
def test_columns_that_a_person_names_must_be_there(said: dict[str, str], sentence: str) -> None:
    assert sentence in refusal(csv("a,b,c", "1,2,3"), **said)


def test_limits_of_size_rows_and_width_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    three = own((1, 1), (2, 2), (3, 3))
    monkeypatch.setattr(trace_text, "MOST_BYTES", len(three))
    assert read_trace(three) is not None
    assert "MB are read. Cut it to its first lines." in refusal(three + b"\n")
    monkeypatch.setattr(trace_text, "MOST_BYTES", 10_000)
    monkeypatch.setattr(trace_text, "MOST_ROWS", 3)
    assert read_trace(three) is not None
    assert "more than 3 requests" in refusal(own(*((1, 1),) * 4))
    assert "more than 3 requests" in refusal(jsonl(*(MOON,) * 4))
    monkeypatch.setattr(trace_text, "MOST_LINE_CHARS", 30)
    assert "Line 2 has 31 characters." in refusal(csv("prompt_tokens,output_tokens", "1" * 31))


def test_a_packed_file_cannot_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_text, "MOST_TEXT_BYTES", 1000)
    assert "Unpacked, the file has more than" in refusal(gzip.compress(b"\n" * 1001))
    assert "The file is empty." in refusal(gzip.compress(b"\n" * 1000))
