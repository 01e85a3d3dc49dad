"""The parts of a statement's document: what was measured, on what, under which conditions, by whom.

A part that contradicts itself cannot be built: the checks run in the constructors, on decoding as well. What a field's
default leaves out (`msgspec.UNSET`) is not in the bytes, so statements of before it existed verify as they did.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Literal

import msgspec

SHA256 = re.compile(r"[0-9a-f]{64}")

Measure = Literal["end to end", "time to first token", "time per output token"]
Verdict = Literal["holds", "fails", "indicative", "not tested"]
Absent = Literal["not applicable", "not reported"]
State = Literal["measured", "among failures", "too few requests", "not recorded"]


def require(holds: bool, sentence: str) -> None:
    """Raises ValueError with the sentence where it does not hold."""
    if not holds:
        raise ValueError(sentence)


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every part of the document: frozen, named fields only, nothing unknown."""


class Zone(Part, frozen=True, kw_only=True):
    """The time zone people read: its short name and its offset from UTC in minutes."""

    name: str = "UTC"
    offset_minutes: int = 0


class Setting(Part, frozen=True, kw_only=True):
    """The offered concurrency that the statement is about; `value` is None when no safe setting was found.

    `term` is what the number counts, in the field's words: "active sequences" or "requests in flight".
    """

    value: int | None
    term: Literal["active sequences", "requests in flight"] = "active sequences"


class Rate(Part, frozen=True, kw_only=True):
    """Requests a minute, with a two-sided interval where one could be computed."""

    value: float
    lower: float | None = None
    upper: float | None = None
    confidence_percent: float = 95

    def __post_init__(self) -> None:
        known = [number for number in (self.value, self.lower, self.upper) if number is not None]
        require(
            all(math.isfinite(number) and number >= 0 for number in known), "A rate is a finite number of at least 0."
        )


class Reserve(Part, frozen=True, kw_only=True):
    """One named part of the headroom, as a share of what was measured, with why it is kept."""

    name: str
    share: float
    reason: str = ""


class Result(Part, frozen=True, kw_only=True):
    """What the setting did. `stated_per_minute` is what may be planned for, after headroom."""

    successful_per_minute: Rate
    stated_per_minute: float | None
    reserves: tuple[Reserve, ...] = ()


class NoSafeSetting(Part, frozen=True, kw_only=True):
    """Why no setting is stated, in the judge's sentences, and what to change before measuring again."""

    reasons: tuple[str, ...]
    remedies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(bool(self.reasons), "That no setting is safe has a reason.")


class Limit(Part, frozen=True, kw_only=True):
    """One objective of a length class: the percentile of a measure stays at or under `limit_s`."""

    class_name: str
    measure: Measure
    limit_s: float
    percentile: float = 95


class LengthClass(Part, frozen=True, kw_only=True):
    """A length class as it was offered. Token counts are medians, None is not recorded; `share` is of the mix."""

    name: str
    share: float | None
    n: int
    input_tokens: int | None = None
    output_tokens: int | None = None


class Tail(Part, frozen=True, kw_only=True):
    """One measured percentile against one `Limit` (same place in `Document.limits`).

    `value_s` is None when too few requests answered or when the percentile falls among failed requests; `state` says
    which. `bound_s` is the one-sided upper bound that the verdict was made with. `holds` is None when not judged.
    """

    n: int
    value_s: float | None
    bound_s: float | None = None
    state: State = "measured"
    indicative: bool = False
    holds: bool | None = None

    def __post_init__(self) -> None:
        require(
            (self.value_s is not None) == (self.state == "measured"), "A tail has a value exactly when it was measured."
        )


class Row(Part, frozen=True, kw_only=True):
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


class Memory(Part, frozen=True, kw_only=True):
    """The memory limit that rows are held against; `note` says why there is none (no GPU on this host)."""

    limit_bytes: int | None = None
    note: str = ""


class Fact(Part, frozen=True, kw_only=True):
    """One labelled line of the page, already in words."""

    label: str
    text: str


class Tested(Part, frozen=True, kw_only=True):
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


class Conditions(Part, frozen=True, kw_only=True):
    """When, where and under what power the measurement ran; `ambient_source` is "declared", "sensor" or the like."""

    started_at: datetime
    ended_at: datetime
    place: str
    power: str
    ambient: str
    ambient_source: str
    operator: str
    further: tuple[Fact, ...] = ()


class Signature(Part, frozen=True, kw_only=True):
    """A person and what they did, when."""

    did: Literal["Authorised by", "Measured by", "Proposed by", "Approved by", "Signed by"]
    name: str
    at: datetime


class EvidenceCell(Part, frozen=True, kw_only=True):
    """One cell's evidence file by its digest; `records` counts the requests in it, `leave` is the authorisation that it ran
    under (A-19)."""

    cell: str
    sha256: str
    records: int
    leave: str | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        require(bool(SHA256.fullmatch(self.sha256)), "An evidence digest is 64 lower-case hexadecimal digits.")
