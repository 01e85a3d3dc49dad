"""A share as people read it."""

from __future__ import annotations


def per_cent(share: float, digits: int = 0, *, sign: bool = False) -> str:
    """0.954 reads "95 %", with `sign` "+95 %"; a no-break space keeps the sign beside its number."""
    return f"{100 * share:{'+' if sign else ''}.{digits}f}\u00a0%"
