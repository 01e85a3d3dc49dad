"""The Universal Scalability Law as a check of shape: X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) (Gunther 2007).

sigma is the share of work that must wait its turn, kappa what each pair costs to agree. Over N / X the law is linear in
1 / lambda, sigma / lambda and kappa / lambda; the fit is least squares of the relative error, none of them below zero. It
says whether measured throughput bends as one server's should, and nothing about settings that were not measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from benchmarks.stats.per_cent import per_cent

LEAST_SETTINGS = 4
SHAPES = ((0,), (0, 1), (0, 2), (0, 1, 2))


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The fit over the settings from `low` to `high`. `per_s` is lambda, the throughput of one; `residual_share` the root mean
    square of the relative error; `peak` the setting of most throughput, None unless it lies inside what was tested."""

    per_s: float
    sigma: float
    kappa: float
    residual_share: float
    low: int
    high: int
    settings: int
    peak: float | None = None

    def predict(self, setting: float) -> float:
        """Throughput of the fitted curve. Raises ValueError outside the tested settings: the law is no forecast."""
        if not self.low <= setting <= self.high:
            raise ValueError(f"{setting:g} lies outside the tested settings, {self.low} to {self.high}: not measured")
        return self._at(setting)

    def _at(self, setting: float) -> float:
        return self.per_s * setting / (1 + self.sigma * (setting - 1) + self.kappa * setting * (setting - 1))

    @property
    def words(self) -> str:
        """One sentence or two for people."""
        if self.peak is not None:
            bend = f"flattens, with the top of the fitted curve near {self.peak:.0f} in flight"
        elif self.sigma or self.kappa:
            bend = "flattens, with no top over what was tested"
        else:
            bend = "grows in proportion over what was tested"
        misses = per_cent(self.residual_share)
        fit = f"the curve misses the measured rates by {misses} (root mean square of {self.settings} settings)"
        return f"Throughput {bend}; {fit}. This is a check of its shape, not a forecast."


def fit(throughput: Mapping[int, float]) -> Shape | None:
    """Of throughput above zero by setting; None of fewer than 4 such settings."""
    used = {n: x for n, x in sorted(throughput.items()) if n >= 1 and 0 < x < math.inf}
    if len(used) < LEAST_SETTINGS:
        return None
    n, x = np.array(list(used), dtype=np.float64), np.array(list(used.values()))
    terms = np.column_stack((np.ones_like(n), n - 1, n * (n - 1))) * (x / n)[:, None]
    found = []
    for chosen in SHAPES:  # every way of leaving sigma or kappa at zero: the best one inside is the bounded optimum
        solved = np.zeros(3)
        solved[list(chosen)] = np.linalg.lstsq(terms[:, chosen], np.ones_like(n), rcond=None)[0]
        if solved[0] > 0 and solved.min() >= 0:
            found.append((float(((terms @ solved - 1) ** 2).sum()), solved))
    inverse, wait, agree = min(found, key=lambda one: one[0])[1].tolist()
    low, high = int(n[0]), int(n[-1])
    shape = Shape(
        per_s=1 / inverse,
        sigma=wait / inverse,
        kappa=agree / inverse,
        residual_share=0.0,
        low=low,
        high=high,
        settings=len(used),
    )
    errors = np.array([shape._at(setting) for setting in n]) / x - 1
    return msgspec.structs.replace(shape, residual_share=float(np.sqrt((errors**2).mean())), peak=_peak(shape))


def _peak(shape: Shape) -> float | None:
    """sqrt((1 - sigma) / kappa), where it lies inside the tested settings."""
    if shape.kappa <= 0 or shape.sigma >= 1:
        return None
    peak = math.sqrt((1 - shape.sigma) / shape.kappa)
    return peak if shape.low < peak < shape.high else None
