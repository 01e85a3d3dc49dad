"""A static batch held to its window: when it is done, with its bound, and what an outage would leave."""

from __future__ import annotations

from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import BatchVerdict


def batch(facts: GridFacts) -> BatchVerdict | None:
    """None where the objective has no batch or the grid is none."""
    return None
