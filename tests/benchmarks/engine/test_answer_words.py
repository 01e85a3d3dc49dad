"""Whatever an error event looks like, the record says why; found by mutated streams."""

from __future__ import annotations

import pytest

from benchmarks.engine.answer import Answer
from benchmarks.engine.dialects import openai_chat
from benchmarks.engine.sse import Parser
from benchmarks.engine.terms import Outcome


@pytest.mark.parametrize(
    "event, outcome, words",
    [
        (b'{"error":{"n_ctx":2048}}', Outcome.IN_STREAM_ERROR, "an error without a word why"),
        (b'{"error":{"message":"context exceeded"}}', Outcome.IN_STREAM_ERROR, "context exceeded"),
        (b'{"error":{"code":503}}', Outcome.REJECTED, "503"),
    ],
)
def test_an_error_event_leaves_a_word_why(event, outcome, words):
    answer = Answer()
    for found in Parser().feed(b"data: " + event + b"\n\n"):
        openai_chat.event(answer, found.data, found.kind, 1)
    assert answer.outcome() is outcome
    assert words in answer.detail


def test_a_whole_body_that_is_an_error_without_words_says_so():
    answer = Answer()
    openai_chat.whole([answer], b'{"error":{"mesn_ctx":2048}}', 1)
    assert (answer.outcome(), answer.detail) == (Outcome.IN_STREAM_ERROR, "an error without a word why")
