"""The tokeniser that counts what a server does not: a model's own tokenizer.json, known by its SHA-256."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engine.counting import Count

MOST_BYTES = 64 * 1024**2
"""The largest published tokenizer.json are about a third of it."""


class TokenizerError(ValueError):
    """The pinned tokeniser cannot count; the words say what to do about it."""


def found(folder: Path, sha256: str) -> Path:
    """The file of that digest, whatever it is called, at any depth of one below the folder. Raises TokenizerError."""
    for path in sorted((*folder.glob("*.json"), *folder.glob("*/*.json"))):
        if path.stat().st_size <= MOST_BYTES and hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
            return path
    raise TokenizerError(
        f"No tokeniser with the digest {sha256[:12]} is on this host: put the model's tokenizer.json into {folder}."
    )


def opened(path: Path) -> Count:
    """Counts texts as they stand, without tokens that mark begin or end. Raises TokenizerError."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a worker process is a fork
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise TokenizerError(
            "The package that reads tokenizer.json is not installed: pip install -r requirements-tokenizer.txt on this host."
        ) from error
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises plain Exception for a file that is none
        raise TokenizerError(f"{path.name} is no tokenizer.json that can be read: {error}") from error

    def count(texts: Sequence[str]) -> list[int]:
        return [len(one.ids) for one in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    return count
