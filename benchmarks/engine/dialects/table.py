"""The dialects by name."""

from __future__ import annotations

from benchmarks.engine.dialects import openai_chat
from benchmarks.engine.dialects.base import Dialect

DIALECTS: dict[str, Dialect] = {dialect.NAME: dialect for dialect in (openai_chat,)}


def dialect_of(name: str) -> Dialect:
    """Raises KeyError with the names there are."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise KeyError(f"dialect {name!r} is not spoken here, only {', '.join(sorted(DIALECTS))}") from None
