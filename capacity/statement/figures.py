"""The charts of the page as SVG, drawn from the document alone: requests per minute against p95 over objective, and peak
VRAM. Colour never carries meaning alone: failing points are hollow, bars past their limit are hatched, what was confirmed
is a diamond, and the stated setting is named. Lengths are PDF points."""

from __future__ import annotations

from capacity.statement import phrases, svg
from capacity.statement.document import Document, Row
from capacity.statement.phrases import GIB
from capacity.statement.result_table import has_memory
from capacity.statement.sentences import ENGLISH, Sentences
from capacity.statement.svg import BAD, BAR, FILL, GRID, HEIGHT, LINE, PLOT_END, PLOT_TOP, SOFT, Axis
from capacity.statement.trade_off import trade_off

WIDTH, NARROW = 504.0, 300.0
_HATCH = (
    '<defs><pattern id="{name}" width="4" height="4" patternUnits="userSpaceOnUse">'
    f'<rect width="4" height="4" fill="{BAR}"/>'
    '<path d="M0 4L4 0" stroke="#ffffff" stroke-width="1"/></pattern></defs>'
)


def charts_svg(document: Document, say: Sentences = ENGLISH, *, narrow: bool = False) -> str:
    """Both charts side by side; only the first, wider, where memory is not applicable. `narrow`: one above the other, for a
    telephone."""
    memory, hatch = has_memory(document), "hn" if narrow else "h"
    width, height = (NARROW, HEIGHT * (1 + memory)) if narrow else (WIDTH, HEIGHT)
    parts = trade_off(document, 352.0 if memory and not narrow else width, say)
    if memory and narrow:
        parts += [f'<g transform="translate(0 {HEIGHT})">', *_memory(document, 44.0, width - 10, hatch, say), "</g>"]
    elif memory:
        parts += _memory(document, 388.0, WIDTH - 6, hatch, say)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return head + _HATCH.format(name=hatch) + "".join(parts) + "</svg>"


def _memory(document: Document, start: float, end: float, hatch: str, say: Sentences) -> list[str]:
    limit = None if document.memory.limit_bytes is None else document.memory.limit_bytes / GIB
    peaks = [row.peak_vram_bytes / GIB for row in document.rows if isinstance(row.peak_vram_bytes, int)]
    axis = svg.axis(0.0, max([*peaks, limit or 0.0]) * 1.04, start=start, end=end)
    slot = (PLOT_END - PLOT_TOP) / len(document.rows)
    parts = []
    for tick in axis.ticks()[:: 2 if len(axis.ticks()) > 5 else 1]:
        parts.append(svg.line(axis.at(tick), PLOT_TOP, axis.at(tick), PLOT_END, GRID, 0.5))
        parts.append(svg.text(axis.at(tick), PLOT_END + 12, f"{tick:g}", anchor="middle", colour=SOFT))
    for place, row in enumerate(document.rows):
        parts += _bar(row, axis, PLOT_TOP + slot * (place + 0.5), min(13.0, slot * 0.62), limit, hatch, say)
    if limit is not None:
        parts.append(svg.line(axis.at(limit), PLOT_TOP, axis.at(limit), PLOT_END, BAD, 1.0, dash="4 3"))
    title = say("chart.memory") if limit is None else say("chart.memory_limit", limit=f"{limit:.3g}")
    parts.append(svg.text((start + end) / 2, PLOT_END + 26, title, anchor="middle", colour=SOFT))
    parts.append(svg.line(start, PLOT_TOP, start, PLOT_END, LINE, 0.75))
    parts.append(
        svg.text(start - 14, PLOT_TOP - 8, phrases.capital(phrases.term_name(document.setting, say)), colour=SOFT)
    )
    return parts


def _bar(
    row: Row, axis: Axis, middle: float, thick: float, limit: float | None, hatch: str, say: Sentences
) -> list[str]:  # fmt: skip
    weight = 600 if row.chosen else 400
    label = svg.text(axis.start - 5, middle + 2.8, f"{row.setting}", anchor="end", colour=SOFT, weight=weight)
    if not isinstance(row.peak_vram_bytes, int):
        return [label, svg.text(axis.start + 4, middle + 2.8, phrases.gib(row.peak_vram_bytes, say), colour=SOFT)]
    peak = row.peak_vram_bytes / GIB
    past = limit is not None and peak > limit
    width = axis.at(peak) - axis.start
    bar = svg.rect(
        axis.start, middle - thick / 2, width, thick, f"url(#{hatch})" if past else FILL if row.chosen else BAR
    )
    words, size = f"{peak:.1f}", min(8.0, thick + 0.5)
    if width < len(words) * svg.LETTER + 10:
        return [label, bar, svg.text(axis.start + width + 3, middle + size * 0.35, words, size=size)]
    back = svg.rect(axis.start, middle - thick / 2, 24, thick, BAR) if past else ""
    return [label, bar, back, svg.text(axis.start + 4, middle + size * 0.35, words, colour="#ffffff", size=size)]
