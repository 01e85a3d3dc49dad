"""What the judge answers: gates, one row per setting, and the verdict, which carries every sentence."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from benchmarks.stats.estimates import Estimate, Interval, Share
from capacity.assessment.answer import Answer as Answer
from capacity.assessment.batch_types import BatchVerdict as BatchVerdict
from capacity.assessment.policy_types import PolicyLine as PolicyLine
from capacity.assessment.queue_types import CapRow as CapRow
from capacity.assessment.queue_types import Claim as Claim
from capacity.assessment.queue_types import QueueCap as QueueCap

METHOD_VERSION = 2


class Stage(StrEnum):
    """Where an answer that is missing counts: it keeps the setting from being safe, or only the grade from Complete."""

    SAFE = "safe"
    GRADE = "grade"


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One question asked of one setting. `needs` counts the requests that are missing for a proof, `cells` are ids.

    What was tested and fails makes a setting unsafe at either stage; what was not tested does so at the stage *safe* only.
    `substitute` is what was looked at where the reading that the gate asks for is not reported.
    """

    key: str
    title: str
    answer: Answer
    reason: str
    remedy: str = ""
    cells: tuple[int, ...] = ()
    indicative: bool = False
    needs: int = 0
    stage: Stage = Stage.SAFE
    substitute: str = ""

    @property
    def blocks(self) -> bool:
        """Whether it keeps the setting out of the safe set."""
        return self.answer == Answer.FAILS or (self.answer == Answer.NOT_TESTED and self.stage == Stage.SAFE)

    @property
    def caps_grade(self) -> bool:
        """Whether it keeps the grade from Complete although it lets the setting be safe."""
        if self.answer == Answer.NOT_REPORTED:
            return not self.substitute
        return self.answer == Answer.NOT_TESTED and self.stage == Stage.GRADE


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Requests a minute with a two-sided 95 % interval; None is not measured, never zero."""

    value: float | None = None
    lower: float | None = None
    upper: float | None = None


class ClassRow(msgspec.Struct, frozen=True, kw_only=True):
    """One class at one setting, at the limit it is closest to (or furthest over). Seconds; ratios are to `limit_s`.

    `ratio` may be infinite: the percentile then falls among failed requests. `n` counts scheduled requests, `timed`
    those of them that have this time at all: an answer that was not streamed has none to its first token.

    `n_effective` is how many independent requests they are worth, `bound_s` the one-sided 95 % upper bound that the gate
    took, `bound_words` what it covers, `spread_share` the repeats' standard deviation over their mean; None for summaries
    that kept nothing to pool.
    """

    class_name: str
    in_mix: bool
    n: int
    repeats: int
    limit_name: str
    limit_s: float
    p50_s: float | None
    p95_s: float | None
    p95_lower_s: float | None
    p95_upper_s: float | None
    p99_s: float | None
    ratio: float | None
    ratio_lower: float | None
    ratio_upper: float | None
    answer: Answer
    indicative: bool
    needs: int
    timed: int = 0
    n_effective: int | None = None
    bound_s: float | None = None
    bound_words: str = ""
    spread_share: float | None = None

    @property
    def label(self) -> str:
        return f"{self.class_name} in the mix" if self.in_mix else self.class_name

    @property
    def untimed(self) -> bool:
        """Whether requests were sent and none of them has this time."""
        return self.n > 0 and self.timed == 0


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Peak memory of a setting. `peak_bytes` is None where nothing reported it; `words` says whose memory it is."""

    words: str
    peak_bytes: float | None = None
    limit_bytes: float | None = None
    is_vram: bool = False


class SettingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One setting for tables and charts. `good` and `completed` are requests a minute of the mix.

    `classes` holds each class at its tightest limit, `latency` at its first limit, the same at every setting.
    """

    setting: int
    n: int
    good: Rate
    completed_per_min: float | None
    output_tokens_per_s: float | None
    worst: ClassRow | None
    classes: tuple[ClassRow, ...]
    latency: tuple[ClassRow, ...]
    memory: Memory
    temperature_c: float | None
    waiting_peak: float | None
    gates: tuple[Gate, ...]
    safe: bool
    indicative: bool
    needs: int
    word: str
    reasons: tuple[str, ...]
    cells: tuple[int, ...]
    checks: tuple[Check, ...] = ()
    good_per_kwh: Interval = Interval()
    items_per_s: Interval = Interval()


class WhyNot(msgspec.Struct, frozen=True, kw_only=True):
    setting: int
    sentences: tuple[str, ...]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A setting's goodput as a ratio to that of the safe set's best. `decides`: the interval is narrow enough to tell the
    knee's share from as much as the best; `needs` is how many more repeats would make it so, None where nobody can say."""

    setting: int
    ratio: Interval
    decides: bool
    needs: int | None = None


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """Which safe setting was taken and by what. `indicative`: by the point ratio, since no interval could decide."""

    setting: int
    best: int
    compared: tuple[Compared, ...]
    indicative: bool
    words: str
    needs: int | None = None


class NotMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """A question from outside what was tested, whose answer is *not measured*. `settings` are those that a new grid would
    have to measure, empty where it is not a setting that is missing; `mode` is how it would load, `confirm` an open loop
    through a queue cap, of one of the settings that are measured."""

    key: str
    sentence: str
    offer: str = ""
    settings: tuple[int, ...] = ()
    mode: str = "closed"


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """`source` says where the share comes from; empty is the objective."""

    name: str
    share: float
    source: str = ""

    @property
    def words(self) -> str:
        return f"{100 * self.share:.0f}\u00a0% for {self.name}" + (f" ({self.source})" if self.source else "")


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """stated = min(measured x product of (1 - reserve), lower bound), requests a minute; less where less was confirmed or
    its queue holds less. `whence` names the one that decides, `decided_by` in few words."""

    measured_per_min: float
    after_reserves_per_min: float
    lower_bound_per_min: float | None
    stated_per_min: float
    reserves: tuple[Reserve, ...]
    words: str
    whence: str = "The stated rate, after headroom"
    decided_by: str = "Stated, after headroom"

    @property
    def kept(self) -> str:
        return ", ".join(reserve.words for reserve in self.reserves if reserve.share > 0) or "none asked"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One question asked of a window before anything is concluded from it. `substitute` is what was looked at where nobody
    could report what it asks for; without one such a check keeps the grade from Complete."""

    key: str
    title: str
    answer: Answer
    evidence: str
    remedy: str = ""
    cells: tuple[int, ...] = ()
    substitute: str = ""

    @property
    def caps_grade(self) -> bool:
        return self.answer == Answer.NOT_REPORTED and not self.substitute


class Found(StrEnum):
    """What a diagnosis says. NOT_TESTED blocks Complete."""

    NOT_FOUND = "not found"
    WATCH = "watch"
    FOUND = "found"
    NOT_TESTED = "not tested"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One of the seven classic mistakes in this measurement. `by_construction`: our method excludes it, which is no test.
    `next_cell` says what to run to know; `doc` is the page of the documentation. `settings` are those at which it was found
    or seen, none where it concerns the whole measurement; `blocks` is true where it touches the setting that is stated."""

    key: str
    title: str
    found: Found
    evidence: tuple[str, ...]
    remedy: str = ""
    next_cell: str = ""
    doc: str = ""
    cells: tuple[int, ...] = ()
    by_construction: bool = False
    settings: tuple[int, ...] = ()
    blocks: bool = False

    @property
    def word(self) -> str:
        """ "Found at 8 in flight": a mistake at one setting is not one of the others."""
        word = self.found.capitalize()
        if not self.settings or self.found in (Found.NOT_FOUND, Found.NOT_TESTED):
            return word
        return f"{word} at {', '.join(str(setting) for setting in self.settings)} in flight"


class Grade(StrEnum):
    """Computed, never set by hand. UNGRADED only where nothing was measured or the way of loading is not judged."""

    COMPLETE = "complete"
    NEEDS_REVISION = "needs revision"
    NOT_COMPLETE = "not complete"
    NO_SAFE_SETTING = "no safe setting found"
    UNGRADED = "ungraded"


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the rubric. Only HOLDS and NOT_APPLICABLE let a grade be Complete; else it is at most `band`. `next_cell`
    says what to run, `doc` is the page of the documentation."""

    key: str
    title: str
    answer: Answer
    reason: str
    next_cell: str = ""
    cells: tuple[int, ...] = ()
    band: Grade = Grade.NEEDS_REVISION
    doc: str = ""

    @property
    def met(self) -> bool:
        return self.answer in (Answer.HOLDS, Answer.NOT_APPLICABLE)


class Rubric(msgspec.Struct, frozen=True, kw_only=True):
    grade: Grade
    reason: str
    criteria: tuple[Criterion, ...] = ()

    @property
    def open(self) -> tuple[Criterion, ...]:
        """What keeps it from Complete."""
        return tuple(one for one in self.criteria if not one.met)

    @property
    def waivable(self) -> bool:
        """A waiver is for what was not tested, never for what was tested and failed."""
        failed = any(one.answer == Answer.FAILS for one in self.criteria)
        return self.grade == Grade.NEEDS_REVISION and not failed


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """The finalist in an open loop: what users feel. Its tails and its rate are what a statement may say.

    `refused` are of all scheduled, `accepted` the successes among the others. `predicted` is what the queue's chain foretold
    for this rate and cap. `waiting_mean_s` is the runtime's own count, without what a gateway lets wait. `indicative`: every
    limit holds as it stands, and is not proved; `earlier` are older confirmations of the same setting.

    `next_rate_per_min` is the rate to draw next, where what was seen supports a lower one, and `next_why` says why that
    one. `silent` are checks of its windows that nobody could report and nothing stands in for. `in_force` says by what the
    queue cap was seen to be in force, empty where by nothing; `recorded` whether room and power were recorded around it.
    """

    answer: Answer
    words: str
    rate_per_min: float | None = None
    queue_cap: int | None = None
    grid_id: int | None = None
    cells: tuple[int, ...] = ()
    good: Rate = Rate()
    refused: Share | None = None
    waiting_p95_s: Estimate | None = None
    classes: tuple[ClassRow, ...] = ()
    next_cell: str = ""
    setting: int | None = None
    accepted: Share | None = None
    claims: tuple[Claim, ...] = ()
    predicted: CapRow | None = None
    waiting_mean_s: float | None = None
    indicative: bool = False
    needs: int = 0
    earlier: int = 0
    next_rate_per_min: float | None = None
    next_why: str = ""
    silent: tuple[Check, ...] = ()
    in_force: str = ""
    recorded: bool = True


class Kind(StrEnum):
    RECOMMENDED = "recommended"
    NO_SAFE_SETTING = "no safe setting"
    NOT_MEASURED = "not measured"
    NOT_JUDGED = "not judged"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's words and numbers for one grid."""

    method_version: int
    kind: Kind
    heading: str
    summary: str
    recommended: int | None
    rollback: int | None
    rollback_words: str
    rows: tuple[SettingRow, ...]
    reasons: tuple[str, ...]
    why_not: tuple[WhyNot, ...]
    headroom: Headroom | None
    grade: str
    grade_reason: str
    not_tested: tuple[str, ...]
    queue_words: str
    cautions: tuple[str, ...]
    rate_words: str
    simulated: bool
    findings: tuple[Finding, ...] = ()
    rubric: Rubric = Rubric(grade=Grade.UNGRADED, reason="")
    queue_cap: QueueCap | None = None
    confirmation: Confirmation | None = None
    policy: tuple[PolicyLine, ...] = ()
    batch: BatchVerdict | None = None
    knee: Knee | None = None
    below: tuple[WhyNot, ...] = ()
    outside: tuple[NotMeasured, ...] = ()

    def row(self, setting: int | None) -> SettingRow | None:
        return next((row for row in self.rows if row.setting == setting), None)

    @property
    def chosen(self) -> SettingRow | None:
        return self.row(self.recommended)
