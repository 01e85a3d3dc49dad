"""The ways a grid offers load: what its settings mean in each, what it needs besides, and how much can be in flight.

Three batching modes (continuous, application micro-batching, static) make five ways, since continuous batching is loaded
in a closed loop, in an open loop, or by a search for the highest offered concurrency that holds.

Pure: terms are kept in a row as plain JSON. Rates of settings are a minute, as people plan; the engine's are a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from benchmarks.engine.load import (
    Arrivals,
    Closed,
    Constant,
    Gamma,
    Load,
    MicroBatch,
    OpenLoop,
    Poisson,
    Replay,
    StaticBatch,
    Steps,
)

MOST_IN_FLIGHT = 4096
MOST_PER_MIN = 60_000
MOST_ITEMS = 1_000_000
MOST_PROCESSES = 64
LIST_DIALECTS = ("openai_completions", "openai_embeddings")
"""Dialects in which one request can carry several items."""


class Mode(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    MICRO = "micro"
    STATIC = "static"
    SEARCH = "search"


class ArrivalKind(StrEnum):
    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"
    STEPS = "steps"
    REPLAY = "replay"


ARRIVAL_WORDS = {
    ArrivalKind.CONSTANT: "Constant: one after the same time each",
    ArrivalKind.POISSON: "Poisson: independent of each other",
    ArrivalKind.GAMMA: "Gamma: in bursts, or more even than Poisson",
    ArrivalKind.STEPS: "Steps: Poisson, with a rate that changes",
    ArrivalKind.REPLAY: "Replayed: the arrivals of the workload's trace",
}


class ClosedTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`processes`: generator processes that share the load."""

    processes: int = 1


class OpenTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`steps` are (seconds, times the setting's rate); `max_in_flight` bounds what the client has open at once."""

    arrivals: ArrivalKind = ArrivalKind.POISSON
    burstiness: float = 1.0
    steps: tuple[tuple[float, float], ...] = ()
    max_in_flight: int = 64
    processes: int = 1


class MicroTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`max_batches` requests are in flight at most, each of as many items as the setting says."""

    arrivals: ArrivalKind = ArrivalKind.POISSON
    burstiness: float = 1.0
    steps: tuple[tuple[float, float], ...] = ()
    arrivals_per_min: int = 600
    max_wait_ms: float = 20.0
    max_batches: int = 2
    processes: int = 1


class StaticTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`beside` batches run at a time; a failed item is tried `tries` times in all."""

    items: int = 200
    beside: int = 1
    tries: int = 3
    processes: int = 1


class SearchTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`most_cells` is the budget: a search that needs more answers *indeterminate*."""

    most_cells: int = 24
    processes: int = 1


Terms = ClosedTerms | OpenTerms | MicroTerms | StaticTerms | SearchTerms
_KINDS: dict[Mode, type[Terms]] = {
    Mode.CLOSED: ClosedTerms,
    Mode.OPEN: OpenTerms,
    Mode.MICRO: MicroTerms,
    Mode.STATIC: StaticTerms,
    Mode.SEARCH: SearchTerms,
}


class ModeWords(msgspec.Struct, frozen=True, kw_only=True):
    """How people are told of a mode. `setting` names what a setting means, `short` is that for a table's head."""

    name: str
    batching: str
    sentence: str
    setting: str
    short: str
    definition: str
    judged_by: str
    symbol: str


WORDS: dict[Mode, ModeWords] = {
    Mode.CLOSED: ModeWords(
        name="Continuous, closed loop",
        batching="continuous",
        sentence="A fixed number of requests is kept in flight; the next starts when one ends. Compares settings.",
        setting="Offered concurrency",
        short="In flight",
        definition="Requests the client keeps in flight. It is not a batch size and not a number of people.",
        judged_by="Latency objectives and successful requests a minute",
        symbol="c",
    ),
    Mode.OPEN: ModeWords(
        name="Continuous, open loop",
        batching="continuous",
        sentence="Requests are due at times of their own, whatever the server does, as in production. What cannot be "
        "sent in time is kept as debt, never skipped.",
        setting="Arrivals a minute",
        short="Arrivals a minute",
        definition="Requests that become due in a minute, whether or not earlier ones have ended.",
        judged_by="Latency objectives from the planned start, and successful requests a minute",
        symbol="a",
    ),
    Mode.MICRO: ModeWords(
        name="Application micro-batching",
        batching="micro",
        sentence="The client gathers items into one request until it has enough or has waited long enough, whichever "
        "comes first; at low traffic it sends at once. The wait is charged to each item.",
        setting="Items a request, at most",
        short="Items a request",
        definition="Items that the client gathers into one request at most. The runtime may batch them as it likes.",
        judged_by="The wait that gathering adds, and the time of each item from its arrival",
        symbol="m",
    ),
    Mode.STATIC: ModeWords(
        name="Static batch, offline",
        batching="static",
        sentence="A known set of items, a batch at a time: the next batch starts when every item of the last has ended. "
        "After an interruption it goes on where it ended.",
        setting="Batch size",
        short="Batch size",
        definition="Items that the client starts together; the next batch waits for the slowest of them.",
        judged_by="Completion inside the window: items done, time for all, items a second",
        symbol="b",
    ),
    Mode.SEARCH: ModeWords(
        name="Capacity search, closed loop",
        batching="continuous",
        sentence="Doubles the offered concurrency, then narrows down to the highest that holds, and confirms it and the "
        "one above. Without enough cells the answer is “indeterminate”.",
        setting="Offered concurrency",
        short="In flight",
        definition="Requests the client keeps in flight: the lowest setting is where the search starts, the highest where "
        "it must end.",
        judged_by="The share of all scheduled requests that are successful, valid and inside every limit",
        symbol="c",
    ),
}


def terms_of(mode: str, kept: Mapping[str, object]) -> Terms:
    """The terms that a row keeps as plain JSON. Raises ValueError with a sentence where they are none of this mode's."""
    try:
        terms: Terms = msgspec.convert(dict(kept), _KINDS[Mode(mode)])
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"These are not terms of a grid: {error}.") from error
    return terms


def mode_of(terms: Terms) -> Mode:
    return next(mode for mode, kind in _KINDS.items() if isinstance(terms, kind))


def plain(terms: Terms) -> dict[str, object]:
    """The JSON form. The defaults of a closed loop are kept as nothing, so that grids of before read the same."""
    kept: dict[str, object] = {} if terms == ClosedTerms() else msgspec.to_builtins(terms)
    return kept


def setting_words(mode: str, setting: int) -> str:
    """One setting in words: "4 in flight", "batches of 4"."""
    match Mode(mode):
        case Mode.OPEN:
            return f"{setting:,} arrivals a minute"
        case Mode.MICRO:
            return f"at most {setting:,} items a request"
        case Mode.STATIC:
            return f"batches of {setting:,}"
        case _:
            return f"{setting:,} in flight"


def in_flight(terms: Terms, setting: int) -> int:
    """Requests or items that a cell can have in flight at once: what the authorisation's ceiling is compared with."""
    match terms:
        case OpenTerms(max_in_flight=most):
            return most
        case MicroTerms(max_batches=most):
            return most * setting
        case StaticTerms(beside=beside):
            return beside * setting
        case _:
            return setting


def offered_concurrency(terms: Terms, setting: int) -> int:
    """What the engine's plan calls so: requests, or batches where items travel together."""
    match terms:
        case OpenTerms(max_in_flight=most):
            return most
        case MicroTerms(max_batches=most):
            return most
        case StaticTerms(beside=beside):
            return beside
        case _:
            return setting


def requests_of(terms: Terms, setting: int, seconds: float) -> float | None:
    """Requests or items that a cell of so many seconds starts; None where the server's speed decides that."""
    match terms:
        case OpenTerms():
            return setting / 60 * _steps_total(terms, seconds)
        case MicroTerms(arrivals_per_min=rate):
            return rate / 60 * _steps_total(terms, seconds)
        case StaticTerms(items=items):
            return float(items)
        case _:
            return None


def load_of(terms: Terms, setting: int, *, trace_offsets_s: Sequence[float] = ()) -> Load:
    """The engine's load of one cell. Raises ValueError where a replay is asked for and no trace is there."""
    match terms:
        case OpenTerms():
            return OpenLoop(arrivals=_arrivals(terms, setting / 60, trace_offsets_s))
        case MicroTerms():
            arrivals = _arrivals(terms, terms.arrivals_per_min / 60, trace_offsets_s)
            return MicroBatch(arrivals=arrivals, max_items=setting, max_wait_ms=terms.max_wait_ms)
        case StaticTerms():
            return StaticBatch(items=terms.items, batch_size=setting, tries=terms.tries)
        case _:
            return Closed()


def fault(terms: Terms, settings: Sequence[int]) -> str | None:
    """What is wrong with the terms or settings, as a sentence; None when nothing is."""
    if not settings or min(settings) < 1:
        return "Give at least one setting, each 1 or more."
    if not 1 <= terms.processes <= MOST_PROCESSES:
        return f"Between 1 and {MOST_PROCESSES} generator processes."
    wrong = _fault_of_kind(terms, settings)
    if wrong:
        return wrong
    most = max(in_flight(terms, setting) for setting in settings)
    return None if most <= MOST_IN_FLIGHT else f"{most:,} would be in flight at once; the most is {MOST_IN_FLIGHT:,}."


def _fault_of_kind(terms: Terms, settings: Sequence[int]) -> str | None:
    match terms:
        case OpenTerms():
            if max(settings) > MOST_PER_MIN:
                return f"At most {MOST_PER_MIN:,} arrivals a minute."
            return _below_one("in flight", terms.max_in_flight) or _arrivals_fault(terms)
        case MicroTerms():
            if not 1 <= terms.arrivals_per_min <= MOST_PER_MIN:
                return f"Between 1 and {MOST_PER_MIN:,} arrivals a minute."
            if not 0 <= terms.max_wait_ms <= 60_000:
                return "The client waits between 0 and 60,000 ms."
            return _below_one("requests in flight", terms.max_batches) or _arrivals_fault(terms)
        case StaticTerms():
            if not 1 <= terms.items <= MOST_ITEMS:
                return f"Between 1 and {MOST_ITEMS:,} items."
            return _below_one("batches", terms.beside) or _below_one("tries", terms.tries)
        case SearchTerms():
            return _below_one("cells", terms.most_cells)
        case _:
            return None


def _below_one(what: str, value: int) -> str | None:
    return None if value >= 1 else f"At least 1 of these: {what}."


def _arrivals_fault(terms: OpenTerms | MicroTerms) -> str | None:
    if terms.arrivals == ArrivalKind.GAMMA and not 0.01 <= terms.burstiness <= 100:
        return "Burstiness is between 0.01 and 100; 1 is Poisson, below 1 comes in bursts."
    if terms.arrivals == ArrivalKind.STEPS and not terms.steps:
        return "Steps need at least one: seconds × times the rate, such as 30 × 1, 10 × 3."
    if any(seconds <= 0 or times < 0 for seconds, times in terms.steps):
        return "A step has more than 0 seconds, and 0 or more times the rate."
    return None


def _arrivals(terms: OpenTerms | MicroTerms, rate_per_s: float, trace_offsets_s: Sequence[float]) -> Arrivals:
    match terms.arrivals:
        case ArrivalKind.CONSTANT:
            return Constant(rate_per_s)
        case ArrivalKind.GAMMA:
            return Gamma(rate_per_s, terms.burstiness)
        case ArrivalKind.STEPS:
            return Steps(tuple((seconds, times * rate_per_s) for seconds, times in terms.steps))
        case ArrivalKind.REPLAY:
            return Replay(_at_rate(trace_offsets_s, rate_per_s))
        case _:
            return Poisson(rate_per_s)


def _at_rate(offsets_s: Sequence[float], rate_per_s: float) -> tuple[float, ...]:
    """A trace stretched or pressed together so that its mean rate is the asked one; its shape stays."""
    if len(offsets_s) < 2 or offsets_s[-1] <= offsets_s[0]:
        raise ValueError("the workload keeps no trace of arrivals that could be replayed")
    first, span_s = offsets_s[0], offsets_s[-1] - offsets_s[0]
    factor = (len(offsets_s) - 1) / rate_per_s / span_s
    return tuple((offset - first) * factor for offset in offsets_s)


def _steps_total(terms: OpenTerms | MicroTerms, seconds: float) -> float:
    """Seconds at the plain rate that bring as many arrivals as these steps do; the last step stays to the end."""
    if terms.arrivals != ArrivalKind.STEPS or not terms.steps:
        return seconds
    left, total = seconds, 0.0
    for number, (length_s, times) in enumerate(terms.steps):
        share = left if number == len(terms.steps) - 1 else min(left, length_s)
        total += share * times
        left -= share
    return total
