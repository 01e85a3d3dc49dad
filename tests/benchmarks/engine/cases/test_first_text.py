"""When the first text came, and what is none: cases of other tools' users, each with its kind.

Numbers such as `report 1` are the rows of this folder's README.
"""

from __future__ import annotations

import json
import math
from array import array

import pytest

from benchmarks.engine.terms import Outcome
from tests.benchmarks.engine.asking import ask, one
from tests.benchmarks.engine.cases.streams import SPELLINGS, chunks, line, text_choice
from tests.benchmarks.engine.cases.summing import short_of, summary_of
from tests.benchmarks.engine.plans import MS
from tests.benchmarks.engine.scripted import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
    Hang,
    Pause,
    Step,
    delta,
    event,
    finish,
    piece,
    plain,
    stream,
    usage,
)

THINKING = [name for name, spelling in SPELLINGS.items() if spelling.thought]
CHAT = SPELLINGS["openai_chat"]


def us(record) -> list[int]:
    return array("I", record.gaps_us).tolist()


# ── report 1, complaint 23: reasoning ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("thoughts", [1, 5])
@pytest.mark.parametrize("dialect", THINKING)
def test_reasoning_is_the_first_text_and_the_first_answer_is_told_apart(dialect, thoughts):
    """Report 1, complaint 23."""
    said = SPELLINGS[dialect]
    steps = [step for _ in range(thoughts) for step in (piece(said.thought), Pause(0.05))]
    record = one(said.head, piece(said.opening), *steps, piece(said.text + said.ending), LAST_CHUNK, dialect=dialect)
    assert record.outcome is Outcome.OK, record.detail
    assert record.t_answer_ns == record.t_last_ns
    assert record.t_answer_ns - record.t_first_ns >= thoughts * 48 * MS
    assert len(us(record)) == thoughts  # every thought is a chunk with text


FIELDS = [
    ({"reasoning": "hm"}, True), ({"reasoning_content": "hm"}, True), ({"reasoning": "hm", "reasoning_content": "hm"}, True),
    ({"reasoning": "", "content": None}, False), ({"reasoning_content": None}, False),
    ({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}, True),
    ({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}, True),
    ({"tool_calls": []}, False), ({"tool_calls": [{"index": 0, "id": "c1"}]}, False),
]  # fmt: skip


@pytest.mark.parametrize("fields, is_text", FIELDS, ids=[json.dumps(row[0]) for row in FIELDS])
def test_each_way_to_say_something_beside_the_answer_counts_and_an_empty_one_does_not(fields, is_text):
    """Report 1, complaint 23."""
    record = one(*chunks(CHAT, delta(**fields), CHAT.text, CHAT.ending, between=[Pause(0.005)]))
    assert (record.outcome, len(us(record))) == (Outcome.OK, 1 if is_text else 0)
    assert (record.t_first_ns == record.t_answer_ns) == (not is_text)


def test_an_answer_of_reasoning_alone_has_a_first_text_and_no_first_answer():
    """Complaint 23: it is no answer without tokens, and no zero."""
    record = one(stream(delta(reasoning="hm"), finish("length"), usage(8, 5), DONE))
    assert (record.outcome, record.output_tokens, record.t_answer_ns) == (Outcome.OK, 5, None)
    assert record.t_first_ns is not None


# ── complaint 1, report 21: what is no first text ──────────────────────────────────────────────────────────────────

NO_TEXT: dict[str, tuple[str, list[Step]]] = {
    f"{name}: what comes before any text": (name, [piece(said.opening)]) for name, said in SPELLINGS.items()
} | {
    "only the head": ("openai_chat", []),
    "a role": ("openai_chat", [piece(delta(role="assistant"))]),
    "a role with a null content": ("openai_chat", [piece(delta(role="assistant", content=None))]),
    "no choices": ("openai_chat", [piece(event({"choices": []}))]),
    "usage ahead of all": ("openai_chat", [piece(usage(8, 0))]),
    "one comment": ("openai_chat", [piece(b": ping\n\n")]),
    "heartbeats": ("openai_chat", [step for _ in range(5) for step in (piece(b": ping\n\n"), Pause(0.01))]),
    "empty comments and blank lines": ("openai_chat", [piece(b":\n\n\n\n")]),
    "a named ping": ("openai_chat", [piece(b"event: ping\ndata: {}\n\n")]),
    "an event without data": ("openai_chat", [piece(b"event: start\nid: 1\nretry: 10\n\n")]),
}  # fmt: skip


@pytest.mark.parametrize("dialect, before", NO_TEXT.values(), ids=NO_TEXT)
def test_nothing_but_text_ends_the_wait_for_the_first_text(dialect, before):
    """Complaint 1: a role chunk is no first token. Report 21: nor is a comment."""
    said = SPELLINGS[dialect]
    record = one(said.head, *before, Pause(0.1), piece(said.text), piece(said.ending), LAST_CHUNK, dialect=dialect)
    assert record.outcome is Outcome.OK, record.detail
    assert record.t_first_ns - record.t_headers_ns >= 99 * MS
    assert record.t_first_ns - record.t_sent_ns >= 99 * MS
    assert us(record) == []  # one chunk with text


@pytest.mark.parametrize("ping", [b": ping\n\n", b":\n\n", b":keep-alive\r\n\r\n", b"event: ping\n\n"])
@pytest.mark.parametrize(
    ("before", "outcome"), [([], Outcome.FIRST_BYTE_TIMEOUT), ([piece(CHAT.text)], Outcome.IDLE_TIMEOUT)]
)
def test_heartbeats_re_arm_no_limit(ping, before, outcome):
    """Report 21: a server that only sends comments is a silent one."""
    pings = [step for _ in range(30) for step in (piece(ping), Pause(0.03))]
    record = one(SSE_HEAD, *before, *pings, Hang(), first_byte_timeout_s=0.3, idle_timeout_s=0.3)
    assert record.outcome is outcome
    assert record.t_closed_ns - record.t_sent_ns < 1200 * MS


# ── report 26: two limits ──────────────────────────────────────────────────────────────────────────────────────────

LATE = [
    ("the head before its limit", [Pause(0.2), SSE_HEAD, piece(CHAT.text)], {"first_byte_timeout_s": 2.0, "idle_timeout_s": 0.1},
     Outcome.OK, ""),
    ("the head after it", [Pause(0.4), SSE_HEAD, piece(CHAT.text)], {"first_byte_timeout_s": 0.2, "idle_timeout_s": 5.0},
     Outcome.FIRST_BYTE_TIMEOUT, "client limit: 0.2 s to the first text"),
    ("the head in time and the text after it", [SSE_HEAD, Pause(0.4), piece(CHAT.text)],
     {"first_byte_timeout_s": 0.2, "idle_timeout_s": 5.0}, Outcome.FIRST_BYTE_TIMEOUT, "client limit: 0.2 s to the first text"),
    ("a pause in the text longer than the first limit", [SSE_HEAD, piece(CHAT.text), Pause(0.4), piece(CHAT.text)],
     {"first_byte_timeout_s": 0.2, "idle_timeout_s": 5.0}, Outcome.OK, ""),
    ("a pause in the text longer than its own", [SSE_HEAD, piece(CHAT.text), Pause(0.6), piece(CHAT.text)],
     {"first_byte_timeout_s": 5.0, "idle_timeout_s": 0.25}, Outcome.IDLE_TIMEOUT, "client limit: 0.25 s without an event"),
    ("text for longer than all of it may take", [SSE_HEAD, *[piece(CHAT.text), Pause(0.1)] * 8],
     {"total_timeout_s": 0.5}, Outcome.TOTAL_TIMEOUT, "client limit: 0.5 s in total"),
]  # fmt: skip


@pytest.mark.parametrize("steps, limits, outcome, words", [row[1:] for row in LATE], ids=[row[0] for row in LATE])
def test_the_wait_for_the_first_text_has_a_limit_of_its_own_and_is_told_as_the_clients(steps, limits, outcome, words):
    """Report 26: a slow first byte is no server fault, and the limit's value stands beside it."""
    record = one(*steps, piece(CHAT.ending), LAST_CHUNK, **limits)
    assert (record.outcome, record.detail) == (outcome, words)


# ── complaint 2: gaps ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("dialect", SPELLINGS)
def test_the_wait_for_the_first_text_is_in_no_gap(dialect, count):
    """Complaint 2: TTFT leaks into no time between chunks."""
    said = SPELLINGS[dialect]
    texts = [step for _ in range(count) for step in (piece(said.text), Pause(0.01))]
    record = one(said.head, piece(said.opening), Pause(0.3), *texts, piece(said.ending), LAST_CHUNK, dialect=dialect)
    gaps = us(record)
    assert len(gaps) == count - 1
    assert sum(gaps) == pytest.approx((record.t_last_ns - record.t_first_ns) / 1000, abs=count)
    assert record.t_first_ns - record.t_sent_ns >= 299 * MS


# ── report 11, complaints 3 and 46: no text at all ─────────────────────────────────────────────────────────────────

NOTHING = {
    "chat": ("openai_chat", [stream(delta(role="assistant", content=""), finish(), usage(8, 0), DONE)]),
    "chat, finished on its first chunk": ("openai_chat", [stream(finish(), DONE)]),
    "chat, null content": ("openai_chat", [stream(delta(content=None), finish("length"), DONE)]),
    "chat in one body": ("openai_chat", [plain(200, b'{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}')]),
    "chat in one body, null": ("openai_chat", [plain(200, b'{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}')]),
    "completions": ("openai_completions", [stream(text_choice("", "stop"), usage(8, 0), DONE)]),
    "Ollama": ("ollama_chat", chunks(SPELLINGS["ollama_chat"], line({"done": True, "done_reason": "stop", "eval_count": 0}))),
    "llama.cpp": ("llamacpp_completion", [stream(event({"content": "", "stop": True, "stop_type": "eos"}))]),
    "an embedding": ("openai_embeddings", [plain(200, b'{"data":[{"index":0,"embedding":[]}]}')]),
}  # fmt: skip


@pytest.mark.parametrize("dialect, script", NOTHING.values(), ids=NOTHING)
def test_an_answer_without_text_is_empty_and_has_no_time_of_a_first_text(dialect, script):
    """Report 11, complaint 3: null, neither zero nor a time since the epoch."""
    record = one(*script, dialect=dialect)
    assert (record.outcome, record.t_first_ns, record.t_answer_ns, record.t_last_ns) == (
        Outcome.EMPTY,
        None,
        None,
        None,
    )
    assert us(record) == []


@pytest.mark.parametrize("empty", [0, 1, 19, 20])
def test_answers_without_text_make_no_zero_in_any_time(empty):
    """Complaints 3 and 46: of twenty answers some are empty; times are of the others, the empty ones infinite beside."""
    good = [SSE_HEAD + piece(CHAT.text), Pause(0.002), piece(CHAT.ending) + LAST_CHUNK]
    records, _ = ask(*[NOTHING["chat"][1]] * empty, *[good] * (20 - empty), times=20)
    found = short_of(records)
    assert found.outcomes.get("empty", 0) == empty
    assert found.ttft_ok_s.p50.n == found.e2e_ok_s.p50.n == 20 - empty
    assert (found.ttft_ok_s.p50.value is None) == (empty == 20)
    assert found.ttft_ok_s.p50.value is None or found.ttft_ok_s.p50.value > 0
    assert found.e2e_s.p95.n == 20
    assert (found.e2e_s.p95.value == math.inf) == (empty > 1)


# ── complaint 41: one body ─────────────────────────────────────────────────────────────────────────────────────────

BODIES = {
    "openai_chat": {"choices": [{"index": 0, "message": {"content": "bebo loli"}, "finish_reason": "stop"}]},
    "openai_completions": {"choices": [{"index": 0, "text": "bebo loli", "finish_reason": "stop"}]},
    "ollama_chat": {"message": {"content": "bebo loli"}, "done": True, "done_reason": "stop"},
    "llamacpp_completion": {"content": "bebo loli", "stop": True, "stop_type": "eos"},
    "openai_embeddings": {"data": [{"index": 0, "embedding": [0.5]}]},
}


@pytest.mark.parametrize("cut", [False, True], ids=["in one read", "in many"])
@pytest.mark.parametrize("dialect", BODIES)
def test_without_streaming_there_is_an_end_and_no_first_text_however_early_the_head_came(dialect, cut):
    """Complaint 41."""
    raw = plain(200, json.dumps(BODIES[dialect]).encode())
    head, _, body = raw.partition(b"\r\n\r\n")
    steps = [head + b"\r\n\r\n", Pause(0.1), *[s for i in range(len(body)) for s in (body[i : i + 1], Pause(0))]]
    records, _ = ask(steps if cut else [raw], dialect=dialect, stream=False)
    record = records[0]
    assert (record.outcome, record.t_first_ns, us(record)) == (Outcome.OK, None, []), record.detail
    assert record.t_end_ns is not None
    found = summary_of(records, dialect=dialect, stream=False).of_class("short")
    assert (found.ttft_s.p50.n, found.tpot_s.p50.n, found.e2e_ok_s.p50.n) == (0, 0, 1)
