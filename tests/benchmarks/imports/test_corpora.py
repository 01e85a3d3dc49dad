"""A corpus of prompts is known in every form it comes in; a trace, a configuration and a header are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.imports.corpora import corpus_fault
from benchmarks.imports.trace_text import ONLY_SYNTHETIC, TraceRefused
from benchmarks.records.trace_drafts import draft_of
from tests.benchmarks.imports.files import csv, file, jsonl, own

CHAT = [{"role": "user", "content": "What is a bank?"}]
PROSE = (
    b"It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness. "
    * 3
)


def whole(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent).encode()


CORPORA = {
    "chats, one a line": jsonl({"messages": CHAT}, {"messages": CHAT}),
    "prompts, one a line": jsonl({"prompt": "Say hello", "id": 1}),
    "texts, one a line": jsonl({"id": 7, "text": "Hello there"}),
    "a list of chats": whole([{"id": "a", "conversations": [{"from": "human", "value": "Hi there"}]}]),
    "a list of chats over many lines": whole([{"id": "a", "conversations": [{"from": "human", "value": "Hi there"}]}], 2),
    "a list inside an object": whole({"version": 1, "data": [{"question": "Why?", "id": 1}]}),
    "a list of texts": whole(["Say hello", "Say goodbye"]),
    "instructions": jsonl({"instruction": "Write a poem", "input": "", "output": "Roses are red"}),
    "one chat": whole({"messages": CHAT}),
    "a file that was cut": whole([{"messages": CHAT}] * 3)[:-20],
    "a sheet of prompts": csv("id,prompt,response", "1,What is a bank?,A bank is"),
    "a sheet with semicolons": csv("prompt;answer", "What is a bank?;A bank is"),
    "short questions in a sheet": csv("question,prompt_tokens,output_tokens", "Why?,3,4"),
    "running text": PROSE,
}  # fmt: skip


@pytest.mark.parametrize("data", CORPORA.values(), ids=CORPORA.keys())
def test_a_corpus_is_refused_with_the_reason_wherever_a_trace_is_read(data: bytes) -> None:
    fault = corpus_fault(data)
    assert fault is not None
    assert fault.endswith(ONLY_SYNTHETIC)
    with pytest.raises(TraceRefused) as refused:
        draft_of(data)
    assert "Only synthetic prompts are ever sent" in str(refused.value)


@pytest.mark.parametrize(
    "data",
    [
        own((5, 9), (7, 11), times=(0.0, 1.0)),
        csv("prompt,output", "12,40", "9,7"),
        jsonl({"timestamp": 0, "input_length": 9, "output_length": 9, "hash_ids": [1]}),
        whole({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "context": "no text", "hidden_size": 64}),
        whole({"model_type": "qwen2_vl", "text_config": {"hidden_size": 64}}, 2),
        b"GGUF\x03\0\0\0\0prompt text of a tokeniser", b"", b"   ", b"\xff\xfe\0\0", b"[" * 5000, b"{", b"a,b",
        b"1 2 3\n4 5 6\n" * 90,
        b"p0 10, p50 180, p100 900",
    ],
)  # fmt: skip
def test_what_is_no_corpus_is_not_called_one(data: bytes) -> None:
    assert corpus_fault(data) is None


def test_no_public_trace_is_called_a_corpus() -> None:
    from pathlib import Path

    folder = Path(__file__).parents[2] / "data" / "traces"
    files = [one for one in folder.iterdir() if one.suffix in (".csv", ".jsonl", ".json")]
    assert files
    assert [one.name for one in files if corpus_fault(file(one.name))] == []
