"""A cell's evidence as one Parquet file, and back. The schema is in docs/evidence.md; its version is in the file.

Requests and readings share one table, told apart by `record`; a column that does not apply is null. What comes once per
cell (header with the plan, window, client health, end, what was not reported) is JSON in the file's metadata. Arrays
are built from buffers: pyarrow's converting functions would import pandas.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engine.columns import (
    CODES,
    MASKED_FLOATS,
    MASKED_INTS,
    PLAIN_INTS,
    TEXTS,
    Bools,
    Columns,
    Ints,
    MaskedFloats,
    MaskedInts,
    Readings,
    Requests,
)
from benchmarks.engine.terms import ClientHealth, End, Header, NotReported, Window

SCHEMA_VERSION = 1
META_KEY = b"headroom"
REQUEST, READING = "request", "reading"

# pyarrow is untyped.
Array = Any
Table = Any


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What the file's metadata holds under `headroom`."""

    schema: int
    header: Header
    window: Window | None
    health: ClientHealth | None
    end: End | None
    not_reported: tuple[NotReported, ...]


class WrongSchemaError(ValueError):
    """Not a file of this product, or one of a newer schema."""


def write(columns: Columns) -> bytes:
    """The same columns give the same bytes, by one version of pyarrow."""
    requests, readings = columns.requests, columns.readings
    head, tail = len(requests), len(readings.t_ns)
    arrays: dict[str, Array] = {"record": _texts([REQUEST] * head + [READING] * tail)}
    for name in PLAIN_INTS:
        arrays[name] = _numbers(requests.plain[name], _all(head), after=tail)
    for name in MASKED_INTS:
        arrays[name] = _numbers(requests.masked[name].values, requests.masked[name].known, after=tail)
    for name in MASKED_FLOATS:
        masked = requests.masked_floats[name]
        arrays[name] = _numbers(masked.values, masked.known, after=tail)
    arrays["resent"] = _numbers(requests.resent.astype(np.int64), _all(head), after=tail)
    for name, vocabulary in CODES.items():
        arrays[name] = _texts([vocabulary[code] for code in requests.codes[name]] + [None] * tail)
    for name in TEXTS:
        arrays[name] = _texts([*requests.texts[name], *[None] * tail])
    arrays["chunk_gaps_us"] = _lists(requests.gaps_us, requests.gap_offsets, after=tail)
    arrays |= _reading_arrays(readings, before=head)
    meta = Meta(
        schema=SCHEMA_VERSION,
        header=columns.header,
        window=columns.window,
        health=columns.health,
        end=columns.end,
        not_reported=columns.not_reported,
    )
    table = pa.Table.from_arrays(list(arrays.values()), names=list(arrays))
    table = table.replace_schema_metadata({META_KEY: msgspec.json.encode(meta)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read(content: bytes) -> Columns:
    """Raises WrongSchemaError."""
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read()
    except pa.ArrowInvalid as error:
        raise WrongSchemaError(f"not a Parquet file: {error}") from error
    meta = meta_of(table.schema.metadata)
    table = table.combine_chunks()
    head = _count(table, REQUEST)
    return Columns(
        header=meta.header,
        window=meta.window,
        health=meta.health,
        end=meta.end,
        not_reported=meta.not_reported,
        requests=_requests(table.slice(0, head)),
        readings=_readings(table.slice(head)),
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
    if meta.schema != SCHEMA_VERSION:
        raise WrongSchemaError(f"schema {meta.schema}, this version reads {SCHEMA_VERSION}")
    return meta


def _reading_arrays(readings: Readings, *, before: int) -> dict[str, Array]:
    count = len(readings.t_ns)
    labels = [readings.labels[place] for place in readings.label]
    parts = zip(*labels, strict=True) if labels else ((), (), ())
    texts = {
        name: _texts([*[None] * before, *part])
        for name, part in zip(("reading", "source", "device"), parts, strict=True)
    }
    return {
        "t_ns": _numbers(readings.t_ns, _all(count), before=before),
        "value": _numbers(readings.value, _all(count), before=before),
        **texts,
    }


def _requests(table: Table) -> Requests:
    plain = {name: _ints(table, name).values for name in PLAIN_INTS}
    gaps, offsets = _flat(table, "chunk_gaps_us")
    return Requests(
        plain=plain,
        masked={name: _ints(table, name) for name in MASKED_INTS},
        masked_floats={name: _floats(table, name) for name in MASKED_FLOATS},
        codes={
            name: np.array([vocabulary.index(text or "") for text in _strings(table, name)], dtype=np.int8)
            for name, vocabulary in CODES.items()
        },
        texts={name: _strings(table, name) for name in TEXTS},
        resent=_ints(table, "resent").values == 1,
        gaps_us=gaps,
        gap_offsets=offsets,
    )


def _readings(table: Table) -> Readings:
    names, sources, devices = (_strings(table, name) for name in ("reading", "source", "device"))
    places: dict[tuple[str, str, str], int] = {}
    label = [
        places.setdefault((name or "", source or "", device or ""), len(places))
        for name, source, device in zip(names, sources, devices, strict=True)
    ]
    return Readings(
        t_ns=_ints(table, "t_ns").values,
        value=_floats(table, "value").values,
        label=np.array(label, dtype=np.int64),
        labels=tuple(places),
    )


def _all(count: int) -> Bools:
    return np.ones(count, dtype=np.bool_)


def _bitmap(known: Bools) -> Array:
    return pa.py_buffer(np.packbits(known, bitorder="little").tobytes())


def _numbers(values: np.ndarray[Any, Any], known: Bools, *, before: int = 0, after: int = 0) -> Array:
    """An int64 or float64 array with nulls where unknown, and `before` and `after` further nulls around."""
    kind = pa.float64() if values.dtype == np.float64 else pa.int64()
    padded = np.concatenate((np.zeros(before, values.dtype), values, np.zeros(after, values.dtype)))
    valid = np.concatenate((np.zeros(before, np.bool_), known, np.zeros(after, np.bool_)))
    padded[~valid] = 0
    return pa.Array.from_buffers(kind, len(padded), [_bitmap(valid), pa.py_buffer(padded.tobytes())])


def _texts(texts: Sequence[str | None]) -> Array:
    encoded = [b"" if text is None else text.encode() for text in texts]
    offsets = np.array([0, *itertools.accumulate(len(piece) for piece in encoded)], dtype=np.int64)
    known = np.array([text is not None for text in texts], dtype=np.bool_)
    buffers = [_bitmap(known), pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_utf8(), len(texts), buffers)


def _lists(flat: Ints, offsets: Ints, *, after: int) -> Array:
    padded = np.concatenate((offsets, np.full(after, offsets[-1], dtype=np.int64)))
    known = np.concatenate((_all(len(offsets) - 1), np.zeros(after, dtype=np.bool_)))
    values = pa.Array.from_buffers(pa.int64(), len(flat), [None, pa.py_buffer(flat.tobytes())])
    buffers = [_bitmap(known), pa.py_buffer(padded.tobytes())]
    return pa.Array.from_buffers(pa.large_list(pa.int64()), len(known), buffers, children=[values])


def _one(table: Table, name: str) -> Array:
    """The column as one array that begins at offset 0."""
    try:
        column = table.column(name)
    except KeyError as error:
        raise WrongSchemaError(f"the file has no column {name}") from error
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _known(array: Array) -> Bools:
    bitmap = array.buffers()[0]
    if bitmap is None:
        return _all(len(array))
    bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def _buffer(array: Array, place: int, dtype: type[np.int64] | type[np.float64], count: int) -> np.ndarray[Any, Any]:
    buffer = array.buffers()[place]
    if buffer is None or count == 0:
        return np.zeros(count, dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=count, offset=array.offset * 8).copy()


def _ints(table: Table, name: str) -> MaskedInts:
    array = _one(table, name)
    known = _known(array)
    return MaskedInts(np.where(known, _buffer(array, 1, np.int64, len(array)), 0), known)


def _floats(table: Table, name: str) -> MaskedFloats:
    array = _one(table, name)
    known = _known(array)
    return MaskedFloats(np.where(known, _buffer(array, 1, np.float64, len(array)), 0.0), known)


def _strings(table: Table, name: str) -> tuple[str | None, ...]:
    array = _one(table, name)
    if not len(array):
        return ()
    offsets = _buffer(array, 1, np.int64, len(array) + 1)
    raw = array.buffers()[2]
    data = b"" if raw is None else raw.to_pybytes()
    known = _known(array)
    return tuple(data[offsets[row] : offsets[row + 1]].decode() if known[row] else None for row in range(len(array)))


def _flat(table: Table, name: str) -> tuple[Ints, Ints]:
    array = _one(table, name)
    if not len(array):
        return np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    offsets = _buffer(array, 1, np.int64, len(array) + 1)
    values = array.values
    flat = _buffer(values, 1, np.int64, len(values))[offsets[0] : offsets[-1]]
    return flat, offsets - offsets[0]


def _count(table: Table, record: str) -> int:
    return sum(kind == record for kind in _strings(table, "record"))
