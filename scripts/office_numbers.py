"""The made-up figures of the office: hosts with their cards, services, grids, and what a worker would read of each cell."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from benchmarks.engine.summary_types import CellSummary, Gauge
    from benchmarks.models import Cell

GIB = 2**30
SETTINGS = (1, 2, 4, 8)
LIMITS = {"short": 1.0, "median": 3.0, "long": 8.0}
"""End-to-end p95 of each class, s: those that tests.capacity.synthetic counts good requests by."""
CLASSES = {
    "short": (0.6, (90, 340), (30, 120)),
    "median": (0.3, (520, 1_600), (90, 310)),
    "long": (0.1, (2_900, 5_900), (240, 600)),
}
"""Weight, and the range of prompt and of output tokens."""
POINTS, WINDOW_S = 24, 120.0
PACE_S = 160
"""From the start of one cell to that of the next."""
WORST = {"short": 0.75, "median": 0.9, "long": 1.0}
"""How near each class comes to its limit, beside the longest."""


FEWER = {"short": 1.0, "median": 0.6, "long": 0.4}
"""Of a service's rate, what each class comes to alone."""


@dataclass(frozen=True, slots=True)
class Card:
    """A host and its GPU. `rise_c` is what full load adds to the room's temperature."""

    slug: str
    place: str
    gpu: str
    count: int
    vram_gib: float
    power_w: float
    ram_gib: float
    driver: str
    rise_c: float


CARDS = (
    Card("north-gpu-01", "Server room, ground floor", "NVIDIA GeForce RTX 4090", 1, 24, 450, 64, "570.124", 47),
    Card("south-gpu-02", "Back office, first floor", "NVIDIA L4", 2, 48, 144, 128, "570.124", 43),
    Card("annex-gpu-03", "Annex", "NVIDIA GeForce RTX 3090", 1, 24, 350, 64, "565.77", 45),
)


@dataclass(frozen=True, slots=True)
class Service:
    """A runtime with its work. `shape`: worst p95 ÷ objective and good requests a minute, at each setting."""

    name: str
    card: int
    kind: str
    version: str
    model: str
    weights_gib: float
    kv_gib: float
    shape: tuple[tuple[float, float], ...]
    flags: str


SERVICES = (
    Service("Support chat", 0, "llamacpp", "b6910", "Qwen2.5-14B-Instruct Q4_K_M", 9.4, 1.7,
            ((0.34, 21), (0.47, 38), (0.82, 57.5), (1.46, 58.1)), "llama-server --parallel 8 --ctx-size 65536"),
    Service("Invoice reader", 1, "vllm", "0.11.0", "Qwen2.5-VL-7B-Instruct-AWQ", 14.2, 2.4,
            ((0.45, 10.2), (0.71, 18.9), (1.12, 21.4), (1.8, 20.7)), "vllm serve --max-num-seqs 8"),
    Service("Nightly tagging", 1, "llamacpp", "b6910", "Llama-3.1-8B-Instruct Q5_K_M", 6.8, 1.2,
            ((0.24, 61), (0.33, 112), (0.53, 212), (1.16, 218)), "llama-server --parallel 8"),
    Service("Code helper", 2, "llamacpp", "b6910", "Qwen2.5-Coder-14B-Instruct Q4_K_M", 9.9, 1.6,
            ((0.4, 14), (0.58, 24.3), (0.93, 33), (1.3, 33.4)), "llama-server --parallel 8"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """A grid of one service: how many days ago, on which power, in a room how warm. `slower` multiplies its times."""

    service: int
    days: float
    power: str
    room_c: float
    slower: float = 1.0
    settings: tuple[int, ...] = SETTINGS
    repeats: int = 3
    most: int | None = None
    state: str = "measured"
    approve: int | None = None
    valid_days: int = 90
    fields: Mapping[str, Any] = field(default_factory=dict)


RUNS = (
    Run(2, 84, "grid", 26, slower=1.06, approve=4, valid_days=6),
    Run(3, 63, "grid", 30, approve=2),
    Run(0, 41, "grid", 25, slower=1.12),
    Run(1, 38, "grid", 25, approve=2),
    Run(2, 33, "grid", 26, most=18, state="cut"),
    Run(0, 24, "ups", 29, slower=1.16),
    Run(1, 17, "generator", 34, slower=1.08, most=21, state="hot"),
    Run(0, 12, "grid", 27, approve=4),
    Run(3, 0, "generator", 31, repeats=1, most=7, state="running"),
    Run(2, 0, "grid", 26, state="draft"),
)


def gauges(service: Service, setting: int, room_c: float) -> list[Gauge]:
    """What a worker would read while so many sequences are active."""
    from tests.capacity import synthetic as made

    card = CARDS[service.card]
    load = 1 - 0.75 ** (setting + 1)
    vram = (service.weights_gib + service.kv_gib * setting) * GIB
    watts = card.power_w * (0.14 + 0.74 * load)
    return [
        made.gauge("runtime_waiting", 4.0 if setting == 8 else 0.0, low=0.0),
        made.gauge("vram_used_bytes", vram, low=vram * 0.97, device="gpu0"),
        made.gauge("vram_total_bytes", card.vram_gib * GIB, device="gpu0"),
        made.gauge("gpu_power_w", watts, low=watts * 0.9, device="gpu0"),
        made.gauge(
            "gpu_temperature_c", room_c + card.rise_c * load, low=room_c + card.rise_c * load - 7, device="gpu0"
        ),
        made.gauge("host_memory_used_bytes", (20.8 + setting / 4) * GIB, low=20.6 * GIB),
        made.gauge("host_memory_total_bytes", card.ram_gib * GIB),
    ]


def readings(cell: Cell, run: Run) -> dict[str, Any]:
    """The points that are kept beside evidence: power is there at once, the board warms slowly, memory only grows."""
    peaks = {gauge.name: gauge.peak for gauge in gauges(SERVICES[run.service], cell.setting, run.room_c)}
    dice = random.Random(cell.pk)
    at = [(place + 0.5) / POINTS for place in range(POINTS)]
    spans = {
        "gpu_power_w": [peaks["gpu_power_w"] * dice.uniform(0.94, 1.0) for _ in at],
        "gpu_temperature_c": [peaks["gpu_temperature_c"] - 9 * math.exp(-5 * t) - dice.uniform(0, 0.6) for t in at],
        "vram_used_bytes": [peaks["vram_used_bytes"] * (0.985 if t < 0.2 else 1.0) for t in at],
        "runtime_running": [float(min(cell.setting, 4)) for _ in at],
        "runtime_waiting": [float(dice.randint(1, 4) if cell.setting == 8 else 0) for _ in at],
    }
    return {"window_s": WINDOW_S, "spans": spans}


def summary_of(cell: Cell, run: Run) -> CellSummary:
    from tests.capacity import synthetic as made

    service = SERVICES[run.service]
    ratio, rate = service.shape[SETTINGS.index(cell.setting)]
    n = max(int(rate * 2 * FEWER[cell.class_name] / run.slower) + 3 * cell.repeat, 40)
    wobble = 1 + 0.012 * cell.repeat
    p95_s = ratio * WORST[cell.class_name] * LIMITS[cell.class_name] * run.slower * wobble
    _weight, asked, answered = CLASSES[cell.class_name]
    tokens = {
        "prompt_tokens_p50": sum(asked) / 2, "intended_prompt_tokens_p50": sum(asked) / 2,
        "output_tokens_p50": sum(answered) / 2, "asked_output_tokens_p50": sum(answered) / 2,
    }  # fmt: skip
    part = msgspec.structs.replace(made.class_summary(cell.class_name, made.latencies(n, p95_s)), **tokens)
    read = gauges(service, cell.setting, run.room_c)
    return made.summary(cell.setting, cell.class_name, [part], window_s=WINDOW_S, gauges=read)
