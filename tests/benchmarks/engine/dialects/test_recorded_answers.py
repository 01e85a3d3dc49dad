"""Every answer recorded from llama.cpp's own server and HAProxy comes to its outcome and its server-counted tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.engine.dialects.table import dialect_of
from benchmarks.engine.terms import Outcome, TokenSource
from tests.benchmarks.engine.dialects.hearing import MS, Recorded, counts, heard

STREAMS = Path(__file__).parents[3] / "data" / "streams"
LLAMA = "xllamacpp_b11549_"
CHAT, COMPLETIONS, NATIVE = "openai_chat", "openai_completions", "llamacpp_completion"

# file, dialect, outcome, (prompt, output, cached) tokens of the server, chunks with text, finish_reason
ANSWERS = [
    (LLAMA + "chat_nonstream.txt", CHAT, Outcome.OK, (24, 6, 23), 0, "length"),
    (LLAMA + "chat_stream_plain.txt", CHAT, Outcome.OK, (None, None, None), 6, "length"),
    (LLAMA + "chat_stream_timings_progress.txt", CHAT, Outcome.OK, (None, None, None), 6, "length"),
    (LLAMA + "chat_stream_usage.txt", CHAT, Outcome.OK, (24, 6, 0), 6, "length"),
    (LLAMA + "completions_stream.txt", COMPLETIONS, Outcome.OK, (2, 6, 0), 6, "length"),
    (LLAMA + "native_completion_stream.txt", NATIVE, Outcome.OK, (2, 6, 1), 6, "length"),
    (LLAMA + "max_tokens_zero.txt", CHAT, Outcome.OK, (24, 1, 23), 0, "length"),
    (LLAMA + "prompt_fits_output_beyond_ctx.txt", CHAT, Outcome.OK, (2019, 29, 0), 0, "length"),
    (LLAMA + "unknown_model.txt", CHAT, Outcome.OK, (24, 2, 23), 0, "length"),
]

# file, status, the server's code, a word of its reason, whether it means overload
ERRORS = [
    (LLAMA + "err_404.txt", 404, 404, "File Not Found", False),
    (LLAMA + "err_get_on_post.txt", 404, 404, "File Not Found", False),
    (LLAMA + "err_bad_json.txt", 400, 400, "parse_error", False),
    (LLAMA + "err_messages_type.txt", 400, 400, "to be an array", False),
    (LLAMA + "err_no_messages.txt", 400, 400, "is required", False),
    (LLAMA + "err_prompt_beyond_ctx.txt", 400, 400, "exceeds the available context size", False),
    (LLAMA + "err_prompt_beyond_ctx_stream.txt", 400, 400, "exceeds the available context size", False),
    (LLAMA + "max_tokens_negative.txt", 400, 400, "max_tokens", False),
    ("haproxy_503.http", 503, 503, "no slot within the queue limit", True),
]
OVERFLOW = "llamacpp_b11434_kvu_overflow_in_stream.txt"


def recorded(name: str) -> Recorded:
    return Recorded((STREAMS / name).read_bytes())


@pytest.mark.parametrize("name, dialect, outcome, tokens, chunks, reason", ANSWERS, ids=[row[0] for row in ANSWERS])
def test_a_recorded_answer_comes_to_its_outcome_and_its_counts(name, dialect, outcome, tokens, chunks, reason):
    answer = recorded(name).answer(dialect)
    assert answer.outcome() is outcome, answer.detail
    assert counts(answer) == tokens
    assert answer.token_source is (TokenSource.UNKNOWN if tokens[1] is None else TokenSource.SERVER)
    assert (len(answer.stamps), answer.finish_reason) == (chunks, reason)
    words = answer.answer_text.split()
    assert len(words) == (6 if tokens[1] is None else tokens[1])  # this model's words are one token each
    assert answer.t_end_ns is not None


@pytest.mark.parametrize("name, status, code, word, is_overload", ERRORS, ids=[row[0] for row in ERRORS])
def test_a_recorded_error_is_told_in_the_servers_words(name, status, code, word, is_overload):
    found = recorded(name)
    assert found.status == status
    for dialect in ("openai_chat", "openai_completions", "openai_embeddings", "ollama_chat", "llamacpp_completion"):
        failure = dialect_of(dialect).failure(found.body)
        assert (failure.code, failure.is_overload) == (code, is_overload)
        assert word in failure.text


def test_the_role_and_the_progress_of_a_prompt_are_no_first_token():
    found = recorded(LLAMA + "chat_stream_timings_progress.txt")
    answer = found.answer(CHAT)
    assert b"prompt_progress" in found.pieces[0]
    assert b"prompt_progress" in found.pieces[1]
    assert answer.t_first_ns == answer.t_answer_ns == 3 * MS  # the third piece holds the role and the first word


def test_running_counts_give_the_tokens_of_the_first_chunk_and_survive_a_cut():
    found = recorded(LLAMA + "native_completion_stream.txt")
    assert found.answer(NATIVE).first_chunk_tokens == 1
    cut = heard(NATIVE, *found.pieces[:4])
    assert (cut.outcome(), counts(cut)) == (Outcome.TRUNCATED, (2, 4, None))


def test_the_overflow_of_a_shared_pool_is_an_error_in_the_stream_and_keeps_its_words():
    raw = (STREAMS / OVERFLOW).read_bytes().split(b"\n\n", 1)[1]  # the recording begins inside an event
    answer = heard(CHAT, raw)
    assert (answer.outcome(), answer.finish_reason) == (Outcome.IN_STREAM_ERROR, None)
    assert answer.answer_text == " teni teni"
    assert answer.detail == "Context size has been exceeded., server_error, 500"


def test_the_tables_name_every_recording():
    named = {row[0] for row in ANSWERS} | {row[0] for row in ERRORS} | {OVERFLOW}
    assert {path.name for path in STREAMS.iterdir()} == named
