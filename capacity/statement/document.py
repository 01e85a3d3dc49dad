"""The statement itself: one frozen, typed document from which the signed bytes, the page and the PDF are all made.

A document that contradicts itself cannot be built: the checks run in the constructors, on decoding as well.
Times carry an offset; `Zone` says in which offset people read them. Memory is in bytes, rates are per minute.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from benchmarks.records.claims import users_claim
from capacity.statement.further import Answered as Answered
from capacity.statement.further import Cell as Cell
from capacity.statement.further import Claim as Claim
from capacity.statement.further import Confirmed as Confirmed
from capacity.statement.further import Control as Control
from capacity.statement.further import Criterion as Criterion
from capacity.statement.further import Finding as Finding
from capacity.statement.further import Found as Found
from capacity.statement.further import Share as Share
from capacity.statement.parts import SHA256 as SHA256
from capacity.statement.parts import Absent as Absent
from capacity.statement.parts import Conditions as Conditions
from capacity.statement.parts import EvidenceCell as EvidenceCell
from capacity.statement.parts import Fact as Fact
from capacity.statement.parts import LengthClass as LengthClass
from capacity.statement.parts import Limit as Limit
from capacity.statement.parts import Measure as Measure
from capacity.statement.parts import Memory as Memory
from capacity.statement.parts import NoSafeSetting as NoSafeSetting
from capacity.statement.parts import Part, require
from capacity.statement.parts import Rate as Rate
from capacity.statement.parts import Reserve as Reserve
from capacity.statement.parts import Result as Result
from capacity.statement.parts import Row as Row
from capacity.statement.parts import Setting as Setting
from capacity.statement.parts import Signature as Signature
from capacity.statement.parts import Tail as Tail
from capacity.statement.parts import Tested as Tested
from capacity.statement.parts import Verdict as Verdict
from capacity.statement.parts import Zone as Zone

SCHEMA_VERSION = 1
DEFAULT_VALIDITY = timedelta(days=90)
LONGEST_VALIDITY = timedelta(days=180)
NUMBER = re.compile(r"[A-Z]{1,4}-\d{4}-\d{3,6}")

Grade = Literal["complete", "needs revision", "no safe setting found", "ungraded"]


class Document(Part, frozen=True, kw_only=True):
    """A capacity statement. Sentences for people are made from it in words.py and nowhere else.

    `verify_base_url` is the address under which verify pages stand, for example https://headroom.example/v;
    `key_name` is filled in when it is signed. `no_safe_setting` stands in the bytes of a statement that states no setting,
    and in no other's. `confirmed` stands where an open loop confirmed the setting; rate and tails of the statement are then
    its own, and the rows are the comparison of settings that led to it. The further fields are the annexes'.
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
    confirmed: Confirmed | msgspec.UnsetType = msgspec.UNSET
    controls: tuple[Control, ...] | msgspec.UnsetType = msgspec.UNSET
    criteria: tuple[Criterion, ...] | msgspec.UnsetType = msgspec.UNSET
    diagnosis: tuple[Finding, ...] | msgspec.UnsetType = msgspec.UNSET
    cells: tuple[Cell, ...] | msgspec.UnsetType = msgspec.UNSET
    method_version: int | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        require(bool(NUMBER.fullmatch(self.number)), "A statement number looks like CS-2026-014.")
        self._check_words()
        self._check_times()
        self._check_table()
        self._check_finding()
        require(self.demonstration or not self.simulated, "A simulated result is a demonstration and is labelled so.")
        require(bool(SHA256.fullmatch(self.audit_head)), "The audit head is 64 lower-case hexadecimal digits.")
        require(
            self.evidence_digest == manifest_digest(self.evidence),
            "The evidence digest is not that of the listed evidence.",
        )
        require(bool(self.evidence), "A statement lists the evidence it rests on.")
        require(
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
            *(text for one in self.controls or () for text in (one.title, one.value, one.words, one.source)),
            *(one.reason for one in self.criteria or ()),
            *(text for one in self.diagnosis or () for text in one.evidence),
        )

    def _measured_words(self) -> tuple[str, ...]:
        """What people typed about the thing measured and the room it stood in."""
        tested, conditions = self.tested, self.conditions
        facts = (*tested.further, *conditions.further)
        return (
            *(text for name in tested.__struct_fields__ if isinstance(text := getattr(tested, name), str)),
            *(text for name in conditions.__struct_fields__ if isinstance(text := getattr(conditions, name), str)),
            *(f"{fact.label}: {fact.text}" for fact in facts),
            *_words_of(open_loop(self)),
            *(one.name for one in self.classes),
        )

    def _check_times(self) -> None:
        times = [self.issued_at, self.valid_until, self.conditions.started_at, self.conditions.ended_at]
        times += [signature.at for signature in self.signatures]
        require(all(moment.tzinfo is not None for moment in times), "Every time carries its offset.")
        require(self.issued_at < self.valid_until, "A statement is valid forward in time.")
        require(self.valid_until - self.issued_at <= LONGEST_VALIDITY, "A statement is valid for at most 180 days.")
        require(self.conditions.started_at <= self.conditions.ended_at, "A measurement ends after it starts.")

    def _check_table(self) -> None:
        require(bool(self.rows), "A statement shows at least one tested setting.")
        require(bool(self.limits), "A statement states the objective it was held against.")
        names = {one.name for one in self.classes}
        require(
            all(limit.class_name in names for limit in self.limits), "Every limit belongs to a listed length class."
        )
        require(all(len(row.tails) == len(self.limits) for row in self.rows), "Every row has one tail for each limit.")
        settings = [row.setting for row in self.rows]
        require(settings == sorted(set(settings)), "Rows go upward by setting, each once.")
        chosen = [row.setting for row in self.rows if row.chosen]
        expected = [] if self.setting.value is None else [self.setting.value]
        require(chosen == expected, "Exactly the stated setting is marked as chosen.")
        require((self.result is None) == (self.setting.value is None), "A result belongs to a setting.")
        self._check_rate()

    def _check_rate(self) -> None:
        confirmed = open_loop(self)
        if confirmed is not None:
            require(len(confirmed.claims) == len(self.limits), "A confirmation has one claim for each limit.")
            require(self.result is not None, "A confirmation is of the stated setting.")
        if self.result is None:
            return
        rate = self.result.successful_per_minute
        if confirmed is not None:
            require(rate == confirmed.successful_per_minute, "The result is the rate that the open loop confirmed.")
        else:
            rates = [row.successful_per_minute for row in self.rows if row.chosen]
            require(rates == [rate], "The result is the rate of the stated setting's row.")

    def _check_finding(self) -> None:
        none = self.setting.value is None
        given = isinstance(self.no_safe_setting, NoSafeSetting)
        require(given == none, "A statement gives a setting, or says why there is none.")
        require(
            not none or all(row.verdict in ("fails", "not tested") for row in self.rows),
            "A setting that holds is not left unstated.",
        )
        require(none or self.grade != "no safe setting found", "A result without a safe setting states none.")
        require(not none or self.grade != "complete", "A complete result has a setting.")


def open_loop(document: Document) -> Confirmed | None:
    """What confirmed the stated setting; None where nothing did."""
    found = document.confirmed
    return found if isinstance(found, Confirmed) else None


def _words_of(found: Confirmed | None) -> tuple[str, ...]:
    """What people typed about the room in which it was confirmed."""
    if found is None or found.conditions is None:
        return ()
    here = found.conditions
    typed = tuple(text for name in here.__struct_fields__ if isinstance(text := getattr(here, name), str))
    return (*typed, *(f"{fact.label}: {fact.text}" for fact in here.further))


def why_none(document: Document) -> tuple[str, ...]:
    """Why no setting is stated; empty where one is."""
    found = document.no_safe_setting
    return found.reasons if isinstance(found, NoSafeSetting) else ()


def what_to_change(document: Document) -> tuple[str, ...]:
    """What to change before measuring again where no setting is stated."""
    found = document.no_safe_setting
    return found.remedies if isinstance(found, NoSafeSetting) else ()


class Manifest(Part, frozen=True, kw_only=True):
    """The evidence list as it is digested and attached to the PDF."""

    cells: tuple[EvidenceCell, ...]


def manifest_bytes(cells: tuple[EvidenceCell, ...]) -> bytes:
    """Canonical JSON of the evidence list: the very bytes that are attached to the PDF and digested."""
    return msgspec.json.encode(Manifest(cells=cells), order="sorted")


def manifest_digest(cells: tuple[EvidenceCell, ...]) -> str:
    """SHA-256 of `manifest_bytes`, in hexadecimal."""
    return hashlib.sha256(manifest_bytes(cells)).hexdigest()
