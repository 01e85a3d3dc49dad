"""Length presets measured on public request traces, with attribution and licence.

Quantiles of each whole trace, in tokens: facts about the traces, not their rows. Where a trace publishes no least
length, 1 token stands for p0. Each preset is cut at p25 and p75 of the prompts into short, median and long; all
classes keep the whole answer distribution, because the rank correlation of prompt and answer length in the traces
kept here is near zero (it is printed with each preset) or was not published. Traces where the two depend on each
other are left out: cutting both at once would invent a dependence that was not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

Points = tuple[tuple[float, float], ...]
CUTS = (("short", 0.0, 0.25), ("median", 0.25, 0.75), ("long", 0.75, 1.0))


@dataclass(frozen=True, slots=True)
class Preset:
    """One trace: points are (share from 0 to 1, tokens). `rows` and `spearman` are None where not published."""

    key: str
    title: str
    attribution: str
    licence: str
    file: str
    rows: int | None
    spearman: float | None
    prompt_points: Points
    output_points: Points

    @property
    def source(self) -> str:
        """One line for the workload's row: trace, licence, how it was cut."""
        return f"{self.attribution} ({self.licence}), cut at p25 and p75 of the prompts"

    @property
    def dependence(self) -> str:
        if self.spearman is None:
            return "how prompt and answer lengths depend on each other was not published"
        return f"rank correlation of prompt and answer length {self.spearman:+.2f}"


@dataclass(frozen=True, slots=True)
class PresetClass:
    name: str
    weight: float
    prompt_points: Points
    output_points: Points


def classes_of(preset: Preset) -> list[PresetClass]:
    """Short, median and long: a quarter, a half and a quarter of the trace's requests."""
    return [
        PresetClass(name, high - low, cut(preset.prompt_points, low, high), preset.output_points)
        for name, low, high in CUTS
    ]


def cut(points: Points, low: float, high: float) -> Points:
    """The part of a quantile function between two of its shares, stretched to run from 0 to 1."""
    inner = [((share - low) / (high - low), tokens) for share, tokens in points if low < share < high]
    return ((0.0, _at(points, low)), *((round(share, 6), tokens) for share, tokens in inner), (1.0, _at(points, high)))


def _at(points: Points, share: float) -> float:
    for (left, below), (right, above) in pairwise(points):
        if share <= right:
            return below + (share - left) / (right - left) * (above - below)
    return points[-1][1]


PRESETS: tuple[Preset, ...] = (
    Preset(
        key="azure2023-conversation",
        title="Chat, Azure 2023",
        attribution="Azure Public Dataset, LLM inference trace 2023, conversation",
        licence="CC BY 4.0",
        file="Azure/AzurePublicDataset data/AzureLLMInferenceTrace_conv.csv",
        rows=19_366,
        spearman=0.0728,
        prompt_points=(
            (0, 2),
            (0.01, 29),
            (0.05, 181),
            (0.1, 207),
            (0.25, 396),
            (0.5, 1020),
            (0.75, 1189),
            (0.9, 2734.5),
            (0.95, 4083),
            (0.99, 4142),
            (1, 14050),
        ),
        output_points=(
            (0, 7),
            (0.01, 16),
            (0.05, 41),
            (0.1, 54),
            (0.25, 85),
            (0.5, 129),
            (0.75, 395),
            (0.9, 424),
            (0.95, 451),
            (0.99, 601),
            (1, 1000),
        ),
    ),
    Preset(
        key="azure2023-code",
        title="Code completion, Azure 2023",
        attribution="Azure Public Dataset, LLM inference trace 2023, code",
        licence="CC BY 4.0",
        file="Azure/AzurePublicDataset data/AzureLLMInferenceTrace_code.csv",
        rows=8_819,
        spearman=-0.0215,
        prompt_points=(
            (0, 3),
            (0.01, 17),
            (0.05, 75),
            (0.1, 147),
            (0.25, 578),
            (0.5, 1469),
            (0.75, 2744.5),
            (0.9, 5187.6),
            (0.95, 7303.3),
            (0.99, 7436),
            (1, 7437),
        ),
        output_points=(
            (0, 6),
            (0.01, 6),
            (0.05, 6),
            (0.1, 7),
            (0.25, 9),
            (0.5, 13),
            (0.75, 24),
            (0.9, 55),
            (0.95, 90),
            (0.99, 251.46),
            (1, 1899),
        ),
    ),
    Preset(
        key="mooncake-conversation",
        title="Long chat, Mooncake 2025",
        attribution="Mooncake FAST25 release, conversation trace",
        licence="Apache-2.0",
        file="kvcache-ai/Mooncake FAST25-release/traces/conversation_trace.jsonl",
        rows=12_031,
        spearman=0.0717,
        prompt_points=(
            (0, 891),
            (0.01, 894),
            (0.05, 901),
            (0.1, 964),
            (0.25, 2306.5),
            (0.5, 6909),
            (0.75, 15367),
            (0.9, 27367),
            (0.95, 39550.5),
            (0.99, 85400.4),
            (1, 126195),
        ),
        output_points=(
            (0, 1),
            (0.01, 3),
            (0.05, 10),
            (0.1, 24),
            (0.25, 156.5),
            (0.5, 350),
            (0.75, 472),
            (0.9, 597),
            (0.95, 698),
            (0.99, 1118.5),
            (1, 2000),
        ),
    ),
    Preset(
        key="vidur-arxiv-summarization",
        title="Document summaries, arXiv",
        attribution="Vidur, arXiv summarisation lengths (prompt and answer filtered to 4,096 tokens)",
        licence="MIT",
        file="microsoft/vidur data/processed_traces/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv",
        rows=28_257,
        spearman=-0.1138,
        prompt_points=(
            (0, 1),
            (0.01, 73),
            (0.05, 748.6),
            (0.1, 1242),
            (0.25, 1986),
            (0.5, 2730),
            (0.75, 3370),
            (0.9, 3702),
            (0.95, 3813),
            (0.99, 3933.44),
            (1, 4054),
        ),
        output_points=(
            (0, 5),
            (0.01, 36),
            (0.05, 60),
            (0.1, 78),
            (0.25, 115),
            (0.5, 167),
            (0.75, 242),
            (0.9, 372),
            (0.95, 736.2),
            (0.99, 3271.32),
            (1, 4056),
        ),
    ),
    Preset(
        key="servegen-reason-deepseek-r1",
        title="Reasoning, ServeGen 2025",
        attribution="ServeGen, reasoning workload deepseek-r1",
        licence="Apache-2.0",
        file="alibaba/ServeGen data/reason/deepseek-r1",
        rows=None,
        spearman=None,
        prompt_points=(
            (0, 1),
            (0.05, 13),
            (0.25, 41),
            (0.5, 208),
            (0.75, 482),
            (0.9, 2092),
            (0.95, 6714),
            (0.99, 23423),
            (1, 57284),
        ),
        output_points=(
            (0, 1),
            (0.05, 225),
            (0.25, 427),
            (0.5, 792),
            (0.75, 1499),
            (0.9, 3432),
            (0.95, 5701),
            (0.99, 12607),
            (1, 32768),
        ),
    ),
)


def preset_called(key: str) -> Preset | None:
    return next((preset for preset in PRESETS if preset.key == key), None)
