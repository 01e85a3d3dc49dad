"""Tokens that no server counted: the texts are kept during the run, and counted afterwards by the tokeniser that the
plan pins by its digest. Nothing is computed while a window runs."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import overload

import numpy as np

from benchmarks.engine.column_types import TOKEN_SOURCES, Ints, MaskedInts, Requests
from benchmarks.engine.terms import TokenSource, Uncounted

Count = Callable[[Sequence[str]], Sequence[int]]
"""Texts to their numbers of tokens, none of them one that stands for begin or end."""
Counter = Callable[[str], Count | None]
"""From a tokeniser's SHA-256 to what counts by it; None where that is not at hand, and tokens stay unknown."""
AT_ONCE = 512
_ATTEMPT_BITS = 20


class Counted:
    """What the pinned tokeniser counted, some hundred texts at a time; where there is none nothing is."""

    def __init__(self, counter: Counter | None) -> None:
        self._counter = counter
        self._count: Count | None = None
        self._texts: list[str] = []
        self._keys, self._tokens = array("q"), array("q")

    def add(self, frame: Uncounted, sha256: str) -> None:
        """`sha256` is what the plan pins, the same for every frame of a log."""
        if self._counter is None or not sha256:
            return
        self._count = self._count or self._counter(sha256)
        if self._count is None:
            self._counter = None
            return
        self._keys.append(_key(frame.index, frame.attempt))
        self._texts.append(frame.answer)
        if len(self._texts) >= AT_ONCE:
            self._settle()

    def into(self, requests: Requests) -> Requests:
        """The requests with their counts; a server's own count stands."""
        self._settle()
        if not self._keys:
            return requests
        keys, place = np.unique(np.array(self._keys, dtype=np.int64), return_index=True)
        tokens = np.array(self._tokens, dtype=np.int64)[place]
        wanted = _key(requests.plain["index"], requests.plain["attempt"])
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        told = requests.masked["output_tokens"]
        found = (keys[at] == wanted) & ~told.known
        values = np.where(found, tokens[at], told.values)
        sources = np.where(found, TOKEN_SOURCES.index(TokenSource.TOKENIZER.value), requests.codes["token_source"])
        return replace(
            requests,
            masked={**requests.masked, "output_tokens": MaskedInts(values, told.known | found)},
            codes={**requests.codes, "token_source": sources.astype(np.int8)},
        )

    def _settle(self) -> None:
        if self._texts and self._count is not None:
            self._tokens.extend(self._count(self._texts))
            self._texts = []


@overload
def _key(index: int, attempt: int) -> int: ...
@overload
def _key(index: Ints, attempt: Ints) -> Ints: ...
def _key(index: int | Ints, attempt: int | Ints) -> int | Ints:
    return (index << _ATTEMPT_BITS) + attempt
