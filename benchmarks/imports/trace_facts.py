"""Measured facts of a trace, and what they warn of. Definitions stand with each; None where a fact has no meaning.

Checked against `presets_measured.json`, which was measured by other code from whole traces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.imports.servegen import SHARES, Points
from benchmarks.imports.trace_values import Floats, Whole
from benchmarks.imports.traces import Trace, rows
from benchmarks.stats.per_cent import per_cent

IDC_WINDOWS_S = (1.0, 10.0, 60.0)
FEW_REQUESTS = 40
_MEANINGLESS_ZERO_SHARE = 0.5
_UNIFORM_FROM = 100  # requests below which equal spread cannot be told from chance
_KS_5_PERCENT = 1.36  # Kolmogorov-Smirnov, large samples


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles (share, tokens), mean, and coefficient of variation (standard deviation over mean) of one length."""

    points: Points
    mean: float
    cv: float


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`rate_per_s`: requests over the span. `gap_cv`: standard deviation over mean of the gaps between requests. `idc`:
    (window in seconds, variance over mean of the counts in whole windows, busiest window over the mean).

    `quantum_s`: the stamps' step where more than half of the gaps are zero; then `gap_cv` and windows up to the step say
    nothing about the users and are None.
    """

    span_s: float
    rate_per_s: float | None
    gap_p50_s: float
    gap_p99_s: float
    gap_max_s: float
    gap_cv: float | None
    zero_gap_share: float
    quantum_s: float | None
    idc: tuple[tuple[float, float | None, float | None], ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Correlations of prompt and answer length are None where one of them never changes. `even_lengths`: both are spread
    as if drawn evenly between their least and most."""

    requests: int
    prompt: Spread
    output: Spread
    pearson: float | None
    spearman: float | None
    even_lengths: bool
    arrivals: Arrivals | None


def facts_of(trace: Trace) -> Facts:
    prompt, output = trace.prompt_tokens, trace.output_tokens
    return Facts(
        requests=len(trace),
        prompt=spread_of(prompt),
        output=spread_of(output),
        pearson=_correlation(prompt.astype(np.float64), output.astype(np.float64)),
        spearman=_correlation(ranks(prompt), ranks(output)),
        even_lengths=_uniform(prompt) and _uniform(output),
        arrivals=arrivals_of(trace.offsets_s) if trace.offsets_s is not None and len(trace) > 1 else None,
    )


def spread_of(tokens: Whole) -> Spread:
    return Spread(points_of(tokens), float(tokens.mean()), float(tokens.std() / tokens.mean()))


def points_of(tokens: Whole) -> Points:
    return tuple(zip(SHARES, np.quantile(tokens, SHARES).tolist(), strict=True))


def ranks(values: Whole) -> Floats:
    """Ranks from 1; equal values have the mean of theirs."""
    _distinct, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last: Floats = np.cumsum(counts).astype(np.float64)
    middle: Floats = (last - (counts - 1) / 2)[which]
    return middle


def _correlation(one: Floats, other: Floats) -> float | None:
    if len(one) < 2 or one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def arrivals_of(offsets_s: Floats) -> Arrivals:
    """From at least two arrival times, ascending."""
    gaps, span_s = np.diff(offsets_s), float(offsets_s[-1] - offsets_s[0])
    zero_share = float((gaps == 0).mean())
    quantised = zero_share > _MEANINGLESS_ZERO_SHARE and span_s > 0
    quantum_s = float(np.median(gaps[gaps > 0])) if quantised else None
    return Arrivals(
        span_s=span_s,
        rate_per_s=len(offsets_s) / span_s if span_s > 0 else None,
        gap_p50_s=float(np.quantile(gaps, 0.5)),
        gap_p99_s=float(np.quantile(gaps, 0.99)),
        gap_max_s=float(gaps.max()),
        gap_cv=None if quantised or gaps.mean() == 0 else float(gaps.std() / gaps.mean()),
        zero_gap_share=zero_share,
        quantum_s=quantum_s,
        idc=tuple((window_s, *_counts(offsets_s, span_s, window_s, quantum_s)) for window_s in IDC_WINDOWS_S),
    )


def _counts(
    offsets_s: Floats, span_s: float, window_s: float, quantum_s: float | None
) -> tuple[float | None, float | None]:
    """Dispersion and peak of the counts in whole windows; None for fewer than ten, or windows no wider than a step."""
    windows = int(span_s // window_s)
    if windows < 10 or (quantum_s is not None and window_s <= quantum_s):
        return None, None
    places = ((offsets_s - offsets_s[0]) // window_s).astype(np.int64)
    # Only windows with a request are held: a trace may span years.
    _windows, counts = np.unique(places[places < windows], return_counts=True)
    mean = counts.sum() / windows
    return float(((counts**2).sum() / windows - mean**2) / mean), float(counts.max() / mean)


def warnings_about(trace: Trace, facts: Facts) -> list[str]:
    """What a person must know before taking this trace for production."""
    found = []
    if facts.requests < FEW_REQUESTS:
        found.append(f"{facts.requests} requests only: the tails of these lengths are not known.")
    if trace.failures:
        share = trace.failures / (trace.failures + facts.requests)
        found.append(
            f"{trace.failures:,} requests ({per_cent(share, 1)}) have no prompt or no answer tokens: failed, and left out."
        )
    if trace.falling:
        found.append(
            f"In {rows(trace.falling)} the time stamp lies before the one above it. The requests were put in order."
        )
    if trace.prompt_tokens.std() == 0 and trace.output_tokens.std() == 0 and facts.requests > 1:
        found.append("All requests have the same lengths. Production varies; this was made by a program.")
    if facts.even_lengths:
        found.append("Prompt and answer lengths are spread evenly between their least and most: made by a program.")
    found += _about_arrivals(facts.arrivals)
    if made_up(trace.layout, facts):
        found.append("This has BurstGPT's columns but not its data. Do not name BurstGPT as the source.")
    return found


def made_up(layout: str, facts: Facts) -> bool:
    """Whether a file with BurstGPT's columns holds something else, as one public copy does."""
    return layout.startswith("burstgpt") and (facts.even_lengths or _even(facts.arrivals))


def _even(arrivals: Arrivals | None) -> bool:
    return arrivals is not None and arrivals.gap_cv is not None and arrivals.gap_cv < 1e-6


def _about_arrivals(arrivals: Arrivals | None) -> list[str]:
    if arrivals is None:
        return []
    if arrivals.rate_per_s is None:
        return ["All requests have the same time stamp: the file says nothing about arrivals."]
    if arrivals.quantum_s is not None:
        return [
            f"{per_cent(arrivals.zero_gap_share)} of the gaps between requests are zero: the time stamps move in steps of about "
            f"{arrivals.quantum_s:.3g} s, so how bursty the arrivals are cannot be said, and a replay sends packets."
        ]
    if _even(arrivals):
        return [f"Each request comes {arrivals.gap_p50_s:.3g} s after the last one, always. Users do not arrive so."]
    return []


def _uniform(tokens: Whole) -> bool:
    """Whether whole lengths are as if drawn evenly between their least and most (Kolmogorov-Smirnov at 5 %)."""
    low, high = int(tokens.min()), int(tokens.max())
    if len(tokens) < _UNIFORM_FROM or high - low < 10:
        return False
    distinct, counts = np.unique(tokens, return_counts=True)
    even = (distinct - low + 1) / (high - low + 1)
    return bool(np.abs(np.cumsum(counts) / len(tokens) - even).max() < _KS_5_PERCENT / np.sqrt(len(tokens)))
