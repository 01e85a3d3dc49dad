"""Times of each setting and class in both views, the times between chunks, and what is odd about any of them.

The server's view starts when a request was sent, the user's when it was due. A time that drifted over the window has no
one number: the page shows its trend in that place. What is not known is a word, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.engine.plan import GridLimits
from benchmarks.engine.summary_types import CellSummary, ClassSummary
from benchmarks.queries import CellEvidence
from benchmarks.records.modes import Mode
from benchmarks.stats.estimates import Tail
from benchmarks.stats.quantiles import smallest_sample
from benchmarks.stats.steadiness import MIN_BLOCKS, Steadiness, Steady
from capacity import mode_tables
from capacity.mode_tables import Column, Line, Seen, Value

NOT_KNOWN, NOT_STREAMED, HELD_BACK, ONE_CHUNK = "not known", "not streamed", "held back", "one chunk"
OWN_TRANSPORT = "headroom"
QUANTILES = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))
STEADINESS = (("ttft", "TTFT"), ("e2e", "End to end"), ("tpot", "TPOT"))
DEFINITION = (
    "The user's view starts when a request was due, the server's when it was sent; failures count as infinite. Time between "
    "chunks is that between two pieces of text of one answer: a sign of stalls, not a time between tokens, for a chunk may "
    "hold several. Steadiness is the Theil-Sen trend of the user's times and of the throughput over the window, through at "
    f"least {MIN_BLOCKS} blocks: drifting where it gets worse by 15 % or more and by twice what the blocks scatter around it, "
    "settling where it gets better. A time that drifts has no one number, so in both views its trend stands in that place."
)


@dataclass(frozen=True, slots=True)
class Group:
    """Columns under one head."""

    head: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A setting and a class over its repeats; `flags` in words, or None where the summary is too old to know."""

    line: Line
    flags: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Block:
    """Half of the columns, so that all of them are seen without scrolling on a wide page. `flagged` has the flags too."""

    label: str
    groups: tuple[Group, ...]
    rows: tuple[Row, ...]
    flagged: bool

    @property
    def columns(self) -> Iterator[Column]:
        return (column for group in self.groups for column in group.columns)


@dataclass(frozen=True, slots=True)
class Table:
    """`transports` names what carried the requests where it was not Headroom's own."""

    blocks: tuple[Block, ...]
    transports: str
    repeated: bool
    definition: str = DEFINITION


def table(cells: Sequence[CellEvidence]) -> Table | None:
    """Every measured cell; a static batch by its classes too, for their times are asked here, not its makespan. None
    where nothing was measured."""
    found = [one for one in mode_tables.seen(cells, GridLimits(), 0.0, Mode.CLOSED) if one.part is not None]
    if not found:
        return None
    grouped: dict[tuple[int, str], list[Seen]] = {}
    for one in found:
        grouped.setdefault((one.cell.setting, one.label), []).append(one)
    odd = {key: flags(group) for key, group in grouped.items()}
    blocks = []
    for label, groups in (("Times", TIMES), ("Chunks, steadiness and flags", SIGNS)):
        columns = [column for group in groups for column in group.columns]
        rows = tuple(Row(line, odd[line.setting, line.label]) for line in mode_tables.lines(found, columns))
        blocks.append(Block(label, groups, rows, flagged=groups is SIGNS))
    names = dict.fromkeys(one.summary.transport for one in found)
    transports = ", ".join(name for name in names if name not in ("", OWN_TRANSPORT))
    return Table(tuple(blocks), transports, repeated=any(len(group) > 1 for group in grouped.values()))


def flags(group: Sequence[Seen]) -> tuple[str, ...] | None:
    """What is odd about one class at one setting, over its repeats."""
    parts = [one.part for one in group if one.part is not None and is_known(one.part)]
    if not parts:
        return None
    rates, wrong = sum(part.impossible_rates for part in parts), sum(part.wrong_times for part in parts)
    found = [
        _in_repeats("held back by something in between: TTFT not graded", [part.buffered for part in parts]),
        f"physically impossible rate in {rates:,} answer{'s' if rates > 1 else ''}" if rates else "",
        f"{wrong:,} sample{'s' if wrong > 1 else ''} with impossible times" if wrong else "",
        _in_repeats("tokens counted two ways", [part.mixed_token_sources for part in parts]),
        _tried_again([one.summary for one in group]),
    ]
    return tuple(words for words in found if words)


def is_known(part: ClassSummary) -> bool:
    """Whether the summary is of a schema that looked for them: an old one's 0 is no finding."""
    return part.server_e2e_s is not None


def steadiness_words(found: Steadiness) -> str:
    """The verdict, with its change over the window where there was one."""
    if found.verdict == Steady.TOO_SHORT:
        return f"too short: {found.blocks} of {MIN_BLOCKS} blocks"
    if found.verdict == Steady.STEADY:
        return "steady"
    change = "" if found.change_share is None else f" {found.change_share * 100:+.0f} %".replace("-", "−")
    return f"{found.verdict.value}{change}"


def _in_repeats(words: str, seen: Sequence[bool]) -> str:
    if not any(seen):
        return ""
    return words if all(seen) else f"{words} (in {sum(seen)} of {len(seen)})"


def _tried_again(summaries: Sequence[CellSummary]) -> str:
    """Of the whole cell, where a request had more than one attempt."""
    more = [s for s in summaries if s.attempts is not None and s.attempts > s.scheduled]
    attempts, scheduled = sum(s.attempts or 0 for s in more), sum(s.scheduled for s in more)
    return f"{attempts:,} attempts for {scheduled:,} requests" if more else ""


def _time(metric: str, take: Callable[[ClassSummary], Tail | None], quantile: str) -> Callable[[Seen], Value]:
    """Seconds; the trend where the metric drifted, else why there is no value."""

    def value(one: Seen) -> Value:
        if one.part is None or (tail := take(one.part)) is None:
            return None
        trend = one.part.steadiness.get(f"{metric}_s")
        if trend is not None and trend.verdict == Steady.DRIFTING:
            return steadiness_words(trend)
        found = tail.p50 if quantile == "p50" else tail.p95
        if found.n == 0:
            return _without_first_token(one.part) if metric == "ttft" else None
        return _needs(found.q, found.n) if found.value is None else found.value

    return value


def _gap(quantile: str) -> Callable[[Seen], Value]:
    """Seconds between chunks; "peak" is the largest."""

    def value(one: Seen) -> Value:
        if one.part is None or (gaps := one.part.chunk_gap_s) is None:
            return None
        if gaps.n == 0:
            return ONE_CHUNK if one.part.ttft_s.p95.n else _without_first_token(one.part)
        found = {"p50": gaps.p50, "p95": gaps.p95, "p99": gaps.p99, "peak": gaps.peak}[quantile]
        return _needs(dict(QUANTILES)[quantile], gaps.n) if found is None and quantile in dict(QUANTILES) else found

    return value


def _steadiness(metric: str) -> Callable[[Seen], Value]:
    def value(one: Seen) -> Value:
        if one.part is None:
            return None
        found = one.part.steadiness.get(f"{metric}_s")
        if found is None:
            return _without_first_token(one.part) if metric != "e2e" and is_known(one.part) else None
        return steadiness_words(found)

    return value


def _throughput(one: Seen) -> Value:
    found = one.summary.steadiness.get("completed_per_s")
    return None if found is None else steadiness_words(found)


def _without_first_token(part: ClassSummary) -> Value:
    """Why no answer has a time to its first token; None where that is not known, as where none was asked for."""
    if part.buffered:
        return HELD_BACK
    return NOT_STREAMED if part.scheduled and not part.ttft_s.p95.n else None


def _needs(q: float, n: int) -> str:
    return f"needs {smallest_sample(q) - n:,} more"


def _times(head: str, metric: str, take: Callable[[ClassSummary], Tail | None]) -> Group:
    """p50 and p95 in seconds."""
    pair = ("p50", "p95")
    columns = (Column(f"{metric}_{q}_s", q, "s", _time(metric, take, q), digits=3, none=NOT_KNOWN) for q in pair)
    return Group(head, tuple(columns))


_GAPS = tuple(
    Column(f"chunk_gap_{key}_s", head, "ms", _gap(key), digits=1, scale=1000, none=NOT_KNOWN)
    for key, head in (*((q, q) for q, _ in QUANTILES), ("peak", "largest"))
)
_STEADY = tuple(Column(f"{key}_steadiness", head, "", _steadiness(key), none=NOT_KNOWN) for key, head in STEADINESS)
TIMES: tuple[Group, ...] = (
    _times("TTFT, user", "ttft", lambda part: part.ttft_s),
    _times("TTFT, server", "ttft", lambda part: part.server_ttft_s),
    _times("End to end, user", "e2e", lambda part: part.e2e_s),
    _times("End to end, server", "e2e", lambda part: part.server_e2e_s),
)
SIGNS: tuple[Group, ...] = (
    Group("Time between chunks", _GAPS),
    Group("Steadiness", (*_STEADY, Column("completed_steadiness", "Throughput", "", _throughput, none=NOT_KNOWN))),
)


def plain(part: ClassSummary | None, summary: CellSummary | None) -> dict[str, Value]:
    """What a file holds of one cell and class beside the user's times: numbers in seconds even where they drift, for the
    verdict stands beside them; None where not known."""
    gaps, known = part.chunk_gap_s if part else None, part is not None and is_known(part)
    values: dict[str, Value] = {
        "chunk_gap_n": gaps.n if gaps else None,
        "chunk_gap_p50_s": gaps.p50 if gaps else None,
        "chunk_gap_p95_s": gaps.p95 if gaps else None,
        "chunk_gap_p99_s": gaps.p99 if gaps else None,
        "chunk_gap_largest_s": gaps.peak if gaps else None,
    }
    for key, _ in STEADINESS:
        values |= _verdict(key, part.steadiness.get(f"{key}_s") if part else None)
    return values | {
        **_verdict("completed", summary.steadiness.get("completed_per_s") if summary else None),
        "buffered": part.buffered if part and known else None,
        "impossible_rates": part.impossible_rates if part and known else None,
        "wrong_times": part.wrong_times if part and known else None,
        "mixed_token_sources": part.mixed_token_sources if part and known else None,
        "cell_attempts": summary.attempts if summary else None,
        "transport": (summary.transport or None) if summary else None,
    }


def _verdict(key: str, found: Steadiness | None) -> dict[str, Value]:
    return {
        f"{key}_steadiness": found.verdict.value if found else None,
        f"{key}_change_share": found.change_share if found else None,
    }
