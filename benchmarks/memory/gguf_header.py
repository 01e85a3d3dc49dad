"""The head of a GGUF file from its first bytes: metadata and the list of tensors, by the types of the gguf package.

That package's own reader maps a whole file and takes its counts on trust. This one is given bytes, believes no count that
the bytes cannot hold, and keeps of the metadata only scalars, short texts and short rows of numbers.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

from gguf.constants import GGML_QUANT_SIZES, GGUF_MAGIC, GGMLQuantizationType, GGUFValueType

from benchmarks.memory.geometry import UnknownGeometryError

MOST_BYTES = 32 << 20
"""Metadata with the words of a large vocabulary takes about 15 MB."""
_VERSIONS = (2, 3)
_MOST_KEYS, _MOST_TENSORS, _MOST_ELEMENTS = 65_536, 1_000_000, 16_000_000
_LONGEST_KEY, _LONGEST_KEPT, _MOST_DEPTH, _MOST_DIMENSIONS = 65_535, 4096, 4, 8

Scalar = int | float | bool | str
Value = Scalar | tuple[int | float | bool, ...]

_FORMATS = {
    GGUFValueType.UINT8: "<B",
    GGUFValueType.INT8: "<b",
    GGUFValueType.UINT16: "<H",
    GGUFValueType.INT16: "<h",
    GGUFValueType.UINT32: "<I",
    GGUFValueType.INT32: "<i",
    GGUFValueType.FLOAT32: "<f",
    GGUFValueType.UINT64: "<Q",
    GGUFValueType.INT64: "<q",
    GGUFValueType.FLOAT64: "<d",
    GGUFValueType.BOOL: "<?",
}


class EndOfBytesError(UnknownGeometryError):
    """The bytes end inside the head."""


@dataclass(frozen=True, slots=True)
class Header:
    """`tensor_bytes` is None where the bytes end before the last tensor's description, or a tensor's type is new."""

    values: dict[str, Value]
    tensors: int
    tensor_bytes: int | None


def is_gguf(content: bytes) -> bool:
    return content[:4] == struct.pack("<I", GGUF_MAGIC)


def read(content: bytes) -> Header:
    """All metadata, and the tensors' size where their list is whole. UnknownGeometryError with a sentence otherwise."""
    if not is_gguf(content):
        raise UnknownGeometryError("This is no GGUF file: it does not begin with GGUF.")
    bytes_ = _Bytes(memoryview(content)[:MOST_BYTES])
    try:
        tensors, values = _metadata(bytes_)
    except EndOfBytesError:
        raise UnknownGeometryError(
            f"The metadata of this GGUF file goes on beyond the {len(content):,} bytes given, and what is missing could change "
            f"the answer. Give the first {MOST_BYTES >> 20} MiB of the file."
        ) from None
    try:
        size = _tensor_bytes(bytes_, tensors)
    except EndOfBytesError:
        size = None
    return Header(values=values, tensors=tensors, tensor_bytes=size)


@dataclass(slots=True)
class _Bytes:
    """A place in the bytes that only moves forward. Nothing is copied before it is known to be there."""

    content: memoryview
    at: int = 0
    elements: int = field(default=0)

    def take(self, size: int) -> memoryview:
        if size > len(self.content) - self.at:
            raise EndOfBytesError("the bytes end")
        piece = self.content[self.at : self.at + size]
        self.at += size
        return piece

    def number(self, kind: GGUFValueType) -> int | float | bool:
        form = _FORMATS[kind]
        found: int | float | bool = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return found

    def count(self, kind: GGUFValueType = GGUFValueType.UINT64) -> int:
        return int(self.number(kind))

    def text(self) -> memoryview:
        return self.take(self.count())


def _metadata(bytes_: _Bytes) -> tuple[int, dict[str, Value]]:
    """How many tensors follow, and the metadata."""
    bytes_.take(4)
    version = bytes_.count(GGUFValueType.UINT32)
    if version not in _VERSIONS:
        turned = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
        raise UnknownGeometryError(
            "This GGUF file is written for big-endian machines, which is not read here."
            if turned
            else f"This GGUF file has version {version}; {' and '.join(map(str, _VERSIONS))} are read here."
        )
    tensors, keys = bytes_.count(), bytes_.count()
    if tensors > _MOST_TENSORS or keys > _MOST_KEYS:
        raise UnknownGeometryError(f"This GGUF file claims {tensors:,} tensors and {keys:,} keys: it is damaged.")
    values: dict[str, Value] = {}
    for _ in range(keys):
        name = _name(bytes_)
        if name in values:
            raise UnknownGeometryError(f"This GGUF file says {name} twice: it is damaged.")
        value = _value(bytes_, _kind(bytes_), depth=0)
        if value is not None:
            values[name] = value
    return tensors, values


def _name(bytes_: _Bytes) -> str:
    size = bytes_.count()
    if size > _LONGEST_KEY:
        raise UnknownGeometryError(f"This GGUF file holds a name of {size:,} bytes: it is damaged.")
    return _decoded(bytes_.take(size))


def _decoded(piece: memoryview) -> str:
    try:
        return str(piece, "utf-8")
    except UnicodeDecodeError:
        raise UnknownGeometryError("This GGUF file holds a text that is not UTF-8: it is damaged.") from None


def _kind(bytes_: _Bytes) -> GGUFValueType:
    number = bytes_.count(GGUFValueType.UINT32)
    try:
        return GGUFValueType(number)
    except ValueError:
        raise UnknownGeometryError(f"This GGUF file holds a value of type {number}, which nobody defined.") from None


def _value(bytes_: _Bytes, kind: GGUFValueType, depth: int) -> Value | None:
    """None for what is walked over: long texts, rows of texts, long rows."""
    if kind == GGUFValueType.STRING:
        text = bytes_.text()
        return _decoded(text) if len(text) <= _LONGEST_KEPT else None
    if kind == GGUFValueType.ARRAY:
        return _row(bytes_, depth + 1)
    return bytes_.number(kind)


def _row(bytes_: _Bytes, depth: int) -> tuple[int | float | bool, ...] | None:
    kind, count = _kind(bytes_), bytes_.count()
    bytes_.elements += count
    if depth > _MOST_DEPTH or bytes_.elements > _MOST_ELEMENTS:
        raise UnknownGeometryError("This GGUF file holds rows too long or too deep: it is damaged.")
    if kind in _FORMATS:
        piece = bytes_.take(count * struct.calcsize(_FORMATS[kind]))
        return struct.unpack(f"<{count}{_FORMATS[kind][1]}", piece) if count <= _LONGEST_KEPT else None
    for _ in range(count):
        if kind == GGUFValueType.STRING:
            bytes_.text()
        else:
            _row(bytes_, depth + 1)
    return None


def _tensor_bytes(bytes_: _Bytes, tensors: int) -> int | None:
    total, known = 0, True
    for _ in range(tensors):
        _name(bytes_)
        dimensions = bytes_.count(GGUFValueType.UINT32)
        if dimensions > _MOST_DIMENSIONS:
            raise UnknownGeometryError(f"A tensor of this GGUF file has {dimensions:,} dimensions: it is damaged.")
        elements = math.prod(bytes_.count() for _ in range(dimensions))
        try:
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType(bytes_.count(GGUFValueType.UINT32))]
        except (ValueError, KeyError):
            block, size, known = 1, 0, False
        bytes_.count()
        total += -(-elements // block) * size
    return total if known else None
