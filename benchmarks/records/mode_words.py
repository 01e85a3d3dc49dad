"""What people are told of the ways a grid offers load: names, definitions, and what is wrong with terms that cannot run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks.records.modes import (
    ArrivalKind,
    MicroTerms,
    Mode,
    OpenTerms,
    SearchTerms,
    StaticTerms,
    Terms,
    in_flight,
)

MOST_IN_FLIGHT = 4096
MOST_PER_MIN = 60_000
MOST_ITEMS = 1_000_000
MOST_PROCESSES = 64

ARRIVAL_WORDS = {
    ArrivalKind.CONSTANT: "Constant: one after the same time each",
    ArrivalKind.POISSON: "Poisson: independent of each other",
    ArrivalKind.GAMMA: "Gamma: in bursts, or more even than Poisson",
    ArrivalKind.STEPS: "Steps: Poisson, with a rate that changes",
    ArrivalKind.REPLAY: "Replayed: the arrivals of the workload's trace",
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
        definition="Requests, or conversations, that begin in a minute, whether or not earlier ones have ended.",
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


def stage_words(mode: str, setting: int) -> str:
    """One setting as a stage that is still to run: "4 offered", "batches of 4"."""
    return f"{setting:,} offered" if Mode(mode) in (Mode.CLOSED, Mode.SEARCH) else setting_words(mode, setting)


def in_words(terms: Terms) -> str:
    """The terms beside the settings, as one phrase; empty for a plain closed loop."""
    match terms:
        case OpenTerms(max_in_flight=most):
            parts = [_arrival_words(terms), f"at most {most:,} in flight"]
        case MicroTerms():
            parts = [
                f"{terms.arrivals_per_min:,} items a minute, {_arrival_words(terms)}",
                f"gathered for at most {terms.max_wait_ms:g} ms",
                f"at most {terms.max_batches:,} requests in flight",
            ]
        case StaticTerms():
            beside = "one batch at a time" if terms.beside == 1 else f"{terms.beside:,} batches beside each other"
            parts = [f"{terms.items:,} items", beside, f"at most {terms.tries:,} tries each"]
        case SearchTerms():
            parts = [f"at most {terms.most_cells:,} cells"]
        case _:
            parts = []
    if not isinstance(terms, StaticTerms) and terms.processes > 1:
        parts.append(f"{terms.processes} generator processes")
    return ", ".join(parts)


def fault(terms: Terms, settings: Sequence[int]) -> str | None:
    """What is wrong with the terms or settings, as a sentence; None when nothing is."""
    if not settings or min(settings) < 1:
        return "Give at least one setting, each 1 or more."
    if not isinstance(terms, StaticTerms) and not 1 <= terms.processes <= MOST_PROCESSES:
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


def _arrival_words(terms: OpenTerms | MicroTerms) -> str:
    match terms.arrivals:
        case ArrivalKind.GAMMA:
            return f"gamma arrivals with burstiness {terms.burstiness:g}"
        case ArrivalKind.STEPS:
            steps = ", ".join(f"{seconds:g} s × {times:g}" for seconds, times in terms.steps)
            return f"Poisson arrivals in steps ({steps})"
        case ArrivalKind.REPLAY:
            return "arrivals of the workload's trace"
        case kind:
            return f"{'constant' if kind == ArrivalKind.CONSTANT else 'Poisson'} arrivals"
