"""Bodies that come whole: an item of a list gets its own text or vector by index, or none."""

from __future__ import annotations

import base64
import json
import struct

import pytest

from benchmarks.engine.dialects.table import DIALECTS
from benchmarks.engine.terms import Outcome, TokenSource
from tests.benchmarks.engine.dialects.hearing import MS, counts, taken

OK, MALFORMED = Outcome.OK, Outcome.MALFORMED
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
BOOM = {"error": {"message": "boom", "code": 500}}
FULL = {"error": {"message": "queue is full", "code": 503}}


def choice(index: int, text: str, finish: str | None = "length") -> dict:
    return {"index": index, "text": text, "finish_reason": finish}


def vector(index: int, values: object) -> dict:
    return {"object": "embedding", "index": index, "embedding": values}


def packed(*values: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


# claim, choices, items, outcomes, texts
CHOICES = [
    ("one", [choice(0, " a")], 1, [OK], [" a"]),
    ("in order", [choice(0, " a"), choice(1, " b")], 2, [OK, OK], [" a", " b"]),
    ("out of order", [choice(1, " b"), choice(0, " a")], 2, [OK, OK], [" a", " b"]),
    ("one item empty", [choice(0, ""), choice(1, " b", "stop")], 2, [Outcome.EMPTY, OK], ["", " b"]),
    ("one item unfinished", [choice(0, " a", None), choice(1, " b")], 2, [Outcome.TRUNCATED, OK], [" a", " b"]),
    ("one item aborted", [choice(0, " a", "abort"), choice(1, " b")], 2, [Outcome.IN_STREAM_ERROR, OK], [" a", " b"]),
    ("one missing", [choice(1, " b")], 2, [MALFORMED, MALFORMED], ["", ""]),
    ("one too many", [choice(0, " a"), choice(1, " b")], 1, [MALFORMED], [""]),
    ("one twice", [choice(0, " a"), choice(0, " b")], 2, [MALFORMED, MALFORMED], ["", ""]),
    ("an index beyond", [choice(0, " a"), choice(2, " b")], 2, [MALFORMED, MALFORMED], ["", ""]),
    ("none", [], 2, [MALFORMED, MALFORMED], ["", ""]),
]


@pytest.mark.parametrize("choices, items, outcomes, texts", [r[1:] for r in CHOICES], ids=[r[0] for r in CHOICES])
def test_choices_of_a_list_find_their_items(choices, items, outcomes, texts):
    answers = taken("openai_completions", {"choices": choices, "usage": USAGE}, items=items)
    assert [answer.outcome() for answer in answers] == outcomes
    assert [answer.answer_text for answer in answers] == texts
    assert {answer.t_first_ns for answer in answers} == {None}  # nothing is known of a first token
    assert {answer.t_end_ns for answer in answers if answer.outcome() is OK} <= {5 * MS}


def test_the_count_for_a_list_is_no_items_own():
    one = taken("openai_completions", {"choices": [choice(0, " a")], "usage": USAGE})[0]
    assert (counts(one), one.batch_output_tokens) == ((7, 5, None), None)
    two = taken("openai_completions", {"choices": [choice(0, " a"), choice(1, " b")], "usage": USAGE}, items=2)
    assert [counts(answer) for answer in two] == [(None, None, None)] * 2
    assert [(a.batch_prompt_tokens, a.batch_output_tokens) for a in two] == [(7, 5), (None, None)]
    assert {answer.token_source for answer in two} == {TokenSource.UNKNOWN}


def test_llama_cpps_count_for_a_list_is_its_first_items_alone():
    body = {"choices": [choice(1, " b"), choice(0, " a")], "usage": USAGE, "timings": {"predicted_n": 5}}
    two = taken("openai_completions", body, items=2)
    assert [counts(answer) for answer in two] == [(7, 5, None), (None, None, None)]
    assert [(a.batch_prompt_tokens, a.batch_output_tokens) for a in two] == [(None, None)] * 2


# claim, data, items, outcomes, a word of the first detail
VECTORS = [
    ("numbers", [vector(0, [0.5, -1.0])], 1, [OK], ""),
    ("whole numbers", [vector(0, [0, 1])], 1, [OK], ""),
    ("base64", [vector(0, packed(0.5, -1.0))], 1, [OK], ""),
    ("out of order", [vector(1, [1.0]), vector(0, [2.0])], 2, [OK, OK], ""),
    ("so large that their sum is not finite", [vector(0, [1.7e308, 1.7e308])], 1, [OK], ""),
    ("a null, which was a NaN", [vector(0, [0.5, None]), vector(1, [0.5, 1.0])], 2, [MALFORMED, OK], "not finite"),
    ("NaN in base64", [vector(0, packed(0.5, float("nan")))], 1, [MALFORMED], "not finite"),
    ("infinity in base64", [vector(0, packed(float("inf"), 1.0))], 1, [MALFORMED], "not finite"),
    ("opposite infinities", [vector(0, packed(float("inf"), float("-inf")))], 1, [MALFORMED], "not finite"),
    ("a number beyond all", b'{"data": [{"index": 0, "embedding": [1e999]}]}', 1, [MALFORMED], "not understood"),
    ("no base64", [vector(0, "?!")], 1, [MALFORMED], "base64"),
    ("base64 of half a float", [vector(0, base64.b64encode(b"12345").decode())], 1, [MALFORMED], "base64"),
    ("different dimensions", [vector(0, [1.0]), vector(1, [1.0, 2.0])], 2, [MALFORMED, MALFORMED], "dimensions: 1, 2"),
    ("no value", [vector(0, []), vector(1, [1.0])], 2, [Outcome.EMPTY, OK], "without a value"),
    ("one missing", [vector(0, [1.0])], 2, [MALFORMED, MALFORMED], "2 embeddings expected"),
    ("one too many", [vector(0, [1.0]), vector(1, [1.0])], 1, [MALFORMED], "1 embeddings expected"),
    ("one twice", [vector(0, [1.0]), vector(0, [1.0])], 2, [MALFORMED, MALFORMED], "index: 0, 0"),
    ("none", [], 1, [MALFORMED], "index: none"),
    ("vectors of vectors", [vector(0, [[1.0]])], 1, [MALFORMED], "not understood"),
]


@pytest.mark.parametrize("data, items, outcomes, word", [r[1:] for r in VECTORS], ids=[r[0] for r in VECTORS])
def test_embeddings_are_ok_when_all_came_of_one_dimension_and_finite(data, items, outcomes, word):
    body = data if isinstance(data, bytes) else {"object": "list", "data": data, "usage": {"prompt_tokens": 7}}
    answers = taken("openai_embeddings", body, items=items)
    assert [answer.outcome() for answer in answers] == outcomes
    assert word in answers[0].detail
    assert [bool(answer.detail) for answer in answers] == [outcome is not OK for outcome in outcomes]


def test_an_embedding_has_no_finish_reason_no_first_token_and_no_output_tokens():
    answer = taken("openai_embeddings", {"data": [vector(0, [1.0])], "usage": {"prompt_tokens": 7}})[0]
    assert (answer.outcome(), answer.finish_reason, answer.t_first_ns) == (OK, None, None)
    assert (answer.t_end_ns, counts(answer), answer.answer_text) == (5 * MS, (7, None, None), "")


def ollama(content: str, *, done: bool = True, **fields: object) -> dict:
    return {"message": {"role": "assistant", "content": content}, "done": done} | fields


def chat(content: str | None, finish: str | None = "stop", **message: object) -> dict:
    return {"choices": [{"index": 0, "finish_reason": finish, "message": {"content": content, **message}}]}


# claim, dialect, body, outcome, counts
BODIES = [
    ("chat", "openai_chat", chat(" a") | {"usage": USAGE}, OK, (7, 5, None)),
    ("chat of reasoning only", "openai_chat", chat(None, reasoning="x"), OK, (None, None, None)),
    ("chat unfinished", "openai_chat", chat(" a", None), Outcome.TRUNCATED, (None, None, None)),
    ("Ollama", "ollama_chat", ollama(" a", done_reason="stop", prompt_eval_count=7, eval_count=5), OK, (7, 5, None)),
    ("Ollama thinking", "ollama_chat",
        {"message": {"thinking": "x"}, "done": True, "done_reason": "stop", "eval_count": 5}, OK, (None, 5, None)),
    ("Ollama not done", "ollama_chat", ollama(" a", done=False), Outcome.TRUNCATED, (None, None, None)),
    ("Ollama empty", "ollama_chat", ollama("", done_reason="stop"), Outcome.EMPTY, (None, None, None)),
    ("llama.cpp", "llamacpp_completion",
        {"content": " a", "stop": True, "stop_type": "limit", "tokens_predicted": 5, "tokens_evaluated": 7,
         "timings": {"cache_n": 2}}, OK, (7, 5, 2)),
    ("llama.cpp not stopped", "llamacpp_completion", {"content": " a"}, Outcome.TRUNCATED, (None, None, None)),
    ("llama.cpp empty", "llamacpp_completion",
        {"content": "", "stop": True, "stop_type": "eos"}, Outcome.EMPTY, (None, None, None)),
]  # fmt: skip


@pytest.mark.parametrize("name, body, outcome, tokens", [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_a_whole_body_comes_to_its_outcome_and_its_counts(name, body, outcome, tokens):
    answer = taken(name, body)[0]
    assert (answer.outcome(), counts(answer)) == (outcome, tokens), answer.detail
    assert (answer.t_first_ns, list(answer.stamps)) == (None, [])


@pytest.mark.parametrize("name", sorted(DIALECTS))
@pytest.mark.parametrize(
    ("body", "outcome", "word"),
    [
        (json.dumps(BOOM).encode(), Outcome.IN_STREAM_ERROR, "boom"),
        (json.dumps(FULL).encode(), Outcome.REJECTED, "queue is full"),
        (b'{"object": "error", "message": "flat", "code": 400}', Outcome.IN_STREAM_ERROR, "flat"),
        (b'{"cut', Outcome.MALFORMED, "not understood"),
        (b"", Outcome.MALFORMED, "not understood"),
        (b"[]", Outcome.MALFORMED, "not understood"),
        (b'{"x":' + b"[" * 100_000, Outcome.MALFORMED, "recursion"),
        (b'{"message": "\xff"}', Outcome.MALFORMED, "not understood"),
    ],
)
def test_a_body_that_is_an_error_or_no_body_fails_every_item(name, body, outcome, word):
    answers = taken(name, body, items=2 if DIALECTS[name].LISTS else 1)
    assert {answer.outcome() for answer in answers} == {outcome}
    assert all(word in answer.detail for answer in answers)
