"""Memory of a runtime at a setting before it is tried: weights, KV of so many sequences, a stated assumption beside."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from benchmarks.memory.accounting import Keeping, KvType, paged, sequence_bytes, token_bytes
from benchmarks.memory.geometry import Geometry, Kind
from benchmarks.memory.launch import LLAMACPP_STEP, Launch, slot_tokens

GIB, MIB = 1 << 30, 1 << 20
OVERHEAD_GPU_BYTES = GIB
"""Assumed for each GPU: the driver's context and a runtime's work buffers."""
OVERHEAD_HOST_BYTES = 64 * MIB
"""Assumed where the model is served from host memory: the program and the work buffers that it touches. llama.cpp took 59 to
77 MiB with small models."""
WATCH_SHARE = 0.15
"""Predicted and measured that differ by more are to be watched."""
_PHYSICAL_BATCH = 512
"""llama.cpp keeps room for one physical batch beside a layer's window (-ub, 512 by default)."""


@dataclass(frozen=True, slots=True)
class Room:
    """Memory that a model may be put into. `share` is the most of it that may be used; `gpus` is 0 for host memory."""

    total_bytes: int
    share: float
    words: str
    gpus: int

    @property
    def limit_bytes(self) -> int:
        return int(self.total_bytes * self.share)


@dataclass(frozen=True, slots=True)
class Prediction:
    """`kv_bytes` is the bound for `sequences` of `tokens` each, `kv_naive_bytes` without use of windows and shared layers;
    `kv_reserved_bytes` is what the runtime's slots take whatever is sent; `taken_bytes` what it takes of the memory at its
    start. None where the runtime takes nothing in advance, or it is not known."""

    sequences: int
    tokens: int
    weights_bytes: int
    kv_bytes: int
    kv_naive_bytes: int
    kv_reserved_bytes: int | None
    overhead_bytes: int
    taken_bytes: int | None
    pool_bytes: int | None

    @property
    def needed_bytes(self) -> int:
        return self.weights_bytes + max(self.kv_bytes, self.kv_reserved_bytes or 0) + self.overhead_bytes

    @property
    def total_bytes(self) -> int:
        """What should be seen in use."""
        return max(self.needed_bytes, self.taken_bytes or 0)


def predict(
    geometry: Geometry, *, weights_bytes: int, launch: Launch, sequences: int, tokens: int, room: Room | None
) -> Prediction:
    keeping = keeping_of(launch)
    kept = sequence_bytes(geometry, tokens, keeping)
    overhead = room.gpus * OVERHEAD_GPU_BYTES if room is not None and room.gpus else OVERHEAD_HOST_BYTES
    named = launch.pool_bytes or (launch.pool_tokens or 0) * token_bytes(geometry, keeping)
    taken = weights_bytes + overhead + named if named else _taken(launch, weights_bytes + overhead, room)
    pool = max(0, taken - weights_bytes - overhead) if taken is not None else None
    return Prediction(
        sequences=sequences,
        tokens=tokens,
        weights_bytes=weights_bytes,
        kv_bytes=sequences * kept.bound_bytes,
        kv_naive_bytes=sequences * kept.naive_bytes,
        kv_reserved_bytes=slots_bytes(geometry, launch),
        overhead_bytes=overhead,
        taken_bytes=taken,
        pool_bytes=pool,
    )


def keeping_of(launch: Launch) -> Keeping:
    """Two bytes an element where the launch line names no type."""
    return Keeping(
        k_type=launch.k_type or KvType.BF16,
        v_type=launch.v_type or KvType.BF16,
        ranks=launch.ranks,
        page_tokens=launch.page_tokens,
    )


def slots_bytes(geometry: Geometry, launch: Launch) -> int | None:
    """KV that llama.cpp, also inside Ollama, sets aside for its slots at the start; None for runtimes that share a pool."""
    each = slot_tokens(launch, geometry.context_tokens)
    if launch.unified is None or launch.slots is None or each is None:
        return None
    if launch.unified:
        return sequence_bytes(_roomy(geometry, launch.slots), each, keeping_of(launch)).bound_bytes
    return launch.slots * sequence_bytes(_roomy(geometry, 1), each, keeping_of(launch)).bound_bytes


def difference(predicted_bytes: int, measured_bytes: float) -> float:
    """Measured over predicted, less one."""
    return measured_bytes / predicted_bytes - 1


def size_words(size: float) -> str:
    if abs(size) < GIB / 2:
        return f"{size / MIB:,.1f} MiB"
    return f"{size / GIB:,.2f} GiB"


def _roomy(geometry: Geometry, sequences: int) -> Geometry:
    """Windows as llama.cpp makes room for them, and states, for so many sequences in one cache."""
    layers = []
    for group in geometry.layers:
        if group.kind == Kind.WINDOW and group.window_tokens is not None:
            window = paged(group.window_tokens * sequences + _PHYSICAL_BATCH, LLAMACPP_STEP)
            group = msgspec.structs.replace(group, window_tokens=window)
        elif group.kind == Kind.STATE:
            group = msgspec.structs.replace(group, state_elements=group.state_elements * sequences)
        layers.append(group)
    return msgspec.structs.replace(geometry, layers=tuple(layers))


def _taken(launch: Launch, without_kv: int, room: Room | None) -> int | None:
    """What a runtime takes at its start by its share, which is of all memory or of what the weights leave."""
    if launch.share is None or room is None or not room.gpus:
        return None
    if launch.share_of_free:
        return without_kv + int(launch.share * max(0, room.total_bytes - without_kv))
    return int(launch.share * room.total_bytes)
