"""Every dialect that llama.cpp's own server speaks, on the real thing: outcomes, texts, and its counts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from benchmarks.engine.answer import Answer
from benchmarks.engine.dialects.base import Ask, Message
from benchmarks.engine.dialects.table import dialect_of
from benchmarks.engine.plan import CellPlan, Fixed
from benchmarks.engine.terms import Outcome
from benchmarks.runtimes.vocabulary import WORD_SET, WORDS
from tests.benchmarks.engine.dialects.hearing import counts, heard, taken
from tests.benchmarks.engine.plans import a_class, a_plan
from tests.benchmarks.engine.slots import at_once, together
from tests.benchmarks.runtimes.llamacpp import serving, write_model

pytestmark = pytest.mark.real
CHAT, COMPLETIONS, NATIVE = "openai_chat", "openai_completions", "llamacpp_completion"
POOL_TOKENS, PROMPT_TOKENS = 512, 60


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    return path


@pytest.fixture(scope="module")
def url(model: Path) -> Iterator[str]:
    with serving(model, "--slots", "2", "--context-per-slot", "2048") as address:
        yield address


def an_ask(words: int, output_tokens: int, *, stream: bool = True, seed: int = 1) -> Ask:
    text = " " + " ".join(random.Random(seed).choices(WORDS, k=words))
    messages = (Message("user", text),)
    return Ask(model="headroom-tiny", messages=messages, text=text, max_tokens=output_tokens, stream=stream)


def asked(url: str, name: str, *asks: Ask) -> list[Answer]:
    """Posts what the dialect makes of the asks; the reads of a stream stand for milliseconds."""
    dialect = dialect_of(name)
    with httpx.stream("POST", url + dialect.PATH, content=dialect.body(asks), trust_env=False, timeout=60) as response:
        reads = list(response.iter_raw())
    assert response.status_code == 200, reads
    if response.headers["content-type"].startswith("application/json"):
        return taken(name, b"".join(reads), items=len(asks))
    return [heard(name, *reads)]


@pytest.mark.parametrize("name", [CHAT, COMPLETIONS, NATIVE])
@pytest.mark.parametrize(("words", "output_tokens"), [(1, 1), (40, 33)])
@pytest.mark.parametrize("stream", [True, False])
def test_counts_are_the_servers_and_equal_the_words(
    url: str, name: str, words: int, output_tokens: int, stream: bool
) -> None:
    (answer,) = asked(url, name, an_ask(words, output_tokens, stream=stream))
    text = answer.answer_text.split()
    assert answer.outcome() is Outcome.OK, answer.detail
    assert counts(answer)[:2] == (words, output_tokens)
    assert (len(text), set(text) <= WORD_SET) == (output_tokens, True)
    assert len(answer.stamps) == (output_tokens if stream else 0)
    assert answer.finish_reason == "length"


def test_the_same_ask_has_the_same_answer_in_every_dialect_and_either_way(url: str) -> None:
    texts = {
        asked(url, name, an_ask(20, 12, stream=stream))[0].answer_text
        for name in (CHAT, COMPLETIONS, NATIVE)
        for stream in (True, False)
    }
    assert len(texts) == 1  # temperature 0


def test_items_of_a_list_get_their_own_texts_though_the_server_counts_the_first_alone(url: str) -> None:
    asks = [an_ask(words, 5, seed=words) for words in (7, 3, 11)]
    answers = asked(url, COMPLETIONS, *asks)
    alone = [asked(url, COMPLETIONS, ask)[0].answer_text for ask in asks]
    assert [answer.outcome() for answer in answers] == [Outcome.OK] * 3
    assert [answer.answer_text for answer in answers] == alone
    assert [counts(answer)[:2] for answer in answers] == [(7, 5), (None, None), (None, None)]


def test_embeddings_come_whole_and_finite_each_by_its_text(model: Path) -> None:
    asks = [an_ask(words, 1, seed=words) for words in (7, 3)]
    with serving(model, "--slots", "2", "--embeddings") as address:
        answers = asked(address, "openai_embeddings", *asks)
        (one,) = asked(address, "openai_embeddings", asks[0])
    assert [answer.outcome() for answer in (*answers, one)] == [Outcome.OK] * 3
    assert (answers[0].batch_prompt_tokens, answers[0].batch_output_tokens) == (10, None)
    assert (counts(one), one.finish_reason) == ((7, None, None), None)


def test_a_server_without_embeddings_says_so(url: str) -> None:
    dialect = dialect_of("openai_embeddings")
    response = httpx.post(url + dialect.PATH, content=dialect.body([an_ask(3, 1)]), trust_env=False, timeout=60)
    failure = dialect.failure(response.content)
    assert (response.status_code, failure.code, failure.is_overload) == (501, 501, False)
    assert "does not support embeddings" in failure.text


@pytest.mark.parametrize("name", [CHAT, COMPLETIONS, NATIVE])
def test_a_shared_pool_that_overflows_fails_every_active_request_in_its_stream(model: Path, name: str) -> None:
    """Four prompts fit together, their answers do not: the server ends all four with an error after text."""
    with (
        serving(model, "--slots", "4", "--kv-unified", str(POOL_TOKENS)) as address,
        ThreadPoolExecutor(4) as pool,
    ):
        asks = [an_ask(PROMPT_TOKENS, POOL_TOKENS - PROMPT_TOKENS - 1, seed=seed) for seed in range(4)]
        answers = [found[0] for found in pool.map(lambda ask: asked(address, name, ask), asks)]
        after = asked(address, name, an_ask(PROMPT_TOKENS, 5))[0]
    assert [answer.outcome() for answer in answers] == [Outcome.IN_STREAM_ERROR] * 4
    assert {answer.detail for answer in answers} == {"Context size has been exceeded., server_error, 500"}
    assert [answer.finish_reason for answer in answers] == [None] * 4
    assert all(answer.stamps for answer in answers)
    held = sum(PROMPT_TOKENS + len(answer.stamps) for answer in answers)
    assert POOL_TOKENS * 0.8 < held <= POOL_TOKENS + 4
    assert after.outcome() is Outcome.OK


def test_a_prompt_beyond_the_context_is_refused_with_both_sizes(url: str) -> None:
    dialect = dialect_of(CHAT)
    response = httpx.post(url + dialect.PATH, content=dialect.body([an_ask(2100, 1)]), trust_env=False, timeout=60)
    failure = dialect.failure(response.content)
    assert (response.status_code, failure.code, failure.is_overload) == (400, 400, False)
    assert "2100 tokens" in failure.text


def a_cell(address: str, dialect: str, prompt_tokens: int, output_tokens: int, **changes: object) -> CellPlan:
    of_class = a_class(prompt_tokens=Fixed(prompt_tokens), output_tokens=Fixed(output_tokens))
    fields = {"base_url": address, "model": "headroom-tiny", "dialect": dialect, "classes": (of_class,)}
    return a_plan(**(fields | changes))


@pytest.mark.parametrize("name", [CHAT, COMPLETIONS, NATIVE])
@pytest.mark.parametrize("stream", [True, False])
def test_the_engines_own_wire_books_what_the_server_counts(url: str, name: str, stream: bool) -> None:
    records = at_once(a_cell(url, name, 30, 12, stream=stream), 4)
    assert [(one.outcome, one.valid) for one in records] == [(Outcome.OK, True)] * 4, records[0].detail
    assert [(one.prompt_tokens, one.output_tokens, one.finish_reason) for one in records] == [(30, 12, "length")] * 4
    assert [len(one.gaps_us) // 4 for one in records] == [11 if stream else 0] * 4
    assert [one.t_first_ns is None for one in records] == [not stream] * 4


@pytest.mark.parametrize("name", [CHAT, COMPLETIONS, NATIVE])
def test_the_engine_books_an_overflow_of_the_pool_as_an_error_in_every_stream(model: Path, name: str) -> None:
    with serving(model, "--slots", "4", "--kv-unified", str(POOL_TOKENS)) as address:
        records = at_once(a_cell(address, name, PROMPT_TOKENS, POOL_TOKENS - PROMPT_TOKENS - 1), 4)
    assert [one.outcome for one in records] == [Outcome.IN_STREAM_ERROR] * 4
    assert [(one.http_status, one.finish_reason, one.t_end_ns) for one in records] == [(200, None, None)] * 4
    assert all(one.t_first_ns is not None for one in records)


def test_a_head_before_the_prompt_is_read_is_no_first_token_and_waiting_is_in_the_ttft(model: Path) -> None:
    """One slot: the second request's head comes when the slot is free, its first text when its prompt has been read."""
    with serving(model, "--slots", "1", "--context-per-slot", "2048", "--batch", "64") as address:
        ahead, waited = at_once(a_cell(address, CHAT, 900, 30), 2)
    assert [one.outcome for one in (ahead, waited)] == [Outcome.OK] * 2
    for one in (ahead, waited):
        assert one.t_headers_ns is not None
        assert one.t_first_ns is not None
        assert one.t_headers_ns < one.t_first_ns
    assert waited.t_first_ns is not None
    assert ahead.t_last_ns is not None
    assert waited.t_first_ns > ahead.t_last_ns


def test_a_list_through_the_engines_own_wire_has_a_record_for_each_item(url: str) -> None:
    records = together(a_cell(url, COMPLETIONS, 12, 5), 6)
    assert [(one.outcome, one.valid) for one in records] == [(Outcome.OK, True)] * 6
    assert [one.output_tokens for one in records] == [5, *[None] * 5]  # this server counts the first item alone


def test_a_list_of_embeddings_through_the_engines_own_wire(model: Path) -> None:
    with serving(model, "--slots", "2", "--embeddings") as address:
        records = together(a_cell(address, "openai_embeddings", 12, 5), 6)
    assert [(one.outcome, one.valid, one.finish_reason) for one in records] == [(Outcome.OK, None, None)] * 6
    assert [one.t_end_ns is not None for one in records] == [True] * 6
