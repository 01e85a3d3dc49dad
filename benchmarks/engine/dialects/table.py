"""The dialects by name."""

from __future__ import annotations

from benchmarks.engine.dialects import (
    llamacpp_completion,
    ollama_chat,
    openai_chat,
    openai_completions,
    openai_embeddings,
)
from benchmarks.engine.dialects.base import Dialect

_ALL: tuple[Dialect, ...] = (openai_chat, openai_completions, openai_embeddings, ollama_chat, llamacpp_completion)
DIALECTS: dict[str, Dialect] = {dialect.NAME: dialect for dialect in _ALL}


def dialect_of(name: str) -> Dialect:
    """Raises KeyError with the names there are."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise KeyError(f"dialect {name!r} is not spoken here, only {', '.join(sorted(DIALECTS))}") from None
