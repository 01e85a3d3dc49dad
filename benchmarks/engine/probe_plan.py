"""What a behaviour probe does, as plain data in a cell's plan: one struct per probe. Lengths are tokens, times seconds.

Defaults keep a probe under two minutes on a runtime that answers a short request within seconds; limits by which a
verdict is given are parameters too, so that they are printed beside it.
"""

from __future__ import annotations

import math

import msgspec

MOST_TRIES = 100
TEMPLATE_TOKENS = 64  # that a chat template adds to a prompt, at most
MEASURED_STRETCH = 3.0
"""So many times as long as stated a capacity is measured at most, where fewer answers than wanted have come."""


class Fairness(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="fairness"):
    """Short requests alone for `alone_s`, then beside long ones for `beside_s`, both in closed loops; longer, up to
    `stretch` times, where `least_requests` have not ended by then.

    An empty class name takes the plan's class with the fewest, or the most, tokens. `short_weight` and `long_weight` are
    what a client of each kind is entitled to, against each other; service is counted in tokens, one of a prompt as
    `prompt_token_weight` of one of an answer. Fair is a ratio of the p95 up to `fair_ratio`, unfair one above
    `unfair_ratio`.
    """

    short_class: str = ""
    long_class: str = ""
    short_clients: int = 1
    long_clients: int = 2
    short_weight: float = 1.0
    long_weight: float = 1.0
    prompt_token_weight: float = 0.5
    warm_requests: int = 2
    alone_s: float = 20.0
    beside_s: float = 30.0
    stretch: float = 3.0
    least_requests: int = 20
    fair_ratio: float = 2.0
    unfair_ratio: float = 5.0


class Overload(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="overload"):
    """Light load for `calm_s`, then an open loop at `times_capacity` of what the runtime does, for `overload_s`, then
    light load until it has recovered, at most `recovery_s`. Light is `calm_share` of the capacity.

    A `capacity_per_s` of None is measured first, for `measure_s` with `measure_clients`: enough to fill the runtime, or
    what is measured is not its capacity. At most `most_in_flight` requests are with the server or on their way: a longer
    queue cannot be seen. A refusal is clear up to `refuse_within_s`. Back is as in `Recovery`.
    """

    capacity_per_s: float | None = None
    measure_s: float = 10.0
    measure_clients: int = 8
    times_capacity: float = 1.5
    overload_s: float = 20.0
    calm_share: float = 0.25
    calm_s: float = 10.0
    recovery_s: float = 60.0
    most_in_flight: int = 256
    refuse_within_s: float = 1.0
    least_requests: int = 20
    steady: int = 5
    back_within: float = 1.5

    def __post_init__(self) -> None:
        _check_storm(self)

    @property
    def storm_s(self) -> float:
        return self.overload_s


class Cancellation(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="cancellation"):
    """Fills all `slots`, lets another request wait, and leaves: the waiting one, one during its prefill, one in mid-stream.

    `slots` of None: not known, so it cannot be judged. Each of them is tried `tries` times. The requests that fill the
    slots must outlast a try. A leave during prefill comes `prefill_after_s` after the request was sent, one in mid-stream
    after `stream_chunks` chunks of text; between leaving as a waiting one and the next free slot pass `queue_s`. What is
    not freed within `give_up_s` is told as so. `frees_within_s` is the limit of the verdict.
    """

    slots: int | None = None
    tries: int = 3
    fill_prompt_tokens: int = 16
    fill_output_tokens: int = 1024
    prefill_prompt_tokens: int = 1500
    prefill_after_s: float = 0.2
    queue_s: float = 0.5
    fill_within_s: float = 30.0
    stream_chunks: int = 8
    fresh_prompt_tokens: int = 8
    fresh_output_tokens: int = 4
    give_up_s: float = 30.0
    frees_within_s: float = 1.0


class RetryStorm(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="retry_storm"):
    """The load of `Overload` by clients that try again, `tries` times in all: at once, then, with the same arrivals, with
    backoff, full jitter, Retry-After and a retry budget of `budget_share` of the requests.

    The storm lasts `load_s`, or `burst_s` where it is a burst. A client that has seen no text after `client_timeout_s`
    gives up that attempt. A storm is contained with fewer than `contained_below` attempts per request.
    """

    capacity_per_s: float | None = None
    measure_s: float = 10.0
    measure_clients: int = 8
    times_capacity: float = 2.0
    load_s: float = 20.0
    burst_s: float | None = None
    calm_share: float = 0.25
    calm_s: float = 10.0
    recovery_s: float = 30.0
    most_in_flight: int = 256
    tries: int = 5
    backoff_base_s: float = 0.5
    backoff_most_s: float = 20.0
    budget_share: float = 0.10
    client_timeout_s: float = 10.0
    contained_below: float = 1.2
    least_requests: int = 20
    steady: int = 5
    back_within: float = 1.5

    def __post_init__(self) -> None:
        _check_storm(self)
        if not 1 <= self.tries <= MOST_TRIES:
            raise ValueError(f"tries must be 1 to {MOST_TRIES}, not {self.tries}")

    @property
    def storm_s(self) -> float:
        return self.load_s if self.burst_s is None else self.burst_s


class LimitsProbe(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="limits"):
    """What is answered to a prompt beyond the context, to more output than fits, to no credentials, and to
    `rate_requests` small requests of one client, one after the other within at most `rate_s`.

    `context_tokens` of None: not known, so oversized lengths are not asked for. `over` is how much more is asked.
    `accepted_chunks`: an oversized answer is left once so many chunks of text have come.
    """

    context_tokens: int | None = None
    over: float = 1.25
    small_prompt_tokens: int = 8
    small_output_tokens: int = 2
    accepted_chunks: int = 5
    without_credentials: bool = True
    rate_requests: int = 40
    rate_s: float = 10.0


class Recovery(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="recovery"):
    """Light load for `before_s`, then trouble, then light load until latency is back, at most `after_s`.

    `after` is what the trouble is: `overload` (`storm_clients` at once for `storm_s`), `cancel_storm` (as many that leave
    after `leave_after_s`, again and again), or `restart`, which somebody else does within `storm_s`. Latency is back once
    `steady` requests in a row are within `back_within` times the p95 before; a reading once it is within
    `reading_within` times its mean before, for which it is watched `least_after_s` at the least.
    """

    after: str = "overload"
    light_prompt_tokens: int = 16
    light_output_tokens: int = 16
    light_every_s: float = 0.1
    before_s: float = 10.0
    stretch: float = 3.0
    storm_prompt_tokens: int = 64
    storm_output_tokens: int = 64
    storm_clients: int = 32
    storm_s: float = 10.0
    leave_after_s: float = 0.3
    least_after_s: float = 10.0
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


def _check_storm(probe: Overload | RetryStorm) -> None:
    """Raises ValueError where a number cannot be: loads and times are above zero, all else is not below."""
    numbers: dict[str, object] = {name: getattr(probe, name) for name in probe.__struct_fields__}
    above = {
        "capacity_per_s", "times_capacity", "measure_s", "measure_clients", "overload_s", "load_s", "burst_s",
        "most_in_flight", "steady", "client_timeout_s",
    }  # fmt: skip
    for name, value in numbers.items():
        if not isinstance(value, int | float) or (0 < value < math.inf) or (value == 0 and name not in above):
            continue
        raise ValueError(f"{name} must be {'above 0' if name in above else '0 or more'}, not {value:g}")


def for_endpoint(probe: Probe, *, slots: int | None, context_tokens: int | None) -> Probe:
    """With what is known of the runtime, where the probe was not told otherwise: how many requests it runs at once, and
    how many tokens one may have. Lengths that would not fit are made to: a made-up word may be two tokens of its
    tokeniser."""
    if isinstance(probe, LimitsProbe):
        known = context_tokens if probe.context_tokens is None else probe.context_tokens
        return msgspec.structs.replace(probe, context_tokens=known)
    if not isinstance(probe, Cancellation):
        return probe
    probe = msgspec.structs.replace(probe, slots=slots if probe.slots is None else probe.slots)
    if context_tokens is None:
        return probe
    room = context_tokens - TEMPLATE_TOKENS
    prompt = min(probe.prefill_prompt_tokens, max(1, 3 * room // 8))
    longest = max(1, room - 2 * max(prompt, probe.fill_prompt_tokens))
    return msgspec.structs.replace(
        probe, prefill_prompt_tokens=prompt, fill_output_tokens=min(probe.fill_output_tokens, longest)
    )


def name_of(probe: Probe) -> str:
    """As in the plan's JSON, in a cell's `probe` and in a verdict."""
    return str(probe.__struct_config__.tag)


def longest_s(probe: Probe) -> float:
    """About the longest that it offers load or watches, in seconds, without the answers it then waits for."""
    match probe:
        case Fairness():
            return (probe.alone_s + probe.beside_s) * probe.stretch
        case Overload():
            return _measured_s(probe) + probe.calm_s + probe.overload_s + probe.recovery_s
        case Cancellation():
            return 3 * probe.tries * (probe.fill_within_s + probe.give_up_s)
        case RetryStorm():
            return _measured_s(probe) + 2 * (probe.calm_s + probe.storm_s + probe.recovery_s)
        case LimitsProbe():
            return probe.rate_s
        case Recovery():
            return probe.before_s * probe.stretch + probe.storm_s + probe.after_s
        case Idle():
            return probe.idle_s


def _measured_s(probe: Overload | RetryStorm) -> float:
    """Of measuring the capacity first, where answers are slow."""
    return 0.0 if probe.capacity_per_s is not None else MEASURED_STRETCH * probe.measure_s


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
