"""The words of measuring: outcomes, token sources, and the records that a log holds. Times are monotonic
nanoseconds."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from benchmarks.engine.plan import CellPlan


class Outcome(StrEnum):
    """Exactly one per request; a closed vocabulary."""

    OK = "ok"
    REJECTED = "rejected"
    REFUSED = "refused"  # by validation: another 4xx
    SERVER_ERROR = "server_error"
    IN_STREAM_ERROR = "in_stream_error"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    EMPTY = "empty"
    CONNECT_ERROR = "connect_error"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    CANCELLED = "cancelled_by_us"
    UNFINISHED = "unfinished"
    CLIENT_FAULT = "client_fault"


class TokenSource(StrEnum):
    SERVER = "server"
    TOKENIZER = "tokenizer"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """Where a request belongs, by the time it was issued."""

    WARMUP = "warmup"
    WINDOW = "window"
    AFTER = "after"


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="header"):
    """First frame: what is being run, and one pair of clocks read together. `transport` is `headroom` for the one made
    for measuring, else the name of the standard one with the reason. `client_priority` is `normal`, `realtime`, or why
    real time was refused."""

    schema: int
    plan_sha256: str
    wall_ns: int
    monotonic_ns: int
    engine_version: str
    host: str
    client_cpus: str
    simulated: bool
    plan: CellPlan
    transport: str = "headroom"
    client_priority: str = "normal"


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True, tag="request"):
    """One attempt of one request; the last attempt of an `index` is what became of the request. Missing times and
    counts are None, never zero.

    `t_end_ns` is the terminal marker, so only an answer that came to its end has one; `t_closed_ns` is when the client
    was done with the request, whatever its outcome. `connect_us` is what opening a connection took within the request,
    0 where one was open. `first_chunk_tokens` is known only where usage comes on every chunk. `gaps_us` are the times
    between chunks with text, in order, as little-endian u32. `gathered_ns` is when a micro-batch was closed; items
    that went out together share `batch`. `role` is what a request is there for in a behaviour probe, None in plain load.
    """

    index: int
    class_name: str
    phase: Phase
    slot: int
    attempt: int = 1
    outcome: Outcome
    t_scheduled_ns: int
    gathered_ns: int | None = None
    t_sent_ns: int | None = None
    t_headers_ns: int | None = None
    t_first_ns: int | None = None
    t_answer_ns: int | None = None
    t_last_ns: int | None = None
    t_end_ns: int | None = None
    t_closed_ns: int | None = None
    connect_us: int | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    retry_after_s: float | None = None
    intended_prompt_tokens: int
    asked_output_tokens: int
    prompt_tokens: int | None = None
    cached_prompt_tokens: int | None = None
    output_tokens: int | None = None
    first_chunk_tokens: int | None = None
    token_source: TokenSource = TokenSource.UNKNOWN
    valid: bool | None = None
    resent: bool = False
    batch: int | None = None
    session: int | None = None
    turn: int | None = None
    detail: str = ""
    gaps_us: bytes = b""
    role: str | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True, tag="sample"):
    """The texts of one sampled attempt, beside its record. Texts are cut at `samples.MOST_CHARACTERS`; the counts and the
    digest are of the whole. `expected` is what the task's validator judged by, empty for the words task."""

    index: int
    attempt: int
    prompt: str
    prompt_characters: int
    expected: str
    answer: str
    answer_characters: int
    answer_sha256: str


class Uncounted(msgspec.Struct, frozen=True, kw_only=True, tag="uncounted"):
    """The whole answer of a success whose tokens the server did not count, for the tokeniser that the plan pins. It stays in
    the log and is no part of the evidence."""

    index: int
    attempt: int
    answer: str


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True, tag="batch"):
    """One request that carried several items, or one round of a static batch. Tokens are the server's totals for it,
    None where it told none."""

    batch: int
    items: int
    t_gathered_ns: int
    t_sent_ns: int | None
    t_end_ns: int | None
    outcome: Outcome
    prompt_tokens: int | None = None
    output_tokens: int | None = None


class Resumed(msgspec.Struct, frozen=True, kw_only=True, tag="resumed"):
    """A run found this log unfinished and goes on with it. Stamps after this frame are on this pair of clocks."""

    wall_ns: int
    monotonic_ns: int


class Reading(msgspec.Struct, frozen=True, kw_only=True, tag="reading"):
    """One telemetry value. `name` is canonical with its unit, `source` says who answered, `device` is a UUID or
    empty."""

    t_ns: int
    name: str
    value: float
    source: str
    device: str = ""


class NotReported(msgspec.Struct, frozen=True, kw_only=True, tag="not_reported"):
    """A reading that was asked for and not to be had, with the reason in words. Never a zero."""

    name: str
    source: str
    reason: str


class Window(msgspec.Struct, frozen=True, kw_only=True, tag="window"):
    """Issue times between start and end belong to the window."""

    start_ns: int
    end_ns: int


class ClientHealth(msgspec.Struct, frozen=True, kw_only=True, tag="client_health"):
    """Whether the client was the bottleneck over the window. With several generator processes: the worst of them.

    `send_late_p99_ms` is the lateness of sends against their plan, in an open loop judged, in a closed one only told;
    the wait for a free slot, where as many were in flight as the plan allows, is not in it;
    `dispatch_p99_ms` what passed between the decision to send and the last byte written, `connect_p99_ms` what opening
    connections took, `connection_wait_share` the share of requests that waited for one. `stalls` counts lags of the
    event loop above 5 ms. `cpu_wait_share`: of the time in which the client had work, the part in which others had its
    core; None where the system does not say.
    """

    loop_lag_p99_ms: float | None
    cpu_share: float | None
    send_late_p99_ms: float | None
    client_limited: bool
    why: str = ""
    dispatch_p99_ms: float | None = None
    connect_p99_ms: float | None = None
    connection_wait_share: float | None = None
    loop_lag_max_ms: float | None = None
    stalls: int | None = None
    processes: int = 1
    cpu_wait_share: float | None = None


class End(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """Last frame of a finished cell. `complete` is false when a guard or a person stopped it; `reason` says which.

    `sent` is how many requests the engine issued in all, warm-up included: what its records are counted against. None
    where the engine came to no count of its own. `planned` is how many arrivals of an open loop were due inside the
    window, sent or not.
    """

    t_ns: int
    complete: bool
    reason: str
    sent: int | None = None
    planned: int | None = None


Frame = (
    Header
    | Resumed
    | RequestRecord
    | Sample
    | Uncounted
    | BatchRecord
    | Reading
    | NotReported
    | Window
    | ClientHealth
    | End
)
