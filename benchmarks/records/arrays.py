"""Arrow arrays from numpy's and back, through their buffers: pyarrow's converting functions would import pandas, and
would make an object of every value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engine.column_types import (
    NO_TEXT,
    Bools,
    Codes,
    Gaps,
    Ints,
    MaskedFloats,
    MaskedInts,
    Texts,
    all_true,
    none_known,
)

# pyarrow is untyped.
Array = Any
ALL = slice(None)


class WrongSchemaError(ValueError):
    """Not a file of this product, or one of a newer schema."""


def ints(sizes: Sequence[int], *pieces: MaskedInts | None) -> Array:
    """One int64 array: the pieces one after the other, nulls over the whole size where there is none."""
    return _numbers(sizes, pieces, pa.int64(), np.int64)


def floats(sizes: Sequence[int], *pieces: MaskedFloats | None) -> Array:
    return _numbers(sizes, pieces, pa.float64(), np.float64)


def _numbers(
    sizes: Sequence[int], pieces: Sequence[MaskedInts | MaskedFloats | None], kind: Array, dtype: type[np.generic]
) -> Array:
    if not any(piece is not None and piece.known.any() for piece in pieces):
        return pa.nulls(sum(sizes), kind)
    values, known = np.zeros(sum(sizes), dtype=dtype), np.zeros(sum(sizes), dtype=np.bool_)
    begin = 0
    for size, piece in zip(sizes, pieces, strict=False):
        if piece is not None:
            np.copyto(values[begin : begin + size], piece.values, where=piece.known)
            known[begin : begin + size] = piece.known
        begin += size
    return pa.Array.from_buffers(kind, len(values), [_bitmap(known), pa.py_buffer(values)])


def words(sizes: Sequence[int], *pieces: Texts | None) -> Array:
    """One dictionary array. Its words are those in use, sorted, so that the same rows are always the same bytes."""
    codes = np.full(sum(sizes), NO_TEXT, dtype=np.int32)
    used = sorted({piece.words[code] for piece in pieces if piece is not None for code in _used(piece.codes)})
    places = {word: place for place, word in enumerate(used)}
    begin = 0
    for size, piece in zip(sizes, pieces, strict=False):
        if piece is not None and size:
            # One more at the end, so that NO_TEXT, which is -1, finds itself.
            moved = np.array([*(places.get(word, NO_TEXT) for word in piece.words), NO_TEXT], dtype=np.int32)
            codes[begin : begin + size] = moved[piece.codes]
        begin += size
    known = codes != NO_TEXT
    indices = pa.Array.from_buffers(
        pa.int32(), len(codes), [_bitmap(known), pa.py_buffer(np.where(known, codes, 0).astype(np.int32))]
    )
    return pa.DictionaryArray.from_arrays(indices, _plain_words(used))


def lists(sizes: Sequence[int], flat: Gaps, offsets: Ints) -> Array:
    """A list of uint32 for each row of the first size; nulls after it."""
    padded = np.concatenate((offsets, np.full(sum(sizes[1:]), offsets[-1], dtype=np.int64)))
    known = np.zeros(sum(sizes), dtype=np.bool_)
    known[: sizes[0]] = True
    values = pa.Array.from_buffers(pa.uint32(), len(flat), [None, pa.py_buffer(np.ascontiguousarray(flat))])
    element = pa.field("element", pa.uint32(), nullable=False)
    return pa.Array.from_buffers(
        pa.large_list(element), len(known), [_bitmap(known), pa.py_buffer(padded)], children=[values]
    )


def _used(codes: Codes) -> list[int]:
    found: list[int] = np.flatnonzero(np.bincount(codes[codes != NO_TEXT])).tolist()
    return found


def _plain_words(texts: Sequence[str]) -> Array:
    encoded = [text.encode() for text in texts]
    offsets = np.concatenate(([0], np.cumsum([len(piece) for piece in encoded]))).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.utf8(), len(texts), buffers)


def _bitmap(known: Bools) -> Array:
    return None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))


class File:
    """A Parquet file, of which one column at a time is read. Raises pyarrow.ArrowInvalid where it is none."""

    def __init__(self, content: bytes) -> None:
        self._file = pq.ParquetFile(pa.BufferReader(content))
        self._names = frozenset(self._file.schema_arrow.names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @property
    def metadata(self) -> dict[bytes, bytes] | None:
        found: dict[bytes, bytes] | None = self._file.schema_arrow.metadata
        return found

    def ints(self, name: str, rows: slice = ALL) -> MaskedInts:
        values, known = self._numbers(name, rows, np.int64)
        return none_known(len(known)) if not known.any() else MaskedInts(values, known)

    def floats(self, name: str, rows: slice = ALL) -> MaskedFloats:
        return MaskedFloats(*self._numbers(name, rows, np.float64))

    def words(self, name: str, rows: slice = ALL) -> Texts:
        """Codes of the chosen rows into all words of the column."""
        column = self._column(name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()  # schema 1 had plain text
        array = _one(column.unify_dictionaries(), column.type)
        known = _known(array.indices)
        codes = np.where(known, _buffer(array.indices, np.int32), NO_TEXT).astype(np.int32)
        return Texts(codes[rows], tuple(str(word) for word in array.dictionary.to_pylist()))

    def codes(self, name: str, vocabulary: Sequence[str], rows: slice = ALL) -> Codes:
        """Places in the vocabulary. Raises WrongSchemaError where a row holds another word or none."""
        found = self.words(name, rows)
        places = [vocabulary.index(word) if word in vocabulary else NO_TEXT for word in found.words]
        codes = np.array([*places, NO_TEXT], dtype=np.int32)[found.codes]
        if (codes == NO_TEXT).any():
            raise WrongSchemaError(f"column {name} holds a word that this version does not know")
        return codes

    def lists(self, name: str, rows: slice) -> tuple[Gaps, Ints]:
        """(all values, row i at offsets[i:i + 2]) of the chosen rows."""
        array = self._column(name)
        array = _one(array, array.type)[rows.start : rows.stop]
        if not len(array):
            return np.zeros(0, dtype=np.uint32), np.zeros(1, dtype=np.int64)
        wide = np.int64 if pa.types.is_large_list(array.type) else np.int32
        offsets = np.frombuffer(array.buffers()[1], dtype=wide)[array.offset : array.offset + len(array) + 1]
        dtype = np.int64 if array.values.type == pa.int64() else np.uint32  # schema 1 had int64
        flat = _buffer(array.values, dtype)[offsets[0] : offsets[-1]]
        return flat.astype(np.uint32, copy=False), (offsets - offsets[0]).astype(np.int64)

    def _column(self, name: str) -> Array:
        if name not in self._names:
            raise WrongSchemaError(f"the file has no column {name}")
        # One column gains nothing from pyarrow's pool of threads, and a process that never starts it ends more quietly.
        return self._file.read(columns=[name], use_threads=False).column(name)

    def _numbers(self, name: str, rows: slice, dtype: type[Any]) -> tuple[np.ndarray[Any, Any], Bools]:
        column = self._column(name)
        array = _one(column, column.type)[slice(*rows.indices(len(column))[:2])]
        known = _known(array)
        values = _buffer(array, dtype)
        return (values if known.all() else np.where(known, values, 0)), known


def _one(column: Array, kind: Array) -> Array:
    """A chunked column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, kind)


def _known(array: Array) -> Bools:
    if not array.null_count:
        return all_true(len(array))
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], dtype=np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def _buffer(array: Array, dtype: type[Any]) -> np.ndarray[Any, Any]:
    """The values, those of nulls too, without a copy."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), dtype=dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype=dtype, count=len(array), offset=array.offset * size)
