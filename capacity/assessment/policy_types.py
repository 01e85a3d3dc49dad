"""One line of the policy that goes with a setting."""

from __future__ import annotations

import msgspec


class PolicyLine(msgspec.Struct, frozen=True, kw_only=True):
    """One control that goes with the setting, with where its figure comes from. `number` in `unit` is the same value for
    files that are made of it; None where there is none to set."""

    key: str
    title: str
    value: str
    words: str
    source: str = ""
    number: float | None = None
    unit: str = ""
