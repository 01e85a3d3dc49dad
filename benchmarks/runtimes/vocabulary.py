"""256 made-up words, each two consonant-vowel pairs. In the tiny test model and in the simulator one word is one token.

The list is fixed for ever: prompts, digests and the tiny model's tokeniser are built from it.
"""

from __future__ import annotations

CONSONANTS = "bdfgklmnprstvz"
VOWELS = "aeiou"
WORD_COUNT = 256
_STRIDE = 1871  # coprime with the 4,900 possible words, so the walk below visits each at most once


def _all_words() -> tuple[str, ...]:
    pairs = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
    return tuple(first + second for first in pairs for second in pairs)


def _chosen() -> tuple[str, ...]:
    every = _all_words()
    return tuple(sorted(every[(index * _STRIDE) % len(every)] for index in range(WORD_COUNT)))


WORDS: tuple[str, ...] = _chosen()
WORD_SET: frozenset[str] = frozenset(WORDS)
