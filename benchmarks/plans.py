"""From a claimed cell to the plan that the engine runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
from django.conf import settings

from benchmarks.engine.load import Sessions
from benchmarks.engine.plan import (
    CellPlan,
    ClassLimits,
    ClassPlan,
    Connect,
    Distribution,
    Fixed,
    GridLimits,
    Guard,
    Quantiles,
)
from benchmarks.engine.probes.cells import probe_cell
from benchmarks.host_file import key_variable
from benchmarks.models import Cell, Dialect, Grid, LengthClass, Workload
from benchmarks.permits import Permit
from benchmarks.queries import MIXED, limits_of, probe_of, terms
from benchmarks.records import lengths, modes
from benchmarks.records.modes import MicroTerms, Mode, StaticTerms


def cell_plan(*, cell: Cell, permit: Permit) -> CellPlan:
    """The plan of one cell under the ceilings that its authorisation still has.

    Raises ValueError when a length class of the workload, or a behaviour probe of the grid, cannot be read.
    """
    plan, probe = _load_plan(cell, permit), probe_of(cell)
    return probe_cell(plan, probe) if probe else plan


def _load_plan(cell: Cell, permit: Permit) -> CellPlan:
    grid, runtime, workload = cell.grid, cell.grid.runtime, cell.grid.workload
    limits, wanted = limits_of(grid), terms(grid)
    return CellPlan(
        label=f"grid {grid.pk}, {cell.said}, {cell.class_name}, repeat {cell.repeat}",
        base_url=runtime.endpoint.rstrip("/"),
        connect=way_to_target(),
        dialect=runtime.dialect,
        model=runtime.model_name,
        tokenizer_sha256=runtime.tokenizer_sha256,
        api_key_env=key_variable(runtime.api_key_name),
        runtime_kind=runtime.kind,
        offered_concurrency=modes.offered_concurrency(wanted, cell.setting),
        class_name=cell.class_name,
        classes=tuple(_class_plan(row, limits) for row in _wanted(cell)),
        task=workload.task,
        seed=cell_seed(workload.seed, cell.position),
        content_seed=cell_seed(workload.seed, cell.repeat, of=f"content of {cell.class_name}"),
        arrival_seed=cell_seed(workload.seed, cell.position, of="arrivals"),
        warmup_s=0.0 if isinstance(wanted, StaticTerms) else grid.warmup_s,
        window_s=grid.window_s,
        max_requests=permit.requests_left,
        max_tokens=permit.tokens_left,
        max_wall_s=permit.seconds_left,
        load=modes.load_of(wanted, cell.setting, trace_offsets_s=trace_offsets_s(workload)),
        sessions=Sessions(turns=workload.turns, think_s=workload.think_s) if workload.turns > 1 else None,
        shared_prefix_share=workload.shared_prefix_share,
        stream=not isinstance(wanted, MicroTerms) and runtime.dialect != Dialect.OPENAI_EMBEDDINGS,
        processes=modes.processes(wanted, cell.setting),
        client_cpus=client_cpus(),
        client_realtime=settings.CLIENT_REALTIME,
        metrics_url=runtime.metrics_url,
        gpu_metrics_url=runtime.gpu_metrics_url,
        guard=_guard(grid, limits, permit),
        simulated=grid.simulated,
    )


def way_to_target() -> Connect:
    """What this host's operator has set, never the web: certificates, and a proxy, of which the log then tells."""
    return Connect(
        ca_file=settings.TARGET_CA_FILE,
        client_cert_file=settings.TARGET_CLIENT_CERT_FILE,
        client_key_file=settings.TARGET_CLIENT_KEY_FILE,
        proxy_url=settings.TARGET_PROXY_URL,
    )


def cell_seed(workload_seed: int, position: int, *, of: str = "") -> int:
    """A seed of 32 bits, the same for the same workload and place in the grid, another one for what `of` names.

    The content of a cell hangs on its class and repeat alone, so every setting is asked the same."""
    named = f"{workload_seed}:{position}" + (f":{of}" if of else "")
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:4], "big")


def trace_offsets_s(workload: Workload) -> Sequence[float]:
    """Seconds after its first request at which each request of the workload's trace came; empty without a trace."""
    return tuple(workload.arrivals_s or ())


def client_cpus() -> tuple[int, ...]:
    """The cores of this host that load generators pin themselves to; empty pins nothing."""
    return tuple(settings.CLIENT_CPUS)


def _wanted(cell: Cell) -> list[LengthClass]:
    rows = list(cell.grid.workload.classes.all())
    return rows if cell.class_name == MIXED else [row for row in rows if row.name == cell.class_name]


def _class_plan(row: LengthClass, limits: GridLimits) -> ClassPlan:
    return ClassPlan(
        name=row.name,
        weight=row.weight,
        prompt_tokens=lengths.read(row.prompt_tokens),
        output_tokens=lengths.read(row.output_tokens),
        pairs=lengths.read_pairs(row.pairs),
        limits=limits.classes.get(row.name, ClassLimits()),
    )


CONFIRMING_ERROR_SHARE = 0.5


def mode_guard(mode: str, *, confirms: bool = False) -> Guard:
    """The guard's own rules: a static batch is judged by its completion and a search looks for what is too slow, so
    neither stops at a p95. An open loop that confirms a queue cap meets refusals in bursts, as it should: it stops only
    when half of the last requests failed."""
    if confirms:
        return Guard(max_error_share=CONFIRMING_ERROR_SHARE)
    return Guard(max_p95_over_objective=None) if mode in (Mode.STATIC, Mode.SEARCH) else Guard()


def _guard(grid: Grid, limits: GridLimits, permit: Permit) -> Guard:
    leave = permit.authorization
    return msgspec.structs.replace(
        mode_guard(grid.mode, confirms=grid.confirms_id is not None),
        max_vram_share=limits.max_vram_share,
        max_temperature_c=_lower(limits.max_temperature_c, leave.max_temperature_c),
        max_power_w=_lower(limits.max_power_w, leave.max_power_w),
        on_stop=grid.on_guard,
    )


def _lower(*values: float | None) -> float | None:
    return min((value for value in values if value is not None), default=None)


def largest_tokens(row: LengthClass) -> int:
    """Prompt and output tokens of the largest request that a length class can draw; the last turn holds all before."""
    turn = sum(largest(lengths.read(stored)) for stored in (row.prompt_tokens, row.output_tokens))
    return turn * row.workload.turns


def largest(found: Distribution) -> int:
    """The most tokens that a distribution can draw."""
    if isinstance(found, Fixed):
        return found.tokens
    if isinstance(found, Quantiles):
        return int(max(tokens for _, tokens in found.points))
    return found.high
