"""From a trace file to what a person may register: length classes, arrivals, where they come from, what to know."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.engine.plan import Quantiles
from benchmarks.imports import classes as traced
from benchmarks.imports.classes import TracedClass
from benchmarks.imports.corpora import corpus_fault
from benchmarks.imports.servegen import Densities, RateProfile
from benchmarks.imports.trace_facts import Facts, facts_of, made_up, warnings_about
from benchmarks.imports.trace_layouts import Columns
from benchmarks.imports.trace_text import TraceRefused
from benchmarks.imports.traces import NO_COLUMNS, Trace, read_trace
from benchmarks.records.lengths import ClassLengths
from benchmarks.stats.per_cent import per_cent

MOST_ARRIVALS = 10_000  # kept with a workload; a longer trace is cut to its first ones
_DIGITS = 4  # a tenth of a millisecond


@dataclass(frozen=True, slots=True)
class TraceDraft:
    """`source` is empty where the file does not say whose it is. `facts` is None for densities, which list no requests.
    `arrivals_s`: the first arrivals, seconds after the first; empty without times."""

    title: str
    source: str
    sha256: str
    classes: tuple[ClassLengths, ...]
    arrivals_s: tuple[float, ...]
    facts: Facts | None
    prefix_reuse: float | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def draft_of(data: bytes, said: Columns = NO_COLUMNS) -> TraceDraft:
    """Raises TraceRefused with a sentence for the person who gave the file."""
    found = _read(data, said)
    sha256 = hashlib.sha256(data).hexdigest()
    if isinstance(found, RateProfile):
        raise TraceRefused(
            f"This file holds rates ({found.rate_per_s:.3g} requests a second on average) and no lengths. "
            "Give the file of densities that belongs to it, or a trace of requests."
        )
    if isinstance(found, Densities):
        classes = traced.classes_of_densities(found)
        return TraceDraft("ServeGen densities", found.source, sha256, _kept(classes), (), None, None, found.notes, ())
    facts = facts_of(found)
    return TraceDraft(
        title=found.title,
        source="" if made_up(found.layout, facts) else found.source,
        sha256=sha256,
        classes=_kept(traced.classes_of_trace(found)),
        arrivals_s=_arrivals(found),
        facts=facts,
        prefix_reuse=found.prefix_reuse,
        notes=found.notes,
        warnings=(*warnings_about(found, facts), *_undeclared(found.prefix_reuse)),
    )


def _read(data: bytes, said: Columns) -> Trace | Densities | RateProfile:
    """A corpus is refused as what it is, whichever rule of the layout it broke first."""
    try:
        return read_trace(data, said)
    except TraceRefused as refused:
        if "Only synthetic" not in str(refused) and (fault := corpus_fault(data)):
            raise TraceRefused(fault) from refused
        raise


def source_line(draft: TraceDraft) -> str:
    """One line for a workload's row: whose trace it is, or that nobody said, and which file."""
    whose = draft.source or "Own trace file"
    count = f"{draft.facts.requests:,} requests, " if draft.facts else ""
    return f"{whose}; {count}SHA-256 {draft.sha256[:12]}"


def notes_text(draft: TraceDraft) -> str:
    """What was said when the file was read, for the notes of the workload."""
    return "\n".join([f"Lengths from a trace file with SHA-256 {draft.sha256}.", *draft.notes, *draft.warnings])


def _arrivals(trace: Trace) -> tuple[float, ...]:
    if trace.offsets_s is None or len(trace) < 2 or trace.offsets_s[-1] <= 0:
        return ()
    return tuple(round(float(offset), _DIGITS) for offset in trace.offsets_s[:MOST_ARRIVALS])


def _kept(classes: Sequence[TracedClass]) -> tuple[ClassLengths, ...]:
    """As a row keeps them: whole tokens, weights of four digits, so that a form shows them without a loss."""
    return tuple(
        ClassLengths(c.name, round(c.weight, 4), _whole(c.prompt_points), _whole(c.output_points), c.pairs)
        for c in classes
    )


def _whole(points: Sequence[tuple[float, float]]) -> Quantiles:
    return Quantiles(tuple((share, float(round(tokens))) for share, tokens in points))


def _undeclared(reuse: float | None) -> list[str]:
    if not reuse or reuse < 0.01:
        return []
    return [
        f"{per_cent(reuse)} of the blocks of these prompts were in an earlier prompt. A workload without a shared beginning or "
        "turns has none of that: declare one, or the measured service is colder than the real one."
    ]
