"""Why not the next one up, and why not a lower one: in words and numbers, as far as each is known."""

from __future__ import annotations

from math import isfinite

from benchmarks.stats.estimates import Interval
from benchmarks.stats.per_cent import per_cent
from capacity.assessment import beside, words
from capacity.assessment.facts import GPU_BUSY, GridFacts
from capacity.assessment.knee import KNEE_SHARE, ratio_of
from capacity.assessment.verdict import Answer, SettingRow

NEARLY_FULL = 0.95
"""Of what the objective allows of VRAM."""
WATCH_RATIO = 1.3
"""From here on short requests are said to be delayed beside long ones."""
IDLE_SHARE = 0.5


def above(facts: GridFacts, row: SettingRow, chosen: SettingRow) -> tuple[str, ...]:
    """What fails, then marginal work with its interval, tail growth, memory left, delay of short requests and waiting.
    Where it does more, that it fails is the first thing to know."""
    more = words.refutes(row.gates) and (row.good.value or 0.0) > (chosen.good.value or 0.0)
    return tuple(
        dict.fromkeys(
            [
                *(row.reasons[:3] if more else ()),
                *_work(facts, row, chosen),
                *words.tail_growth(chosen.worst, row.worst),
                *_memory(row),
                *_delay(facts, row, chosen),
                *_waiting(row, facts.runtime_max_active),
                *row.reasons[:3],
                *_fairness(row),
                *_adds_little(row),
            ]
        )
    )


def below(facts: GridFacts, row: SettingRow, chosen: SettingRow) -> tuple[str, ...]:
    """How much less it does, and what lies idle meanwhile."""
    if row.good.value is None or not chosen.good.value:
        return row.reasons[:3]
    found = list(_work(facts, row, chosen))
    if row.good.value > 0 and chosen.good.value > row.good.value:
        times = chosen.good.value / row.good.value
        found.append(f"{words.flight(chosen.setting, start=True)} do {times:,.1f} times the work.")
    idle, busy = _busy(facts, row.setting), _busy(facts, chosen.setting)
    if idle is not None and busy is not None:
        state = "The GPU is mostly idle" if idle < IDLE_SHARE else "The GPU is not full"
        shares = per_cent(idle), per_cent(busy)
        found.append(f"{state}: it is busy {shares[0]} of the time, with {words.flight(chosen.setting)} {shares[1]}.")
    found.extend(row.reasons[:3] if not row.safe else ())
    return tuple(found)


def _work(facts: GridFacts, row: SettingRow, chosen: SettingRow) -> list[str]:
    said = words.against(row, chosen)
    between = _between(ratio_of(facts, row, chosen))
    return [f"{one[:-1]}{between}." for one in said]


def _between(ratio: Interval) -> str:
    if ratio.lower is None or ratio.upper is None or not isfinite(ratio.upper):
        return ""
    low, high = words.more_or_fewer(ratio.lower), words.more_or_fewer(ratio.upper)
    clear = "" if ratio.lower > 1 or ratio.upper < 1 else ", so no clear difference"
    return f"; of the successful ones between {low} and {high} by {ratio.n} repeats{clear}"


def _memory(row: SettingRow) -> list[str]:
    peak, limit = row.memory.peak_bytes, row.memory.limit_bytes
    if peak is None or not limit:
        return []
    left = (limit - peak) / 1024**3
    if left < 0:
        return [f"VRAM is {-left:,.1f} GiB over its limit."]
    if peak >= NEARLY_FULL * limit:
        return [f"VRAM is nearly full: {left:,.1f} GiB of the {limit / 1024**3:,.1f} GiB allowed are left."]
    return [f"{left:,.1f} GiB of VRAM are left."]


def _delay(facts: GridFacts, row: SettingRow, chosen: SettingRow) -> list[str]:
    here, there = beside.delay(facts, row.setting), beside.delay(facts, chosen.setting)
    if here is None or here.ratio.value is None or not isfinite(here.ratio.value) or here.ratio.value < WATCH_RATIO:
        return []
    told = f"Long requests delay short ones: p95 of {here.class_name} in the mix is {here.ratio.value:,.1f} times that alone"
    if there is None or there.ratio.value is None or not isfinite(there.ratio.value):
        return [f"{told}."]
    return [f"{told}, {there.ratio.value:,.1f} times with {words.flight(chosen.setting)}."]


def _fairness(row: SettingRow) -> list[str]:
    return [gate.reason for gate in row.gates if gate.key == "fairness" and gate.answer == Answer.FAILS]


def _waiting(row: SettingRow, runtime_max_active: int | None) -> list[str]:
    if row.waiting_peak:
        return [f"Up to {words.requests(row.waiting_peak)} waited in the server's queue."]
    if runtime_max_active and row.cells and row.setting > runtime_max_active:
        return [f"The runtime advances {runtime_max_active} sequences at a time, so the rest waits."]
    return []


def _adds_little(row: SettingRow) -> list[str]:
    if not row.safe or row.reasons:
        return []
    return [f"It holds every limit, but adds less than {per_cent(1 / KNEE_SHARE - 1)} over the recommended setting."]


def _busy(facts: GridFacts, setting: int) -> float | None:
    """Mean share of the time in which the GPU did anything, over the windows that read it."""
    found = [
        (gauge.mean, cell.summary.window_s)
        for cell in facts.at(setting)
        if cell.summary is not None and (gauge := cell.summary.gauge(GPU_BUSY)) is not None
    ]
    seconds = sum(window_s for _, window_s in found)
    return sum(mean * window_s for mean, window_s in found) / seconds if seconds > 0 else None
