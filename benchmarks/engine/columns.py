"""A cell's evidence as columns: what a log holds, in arrays. A million requests fit where a million objects would
not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.engine import log
from benchmarks.engine.plan import CellPlan
from benchmarks.engine.terms import (
    BatchRecord,
    ClientHealth,
    End,
    Frame,
    Header,
    NotReported,
    Outcome,
    Phase,
    Reading,
    RequestRecord,
    Resumed,
    TokenSource,
    Window,
)

F = TypeVar("F", Header, Window, ClientHealth, End)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# The code of an outcome, phase or token source is its place here; the text is what Parquet holds.
OUTCOMES: tuple[str, ...] = tuple(member.value for member in Outcome)
PHASES: tuple[str, ...] = tuple(member.value for member in Phase)
TOKEN_SOURCES: tuple[str, ...] = tuple(member.value for member in TokenSource)

PLAIN_INTS = ("index", "slot", "attempt", "t_scheduled_ns", "intended_prompt_tokens", "asked_output_tokens")
MASKED_INTS = (
    "t_sent_ns", "t_headers_ns", "t_first_ns", "t_answer_ns", "t_last_ns", "t_end_ns", "t_closed_ns",
    "http_status", "prompt_tokens", "cached_prompt_tokens", "output_tokens", "first_chunk_tokens", "valid",
)  # fmt: skip
MASKED_FLOATS = ("retry_after_s",)
CODES = {"outcome": OUTCOMES, "phase": PHASES, "token_source": TOKEN_SOURCES}
TEXTS = ("class_name", "finish_reason", "detail")


@dataclass(frozen=True)
class MaskedInts:
    """`values` where `known`; elsewhere 0, which means nothing. Both of shape (n,)."""

    values: Ints
    known: Bools


@dataclass(frozen=True)
class MaskedFloats:
    values: Floats
    known: Bools


@dataclass(frozen=True)
class Requests:
    """One row per request, in the order of the log. `resent` is a plain truth; gaps lie flat, row i at offsets[i:i +
    2]."""

    plain: dict[str, Ints]
    masked: dict[str, MaskedInts]
    masked_floats: dict[str, MaskedFloats]
    codes: dict[str, npt.NDArray[np.int8]]
    texts: dict[str, tuple[str | None, ...]]
    resent: Bools
    gaps_us: Ints
    gap_offsets: Ints

    def __len__(self) -> int:
        return len(self.resent)


@dataclass(frozen=True)
class Readings:
    """One row per telemetry value; names, sources and devices are codes into `labels` (name, source, device)."""

    t_ns: Ints
    value: Floats
    label: Ints
    labels: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Columns:
    """All of a cell's evidence. Only a log that lost its very first frame has no header, and such a log is refused."""

    header: Header
    window: Window | None
    health: ClientHealth | None
    end: End | None
    not_reported: tuple[NotReported, ...]
    requests: Requests
    readings: Readings

    @property
    def plan(self) -> CellPlan:
        """What was run; it travels in the header, so that the evidence alone gives the summary again."""
        return self.header.plan


class NoHeaderError(ValueError):
    """A log without its first frame cannot say what it measured."""


def from_log(path: Path) -> Columns:
    """Raises log.NotALogError and NoHeaderError."""
    return from_frames(log.read_frames(path))


def from_frames(frames: Iterable[Frame]) -> Columns:
    """Takes the last of each frame that comes once, and all records and readings."""
    kept: dict[type, list[Frame]] = {
        kind: []
        for kind in (Header, Window, ClientHealth, End, NotReported, Reading, RequestRecord, BatchRecord, Resumed)
    }
    for frame in frames:
        kept[type(frame)].append(frame)
    header = _last(kept[Header], Header)
    if header is None:
        raise NoHeaderError("the log holds no header frame")
    return Columns(
        header=header,
        window=_last(kept[Window], Window),
        health=_last(kept[ClientHealth], ClientHealth),
        end=_last(kept[End], End),
        not_reported=tuple(f for f in kept[NotReported] if isinstance(f, NotReported)),
        requests=requests_of([f for f in kept[RequestRecord] if isinstance(f, RequestRecord)]),
        readings=readings_of([f for f in kept[Reading] if isinstance(f, Reading)]),
    )


def _last(frames: list[Frame], kind: type[F]) -> F | None:
    return next((f for f in reversed(frames) if isinstance(f, kind)), None)


def requests_of(records: Sequence[RequestRecord]) -> Requests:
    def masked(name: str) -> tuple[list[float], Bools]:
        raw = [getattr(r, name) for r in records]
        return [0 if v is None else v for v in raw], np.array([v is not None for v in raw], dtype=np.bool_)

    def ints(name: str) -> MaskedInts:
        values, known = masked(name)
        return MaskedInts(np.array(values, dtype=np.int64), known)

    def floats(name: str) -> MaskedFloats:
        values, known = masked(name)
        return MaskedFloats(np.array(values, dtype=np.float64), known)

    lengths = [len(r.gaps_us) // 4 for r in records]
    return Requests(
        plain={n: np.array([getattr(r, n) for r in records], dtype=np.int64) for n in PLAIN_INTS},
        masked={n: ints(n) for n in MASKED_INTS},
        masked_floats={n: floats(n) for n in MASKED_FLOATS},
        codes={n: np.array([v.index(getattr(r, n)) for r in records], dtype=np.int8) for n, v in CODES.items()},
        texts={n: tuple(getattr(r, n) for r in records) for n in TEXTS},
        resent=np.array([r.resent for r in records], dtype=np.bool_),
        gaps_us=np.frombuffer(b"".join(r.gaps_us for r in records), dtype="<u4").astype(np.int64),
        gap_offsets=np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64),
    )


def readings_of(readings: Sequence[Reading]) -> Readings:
    places: dict[tuple[str, str, str], int] = {}
    label = [places.setdefault((r.name, r.source, r.device), len(places)) for r in readings]
    return Readings(
        t_ns=np.array([r.t_ns for r in readings], dtype=np.int64),
        value=np.array([r.value for r in readings], dtype=np.float64),
        label=np.array(label, dtype=np.int64),
        labels=tuple(places),
    )
