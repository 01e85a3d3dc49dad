"""What streams of each dialect come to: one outcome, the server's counts, the arrival of the first text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine.dialects.table import DIALECTS
from benchmarks.engine.terms import Outcome
from tests.benchmarks.engine.dialects.hearing import MS, counts, events, every_cut, heard, lines

DONE = b"data: [DONE]\n\n"
ENDLESS_NEST = b'data: {"x":' + b"[" * 100_000 + b"\n\n"


def delta(finish: str | None = None, **fields: object) -> dict:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def text(words: str = "", finish: str | None = None, **fields: object) -> dict:
    return {"choices": [{"index": 0, "text": words, "finish_reason": finish, **fields}]}


def usage(prompt: int, completion: int, **details: int) -> dict:
    found: dict[str, object] = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"choices": [], "usage": found | ({"prompt_tokens_details": details} if details else {})}


def said(content: str = "", **fields: object) -> dict:
    return {"model": "m", "message": {"role": "assistant", "content": content}, "done": False} | fields


def ended(reason: str | None = "stop", **fields: object) -> dict:
    return said(done=True, **({"done_reason": reason} if reason else {}), **fields)


def native(content: str = "", predicted: int = 1, **fields: object) -> dict:
    return {
        "index": 0,
        "content": content,
        "stop": False,
        "tokens_predicted": predicted,
        "tokens_evaluated": 2,
    } | fields


def tgi(words: str) -> dict:
    return {"error": {"message": words, "http_status_code": 422}}


SGLANG_FULL = {"error": {"message": "The request queue is full.", "code": 503, "type": "x"}}
BOOM = {"error": {"message": "boom", "type": "server_error", "code": 500}}
LAST = {"stop": True, "stop_type": "limit"}

# claim, dialect, payloads, outcome, a word of the detail
STREAMS = [
    ("an empty delta and the end, as Ollama's /v1 fails", "openai_chat",
        [delta(content="a"), delta(content="")], Outcome.TRUNCATED, "terminal marker"),
    ("SGLang's full queue under HTTP 200", "openai_chat", [SGLANG_FULL, DONE], Outcome.REJECTED, "queue is full"),
    ("TGI's overload, coded 422", "openai_chat", [tgi("Model is overloaded"), DONE], Outcome.REJECTED, "overloaded"),
    ("TGI's validation, coded 422", "openai_chat", [tgi("inputs must be short"), DONE], Outcome.IN_STREAM_ERROR, "short"),
    ("an error in words, as transformers sends it", "openai_chat",
        [delta(content="a"), {"error": "boom"}], Outcome.IN_STREAM_ERROR, "boom"),
    ("LMDeploy's parse_error is no end", "openai_chat",
        [delta(content="a"), delta("parse_error"), DONE], Outcome.IN_STREAM_ERROR, "parse_error"),
    ("vLLM's abort is no end", "openai_chat",
        [delta(content="a"), delta("abort"), DONE], Outcome.IN_STREAM_ERROR, "abort"),
    ("nesting without end", "openai_chat", [delta(content="a"), ENDLESS_NEST, DONE], Outcome.MALFORMED, "recursion"),
    ("a broken text in a field that chunks have not", "openai_chat",
        [b'data: {"choices": null, "detail": "\\ud800"}\n\n'], Outcome.MALFORMED, "not understood"),

    ("a completion", "openai_completions", [text("a"), text(finish="stop"), DONE], Outcome.OK, ""),
    ("a completion without [DONE]", "openai_completions", [text("a", "length")], Outcome.OK, ""),
    ("a completion of reasoning only", "openai_completions",
        [text(reasoning_content="a"), text(finish="stop"), DONE], Outcome.OK, ""),
    ("a completion cut off", "openai_completions", [text("a")], Outcome.TRUNCATED, "terminal marker"),
    ("[DONE] alone", "openai_completions", [text("a"), DONE], Outcome.TRUNCATED, "finish_reason"),
    ("a completion of nothing", "openai_completions", [text(finish="stop"), DONE], Outcome.EMPTY, "without content"),
    ("an error after text", "openai_completions", [text("a"), BOOM, DONE], Outcome.IN_STREAM_ERROR, "boom"),
    ("overload before text", "openai_completions", [SGLANG_FULL, DONE], Outcome.REJECTED, "queue is full"),
    ("overload after text", "openai_completions", [text("a"), SGLANG_FULL], Outcome.IN_STREAM_ERROR, "queue is full"),
    ("an event named error", "openai_completions", [b"event: error\ndata: bad\n\n"], Outcome.IN_STREAM_ERROR, "bad"),
    ("no JSON", "openai_completions", [b"data: {\n\n", text("a", "stop"), DONE], Outcome.MALFORMED, "not understood"),
    ("another's choice is not ours", "openai_completions",
        [{"choices": [{"index": 1, "text": "a", "finish_reason": "stop"}]}, DONE], Outcome.TRUNCATED, "finish_reason"),

    ("an answer of Ollama", "ollama_chat", [said("a"), ended()], Outcome.OK, ""),
    ("Ollama at its limit", "ollama_chat", [said("a"), ended("length")], Outcome.OK, ""),
    ("Ollama thinking only", "ollama_chat", [said(message={"thinking": "a"}), ended()], Outcome.OK, ""),
    ("Ollama calling a tool", "ollama_chat",
        [said(message={"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}), ended()], Outcome.OK, ""),
    ("Ollama's error under HTTP 200", "ollama_chat", [said("a"), {"error": "boom"}], Outcome.IN_STREAM_ERROR, "boom"),
    ("Ollama busy", "ollama_chat", [{"error": "server busy, please try again"}], Outcome.REJECTED, "server busy"),
    ("Ollama cut off", "ollama_chat", [said("a")], Outcome.TRUNCATED, "terminal marker"),
    ("Ollama done without a reason", "ollama_chat", [said("a"), ended(None)], Outcome.TRUNCATED, "finish_reason"),
    ("Ollama only loading", "ollama_chat", [ended("load")], Outcome.IN_STREAM_ERROR, "load"),
    ("Ollama saying nothing", "ollama_chat", [ended()], Outcome.EMPTY, "without content"),
    ("a line that is no JSON", "ollama_chat", [said("a"), "text", ended()], Outcome.MALFORMED, "not understood"),

    ("llama.cpp's own", "llamacpp_completion", [native(" a"), native(**LAST)], Outcome.OK, ""),
    ("its own end", "llamacpp_completion", [native(" a", stop=True, stop_type="eos")], Outcome.OK, ""),
    ("a stopping word", "llamacpp_completion", [native(" a", stop=True, stop_type="word")], Outcome.OK, ""),
    ("stop without a kind", "llamacpp_completion", [native(" a", stop=True)], Outcome.IN_STREAM_ERROR, "stop_type None"),
    ("llama.cpp's own cut off", "llamacpp_completion", [native(" a")], Outcome.TRUNCATED, "terminal marker"),
    ("llama.cpp's own error", "llamacpp_completion", [native(" a"), BOOM], Outcome.IN_STREAM_ERROR, "boom"),
    ("nothing predicted", "llamacpp_completion", [native(**LAST)], Outcome.EMPTY, "without content"),
    ("no JSON of llama.cpp", "llamacpp_completion", [b"data: {\n\n"], Outcome.MALFORMED, "not understood"),
]  # fmt: skip


def reads(name: str, payloads: list) -> list[bytes]:
    return lines(*payloads) if name == "ollama_chat" else events(*payloads)


@pytest.mark.parametrize("name, payloads, outcome, word", [row[1:] for row in STREAMS], ids=[row[0] for row in STREAMS])
def test_a_stream_comes_to_one_outcome(name, payloads, outcome, word):
    answer = heard(name, *reads(name, payloads))
    assert answer.outcome() is outcome
    assert word in answer.detail
    assert bool(answer.detail) == (outcome is not Outcome.OK)


# claim, dialect, payloads, (prompt, output, cached), tokens of the first chunk
COUNTED = [
    ("the last usage stands, never a sum", "openai_completions",
        [text("a") | usage(3, 1) | text("a"), text("b", "stop") | {"usage": usage(3, 2)["usage"]}, DONE],
        (3, 2, None), 1),
    ("usage on a chunk without choices", "openai_completions",
        [text("a"), text(finish="stop"), usage(9, 4, cached_tokens=8), DONE], (9, 4, 8), None),
    ("running totals give the first chunk's own", "openai_completions",
        [text("a b c") | {"usage": usage(3, 3)["usage"]}, text("d", "stop") | {"usage": usage(3, 4)["usage"]}, DONE],
        (3, 4, None), 3),
    ("no usage is unknown, not the number of chunks", "openai_completions",
        [text("a"), text("b", "stop"), DONE], (None, None, None), None),
    ("Ollama counts on its last line", "ollama_chat",
        [said("a"), ended(prompt_eval_count=7, eval_count=5)], (7, 5, None), None),
    ("Ollama tells no prompt that was cached", "ollama_chat",
        [said("a"), ended(eval_count=5)], (None, 5, None), None),
    ("llama.cpp counts as it goes and tells the cached part at the end", "llamacpp_completion",
        [native(" a b", 2), native(" c", 3), native("", 3, timings={"cache_n": 1}, **LAST)], (2, 3, 1), 2),
    ("the counts before an error are kept", "llamacpp_completion", [native(" a", 1), BOOM], (2, 1, None), 1),
]  # fmt: skip


@pytest.mark.parametrize("name, payloads, tokens, first", [row[1:] for row in COUNTED], ids=[row[0] for row in COUNTED])
def test_tokens_are_the_servers_count_or_unknown(name, payloads, tokens, first):
    answer = heard(name, *reads(name, payloads))
    assert (counts(answer), answer.first_chunk_tokens) == (tokens, first)


# claim, dialect, payloads a millisecond apart, first text of any kind, first text of the answer, last, end (ms)
TIMED = [
    ("thinking is first text but not first answer", "ollama_chat",
        [said(), said(message={"thinking": "x"}), said("a"), said("b"), ended()], (2, 3, 4, 5)),
    ("reasoning likewise", "openai_completions",
        [text(), text(reasoning="x"), text("a"), text(finish="stop"), DONE], (2, 3, 3, 5)),
    ("progress of the prompt is no text", "llamacpp_completion",
        [native("", 0, prompt_progress={"total": 9, "processed": 4}), native(" a"), native(**LAST)], (2, 2, 2, 3)),
    ("comments are no text", "openai_completions",
        [b": ping\n\n", b": ping\n\n", text("a", "stop"), DONE], (3, 3, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("name, payloads, at_ms", [row[1:] for row in TIMED], ids=[row[0] for row in TIMED])
def test_times_are_of_text_and_of_the_end_marker(name, payloads, at_ms):
    answer = heard(name, *reads(name, payloads))
    found = (answer.t_first_ns, answer.t_answer_ns, answer.t_last_ns, answer.t_end_ns)
    assert tuple(None if t is None else t // MS for t in found) == at_ms


def test_a_stream_where_a_body_was_due_is_malformed():
    answer = heard("openai_embeddings", *events({"data": []}))
    assert (answer.outcome(), "stream" in answer.detail) == (Outcome.MALFORMED, True)


@given(st.sampled_from([row for row in STREAMS if row[2] != [ENDLESS_NEST]]), st.data())
@settings(max_examples=60)
def test_any_split_of_any_stream_gives_the_same_answer(row, data):
    _, name, payloads, outcome, _ = row
    raw = b"".join(reads(name, payloads))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    whole, cut = heard(name, raw), heard(name, *every_cut(raw, cuts))
    assert cut.outcome() is whole.outcome() is outcome
    assert (cut.answer_text, counts(cut), len(cut.stamps)) == (whole.answer_text, counts(whole), len(whole.stamps))


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "content", "message", "done", "error", "usage", "index", "data", "stop"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(sorted(DIALECTS)), st.lists(JSONS, max_size=3))
@settings(max_examples=300)
def test_whatever_json_comes_an_answer_has_one_outcome_and_words_for_it(name, payloads):
    answer = heard(name, *reads(name, payloads))
    assert bool(answer.outcome() is Outcome.OK) != bool(answer.detail)
    json.dumps([answer.detail, answer.finish_reason])
