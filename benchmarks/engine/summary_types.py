"""The shape of a cell's summary: what pages, the judge and statements read. `summary.summarise` makes it."""

from __future__ import annotations

import math

import msgspec

from benchmarks.engine.terms import ClientHealth
from benchmarks.stats.estimates import Share, Tail


class Gauge(msgspec.Struct, frozen=True, kw_only=True):
    """A telemetry value over the window. `name` carries the unit, as in `vram_used_bytes`."""

    name: str
    source: str
    device: str
    n: int
    mean: float
    low: float
    peak: float


class ClassSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One length class in one cell. All user-facing times start at t_scheduled.

    `e2e_s`, `ttft_s` and `tpot_s` count failed requests as infinite; those with `_ok_` are over successes alone.
    `good` are requests that are ok, valid and inside every limit of their class. `truncated_prompts` and
    `short_outputs` count successes more than 5 % shorter than intended and asked, where tokens were counted.
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


class CellSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A pure function of the cell's evidence. Rates are per second over the window's requests, None without a window.

    `sent` is the engine's own count of all that it issued, `recorded` the number of records, both with warm-up.
    `conserved` is None where the engine left no count to compare with.
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
