"""Bytes that sequences of a model keep: by layer, element type, tensor-parallel ranks and pages. Exact integers.

The bound is what a runtime must keep that uses windows and shared layers fully; the naive figure is for one that treats
every attention layer as a full one. What an engine really reserves lies between them, or above by its own slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from benchmarks.memory.geometry import Geometry, Kind, Layers


class KvType(StrEnum):
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    FP8 = "fp8"
    Q8_0 = "q8_0"
    Q5_1 = "q5_1"
    Q5_0 = "q5_0"
    Q4_1 = "q4_1"
    Q4_0 = "q4_0"


BLOCKS: dict[KvType, tuple[int, int]] = {
    KvType.F32: (1, 4),
    KvType.F16: (1, 2),
    KvType.BF16: (1, 2),
    KvType.FP8: (1, 1),
    KvType.Q8_0: (32, 34),
    KvType.Q5_1: (32, 24),
    KvType.Q5_0: (32, 22),
    KvType.Q4_1: (32, 20),
    KvType.Q4_0: (32, 18),
}
"""Elements of a block and its bytes, scales included: q8_0 1.0625, q5_0 0.6875, q4_0 0.5625 bytes an element."""

STATE_BYTES = 4
"""A state-space layer's state is kept in 32 bits by llama.cpp; engines that keep it in 16 need half of it."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a runtime keeps KV. `page_tokens` is the least it gives out at once; `ranks` are tensor-parallel."""

    k_type: KvType = KvType.BF16
    v_type: KvType = KvType.BF16
    ranks: int = 1
    page_tokens: int = 1

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.page_tokens < 1:
            raise ValueError("ranks and page_tokens are at least 1")


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes of one sequence over all ranks."""

    bound_bytes: int
    naive_bytes: int


def bytes_of(elements: int, kv_type: KvType) -> int:
    """Of one row: whole blocks."""
    block, size = BLOCKS[kv_type]
    return -(-elements // block) * size


def token_bytes(geometry: Geometry, keeping: Keeping) -> int:
    """What one more token of a long sequence needs, over all ranks: layers with a window or a state add nothing."""
    growing = (group for group in geometry.layers if group.kind in (Kind.FULL, Kind.LATENT))
    return sum(group.count * _row_bytes(group, keeping) for group in growing)


def sequence_bytes(geometry: Geometry, tokens: int, keeping: Keeping) -> Kept:
    """What a sequence of so many tokens keeps, over all ranks."""
    bound = sum(group.count * _group_bytes(group, tokens, keeping) for group in geometry.layers)
    naive = sum(group.count * _group_bytes(_as_full(group), tokens, keeping) for group in geometry.layers)
    return Kept(bound_bytes=bound, naive_bytes=naive)


def paged(tokens: int, page_tokens: int) -> int:
    """Tokens of whole pages that hold so many."""
    return -(-tokens // page_tokens) * page_tokens


def _group_bytes(group: Layers, tokens: int, keeping: Keeping) -> int:
    """Of one layer of the group."""
    if group.kind == Kind.STATE:
        return -(-group.state_elements // keeping.ranks) * keeping.ranks * STATE_BYTES
    if group.kind == Kind.SHARED:
        return 0
    held = paged(tokens, keeping.page_tokens)
    if group.window_tokens is not None:
        held = min(held, _window_pages(group.window_tokens, keeping.page_tokens) * keeping.page_tokens)
    return held * _row_bytes(group, keeping)


def _window_pages(window: int, page: int) -> int:
    """Most pages that so many tokens in a row touch, wherever the first one lies."""
    return -(-(window - 1) // page) + 1


def _as_full(group: Layers) -> Layers:
    if group.kind in (Kind.WINDOW, Kind.SHARED):
        return Layers(
            kind=Kind.FULL, count=group.count, kv_heads=group.kv_heads, k_width=group.k_width, v_width=group.v_width
        )
    return group


def _row_bytes(group: Layers, keeping: Keeping) -> int:
    """One token in one layer, over all ranks. A rank keeps at least one KV head, so with more ranks than heads they are
    kept more than once; a latent row is kept whole by each."""
    heads = group.kv_heads if group.kind == Kind.LATENT else -(-group.kv_heads // keeping.ranks)
    one_rank = bytes_of(heads * group.k_width, keeping.k_type) + bytes_of(heads * group.v_width, keeping.v_type)
    return one_rank * keeping.ranks
