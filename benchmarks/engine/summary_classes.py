"""The summary of one length class in one cell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.engine.attempts import Issued
from benchmarks.engine.column_types import NO_TEXT, OUTCOMES, TOKEN_SOURCES, Bools, Floats, Gaps, Ints, Requests
from benchmarks.engine.plan import ClassLimits, ClassPlan
from benchmarks.engine.summary_types import ChunkGaps, ClassSummary
from benchmarks.engine.terms import TokenSource, Window
from benchmarks.engine.times import NS, Times, later_tokens
from benchmarks.stats import histograms, steadiness
from benchmarks.stats.estimates import Tail
from benchmarks.stats.pools import Pool, pool
from benchmarks.stats.quantiles import nearest_rank, smallest_sample, tail
from benchmarks.stats.shares import share
from benchmarks.stats.steadiness import Steadiness

# Shorter than asked by more than this changes the length class; a prompt counted shorter than intended was cut.
LENGTH_TOLERANCE = 0.05
US = 1e6
# An answer that was held back: most chunks at once, and the first of them only when the whole was nearly there.
BUFFERED_GAP_US, BUFFERED_SHARE, BUFFERED_TTFT_SHARE, BUFFERED_GAPS = 1000, 0.8, 0.9, 20
EXACT_GAPS = 10_000_000  # beyond, ordering them costs seconds and gigabytes


def class_summary(
    length_class: ClassPlan, issued: Issued, times: Times, inside: Bools, window: Window | None
) -> ClassSummary:
    """`inside` are the window's requests, shape (n,); `times` those of all classes."""
    requests = issued.requests
    rows = requests.texts["class_name"].equal(length_class.name) & inside
    ok = rows & times.ok
    sources = token_sources(requests, ok)
    mixed = is_mixed(sources)
    gaps = _gaps_of(requests, ok)
    waits = rows if times.streamed else np.zeros_like(rows)  # without streaming nobody waits for a first token
    buffered = _is_buffered(gaps, times, ok)
    graded = _graded(times, without_first=buffered, without_between=buffered or mixed)
    valid, asked = requests.masked["valid"], requests.plain["asked_output_tokens"]
    tokens, prompts = requests.masked["output_tokens"], requests.masked["prompt_tokens"]
    is_valid = valid.known & (valid.values == 1)
    # An embedding alone is ok without a finish_reason: it has no text that a task could judge, so ok is all it must be.
    is_embedding = ok & ~valid.known & (requests.texts["finish_reason"].codes == NO_TEXT)
    intended = requests.plain["intended_prompt_tokens"]
    cut = ok & prompts.known & (prompts.values < (1 - LENGTH_TOLERANCE) * intended)
    short = ok & tokens.known & (tokens.values < (1 - LENGTH_TOLERANCE) * asked)
    good = ok & (is_valid | is_embedding) & _inside_limits(length_class.limits, requests, graded)
    window_s = 0.0 if window is None else (window.end_ns - window.start_ns) / NS
    return ClassSummary(
        class_name=length_class.name,
        scheduled=int(rows.sum()),
        outcomes=outcomes(requests, rows),
        success=share(int(ok.sum()), int(rows.sum())),
        valid=share(int((ok & is_valid).sum()), int((ok & valid.known).sum())),
        good=share(int(good.sum()), int(rows.sum())),
        e2e_s=_all(times.e2e_s, rows, ok),
        ttft_s=_all(graded.ttft_s, waits, ok),
        tpot_s=_all(graded.tpot_s, waits, ok),
        e2e_ok_s=_successes(times.e2e_s, ok),
        ttft_ok_s=_successes(graded.ttft_s, ok),
        prompt_tokens_p50=_median(prompts.values[ok & prompts.known]),
        output_tokens_p50=_median(tokens.values[ok & tokens.known]),
        asked_output_tokens_p50=_median(asked[rows]),
        token_sources=sources,
        truncated_prompts=int(cut.sum()),
        short_outputs=int(short.sum()),
        tpot_ok_s=_successes(graded.tpot_s, ok),
        intended_prompt_tokens_p50=_median(intended[rows]),
        server_e2e_s=_all(times.server_e2e_s, rows, ok),
        server_ttft_s=_all(graded.server_ttft_s, waits, ok),
        server_e2e_ok_s=_successes(times.server_e2e_s, ok),
        server_ttft_ok_s=_successes(graded.server_ttft_s, ok),
        output_tokens_per_s=token_rate(requests, ok, window_s),
        mixed_token_sources=mixed,
        chunk_gap_s=_chunk_gaps(gaps),
        buffered=buffered,
        impossible_rates=int((ok & times.too_fast).sum()),
        wrong_times=int((rows & times.wrong).sum()),
        steadiness=_steadiness(requests, graded, ok, window),
        long_outputs=_long_outputs(requests, ok),
        pools=_pools(length_class.limits, requests, graded, rows, ok),
    )


def outcomes(requests: Requests, rows: Bools) -> dict[str, int]:
    """Every outcome that occurred, in the vocabulary's order."""
    counts = np.bincount(requests.codes["outcome"][rows], minlength=len(OUTCOMES))
    return {name: int(count) for name, count in zip(OUTCOMES, counts, strict=True) if count}


def _long_outputs(requests: Requests, ok: Bools) -> int | None:
    """By the server's count alone: text that is split again may come out a token longer. Requests that share one body
    share its limit, which is that of the longest, so nothing is said of them."""
    counted = requests.codes["token_source"] == TOKEN_SOURCES.index(TokenSource.SERVER.value)
    told = ok & counted & requests.masked["output_tokens"].known & ~requests.masked["batch"].known
    if not told.any():
        return None
    return int((told & (requests.masked["output_tokens"].values > requests.plain["asked_output_tokens"])).sum())


def is_mixed(sources: dict[str, int]) -> bool:
    """More than one way of counting; tokens that nobody counted are none."""
    return len(sources.keys() - {TokenSource.UNKNOWN.value}) > 1


def token_rate(requests: Requests, ok: Bools, window_s: float) -> float | None:
    """None unless one source counted the tokens of every success: a rate over some of them would be too low without
    saying so, and two ways of counting do not add."""
    tokens = requests.masked["output_tokens"]
    if not ok.any() or window_s <= 0 or not tokens.known[ok].all():
        return None
    if is_mixed(token_sources(requests, ok)):
        return None
    return float(tokens.values[ok].sum()) / window_s


def token_sources(requests: Requests, ok: Bools) -> dict[str, int]:
    """Who counted the tokens of how many successes, by name."""
    counts = np.bincount(requests.codes["token_source"][ok], minlength=len(TOKEN_SOURCES))
    return dict(sorted((word, int(count)) for word, count in zip(TOKEN_SOURCES, counts, strict=True) if count))


def _pools(limits: ClassLimits, requests: Requests, graded: Times, rows: Bools, ok: Bools) -> dict[str, Pool]:
    """Each of the user's times in the order of issue, by when requests were due."""
    order = np.lexsort((requests.plain["index"], requests.plain["t_scheduled_ns"]))
    waits = rows if graded.streamed else np.zeros_like(rows)
    found = {}
    for name, among in (("e2e_s", rows), ("ttft_s", waits), ("tpot_s", waits)):
        values, judged = _judged(getattr(graded, name), among, ok)
        found[name] = pool(values[order][judged[order]], getattr(limits, name))
    return found


def _all(values: Floats, rows: Bools, ok: Bools) -> Tail:
    values, judged = _judged(values, rows, ok)
    return tail(values[judged])


def _judged(values: Floats, rows: Bools, ok: Bools) -> tuple[Floats, Bools]:
    """(times, which of them count). Failed requests are infinite; successes without this time are left out. Where requests
    succeeded and none has it, there is nothing to judge."""
    known = ok & ~np.isnan(values)
    if ok.any() and not known.any():
        return values, known
    return np.where(ok, values, np.inf), rows & (known | ~ok)


def _successes(values: Floats, ok: Bools) -> Tail:
    return tail(values[ok & ~np.isnan(values)])


def _graded(times: Times, *, without_first: bool, without_between: bool) -> Times:
    unknown = np.full(len(times.ok), np.nan)
    if without_first:
        times = replace(times, ttft_s=unknown, server_ttft_s=unknown)
    return replace(times, tpot_s=unknown) if without_between else times


def _inside_limits(limits: ClassLimits, requests: Requests, times: Times) -> Bools:
    """True where every limit is kept. One token has no TPOT to break; tokens that nobody counted, and times that are not
    known, cannot prove one kept."""
    kept = np.ones(len(requests), dtype=np.bool_)
    if limits.e2e_s is not None:
        kept &= times.e2e_s <= limits.e2e_s
    if limits.ttft_s is not None:
        kept &= times.ttft_s <= limits.ttft_s
    if limits.tpot_s is not None:
        kept &= (later_tokens(requests) <= 0) | (times.tpot_s <= limits.tpot_s)
    return kept


def _gaps_of(requests: Requests, rows: Bools) -> Gaps:
    if rows.all():
        return requests.gaps_us
    return requests.gaps_us[np.repeat(rows, np.diff(requests.gap_offsets))]


def _is_buffered(gaps: Gaps, times: Times, ok: Bools) -> bool:
    if len(gaps) < BUFFERED_GAPS or np.count_nonzero(gaps < BUFFERED_GAP_US) <= BUFFERED_SHARE * len(gaps):
        return False
    streamed = ok & (times.server_e2e_s > 0) & ~np.isnan(times.server_ttft_s)
    waited = times.server_ttft_s[streamed] / times.server_e2e_s[streamed]
    return bool(len(waited) and np.median(waited) >= BUFFERED_TTFT_SHARE)


def _chunk_gaps(gaps: Gaps) -> ChunkGaps:
    n = len(gaps)
    fine = histograms.count(gaps)
    exact = n <= EXACT_GAPS
    wanted = [q for q in (0.50, 0.95, 0.99) if n >= smallest_sample(q)]
    if exact:
        ranks = [nearest_rank(n, q) - 1 for q in wanted]
        found = np.partition(gaps, ranks)[ranks].tolist() if ranks else []
    else:
        found = [histograms.quantile_us(fine, q) for q in wanted]
    p50, p95, p99 = ([us / US for us in found] + [None] * 3)[:3]
    return ChunkGaps(
        n=n,
        p50=p50,
        p95=p95,
        p99=p99,
        peak=int(gaps.max()) / US if n else None,
        exact=exact,
        buckets_us=histograms.sparse(histograms.coarser(fine)),
    )


def _steadiness(requests: Requests, times: Times, ok: Bools, window: Window | None) -> dict[str, Steadiness]:
    """Of each time over the successes, by when they were due; no word on one that is not known."""
    if window is None:
        return {}
    at_s = (requests.plain["t_scheduled_ns"] - window.start_ns) / NS
    length_s = (window.end_ns - window.start_ns) / NS
    found = {}
    for name, values in (("e2e_s", times.e2e_s), ("ttft_s", times.ttft_s), ("tpot_s", times.tpot_s)):
        known = ok & ~np.isnan(values)
        if known.any():
            found[name] = steadiness.of_values(at_s[known], values[known], length_s=length_s)
    return found


def _median(values: Ints) -> float | None:
    return float(np.median(values)) if values.size else None
