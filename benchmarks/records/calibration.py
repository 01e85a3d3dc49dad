"""Self-calibration: the engine runs briefly against a simulated runtime that writes down when it sent each byte, and its
own stamps are held against that truth. Pure: the worker starts both, and brings the log and the page of truths here.

The error of a time to first token is what passed between the moment before the server's write and the client's stamp,
plus what the client claims to have sent later than the server had it. The error of a gap is the difference between
the client's and the server's. Limits are those of docs/load.md (2 ms and 1 ms at the 99th percentile).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.engine.column_types import OUTCOMES, PHASES, Columns
from benchmarks.engine.plan import CellPlan, ClassPlan, Fixed
from benchmarks.engine.prompts import Workload
from benchmarks.engine.terms import Outcome, Phase
from benchmarks.simulator.profiles import CALIBRATE
from benchmarks.simulator.truth import Truth, prompt_digest
from benchmarks.stats.quantiles import nearest_rank, smallest_sample

MAX_TTFT_ERROR_P99_MS = 2.0
MAX_GAP_ERROR_P99_MS = 1.0
LEAST_REQUESTS = 10
WINDOW_S = 4.0
# (up to this offered concurrency, tokens of an answer): few streams need short answers to make enough of them.
OUTPUT_TOKENS = ((15, 8), (63, 24), (math.inf, 64))
NS_PER_MS = 1_000_000

Floats = npt.NDArray[np.float64]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the errors may be at most, stated beside them wherever they are shown."""

    ttft_error_p99_ms: float = MAX_TTFT_ERROR_P99_MS
    gap_error_p99_ms: float = MAX_GAP_ERROR_P99_MS


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """How far the client's times are from the truth. `n` requests were compared; with fewer than 100 the 99th percentile
    of their times to first token is the worst of them. None where nothing could be compared."""

    n: int
    ttft_error_p50_ms: float | None
    ttft_error_p99_ms: float | None
    gap_error_p99_ms: float | None
    ok: bool
    why: str


class _Page(msgspec.Struct):
    requests: list[Truth]


def read_truths(page: bytes) -> list[Truth]:
    """The simulator's /truth. Raises msgspec.DecodeError."""
    return msgspec.json.decode(page, type=_Page).requests


def calibration_plan(
    base_url: str,
    *,
    offered_concurrency: int,
    seed: int,
    processes: int = 1,
    client_cpus: tuple[int, ...] = (),
) -> CellPlan:
    """The cell to run against `python -m benchmarks.simulator --profile calibrate`: some seconds at this concurrency."""
    output_tokens = next(tokens for most, tokens in OUTPUT_TOKENS if offered_concurrency <= most)
    short = ClassPlan(name="calibrate", weight=1.0, prompt_tokens=Fixed(16), output_tokens=Fixed(output_tokens))
    return CellPlan(
        label="self-calibration",
        base_url=base_url,
        model=CALIBRATE.model,
        runtime_kind="simulated",
        offered_concurrency=offered_concurrency,
        class_name=short.name,
        classes=(short,),
        seed=seed,
        warmup_s=1.0,
        window_s=WINDOW_S,
        max_requests=100_000,
        max_tokens=10_000_000,
        max_wall_s=4 * WINDOW_S,
        processes=processes,
        client_cpus=client_cpus,
        simulated=True,
    )


def compare(columns: Columns, truths: Sequence[Truth], limits: Limits | None = None) -> Calibration:
    """Every good request of the window against its truth, joined by the prompt that the plan's seed gives it."""
    known = {truth.prompt_digest: truth for truth in truths if truth.outcome == "finished"}
    ttft_ms: list[float] = []
    gaps_ms: list[Floats] = []
    lost = uneven = 0
    workload, rows = Workload(columns.plan), good_rows(columns)
    indexes = columns.requests.plain["index"]
    for row in rows:
        seen_ms = _gaps_ms(columns, row)
        truth = known.get(prompt_digest(workload.build(int(indexes[row])).text))
        if truth is None or not truth.t_tokens_ns:
            lost += 1
        elif len(truth.t_tokens_ns) != seen_ms.size + 1:
            uneven += 1
        else:
            ttft_ms.append(_ttft_error_ms(columns, row, truth))
            gaps_ms.append(np.abs(seen_ms - np.diff(truth.t_tokens_ns) / NS_PER_MS))
    ttft = np.sort(np.array(ttft_ms, dtype=np.float64))
    gaps = np.sort(np.concatenate(gaps_ms)) if gaps_ms else np.array([], dtype=np.float64)
    unfit = {"without their truth": lost, "with another number of chunks than were sent": uneven}
    return _verdict(ttft, gaps, unfit, limits or Limits())


def good_rows(columns: Columns) -> list[int]:
    """Of the window, answered and with the stamps that are held against the truth."""
    requests = columns.requests
    good = requests.codes["outcome"] == OUTCOMES.index(Outcome.OK)
    inside = requests.codes["phase"] == PHASES.index(Phase.WINDOW)
    timed = requests.masked["t_first_ns"].known & requests.masked["t_sent_ns"].known
    return [int(row) for row in np.flatnonzero(good & inside & timed)]


def _gaps_ms(columns: Columns, row: int) -> Floats:
    requests = columns.requests
    return requests.gaps_us[requests.gap_offsets[row] : requests.gap_offsets[row + 1]] / 1e3


def _ttft_error_ms(columns: Columns, row: int, truth: Truth) -> float:
    masked = columns.requests.masked
    first_ns, sent_ns = int(masked["t_first_ns"].values[row]), int(masked["t_sent_ns"].values[row])
    return (abs(first_ns - truth.t_tokens_ns[0]) + max(0, sent_ns - truth.t_received_ns)) / NS_PER_MS


def _verdict(ttft_ms: Floats, gaps_ms: Floats, unfit: Mapping[str, int], limits: Limits) -> Calibration:
    """Both samples sorted."""
    p50, p99, gap_p99 = _at(ttft_ms, 0.5), _at(ttft_ms, 0.99), _at(gaps_ms, 0.99)
    reasons = [f"{count} requests {what}" for what, count in unfit.items() if count]
    if len(ttft_ms) < LEAST_REQUESTS:
        reasons.append(f"only {len(ttft_ms)} of the {LEAST_REQUESTS} requests that a comparison needs")
    if p99 is not None and p99 > limits.ttft_error_p99_ms:
        reasons.append(f"TTFT error p99 {p99:.2f} ms, allowed {limits.ttft_error_p99_ms:g}")
    if gap_p99 is not None and gap_p99 > limits.gap_error_p99_ms:
        reasons.append(f"gap error p99 {gap_p99:.2f} ms, allowed {limits.gap_error_p99_ms:g}")
    return Calibration(
        n=len(ttft_ms),
        ttft_error_p50_ms=p50,
        ttft_error_p99_ms=p99,
        gap_error_p99_ms=gap_p99,
        ok=not reasons,
        why="; ".join(reasons),
    )


def _at(ordered: Floats, q: float) -> float | None:
    """Nearest rank; the largest of too few."""
    if not ordered.size:
        return None
    rank = nearest_rank(ordered.size, q) if ordered.size >= smallest_sample(q) else ordered.size
    return float(ordered[rank - 1])
