"""The shape of a cell's summary: what pages, the judge and statements read. `summary.summarise` makes it.

Fields that a later schema added have defaults, so that stored summaries of every schema still load.
"""

from __future__ import annotations

import math

import msgspec

from benchmarks.engine.terms import ClientHealth
from benchmarks.stats.estimates import Share, Tail
from benchmarks.stats.pools import Pool
from benchmarks.stats.steadiness import Steadiness


class Gauge(msgspec.Struct, frozen=True, kw_only=True):
    """A telemetry value over the window. `name` carries the unit, as in `vram_used_bytes`."""

    name: str
    source: str
    device: str
    n: int
    mean: float
    low: float
    peak: float


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """How far a counter moved between its first and last reading inside the window, `over_s` apart. A step back is a
    reset: what the counter shows then is counted from zero. `increase` None: after a reset nobody can say."""

    name: str
    source: str
    device: str
    increase: float | None
    over_s: float
    resets: int


class GpuTotal(msgspec.Struct, frozen=True, kw_only=True):
    """One value over all GPUs: the sum over those `known` of `of` that could say it; `missing` are the others. Of power
    it is the mean over the window, of memory the sum of each card's peak. `how` says what it was taken from."""

    name: str
    value: float
    known: int
    of: int
    how: str
    missing: tuple[str, ...] = ()


class TelemetryGap(msgspec.Struct, frozen=True, kw_only=True):
    """No reading of this source from one time to another, seconds after the window's start, cut to the window."""

    source: str
    device: str
    from_s: float
    to_s: float


class ChunkGaps(msgspec.Struct, frozen=True, kw_only=True):
    """Times between chunks with text, over successes: a sign of stalls, not a time between tokens, for a chunk may hold
    several. `exact` is false where there were so many that the quantiles come from a histogram: at most 0.05 % too high.
    `buckets_us` is (smallest value, how many), eight to a doubling: adding those of several cells gives theirs."""

    n: int
    p50: float | None
    p95: float | None
    p99: float | None
    peak: float | None
    exact: bool
    buckets_us: tuple[tuple[int, int], ...]


class ClassSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One length class in one cell. User-facing times start at t_scheduled, those of the server view at t_sent.

    `e2e_s`, `ttft_s` and `tpot_s`, and those with `server_`, count failed requests as infinite; those with `_ok_` are
    over successes alone. `good` are requests that are ok, valid and inside every limit of their class.
    `truncated_prompts` and `short_outputs` count successes more than 5 % shorter than intended and asked, where tokens
    were counted.

    `pools` has `e2e_s`, `ttft_s` and `tpot_s` once more, with what it takes to judge several repeats together; summaries
    before schema 5 have none.

    `buffered`: the answers were held back and came at once, so times to and between tokens are not the server's; they
    are left empty, as without streaming. `mixed_token_sources`: more than one source counted, so there is no rate of
    tokens and no time per token. `wrong_times` are successes with impossible stamps, counted as failed, and
    `impossible_rates` those whose tokens came faster than any sequence is decoded. `long_outputs` are successes with more
    tokens by the server's own count than they were allowed; None where the server counted none.
    """

    class_name: str
    scheduled: int
    outcomes: dict[str, int]
    success: Share
    valid: Share
    good: Share
    e2e_s: Tail
    ttft_s: Tail
    tpot_s: Tail
    e2e_ok_s: Tail
    ttft_ok_s: Tail
    prompt_tokens_p50: float | None
    output_tokens_p50: float | None
    asked_output_tokens_p50: float | None
    token_sources: dict[str, int]
    truncated_prompts: int
    short_outputs: int
    tpot_ok_s: Tail | None = None
    intended_prompt_tokens_p50: float | None = None
    server_e2e_s: Tail | None = None
    server_ttft_s: Tail | None = None
    server_e2e_ok_s: Tail | None = None
    server_ttft_ok_s: Tail | None = None
    output_tokens_per_s: float | None = None
    mixed_token_sources: bool = False
    chunk_gap_s: ChunkGaps | None = None
    buffered: bool = False
    impossible_rates: int = 0
    wrong_times: int = 0
    steadiness: dict[str, Steadiness] = {}
    long_outputs: int | None = None
    pools: dict[str, Pool] = {}


class OpenLoopSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an open loop offered what it was asked to. `planned` requests were due inside the window; `requested_per_s`
    is their rate, `sent_per_s` that of what was written in the window.

    `late_s` is from when a request was due (in a micro-batch: when its batch was closed) to when it was first written,
    infinite for what never was; `on_time` are those within 2 ms.
    """

    planned: int
    requested_per_s: float | None
    sent_per_s: float | None
    on_time: Share
    late_s: Tail
    late_max_s: float | None


class MicroBatchSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What gathering cost. `added_wait_s` is from when a request was due to when its batch was closed; it is inside the
    user's times. `over_max_wait` counts waits above the plan's limit."""

    batches: int
    items_per_batch: float | None
    added_wait_s: Tail
    added_wait_max_s: float | None
    over_max_wait: int


class StaticBatchSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A known set of items, whatever windows there were. `open` items have no record yet. `makespan_s` is from the first
    item's start to the last one's end, with every interruption between; `items_per_s` is done items over it."""

    items: int
    done: int
    failed: int
    open: int
    batches: int
    makespan_s: float | None
    items_per_s: float | None
    resumed: int


class CellSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A pure function of the cell's evidence. Rates are per second over the window's requests, None without a window.

    `sent` is the engine's own count of all requests that it issued, `recorded` the number of requests with a record,
    both with warm-up. `conserved` is None where the engine left no count to compare with. `attempts` are the records of
    the window's requests: more than `scheduled` where some were tried again.

    `closed_per_s` and `mean_e2e_s` are of the attempts that were done with inside the window, whatever became of them: how
    many a second, and how long each was in flight, from being sent to being done with. By Little's law their product is
    `mean_in_flight`.
    """

    schema: int
    offered_concurrency: int
    class_name: str
    window_s: float
    started_at: str
    scheduled: int
    warmup_requests: int
    outcomes: dict[str, int]
    conserved: bool | None
    completed_per_s: float | None
    good_per_s: float | None
    output_tokens_per_s: float | None
    mean_in_flight: float | None
    resent: int
    validity_by_construction: bool
    classes: tuple[ClassSummary, ...]
    gauges: tuple[Gauge, ...]
    not_reported: dict[str, str]
    client: ClientHealth
    complete: bool
    end_reason: str
    simulated: bool
    sent: int | None = None
    recorded: int | None = None
    transport: str = ""
    attempts: int | None = None
    attempts_per_request: float | None = None
    mixed_token_sources: bool = False
    steadiness: dict[str, Steadiness] = {}
    open_loop: OpenLoopSummary | None = None
    micro_batch: MicroBatchSummary | None = None
    static_batch: StaticBatchSummary | None = None
    counters: tuple[Counter, ...] = ()
    gpu_totals: tuple[GpuTotal, ...] = ()
    telemetry_gaps: tuple[TelemetryGap, ...] = ()
    closed_per_s: float | None = None
    mean_e2e_s: float | None = None

    def counted(self, name: str) -> float | None:
        """How far the counters of that name moved together; None where none did, or one cannot say."""
        found = [c.increase for c in self.counters if c.name == name]
        known = [one for one in found if one is not None]
        return sum(known) if found and len(known) == len(found) else None

    def queue_time_s(self) -> float | None:
        """Mean wait in the runtime's own queue of the requests that it counted in the window."""
        total, count = self.counted("runtime_queue_time_s_total"), self.counted("runtime_queue_count_total")
        return total / count if total is not None and count else None

    def gauge(self, name: str) -> Gauge | None:
        """The gauge of that name with the highest peak, or None when nothing reported it."""
        found = [g for g in self.gauges if g.name == name]
        return max(found, key=lambda g: g.peak) if found else None

    def of_class(self, name: str) -> ClassSummary | None:
        return next((c for c in self.classes if c.class_name == name), None)


def as_json(summary: CellSummary) -> dict[str, object]:
    """Plain values for a JSON column. JSON has no infinity (PostgreSQL refuses it), so it is written as the text
    "inf"."""
    plain = _spell_infinity(msgspec.to_builtins(summary))
    assert isinstance(plain, dict)
    return plain


def from_json(value: object) -> CellSummary:
    """The other way; raises msgspec.ValidationError with the path of the wrong field."""
    return msgspec.convert(value, CellSummary, strict=False)


def _spell_infinity(value: object) -> object:
    if isinstance(value, dict):
        return {key: _spell_infinity(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_spell_infinity(inner) for inner in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
