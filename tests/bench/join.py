"""A client's times beside the server's, request by request and gap by gap: how far the client's word is from true.

TTFT error = the client's TTFT, counted from its own t_sent, minus the time from the request's arrival to the first
event's send. Gap error = the client's gap minus the server's, of the same pair of content events. Milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.engine import columns, log
from benchmarks.engine.prompts import Workload
from benchmarks.engine.terms import Outcome
from tests.bench.measurements import Measured

Floats = npt.NDArray[np.float64]
NS_PER_MS = 1e6
US_PER_MS = 1e3
PROMPT_BYTES = 64
NOTHING = np.zeros(0, np.float64)


@dataclass(frozen=True)
class Seen:
    """A client's account of the requests it calls successful: TTFT in ms, shape (n,), and the gaps of each.

    `keys` name the requests in words that the truth has too; None where the client names none, and then its TTFTs are
    paired with the true ones by size, which gives a lower bound of the error. `gaps_ms` None: the client tells none.
    """

    keys: tuple[str, ...] | None
    ttft_ms: Floats
    gaps_ms: tuple[Floats, ...] | None


@dataclass(frozen=True)
class Joined:
    """`unmatched` counts requests that only one side tells of, `events_differ` those whose numbers of events differ."""

    requests: int
    unmatched: int
    events_differ: int
    ttft_true_ms: Floats
    ttft_seen_ms: Floats
    ttft_error_ms: Floats
    gap_error_ms: Floats


def join(truth: Measured, seen: Seen, keys: tuple[str, ...]) -> Joined:
    """`keys` are the truth's, in its order. Requests that sent no event have no TTFT and are unmatched."""
    answered = np.flatnonzero(truth.rows["events"])
    first = truth.times_ns[truth.offsets[answered]]
    true_ms = (first - truth.rows["t_request_ns"][answered]) / NS_PER_MS
    if seen.keys is None:
        return _by_size(true_ms, seen)
    place = {keys[row]: i for i, row in enumerate(answered)}
    pairs = [(place[key], i) for i, key in enumerate(seen.keys) if key in place]
    rows, mine = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True)) if pairs else (NO_ROWS, NO_ROWS)
    differ, errors = 0, [NOTHING]
    for row, gaps in _gaps_of(pairs, seen):
        true_gaps = np.diff(truth.times_of(int(answered[row]))) / NS_PER_MS
        if len(true_gaps) == len(gaps):
            errors.append(gaps - true_gaps)
        else:
            differ += 1
    return Joined(
        requests=len(pairs),
        unmatched=len(truth) + len(seen.keys) - 2 * len(pairs),
        events_differ=differ,
        ttft_true_ms=true_ms[rows],
        ttft_seen_ms=seen.ttft_ms[mine],
        ttft_error_ms=seen.ttft_ms[mine] - true_ms[rows],
        gap_error_ms=np.concatenate(errors),
    )


NO_ROWS = np.zeros(0, np.int64)


def _gaps_of(pairs: list[tuple[int, int]], seen: Seen) -> list[tuple[int, Floats]]:
    return [] if seen.gaps_ms is None else [(row, seen.gaps_ms[i]) for row, i in pairs]


def _by_size(true_ms: Floats, seen: Seen) -> Joined:
    """Equal numbers are paired in order of size; otherwise no error can be told, only the two distributions."""
    equal = len(true_ms) == len(seen.ttft_ms)
    return Joined(
        requests=len(seen.ttft_ms),
        unmatched=abs(len(true_ms) - len(seen.ttft_ms)),
        events_differ=0,
        ttft_true_ms=true_ms,
        ttft_seen_ms=seen.ttft_ms,
        ttft_error_ms=np.sort(seen.ttft_ms) - np.sort(true_ms) if equal else NOTHING,
        gap_error_ms=NOTHING,
    )


def quantile(values: Floats, share: float) -> float | None:
    """Linear between order statistics; None of nothing."""
    return float(np.quantile(values, share)) if len(values) else None


def server_late_ms(truth: Measured) -> Floats:
    """How much later than planned each event went out: the server's own limit, which no client is charged with."""
    if not truth.gap_ns or not len(truth.times_ns):
        return NOTHING
    nth = np.arange(len(truth.times_ns)) - np.repeat(truth.offsets[:-1], np.diff(truth.offsets))
    planned = np.repeat(truth.rows["t_planned_ns"], np.diff(truth.offsets)) + truth.gap_ns * nth
    return (truth.times_ns - planned) / NS_PER_MS


def by_connection(truth: Measured) -> tuple[str, ...]:
    """The client's port and the number of the request on that connection, which both C programs write down."""
    return tuple(f"{row['port']}/{row['nth']}" for row in truth.rows)


def by_prompt(truth: Measured) -> tuple[str, ...]:
    """The first bytes of the prompt: the engine's begin with a marker that no other request of its plan has."""
    return tuple(row["prompt"].decode("utf-8", "replace") for row in truth.rows)


def by_answer_id(truth: Measured) -> tuple[str, ...]:
    """The id that the server's chunks carried."""
    return tuple(f"chatcmpl-{row['number']}" for row in truth.rows)


def by_request_id(truth: Measured) -> tuple[str, ...]:
    """The x-request-id that the client sent."""
    return tuple(row["id"].decode() for row in truth.rows)


def seen_by_c(measured: Measured) -> Seen:
    whole = np.flatnonzero(measured.rows["done"] & (measured.rows["events"] > 0))
    first = measured.times_ns[measured.offsets[whole]]
    keys = by_connection(measured)
    return Seen(
        keys=tuple(keys[row] for row in whole),
        ttft_ms=(first - measured.rows["t_request_ns"][whole]) / NS_PER_MS,
        gaps_ms=tuple(np.diff(measured.times_of(int(row))) / NS_PER_MS for row in whole),
    )


def seen_by_engine(path: Path) -> Seen:
    """The engine's own log, its ok requests; gaps are whole microseconds there."""
    cell = columns.from_frames(log.read_frames(path))
    workload = Workload(cell.plan)
    requests, sent, first = cell.requests, cell.requests.masked["t_sent_ns"], cell.requests.masked["t_first_ns"]
    ok = requests.codes["outcome"] == columns.OUTCOMES.index(Outcome.OK)
    rows = np.flatnonzero(ok & sent.known & first.known)
    bounds = [requests.gap_offsets[row : row + 2] for row in rows]
    return Seen(
        keys=tuple(prompt_of(workload.build(int(requests.plain["index"][row])).body) for row in rows),
        ttft_ms=(first.values[rows] - sent.values[rows]) / NS_PER_MS,
        gaps_ms=tuple(requests.gaps_us[start:end] / US_PER_MS for start, end in bounds),
    )


def prompt_of(body: bytes) -> str:
    """What the server keeps of a body: the first bytes of the first message's content."""
    return body.partition(b'"content":"')[2][:PROMPT_BYTES].partition(b'"')[0].decode()


def first_sent_ns(truth: Measured) -> int:
    return int(truth.rows["t_request_ns"].min())


def last_sent_ns(truth: Measured) -> int:
    return int(truth.times_ns.max())
