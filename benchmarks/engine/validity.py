"""Whether an answer is right, by the task that asked for it. A complete transport with a wrong answer is ok but not
valid."""

from __future__ import annotations

from benchmarks.engine.prompts import Prepared
from benchmarks.engine.tasks import RIGHT_BY_CONSTRUCTION as RIGHT_BY_CONSTRUCTION
from benchmarks.engine.tasks import TASKS


def is_valid(request: Prepared, answer: str) -> bool:
    """The validator of the request's task on the answer text (reasoning left out)."""
    return TASKS[request.task].check(request.expected, request.asked_output_tokens, answer)
