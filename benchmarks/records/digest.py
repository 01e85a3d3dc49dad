"""The digest that evidence is bound by."""

from __future__ import annotations

import hashlib


def sha256(data: bytes) -> str:
    """64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
