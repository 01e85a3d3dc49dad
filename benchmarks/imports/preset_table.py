"""The presets' figures: quantiles of whole traces in tokens, shares of their length classes. Facts, not rows.

Each quantile is (share from 0 to 1, tokens). `shares`: rows are prompts of up to 512, 2,048, 8,192 and more tokens,
columns answers of up to 64, 256, 1,024 and more.
"""

from __future__ import annotations

from benchmarks.imports.presets import Preset

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
            (0, 2), (0.01, 29), (0.05, 181), (0.1, 207), (0.25, 396), (0.5, 1020),
            (0.75, 1189), (0.9, 2734.5), (0.95, 4083), (0.99, 4142), (1, 14050),
        ),
        output_points=(
            (0, 7), (0.01, 16), (0.05, 41), (0.1, 54), (0.25, 85), (0.5, 129),
            (0.75, 395), (0.9, 424), (0.95, 451), (0.99, 601), (1, 1000),
        ),
        shares=(
            (0.0458, 0.3459, 0.0029, 0.0), (0.026, 0.1065, 0.3333, 0.0),
            (0.0647, 0.0737, 0.0011, 0.0), (0.0001, 0.0, 0.0, 0.0),
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
            (0, 3), (0.01, 17), (0.05, 75), (0.1, 147), (0.25, 578), (0.5, 1469),
            (0.75, 2744.5), (0.9, 5187.6), (0.95, 7303.3), (0.99, 7436), (1, 7437),
        ),
        output_points=(
            (0, 6), (0.01, 6), (0.05, 6), (0.1, 7), (0.25, 9), (0.5, 13),
            (0.75, 24), (0.9, 55), (0.95, 90), (0.99, 251.46), (1, 1899),
        ),
        shares=(
            (0.2132, 0.0172, 0.002, 0.0002), (0.359, 0.0296, 0.0035, 0.0),
            (0.3449, 0.0265, 0.0037, 0.0), (0.0, 0.0, 0.0, 0.0),
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
            (0, 891), (0.01, 894), (0.05, 901), (0.1, 964), (0.25, 2306.5), (0.5, 6909),
            (0.75, 15367), (0.9, 27367), (0.95, 39550.5), (0.99, 85400.4), (1, 126195),
        ),
        output_points=(
            (0, 1), (0.01, 3), (0.05, 10), (0.1, 24), (0.25, 156.5), (0.5, 350),
            (0.75, 472), (0.9, 597), (0.95, 698), (0.99, 1118.5), (1, 2000),
        ),
        shares=(
            (0.0, 0.0, 0.0, 0.0), (0.0495, 0.0504, 0.1317, 0.0016),
            (0.0464, 0.0619, 0.2054, 0.0034), (0.0721, 0.069, 0.3012, 0.0076),
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
            (0, 1), (0.01, 73), (0.05, 748.6), (0.1, 1242), (0.25, 1986), (0.5, 2730),
            (0.75, 3370), (0.9, 3702), (0.95, 3813), (0.99, 3933.44), (1, 4054),
        ),
        output_points=(
            (0, 5), (0.01, 36), (0.05, 60), (0.1, 78), (0.25, 115), (0.5, 167),
            (0.75, 242), (0.9, 372), (0.95, 736.2), (0.99, 3271.32), (1, 4056),
        ),
        shares=(
            (0.001, 0.0034, 0.0019, 0.0282), (0.0156, 0.1628, 0.0413, 0.0139),
            (0.0398, 0.5547, 0.1359, 0.0015), (0.0, 0.0, 0.0, 0.0),
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
            (0, 1), (0.05, 13), (0.25, 41), (0.5, 208), (0.75, 482), (0.9, 2092),
            (0.95, 6714), (0.99, 23423), (1, 57284),
        ),
        output_points=(
            (0, 1), (0.05, 225), (0.25, 427), (0.5, 792), (0.75, 1499), (0.9, 3432),
            (0.95, 5701), (0.99, 12607), (1, 32768),
        ),
        shares=None,
    ),
)  # fmt: skip


def preset_called(key: str) -> Preset | None:
    return next((preset for preset in PRESETS if preset.key == key), None)
