"""What the judge is told: limits set before the run, cells as measured, and facts about host and runtime."""

from __future__ import annotations

import msgspec

from benchmarks.engine.plan import GridLimits
from benchmarks.engine.summary_types import CellSummary

MIXED = "mixed"
MEASURED = "measured"

# Canonical telemetry names, as the engine writes them.
VRAM_USED = "vram_used_bytes"
VRAM_TOTAL = "vram_total_bytes"
VRAM_SHARE = "vram_used_share"
RUNTIME_RAM = "runtime_rss_bytes"
HOST_RAM_USED = "host_memory_used_bytes"
HOST_RAM_TOTAL = "host_memory_total_bytes"
HOST_RAM_SHARE = "host_memory_used_share"
TEMPERATURE = "gpu_temperature_c"
POWER = "gpu_power_w"
PREEMPTIONS = "runtime_preemptions_total"
WAITING = "runtime_waiting"
RUNNING = "runtime_running"


class CellFact(msgspec.Struct, frozen=True, kw_only=True):
    """One cell as it stands. `summary` is None until it is measured; a stopped cell may carry what it had."""

    cell_id: int
    setting: int
    class_name: str
    repeat: int
    status: str
    reason: str
    summary: CellSummary | None


class GridFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One grid. Bytes are bytes; `has_gpu` and `queue_bounded` are None where nobody knows.

    `class_weights` are the workload's weights of the measured classes, in any scale.
    """

    limits: GridLimits
    setting_values: tuple[int, ...]
    class_names: tuple[str, ...]
    class_weights: dict[str, float]
    cells: tuple[CellFact, ...]
    has_gpu: bool | None = None
    vram_total_bytes: float | None = None
    queue_bounded: bool | None = None
    queue_sentence: str = ""
    queue_source: str = ""
    runtime_max_active: int | None = None
    objective_before_run: bool = True
    simulated: bool = False
    validity_by_construction: bool = False

    def at(self, setting: int) -> tuple[CellFact, ...]:
        return tuple(cell for cell in self.cells if cell.setting == setting)
