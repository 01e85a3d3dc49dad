"""Whether an answer is right, by the task that asked for it. A complete transport with a wrong answer is ok but not
valid."""

from __future__ import annotations

import re

from benchmarks.engine.prompts import Prepared
from benchmarks.runtimes.vocabulary import WORD_SET

# Tasks that a random-weight model fulfils by construction; results name them so.
RIGHT_BY_CONSTRUCTION = frozenset({"words"})
WHOLE_NUMBER = re.compile(r"\d+")


def is_valid(request: Prepared, answer: str) -> bool:
    """The validator of the request's task on the answer text (reasoning left out)."""
    words = answer.split()
    if request.task == "words":
        return len(words) == request.asked_output_tokens and WORD_SET.issuperset(words)
    if request.task == "echo":
        return words == request.expected.split()
    return WHOLE_NUMBER.findall(answer.replace(",", ""))[-1:] == [request.expected]
