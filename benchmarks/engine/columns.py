"""A cell's evidence as columns, from the frames of its log. They are taken a few thousand records at a time, so that no
log is ever held as objects."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine import log
from benchmarks.engine.column_types import (
    BATCH_INTS,
    BATCH_MASKED,
    CODES,
    MASKED_FLOATS,
    MASKED_INTS,
    NO_TEXT,
    OUTCOMES,
    PLAIN_INTS,
    STAMPS,
    TEXTS,
    Batches,
    Bools,
    Codes,
    Columns,
    Ints,
    MaskedFloats,
    MaskedInts,
    NoHeaderError,
    Readings,
    Requests,
    Texts,
    all_true,
    masked_ints,
    none_known,
)
from benchmarks.engine.counting import Counted, Counter
from benchmarks.engine.terms import (
    BatchRecord,
    ClientHealth,
    End,
    Frame,
    Header,
    NotReported,
    Reading,
    RequestRecord,
    Resumed,
    Sample,
    Uncounted,
    Window,
)

__all__ = ["OUTCOMES", "Columns", "MaskedInts", "NoHeaderError", "from_frames", "from_log"]

AT_ONCE = 4096
NAMES = (*PLAIN_INTS, *MASKED_INTS, *MASKED_FLOATS, *CODES, *TEXTS, "resent", "gaps_us")
_fields = attrgetter(*NAMES)
_places = {name: {word: place for place, word in enumerate(words)} for name, words in CODES.items()}


def from_log(path: Path, *, counter: Counter | None = None) -> Columns:
    """`counter` opens the tokeniser that the plan pins, for answers that no server counted. Raises log.NotALogError and
    NoHeaderError."""
    return from_frames(log.read_frames(path), counter=counter)


def from_frames(frames: Iterable[Frame], *, at_once: int = AT_ONCE, counter: Counter | None = None) -> Columns:
    """Takes the first header, the last of each other frame that comes once, and all records and readings.

    Never more than `at_once` records are held as objects. Raises NoHeaderError.
    """
    taken = _Taken(at_once, Counted(counter))
    for frame in frames:
        taken.take(frame)
    return taken.columns()


class _Taken:
    """What has been read so far. `shift_ns` brings stamps of a resumed run onto the first header's monotonic clock."""

    def __init__(self, at_once: int, counted: Counted) -> None:
        self.counted = counted
        self.header: Header | None = None
        self.window: Window | None = None
        self.health: ClientHealth | None = None
        self.end: End | None = None
        self.not_reported: list[NotReported] = []
        self.resumed: list[Resumed] = []
        self.samples: dict[tuple[int, int], Sample] = {}
        self.requests = _RequestRows(at_once)
        self.readings = _ReadingRows()
        self.batches = _BatchRows()
        self.shift_ns = 0

    def take(self, frame: Frame) -> None:
        match frame:
            case RequestRecord():
                self.requests.add(frame, self.shift_ns)
            case Reading():
                self.readings.add(frame, self.shift_ns)
            case Sample():
                self.samples[frame.index, frame.attempt] = frame
            case Uncounted():
                if self.header is not None:
                    self.counted.add(frame, self.header.plan.tokenizer_sha256)
            case BatchRecord():
                self.batches.add(frame, self.shift_ns)
            case Header():
                self.header = self.header or frame
            case Resumed():
                self._resume(frame)
            case NotReported():
                self.not_reported.append(frame)
            case Window():
                shift = self.shift_ns
                self.window = Window(start_ns=frame.start_ns + shift, end_ns=frame.end_ns + shift)
            case ClientHealth():
                self.health = frame
            case End():
                self.end = End(
                    t_ns=frame.t_ns + self.shift_ns,
                    complete=frame.complete,
                    reason=frame.reason,
                    sent=frame.sent,
                    planned=frame.planned,
                )

    def _resume(self, frame: Resumed) -> None:
        self.resumed.append(frame)
        # Monotonic clocks of two boots have nothing in common; the wall clock is all that both runs saw.
        if self.header is not None:
            self.shift_ns = (frame.wall_ns - self.header.wall_ns) - (frame.monotonic_ns - self.header.monotonic_ns)

    def columns(self) -> Columns:
        if self.header is None:
            raise NoHeaderError("the log holds no header frame")
        return Columns(
            header=self.header,
            window=self.window,
            health=self.health,
            end=self.end,
            not_reported=tuple(self.not_reported),
            requests=self.counted.into(self.requests.columns()),
            readings=self.readings.columns(),
            batches=self.batches.columns(),
            resumed=tuple(self.resumed),
            samples=tuple(self.samples.values()),
        )


class _RequestRows:
    """Records become arrays whenever `at_once` of them wait or the clocks change."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._waiting: list[RequestRecord] = []
        self._shift_ns = 0
        self._count = 0
        self._ints: dict[str, list[MaskedInts]] = {name: [] for name in (*PLAIN_INTS, *MASKED_INTS)}
        self._floats: dict[str, list[MaskedFloats]] = {name: [] for name in MASKED_FLOATS}
        self._codes: dict[str, list[Codes]] = {name: [] for name in (*CODES, *TEXTS)}
        self._words: dict[str, dict[str | None, int]] = {name: {None: NO_TEXT} for name in TEXTS}
        self._resent: list[Bools] = []
        self._gaps = bytearray()
        self._lengths: list[Ints] = []

    def add(self, record: RequestRecord, shift_ns: int) -> None:
        if shift_ns != self._shift_ns or len(self._waiting) >= self._at_once:
            self._settle()
            self._shift_ns = shift_ns
        self._waiting.append(record)

    def _settle(self) -> None:
        if not self._waiting:
            return
        self._count += len(self._waiting)
        raw = dict(zip(NAMES, zip(*map(_fields, self._waiting), strict=True), strict=True))
        self._waiting = []
        for name, parts in self._ints.items():
            found = masked_ints(raw[name])
            if name in STAMPS and self._shift_ns:
                found = MaskedInts(np.where(found.known, found.values + self._shift_ns, 0), found.known)
            parts.append(found)
        for name, floats in self._floats.items():
            floats.append(_masked_floats(raw[name]))
        for name, codes in self._codes.items():
            codes.append(np.array(self._coded(name, raw[name]), dtype=np.int32))
        self._resent.append(np.array(raw["resent"], dtype=np.bool_))
        self._lengths.append(np.array([len(gaps) // 4 for gaps in raw["gaps_us"]], dtype=np.int64))
        self._gaps += b"".join(raw["gaps_us"])

    def _coded(self, name: str, column: Sequence[str | None]) -> list[int]:
        if name in CODES:
            places = _places[name]
            return [places[word] for word in column if word is not None]
        words = self._words[name]
        # The word for None is there from the start, so the next code is one less than there are words.
        return [words.setdefault(word, len(words) - 1) for word in column]

    def columns(self) -> Requests:
        self._settle()
        lengths = _joined(self._lengths, np.int64)
        return Requests(
            plain={name: _joined_ints(self._ints.pop(name)).values for name in PLAIN_INTS},
            masked={name: _joined_ints(self._ints.pop(name)) for name in MASKED_INTS},
            masked_floats={name: _joined_floats(parts) for name, parts in self._floats.items()},
            codes={name: _joined(self._codes.pop(name), np.int32).astype(np.int8) for name in CODES},
            texts={
                name: Texts(
                    _joined(self._codes.pop(name), np.int32), tuple(str(word) for word in [*self._words[name]][1:])
                )
                for name in TEXTS
            },
            resent=_joined(self._resent, np.bool_),
            gaps_us=np.frombuffer(self._gaps or b"", dtype="<u4").astype(np.uint32, copy=False),
            gap_offsets=np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64))),
        )


class _ReadingRows:
    def __init__(self) -> None:
        self._t_ns, self._value, self._label = array("q"), array("d"), array("q")
        self._labels: dict[tuple[str, str, str], int] = {}

    def add(self, reading: Reading, shift_ns: int) -> None:
        label = (reading.name, reading.source, reading.device)
        self._t_ns.append(reading.t_ns + shift_ns)
        self._value.append(reading.value)
        self._label.append(self._labels.setdefault(label, len(self._labels)))

    def columns(self) -> Readings:
        return Readings(
            t_ns=np.array(self._t_ns, dtype=np.int64),
            value=np.array(self._value, dtype=np.float64),
            label=np.array(self._label, dtype=np.int64),
            labels=tuple(self._labels),
        )


class _BatchRows:
    def __init__(self) -> None:
        self._rows: list[tuple[BatchRecord, int]] = []

    def add(self, record: BatchRecord, shift_ns: int) -> None:
        self._rows.append((record, shift_ns))

    def columns(self) -> Batches:
        rows = self._rows
        plain = {
            "batch": [r.batch for r, _ in rows],
            "items": [r.items for r, _ in rows],
            "gathered_ns": [r.t_gathered_ns + shift for r, shift in rows],
        }
        masked = {
            "t_sent_ns": [None if r.t_sent_ns is None else r.t_sent_ns + shift for r, shift in rows],
            "t_end_ns": [None if r.t_end_ns is None else r.t_end_ns + shift for r, shift in rows],
            "prompt_tokens": [r.prompt_tokens for r, _ in rows],
            "output_tokens": [r.output_tokens for r, _ in rows],
        }
        return Batches(
            plain={name: np.array(plain[name], dtype=np.int64) for name in BATCH_INTS},
            masked={name: masked_ints(masked[name]) for name in BATCH_MASKED},
            outcome=np.array([OUTCOMES.index(r.outcome) for r, _ in rows], dtype=np.int8),
        )


def _masked_floats(raw: Sequence[float | None]) -> MaskedFloats:
    known = np.array([value is not None for value in raw], dtype=np.bool_)
    return MaskedFloats(np.array([value or 0.0 for value in raw], dtype=np.float64), known)


def _joined(parts: Sequence[np.ndarray[Any, Any]], dtype: type[np.generic]) -> np.ndarray[Any, Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def _joined_ints(parts: Sequence[MaskedInts]) -> MaskedInts:
    known = _joined([part.known for part in parts], np.bool_)
    if not known.any():
        return none_known(len(known))
    return MaskedInts(
        _joined([part.values for part in parts], np.int64), all_true(len(known)) if known.all() else known
    )


def _joined_floats(parts: Sequence[MaskedFloats]) -> MaskedFloats:
    values = _joined([part.values for part in parts], np.float64)
    return MaskedFloats(values, _joined([part.known for part in parts], np.bool_))
