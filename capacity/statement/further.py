"""What a statement may say beside the comparison of settings: the confirming open loop, controls, criteria, diagnosis, cells."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Literal

from capacity.statement.parts import Absent, Conditions, Part, Rate, Signature, State, require

Answered = Literal["holds", "fails", "not tested", "not applicable", "not reported"]
Found = Literal["not found", "watch", "found", "not tested"]


class Share(Part, frozen=True, kw_only=True):
    """`hits` of `n`, with the two-sided 95 % interval where there is one."""

    hits: int
    n: int
    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        require(0 <= self.hits <= self.n, "A share is of at least as many as it counts.")


class Claim(Part, frozen=True, kw_only=True):
    """One limit in the open loop (same place in `Document.limits`), over all repeats.

    `value_s` is the percentile, `bound_s` its upper bound with `Confirmed.error_percent` for error, `p99_s` stands beside
    it. `n_effective` is how many independent requests the n are worth, `misses` how many were over the limit. `holds` is
    None where nothing was claimed: no request of the class was sent.
    """

    n: int
    value_s: float | None
    bound_s: float | None = None
    p99_s: float | None = None
    n_effective: int | None = None
    misses: int | None = None
    state: State = "measured"
    holds: bool | None = None

    def __post_init__(self) -> None:
        require(
            (self.value_s is not None) == (self.state == "measured"), "A tail has a value exactly when it was measured."
        )
        times = [time for time in (self.value_s, self.bound_s, self.p99_s) if time is not None]
        require(all(math.isfinite(time) and time >= 0 for time in times), "A time is a finite number of at least 0.")


class Confirmed(Part, frozen=True, kw_only=True):
    """The stated setting in an open loop: requests arrived at their own times, `rate_per_minute` of them, through a queue of
    at most `queue_cap`. Rate, refusals and tails of the statement are those of these cells.

    `refused` are of all that were scheduled, `accepted` the successes among the others.
    """

    grid: str
    rate_per_minute: float
    queue_cap: int
    repeats: int
    n: int
    successful_per_minute: Rate
    all_per_minute: float | None
    refused: Share
    accepted: Share
    claims: tuple[Claim, ...]
    peak_vram_bytes: int | Absent
    started_at: datetime
    ended_at: datetime
    authorised: tuple[Signature, ...]
    conditions: Conditions | None = None
    error_percent: float = 1

    def __post_init__(self) -> None:
        answers = [claim.holds for claim in self.claims]
        require(True in answers and False not in answers, "What confirms a setting keeps every limit that it claims.")
        require(
            self.started_at.tzinfo is not None and self.ended_at.tzinfo is not None, "Every time carries its offset."
        )
        require(bool(self.authorised), "Somebody authorised the confirming load.")
        require(self.rate_per_minute > 0 and self.queue_cap >= 0, "A confirmation has a rate and a queue cap.")


class Control(Part, frozen=True, kw_only=True):
    """One control that goes with the setting, in words, and where its figure comes from."""

    title: str
    value: str
    words: str = ""
    source: str = ""


class Criterion(Part, frozen=True, kw_only=True):
    """One line of the rubric and what was found."""

    title: str
    answer: Answered
    reason: str = ""


class Finding(Part, frozen=True, kw_only=True):
    """One of the classic mistakes, whether this measurement makes it, and by what that is known."""

    title: str
    found: Found
    settings: tuple[int, ...] = ()
    evidence: tuple[str, ...] = ()


class Cell(Part, frozen=True, kw_only=True):
    """One measured window, by the same name as in the evidence list. `good` are successful requests of the `n` scheduled;
    None is not recorded."""

    cell: str
    started_at: datetime | None
    window_s: float
    n: int
    answered: int
    good: int | None
    good_per_minute: float | None
