"""Embeddings of a simulated model: unit vectors from a seed and the text, the same for the same text."""

from __future__ import annotations

import base64
import random
import zlib
from array import array

DIMENSIONS = 64


def vector(text: str, seed: int) -> array[float]:
    """Of length 1, as 32-bit floats."""
    dice = random.Random(zlib.crc32(text.encode()) ^ seed)
    values = [dice.gauss(0.0, 1.0) for _ in range(DIMENSIONS)]
    length = sum(value * value for value in values) ** 0.5
    return array("f", [value / length for value in values])


def as_base64(values: array[float]) -> str:
    """Little-endian, as OpenAI's API packs them. Every machine this runs on is little-endian."""
    return base64.b64encode(values.tobytes()).decode()
