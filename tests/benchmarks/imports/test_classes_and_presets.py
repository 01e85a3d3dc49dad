"""Classes out of traces keep shares, quantiles and how the two lengths depend; presets equal what was measured."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.imports.classes import MOST_PAIRS, TracedClass, classes_of_shares, classes_of_trace
from benchmarks.imports.preset_table import PRESETS, preset_called
from benchmarks.imports.presets import Preset, classes_of
from benchmarks.imports.trace_facts import ranks
from benchmarks.imports.traces import Trace, read_trace
from tests.benchmarks.imports.files import file, own

MEASURED: dict[str, Any] = json.loads(file("presets_measured.json"))
POINTS = {0: "min", 0.01: "p1", 0.05: "p5", 0.1: "p10", 0.25: "p25", 0.5: "p50", 0.75: "p75", 0.9: "p90", 0.95: "p95",
          0.99: "p99", 1: "max"}  # fmt: skip


def trace_of(data: bytes) -> Trace:
    trace = read_trace(data)
    assert isinstance(trace, Trace)
    return trace


def together(classes: list[TracedClass]) -> tuple[np.ndarray, np.ndarray]:
    """All pairs, those of a class as often as its weight asks (quarters)."""
    both = [pair for c in classes for pair in (c.pairs or ()) * round(c.weight * 4)]
    return np.array([p for p, _ in both]), np.array([o for _, o in both])


def rank_correlation(prompt: np.ndarray, output: np.ndarray) -> float:
    return float(np.corrcoef(ranks(prompt), ranks(output))[0, 1])


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.key)
def test_every_preset_holds_the_measured_figures(preset: Preset) -> None:
    measured = MEASURED[preset.key.replace("-", "_")]
    for points, name in ((preset.prompt_points, "prompt_tokens"), (preset.output_points, "output_tokens")):
        expected = {share: measured[name][word] for share, word in POINTS.items() if word in measured[name]}
        assert dict(points) == ({0: 1} | expected)
    shares = measured.get("length_class_shares", {}).get("share")
    assert preset.shares == (None if shares is None else tuple(map(tuple, shares)))
    assert (preset.rows, preset.spearman) == (measured["rows"], measured.get("spearman"))


def test_each_preset_is_found_by_its_key_and_no_other_is() -> None:
    assert [preset_called(preset.key) for preset in PRESETS] == list(PRESETS)
    assert preset_called("azure") is None


@pytest.mark.parametrize("preset", [p for p in PRESETS if p.shares], ids=lambda p: p.key)
def test_the_pairs_of_a_preset_keep_its_quantiles_its_shares_and_its_rank_correlation(preset: Preset) -> None:
    assert preset.shares is not None
    assert preset.spearman is not None
    prompt, output = together(classes_of(preset))
    for tokens, points in ((prompt, preset.prompt_points), (output, preset.output_points)):
        for share in (0.1, 0.25, 0.5, 0.75, 0.9):
            assert np.quantile(tokens, share) == pytest.approx(dict(points)[share], rel=0.12, abs=2)
    # Between two measured points lengths lie on a line, so a share up to a length in between is only nearly met.
    answers = np.digitize(output, (64, 256, 1024), right=True)
    columns = [sum(row[n] for row in preset.shares) for n in range(4)]
    assert [float((answers == n).mean()) for n in range(4)] == pytest.approx(columns, abs=0.07)
    assert rank_correlation(prompt, output) == pytest.approx(preset.spearman, abs=0.08)


def test_shares_that_run_against_each_other_give_pairs_that_do() -> None:
    prompt, output = ((0.0, 1.0), (0.5, 512.0), (1.0, 2000.0)), ((0.0, 1.0), (0.5, 64.0), (1.0, 250.0))
    none = (0.0,) * 4
    against = together(classes_of_shares(prompt, output, ((0.0, 0.5, 0.0, 0.0), (0.5, 0.0, 0.0, 0.0), none, none)))
    along = together(classes_of_shares(prompt, output, ((0.5, 0.0, 0.0, 0.0), (0.0, 0.5, 0.0, 0.0), none, none)))
    assert (rank_correlation(*against) < -0.7, rank_correlation(*along) > 0.7) == (True, True)
    assert against[1][against[0] <= 512].min() >= 64


def test_a_preset_without_measured_shares_draws_each_length_by_itself() -> None:
    preset = preset_called("servegen-reason-deepseek-r1")
    assert preset is not None
    assert {(c.pairs, c.output_points) for c in classes_of(preset)} == {(None, preset.output_points)}


def test_a_trace_becomes_a_quarter_a_half_and_a_quarter_of_its_prompts() -> None:
    trace = trace_of(file("mooncake_synthetic_lengths_all.jsonl.gz"))
    classes = classes_of_trace(trace)
    assert [(c.name, c.weight, len(c.pairs or ())) for c in classes] == [
        ("short", 0.25, MOST_PAIRS), ("median", 0.5, MOST_PAIRS), ("long", 0.25, MOST_PAIRS),
    ]  # fmt: skip
    assert sum(c.weight for c in classes) == pytest.approx(1.0)
    prompt, output = together(classes)
    assert rank_correlation(prompt, output) == pytest.approx(-0.5166, abs=0.03)
    for tokens, whole in ((prompt, trace.prompt_tokens), (output, trace.output_tokens)):
        for share in (0.1, 0.5, 0.9, 0.95):
            assert np.quantile(tokens, share) == pytest.approx(np.quantile(whole, share), rel=0.08, abs=3)


def test_every_pair_of_a_class_is_a_request_of_the_trace_and_classes_do_not_overlap() -> None:
    trace = trace_of(file("azure2023_conv_head300.csv"))
    requests = set(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))
    short, median, long = classes_of_trace(trace)
    for each in (short, median, long):
        assert set(each.pairs or ()) <= requests
        assert (each.prompt_points[0][1], each.output_points[-1][1]) == (
            min(p for p, _ in each.pairs or ()), max(o for _, o in each.pairs or ()),
        )  # fmt: skip
    assert short.prompt_points[-1][1] <= median.prompt_points[0][1]
    assert median.prompt_points[-1][1] <= long.prompt_points[0][1]


@pytest.mark.parametrize("count, names", [(1, ["all"]), (39, ["all"]), (40, ["short", "median", "long"])])
def test_too_few_requests_are_one_class(count: int, names: list[str]) -> None:
    classes = classes_of_trace(trace_of(own(*((10 + n, 5) for n in range(count)))))
    assert [c.name for c in classes] == names
    assert sum(len(c.pairs or ()) for c in classes) == count
