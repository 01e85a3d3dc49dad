"""From attempts to requests: records of one index are tries of one request, in whatever order the log has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.engine.column_types import Ints, MaskedFloats, MaskedInts, Requests, Texts


@dataclass(frozen=True)
class Issued:
    """One row per request. What became of it and its server's times are the last attempt's; when it was due, its phase
    and `first_sent` are the first attempt's, so that the user's time holds every wait between. `whole` is false where
    a record is there twice or an attempt before the last is missing."""

    requests: Requests
    first_sent: MaskedInts
    attempts: Ints
    whole: bool


def issued(records: Requests) -> Issued:
    index, attempt = records.plain["index"], records.plain["attempt"]
    # Sorting is several times faster than np.unique's hashing.
    if not len(records) or (attempt.max() == 1 and np.all(np.diff(np.sort(index)) > 0)):
        return Issued(records, records.masked["t_sent_ns"], attempt, whole=bool(np.all(attempt == 1)))
    order = np.lexsort((attempt, index))
    starts = np.flatnonzero(np.diff(index[order], prepend=index[order[0]] - 1))
    counts = np.diff(np.append(starts, len(order)))
    first, last = order[starts], order[starts + counts - 1]
    expected = np.arange(len(order)) - np.repeat(starts, counts) + 1
    taken = take(records, last)
    taken = replace(
        taken,
        plain=taken.plain | {"t_scheduled_ns": records.plain["t_scheduled_ns"][first]},
        codes=taken.codes | {"phase": records.codes["phase"][first]},
    )
    return Issued(
        requests=taken,
        first_sent=_rows(records.masked["t_sent_ns"], first),
        attempts=counts.astype(np.int64),
        whole=bool(np.array_equal(attempt[order], expected)),
    )


def take(records: Requests, rows: Ints) -> Requests:
    """These rows, in this order, with their gaps."""
    offsets = records.gap_offsets
    lengths = np.diff(offsets)[rows]
    begins = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)))
    places = np.arange(begins[-1]) + np.repeat(offsets[rows] - begins[:-1], lengths)
    return Requests(
        plain={name: values[rows] for name, values in records.plain.items()},
        masked={name: _rows(masked, rows) for name, masked in records.masked.items()},
        masked_floats={
            name: MaskedFloats(masked.values[rows], masked.known[rows])
            for name, masked in records.masked_floats.items()
        },
        codes={name: codes[rows] for name, codes in records.codes.items()},
        texts={name: Texts(texts.codes[rows], texts.words) for name, texts in records.texts.items()},
        resent=records.resent[rows],
        gaps_us=records.gaps_us[places],
        gap_offsets=begins,
    )


def _rows(masked: MaskedInts, rows: Ints) -> MaskedInts:
    return MaskedInts(masked.values[rows], masked.known[rows])
