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
    """`beside` batches run at a time; a failed item is tried `tries` times in all. One ledger, so one process."""

    items: int = 200
    beside: int = 1
    tries: int = 3


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


def connections(terms: Terms, setting: int) -> int:
    """What the client has open at once: items that travel together share one."""
    return in_flight(terms, setting) if isinstance(terms, StaticTerms) else offered_concurrency(terms, setting)


def processes(terms: Terms, setting: int) -> int:
    """Generator processes of a cell: no more than it has requests in flight, and one for a ledger."""
    if isinstance(terms, StaticTerms):
        return 1
    return min(terms.processes, offered_concurrency(terms, setting))


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


def most_requests(terms: Terms, setting: int, seconds: float) -> float:
    """Requests that a cell may come to send at most: for the ceiling that an authorisation is offered."""
    match terms:
        case StaticTerms(items=items, tries=tries):
            return float(items * tries)
        case OpenTerms() | MicroTerms():
            return 1.5 * (requests_of(terms, setting, seconds) or 0.0) + 100
        case _:
            return setting * seconds * 100  # 100 a second for each in flight


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
