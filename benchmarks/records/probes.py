"""Behaviour probes as a grid keeps them: plain JSON in its row, what each may send at most, and the words for people.

Pure. A grid's probes run after its load, each once, in the order of `ORDER`; two of one kind are told apart by the
number of their cell's repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import msgspec

from benchmarks.engine.probe_plan import (
    BY_NAME,
    Cancellation,
    Fairness,
    Idle,
    LimitsProbe,
    Overload,
    Probe,
    Recovery,
    RetryStorm,
    for_endpoint,
    longest_s,
    name_of,
)
from benchmarks.engine.verdicts import NOT_JUDGED, ProbeVerdict

ORDER = tuple(BY_NAME)
MOST_PER_S = 100
"""Requests a second for each in flight: what a ceiling reckons with where the runtime's speed decides."""
BETWEEN_S = 1.0
DISTURBED = ("overload", "cancel_storm")
"""What recovery may follow; a restart needs somebody who does it, which no page can promise."""


class ProbeWords(msgspec.Struct, frozen=True, kw_only=True):
    """`does` is what it sends and sees, `question` what its verdict answers."""

    name: str
    question: str
    does: str


WORDS: dict[str, ProbeWords] = {
    "fairness": ProbeWords(
        name="Fairness",
        question="Do short requests keep their time beside long ones?",
        does="Sends short requests alone, then beside long ones, and compares their p95.",
    ),
    "overload": ProbeWords(
        name="Overload",
        question="What happens beyond capacity: a clear refusal, or a queue without bound?",
        does="Sends more than the runtime can do, on purpose, then waits until it has recovered.",
    ),
    "cancellation": ProbeWords(
        name="Cancellation",
        question="How soon is a slot free when its client leaves?",
        does="Fills all slots and leaves while waiting, during prefill and in mid-stream.",
    ),
    "retry_storm": ProbeWords(
        name="Retry storm",
        question="How many attempts does a request cost when clients try again?",
        does="Sends more than capacity twice: with immediate retries, then with backoff and a retry budget.",
    ),
    "limits": ProbeWords(
        name="Limits",
        question="Is what cannot be served refused by name?",
        does="Asks for too long a prompt, too long an answer, without credentials, and often.",
    ),
    "recovery": ProbeWords(
        name="Recovery",
        question="How soon is latency back after trouble?",
        does="Makes trouble for a moment, then sends light load until latency is what it was.",
    ),
    "idle": ProbeWords(
        name="Idle",
        question="What do power, memory and temperature read without load?",
        does="Sends nothing and reads the host.",
    ),
}


TONES: dict[str, str] = {
    "fair": "ok", "watch": "warn", "unfair": "bad",
    "refused_clearly": "ok", "refused_without_retry_after": "warn", "refused_late": "warn",
    "queues_without_bound": "bad", "fails": "bad", "kept_up": "info",
    "frees_in_time": "ok", "frees_late": "warn", "never_frees": "bad",
    "contained": "ok", "amplifies": "bad",
    "refuses_clearly": "ok", "refuses_partly": "warn", "accepts_everything": "bad",
    "recovers": "ok", "does_not_recover": "bad", "not_disturbed": "info",
    "steady": "ok", "moving": "warn",
    NOT_JUDGED: "idle",
}  # fmt: skip
"""How a verdict is coloured; the word always stands beside it."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe may come to at most: requests and attempts, in flight at once, tokens of the largest, seconds.

    `largest_tokens` of 0: its requests are of the workload's own classes.
    """

    requests: int
    in_flight: int
    seconds: float
    largest_tokens: int = 0

    def tokens(self, of_workload: int) -> int:
        """All of them together, where `of_workload` are those of the workload's largest request."""
        return self.requests * (self.largest_tokens or of_workload)


def read(kept: Sequence[Mapping[str, object]]) -> tuple[Probe, ...]:
    """The probes that a row keeps. Raises ValueError with a sentence where one is none."""
    try:
        return tuple(msgspec.convert(list(kept), list[Probe]))
    except msgspec.ValidationError as error:
        raise ValueError(f"These are not behaviour probes: {error}.") from error


def plain(probes: Sequence[Probe]) -> list[dict[str, object]]:
    """The JSON form in running order, every parameter written out, so that a digest covers what a default was."""
    wanted = sorted(probes, key=lambda probe: ORDER.index(name_of(probe)))
    found: list[dict[str, object]] = msgspec.to_builtins(wanted)
    return found


def numbered(kept: Sequence[Mapping[str, object]]) -> list[tuple[str, int]]:
    """(kind, number among its kind) of each probe, in running order: what its cell is known by."""
    kinds = [str(one.get("kind")) for one in kept]
    return [(kind, kinds[: place + 1].count(kind)) for place, kind in enumerate(kinds)]


def verdict_json(verdict: ProbeVerdict) -> dict[str, object]:
    """As a cell keeps it. JSON has no infinity and no NaN; a verdict's figures have None for both."""
    plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(verdict))
    return plain


def probe_of(kept: Sequence[Mapping[str, object]], kind: str, number: int) -> Probe:
    """The probe of a cell. Raises ValueError where the row has none such."""
    for probe, known_by in zip(read(kept), numbered(kept), strict=True):
        if known_by == (kind, number):
            return probe
    raise ValueError(f"The grid has no behaviour probe {kind} {number}.")


def with_facts(probe: Probe, *, slots: int | None, context_tokens: int | None) -> Probe:
    """With what is registered of the runtime, where the probe was not told otherwise. A capacity is measured by as many
    clients as there are slots at the least."""
    match probe:
        case Overload(capacity_per_s=None) | RetryStorm(capacity_per_s=None):
            return msgspec.structs.replace(probe, measure_clients=max(probe.measure_clients, slots or 0))
        case _:
            return for_endpoint(probe, slots=slots, context_tokens=context_tokens)


def cost(probe: Probe, setting: int) -> Cost:
    """At a setting of so many slots, where the runtime's own number of them is not known."""
    lasts_s = longest_s(probe)
    match probe:
        case Fairness():
            clients = probe.short_clients + probe.long_clients
            return Cost(requests=_closed(clients, lasts_s), in_flight=clients, seconds=lasts_s)
        case Overload():
            rate = _capacity(probe)
            sent = rate * (
                probe.times_capacity * probe.overload_s + probe.calm_share * (probe.calm_s + probe.recovery_s)
            )
            return Cost(requests=_measured(probe) + ceil(sent), in_flight=_open_most(probe), seconds=lasts_s)
        case RetryStorm():
            # Of the first storm every request as often as it may be tried, of the second once and the budget's share.
            due = probe.times_capacity * probe.storm_s + probe.calm_share * (probe.calm_s + probe.recovery_s)
            sent = _capacity(probe) * due * (probe.tries + 1 + probe.budget_share)
            return Cost(requests=_measured(probe) + ceil(sent), in_flight=_open_most(probe), seconds=lasts_s)
        case Cancellation():
            return _cancellation(probe, probe.slots or setting)
        case LimitsProbe():
            largest = (
                ceil((probe.context_tokens or 0) * probe.over) + probe.small_prompt_tokens + probe.small_output_tokens
            )
            return Cost(requests=probe.rate_requests + 10, in_flight=1, seconds=lasts_s, largest_tokens=largest)
        case Recovery():
            storm, light_s = _closed(probe.storm_clients, probe.storm_s), lasts_s - probe.storm_s
            largest = max(
                probe.light_prompt_tokens + probe.light_output_tokens,
                probe.storm_prompt_tokens + probe.storm_output_tokens,
            )
            return Cost(
                requests=storm + ceil(light_s / probe.light_every_s), in_flight=probe.storm_clients + 1, seconds=lasts_s,
                largest_tokens=largest,
            )  # fmt: skip
        case Idle():
            return Cost(requests=0, in_flight=0, seconds=lasts_s)


def costs(kept: Sequence[Mapping[str, object]], setting: int) -> list[Cost]:
    return [cost(probe, setting) for probe in read(kept)]


def seconds(kept: Sequence[Mapping[str, object]], wanted: Sequence[str] | None = None) -> float:
    """How long the probes take at most, with the moments between them; only the kinds that are `wanted`, if told."""
    probes = [probe for probe in read(kept) if wanted is None or name_of(probe) in wanted]
    return sum(cost(probe, 1).seconds + BETWEEN_S for probe in probes)


def fault(probes: Sequence[Probe], most_in_flight: int) -> str | None:
    """What is wrong with probes that cannot be drawn, in a sentence."""
    for probe in probes:
        name = WORDS[name_of(probe)].name
        asked = cost(probe, 1)
        if not 0 < asked.seconds <= 3600:
            return f"{name}: it would take {asked.seconds:,.0f} s. Choose times that come to an hour at most."
        if asked.in_flight > most_in_flight:
            return f"{name}: at most {most_in_flight:,} in flight can be asked for."
        if isinstance(probe, Overload | RetryStorm) and probe.times_capacity <= 1:
            return f"{name}: {probe.times_capacity:g} times the capacity is not beyond it. Choose more than 1."
    return None


def _capacity(probe: Overload | RetryStorm) -> float:
    """Requests a second, at most, where it is measured first."""
    return probe.capacity_per_s if probe.capacity_per_s is not None else float(probe.measure_clients * MOST_PER_S)


def _measured(probe: Overload | RetryStorm) -> int:
    """Requests of measuring the capacity first."""
    return 0 if probe.capacity_per_s is not None else _closed(probe.measure_clients, probe.measure_s)


def _open_most(probe: Overload | RetryStorm) -> int:
    return max(probe.most_in_flight, probe.measure_clients)


def _closed(clients: int, lasts_s: float) -> int:
    return ceil(clients * MOST_PER_S * lasts_s)


def _cancellation(probe: Cancellation, slots: int) -> Cost:
    """Three moments of leaving: each try fills the slots, has one that waits and one that comes after, and asks each slot
    once more to see that all of them are free."""
    tries = 3 * probe.tries
    largest = max(probe.fill_prompt_tokens, probe.prefill_prompt_tokens) + probe.fill_output_tokens
    return Cost(
        requests=tries * (2 * slots + 2), in_flight=slots + 2, seconds=longest_s(probe), largest_tokens=largest
    )  # fmt: skip
