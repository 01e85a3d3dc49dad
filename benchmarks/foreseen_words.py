"""What is foreseen of memory, as lines for pages: before a grid is drawn, on a runtime, and beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks import foreseen
from benchmarks.engine.summary_types import CellSummary
from benchmarks.foreseen import Asked, Foreseen, NotKnown
from benchmarks.memory.accounting import Keeping, sequence_bytes, token_bytes
from benchmarks.memory.geometry import in_words
from benchmarks.memory.launch import Launch, slot_tokens
from benchmarks.memory.prediction import GIB, WATCH_SHARE, difference, keeping_of, size_words
from benchmarks.memory.sequences import MOST_SEQUENCES, OVERFLOW_SHARE, Fit
from benchmarks.models import Runtime, RuntimeKind
from benchmarks.queries import GridEvidence, terms
from benchmarks.records import linter
from benchmarks.records.lengths import ClassLengths
from benchmarks.records.mode_words import setting_words
from benchmarks.records.modes import in_flight
from benchmarks.stats.per_cent import per_cent

KV_CAPACITY = "runtime_kv_capacity_tokens"


@dataclass(frozen=True, slots=True)
class Line:
    """`kind` is ok, warn or info."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """The memory of a runtime: facts as (name, value), and lines with a warning or the reason why something is missing."""

    facts: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Beside:
    """Predicted and measured memory of one setting. `measured` is words where nothing was measured."""

    setting: str
    predicted: str
    measured: str
    difference: str
    watch: bool


@dataclass(frozen=True, slots=True)
class BesideTable:
    """`reason` says why there is no prediction; `pool` what the runtime's own KV capacity would hold."""

    rows: tuple[Beside, ...]
    words: str
    reason: str
    pool: str = ""


# --- before a grid ---------------------------------------------------------------------------------------------------


def plan_lines(runtime: Runtime, asked: Asked) -> list[Line]:
    """What the highest setting of a plan would need, and whether its longest requests find room."""
    launch = foreseen.launch_at(runtime, asked)
    found = foreseen.foresee(runtime, asked)
    lines = [*_slot_lines(runtime, launch, asked), *_pool_lines(runtime, launch, asked, found)]
    if isinstance(found, NotKnown):
        return [Line("info", f"Memory is not foreseen, so nothing is said to fit. {found.reason}."), *lines]
    return [_whole(found, asked), *lines]


def _whole(found: Foreseen, asked: Asked) -> Line:
    prediction = found.prediction
    text = f"Memory foreseen at {asked.in_flight:,} in flight: {found.sum_words}."
    if prediction.kv_naive_bytes > prediction.kv_bytes:
        naive, bound = size_words(prediction.kv_naive_bytes), size_words(prediction.kv_bytes)
        text += f" A runtime that makes no use of windows and shared layers keeps {naive} of KV instead of {bound}."
    if found.fits:
        return Line("ok", text)
    return Line(
        "warn", f"{text} That is above {per_cent(found.room.share)}: the worker will not run such cells, and say so."
    )


def _pool_lines(runtime: Runtime, launch: Launch, asked: Asked, found: Foreseen | NotKnown) -> Iterator[Line]:
    """How many sequences a pool holds that all share."""
    geometry, tokens = foreseen.geometry_of(runtime), foreseen.longest_tokens(asked, runtime)
    if isinstance(geometry, NotKnown) or tokens is None:
        return
    pool = found.prediction.pool_bytes if isinstance(found, Foreseen) else None
    if launch.unified and launch.context_tokens:
        pool = launch.context_tokens * token_bytes(geometry, keeping_of(launch))
    if not pool:
        return
    held = foreseen.pool_fit(geometry, launch, asked, pool, tokens)
    text = f"The KV pool of {size_words(pool)} that all sequences share {_fit_words(held)}."
    if min(asked.in_flight, foreseen.active_at_most(runtime, launch, asked) or asked.in_flight) > held.all_long:
        yield Line("warn", f"{text} {_FULL.get(runtime.kind, _FULL_ELSEWHERE)}")
    else:
        yield Line("info", text)


_FULL: dict[str, str] = {
    RuntimeKind.LLAMACPP: "When it is full, every active request of llama.cpp fails.",
    RuntimeKind.VLLM: "When it is full, vLLM begins its newest requests anew.",
    RuntimeKind.SGLANG: "When it is full, SGLang takes requests back and begins them anew.",
}
_FULL_ELSEWHERE = "Above that, requests wait or are begun anew."


def _fit_words(held: Fit) -> str:
    many = f"{held.all_long:,}{' or more' if held.all_long == MOST_SEQUENCES else ''}"
    text = f"holds {many} sequences if all are long (p99)"
    if held.by_lengths is None:
        return text
    more = " or more" if held.by_lengths == MOST_SEQUENCES else ""
    return f"{text}, {held.by_lengths:,}{more} by the workload's lengths with {per_cent(OVERFLOW_SHARE, 1)} overflow"


def _slot_lines(runtime: Runtime, launch: Launch, asked: Asked) -> Iterator[Line]:
    """Where the context of one of llama.cpp's slots is too small for the longest request."""
    each = slot_tokens(launch, foreseen.model_context(runtime)) if launch.unified is not None else None
    longest = max((linter.longest(c, asked.turns) for c in asked.classes), default=None)
    if each is None or longest is None or each >= longest:
        return
    whose = "The pool of all slots" if launch.unified else f"A slot ({launch.context_tokens:,} / {launch.slots})"
    yield Line(
        "warn",
        f"{whose} has {each:,} tokens of context, and the longest tested request takes {longest:,} (p99): it will be refused "
        "or cut short.",
    )


# --- on a runtime ----------------------------------------------------------------------------------------------------


def panel(runtime: Runtime) -> Panel:
    """KV bytes a token, and what the runtime's own number of sequences needs at its own context."""
    geometry = foreseen.geometry_of(runtime)
    if isinstance(geometry, NotKnown):
        return Panel((), (Line("info", f"{geometry.reason}."),), "")
    launch = foreseen.launch_at(runtime)
    keeping = keeping_of(launch)
    facts = [
        ("Model", f"{geometry.architecture}, {in_words(geometry)}"),
        ("KV of one more token", _token_words(token_bytes(geometry, keeping), keeping)),
        ("Weights", size_words(geometry.weights_bytes) if geometry.weights_bytes else "not recorded"),
    ]
    each = runtime.context_per_sequence_tokens or slot_tokens(launch, geometry.context_tokens)
    sequences = runtime.max_active_sequences or launch.slots
    if each and sequences:
        kept = sequence_bytes(geometry, each, keeping)
        text = size_words(sequences * kept.bound_bytes)
        if kept.naive_bytes > kept.bound_bytes:
            text += f", {size_words(sequences * kept.naive_bytes)} without use of windows and shared layers"
        facts.append((f"KV of {sequences:,} sequences of {each:,} tokens", text))
    lines = (
        []
        if each and sequences
        else [Line("info", "Active sequences or context are not recorded, so no sum is given.")]
    )
    return Panel(tuple(facts), tuple(lines), runtime.geometry_source)


def _token_words(size: int, keeping: Keeping) -> str:
    if not size:
        return "0 bytes: nothing of this model grows with its sequences"
    kinds = " and ".join(dict.fromkeys((str(keeping.k_type), str(keeping.v_type))))
    over = f" over {keeping.ranks} tensor-parallel ranks" if keeping.ranks > 1 else ""
    return f"{size:,} bytes in {kinds}{over}"


# --- beside what was measured ----------------------------------------------------------------------------------------


def beside(evidence: GridEvidence) -> BesideTable | None:
    """Predicted beside measured memory, a row for each setting measured; None before anything is, and for a simulated
    runtime, which holds no model."""
    grid = evidence.grid
    by_setting: dict[int, list[CellSummary]] = {}
    for cell in evidence.measured:
        if cell.summary is not None:
            by_setting.setdefault(cell.setting, []).append(cell.summary)
    if not by_setting or (grid.simulated and not grid.runtime.geometry):
        return None
    classes = foreseen.chosen(grid.workload, evidence.class_names)
    asked = {setting: _asked(evidence, classes, setting) for setting in by_setting}
    found = {setting: foreseen.foresee(grid.runtime, one, evidence.probe) for setting, one in asked.items()}
    first = next(iter(found.values()))
    if isinstance(first, NotKnown):
        return BesideTable((), "", first.reason, "")
    rows = tuple(
        _row(setting_words(grid.mode, setting), one, by_setting[setting])
        for setting, one in found.items()
        if isinstance(one, Foreseen)
    )
    last = max(by_setting)
    return BesideTable(rows, first.room.words, "", _measured_pool(grid.runtime, asked[last], by_setting[last]))


def _asked(evidence: GridEvidence, classes: Sequence[ClassLengths], setting: int) -> Asked:
    grid = evidence.grid
    return Asked(
        classes=classes,
        turns=grid.workload.turns,
        in_flight=in_flight(terms(grid), setting),
        max_vram_share=evidence.limits.max_vram_share,
        managed=grid.managed,
    )


def _row(setting: str, found: Foreseen, summaries: Sequence[CellSummary]) -> Beside:
    predicted = found.prediction.total_bytes
    measured = foreseen.measured_bytes(found, summaries)
    if measured is None:
        name = foreseen.holder_of(found, summaries)
        why = next((summary.not_reported[name] for summary in summaries if name in summary.not_reported), "")
        return Beside(setting, f"{predicted / GIB:,.2f}", f"not reported{f': {why}' if why else ''}", "", watch=False)
    apart = difference(predicted, measured)
    return Beside(
        setting,
        f"{predicted / GIB:,.2f}",
        f"{measured / GIB:,.2f}",
        per_cent(apart, sign=True),
        watch=abs(apart) > WATCH_SHARE,
    )


def _measured_pool(runtime: Runtime, asked: Asked, summaries: Sequence[CellSummary]) -> str:
    """What the pool that the runtime itself reports would hold; empty where it reports none."""
    pools = [gauge.peak for summary in summaries if (gauge := summary.gauge(KV_CAPACITY)) is not None]
    geometry, tokens = foreseen.geometry_of(runtime), foreseen.longest_tokens(asked, runtime)
    if not pools or isinstance(geometry, NotKnown) or tokens is None:
        return ""
    launch = foreseen.launch_at(runtime, asked)
    size = int(min(pools)) * token_bytes(geometry, keeping_of(launch))
    held = foreseen.pool_fit(geometry, launch, asked, size, tokens)
    return f"The runtime reports a KV pool of {min(pools):,.0f} tokens: it {_fit_words(held)}."
