"""The statement itself: one frozen, typed document from which the signed bytes, the page and the PDF are all made.

A document that contradicts itself cannot be built: the checks run in the constructors, on decoding as well.
Times carry an offset; `Zone` says in which offset people read them. Memory is in bytes, rates are per minute.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from benchmarks.records.claims import users_claim

SCHEMA_VERSION = 1
DEFAULT_VALIDITY = timedelta(days=90)
LONGEST_VALIDITY = timedelta(days=180)
NUMBER = re.compile(r"[A-Z]{1,4}-\d{4}-\d{3,6}")
SHA256 = re.compile(r"[0-9a-f]{64}")

Measure = Literal["end to end", "time to first token", "time per output token"]
Verdict = Literal["holds", "fails", "indicative", "not tested"]
Grade = Literal["complete", "needs revision", "no safe setting found", "ungraded"]
Absent = Literal["not applicable", "not reported"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every part of the document: frozen, named fields only, nothing unknown."""


class Zone(_Part, frozen=True, kw_only=True):
    """The time zone people read: its short name and its offset from UTC in minutes."""

    name: str = "UTC"
    offset_minutes: int = 0


class Setting(_Part, frozen=True, kw_only=True):
    """The offered concurrency that the statement is about; `value` is None when no safe setting was found.

    `term` is what the number counts, in the field's words: "active sequences" or "requests in flight".
    """

    value: int | None
    term: Literal["active sequences", "requests in flight"] = "active sequences"


class Rate(_Part, frozen=True, kw_only=True):
    """Requests a minute, with a two-sided interval where one could be computed."""

    value: float
    lower: float | None = None
    upper: float | None = None
    confidence_percent: float = 95

    def __post_init__(self) -> None:
        known = [number for number in (self.value, self.lower, self.upper) if number is not None]
        _require(
            all(math.isfinite(number) and number >= 0 for number in known), "A rate is a finite number of at least 0."
        )


class Reserve(_Part, frozen=True, kw_only=True):
    """One named part of the headroom, as a share of what was measured, with why it is kept."""

    name: str
    share: float
    reason: str = ""


class Result(_Part, frozen=True, kw_only=True):
    """What the setting did. `stated_per_minute` is what may be planned for, after headroom."""

    successful_per_minute: Rate
    stated_per_minute: float | None
    reserves: tuple[Reserve, ...] = ()


class NoSafeSetting(_Part, frozen=True, kw_only=True):
    """Why no setting is stated, in the judge's sentences, and what to change before measuring again."""

    reasons: tuple[str, ...]
    remedies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require(bool(self.reasons), "That no setting is safe has a reason.")


class Limit(_Part, frozen=True, kw_only=True):
    """One objective of a length class: the percentile of a measure stays at or under `limit_s`."""

    class_name: str
    measure: Measure
    limit_s: float
    percentile: float = 95


class LengthClass(_Part, frozen=True, kw_only=True):
    """A length class as it was offered. Token counts are medians, None is not recorded; `share` is of the mix."""

    name: str
    share: float | None
    n: int
    input_tokens: int | None = None
    output_tokens: int | None = None


class Tail(_Part, frozen=True, kw_only=True):
    """One measured percentile against one `Limit` (same place in `Document.limits`).

    `value_s` is None when too few requests answered or when the percentile falls among failed requests; `state` says
    which. `bound_s` is the one-sided upper bound that the verdict was made with. `holds` is None when not judged.
    """

    n: int
    value_s: float | None
    bound_s: float | None = None
    state: Literal["measured", "among failures", "too few requests", "not recorded"] = "measured"
    indicative: bool = False
    holds: bool | None = None

    def __post_init__(self) -> None:
        _require(
            (self.value_s is not None) == (self.state == "measured"), "A tail has a value exactly when it was measured."
        )


class Row(_Part, frozen=True, kw_only=True):
    """What one tested setting did. A row stays in the table when it failed."""

    setting: int
    successful_per_minute: Rate | None
    all_per_minute: float | None
    n: int
    tails: tuple[Tail, ...]
    peak_vram_bytes: int | Absent
    verdict: Verdict
    reason: str = ""
    chosen: bool = False


class Memory(_Part, frozen=True, kw_only=True):
    """The memory limit that rows are held against; `note` says why there is none (no GPU on this host)."""

    limit_bytes: int | None = None
    note: str = ""


class Fact(_Part, frozen=True, kw_only=True):
    """One labelled line of the page, already in words."""

    label: str
    text: str


class Tested(_Part, frozen=True, kw_only=True):
    """What was measured, and on what. `declared` was typed by a person, `probed` was read by the worker."""

    model: str
    runtime: str
    flags: str
    hardware_declared: str
    hardware_probed: str
    workload: str
    synthetic: bool
    seed: int | None
    grid: str
    repeats: int
    window: str
    further: tuple[Fact, ...] = ()


class Conditions(_Part, frozen=True, kw_only=True):
    """When, where and under what power the measurement ran; `ambient_source` is "declared", "sensor" or the like."""

    started_at: datetime
    ended_at: datetime
    place: str
    power: str
    ambient: str
    ambient_source: str
    operator: str
    further: tuple[Fact, ...] = ()


class Signature(_Part, frozen=True, kw_only=True):
    """A person and what they did, when."""

    did: Literal["Authorised by", "Measured by", "Proposed by", "Approved by", "Signed by"]
    name: str
    at: datetime


class EvidenceCell(_Part, frozen=True, kw_only=True):
    """One cell's evidence file by its digest; `records` counts the requests in it."""

    cell: str
    sha256: str
    records: int

    def __post_init__(self) -> None:
        _require(bool(SHA256.fullmatch(self.sha256)), "An evidence digest is 64 lower-case hexadecimal digits.")


class Document(_Part, frozen=True, kw_only=True):
    """A capacity statement. Sentences for people are made from it in words.py and nowhere else.

    `verify_base_url` is the address under which verify pages stand, for example https://headroom.example/v;
    `key_name` is filled in when it is signed. `no_safe_setting` stands in the bytes of a statement that states no setting,
    and in no other's.
    """

    schema_version: Literal[1] = 1
    number: str
    title: str
    zone: Zone
    setting: Setting
    result: Result | None
    limits: tuple[Limit, ...]
    classes: tuple[LengthClass, ...]
    rows: tuple[Row, ...]
    memory: Memory
    tested: Tested
    conditions: Conditions
    operating_limits: tuple[str, ...]
    rollback: str
    not_tested: tuple[str, ...]
    ends_early: tuple[str, ...]
    grade: Grade
    grade_reason: str
    signatures: tuple[Signature, ...]
    issued_at: datetime
    valid_until: datetime
    demonstration: bool
    simulated: bool
    audit_head: str
    evidence: tuple[EvidenceCell, ...]
    evidence_digest: str
    verify_base_url: str
    key_name: str = ""
    solo_mode: bool = False
    waiver: str = ""
    no_safe_setting: NoSafeSetting | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _require(bool(NUMBER.fullmatch(self.number)), "A statement number looks like CS-2026-014.")
        self._check_words()
        self._check_times()
        self._check_table()
        self._check_finding()
        _require(self.demonstration or not self.simulated, "A simulated result is a demonstration and is labelled so.")
        _require(bool(SHA256.fullmatch(self.audit_head)), "The audit head is 64 lower-case hexadecimal digits.")
        _require(
            self.evidence_digest == manifest_digest(self.evidence),
            "The evidence digest is not that of the listed evidence.",
        )
        _require(bool(self.evidence), "A statement lists the evidence it rests on.")
        _require(
            bool(re.match(r"https?://[^\s]+[^/]$", self.verify_base_url)),
            "The verify address is http(s) without a final slash.",
        )

    def _check_words(self) -> None:
        for text in (*self._own_words(), *self._measured_words()):
            if instead := users_claim(text):
                raise ValueError(instead)

    def _own_words(self) -> tuple[str, ...]:
        reserves = self.result.reserves if self.result else ()
        return (
            self.title,
            *self.operating_limits,
            self.rollback,
            *self.not_tested,
            *self.ends_early,
            self.grade_reason,
            self.waiver,
            self.memory.note,
            *(row.reason for row in self.rows),
            *(text for reserve in reserves for text in (reserve.name, reserve.reason)),
            *why_none(self),
            *what_to_change(self),
        )

    def _measured_words(self) -> tuple[str, ...]:
        """What people typed about the thing measured and the room it stood in."""
        tested, conditions = self.tested, self.conditions
        facts = (*tested.further, *conditions.further)
        return (
            *(text for name in tested.__struct_fields__ if isinstance(text := getattr(tested, name), str)),
            *(text for name in conditions.__struct_fields__ if isinstance(text := getattr(conditions, name), str)),
            *(f"{fact.label}: {fact.text}" for fact in facts),
            *(one.name for one in self.classes),
        )

    def _check_times(self) -> None:
        times = [self.issued_at, self.valid_until, self.conditions.started_at, self.conditions.ended_at]
        times += [signature.at for signature in self.signatures]
        _require(all(moment.tzinfo is not None for moment in times), "Every time carries its offset.")
        _require(self.issued_at < self.valid_until, "A statement is valid forward in time.")
        _require(self.valid_until - self.issued_at <= LONGEST_VALIDITY, "A statement is valid for at most 180 days.")
        _require(self.conditions.started_at <= self.conditions.ended_at, "A measurement ends after it starts.")

    def _check_table(self) -> None:
        _require(bool(self.rows), "A statement shows at least one tested setting.")
        _require(bool(self.limits), "A statement states the objective it was held against.")
        names = {one.name for one in self.classes}
        _require(
            all(limit.class_name in names for limit in self.limits), "Every limit belongs to a listed length class."
        )
        _require(all(len(row.tails) == len(self.limits) for row in self.rows), "Every row has one tail for each limit.")
        settings = [row.setting for row in self.rows]
        _require(settings == sorted(set(settings)), "Rows go upward by setting, each once.")
        chosen = [row.setting for row in self.rows if row.chosen]
        expected = [] if self.setting.value is None else [self.setting.value]
        _require(chosen == expected, "Exactly the stated setting is marked as chosen.")
        _require((self.result is None) == (self.setting.value is None), "A result belongs to a setting.")
        if self.result is not None:
            rates = [row.successful_per_minute for row in self.rows if row.chosen]
            _require(
                rates == [self.result.successful_per_minute], "The result is the rate of the stated setting's row."
            )

    def _check_finding(self) -> None:
        none = self.setting.value is None
        given = isinstance(self.no_safe_setting, NoSafeSetting)
        _require(given == none, "A statement gives a setting, or says why there is none.")
        _require(
            not none or all(row.verdict in ("fails", "not tested") for row in self.rows),
            "A setting that holds is not left unstated.",
        )
        _require(none or self.grade != "no safe setting found", "A result without a safe setting states none.")
        _require(not none or self.grade != "complete", "A complete result has a setting.")


def why_none(document: Document) -> tuple[str, ...]:
    """Why no setting is stated; empty where one is."""
    found = document.no_safe_setting
    return found.reasons if isinstance(found, NoSafeSetting) else ()


def what_to_change(document: Document) -> tuple[str, ...]:
    """What to change before measuring again where no setting is stated."""
    found = document.no_safe_setting
    return found.remedies if isinstance(found, NoSafeSetting) else ()


class Manifest(_Part, frozen=True, kw_only=True):
    """The evidence list as it is digested and attached to the PDF."""

    cells: tuple[EvidenceCell, ...]


def manifest_bytes(cells: tuple[EvidenceCell, ...]) -> bytes:
    """Canonical JSON of the evidence list: the very bytes that are attached to the PDF and digested."""
    return msgspec.json.encode(Manifest(cells=cells), order="sorted")


def manifest_digest(cells: tuple[EvidenceCell, ...]) -> str:
    """SHA-256 of `manifest_bytes`, in hexadecimal."""
    return hashlib.sha256(manifest_bytes(cells)).hexdigest()


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ValueError(sentence)
