"""A statement says what was asked, and whether a prefix cache could help: warm is not cold."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.models import Workload
from capacity import documents

WORDS = ("Task", "Words of a fixed vocabulary (right by construction)")


@pytest.mark.parametrize(
    "fields, facts",
    [
        ({}, [WORDS, ("Prompts begin", "each its own, so no prefix cache helps")]),
        (
            {"shared_prefix_share": 0.25},
            [WORDS, ("Prompts begin", "25\u00a0% of each is the same text, which a prefix cache serves (declared)")],
        ),
        (
            {"task": "json", "turns": 3, "think_s": 2.5},
            [
                ("Task", "One JSON object to a schema"),
                ("Prompts begin", "each its own, so no prefix cache helps the first turn"),
                ("Conversations", "3 turns, 2.5 s between them; each prompt holds all turns before it"),
            ],
        ),
    ],
)
def test_a_statement_says_how_prompts_begin_and_what_they_ask(
    fields: dict[str, Any], facts: list[tuple[str, str]]
) -> None:
    assert [(fact.label, fact.text) for fact in documents._prompts(Workload(**fields))] == facts
