"""The shape of a cell's evidence as columns: what a log holds, in arrays. A million requests fit where a million
objects would not. `columns.from_log` and `records.parquet.read` fill them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from benchmarks.engine.plan import CellPlan
from benchmarks.engine.terms import (
    ClientHealth,
    End,
    Header,
    NotReported,
    Outcome,
    Phase,
    Resumed,
    Sample,
    TokenSource,
    Window,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]
Gaps = npt.NDArray[np.uint32]

# The code of an outcome, phase or token source is its place here; the text is what Parquet holds.
OUTCOMES: tuple[str, ...] = tuple(member.value for member in Outcome)
PHASES: tuple[str, ...] = tuple(member.value for member in Phase)
TOKEN_SOURCES: tuple[str, ...] = tuple(member.value for member in TokenSource)

PLAIN_INTS = ("index", "slot", "attempt", "t_scheduled_ns", "intended_prompt_tokens", "asked_output_tokens")
MASKED_INTS = (
    "gathered_ns", "t_sent_ns", "t_headers_ns", "t_first_ns", "t_answer_ns", "t_last_ns", "t_end_ns", "t_closed_ns",
    "connect_us", "http_status", "prompt_tokens", "cached_prompt_tokens", "output_tokens", "first_chunk_tokens", "valid",
    "batch", "session", "turn",
)  # fmt: skip
MASKED_FLOATS = ("retry_after_s",)
CODES = {"outcome": OUTCOMES, "phase": PHASES, "token_source": TOKEN_SOURCES}
TEXTS = ("class_name", "finish_reason", "detail", "role")
# Of these a log that went on after an interruption must move what follows onto its first clock.
STAMPS = frozenset(name for name in (*PLAIN_INTS, *MASKED_INTS) if name.endswith("_ns"))

BATCH_INTS = ("batch", "items", "gathered_ns")
BATCH_MASKED = ("t_sent_ns", "t_end_ns", "prompt_tokens", "output_tokens")
NO_TEXT = -1


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
class Texts:
    """Text of each row as a code into `words`, shape (n,); NO_TEXT where there is none. A million rows of the same few
    words cost 4 bytes each."""

    codes: Codes
    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str | None:
        code = int(self.codes[row])
        return None if code == NO_TEXT else self.words[code]

    def __iter__(self) -> Iterator[str | None]:
        return (self[row] for row in range(len(self.codes)))

    def equal(self, word: str) -> Bools:
        """True in the rows that hold this word."""
        place = self.words.index(word) if word in self.words else NO_TEXT - 1
        return np.equal(self.codes, place)


@dataclass(frozen=True)
class Requests:
    """One row per attempt, in the order of the log. `resent` is a plain truth; gaps lie flat, row i at offsets[i:i +
    2]."""

    plain: dict[str, Ints]
    masked: dict[str, MaskedInts]
    masked_floats: dict[str, MaskedFloats]
    codes: dict[str, npt.NDArray[np.int8]]
    texts: dict[str, Texts]
    resent: Bools
    gaps_us: Gaps
    gap_offsets: Ints

    def __len__(self) -> int:
        return len(self.resent)


@dataclass(frozen=True)
class Batches:
    """One row per request that carried several items, or per round of a static batch."""

    plain: dict[str, Ints]
    masked: dict[str, MaskedInts]
    outcome: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.outcome)


def no_batches() -> Batches:
    none, never = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
    return Batches(
        plain=dict.fromkeys(BATCH_INTS, none),
        masked=dict.fromkeys(BATCH_MASKED, MaskedInts(none, never)),
        outcome=np.zeros(0, dtype=np.int8),
    )


@dataclass(frozen=True)
class Readings:
    """One row per telemetry value; names, sources and devices are codes into `labels` (name, source, device)."""

    t_ns: Ints
    value: Floats
    label: Ints
    labels: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Columns:
    """All of a cell's evidence. Only a log that lost its very first frame has no header, and such a log is refused.

    All stamps are on the header's monotonic clock; `resumed` keeps, as they were read, the clocks of runs that went on
    with the log.
    """

    header: Header
    window: Window | None
    health: ClientHealth | None
    end: End | None
    not_reported: tuple[NotReported, ...]
    requests: Requests
    readings: Readings
    batches: Batches = field(default_factory=no_batches)
    resumed: tuple[Resumed, ...] = ()
    samples: tuple[Sample, ...] = ()

    @property
    def plan(self) -> CellPlan:
        """What was run; it travels in the header, so that the evidence alone gives the summary again."""
        return self.header.plan


class NoHeaderError(ValueError):
    """A log without its first frame cannot say what it measured."""


def texts_of(texts: Iterable[str | None]) -> Texts:
    """Words in the order in which they come first."""
    words: dict[str, int] = {}
    codes = [NO_TEXT if text is None else words.setdefault(text, len(words)) for text in texts]
    return Texts(np.array(codes, dtype=np.int32), tuple(words))


def no_texts(count: int) -> Texts:
    """A column that nobody filled."""
    return Texts(np.full(count, NO_TEXT, dtype=np.int32), ())


def all_true(count: int) -> Bools:
    """A mask that costs no memory; it cannot be written to."""
    return np.broadcast_to(np.True_, (count,))


def none_known(count: int) -> MaskedInts:
    """A column that nobody filled, at no cost of memory."""
    return MaskedInts(np.broadcast_to(np.int64(0), (count,)), np.broadcast_to(np.False_, (count,)))


def masked_ints(raw: Sequence[int | None]) -> MaskedInts:
    missing = raw.count(None)
    if missing == len(raw):
        return none_known(len(raw))
    if not missing:
        return MaskedInts(np.array(raw, dtype=np.int64), all_true(len(raw)))
    known = np.array([value is not None for value in raw], dtype=np.bool_)
    return MaskedInts(np.array([value or 0 for value in raw], dtype=np.int64), known)
