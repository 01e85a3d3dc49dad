"""What the judge is told of the lengths that a grid asked, and of the memory that its settings need: from rows, as facts.

Nothing of a host that was read after the grid counts: a verdict does not change with the host's later probes.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import foreseen
from benchmarks.engine.plan import Distribution, Lognormal, Normal
from benchmarks.engine.prompts import UNIQUE_WORDS
from benchmarks.engine.summary_types import CellSummary
from benchmarks.foreseen import Asked, Foreseen, NotKnown
from benchmarks.memory.accounting import sequence_bytes, token_bytes
from benchmarks.memory.geometry import Geometry
from benchmarks.memory.launch import slot_tokens
from benchmarks.memory.prediction import keeping_of
from benchmarks.models import HardwareProbe, RuntimeKind
from benchmarks.queries import GridEvidence, terms
from benchmarks.records import linter
from benchmarks.records.lengths import ClassLengths, quantile
from benchmarks.records.modes import in_flight
from capacity.assessment.facts import LengthFacts, MemoryFacts

STEPS = 40
LONGEST_SHARE = 0.999
KV_CAPACITY = "runtime_kv_capacity_tokens"
PREFIX_HITS, PREFIX_QUERIES = "runtime_prefix_hit_tokens_total", "runtime_prefix_query_tokens_total"
PROMPT_TOKENS = "runtime_prompt_tokens_total"
FAILS_WHEN_FULL = {
    RuntimeKind.LLAMACPP: "llama.cpp fails requests when its KV cache overflows, and outcomes count those.",
    RuntimeKind.OLLAMA: "Ollama fails requests when its KV cache overflows, and outcomes count those.",
}
"""Runtimes that count no preemptions, for they have none: an overflow shows in the outcomes."""

Weighted = list[tuple[float, float]]


def lengths_of(found: GridEvidence) -> LengthFacts | None:
    """None where the workload has no class that the grid measured."""
    workload = found.grid.workload
    classes = foreseen.chosen(workload, found.class_names)
    if not classes:
        return None
    prompts = [pair for one in classes for pair in drawn_prompts(one, workload.turns)]
    short = min(classes, key=_typical_tokens)
    return LengthFacts(
        classes=len(classes),
        p10_tokens=at_share(prompts, 0.10),
        p90_tokens=at_share(prompts, 0.90),
        p95_tokens=at_share(prompts, 0.95),
        longest_tokens=max(tokens for tokens, _ in prompts),
        longest_output_tokens=max(longest(one.output_tokens) for one in classes),
        repeated_share=_repeated(classes),
        cached_share=_cached(found),
        declared_prefix_share=workload.shared_prefix_share,
        longest_request_tokens=max(linter.longest(one, workload.turns) for one in classes),
        short_class=short.name if len(classes) > 1 else "",
    )


def drawn_prompts(one: ClassLengths, turns: int) -> Weighted:
    """Prompts of a class in tokens with their weights: pairs as they are, else forty quantiles and the longest. A later turn
    of a conversation holds the earlier ones, with answers of the typical length."""
    if one.pairs is not None:
        first = [(float(prompt), float(answer)) for prompt, answer in one.pairs]
    else:
        answer = quantile(one.output_tokens, 0.5)
        first = [(quantile(one.prompt_tokens, (i + 0.5) / STEPS), answer) for i in range(STEPS)]
    each = one.weight / (len(first) * turns)
    found = [(prompt * (turn + 1) + answer * turn, each) for prompt, answer in first for turn in range(turns)]
    if one.pairs is None:
        found.append((longest(one.prompt_tokens) * turns + quantile(one.output_tokens, 0.5) * (turns - 1), 0.0))
    return found


def longest(distribution: Distribution) -> float:
    """The longest that it has; of a law without an end the length that one request in a thousand passes, if its own
    bound does not come before."""
    endless = isinstance(distribution, Normal | Lognormal)
    return quantile(distribution, LONGEST_SHARE if endless else 1.0)


def at_share(weighted: Weighted, share: float) -> float | None:
    """Nearest rank by weight; None of nothing."""
    total, seen = sum(weight for _, weight in weighted), 0.0
    for tokens, weight in sorted(weighted):
        seen += weight
        if weight and seen >= share * total - 1e-9:
            return tokens
    return None


def _typical_tokens(one: ClassLengths) -> float:
    return quantile(one.prompt_tokens, 0.5) + quantile(one.output_tokens, 0.5)


def _repeated(classes: Sequence[ClassLengths]) -> float | None:
    """Each prompt begins with a marker of its own; where one in a thousand is too short to hold it, nobody counted."""
    least = [
        min((p for p, _ in one.pairs), default=0) if one.pairs else quantile(one.prompt_tokens, 1e-3) for one in classes
    ]
    return 0.0 if min(least) >= UNIQUE_WORDS else None


def _cached(found: GridEvidence) -> float | None:
    """Of the prompt tokens that the runtime looked up, the share that its prefix cache served, over all cells. Its own
    counters; llama.cpp counts only what it computed, so both together are what was asked."""
    told = [one for cell in found.measured if cell.summary and (one := _looked_up(found, cell.summary)) is not None]
    asked = sum(one[1] for one in told)
    return sum(one[0] for one in told) / asked if asked else None


def _looked_up(found: GridEvidence, summary: CellSummary) -> tuple[float, float] | None:
    hits, queries = summary.counted(PREFIX_HITS), summary.counted(PREFIX_QUERIES)
    if hits is None:
        return None
    if queries is None and found.grid.runtime.kind == RuntimeKind.LLAMACPP:
        computed = summary.counted(PROMPT_TOKENS)
        queries = None if computed is None else hits + computed
    return None if queries is None else (hits, queries)


# --- memory ----------------------------------------------------------------------------------------------------------


def memory_of(found: GridEvidence) -> MemoryFacts:
    """Predicted beside measured, and what the KV cache holds, at each setting that was measured."""
    runtime = found.grid.runtime
    geometry = foreseen.geometry_of(runtime)
    substitute = FAILS_WHEN_FULL.get(RuntimeKind(runtime.kind), "")
    if isinstance(geometry, NotKnown):
        return MemoryFacts(reason=geometry.reason, substitute=substitute)
    by_setting: dict[int, list[CellSummary]] = {}
    for cell in found.measured:
        if cell.summary is not None:
            by_setting.setdefault(cell.setting, []).append(cell.summary)
    classes = foreseen.chosen(found.grid.workload, found.class_names)
    asked = {setting: _asked(found, classes, setting) for setting in sorted(by_setting)}
    seen = {setting: foreseen.foresee(runtime, one, found.probe or HardwareProbe()) for setting, one in asked.items()}
    known = {setting: one for setting, one in seen.items() if isinstance(one, Foreseen)}
    reasons = [one.reason for one in seen.values() if isinstance(one, NotKnown)]
    measured = {setting: foreseen.measured_bytes(one, by_setting[setting]) for setting, one in known.items()}
    pools = {
        setting: _pool(found, geometry, asked[setting], by_setting[setting], known.get(setting)) for setting in asked
    }
    pool_bytes = [size for size, _ in pools.values() if size is not None]
    unit = token_bytes(geometry, keeping_of(foreseen.launch_at(runtime)))
    return MemoryFacts(
        geometry_known=True,
        reason=reasons[0] if reasons else "",
        predicted_bytes={setting: one.prediction.total_bytes for setting, one in known.items()},
        measured_bytes={setting: size for setting, size in measured.items() if size is not None},
        pool_tokens=min(pool_bytes) // unit if pool_bytes and unit else None,
        context_per_sequence_tokens=_context(found, geometry, asked),
        all_long={setting: fit for setting, (_, fit) in pools.items() if fit is not None},
        substitute=substitute,
    )


def _asked(found: GridEvidence, classes: Sequence[ClassLengths], setting: int) -> Asked:
    grid = found.grid
    return Asked(
        classes=classes,
        turns=grid.workload.turns,
        in_flight=in_flight(terms(grid), setting),
        max_vram_share=found.limits.max_vram_share,
        managed=grid.managed,
    )


def _pool(
    found: GridEvidence, geometry: Geometry, asked: Asked, summaries: Sequence[CellSummary], one: Foreseen | None
) -> tuple[float | None, int | None]:
    """(bytes, sequences if all are long) of the KV pool that all sequences share: as the runtime reports it, else as it is
    predicted. None where slots have room of their own, or nobody knows."""
    launch = foreseen.launch_at(found.grid.runtime, asked)
    keeping = keeping_of(launch)
    unit, tokens = token_bytes(geometry, keeping), foreseen.longest_tokens(asked, found.grid.runtime)
    reported = [gauge.peak for summary in summaries if (gauge := summary.gauge(KV_CAPACITY)) is not None]
    size: float | None = min(reported) * unit if reported else None
    if size is None and one is not None:
        size = one.prediction.pool_bytes
    if size is None and launch.unified and launch.context_tokens:
        size = launch.context_tokens * unit
    if not size or tokens is None:
        return None, None
    each = sequence_bytes(geometry, tokens, keeping).bound_bytes
    return size, int(size // each) if each else None


def _context(found: GridEvidence, geometry: Geometry, asked: dict[int, Asked]) -> float | None:
    """Tokens that one sequence may have: as registered, else as the launch line divides them, the least of all settings."""
    runtime = found.grid.runtime
    if runtime.context_per_sequence_tokens:
        return runtime.context_per_sequence_tokens
    launches = [foreseen.launch_at(runtime, one) for one in asked.values()]
    told = [slot_tokens(launch, geometry.context_tokens) for launch in launches if launch.unified is False]
    return min((tokens for tokens in told if tokens is not None), default=None)
