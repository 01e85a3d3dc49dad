"""Whether a window may be concluded from at all: every check of the method, each with its evidence and its remedy."""

from __future__ import annotations

from collections.abc import Sequence

from capacity.assessment.facts import CellFact, GridFacts
from capacity.assessment.verdict import Check


def checks(facts: GridFacts, cells: Sequence[CellFact]) -> tuple[Check, ...]:
    """Of the windows of one setting."""
    return ()
