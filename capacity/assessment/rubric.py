"""The grade as a total function of what was measured: computed, never set by hand."""

from __future__ import annotations

from collections.abc import Sequence

from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Confirmation, Finding, Grade, Rubric, SettingRow


def rubric(
    facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None, confirmed: Confirmation | None,
    findings: Sequence[Finding],
) -> Rubric:  # fmt: skip
    """One grade for every grid of facts, each criterion with its evidence and the next cell to run."""
    return Rubric(grade=Grade.UNGRADED, reason="")
