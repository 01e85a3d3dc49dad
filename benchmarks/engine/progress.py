"""What the engine prints while it runs: one JSON line about each second, the last one with phase `ended`."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Stage(StrEnum):
    STARTING = "starting"
    READY = "ready"  # one process of several waits for the others, before the first request
    WARMUP = "warmup"
    WARM = "warm"  # and before the window
    WINDOW = "window"
    DRAIN = "drain"
    ENDED = "ended"


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Counts are of the whole cell. `attempts` and `tokens` are what was asked so far, retries among them: prompts as
    intended, answers as long as they may be. Times and runtime gauges are None until known; `reason` stands on the last line.

    Times are of the newest finished requests in the user view: p50 of successes, p95 with failures as infinite, None
    among them or from too few. `readings` are the newest telemetry values by canonical name, the highest of all devices.
    """

    phase: Stage
    elapsed_s: float
    sent: int
    finished: int
    ok: int
    in_flight: int
    attempts: int = 0
    tokens: int = 0
    p50_e2e_s: float | None = None
    p95_e2e_s: float | None = None
    p95_ttft_s: float | None = None
    running: float | None = None
    waiting: float | None = None
    readings: dict[str, float] = {}
    reason: str = ""


def line(progress: Progress) -> bytes:
    return msgspec.json.encode(progress) + b"\n"


def parse(data: bytes) -> Progress:
    """Raises msgspec.DecodeError."""
    return msgspec.json.decode(data, type=Progress)
