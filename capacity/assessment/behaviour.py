"""Gates from behaviour probes: fairness, cancellation, overload, recovery, retries, limits."""

from __future__ import annotations

from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Gate


def gates(facts: GridFacts, setting: int) -> list[Gate]:
    """What the probes say of this setting."""
    return []
