"""What goes with a setting: token and time limits, lanes, the overload answer, retries, cancellation, the way back."""

from __future__ import annotations

from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Headroom, PolicyLine, QueueCap, SettingRow


def policy(
    facts: GridFacts, chosen: SettingRow, room: Headroom, cap: QueueCap | None, rollback: SettingRow | None
) -> tuple[PolicyLine, ...]:
    return ()
