"""Recovery: light load before, during and after a trouble, and how long latency takes to be what it was.

The light client never stops asking; its requests are told apart by when they were due. Back is the first of several
requests in a row that all took no more than a stated multiple of the p95 before.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

import numpy as np

from benchmarks.engine.closed_loop import pause_after_s
from benchmarks.engine.column_types import Columns, Floats
from benchmarks.engine.probe_plan import Recovery
from benchmarks.engine.probes.asking import NS, Asking, leave
from benchmarks.engine.probes.cells import sized
from benchmarks.engine.probes.seen import Attempts, cut_short, of_role, quantile, seconds_of, series, why_absent
from benchmarks.engine.runner import Cell
from benchmarks.engine.terms import Outcome
from benchmarks.engine.verdicts import NOT_JUDGED, Figure, ProbeVerdict, said
from benchmarks.engine.wire import Slot

BEFORE, DURING, AFTER, STORM = "before", "during", "after", "storm"
OVERLOAD, CANCEL_STORM, RESTART = "overload", "cancel_storm", "restart"
READINGS = (("gpu_power_w", "power"), ("vram_used_bytes", "memory"))


async def drive(cell: Cell) -> None:
    probe = cell.plan.probe
    assert isinstance(probe, Recovery)
    asking = Asking(cell)
    storm = [] if probe.after == RESTART else await asking.slots(probe.storm_clients)
    light = _Light(asking, probe, (await asking.slots(1))[0])
    await asking.begin()
    await light.ask_until(BEFORE, asking.enough(BEFORE, probe.least_requests, probe.before_s, probe.stretch))
    over = asking.enough(DURING, 0, probe.storm_s, 1.0)
    async with asyncio.TaskGroup() as group:
        for slot in storm:
            group.create_task(_trouble(asking, probe, slot, over))
        await light.ask_until(DURING, over)
        await light.ask_until(AFTER, light.is_back(asking.enough(AFTER, 0, probe.after_s, 1.0)))
        for slot in storm:
            leave(slot)
    asking.end()


class _Light:
    """The client whose latency is watched."""

    def __init__(self, asking: Asking, probe: Recovery, slot: Slot) -> None:
        self._asking, self._probe, self._slot = asking, probe, slot
        self._took_s: dict[str, list[float]] = {BEFORE: [], DURING: [], AFTER: []}

    async def ask_until(self, role: str, enough: Callable[[], bool]) -> None:
        length = sized(self._probe.light_prompt_tokens, self._probe.light_output_tokens)
        while not enough() and not self._asking.cell.stopping:
            prepared = self._asking.prepare(length)
            if prepared is None:
                return
            began_ns = time.monotonic_ns()
            exchange = await self._asking.ask(self._slot, prepared, role, due_ns=began_ns)
            self._asking.ended[role] += 1
            took_s = (time.monotonic_ns() - began_ns) / NS
            self._took_s[role].append(took_s if exchange.outcome is Outcome.OK else math.inf)
            await self._asking.cell.pause(max(self._probe.light_every_s, pause_after_s(exchange)))

    def is_back(self, too_long: Callable[[], bool]) -> Callable[[], bool]:
        """Whether the last few are as they were before and the readings had their time, or the time is up."""
        probe, before = self._probe, quantile(np.array(self._took_s[BEFORE]), 0.95)
        watched = self._asking.enough(AFTER, 0, probe.least_after_s, 1.0)

        def is_enough() -> bool:
            last = self._took_s[AFTER][-probe.steady :]
            steady = before is not None and len(last) == probe.steady and max(last) <= probe.back_within * before
            return (steady and watched()) or too_long()

        return is_enough


async def _trouble(asking: Asking, probe: Recovery, slot: Slot, over: Callable[[], bool]) -> None:
    """One client of the storm. After an overload it still waits for its last answer: the queue is what is recovered from."""
    length = sized(probe.storm_prompt_tokens, probe.storm_output_tokens)
    while not over() and not asking.cell.stopping:
        prepared = asking.prepare(length)
        if prepared is None:
            return
        task = asyncio.create_task(asking.ask(slot, prepared, STORM))
        patience_s = probe.leave_after_s if probe.after == CANCEL_STORM else asking.cell.plan.total_timeout_s
        await asyncio.wait([task], timeout=patience_s)
        if not task.done():
            leave(slot)
        await asking.cell.pause(max(0.0, pause_after_s(await task)))


def judge(columns: Columns) -> ProbeVerdict:
    probe = columns.plan.probe
    assert isinstance(probe, Recovery)
    before, during, after = (of_role(columns, role) for role in (BEFORE, DURING, AFTER))
    baseline_s = quantile(before.took_s, 0.95)
    why = _why_not(probe, columns, before, during)
    figures: dict[str, Figure] = {
        "p95_before": seconds_of(baseline_s, len(before)),
        "slowest_during": seconds_of(quantile(during.took_s, 1.0), len(during)),
        "failed_during": Figure(value=float((~during.ok).sum()), unit="requests", n=len(during)),
    }
    if why or baseline_s is None or not math.isfinite(baseline_s):
        return said(columns, NOT_JUDGED, figures, why or ("Requests failed before the trouble.",))
    limit_s = probe.back_within * baseline_s
    calm_s = _calm_s(probe, during)
    back_s = _back_s(during, after, limit_s, probe.steady, calm_s)
    figures["back_to_latency"] = seconds_of(back_s, len(after))
    found, reasons = _readings(probe, columns, before, calm_s)
    figures |= found
    moved = probe.after == RESTART or _is_disturbed(np.concatenate((during.took_s, after.took_s)), limit_s)
    word = "not_disturbed" if not moved else "recovers" if back_s is not None else "does_not_recover"
    return said(columns, word, figures, reasons)


def _why_not(probe: Recovery, columns: Columns, before: Attempts, during: Attempts) -> tuple[str, ...]:
    found = [cut_short(columns)]
    if len(before) < probe.least_requests:
        found.append(
            f"Only {len(before)} requests before the trouble; {probe.least_requests} are needed for a baseline."
        )
    if not len(during):
        found.append("There was no trouble to recover from.")
    elif probe.after == RESTART and during.ok.all():
        found.append("No restart was seen: no request failed.")
    return tuple(one for one in found if one)


def _calm_s(probe: Recovery, during: Attempts) -> float:
    """From when recovery is counted: the storm's end, or the first request that a restart made fail."""
    if probe.after == RESTART:
        return float(during.due_s[~during.ok][0])
    return float(during.due_s[0]) + probe.storm_s


def _back_s(during: Attempts, after: Attempts, limit_s: float, steady: int, calm_s: float) -> float | None:
    """Until the first of `steady` requests in a row within the limit; None where there were none."""
    due_s = np.concatenate((during.due_s, after.due_s))
    good = np.concatenate((during.took_s, after.took_s)) <= limit_s
    for row in np.flatnonzero(due_s >= calm_s):
        if row + steady <= len(good) and good[row : row + steady].all():
            return float(due_s[row] - calm_s)
    return None


def _is_disturbed(took_s: Floats, limit_s: float) -> bool:
    """More than one in twenty beyond the limit: as many would be beyond a p95 by chance."""
    return bool((took_s > limit_s).sum() > 0.05 * len(took_s))


def _readings(
    probe: Recovery, columns: Columns, before: Attempts, calm_s: float
) -> tuple[dict[str, Figure], tuple[str, ...]]:  # fmt: skip
    """Until each card's power and memory were back at what they were under the light load before."""
    figures: dict[str, Figure] = {}
    reasons = []
    for name, words in READINGS:
        usual = series(columns, name, from_s=float(before.due_s[0]), to_s=float(np.nanmax(before.closed_s)))
        later = {one.device: one for one in series(columns, name, from_s=calm_s)}
        if not usual:
            figures[f"back_to_{words}"] = Figure(value=None, unit="s")
            reasons.append(f"{words}: {why_absent(columns, name)}.")
        for one in usual:
            key, then = f"back_to_{words} {one.device}".strip(), later.get(one.device)
            back = None if then is None else then.t_s[then.values <= probe.reading_within * one.values.mean()]
            found = None if back is None or not len(back) else float(back[0] - calm_s)
            figures[key] = Figure(value=found, unit="s", n=0 if then is None else len(then.values))
            if found is None:
                reasons.append(f"{words} was not back within the time watched.")
    return figures, tuple(reasons)
