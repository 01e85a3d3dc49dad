"""Bytes of a config.json or of a GGUF file to a geometry: the one door for what a person pastes or uploads."""

from __future__ import annotations

import hashlib

from benchmarks.memory import families, gguf_header, gguf_model
from benchmarks.memory.geometry import Geometry, UnknownGeometryError, as_json, from_json

MOST_BYTES = gguf_header.MOST_BYTES


def geometry_of(content: bytes) -> Geometry:
    """UnknownGeometryError with a sentence for everything that is not known; no other error comes out of here."""
    if not content.strip(b" \t\r\n"):
        raise UnknownGeometryError("This file is empty.")
    # Written and read once, so that what is returned is what can be kept: within all bounds.
    return from_json(as_json(_read(content)))


def _read(content: bytes) -> Geometry:
    if gguf_header.is_gguf(content):
        return gguf_model.of_bytes(content)
    if content.startswith(b"FUGG"):
        raise UnknownGeometryError("This GGUF file is written for big-endian machines, which is not read here.")
    return families.of_bytes(content)


def source_line(name: str, content: bytes) -> str:
    """Where a geometry comes from: the file's name and the SHA-256 of the bytes that were read."""
    return f"{name[:100]}, SHA-256 {hashlib.sha256(content).hexdigest()}"
