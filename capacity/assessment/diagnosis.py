"""The seven classic mistakes, each looked for by rule, with its evidence and its remedy."""

from __future__ import annotations

from collections.abc import Sequence

from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Finding, SettingRow


def findings(facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow | None) -> tuple[Finding, ...]:
    """Seven findings, always in the same order."""
    return ()
