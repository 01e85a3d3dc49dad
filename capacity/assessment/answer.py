"""What a question of the judge may be answered with."""

from __future__ import annotations

from enum import StrEnum


class Answer(StrEnum):
    """Five answers and no sixth. Only FAILS and NOT_TESTED keep a setting out of the safe set or a grade from Complete."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_APPLICABLE = "not applicable"
    NOT_TESTED = "not tested"
    NOT_REPORTED = "not reported"
