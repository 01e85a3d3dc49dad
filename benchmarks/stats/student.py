"""Student's t, for means over few repeats.

With t = sqrt(df) tan(angle) the density becomes cos(angle) ** (df - 1), which is smooth and bounded for every df from 1 on
(Student 1908): Gauss and Legendre's rule integrates it to the last digits, and bisection inverts it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

NODES, WEIGHTS = np.polynomial.legendre.leggauss(96)
HALVINGS = 60


def t_cdf(t: float, df: float) -> float:
    """P(T <= t) with `df` >= 1 degrees of freedom, whole or not."""
    if not df >= 1:
        raise ValueError(f"Student's t takes one degree of freedom or more: {df=}")
    return 0.5 + math.copysign(_beyond_middle(math.atan(abs(t) / math.sqrt(df)), df), t)


@lru_cache(maxsize=1024)
def t_quantile(df: float, p: float) -> float:
    """The t with P(T <= t) = `p`, 0 < p < 1."""
    if not 0 < p < 1:
        raise ValueError(f"a quantile takes a probability between 0 and 1: {p=}")
    if p == 0.5:
        return 0.0
    t_cdf(0.0, df)  # refuses a df that is too small
    low, high, wanted = 0.0, math.pi / 2, abs(p - 0.5)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond_middle(middle, df) < wanted else (low, middle)
    return math.copysign(math.sqrt(df) * math.tan((low + high) / 2), p - 0.5)


def _beyond_middle(angle: float, df: float) -> float:
    """P(0 <= T <= sqrt(df) tan(angle)), 0 <= angle <= pi / 2."""
    at = angle * (NODES + 1) / 2
    area = float(WEIGHTS @ np.cos(at) ** (df - 1)) * angle / 2
    whole = math.sqrt(math.pi) * math.exp(math.lgamma(df / 2) - math.lgamma((df + 1) / 2))
    return min(0.5, area / whole)
