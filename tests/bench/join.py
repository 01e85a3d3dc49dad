"""A client's times beside the server's, request by request and event by event: how far the client's word is from true.

error = client's stamp - server's stamp. TTFT error = (client's first event - client's t_sent) - (server's first event -
arrival of the request). Gap error = client's gap - server's gap, of the same pair of events. Both in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.engine import columns, log
from benchmarks.engine.prompts import Workload
from benchmarks.engine.terms import Outcome
from tests.bench.measurements import Ints, Measured

Floats = npt.NDArray[np.float64]
NS_PER_MS = 1e6
PROMPT_BYTES = 64


@dataclass(frozen=True)
class Seen:
    """A client's account: for each request a key that the truth holds too, and its own times (nanoseconds)."""

    keys: tuple[str, ...]
    t_sent_ns: Ints
    times_ns: tuple[Ints, ...]


@dataclass(frozen=True)
class Joined:
    """Arrays over the requests (or gaps) that both sides tell of. `unmatched` counts what only one side knows."""

    requests: int
    events: int
    unmatched: int
    events_differ: int
    ttft_true_ms: Floats
    ttft_error_ms: Floats
    gap_error_ms: Floats
    lag_ms: Floats
    server_late_ms: Floats


def join(truth: Measured, seen: Seen, keys: tuple[str, ...]) -> Joined:
    """`keys` are the truth's, in its order. Requests whose numbers of events differ count, and give no gaps."""
    place = {key: i for i, key in enumerate(keys)}
    pairs = [(place[key], i) for i, key in enumerate(seen.keys) if key in place]
    true_ttft, error, gap_error, lag, late = [], [], [], [], []
    differ = events = 0
    for row, i in pairs:
        sent, got = truth.times_of(row), seen.times_ns[i]
        events += len(got)
        if len(sent) == 0 or len(got) == 0:
            differ += len(sent) != len(got)
            continue
        ttft_ns = sent[0] - truth.rows["t_request_ns"][row]
        true_ttft.append(ttft_ns)
        error.append((got[0] - seen.t_sent_ns[i]) - ttft_ns)
        if len(sent) != len(got):
            differ += 1
            continue
        gap_error.append(np.diff(got) - np.diff(sent))
        lag.append(got - sent)
        if truth.gap_ns:
            late.append(sent - (truth.rows["t_planned_ns"][row] + truth.gap_ns * np.arange(len(sent))))
    return Joined(
        requests=len(pairs),
        events=events,
        unmatched=len(place) + len(seen.keys) - 2 * len(pairs),
        events_differ=differ,
        ttft_true_ms=np.array(true_ttft, np.float64) / NS_PER_MS,
        ttft_error_ms=np.array(error, np.float64) / NS_PER_MS,
        gap_error_ms=_flat(gap_error),
        lag_ms=_flat(lag),
        server_late_ms=_flat(late),
    )


def _flat(pieces: list[Ints]) -> Floats:
    whole = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
    return whole.astype(np.float64) / NS_PER_MS


def quantile(values: Floats, share: float) -> float | None:
    """Linear between order statistics; None of nothing."""
    return float(np.quantile(values, share)) if len(values) else None


def by_connection(measured: Measured) -> tuple[str, ...]:
    """The client's port and the number of the request on that connection, which both C programs write down."""
    return tuple(f"{r['port']}/{r['nth']}" for r in measured.rows)


def by_prompt(measured: Measured) -> tuple[str, ...]:
    """The first bytes of the prompt: the engine's begin with a marker that no other request of its plan has."""
    return tuple(r["prompt"].decode() for r in measured.rows)


def by_answer_id(measured: Measured) -> tuple[str, ...]:
    """The id that the server's chunks carried."""
    return tuple(f"chatcmpl-{r['number']}" for r in measured.rows)


def by_request_id(measured: Measured) -> tuple[str, ...]:
    """The x-request-id that the client sent."""
    return tuple(r["id"].decode() for r in measured.rows)


def seen_by_c(measured: Measured) -> Seen:
    return Seen(
        keys=by_connection(measured),
        t_sent_ns=measured.rows["t_request_ns"],
        times_ns=tuple(measured.times_of(i) for i in range(len(measured))),
    )


def seen_by_engine(path: Path) -> Seen:
    """The engine's own log; gaps are whole microseconds there, and events are the sums of them. Only requests that
    came to an ok end, with every time they need."""
    cell = columns.from_frames(log.read_frames(path))
    workload = Workload(cell.plan)
    requests = cell.requests
    ok = requests.codes["outcome"] == columns.OUTCOMES.index(Outcome.OK)
    known = ok & requests.masked["t_sent_ns"].known & requests.masked["t_first_ns"].known
    keys, sent, times = [], [], []
    for i in np.flatnonzero(known):
        prompt = workload.build(int(requests.plain["index"][i])).body
        first = int(requests.masked["t_first_ns"].values[i])
        gaps = requests.gaps_us[requests.gap_offsets[i] : requests.gap_offsets[i + 1]]
        keys.append(prompt_of(prompt))
        sent.append(int(requests.masked["t_sent_ns"].values[i]))
        times.append(first + np.concatenate(([0], np.cumsum(gaps) * 1000)).astype(np.int64))
    return Seen(keys=tuple(keys), t_sent_ns=np.array(sent, np.int64), times_ns=tuple(times))


def prompt_of(body: bytes) -> str:
    """What the server keeps of a body: the first bytes of the first message's content."""
    return body.partition(b'"content":"')[2][:PROMPT_BYTES].partition(b'"')[0].decode()
