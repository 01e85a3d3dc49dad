"""What the judge answers: gates, one row per setting, and the verdict, which carries every sentence."""

from __future__ import annotations

from enum import StrEnum

import msgspec

METHOD_VERSION = 1


class Answer(StrEnum):
    """Five answers and no sixth. Only FAILS and NOT_TESTED keep a setting out of the safe set."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_APPLICABLE = "not applicable"
    NOT_TESTED = "not tested"
    NOT_REPORTED = "not reported"


BLOCKING = frozenset({Answer.FAILS, Answer.NOT_TESTED})


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One question asked of one setting. `needs` counts the requests that are missing for a proof, `cells` are ids."""

    key: str
    title: str
    answer: Answer
    reason: str
    remedy: str = ""
    cells: tuple[int, ...] = ()
    indicative: bool = False
    needs: int = 0

    @property
    def blocks(self) -> bool:
        return self.answer in BLOCKING


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Requests a minute with a two-sided 95 % interval; None is not measured, never zero."""

    value: float | None = None
    lower: float | None = None
    upper: float | None = None


class ClassRow(msgspec.Struct, frozen=True, kw_only=True):
    """One class at one setting, at the limit it is closest to (or furthest over). Seconds; ratios are to `limit_s`.

    `ratio` may be infinite: the percentile then falls among failed requests. `n` counts scheduled requests, `timed`
    those of them that have this time at all: an answer that was not streamed has none to its first token.
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


class WhyNot(msgspec.Struct, frozen=True, kw_only=True):
    setting: int
    sentences: tuple[str, ...]


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    share: float

    @property
    def words(self) -> str:
        return f"{self.share:.0%} for {self.name}"


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """stated = min(measured x product of (1 - reserve), lower bound), requests a minute."""

    measured_per_min: float
    after_reserves_per_min: float
    lower_bound_per_min: float | None
    stated_per_min: float
    reserves: tuple[Reserve, ...]
    words: str

    @property
    def kept(self) -> str:
        return ", ".join(reserve.words for reserve in self.reserves if reserve.share > 0) or "none asked"


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

    def row(self, setting: int | None) -> SettingRow | None:
        return next((row for row in self.rows if row.setting == setting), None)

    @property
    def chosen(self) -> SettingRow | None:
        return self.row(self.recommended)


def as_json(verdict: Verdict) -> dict[str, object]:
    """Plain values for a JSON column: infinite values become the word "infinite", since JSON has no infinity."""
    plain: dict[str, object] = _finite(msgspec.to_builtins(verdict))  # type: ignore[assignment]
    return plain


def _finite(value: object) -> object:
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "infinite"
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
