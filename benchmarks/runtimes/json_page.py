"""Numbers out of a JSON page by a path: `a.b` goes into objects, `[]` takes every member of a list, `[-1]` its last."""

from __future__ import annotations

import math
import re

_STEP = re.compile(r"\.?([A-Za-z_]\w*)|(\[\])|(\[-1\])")


def numbers(page: object, path: str) -> list[float | None]:
    """What stands at the path, in order; None where something else than a finite number stands there. Truths count as 1
    and 0. ValueError for a path that cannot be read."""
    found = [page]
    position = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise ValueError(f"facts.yaml holds a JSON path that cannot be read: {path!r}")
        position = step.end()
        found = [inner for one in found for inner in _inside(one, step)]
    return [_number(one) for one in found]


def _inside(value: object, step: re.Match[str]) -> list[object]:
    name, every, _last = step.groups()
    if name:
        return [value[name]] if isinstance(value, dict) and name in value else []
    if not isinstance(value, list):
        return []
    return value if every else value[-1:]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
