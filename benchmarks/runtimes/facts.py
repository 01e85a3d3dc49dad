"""facts.yaml as frozen types, read once. A typing error in the file is an error at the first use, not a wrong page."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec


class OurWord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    definition: str
    unit: str


class ToolWord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`word` None: the tool has no such setting."""

    word: str | None
    definition: str
    default: str
    unit: str
    since: str = ""


class Queue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bounded: bool | None
    sentence: str
    source: str


class RuntimeFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    version_read: str
    read_on: str
    source: str
    how: Literal["read", "read and measured", "not read"]
    batching_mode: Literal["continuous", "dynamic", "unknown"]
    words: dict[str, ToolWord]
    queue: Queue
    metrics: dict[str, tuple[str, ...]]
    poll_every_s: float
    metrics_path: str | None
    metrics_enabled_by: str
    look: tuple[str, ...]
    quirks: tuple[str, ...]
    json_metrics: dict[str, tuple[str, ...]] = {}


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema_version: int
    as_of: str
    our_words: dict[str, OurWord]
    runtimes: dict[str, RuntimeFacts]


@cache
def all_facts() -> Facts:
    """The whole file. msgspec.ValidationError when it does not hold what these types say."""
    return msgspec.yaml.decode(Path(__file__).with_name("facts.yaml").read_bytes(), type=Facts)


def kinds() -> tuple[str, ...]:
    """Every kind of runtime that facts exist for."""
    return tuple(all_facts().runtimes)


def facts_of(kind: str) -> RuntimeFacts:
    """Facts of one kind; those of `other` for a kind that nobody has read."""
    runtimes = all_facts().runtimes
    return runtimes.get(kind, runtimes["other"])
