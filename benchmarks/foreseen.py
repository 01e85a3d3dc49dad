"""Memory before it is used: what a runtime's registered geometry, flags and host say that a setting will need.

Where one of them is not known the answer is NotKnown with the reason, and nothing is called safe. What was measured stands
beside what was predicted on the result page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.engine.summary_types import CellSummary
from benchmarks.memory.accounting import sequence_bytes, token_bytes
from benchmarks.memory.geometry import Geometry, UnknownGeometryError, from_json
from benchmarks.memory.launch import Launch, launch_of
from benchmarks.memory.prediction import GIB, Prediction, Room, keeping_of, predict, size_words
from benchmarks.memory.sequences import Fit, fit
from benchmarks.models import Cell, Hardware, HardwareProbe, LengthClass, Runtime, RuntimeKind, Workload
from benchmarks.offered import profiles_of
from benchmarks.queries import MIXED, limits_of, terms
from benchmarks.records import lengths, linter
from benchmarks.records.lengths import ClassLengths
from benchmarks.records.modes import in_flight
from benchmarks.stats.per_cent import per_cent

HOST_SHARE = 0.90
"""Of the host's memory, as the guard of a cell has it, where the model is not served from a GPU."""
_SPLITS_OVER_ALL = (RuntimeKind.LLAMACPP, RuntimeKind.OLLAMA)
_STEPS = 40
VRAM_USED, RUNTIME_RAM = "vram_used_bytes", "runtime_rss_bytes"


@dataclass(frozen=True, slots=True)
class NotKnown:
    reason: str


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is predicted and the memory it must go into."""

    prediction: Prediction
    room: Room

    @property
    def share(self) -> float:
        return self.prediction.total_bytes / self.room.total_bytes

    @property
    def fits(self) -> bool:
        return self.prediction.total_bytes <= self.room.limit_bytes

    @property
    def sum_words(self) -> str:
        """The parts, then the whole beside the limit."""
        p = self.prediction
        kv = f"KV of {p.sequences:,} sequences of {p.tokens:,} tokens {size_words(p.kv_bytes)}"
        if p.kv_reserved_bytes is not None:
            kv = f"KV {size_words(max(p.kv_bytes, p.kv_reserved_bytes))}, as its slots reserve it"
        if p.taken_bytes is not None and p.taken_bytes > p.needed_bytes:
            kv += f", and the runtime takes {size_words(p.taken_bytes)} at its start"
        return (
            f"weights {size_words(p.weights_bytes)}, {kv}, {size_words(p.overhead_bytes)} assumed for the rest: "
            f"{size_words(p.total_bytes)}, {per_cent(self.share)} of {size_words(self.room.total_bytes)} {self.room.words}"
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be held: the lengths of the requests, how many are in flight, and what an objective allows of VRAM."""

    classes: Sequence[ClassLengths]
    turns: int
    in_flight: int
    max_vram_share: float
    managed: bool = False


def refusal(cell: Cell) -> str | None:
    """Why this cell must not run, with the figures; None when it may, and also where nothing is known. A behaviour probe
    runs at a setting whose load has been measured."""
    if cell.probe:
        return None
    grid = cell.grid
    asked = Asked(
        classes=chosen(grid.workload, [cell.class_name]),
        turns=grid.workload.turns,
        in_flight=in_flight(terms(grid), cell.setting),
        max_vram_share=limits_of(grid).max_vram_share,
        managed=grid.managed,
    )
    found = foresee(grid.runtime, asked, grid.probe)
    if isinstance(found, NotKnown) or found.fits:
        return None
    return f"predicted memory at {cell.stage} is above {per_cent(found.room.share)}: {found.sum_words}."


def foresee(runtime: Runtime, asked: Asked, probe: HardwareProbe | None = None) -> Foreseen | NotKnown:
    """The memory of a runtime that holds what is asked, or what is missing to say it. `probe` is that of a grid, else the
    newest of the host."""
    geometry = geometry_of(runtime)
    if isinstance(geometry, NotKnown):
        return geometry
    if geometry.weights_bytes is None:
        return NotKnown("The size of the model's weights is not recorded")
    launch = launch_at(runtime, asked)
    facts = (probe or runtime.hardware.probes.first() or HardwareProbe()).facts
    room = room_of(runtime.hardware, facts, launch, kind=runtime.kind, share=asked.max_vram_share)
    if isinstance(room, NotKnown):
        return room
    tokens = longest_tokens(asked, runtime)
    if tokens is None:
        return NotKnown("No length of a request is known")
    held = min(asked.in_flight, active_at_most(runtime, launch, asked) or asked.in_flight)
    found = predict(
        geometry, weights_bytes=geometry.weights_bytes, launch=launch, sequences=held, tokens=tokens, room=room
    )
    return Foreseen(prediction=found, room=room)


def geometry_of(runtime: Runtime) -> Geometry | NotKnown:
    if not runtime.geometry:
        return NotKnown("The model's geometry is not recorded: give its config.json or the head of its GGUF file")
    try:
        return from_json(runtime.geometry)
    except UnknownGeometryError as error:
        return NotKnown(str(error).rstrip("."))


def launch_at(runtime: Runtime, asked: Asked | None = None) -> Launch:
    """By the registered flags; where the worker starts the runtime itself, with the setting as its slots."""
    launch = launch_of(runtime.kind, runtime.flags, runtime.runtime_version)
    if asked is None or not asked.managed:
        return launch
    each = _profile_context(runtime) or runtime.context_per_sequence_tokens
    if runtime.kind not in _SPLITS_OVER_ALL:
        return replace(launch, slots=asked.in_flight, context_tokens=each or launch.context_tokens)
    total = each * asked.in_flight if each else None
    return replace(launch, slots=asked.in_flight, context_tokens=total, unified=False, said=True)


def room_of(host: Hardware, facts: Mapping[str, object], launch: Launch, *, kind: str, share: float) -> Room | NotKnown:
    """The GPUs that the model is put on, as probed, else as declared; the host's memory where there is no GPU."""
    read = facts.get("gpus")
    sizes = [gpu.get("vram_bytes") for gpu in read] if isinstance(read, list) else []
    if sizes and all(isinstance(size, int) for size in sizes):
        return _vram(sum(sizes), len(sizes), "VRAM as probed", launch, kind=kind, share=share)
    if host.vram_gib:
        gpus = max(1, host.gpu_count)
        return _vram(int(host.vram_gib * GIB), gpus, "VRAM as declared", launch, kind=kind, share=share)
    if sizes or host.gpu or host.gpu_count:
        return NotKnown("The VRAM of the host is neither declared nor probed")
    ram = facts.get("ram_bytes")
    total = ram if isinstance(ram, int) else int(host.ram_gib * GIB) if host.ram_gib else None
    if total is None:
        return NotKnown("The memory of the host is neither declared nor probed")
    return Room(total_bytes=total, share=HOST_SHARE, words="host memory, without a GPU", gpus=0)


def _vram(total: int, gpus: int, words: str, launch: Launch, *, kind: str, share: float) -> Room:
    """llama.cpp spreads a model over all GPUs, the others over as many as there are tensor-parallel ranks."""
    used = gpus if kind in _SPLITS_OVER_ALL else min(gpus, launch.ranks)
    said = words if used == gpus else f"{words}, {used} of {gpus} GPUs"
    return Room(total_bytes=total * used // gpus, share=share, words=said, gpus=used)


def active_at_most(runtime: Runtime, launch: Launch, asked: Asked) -> int | None:
    """Sequences that the runtime advances at once, whatever is in flight; the rest waits without KV."""
    return launch.slots if asked.managed else runtime.max_active_sequences or launch.slots


def longest_tokens(asked: Asked, runtime: Runtime) -> int | None:
    """Of a request, prompt and answer, at p99 of the longest class; a sequence's context bounds it."""
    found = max((linter.longest(c, asked.turns) for c in asked.classes), default=None)
    context = runtime.context_per_sequence_tokens
    return found if found is None or context is None else min(found, context)


def model_context(runtime: Runtime) -> int | None:
    """What the model was trained for, where its geometry says it."""
    geometry = geometry_of(runtime)
    return None if isinstance(geometry, NotKnown) else geometry.context_tokens


def chosen(workload: Workload, names: Sequence[str]) -> list[ClassLengths]:
    """The length classes of these names; of all where the mix is among them."""
    found = class_lengths(workload.classes.all())
    return found if MIXED in names else [c for c in found if c.name in names]


def _profile_context(runtime: Runtime) -> int | None:
    """Context of one sequence in the launch profile, as the host's own file offers it."""
    profile = profiles_of(runtime.hardware).get(runtime.launch_profile)
    return profile.context_per_sequence if profile else None


def class_lengths(rows: Iterable[LengthClass]) -> list[ClassLengths]:
    return [
        ClassLengths(
            row.name,
            row.weight,
            lengths.read(row.prompt_tokens),
            lengths.read(row.output_tokens),
            lengths.read_pairs(row.pairs),
        )
        for row in rows
    ]


def drawn_lengths(classes: Sequence[ClassLengths], turns: int) -> tuple[list[int], list[float]]:
    """Whole requests of the mix in tokens, with their weights: pairs as they are, else every pair of forty quantiles."""
    found: list[int] = []
    weights: list[float] = []
    for c in classes:
        if c.pairs is not None:
            drawn = [prompt + output for prompt, output in c.pairs]
        else:
            prompts, outputs = (
                [lengths.quantile(d, (i + 0.5) / _STEPS) for i in range(_STEPS)]
                for d in (c.prompt_tokens, c.output_tokens)
            )
            drawn = [round(prompt + output) for prompt in prompts for output in outputs]
        found += [length * turns for length in drawn]
        weights += [c.weight / len(drawn)] * len(drawn)
    return found, weights


def pool_fit(geometry: Geometry, launch: Launch, asked: Asked, pool_bytes: int, tokens: int) -> Fit:
    """Sequences that a shared pool holds: all long, and by the lengths. Counted in bytes, since windows do not grow."""
    keeping = keeping_of(launch)
    drawn, weights = drawn_lengths(asked.classes, asked.turns)
    sizes = {length: sequence_bytes(geometry, length, keeping).bound_bytes for length in {*drawn, tokens}}
    unit = max(1, token_bytes(geometry, keeping))
    whole = [-(-sizes[length] // unit) for length in drawn]
    return fit(pool_bytes // unit, -(-sizes[tokens] // unit), whole, weights)


def holder_of(found: Foreseen, summaries: Sequence[CellSummary]) -> str:
    """The reading of the memory that was predicted. Where VRAM was read it holds the model, also on a host for which nobody
    declared a GPU."""
    read = any(gauge.name == VRAM_USED for summary in summaries for gauge in summary.gauges)
    return VRAM_USED if read or found.room.gpus else RUNTIME_RAM


def measured_bytes(found: Foreseen, summaries: Sequence[CellSummary]) -> float | None:
    """Of the memory that was predicted, the highest of any cell: each device's own peak, all devices together."""
    name = holder_of(found, summaries)
    peaks = [[gauge.peak for gauge in summary.gauges if gauge.name == name] for summary in summaries]
    return max((sum(each) for each in peaks if each), default=None)
