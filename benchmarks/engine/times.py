"""The times of every request of a cell, from its stamps, and which of them cannot be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.engine.column_types import OUTCOMES, Bools, Floats, Requests
from benchmarks.engine.terms import Outcome

NS = 1e9
OK_CODE = OUTCOMES.index(Outcome.OK)
# No sequence is decoded this fast: the fastest published single streams are at a few thousand tokens a second. A rate
# above it is that of a buffer being emptied, where most of the gaps are shorter than a network's own.
MAX_TOKENS_PER_S = 10_000.0
SHORT_GAP_US = 50
FEWEST_TOKENS = 16  # about 1 kB of events; fewer may well arrive in one packet


@dataclass(frozen=True)
class Times:
    """Seconds of every request, shape (n,), NaN where a stamp is missing. `e2e_s` and `ttft_s` are the user's, from
    t_scheduled; those with `server_` begin at t_sent. `ok` excludes impossible stamps, which `wrong` counts among the
    successes; `too_fast` are successes whose rate of tokens cannot be, and whose TPOT is therefore not known."""

    ok: Bools
    wrong: Bools
    too_fast: Bools
    e2e_s: Floats
    ttft_s: Floats
    tpot_s: Floats
    server_e2e_s: Floats
    server_ttft_s: Floats
    streamed: bool = True


def times_of(requests: Requests, *, streamed: bool = True) -> Times:
    """A duration below zero, a first token at no time at all and an end before the first token make their request not
    ok here, and so infinite; no other. Without streaming there is no time to a first token and none between tokens."""
    unknown = np.full(len(requests), np.nan)
    e2e, server_e2e = _between(requests, None, "t_end_ns"), _between(requests, "t_sent_ns", "t_end_ns")
    ttft = _between(requests, None, "t_first_ns") if streamed else unknown
    server_ttft = _between(requests, "t_sent_ns", "t_first_ns") if streamed else unknown
    tpot = _tpot(requests) if streamed else unknown
    told_ok = requests.codes["outcome"] == OK_CODE
    wrong = (e2e < 0) | (server_e2e < 0) | (ttft <= 0) | (server_ttft <= 0) | (e2e < ttft) | (tpot < 0)
    ok = told_ok & ~np.isnan(e2e) & ~wrong
    too_fast = _too_fast(requests, ok) if streamed else np.zeros(len(requests), dtype=np.bool_)
    return Times(
        ok=ok,
        wrong=told_ok & ~ok,
        too_fast=too_fast,
        e2e_s=e2e,
        ttft_s=ttft,
        tpot_s=np.where(too_fast, np.nan, tpot),
        server_e2e_s=server_e2e,
        server_ttft_s=server_ttft,
        streamed=streamed,
    )


def later_tokens(requests: Requests) -> Floats:
    """Tokens after those of the first chunk, or after the first where no chunk told; NaN where nobody counted."""
    tokens, in_first = requests.masked["output_tokens"], requests.masked["first_chunk_tokens"]
    return np.where(tokens.known, tokens.values - np.where(in_first.known, in_first.values, 1), np.nan)


def _between(requests: Requests, begin: str | None, end: str) -> Floats:
    """`begin` None is t_scheduled, which every request has."""
    stamp = requests.masked[end]
    if begin is None:
        return np.where(stamp.known, (stamp.values - requests.plain["t_scheduled_ns"]) / NS, np.nan)
    start = requests.masked[begin]
    return np.where(stamp.known & start.known, (stamp.values - start.values) / NS, np.nan)


def _tpot(requests: Requests) -> Floats:
    """(t_last - t_first) / (tokens - tokens of the first chunk, or 1 where no chunk told); NaN without two such tokens,
    and where all came at one time: no time between tokens was seen."""
    span_s, later = _between(requests, "t_first_ns", "t_last_ns"), later_tokens(requests)
    usable = (requests.masked["output_tokens"].values > 1) & (later > 0) & (span_s != 0)
    return np.where(usable, span_s / np.where(usable, later, 1.0), np.nan)


def _too_fast(requests: Requests, ok: Bools) -> Bools:
    later, span_s = later_tokens(requests), _between(requests, "t_first_ns", "t_last_ns")
    lengths = np.diff(requests.gap_offsets)
    found: Bools = ok & (later >= FEWEST_TOKENS) & (span_s * MAX_TOKENS_PER_S < later) & (lengths > 0)
    for row in np.flatnonzero(found):
        gaps = requests.gaps_us[requests.gap_offsets[row] : requests.gap_offsets[row + 1]]
        found[row] = np.count_nonzero(gaps < SHORT_GAP_US) > len(gaps) / 2
    return found
