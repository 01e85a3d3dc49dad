"""Dialects as the wire drives them: recorded answers, lists and lines as bytes on a real socket, one record per item."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from benchmarks.engine.dialects.base import Ask
from benchmarks.engine.exchange import Due
from benchmarks.engine.prompts import Workload
from benchmarks.engine.terms import Outcome, Phase, RequestRecord
from benchmarks.engine.wire import Slot, Target
from tests.benchmarks.engine.asking import one
from tests.benchmarks.engine.dialects.test_recorded_answers import ANSWERS, ERRORS, OVERFLOW, STREAMS
from tests.benchmarks.engine.plans import MS, a_plan
from tests.benchmarks.engine.scripted import LAST_CHUNK, Close, Pause, Scripted, Step, piece, plain, stream

NDJSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
LINES = [
    {"message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": False},
    {"message": {"role": "assistant", "content": " be\u2028bo"}, "done": False},
    {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop", "eval_count": 2},
]
OLLAMA = [json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in LINES]


@pytest.mark.parametrize("name, dialect, outcome, tokens, chunks, reason", ANSWERS, ids=[row[0] for row in ANSWERS])
def test_a_recorded_answer_is_the_same_over_the_wire(name, dialect, outcome, tokens, chunks, reason):
    record = one((STREAMS / name).read_bytes(), Close(), dialect=dialect)
    assert (record.outcome, record.finish_reason) == (outcome, reason), record.detail
    assert (record.prompt_tokens, record.output_tokens, record.cached_prompt_tokens) == tokens
    assert len(record.gaps_us) // 4 == max(chunks - 1, 0)
    assert (record.t_first_ns is None) == (chunks == 0)


@pytest.mark.parametrize("name, status, code, word, is_overload", ERRORS, ids=[row[0] for row in ERRORS])
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_embeddings", "ollama_chat"])
def test_a_recorded_error_is_refused_or_rejected(name, status, code, word, is_overload, dialect):
    record = one((STREAMS / name).read_bytes(), Close(), dialect=dialect)
    assert (record.outcome, record.http_status) == (Outcome.REJECTED if is_overload else Outcome.REFUSED, status)
    assert word in record.detail
    assert record.retry_after_s == (2.0 if is_overload else None)


def test_the_recorded_overflow_is_an_error_in_the_stream():
    events = (STREAMS / OVERFLOW).read_bytes().split(b"\n\n", 1)[1]
    record = one(stream(events))
    assert (record.outcome, record.detail) == (
        Outcome.IN_STREAM_ERROR, "Context size has been exceeded., server_error, 500",
    )  # fmt: skip


CUTS = {
    "in one read": [b"".join(OLLAMA)],
    "line by line": OLLAMA,
    "byte by byte": [bytes([byte]) for byte in b"".join(OLLAMA)],
    "without the last line's end": [b"".join(OLLAMA).rstrip()],
    "with CRLF": [b"".join(OLLAMA).replace(b"\n", b"\r\n")],
}


@pytest.mark.parametrize("pieces", CUTS.values(), ids=CUTS)
def test_lines_of_ollama_are_one_answer_however_they_arrive(pieces):
    record = one(NDJSON_HEAD, *[piece(data) for data in pieces], LAST_CHUNK, dialect="ollama_chat")
    assert (record.outcome, record.finish_reason, record.output_tokens) == (Outcome.OK, "stop", 2), record.detail
    assert len(record.gaps_us) == 4  # thinking and answer


def test_a_whole_body_in_place_of_a_stream_is_taken_as_it_is():
    whole = json.dumps(LINES[2] | {"message": {"content": "bebo"}}).encode()
    record = one(plain(200, whole), dialect="ollama_chat")
    assert (record.outcome, record.t_first_ns) == (Outcome.OK, None)


def asked_together(dialect: str, count: int, *steps: Step, **plan_changes) -> tuple[list[RequestRecord], dict]:
    """The records of a list of items in one request, and the body that was posted."""

    async def run() -> tuple[list[RequestRecord], dict]:
        async with Scripted([list(steps)]) as server:
            plan = a_plan(base_url=server.url, dialect=dialect, **plan_changes)
            target, workload = Target(plan), Workload(plan)
            items = [Due(workload.build(n), time.monotonic_ns(), Phase.WINDOW) for n in range(count)]
            asks = [
                Ask(
                    model=plan.model, messages=(), text=item.prepared.text, max_tokens=item.prepared.asked_output_tokens
                )
                for item in items
            ]
            slot = Slot(target)
            exchange = await slot.ask(items, target.dialect.body(asks))
            await slot.close()
            return exchange.records(), json.loads(server.bodies[0])

    return asyncio.run(run())


def choice(index: int, text: str, finish: str = "length") -> dict:
    return {"index": index, "text": text, "finish_reason": finish}


def test_items_of_a_list_have_a_record_each_and_their_own_outcome():
    choices = [choice(2, " c d"), choice(0, ""), choice(1, " b b")]
    body = json.dumps({"choices": choices, "usage": {"prompt_tokens": 24, "completion_tokens": 4}}).encode()
    records, posted = asked_together("openai_completions", 3, plain(200, body))
    assert (len(posted["prompt"]), posted["stream"]) == (3, False)
    assert [record.outcome for record in records] == [Outcome.EMPTY, Outcome.OK, Outcome.OK]
    assert [record.index for record in records] == [0, 1, 2]
    assert {(record.output_tokens, record.t_first_ns) for record in records} == {(None, None)}


def test_one_vector_that_is_wrong_fails_its_own_item():
    data = [{"index": 0, "embedding": [None]}, {"index": 1, "embedding": [0.5]}]
    records, posted = asked_together("openai_embeddings", 2, plain(200, json.dumps({"data": data}).encode()))
    assert set(posted) == {"model", "input"}
    assert [record.outcome for record in records] == [Outcome.MALFORMED, Outcome.OK]
    assert [record.valid for record in records] == [None, None]  # nothing was asked that an embedding could answer


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (plain(503, b'{"error": "server busy"}'), Outcome.REJECTED),
        (plain(500, b"{}"), Outcome.SERVER_ERROR),
        (plain(200, b'{"choices": [], "data": []}'), Outcome.MALFORMED),
        (plain(200, b'{"error": {"message": "boom"}}'), Outcome.IN_STREAM_ERROR),
    ],
)
@pytest.mark.parametrize("dialect", ["openai_completions", "openai_embeddings"])
def test_what_fails_a_list_fails_each_of_its_items(answer, outcome, dialect):
    records, _ = asked_together(dialect, 3, answer)
    assert [record.outcome for record in records] == [outcome] * 3
    assert all(record.detail for record in records)


def test_headers_and_role_that_come_early_are_no_first_token():
    role = b'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
    text = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
    head, _, _ = stream(b"").partition(b"\r\n\r\n")
    record = one(head + b"\r\n\r\n", Pause(0.1), piece(role), Pause(0.1), piece(text), LAST_CHUNK)
    assert record.outcome is Outcome.OK
    assert record.t_first_ns - record.t_headers_ns >= 199 * MS
    assert record.t_first_ns - record.t_sent_ns >= 199 * MS
