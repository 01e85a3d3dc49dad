"""What the judge is told: limits set before the run, cells as measured, and facts about host and runtime."""

from __future__ import annotations

import msgspec

from benchmarks.engine.plan import GridLimits, ObjectiveTerms
from benchmarks.engine.summary_types import CellSummary
from benchmarks.engine.verdicts import ProbeVerdict

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
GPU_BUSY = "gpu_utilization_share"
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


class ProbeFact(msgspec.Struct, frozen=True, kw_only=True):
    """A behaviour probe as it stands. `verdict` is None until it ran; `reason` then says why not."""

    cell_id: int
    probe: str
    setting: int
    repeat: int
    status: str
    reason: str
    verdict: ProbeVerdict | None


class ConfirmFact(msgspec.Struct, frozen=True, kw_only=True):
    """One open-loop cell that was drawn to confirm `setting` at `rate_per_min` through `queue_cap`. `differs` names what
    is not as it was in the grid that it confirms; only an empty one confirms anything. `recorded`: room and power of its
    grid, before and after. `probed` are the overload probes, by their cells, that the runtime it went
    through answered with refusals."""

    grid_id: int
    cell_id: int
    setting: int
    queue_cap: int | None
    rate_per_min: float
    status: str
    reason: str
    summary: CellSummary | None
    differs: tuple[str, ...] = ()
    recorded: bool = True
    probed: tuple[int, ...] = ()


class LengthFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked in this grid: prompt tokens of the workload as drawn, over its classes by their weights, and what was
    seen of repeats. Shares are 0 to 1, None where nobody can say. `longest_request_tokens` is prompt and answer at p99 of
    the longest class; `short_class` is the one with the fewest tokens, empty where there is but one."""

    classes: int
    p10_tokens: float | None = None
    p90_tokens: float | None = None
    p95_tokens: float | None = None
    longest_tokens: float | None = None
    longest_output_tokens: float | None = None
    repeated_share: float | None = None
    cached_share: float | None = None
    declared_prefix_share: float | None = None
    longest_request_tokens: float | None = None
    short_class: str = ""


class MemoryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What geometry, flags and host say that a setting needs. `predicted_bytes` by setting stands beside `measured_bytes`,
    read of the same memory; `pool_tokens` is the KV room, `context_per_sequence_tokens` what one sequence may have of it,
    `all_long` how many sequences the pool holds if all are long, by setting. `substitute` says by what an overflow is told
    where the runtime counts no preemptions; empty where by nothing."""

    geometry_known: bool = False
    reason: str = ""
    predicted_bytes: dict[int, float] = {}
    measured_bytes: dict[int, float] = {}
    pool_tokens: float | None = None
    context_per_sequence_tokens: float | None = None
    all_long: dict[int, int] = {}
    substitute: str = ""


class ConditionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Whether room and power were recorded, and how any cell's surroundings differ from those of the first: `of_cells` by
    the cell's id as its worker read them, `between` as people recorded them before and after, `differs` all together."""

    recorded: bool = False
    differs: tuple[str, ...] = ()
    of_cells: dict[int, tuple[str, ...]] = {}
    between: tuple[str, ...] = ()


class GridFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One grid. Bytes are bytes; `has_gpu` and `queue_bounded` are None where nobody knows.

    `class_weights` are the workload's weights of the measured classes, in any scale; `gpu_count` is how many cards serve.
    `previous_setting` is what the same runtime was last approved for, with its arguments in `previous_words`.
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
    probes: tuple[ProbeFact, ...] = ()
    confirmations: tuple[ConfirmFact, ...] = ()
    lengths: LengthFacts | None = None
    memory: MemoryFacts = MemoryFacts()
    conditions: ConditionFacts = ConditionFacts()
    gpu_count: int | None = None
    previous_setting: int | None = None
    previous_words: str = ""

    @property
    def terms(self) -> ObjectiveTerms:
        return self.limits.terms

    def at(self, setting: int) -> tuple[CellFact, ...]:
        return tuple(cell for cell in self.cells if cell.setting == setting)
