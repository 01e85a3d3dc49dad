"""A cell's evidence as one Parquet file, and back. The schema is in docs/evidence.md; its version is in the file.

Requests, batches and readings share one table, told apart by `record`; a column that does not apply is null. What comes
once per cell (header with the plan, window, client health, end, what was not reported, clocks of resumed runs) is JSON
in the file's metadata. The texts of sampled requests stand in the row of their request, null in all others. Files of
schemas 1 to 3 are read too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engine.column_types import (
    BATCH_INTS,
    BATCH_MASKED,
    CODES,
    MASKED_FLOATS,
    MASKED_INTS,
    NO_TEXT,
    OUTCOMES,
    PLAIN_INTS,
    TEXTS,
    Batches,
    Columns,
    Ints,
    MaskedFloats,
    MaskedInts,
    Readings,
    Requests,
    Texts,
    all_true,
    no_texts,
    none_known,
    texts_of,
)
from benchmarks.engine.terms import ClientHealth, End, Header, NotReported, Resumed, Sample, Window
from benchmarks.records import arrays
from benchmarks.records.arrays import Array, WrongSchemaError

__all__ = ["META_KEY", "SCHEMA_VERSION", "Meta", "WrongSchemaError", "meta_of", "read", "samples_in", "write"]

SCHEMA_VERSION = 4
READABLE = (1, 2, 3, 4)
META_KEY = b"headroom"
RECORDS = ("request", "batch", "reading")
READING_TEXTS = ("reading", "source", "device")
SAMPLE_TEXTS = ("prompt", "expected", "answer", "answer_sha256")
SAMPLE_INTS = ("prompt_characters", "answer_characters")
WORDS = ("record", *CODES, *TEXTS, *READING_TEXTS, *SAMPLE_TEXTS)
GAPS = "chunk_gaps_us"
# Integers that grow or stay near each other; a third smaller and faster than dictionaries of them, and any reader of
# Parquet knows it.
DELTAS = (*PLAIN_INTS, *MASKED_INTS, *SAMPLE_INTS, "resent", "items", "t_ns", f"{GAPS}.list.element")
ZSTD_LEVEL = 1


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What the file's metadata holds under `headroom`."""

    schema: int
    header: Header
    window: Window | None
    health: ClientHealth | None
    end: End | None
    not_reported: tuple[NotReported, ...]
    resumed: tuple[Resumed, ...] = ()


def write(columns: Columns) -> bytes:
    """The same columns give the same bytes, by one version of pyarrow."""
    made = _arrays(columns)
    meta = Meta(
        schema=SCHEMA_VERSION,
        header=columns.header,
        window=columns.window,
        health=columns.health,
        end=columns.end,
        not_reported=columns.not_reported,
        resumed=columns.resumed,
    )
    table = pa.Table.from_arrays(list(made.values()), names=list(made))
    table = table.replace_schema_metadata({META_KEY: msgspec.json.encode(meta)})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=list(WORDS),
        column_encoding=dict.fromkeys(DELTAS, "DELTA_BINARY_PACKED"),
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read(content: bytes) -> Columns:
    """Raises WrongSchemaError."""
    try:
        file = arrays.File(content)
    except pa.ArrowInvalid as error:
        raise WrongSchemaError(f"not a Parquet file: {error}") from error
    meta = meta_of(file.metadata)
    kinds = np.bincount(file.codes("record", RECORDS), minlength=len(RECORDS)).tolist()
    requests, batches, _ = kinds
    rows = _requests(file, slice(0, requests))
    return Columns(
        header=meta.header,
        window=meta.window,
        health=meta.health,
        end=meta.end,
        not_reported=meta.not_reported,
        requests=rows,
        batches=_batches(file, slice(requests, requests + batches)),
        readings=_readings(file, slice(requests + batches, sum(kinds))),
        resumed=meta.resumed,
        samples=tuple(samples_in(file, rows.plain["index"], rows.plain["attempt"]).values()),
    )


def meta_of(metadata: Mapping[bytes, bytes] | None) -> Meta:
    """What came once per cell. Raises WrongSchemaError."""
    raw = (metadata or {}).get(META_KEY)
    if raw is None:
        raise WrongSchemaError("the file has no headroom metadata")
    try:
        meta = msgspec.json.decode(raw, type=Meta)
    except msgspec.DecodeError as error:
        raise WrongSchemaError(f"metadata not understood: {error}") from error
    if meta.schema not in READABLE:
        raise WrongSchemaError(f"schema {meta.schema}, this version reads {' and '.join(map(str, READABLE))}")
    return meta


def _arrays(columns: Columns) -> dict[str, Array]:
    """Every column of the table: first the requests' rows, then the batches', then the readings'."""
    requests, batches, readings = columns.requests, columns.batches, columns.readings
    sizes = (len(requests), len(batches), len(readings.t_ns))
    of_batches = {name: MaskedInts(batches.plain[name], all_true(len(batches))) for name in BATCH_INTS}
    of_batches |= batches.masked
    record = np.repeat(np.arange(len(RECORDS), dtype=np.int32), sizes)
    made: dict[str, Array] = {"record": arrays.words((sum(sizes),), Texts(record, RECORDS))}
    for name in PLAIN_INTS:
        made[name] = arrays.ints(sizes, MaskedInts(requests.plain[name], all_true(len(requests))))
    for name in MASKED_INTS:
        made[name] = arrays.ints(sizes, requests.masked[name], of_batches.pop(name, None))
    for name in MASKED_FLOATS:
        made[name] = arrays.floats(sizes, requests.masked_floats[name])
    made["resent"] = arrays.ints(sizes, MaskedInts(requests.resent.astype(np.int64), all_true(len(requests))))
    for name, vocabulary in CODES.items():
        of_batch = Texts(batches.outcome.astype(np.int32), OUTCOMES) if name == "outcome" else None
        made[name] = arrays.words(sizes, Texts(requests.codes[name].astype(np.int32), vocabulary), of_batch)
    for name in TEXTS:
        made[name] = arrays.words(sizes, requests.texts[name])
    made |= _sampled(columns, sizes)
    made["items"] = arrays.ints(sizes, None, of_batches.pop("items"))
    made[GAPS] = arrays.lists(sizes, requests.gaps_us, requests.gap_offsets)
    made["t_ns"] = arrays.ints(sizes, None, None, MaskedInts(readings.t_ns, all_true(sizes[2])))
    made["value"] = arrays.floats(sizes, None, None, MaskedFloats(readings.value, all_true(sizes[2])))
    for place, name in enumerate(READING_TEXTS):
        made[name] = arrays.words(sizes, None, None, _part_of_labels(readings, place))
    return made


def _sampled(columns: Columns, sizes: Sequence[int]) -> dict[str, Array]:
    """The texts of samples in the rows of their attempts; a sample whose row was lost is lost with it."""
    plain, found = columns.requests.plain, {(one.index, one.attempt): one for one in columns.samples}
    near = np.flatnonzero(np.isin(plain["index"], [index for index, _ in found]))
    kept = [(row, found.get((int(plain["index"][row]), int(plain["attempt"][row])))) for row in near.tolist()]
    rows = [row for row, one in kept if one is not None]
    samples = [one for _, one in kept if one is not None]
    known = np.zeros(len(columns.requests), dtype=np.bool_)
    known[rows] = True
    made: dict[str, Array] = {}
    for name in SAMPLE_TEXTS:
        texts = texts_of([getattr(one, name) for one in samples])
        codes = np.full(len(columns.requests), NO_TEXT, dtype=np.int32)
        codes[rows] = texts.codes
        made[name] = arrays.words(sizes, Texts(codes, texts.words))
    for name in SAMPLE_INTS:
        values = np.zeros(len(columns.requests), dtype=np.int64)
        values[rows] = [getattr(one, name) for one in samples]
        made[name] = arrays.ints(sizes, MaskedInts(values, known))
    return made


def samples_in(file: arrays.File, index: Ints, attempt: Ints) -> dict[int, Sample]:
    """Row -> sample of a file, in order; of those before schema 4 none. `index` and `attempt` are of its requests' rows,
    which come first."""
    if "answer" not in file:
        return {}
    rows = slice(0, len(index))
    texts = {name: file.words(name, rows) for name in SAMPLE_TEXTS}
    counts = {name: file.ints(name, rows).values for name in SAMPLE_INTS}
    return {
        row: Sample(
            index=int(index[row]),
            attempt=int(attempt[row]),
            prompt=texts["prompt"][row] or "",
            prompt_characters=int(counts["prompt_characters"][row]),
            expected=texts["expected"][row] or "",
            answer=texts["answer"][row] or "",
            answer_characters=int(counts["answer_characters"][row]),
            answer_sha256=texts["answer_sha256"][row] or "",
        )
        for row in np.flatnonzero(texts["answer"].codes != NO_TEXT).tolist()
    }


def _part_of_labels(readings: Readings, place: int) -> Texts:
    parts = [label[place] for label in readings.labels]
    words = tuple(dict.fromkeys(parts))
    codes = np.array([words.index(part) for part in parts], dtype=np.int32)
    return Texts(codes[readings.label], words)


def _requests(file: arrays.File, rows: slice) -> Requests:
    gaps, offsets = file.lists(GAPS, rows)
    count = rows.stop - rows.start
    return Requests(
        plain={name: file.ints(name, rows).values for name in PLAIN_INTS},
        masked={name: file.ints(name, rows) if name in file else none_known(count) for name in MASKED_INTS},
        masked_floats={name: file.floats(name, rows) for name in MASKED_FLOATS},
        codes={name: file.codes(name, words, rows).astype(np.int8) for name, words in CODES.items()},
        texts={name: file.words(name, rows) if name in file else no_texts(count) for name in TEXTS},
        resent=file.ints("resent", rows).values == 1,
        gaps_us=gaps,
        gap_offsets=offsets,
    )


def _batches(file: arrays.File, rows: slice) -> Batches:
    count = rows.stop - rows.start
    found = {name: file.ints(name, rows) if count else none_known(0) for name in (*BATCH_INTS, *BATCH_MASKED)}
    return Batches(
        plain={name: found[name].values for name in BATCH_INTS},
        masked={name: found[name] for name in BATCH_MASKED},
        outcome=file.codes("outcome", OUTCOMES, rows).astype(np.int8),
    )


def _readings(file: arrays.File, rows: slice) -> Readings:
    parts = [file.words(name, rows) for name in READING_TEXTS]
    joined = np.zeros(rows.stop - rows.start, dtype=np.int64)
    for part in parts:
        joined = joined * (len(part.words) + 1) + part.codes
    _, first, place = np.unique(joined, return_index=True, return_inverse=True)
    order = np.argsort(first)  # labels in the order in which they come first
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    labels = tuple((parts[0][row] or "", parts[1][row] or "", parts[2][row] or "") for row in first[order].tolist())
    return Readings(
        t_ns=file.ints("t_ns", rows).values,
        value=file.floats("value", rows).values,
        label=rank[place].astype(np.int64),
        labels=labels,
    )
