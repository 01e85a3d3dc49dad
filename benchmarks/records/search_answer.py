"""What a grid keeps of its capacity search, and what it says in one sentence. `searching` of the bench writes it."""

from __future__ import annotations

import msgspec

from benchmarks.stats.search import Observation


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a grid keeps of its search. `setting` is None where the search could not say; `reason` then says why.

    Counts are requests that were successful, valid and inside every limit, of all scheduled ones, in fresh measurements
    that did nothing but confirm.
    """

    setting: int | None
    at_limit: bool = False
    attained: Observation | None = None
    refused: Observation | None = None
    reason: str = ""
    held: int = 0
    failed: int | None = None
    attainment: float
    measurements: int


def read(kept: object) -> Answer | None:
    """From the JSON of a row; None while there is none, and for other modes."""
    return msgspec.convert(kept, Answer) if kept else None


def words(answer: Answer) -> str:
    """The answer in one sentence."""
    if answer.setting is None:
        top = f", and {answer.failed} did not" if answer.failed is not None else ""
        held = f"{answer.held} held{top}" if answer.held else f"nothing was shown to hold{top}"
        return f"Indeterminate: {answer.reason}. As far as it came, {held}."
    if answer.setting == 0:
        return "Not even 1 in flight holds, which was confirmed with fresh requests."
    if answer.at_limit:
        return (
            f"{answer.setting} in flight hold, confirmed. That is the highest setting allowed here; more was not tried."
        )
    return f"{answer.setting} in flight hold and {answer.setting + 1} do not, both confirmed with fresh requests."
