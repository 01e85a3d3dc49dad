"""ServeGen's two layouts: rates of one client per ten minutes, and densities of lengths per window.

Neither is a list of requests. The densities stand in JSON as printed Python dictionaries; they are read by a grammar of
their own (whole number, colon, number), never evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.imports.trace_text import TraceRefused, is_number, lines_of
from benchmarks.imports.trace_values import MOST_TOKENS

ATTRIBUTION = "ServeGen, Alibaba"
LICENCE = "Apache-2.0"
FAMILIES = frozenset({"", "Gamma", "Weibull", "Exponential", "Poisson", "Pareto", "Lognormal"})
_WIDTH = 6
_PAIR = re.compile(r"\s*(\d{1,8})\s*:\s*(\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?)\s*", re.ASCII)
_windows_of = msgspec.json.Decoder(dict[str, dict[str, str]]).decode

Points = tuple[tuple[float, float], ...]
SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Densities:
    """Quantiles (share, tokens) of prompts and answers, each by itself: how they depend on each other is not in the file."""

    prompt_points: Points
    output_points: Points
    windows: int
    notes: tuple[str, ...]

    @property
    def source(self) -> str:
        return f"{ATTRIBUTION} ({LICENCE})"


@dataclass(frozen=True, slots=True, eq=False)
class RateProfile:
    """Rate and coefficient of variation of the gaps in windows of `window_s`; no lengths. Shape (windows,)."""

    window_s: float
    rates_per_s: NDArray[np.float64]
    gap_cvs: NDArray[np.float64]

    @property
    def rate_per_s(self) -> float:
        return float(self.rates_per_s.mean())

    @property
    def peak_to_mean(self) -> float | None:
        return float(self.rates_per_s.max() / self.rate_per_s) if self.rate_per_s > 0 else None

    @property
    def gap_cv_p50(self) -> float | None:
        """Median of the windows' CV, each window weighted by its rate; None where no window has a request."""
        busy = self.rates_per_s > 0
        if not busy.any():
            return None
        order = np.argsort(self.gap_cvs[busy])
        weights = np.cumsum(self.rates_per_s[busy][order])
        place = int(np.searchsorted(weights, weights[-1] / 2))
        return float(self.gap_cvs[busy][order][place])

    def steps(self) -> tuple[tuple[float, float], ...]:
        """(seconds, rate per second), one after the other."""
        return tuple((self.window_s, rate) for rate in self.rates_per_s.tolist())


def rates_of(text: str) -> RateProfile | None:
    """None where the text is not six cells a row, without a header, the fourth a family of gaps."""
    rows: list[list[float]] = []
    for line in lines_of(text):
        row = line.split(",")
        if not rows and not _is_rates(row):
            return None
        if not _is_rates(row):
            raise TraceRefused(f"Row {len(rows) + 1:,} is not a row of rates: time, rate, CV, family and two numbers.")
        rows.append([float(row[0]), float(row[1]), float(row[2])])
    table = np.array(rows)
    steps = np.unique(np.diff(table[:, 0])) if len(rows) > 1 else np.array([600.0])
    if len(steps) != 1 or steps[0] <= 0 or not np.isfinite(table).all() or (table < 0).any():
        raise TraceRefused("The windows of rates must follow each other evenly, and no rate may be below zero.")
    return RateProfile(float(steps[0]), table[:, 1], table[:, 2])


def _is_rates(row: list[str]) -> bool:
    return len(row) == _WIDTH and row[3].strip() in FAMILIES and all(is_number(row[place]) for place in (0, 1, 2, 4, 5))


def densities_of(text: str) -> Densities | None:
    """None where the text is not one object of windows."""
    try:
        windows = _windows_of(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    names = next(iter(windows.values()), {})
    prompt = next((name for name in ("input_tokens", "text_tokens") if name in names), None)
    if prompt is None or "output_tokens" not in names:
        raise TraceRefused("These windows hold no densities called input_tokens or text_tokens, and output_tokens.")
    notes = ["Windows count alike: the file does not say how many requests each had."]
    if prompt == "text_tokens":
        notes.append("Text tokens only: images, sound and video are left out.")
    return Densities(
        prompt_points=_points(windows, prompt), output_points=_points(windows, "output_tokens"), windows=len(windows),
        notes=tuple(notes),
    )  # fmt: skip


def _points(windows: Mapping[str, Mapping[str, str]], name: str) -> Points:
    """Quantiles of the mean of the windows' densities; windows without a request and lengths of zero are left out."""
    total: dict[int, float] = {}
    for window in windows.values():
        density = {tokens: share for tokens, share in _dictionary(window.get(name, "{}")) if tokens > 0 and share > 0}
        mass = sum(density.values())
        for tokens, share in density.items():
            total[tokens] = total.get(tokens, 0.0) + share / mass
    if not total:
        raise TraceRefused(f"The densities of {name} are all empty.")
    lengths = np.array(sorted(total), dtype=np.float64)
    reached = np.cumsum([total[int(tokens)] for tokens in lengths])
    reached /= reached[-1]
    places = np.minimum(np.searchsorted(reached, SHARES, side="left"), len(lengths) - 1)
    return tuple(zip(SHARES, lengths[places].tolist(), strict=True))


def _dictionary(text: str) -> list[tuple[int, float]]:
    inside = text.strip()
    if not (inside.startswith("{") and inside.endswith("}")):
        raise TraceRefused(f"“{text[:40]}” is not a density.")
    inside = inside[1:-1].strip().removesuffix(",")
    found = []
    for part in inside.split(",") if inside else []:
        match = _PAIR.fullmatch(part)
        if match is None or int(match[1]) > MOST_TOKENS:
            raise TraceRefused(f"“{part.strip()[:40]}” is not a length and its share.")
        found.append((int(match[1]), float(match[2])))
    return found
