"""Fairness: what short requests lose when long ones come beside them, and who gets how much of the runtime.

Jain's index is over the clients, each one's service divided by what it is entitled to: its weighted max-min share of all
that was served, of which no short client is entitled to more than it took alone. 1 is fair, 1 / clients the worst.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from benchmarks.engine import lengths
from benchmarks.engine.column_types import Columns, Floats
from benchmarks.engine.plan import ClassPlan
from benchmarks.engine.probe_plan import Fairness
from benchmarks.engine.probes.asking import Asking
from benchmarks.engine.probes.seen import Attempts, cut_short, of_role, p95, quantile, seconds_of
from benchmarks.engine.runner import Cell
from benchmarks.engine.verdicts import NOT_JUDGED, Figure, ProbeVerdict, said
from benchmarks.engine.wire import Slot

ALONE, BESIDE, LONG, WARM = "short_alone", "short_beside", "long", "warm"
LEAST_HELD_UP = 5


async def drive(cell: Cell) -> None:
    probe = cell.plan.probe
    assert isinstance(probe, Fairness)
    found = _classes(probe, cell.plan.classes)
    asking = Asking(cell)
    short_slots, long_slots = await asking.slots(probe.short_clients), await asking.slots(probe.long_clients)
    await asking.begin()
    if found is None:
        asking.end()
        return
    short, long = found
    await _warm(asking, short_slots[0], short, probe.warm_requests)
    await _warm(asking, long_slots[0], long, 1)
    alone = asking.enough(ALONE, probe.least_requests, probe.alone_s, probe.stretch)
    await cell.all_of(asking.keep_asking(slot, short, ALONE, alone) for slot in short_slots)
    beside = asking.enough(BESIDE, probe.least_requests, probe.beside_s, probe.stretch)
    async with asyncio.TaskGroup() as group:
        for slot in long_slots:
            group.create_task(asking.keep_asking(slot, long, LONG, beside))
        await asking.until(lambda: all(slot.under_way is not None for slot in long_slots), probe.beside_s)
        for slot in short_slots:
            group.create_task(asking.keep_asking(slot, short, BESIDE, beside))
    asking.end()


async def _warm(asking: Asking, slot: Slot, length_class: ClassPlan, count: int) -> None:
    """The first requests of a runtime are slower than all others, and count for nothing here."""
    await asking.keep_asking(slot, length_class, WARM, lambda: asking.ended[WARM] >= count)
    asking.ended[WARM] = 0


def judge(columns: Columns) -> ProbeVerdict:
    probe = columns.plan.probe
    assert isinstance(probe, Fairness)
    alone, beside, long = (of_role(columns, role) for role in (ALONE, BESIDE, LONG))
    figures = _figures(probe, columns, alone, beside, long)
    held_up = _all_held_up(probe, alone, beside)
    if held_up and not cut_short(columns) and len(alone) >= probe.least_requests:
        return said(columns, "unfair", figures, (held_up,))
    why = _why_not(probe, columns, alone, beside, long)
    ratio = figures["p95_ratio"].value
    if why:
        return said(columns, NOT_JUDGED, figures, why)
    if ratio is None:
        failed = f"{int((~beside.ok).sum())} of {len(beside)} short requests beside long ones failed, so their p95 is not finite."
        return said(columns, "unfair", figures, (failed,))
    word = "fair" if ratio <= probe.fair_ratio else "watch" if ratio <= probe.unfair_ratio else "unfair"
    return said(columns, word, figures)


def _all_held_up(probe: Fairness, alone: Attempts, beside: Attempts) -> str:
    """Too few for a p95, since each was held up so long: the quickest of them is beyond the limit. Empty elsewhere."""
    usual = p95(alone.took_s)
    if usual is None or not LEAST_HELD_UP <= len(beside) < probe.least_requests:
        return ""
    times = float(beside.took_s.min()) / usual
    if not times > probe.unfair_ratio:
        return ""
    return f"Only {len(beside)} short requests came through beside long ones, none in less than {times:.1f} times the p95 alone."


def _classes(probe: Fairness, classes: Sequence[ClassPlan]) -> tuple[ClassPlan, ClassPlan] | None:
    """(short, long); None where there are no two."""
    by_name = {one.name: one for one in classes}
    ordered = sorted(classes, key=_mean_tokens)
    short, long = by_name.get(probe.short_class, ordered[0]), by_name.get(probe.long_class, ordered[-1])
    return (short, long) if _mean_tokens(short) < _mean_tokens(long) else None


def _mean_tokens(one: ClassPlan) -> float:
    return lengths.quantile(one.prompt_tokens, 0.5) + lengths.quantile(one.output_tokens, 0.5)


def _why_not(
    probe: Fairness, columns: Columns, alone: Attempts, beside: Attempts, long: Attempts
) -> tuple[str, ...]:  # fmt: skip
    if _classes(probe, columns.plan.classes) is None:
        return ("There is no second class of other lengths to stand beside the short one.",)
    found = [cut_short(columns)]
    for one, words in ((alone, "alone"), (beside, "beside long ones")):
        if len(one) < probe.least_requests:
            found.append(f"Only {len(one)} short requests were asked {words}; {probe.least_requests} are needed.")
    if len(alone) and not alone.ok.mean() > 0.95:
        found.append("Short requests failed even alone, so there is nothing to compare with.")
    if not len(long) or not long.ok.any():
        found.append("No long request came to its end.")
    return tuple(one for one in found if one)


def _figures(
    probe: Fairness, columns: Columns, alone: Attempts, beside: Attempts, long: Attempts
) -> dict[str, Figure]:  # fmt: skip
    p95_alone, p95_beside = p95(alone.took_s), p95(beside.took_s)
    ttft = p95(beside.ttft_s), p95(alone.ttft_s)
    index, clients = _jain(probe, columns, alone, beside, long)
    n = len(beside)
    return {
        "p95_alone": seconds_of(p95_alone, len(alone)),
        "p95_beside": seconds_of(p95_beside, n),
        "p95_ratio": Figure(value=_ratio(p95_beside, p95_alone), unit="times", n=n),
        "p95_ttft_ratio": Figure(value=_ratio(*ttft), unit="times", n=n),
        "p50_ratio": Figure(value=_ratio(quantile(beside.took_s, 0.5), quantile(alone.took_s, 0.5)), unit="times", n=n),
        "blocked_share": Figure(value=_blocked(alone, beside), unit="share", n=int(beside.ok.sum())),
        "jain_index": Figure(value=index, unit="share", n=clients),
        "p95_long": seconds_of(p95(long.took_s), len(long)),
    }


def _ratio(above: float | None, below: float | None) -> float | None:
    if above is None or below is None or not (np.isfinite(above) and np.isfinite(below) and below > 0):
        return None
    return above / below


def _blocked(alone: Attempts, beside: Attempts) -> float | None:
    """Of the time that short requests took beside long ones, the part beyond what they take alone (median)."""
    usual, took = quantile(alone.took_s[alone.ok], 0.5), beside.took_s[beside.ok]
    if usual is None or not took.sum() > 0:
        return None
    return float(np.maximum(took - usual, 0.0).sum() / took.sum())


def _jain(
    probe: Fairness, columns: Columns, alone: Attempts, beside: Attempts, long: Attempts
) -> tuple[float | None, int | None]:  # fmt: skip
    """(index, clients) over the time in which both kinds asked."""
    if not beside.ok.any() or not long.ok.any() or not alone.ok.any():
        return None, None
    span = float(beside.due_s[0]), float(np.nanmax(beside.closed_s))
    alone_span = float(alone.due_s[0]), float(np.nanmax(alone.closed_s))
    short_clients, long_clients = _slots(columns, beside), _slots(columns, long)
    before = _served(probe, columns, alone, short_clients, alone_span)
    served = np.concatenate(
        (_served(probe, columns, beside, short_clients, span), _served(probe, columns, long, long_clients, span))
    )
    wanted = np.concatenate((before, np.full(len(long_clients), np.inf)))
    weights = np.array([probe.short_weight] * len(short_clients) + [probe.long_weight] * len(long_clients))
    return jain(served / entitled(float(served.sum()), wanted, weights)), len(served)


def _slots(columns: Columns, some: Attempts) -> list[int]:
    return sorted({int(slot) for slot in columns.requests.plain["slot"][some.rows]})


def _served(
    probe: Fairness, columns: Columns, some: Attempts, clients: Sequence[int], span: tuple[float, float]
) -> Floats:  # fmt: skip
    """Weighted tokens per second of each client; a request's tokens lie evenly between its sending and its end. Where
    the server did not count, what was asked for."""
    requests = columns.requests
    prompt, output = requests.masked["prompt_tokens"], requests.masked["output_tokens"]
    asked = requests.plain["intended_prompt_tokens"], requests.plain["asked_output_tokens"]
    tokens = probe.prompt_token_weight * np.where(prompt.known, prompt.values, asked[0])
    tokens = (tokens + np.where(output.known, output.values, asked[1]))[some.rows]
    inside = np.minimum(some.end_s, span[1]) - np.maximum(some.sent_s, span[0])
    part = np.clip(inside / np.maximum(some.end_s - some.sent_s, 1e-9), 0.0, 1.0)
    work = np.where(some.ok, tokens * np.nan_to_num(part), 0.0)
    slots = requests.plain["slot"][some.rows]
    return np.array([float(work[slots == client].sum()) for client in clients]) / max(span[1] - span[0], 1e-9)


def entitled(total: float, wanted: Floats, weights: Floats) -> Floats:
    """Weighted max-min shares of `total`: nobody is entitled to more than it wants, and what it leaves is the others'."""
    shares, left = np.zeros(len(wanted)), np.ones(len(wanted), dtype=np.bool_)
    while left.any() and total > 0:
        level = total / weights[left].sum()
        content = left & (wanted <= level * weights)
        if not content.any():
            shares[left] = level * weights[left]
            break
        shares[content] = wanted[content]
        total -= float(wanted[content].sum())
        left &= ~content
    return shares


def jain(values: Floats) -> float | None:
    """(sum x)^2 / (n sum x^2): 1 where all are equal, 1 / n where one has everything; None of nothing."""
    if not len(values) or not np.isfinite(values).all() or not (values > 0).any():
        return None
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))
