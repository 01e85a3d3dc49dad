"""Reads a public or an own request trace: lengths, arrivals, and what must be said about them.

In scope: the layouts of `trace_layouts`, ServeGen's two (`servegen`), and an own CSV or JSON Lines file whose columns are
recognised or named. Not in scope: texts of prompts, and anything else that is in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.imports import servegen, trace_text
from benchmarks.imports.servegen import Densities, RateProfile
from benchmarks.imports.trace_layouts import AZURE, Columns, Layout, layout_of
from benchmarks.imports.trace_text import Cell, TraceRefused, plain_name
from benchmarks.imports.trace_values import Floats, Whole, seconds, whole_numbers
from benchmarks.stats.per_cent import per_cent

_AZURE_PAPERS = {
    2023: "Patel et al., Splitwise, ISCA 2024",
    2024: "Stojkovic et al., DynamoLLM, HPCA 2025",
    2025: "ModServe, SoCC 2025",
}
# First requests of Azure 2023, by which its copies under other names are known: not to be counted twice.
_AZURE_BEGINS = {
    "code": ((4808, 10), (3180, 8), (110, 27), (7433, 14)),
    "conversation": ((374, 44), (396, 109), (879, 55), (91, 16)),
}
NO_COLUMNS = Columns()


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests of a trace in the order of their arrival.

    `offsets_s`: seconds after the first, shape (n,), None where the file has no times. `prompt_tokens`, `output_tokens`:
    shape (n,), all at least 1. `failures`: requests left out because they had no prompt or no answer. `falling`: stamps
    that lay before the one above them. `prefix_reuse`: share of the prompts' blocks that an endless cache would have held
    from earlier prompts, None where the file lists no blocks.
    """

    layout: str
    title: str
    attribution: str
    licence: str
    offsets_s: Floats | None
    prompt_tokens: Whole
    output_tokens: Whole
    failures: int
    falling: int
    prefix_reuse: float | None
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def source(self) -> str:
        """One line for a workload's row; empty where nobody but the person who gave the file knows."""
        return f"{self.attribution} ({self.licence})" if self.attribution else ""


def read_trace(data: bytes, said: Columns = NO_COLUMNS) -> Trace | Densities | RateProfile:
    """Raises TraceRefused with a sentence for the person who gave the file."""
    text = trace_text.text_of(data)
    begin = text.lstrip()[:1]
    if begin == "[":
        raise TraceRefused("This is one JSON list. Give one JSON object per line, or CSV.")
    if begin == "{":
        densities = servegen.densities_of(text)
        if densities is not None:
            return densities
        records = trace_text.records_of(text)
        names = list(records[0])
        return _trace(names, {name: [record[name] for record in records] for name in names}, said)
    rates = servegen.rates_of(text)
    return rates if rates is not None else _trace_of_table(text, said)


def _trace_of_table(text: str, said: Columns) -> Trace:
    header, cells = trace_text.table_of(text)
    if all(trace_text.is_number(cell) for cell in header):
        raise TraceRefused("The first line must name the columns, such as timestamp,prompt_tokens,output_tokens.")
    if not cells[0]:
        raise TraceRefused("The file has a line of names and no requests.")
    trace_text.refuse_texts(header, [column[0] for column in cells])
    return _trace(header, dict(zip(header, cells, strict=True)), said)


def _trace(names: list[str], columns: Mapping[str, Sequence[Cell]], said: Columns) -> Trace:
    layout, notes = layout_of(names, [columns[name][0] for name in names], said)
    by_plain = {plain_name(name): cells for name, cells in columns.items()}
    written = {plain_name(name): name for name in names}
    prompt = whole_numbers(by_plain[layout.prompt], written[layout.prompt])
    output = whole_numbers(by_plain[layout.output], written[layout.output])
    times = seconds(by_plain[layout.time], written[layout.time], layout.unit) if layout.time else None
    kept = (prompt > 0) & (output > 0)
    if not kept.any():
        raise TraceRefused("Every request in the file failed: none has both prompt tokens and answer tokens.")
    order = np.flatnonzero(kept)
    falling = 0
    if times is not None:
        falling = int((np.diff(times) < 0).sum())
        order = order[np.argsort(times[order], kind="stable")]
    attribution, licence = _attribution(layout, by_plain)
    return Trace(
        layout=layout.key,
        title=layout.title,
        attribution=attribution,
        licence=licence,
        offsets_s=None if times is None else times[order] - times[order[0]],
        prompt_tokens=prompt[order],
        output_tokens=output[order],
        failures=int((~kept).sum()),
        falling=falling,
        prefix_reuse=_prefix_reuse(by_plain.get("hashids")) if layout.block_tokens else None,
        notes=(*notes, *_notes(layout, by_plain, prompt, output), *_copies(layout, prompt, output)),
    )


def _attribution(layout: Layout, columns: Mapping[str, Sequence[Cell]]) -> tuple[str, str]:
    """By the layout; Azure's releases differ by their dates only, and others use its columns too."""
    if not layout.key.startswith("azure"):
        return layout.attribution, layout.licence
    month = str(columns["timestamp"][0])[:7]
    release = {"2023-11": 2023, "2024-05": 2024, "2024-10": 2025}.get(month)
    if release is None or (release == 2025) != (layout.key == "azure-multimodal"):
        return "", ""
    return AZURE.format(year=release, paper=_AZURE_PAPERS[release]), "CC BY 4.0"


def _notes(layout: Layout, columns: Mapping[str, Sequence[Cell]], prompt: Whole, output: Whole) -> list[str]:
    notes = []
    if "numimages" in layout.columns:
        images = whole_numbers(columns["numimages"], "NumImages")
        notes.append(
            f"{per_cent((images > 0).mean(), 1)} of the requests carry images; only their token counts are used."
        )
    if "totaltokens" in layout.columns:
        total = whole_numbers(columns["totaltokens"], "Total tokens")
        wrong = int((total != prompt + output).sum())
        if wrong:
            notes.append(f"In {rows(wrong)} the total is not the sum of request and response tokens.")
    if layout.block_tokens:
        notes.append(f"Blocks of {layout.block_tokens} tokens, as the source says.")
    return notes


def _copies(layout: Layout, prompt: Whole, output: Whole) -> list[str]:
    begin = tuple(zip(prompt[:4].tolist(), output[:4].tolist(), strict=True))
    if layout.key.startswith("azure"):
        return []
    return [
        f"These are the requests of Azure 2023, {name}, once more: do not count them as a second trace. "
        f"Cite {AZURE.format(year=2023, paper=_AZURE_PAPERS[2023])} (CC BY 4.0) too."
        for name, known in _AZURE_BEGINS.items()
        if begin == known
    ]


def _prefix_reuse(cells: Sequence[Cell] | None) -> float | None:
    """Leading blocks that an earlier prompt had, over all blocks: an endless cache, nothing ever thrown out."""
    if cells is None:
        return None
    seen: set[object] = set()
    hits = blocks = 0
    for cell in cells:
        if not isinstance(cell, list):
            raise TraceRefused("“hash_ids” must be a list of block numbers in every row.")
        if not all(isinstance(block, int | str) for block in cell):
            raise TraceRefused("“hash_ids” must hold numbers only.")
        blocks += len(cell)
        for block in cell:
            if block not in seen:
                break
            hits += 1
        seen.update(cell)
    return hits / blocks if blocks else None


def rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
