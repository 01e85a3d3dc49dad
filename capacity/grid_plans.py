"""What a grid would be, before anybody draws it: cells, time, and what stands in its way. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from benchmarks.drafts import MIXED
from benchmarks.records import lengths, probes
from benchmarks.records.modes import (
    Mode,
    OpenTerms,
    SearchTerms,
    in_flight,
    mode_of,
    requests_of,
)
from capacity.plan_checks import Tick
from capacity.plan_memory import Memory, memory_of
from capacity.plan_past import Past, past_of
from capacity.plan_ticks import Wish as Wish
from capacity.plan_ticks import classes_of, ticks_of, vram_share

BETWEEN_CELLS_S = 1.0
_ORDER = ("bad", "warn", "info")


@dataclass(frozen=True, slots=True)
class Plan:
    """`cells` and `time_s` are None while the form does not say enough. `highest` is what is in flight at most.

    `requests` (items, where they travel together) and `tokens` are None too where the server's speed decides them; they are
    of the load alone. `probes` are so many behaviour probes, which take at most `probes_s` together.
    """

    cells: int | None
    shape: str
    time_s: float | None
    highest: int | None
    requests: float | None
    tokens: float | None
    ticks: tuple[Tick, ...]
    probes: int = 0
    probes_s: float = 0.0
    ends_at: datetime | None = None
    energy_kwh: float | None = None
    past: Past | None = None
    by_past: bool = False
    memory: Memory | None = None

    @property
    def open_ticks(self) -> list[Tick]:
        """What stands in the way, what may, and what is good to know, in that order."""
        rest = [tick for tick in self.ticks if tick.kind != "ok" and not tick.of_tool]
        return sorted(rest, key=lambda tick: _ORDER.index(tick.kind))

    @property
    def tool_ticks(self) -> list[Tick]:
        return [tick for tick in self.ticks if tick.kind != "ok" and tick.of_tool]

    @property
    def passed_ticks(self) -> list[Tick]:
        return [tick for tick in self.ticks if tick.kind == "ok"]

    @property
    def minutes(self) -> float | None:
        return None if self.time_s is None else self.time_s / 60


def plan_of(wish: Wish, *, team_id: int, person_id: int, at: datetime | None = None) -> Plan:
    now, settings = at or timezone.now(), sorted(set(wish.settings))
    cells, shape = _cells(wish, settings)
    each_s = None if wish.window_s is None or wish.warmup_s is None else wish.window_s + wish.warmup_s
    known = bool(cells) and each_s is not None
    sent = _sent(wish, settings, each_s) if known and each_s is not None else None
    probed = [probes.cost(probe, max(settings, default=1)) for probe in wish.probes]
    probes_s = sum(one.seconds + BETWEEN_CELLS_S for one in probed)
    time_s = cells * (each_s + BETWEEN_CELLS_S) + probes_s if cells and each_s is not None else None
    past = past_of(wish.runtime, wish.workload) if wish.runtime is not None else None
    by_past = _by_past(wish, settings, past, each_s) if known and sent is None else None
    return Plan(
        cells=cells,
        shape=shape,
        time_s=time_s,
        highest=max([*(in_flight(wish.load, s) for s in settings), *(one.in_flight for one in probed)], default=None),
        requests=(sent or by_past or (None, None))[0],
        tokens=(sent or by_past or (None, None))[1],
        ticks=tuple(ticks_of(wish, settings, team_id=team_id, person_id=person_id, at=now)),
        probes=len(probed),
        probes_s=probes_s,
        ends_at=now + timedelta(seconds=time_s) if time_s is not None and wish.load_ends else None,
        energy_kwh=_energy_kwh(settings, past, cells, each_s, probes_s),
        past=past,
        by_past=by_past is not None,
        memory=_memory_of(wish, settings),
    )


def _by_past(
    wish: Wish, settings: list[int], past: Past | None, each_s: float | None
) -> tuple[float, float | None] | None:
    """Requests and tokens of a closed loop by what the same runtime answered before; None where it never did."""
    if past is None or each_s is None or wish.workload is None or mode_of(wish.load) != Mode.CLOSED:
        return None
    found = past.requests(settings, wish.class_names, each_s * (wish.repeats or 0))
    if found is None:
        return None
    tokens = _mean_tokens(classes_of(wish.workload), wish.workload.turns)
    return sum(found.values()), sum(count * tokens.get(name, 0.0) for name, count in found.items())


def _energy_kwh(
    settings: list[int], past: Past | None, cells: int | None, each_s: float | None, probes_s: float
) -> float | None:
    if past is None or not cells or each_s is None or not settings:
        return None
    return past.energy_kwh(settings, each_s * cells / len(settings), probes_s)


def _memory_of(wish: Wish, settings: list[int]) -> Memory | None:
    """None while too little is chosen, and for a simulated runtime, which holds no model."""
    if wish.runtime is None or wish.workload is None or wish.runtime.simulated or not settings or not wish.class_names:
        return None
    return memory_of(
        wish.runtime, wish.workload, wish.load, settings=settings, class_names=wish.class_names,
        max_vram_share=vram_share(wish), managed=wish.managed,
    )  # fmt: skip


def _cells(wish: Wish, settings: list[int]) -> tuple[int | None, str]:
    """How many cells there are, of a search at most, and what makes them."""
    classes, repeats = len(wish.class_names), wish.repeats or 0
    if isinstance(wish.load, SearchTerms):
        whole = bool(settings and classes and repeats)
        return (wish.load.most_cells, f"{classes} × {repeats} a try") if whole else (None, "")
    cells = len(settings) * classes * repeats or None
    return cells, f"{len(settings)} × {classes} × {repeats}" if cells else ""


def _sent(wish: Wish, settings: list[int], each_s: float) -> tuple[float, float | None] | None:
    """(requests or items, their tokens) of the whole grid; None where the server's speed decides it."""
    found = [requests_of(wish.load, setting, each_s) for setting in settings]
    if any(count is None for count in found):
        return None
    each = sum(count or 0.0 for count in found) * (wish.repeats or 0)
    if wish.workload is not None and isinstance(wish.load, OpenTerms):
        each *= wish.workload.turns
    if wish.workload is None:
        return each * len(wish.class_names), None
    lengths_of = _mean_tokens(classes_of(wish.workload), wish.workload.turns)
    return each * len(wish.class_names), each * sum(lengths_of.get(name, 0.0) for name in wish.class_names)


def _mean_tokens(classes: Sequence[lengths.ClassLengths], turns: int = 1) -> dict[str, float]:
    """Prompt and answer of a class together, from a hundred quantiles; the mix by its weights. A turn holds all before
    it, so on average a request of a conversation is (turns + 1) / 2 times as long as one message with its answer."""
    found = {
        c.name: sum(
            lengths.quantile(d, (i + 0.5) / 100) / 100 for d in (c.prompt_tokens, c.output_tokens) for i in range(100)
        )
        * (turns + 1)
        / 2
        for c in classes
    }
    total = sum(c.weight for c in classes) or 1.0
    return found | {MIXED: sum(found[c.name] * c.weight / total for c in classes)}
