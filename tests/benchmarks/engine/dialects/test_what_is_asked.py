"""Each dialect asks in its server's own words: greedy, so many tokens, streamed where that was wanted."""

from __future__ import annotations

import pytest

from benchmarks.engine.dialects.base import Framing, Message
from benchmarks.engine.dialects.table import DIALECTS, dialect_of
from tests.benchmarks.engine.dialects.hearing import an_ask, asked

TALK = (Message("user", "bebo"), Message("assistant", "loli"), Message("user", "teni"))
MESSAGES = [{"role": m.role, "content": m.content} for m in TALK]
USAGE = {"include_usage": True}

# dialect, what the ask says beside its defaults, the body
BODIES = [
    ("openai_chat", {"messages": TALK}, {
        "model": "m", "messages": MESSAGES, "max_tokens": 6, "temperature": 0.0, "stream": True, "stream_options": USAGE,
    }),
    ("openai_chat", {"messages": TALK, "stream": False, "ignore_eos": True}, {
        "model": "m", "messages": MESSAGES, "max_tokens": 6, "temperature": 0.0, "stream": False, "ignore_eos": True,
    }),
    ("openai_completions", {}, {
        "model": "m", "prompt": "bebo loli", "max_tokens": 6, "temperature": 0.0, "stream": True, "stream_options": USAGE,
    }),
    ("openai_completions", {"stream": False, "ignore_eos": True}, {
        "model": "m", "prompt": "bebo loli", "max_tokens": 6, "temperature": 0.0, "stream": False, "ignore_eos": True,
    }),
    ("openai_embeddings", {}, {"model": "m", "input": "bebo loli"}),
    ("ollama_chat", {"messages": TALK, "ignore_eos": True}, {
        "model": "m", "messages": MESSAGES, "stream": True, "options": {"num_predict": 6, "temperature": 0.0},
    }),
    ("ollama_chat", {"messages": TALK, "stream": False}, {
        "model": "m", "messages": MESSAGES, "stream": False, "options": {"num_predict": 6, "temperature": 0.0},
    }),
    ("llamacpp_completion", {}, {"prompt": "bebo loli", "n_predict": 6, "temperature": 0.0, "stream": True}),
    ("llamacpp_completion", {"stream": False, "ignore_eos": True}, {
        "prompt": "bebo loli", "n_predict": 6, "temperature": 0.0, "stream": False, "ignore_eos": True,
    }),
]  # fmt: skip


@pytest.mark.parametrize("name, changes, body", BODIES, ids=[f"{row[0]}-{n}" for n, row in enumerate(BODIES)])
def test_an_ask_becomes_the_body_that_its_server_understands(name, changes, body):
    assert asked(name, an_ask(**changes)) == body


def test_a_list_of_prompts_is_one_body_that_is_not_streamed_and_as_long_as_its_longest_item():
    several = [an_ask(text="bebo", max_tokens=3), an_ask(text="loli", max_tokens=9)]
    body = asked("openai_completions", *several)
    assert (body["prompt"], body["max_tokens"], body["stream"]) == (["bebo", "loli"], 9, False)
    assert "stream_options" not in body
    assert asked("openai_embeddings", *several) == {"model": "m", "input": ["bebo", "loli"]}


def test_what_each_dialect_offers_and_where_it_posts():
    offered = {name: (d.PATH, d.FRAMING, d.STREAMS, d.LISTS) for name, d in DIALECTS.items()}
    assert offered == {
        "openai_chat": ("/v1/chat/completions", Framing.SSE, True, False),
        "openai_completions": ("/v1/completions", Framing.SSE, True, True),
        "openai_embeddings": ("/v1/embeddings", Framing.SSE, False, True),
        "ollama_chat": ("/api/chat", Framing.NDJSON, True, False),
        "llamacpp_completion": ("/completion", Framing.SSE, True, False),
    }


def test_an_unknown_dialect_is_refused_with_the_names_there_are():
    with pytest.raises(KeyError, match="llamacpp_completion, ollama_chat, openai_chat"):
        dialect_of("grpc")
