"""The memory of each setting of a plan, before anything is loaded: KV cache, the whole, and whether the gate will skip it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.foreseen import Asked, Foreseen, NotKnown, chosen, foresee
from benchmarks.models import Runtime, Workload
from benchmarks.records.mode_words import stage_words
from benchmarks.records.modes import Terms, in_flight, mode_of


@dataclass(frozen=True, slots=True)
class Need:
    """One setting. Sizes are bytes; `share` is of all the memory there is."""

    setting: str
    kv_bytes: int
    total_bytes: int
    share: float
    fits: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """`needs` is empty where it cannot be foreseen, and `reason` says why. `limit_bytes` is what the guard allows."""

    needs: tuple[Need, ...]
    words: str
    limit_bytes: float | None
    reason: str = ""

    @property
    def skipped(self) -> tuple[str, ...]:
        """Settings that the worker will not run."""
        return tuple(need.setting for need in self.needs if not need.fits)


def memory_of(
    runtime: Runtime, workload: Workload, load: Terms, *, settings: Sequence[int], class_names: Sequence[str],
    max_vram_share: float, managed: bool,
) -> Memory:  # fmt: skip
    classes = chosen(workload, class_names)
    mode, needs, found = mode_of(load), [], None
    for setting in settings:
        asked = Asked(
            classes=classes, turns=workload.turns, in_flight=in_flight(load, setting), max_vram_share=max_vram_share,
            managed=managed,
        )  # fmt: skip
        found = foresee(runtime, asked)
        if isinstance(found, NotKnown):
            return Memory((), "", None, found.reason)
        needs.append(_need(stage_words(mode, setting), found))
    if not isinstance(found, Foreseen):
        return Memory((), "", None)
    return Memory(tuple(needs), found.room.words, found.room.limit_bytes)


def _need(words: str, found: Foreseen) -> Need:
    prediction = found.prediction
    kv = max(prediction.kv_bytes, prediction.kv_reserved_bytes or 0)
    return Need(words, kv, prediction.total_bytes, found.share, found.fits)
