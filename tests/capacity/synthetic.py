"""Made-up grids for the judge's tests: summaries computed from plain lists of latencies by the real statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf

import numpy as np

from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.engine.summary_types import CellSummary, ClassSummary, Gauge
from benchmarks.engine.terms import ClientHealth
from benchmarks.stats.quantiles import tail
from benchmarks.stats.shares import share
from capacity.assessment.facts import CellFact, GridFacts

GIB = 1024.0**3
LIMITS = {"short": 1.0, "median": 3.0, "long": 8.0}
STEADY = ClientHealth(loop_lag_p99_ms=0.4, cpu_share=0.1, send_late_p99_ms=0.2, client_limited=False)


def limits(percentile: float = 95.0, success_share: float = 0.9, **more: float) -> GridLimits:
    classes = {name: ClassLimits(e2e_s=limit) for name, limit in LIMITS.items()}
    return GridLimits(percentile=percentile, success_share=success_share, classes=classes, **more)


def latencies(n: int, p95_s: float) -> list[float]:
    """n spread values whose nearest-rank p95 is `p95_s`: nineteen in twenty rise to it, the rest lie just above."""
    rank = int(np.ceil(0.95 * n - 1e-9))
    rising = np.linspace(0.4, 1.0, rank) * p95_s
    return [*rising.tolist(), *([p95_s * 1.02] * (n - rank))]


def class_summary(
    name: str, e2e_s: Sequence[float], *, failed: int = 0, invalid: int = 0, cut: int = 0, short: int = 0
) -> ClassSummary:
    ok = list(e2e_s)
    every = np.array([*ok, *([inf] * failed)])
    n = len(every)
    good = sum(value <= LIMITS.get(name, inf) for value in ok) - invalid
    return ClassSummary(
        class_name=name,
        scheduled=n,
        outcomes={"ok": len(ok), "server_error": failed} if failed else {"ok": len(ok)},
        success=share(len(ok), n),
        valid=share(len(ok) - invalid, len(ok)),
        good=share(max(good, 0), n),
        e2e_s=tail(every),
        ttft_s=tail(every * 0.2),
        tpot_s=tail(every * 0.01),
        e2e_ok_s=tail(np.array(ok)),
        ttft_ok_s=tail(np.array(ok) * 0.2),
        prompt_tokens_p50=180.0,
        output_tokens_p50=60.0,
        asked_output_tokens_p50=60.0,
        token_sources={"server": len(ok)},
        truncated_prompts=cut,
        short_outputs=short,
        tpot_ok_s=tail(np.array(ok) * 0.01),
        intended_prompt_tokens_p50=180.0,
    )


def gauge(name: str, peak: float, *, low: float | None = None, device: str = "") -> Gauge:
    floor = peak if low is None else low
    return Gauge(name=name, source="test", device=device, n=5, mean=(floor + peak) / 2, low=floor, peak=peak)


def summary(
    setting: int,
    class_name: str,
    parts: Sequence[ClassSummary],
    *,
    window_s: float = 30.0,
    gauges: Sequence[Gauge] = (),
    complete: bool = True,
    client: ClientHealth = STEADY,
    conserved: bool = True,
    simulated: bool = False,
) -> CellSummary:
    n = sum(part.scheduled for part in parts)
    return CellSummary(
        schema=1,
        offered_concurrency=setting,
        class_name=class_name,
        window_s=window_s,
        started_at="2026-11-14T05:02:00+00:00",
        scheduled=n,
        warmup_requests=4,
        outcomes=dict(sum((Counter(part.outcomes) for part in parts), Counter())),
        conserved=conserved,
        completed_per_s=sum(part.success.hits for part in parts) / window_s,
        good_per_s=sum(part.good.hits for part in parts) / window_s,
        output_tokens_per_s=60.0 * n / window_s,
        mean_in_flight=float(setting),
        resent=0,
        validity_by_construction=True,
        classes=tuple(parts),
        gauges=tuple(gauges),
        not_reported={},
        client=client,
        complete=complete,
        end_reason="window ended" if complete else "guard: p95 over twice its limit",
        simulated=simulated,
        sent=n + 4,
        recorded=n + 4,
    )


def cell(
    cell_id: int,
    setting: int,
    class_name: str,
    result: CellSummary | None,
    *,
    repeat: int = 1,
    status: str = "measured",
    reason: str = "",
) -> CellFact:
    return CellFact(
        cell_id=cell_id,
        setting=setting,
        class_name=class_name,
        repeat=repeat,
        status=status,
        reason=reason,
        summary=result,
    )


def simple_cell(
    cell_id: int,
    setting: int,
    *,
    p95_s: float,
    n: int = 120,
    name: str = "short",
    window_s: float = 30.0,
    gauges: Sequence[Gauge] = (),
    **more: int,
) -> CellFact:
    """One measured cell of one class."""
    part = class_summary(name, latencies(n, p95_s), **more)
    return cell(cell_id, setting, name, summary(setting, name, [part], window_s=window_s, gauges=gauges))


def facts(cells: Sequence[CellFact], *, asked: GridLimits | None = None, **more: object) -> GridFacts:
    names = tuple(dict.fromkeys(c.class_name for c in cells))
    values: dict[str, object] = {
        "limits": asked or limits(),
        "setting_values": tuple(dict.fromkeys(c.setting for c in cells)),
        "class_names": names,
        "class_weights": {name: 1.0 for name in names if name != "mixed"} or {"short": 1.0},
        "cells": tuple(cells),
        "has_gpu": False,
    }
    return GridFacts(**{**values, **more})  # type: ignore[arg-type]


def four_and_eight(*, queue_bounded: bool | None = False) -> GridFacts:
    """Shaped like a server of four slots: throughput rises to 4 and flattens, the tail at 8 is over its limit."""
    waiting = {1: 0.0, 2: 0.0, 4: 0.0, 8: 4.0}
    shape = {1: (0.25, 96), 2: (0.33, 180), 4: (0.6, 300), 8: (1.4, 310)}
    cells = [
        simple_cell(
            number, setting, p95_s=p95_s, n=n,
            gauges=[gauge("runtime_waiting", waiting[setting]), gauge("runtime_rss_bytes", (1 + setting / 10) * GIB)],
        )
        for number, (setting, (p95_s, n)) in enumerate(shape.items(), start=1)
    ]  # fmt: skip
    return facts(
        cells,
        queue_bounded=queue_bounded,
        queue_sentence="llama.cpp's server has no limit on waiting requests.",
        runtime_max_active=4,
    )
