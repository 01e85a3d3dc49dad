"""A verdict as plain values, as JSON would hold it."""

from __future__ import annotations

import msgspec

from capacity.assessment.verdict import Verdict


def as_json(verdict: Verdict) -> dict[str, object]:
    """Plain values for a JSON column: infinite values become the word "infinite", since JSON has no infinity; what is no
    number is not known."""
    plain: dict[str, object] = _finite(msgspec.to_builtins(verdict))  # type: ignore[assignment]
    return plain


def _finite(value: object) -> object:
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "infinite"
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
