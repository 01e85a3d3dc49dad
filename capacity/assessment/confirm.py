"""The finalist in an open loop: a closed loop has no queue, so its tails are not what users feel."""

from __future__ import annotations

from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Answer, Confirmation, Headroom, QueueCap, SettingRow


def confirmation(facts: GridFacts, chosen: SettingRow, room: Headroom, cap: QueueCap | None) -> Confirmation:
    """What the confirming cells say, or what to draw."""
    return Confirmation(answer=Answer.NOT_TESTED, words="")
