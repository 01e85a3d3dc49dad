"""The running Headroom that the browser tests share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scripts.stack import Stack

TRIES = 3


@dataclass(frozen=True, slots=True)
class House:
    stack: Stack
    endpoint: str
    passwords: Mapping[str, str]

    @property
    def origin(self) -> str:
        return self.stack.base_url


@dataclass(frozen=True, slots=True)
class States:
    """A web server whose data nobody changes; `numbers` says which grid is in which state."""

    origin: str
    passwords: Mapping[str, str]
    numbers: Mapping[str, Any]
