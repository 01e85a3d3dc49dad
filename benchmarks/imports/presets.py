"""Length presets measured on public request traces, with attribution and licence. The figures stand in preset_table.

Each preset is cut at p25 and p75 of the prompts into short, median and long. Where the shares of prompt classes by answer
classes were measured too, prompts and answers are drawn as pairs with these shares, so that a long prompt has the answers
that long prompts have; where they were not published, each length is drawn by itself. Where a trace publishes no least
length, 1 token stands for p0. Mooncake's synthetic trace is left out: shares of classes keep only three fifths of its
rank correlation of -0.52. Import the file itself to have its pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.imports.classes import TracedClass, classes_of_points, classes_of_shares
from benchmarks.imports.servegen import Points


@dataclass(frozen=True, slots=True)
class Preset:
    """One trace: points are (share from 0 to 1, tokens). `rows`, `spearman` and `shares` are None where not published."""

    key: str
    title: str
    attribution: str
    licence: str
    file: str
    rows: int | None
    spearman: float | None
    prompt_points: Points
    output_points: Points
    shares: tuple[tuple[float, ...], ...] | None

    @property
    def source(self) -> str:
        """One line for the workload's row: trace, licence, how it was cut."""
        return f"{self.attribution} ({self.licence}), cut at p25 and p75 of the prompts"

    @property
    def dependence(self) -> str:
        if self.spearman is None:
            return "how prompt and answer lengths depend on each other was not published"
        return f"rank correlation of prompt and answer length {self.spearman:+.2f}"


def classes_of(preset: Preset) -> list[TracedClass]:
    """Short, median and long: a quarter, a half and a quarter of the trace's requests."""
    if preset.shares is None:
        return classes_of_points(preset.prompt_points, preset.output_points)
    return classes_of_shares(preset.prompt_points, preset.output_points, preset.shares)
