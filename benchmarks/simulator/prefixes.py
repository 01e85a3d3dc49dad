"""A cache of prompt beginnings in blocks, as vLLM's automatic prefix caching keeps them: the newest blocks stay."""

from __future__ import annotations

from collections import OrderedDict

BLOCK_TOKENS = 16


class PrefixCache:
    """Knows blocks by everything up to their end. Holds at most `kv_tokens`."""

    def __init__(self, kv_tokens: int) -> None:
        self._most_blocks = max(1, kv_tokens // BLOCK_TOKENS)
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def cached_tokens(self, prompt: str) -> int:
        """How many tokens at the prompt's beginning are known, whole blocks only, and never the whole prompt: its last
        token must be computed for a first output. From now on the prompt is known."""
        words = prompt.split()
        cached, known, mark = 0, True, 0
        for end in range(BLOCK_TOKENS, len(words) + 1, BLOCK_TOKENS):
            mark = hash((mark, *words[end - BLOCK_TOKENS : end]))
            known = known and mark in self._blocks
            cached = end if known else cached
            self._blocks[mark] = None
            self._blocks.move_to_end(mark)
        while len(self._blocks) > self._most_blocks:
            self._blocks.popitem(last=False)
        return min(cached, max(len(words) - 1, 0))
