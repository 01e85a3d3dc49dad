"""How requests are offered: closed or open loop, gathered by the client, or as a known set of items.

Part of the plan, so every kind is plain data. Rates are per second, waits in the unit that their name says.
"""

from __future__ import annotations

import msgspec


class Constant(msgspec.Struct, frozen=True, tag_field="kind", tag="constant"):
    """One arrival each 1 / rate_per_s seconds."""

    rate_per_s: float


class Poisson(msgspec.Struct, frozen=True, tag_field="kind", tag="poisson"):
    """Independent arrivals: exponential gaps."""

    rate_per_s: float


class Gamma(msgspec.Struct, frozen=True, tag_field="kind", tag="gamma"):
    """Gamma gaps. `burstiness` is the shape: 1 is Poisson, below 1 comes in bursts (CV of the gaps is burstiness **
    -0.5)."""

    rate_per_s: float
    burstiness: float


class Steps(msgspec.Struct, frozen=True, tag_field="kind", tag="steps"):
    """Poisson arrivals whose rate changes: (seconds, rate per second) one after the other; the last one stays."""

    steps: tuple[tuple[float, float], ...]


class Replay(msgspec.Struct, frozen=True, tag_field="kind", tag="replay"):
    """The arrivals of a trace: seconds after its first request, ascending, from the first on."""

    offsets_s: tuple[float, ...]


Arrivals = Constant | Poisson | Gamma | Steps | Replay


class Closed(msgspec.Struct, frozen=True, tag_field="kind", tag="closed"):
    """`offered_concurrency` requests are kept in flight; the next starts when one ends."""


class OpenLoop(msgspec.Struct, frozen=True, tag_field="kind", tag="open"):
    """Requests are due at times of their own, whatever the server does. What cannot be sent in time is debt, not skipped.

    The plan's `offered_concurrency` is the most that may be in flight at once.
    """

    arrivals: Arrivals


class MicroBatch(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="micro_batch"):
    """The client gathers arrivals into one request of at most `max_items`, for at most `max_wait_ms`; at low traffic it
    sends at once. The plan's `offered_concurrency` is the most batches in flight."""

    arrivals: Arrivals
    max_items: int
    max_wait_ms: float


class StaticBatch(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="static_batch"):
    """A known set of `items` in batches of `batch_size`: the next batch starts when every item of the last has ended.

    The plan's `offered_concurrency` says how many batches run beside each other. A failed item is tried again up to
    `tries` times in all. The log is the ledger: a run that finds one goes on where it ended.
    """

    items: int
    batch_size: int
    tries: int = 3


Load = Closed | OpenLoop | MicroBatch | StaticBatch


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations of `turns` requests; each turn's prompt holds all turns before it, and is due `think_s` after the
    last one's end. Earlier answers in the prompt are synthetic too, so that the seed alone gives the workload."""

    turns: int
    think_s: float = 0.0
