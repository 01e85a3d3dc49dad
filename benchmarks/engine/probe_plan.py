"""What a behaviour probe does, as plain data in a cell's plan: one struct per probe. Lengths are tokens, times seconds.

Defaults keep a probe under two minutes on a runtime that answers a short request within seconds; limits by which a
verdict is given are parameters too, so that they are printed beside it.
"""

from __future__ import annotations

import msgspec


class Fairness(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="fairness"):
    """Short requests alone for `alone_s`, then beside long ones for `beside_s`, both in closed loops.

    An empty class name takes the plan's class with the fewest, or the most, tokens. `short_weight` and `long_weight` say
    what a client of each kind is entitled to of the runtime's time. Blocked is a short request that took more than
    `blocked_over` of its median alone. Fair is a ratio of the p95 up to `fair_ratio`, unfair one above `unfair_ratio`.
    """

    short_class: str = ""
    long_class: str = ""
    short_clients: int = 1
    long_clients: int = 2
    short_weight: float = 1.0
    long_weight: float = 1.0
    alone_s: float = 20.0
    beside_s: float = 30.0
    least_requests: int = 20
    blocked_over: float = 2.0
    fair_ratio: float = 2.0
    unfair_ratio: float = 5.0


class Overload(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="overload"):
    """An open loop at `times_capacity` of what the runtime does, for `overload_s`; then light load until it has recovered,
    at most `recovery_s`. A `capacity_per_s` of None is measured first, for `measure_s` with `measure_clients`."""

    capacity_per_s: float | None = None
    measure_s: float = 10.0
    measure_clients: int = 8
    times_capacity: float = 2.0
    overload_s: float = 20.0
    recovery_s: float = 60.0
    most_in_flight: int = 256
    refuse_within_s: float = 2.0
    least_requests: int = 20
    back_within: float = 1.5


class Cancellation(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="cancellation"):
    """Fills all `slots`, lets another request wait, and leaves: the waiting one, one during its prefill, one in mid-stream.

    `slots` of None: not known, so it cannot be judged. Each of them is tried `tries` times. A leave during prefill comes
    `prefill_after_s` after the request was sent, one in mid-stream after `stream_chunks` chunks of text. What is not freed
    within `give_up_s` is told as so. `frees_within_s` is the limit of the verdict.
    """

    slots: int | None = None
    tries: int = 3
    fill_prompt_tokens: int = 16
    fill_output_tokens: int = 1024
    prefill_prompt_tokens: int = 1500
    prefill_after_s: float = 0.2
    stream_chunks: int = 8
    fresh_prompt_tokens: int = 8
    fresh_output_tokens: int = 4
    give_up_s: float = 30.0
    frees_within_s: float = 1.0


class RetryStorm(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="retry_storm"):
    """Open load beyond capacity by clients that try again: at once, then with backoff, full jitter, Retry-After and a
    retry budget. `burst_s` of None is sustained load over `load_s`, else a burst at the beginning of it."""

    capacity_per_s: float | None = None
    measure_s: float = 10.0
    measure_clients: int = 8
    times_capacity: float = 2.0
    load_s: float = 20.0
    burst_s: float | None = None
    calm_s: float = 10.0
    most_in_flight: int = 256
    tries: int = 5
    backoff_base_s: float = 0.5
    backoff_most_s: float = 20.0
    budget_share: float = 0.10
    client_timeout_s: float = 10.0
    least_requests: int = 20


class LimitsProbe(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="limits"):
    """What is answered to a prompt beyond the context, to more output than fits, to no credentials, and to
    `rate_requests` small requests of one client, one after the other within at most `rate_s`.

    `context_tokens` of None: not known, so oversized lengths are not asked for. `over` is how much more is asked.
    """

    context_tokens: int | None = None
    over: float = 1.25
    small_prompt_tokens: int = 8
    small_output_tokens: int = 2
    without_credentials: bool = True
    rate_requests: int = 40
    rate_s: float = 10.0


class Recovery(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="recovery"):
    """Light load for `before_s`, then trouble, then light load until latency is back, at most `after_s`.

    `after` is what the trouble is: `overload` (`storm_clients` at once for `storm_s`), `cancel_storm` (as many that leave
    after `leave_after_s`, again and again), or `restart`, which somebody else does within the first `storm_s`. Latency is
    back once `steady` requests in a row are within `back_within` of the p95 before.
    """

    after: str = "overload"
    before_s: float = 10.0
    storm_clients: int = 32
    storm_s: float = 10.0
    leave_after_s: float = 0.3
    after_s: float = 60.0
    least_requests: int = 20
    steady: int = 5
    back_within: float = 1.5
    reading_within: float = 1.1


class Idle(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="idle"):
    """No load for `idle_s`: what power, memory and temperature are then. Steady is a reading whose second half is within
    `steady_within` of its first."""

    idle_s: float = 60.0
    least_readings: int = 5
    steady_within: float = 0.10


Probe = Fairness | Overload | Cancellation | RetryStorm | LimitsProbe | Recovery | Idle


def name_of(probe: Probe) -> str:
    """As in the plan's JSON, in a cell's `probe` and in a verdict."""
    return str(probe.__struct_config__.tag)


def named(name: str) -> Probe:
    """With its defaults. Raises KeyError."""
    return BY_NAME[name]()


BY_NAME: dict[str, type[Probe]] = {
    "fairness": Fairness,
    "overload": Overload,
    "cancellation": Cancellation,
    "retry_storm": RetryStorm,
    "limits": LimitsProbe,
    "recovery": Recovery,
    "idle": Idle,
}
