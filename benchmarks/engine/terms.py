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
    """First frame: what is being run, and one pair of clocks read together."""

    schema: int
    plan_sha256: str
    wall_ns: int
    monotonic_ns: int
    engine_version: str
    host: str
    client_cpus: str
    simulated: bool
    plan: CellPlan


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True, tag="request"):
    """One attempt of one request. Missing times and counts are None, never zero.

    `t_end_ns` is the terminal marker, so only an answer that came to its end has one; `t_closed_ns` is when the client
    was done with the request, whatever its outcome. `first_chunk_tokens` is known only where usage comes on every
    chunk.
    """

    index: int
    class_name: str
    phase: Phase
    slot: int
    attempt: int = 1
    outcome: Outcome
    t_scheduled_ns: int
    t_sent_ns: int | None = None
    t_headers_ns: int | None = None
    t_first_ns: int | None = None
    t_answer_ns: int | None = None
    t_last_ns: int | None = None
    t_end_ns: int | None = None
    t_closed_ns: int | None = None
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
    detail: str = ""
    chunk_gaps_us: tuple[int, ...] = ()


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
    """Whether the client was the bottleneck: event-loop lag, its CPU share of one core, lateness of sends."""

    loop_lag_p99_ms: float | None
    cpu_share: float | None
    send_late_p99_ms: float | None
    client_limited: bool
    why: str = ""


class End(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """Last frame of a finished cell. `complete` is false when a guard or a person stopped it; `reason` says which.

    `sent` is how many requests the engine issued in all, warm-up included: what its records are counted against. None
    where the engine came to no count of its own.
    """

    t_ns: int
    complete: bool
    reason: str
    sent: int | None = None


Frame = Header | RequestRecord | Reading | NotReported | Window | ClientHealth | End
