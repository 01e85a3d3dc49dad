"""What the judge answers of a static batch: when it is done at each batch size, and whether that is in time."""

from __future__ import annotations

import msgspec

from benchmarks.stats.estimates import Interval
from capacity.assessment import clock
from capacity.assessment.answer import Answer


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One batch size against the window. Times are seconds from the window's `start`; an upper end is the one-sided 95 %
    bound for one more run, None after a single one. `stated_` is with the outage that the objective states, in which
    `done_again` items at most are lost. `restarts` were in the measured runs, `restarts_left` still fit before the latest
    finish. `interactive` says by which limits interactive work would refuse this setting."""

    setting: int
    answer: Answer
    words: str
    start: str
    runs: int = 0
    items_per_s: Interval = Interval()
    finish_s: Interval = Interval()
    stated_finish_s: Interval = Interval()
    items_left: int = 0
    stated_items_left: int = 0
    done_again: int = 0
    restarts: int = 0
    restarts_left: int | None = None
    indicative: bool = False
    needs: int = 0
    interactive: tuple[str, ...] = ()
    remedy: str = ""
    cells: tuple[int, ...] = ()

    @property
    def finish(self) -> str:
        return _clock(self.start, self.finish_s.value)

    @property
    def latest(self) -> str:
        return _clock(self.start, self.finish_s.upper)

    @property
    def stated_finish(self) -> str:
        return _clock(self.start, self.stated_finish_s.value)

    @property
    def stated_latest(self) -> str:
        return _clock(self.start, self.stated_finish_s.upper)


def _clock(start: str, after_s: float | None) -> str:
    return "" if after_s is None else clock.at(start, after_s)


class BatchVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A static batch against its window. `finish_s` is from its start; `stated_` with the outage that the objective states.
    Its figures are those of `setting`, the smallest batch size that holds, else the one that is done first; `rows` has
    every batch size. `steps` say what a person does next."""

    answer: Answer
    words: str
    finish_s: Interval = Interval()
    stated_finish_s: Interval = Interval()
    allowed_s: float | None = None
    items_left: int = 0
    restarts: int = 0
    heading: str = ""
    setting: int | None = None
    rows: tuple[BatchRow, ...] = ()
    indicative: bool = False
    needs: int = 0
    asked: str = ""
    latest_finish: str = ""
    outage_s: float = 0.0
    cautions: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    @property
    def chosen(self) -> BatchRow | None:
        return next((row for row in self.rows if row.setting == self.setting), None)
