"""How many tokens, by whose count, and how fast: cases of other tools' users, each with its kind.

Numbers such as `report 4` are the rows of this folder's README.
"""

from __future__ import annotations

import json
import math
from itertools import accumulate, cycle, islice

import msgspec
import pytest

from benchmarks.engine.plan import Fixed
from benchmarks.engine.terms import Outcome, TokenSource
from tests.benchmarks.engine.asking import ask, one
from tests.benchmarks.engine.cases.streams import SPELLINGS, chunks, line
from tests.benchmarks.engine.cases.summing import short_of, summary_of
from tests.benchmarks.engine.plans import MS, S, a_class, a_record
from tests.benchmarks.engine.scripted import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
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

TEXT = delta(content="bebo")
ENDED = {"index": 0, "delta": {}, "finish_reason": "stop"}


def running(tokens: int, text: str = "bebo", reason: str | None = None, prompt: int = 8) -> bytes:
    """A chunk that carries the count so far, as some servers send with each."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return event({"choices": [choice], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}})


# ── report 4: where usage stands ───────────────────────────────────────────────────────────────────────────────────

COUNTED = [
    ("on a last chunk with no choices", [TEXT, TEXT, finish(), usage(8, 50)], 50),
    ("on the chunk that ends", [TEXT, event({"choices": [ENDED], "usage": {"prompt_tokens": 8, "completion_tokens": 50}})], 50),
    ("on each chunk, the total so far", [running(n) for n in (10, 20, 50)] + [finish()], 50),
    ("on each chunk, and again at the end", [running(n) for n in (10, 20, 50)] + [finish(), usage(8, 50)], 50),
    ("null on each chunk but the last",
     [event({"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": None}), finish(), usage(8, 50)], 50),
    ("ahead of all, then the last word", [usage(8, 0), TEXT, finish(), usage(8, 50)], 50),
    ("corrected downwards", [running(60), running(50, reason="stop")], 50),
    ("twice the same", [TEXT, finish(), usage(8, 50), usage(8, 50)], 50),
    ("after [DONE]", [TEXT, finish(), DONE, usage(8, 50)], 50),
    ("never", [TEXT, TEXT, finish()], None),
    ("without a number", [TEXT, finish(), event({"choices": [], "usage": {}})], None),
    ("null", [TEXT, finish(), event({"choices": [], "usage": None})], None),
]  # fmt: skip


@pytest.mark.parametrize("events, tokens", [row[1:] for row in COUNTED], ids=[row[0] for row in COUNTED])
def test_the_last_count_of_the_server_stands_and_none_is_ever_added_to_another(events, tokens):
    """Report 4; report 7: without a count there is none, and its source says so."""
    record = one(stream(*events, DONE))
    assert (record.outcome, record.output_tokens) == (Outcome.OK, tokens), record.detail
    assert record.token_source is (TokenSource.UNKNOWN if tokens is None else TokenSource.SERVER)


STRANGE = [
    {"choices": []}, {"choices": None}, {}, {"id": "x", "object": "chat.completion.chunk"}, {"choices": [{}]},
    {"choices": [{"index": 0}]}, {"choices": [{"index": 0, "delta": None}]}, {"choices": [{"index": 0, "delta": {}}]},
    {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}, {"choices": [], "error": None}, {"x": {"choices": 7}},
    {"choices": [{"index": 1, "delta": {"content": "of another"}}]},
]  # fmt: skip


@pytest.mark.parametrize("place", [0, 1, 2, 3], ids=["first", "in the text", "before the end", "last"])
@pytest.mark.parametrize("payload", STRANGE, ids=[json.dumps(payload) for payload in STRANGE])
def test_a_chunk_without_a_choice_is_borne_wherever_it_stands(payload, place):
    """Report 4."""
    events = [TEXT, TEXT, finish()]
    events.insert(place, event(payload))
    record = one(stream(*events, usage(8, 50), DONE))
    assert (record.outcome, record.output_tokens, len(record.gaps_us) // 4) == (Outcome.OK, 50, 1), record.detail


# ── reports 5 and 7: chunks are no tokens ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("per_chunk, count", [(1, 10), (5, 10), (50, 1)])
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("dialect", SPELLINGS)
def test_a_chunk_is_no_token_whatever_it_holds(dialect, told, per_chunk, count):
    """Report 5: the rate is that of counted tokens; report 7: where nobody counted there is no rate, and it says so."""
    said = SPELLINGS[dialect]
    text = said.text.replace(b"bebo", b"bebo " * per_chunk).replace(
        b'"tokens_predicted": 1', b'"tokens_predicted": null'
    )
    ending = said.ending.replace(b": 5", b": %d" % (per_chunk * count) if told else b": null")
    records, _ = ask([said.head + piece(text * count + ending) + LAST_CHUNK], dialect=dialect)
    assert records[0].output_tokens == (per_chunk * count if told else None), records[0].detail
    found = summary_of(records, dialect=dialect)
    assert found.of_class("short").token_sources == {"server" if told else "unknown": 1}
    assert found.output_tokens_per_s == (pytest.approx(per_chunk * count / found.window_s) if told else None)


def test_the_source_of_each_count_stands_beside_it():
    """Report 7, complaint 21: of three answers two were counted by the server; there is no rate of all."""
    records, _ = ask([stream(TEXT, finish(), usage(8, 2), DONE)], [stream(TEXT, finish(), DONE)], times=3)
    found = summary_of([*records[:2], msgspec.structs.replace(records[0], index=2)])
    assert found.of_class("short").token_sources == {"server": 2, "unknown": 1}
    assert (found.output_tokens_per_s, found.mixed_token_sources) == (None, False)


# ── report 28, complaints 38 and 42: time per token ────────────────────────────────────────────────────────────────

SIZES = list(islice(cycle((1, 2, 3, 4)), 40))  # a chunk of a speculating server holds one to four tokens: 100 in 40


@pytest.mark.parametrize("at_once", [False, True], ids=["usage at the end", "usage on each chunk"])
def test_time_per_token_is_of_tokens_and_the_time_between_chunks_is_named_so(at_once):
    """Report 28, complaint 42."""
    totals = list(accumulate(SIZES))
    events = [running(total) if at_once else TEXT for total in totals]
    steps: list[Step] = [step for one_event in events for step in (piece(one_event), Pause(0.003))]
    records, _ = ask([SSE_HEAD, *steps, piece(finish() + usage(8, 100) + DONE), LAST_CHUNK])
    record, found = records[0], short_of(records)
    span_s = (record.t_last_ns - record.t_first_ns) / S
    assert (record.output_tokens, record.first_chunk_tokens) == (100, 1 if at_once else None)
    assert found.tpot_ok_s.p50.value == pytest.approx(span_s / 99)
    assert (found.chunk_gap_s.n, found.chunk_gap_s.p50 > found.tpot_ok_s.p50.value) == (39, True)


@pytest.mark.parametrize("first", [1, 4, 99, 100])
def test_the_tokens_of_the_first_chunk_took_none_of_the_time_between(first):
    """Report 28: a server that tells them is believed; a first chunk that holds all leaves no time per token."""
    found = short_of([a_record(0, output_tokens=100, first_chunk_tokens=first)])
    assert found.tpot_ok_s.p50.value == (pytest.approx(0.090 / (100 - first)) if first < 100 else None)


# what other tools call it, seconds per token of one trace: sent at 0, 100 tokens in 50 chunks from 200 to 1190 ms, the
# end marker at 1240 ms, 128 tokens asked for
TRACE = a_record(
    0, t_scheduled_ns=0, t_sent_ns=0, t_headers_ns=MS, t_first_ns=200 * MS, t_answer_ns=200 * MS, t_last_ns=1190 * MS,
    t_end_ns=1240 * MS, t_closed_ns=1240 * MS, output_tokens=100, asked_output_tokens=128,
)  # fmt: skip
DEFINITIONS = [
    ("(last text - first text) / (counted tokens - 1)", 0.990 / 99, True),
    ("(latency - TTFT) / (tokens - 1), latency to the last text", (1.190 - 0.200) / (100 - 1), True),
    ("the same with latency to the end marker", (1.240 - 0.200) / (100 - 1), False),
    ("mean time between chunks", 0.990 / 49, False),
    ("by the tokens asked for", 0.990 / 127, False),
    ("latency / tokens", 1.190 / 100, False),
]


@pytest.mark.parametrize("value_s, is_ours", [row[1:] for row in DEFINITIONS], ids=[row[0] for row in DEFINITIONS])
def test_of_the_definitions_in_use_ours_is_one_and_no_other(value_s, is_ours):
    """Complaint 38: two tools differ by a factor of two on one trace, since one divides by chunks."""
    assert math.isclose(short_of([TRACE]).tpot_ok_s.p50.value, value_s, rel_tol=1e-9) == is_ours


# ── reports 27 and 33, complaints 10, 11 and 39: asked, intended, counted ──────────────────────────────────────────


@pytest.mark.parametrize("got, is_short", [(256, False), (244, False), (243, True), (20, True), (300, False)])
def test_an_answer_shorter_than_asked_is_counted_and_both_lengths_shown(got, is_short):
    """Report 27, complaint 39: the asked length never stands in for the one that came."""
    of_class = a_class(output_tokens=Fixed(256))
    records, _ = ask([stream(TEXT, finish(), usage(8, got), DONE)], times=3, classes=(of_class,))
    found = short_of(records, classes=(of_class,))
    assert (found.output_tokens_p50, found.asked_output_tokens_p50) == (got, 256)
    assert found.short_outputs == (3 if is_short else 0)


def test_a_server_that_refuses_the_option_is_told_apart_from_one_that_is_full():
    """Report 27: errors that grow with the length are no saturation; every class of error has a number of its own."""
    refused = plain(400, b'{"error": {"message": "ignore_eos is not permitted", "code": 400}}')
    records, _ = ask(
        [refused], [plain(503, b"{}")], [stream(TEXT, finish(), usage(8, 2), DONE)], times=3, ignore_eos=True
    )
    assert summary_of(records).outcomes == {"ok": 1, "rejected": 1, "refused": 1}
    assert "ignore_eos is not permitted" in records[0].detail


@pytest.mark.parametrize(
    "told, cut", [(8000, 0), (7600, 0), (7599, 1), (4096, 1), (0, 1), (None, 0), (40_000, 0)], ids=str
)
def test_a_prompt_counted_shorter_than_intended_was_cut(told, cut):
    """Report 33, complaints 10 and 11: intended 8,000, counted 4,096. More than intended is shown, not cut."""
    of_class = a_class(prompt_tokens=Fixed(8000))
    counts = event({"choices": [], "usage": {"prompt_tokens": told, "completion_tokens": 2}})
    records, _ = ask([stream(TEXT, finish(), counts, DONE)], classes=(of_class,))
    found = short_of(records, classes=(of_class,))
    assert (found.truncated_prompts, found.intended_prompt_tokens_p50, found.prompt_tokens_p50) == (cut, 8000, told)


@pytest.mark.parametrize("told, known", [({"prompt_eval_count": 8}, 8), ({}, None)])
def test_ollama_tells_no_prompt_count_where_all_was_cached_and_that_is_no_cut_prompt(told, known):
    """Report 33."""
    end = line({"message": {"content": "bebo"}, "done": True, "done_reason": "stop", "eval_count": 2} | told)
    records, _ = ask(chunks(SPELLINGS["ollama_chat"], end), dialect="ollama_chat")
    assert records[0].prompt_tokens == known
    assert short_of(records, dialect="ollama_chat").truncated_prompts == 0


def counted(**details: object) -> bytes:
    counts = {"prompt_tokens": 8, "completion_tokens": 2, "prompt_tokens_details": details or None}
    return finish() + event({"choices": [], "usage": counts})


CACHED = [
    ("openai_chat", counted(cached_tokens=7), 7),
    ("openai_chat", counted(cached_tokens=0), 0),
    ("openai_chat", counted(), None),
    ("openai_chat", finish() + usage(8, 2), None),
    ("llamacpp_completion", event({"content": "", "stop": True, "stop_type": "eos", "timings": {"cache_n": 7}}), 7),
    ("llamacpp_completion", event({"content": "", "stop": True, "stop_type": "eos"}), None),
    ("ollama_chat", line({"done": True, "done_reason": "stop", "eval_count": 2}), None),
]  # fmt: skip


@pytest.mark.parametrize("dialect, ending, cached", CACHED)
def test_what_the_server_took_from_its_cache_is_kept_where_it_says_so(dialect, ending, cached):
    """Report 34: a repeated prompt is 49 times faster. None told is not none taken."""
    said = SPELLINGS[dialect]
    record = one(*chunks(said, said.text, ending), dialect=dialect)
    assert (record.outcome, record.cached_prompt_tokens) == (Outcome.OK, cached), record.detail


# ── report 24, complaint 45: held back ─────────────────────────────────────────────────────────────────────────────

PACED = [SSE_HEAD, *[step for _ in range(30) for step in (piece(TEXT), Pause(0.004))]]
HELD = [SSE_HEAD, Pause(0.12), piece(TEXT * 30)]
HEAD_HELD = [Pause(0.12), SSE_HEAD + piece(TEXT * 30)]
HELD_HALF = [SSE_HEAD, Pause(0.06), piece(TEXT * 15), Pause(0.06), piece(TEXT * 15)]
FEW = [SSE_HEAD, Pause(0.12), piece(TEXT * 10)]
BURSTS = [
    ("paced", PACED, False), ("all at the end", HELD, True), ("head and all at the end", HEAD_HELD, True),
    ("half in the middle, half at the end", HELD_HALF, False), ("too few to tell", FEW, False),
]  # fmt: skip


@pytest.mark.parametrize("steps, buffered", [row[1:] for row in BURSTS], ids=[row[0] for row in BURSTS])
def test_an_answer_that_something_in_front_held_back_is_seen_and_not_graded(steps, buffered):
    """Report 24: most gaps under a millisecond and a first text at nearly the end."""
    records, _ = ask([*steps, piece(finish() + usage(8, 30) + DONE), LAST_CHUNK])
    found = short_of(records)
    assert (records[0].outcome, found.buffered) == (Outcome.OK, buffered)
    assert (found.ttft_ok_s.p50.value is None) == buffered
    assert found.e2e_ok_s.p50.value > 0.1


@pytest.mark.parametrize("tokens, too_fast", [(30, False), (4000, True), (100_000, True)])
def test_a_rate_that_no_sequence_is_decoded_at_is_counted_and_has_no_time_per_token(tokens, too_fast):
    """Complaint 45: 4 million tokens a second were a buffer being emptied."""
    rest = [step for _ in range(5) for step in (piece(TEXT * 40), Pause(0.004))]  # near 20 ms
    records, _ = ask([SSE_HEAD, piece(TEXT), *rest, piece(finish() + usage(8, tokens) + DONE), LAST_CHUNK])
    found = short_of(records)
    assert (found.impossible_rates, found.tpot_ok_s.p50.value is None) == ((1, True) if too_fast else (0, False))
    assert (found.success.hits, found.e2e_ok_s.p50.n) == (1, 1)
