"""The running Headroom that the browser tests share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
