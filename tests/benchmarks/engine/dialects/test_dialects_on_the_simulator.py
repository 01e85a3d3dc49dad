"""Each dialect asked of the simulated runtime over a real socket: tokens, counts, and stamps against the truth."""

from __future__ import annotations

import pytest

from benchmarks.engine.plan import CellPlan, Fixed
from benchmarks.engine.terms import Outcome, RequestRecord
from tests.benchmarks.engine.plans import a_class, a_plan
from tests.benchmarks.engine.simulated import simulator, truths
from tests.benchmarks.engine.slots import at_once

DIALECTS = ["openai_chat", "openai_completions", "ollama_chat", "llamacpp_completion"]


def a_cell(url: str, model: str, dialect: str, *, output_tokens: int = 10, **changes: object) -> CellPlan:
    of_class = a_class(prompt_tokens=Fixed(40), output_tokens=Fixed(output_tokens))
    return a_plan(**({"base_url": url, "model": model, "dialect": dialect, "classes": (of_class,)} | changes))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_token_of_every_dialect_has_a_stamp_no_earlier_than_its_sending(dialect: str) -> None:
    with simulator("--profile", "calibrate") as (url, model):
        records = at_once(a_cell(url, model, dialect), 8)
        known = truths(url)
    assert [record.outcome for record in records] == [Outcome.OK] * 8
    assert [(record.output_tokens, len(record.gaps_us) // 4) for record in records] == [(10, 9)] * 8
    assert [record.valid for record in records] == [True] * 8
    for record, truth in zip(records, sorted(known, key=lambda one: one.t_received_ns), strict=True):
        assert record.t_first_ns > truth.t_tokens_ns[0]
        assert record.t_last_ns > truth.t_tokens_ns[-1]
        assert record.t_headers_ns > truth.t_head_ns
        assert record.t_end_ns > truth.t_end_ns


# fault, dialect, chunks with text, tokens of the first chunk where usage or counts stand on every chunk
CHUNKED = [
    ("", "openai_chat", 10, 1),
    ("multi_token", "openai_chat", 3, 4),
    ("multi_token", "openai_completions", 3, 4),
    ("multi_token", "llamacpp_completion", 3, 4),
    ("multi_token", "ollama_chat", 3, None),
    ("reasoning", "openai_chat", 10, 1),
    ("reasoning", "ollama_chat", 10, None),
]


@pytest.mark.parametrize("fault, dialect, chunks, first", CHUNKED)
def test_tokens_are_counted_and_chunks_are_not_tokens(fault: str, dialect: str, chunks: int, first: int | None) -> None:
    faults = ["--fault", f"{fault}=1"] if fault else []
    with simulator("--continuous-usage", *faults) as (url, model):
        (record,) = at_once(a_cell(url, model, dialect), 1)
    assert (record.outcome, record.prompt_tokens, record.output_tokens) == (Outcome.OK, 40, 10)
    assert (len(record.gaps_us) // 4 + 1, record.first_chunk_tokens) == (chunks, first)
    # One read may bring the last of the reasoning and the first of the answer together, so they may share a stamp.
    assert record.t_answer_ns >= record.t_first_ns
    assert record.t_answer_ns == record.t_first_ns or fault == "reasoning"


def cached(records: list[RequestRecord]) -> list[tuple[int | None, int | None]]:
    return [(record.prompt_tokens, record.cached_prompt_tokens) for record in records]


@pytest.mark.parametrize(
    ("dialect", "shared", "expected"),
    [
        ("openai_chat", 0.5, [(40, 0), (40, 16)]),  # 20 shared words hold one block of 16
        ("openai_completions", 0.8, [(40, 0), (40, 32)]),
        ("llamacpp_completion", 0.8, [(40, 0), (40, 32)]),
        ("openai_chat", 0.0, [(40, 0), (40, 0)]),  # each begins with a marker of its own
        ("ollama_chat", 0.8, [(40, None), (40, None)]),  # not told
    ],
)
def test_what_was_cached_of_a_prompt_is_kept_as_told(dialect: str, shared: float, expected: list[object]) -> None:
    with simulator("--prefix-cache") as (url, model):
        records = [
            at_once(a_cell(url, model, dialect, shared_prefix_share=shared), 1, first=number)[0] for number in range(2)
        ]
    assert cached(records) == expected


@pytest.mark.parametrize("dialect", [*DIALECTS, "openai_embeddings"])
def test_without_streaming_there_is_an_answer_and_no_first_token(dialect: str) -> None:
    with simulator() as (url, model):
        (record,) = at_once(a_cell(url, model, dialect, stream=False), 1)
    counted = None if dialect == "openai_embeddings" else 10
    assert (record.outcome, record.prompt_tokens, record.output_tokens) == (Outcome.OK, 40, counted), record.detail
    assert (record.t_first_ns, record.gaps_us) == (None, b"")
    assert record.t_end_ns is not None
