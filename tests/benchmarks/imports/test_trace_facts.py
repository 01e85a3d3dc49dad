"""Facts of a trace equal those that other code measured; what they warn of is said, and nothing where all is well."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.imports.trace_facts import Facts, arrivals_of, facts_of, ranks, warnings_about
from benchmarks.imports.traces import Trace, read_trace
from tests.benchmarks.imports.files import csv, file, own

MEASURED = json.loads(file("presets_measured.json"))


def told(data: bytes) -> tuple[Trace, Facts, list[str]]:
    trace = read_trace(data)
    assert isinstance(trace, Trace)
    facts = facts_of(trace)
    return trace, facts, warnings_about(trace, facts)


def quantiles_of(measured: dict[str, float]) -> list[float]:
    return [measured[name] for name in ("min", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max")]


def test_the_facts_of_a_whole_trace_equal_the_measured_ones() -> None:
    measured: dict[str, Any] = MEASURED["mooncake_synthetic"]
    _trace, facts, warnings = told(file("mooncake_synthetic_lengths_all.jsonl.gz"))
    assert (facts.requests, warnings) == (measured["rows"], [])
    for spread, name in ((facts.prompt, "prompt_tokens"), (facts.output, "output_tokens")):
        assert [tokens for _, tokens in spread.points] == pytest.approx(quantiles_of(measured[name]), abs=0.006)
        assert (spread.mean, spread.cv) == pytest.approx((measured[name]["mean"], measured[name]["cv"]), abs=0.006)
    assert (facts.pearson, facts.spearman) == pytest.approx((measured["pearson"], measured["spearman"]), abs=5e-5)
    seen, arrivals = facts.arrivals, measured["arrivals"]
    assert seen is not None
    assert (seen.span_s, seen.rate_per_s, seen.gap_cv, seen.gap_p50_s, seen.gap_p99_s, seen.gap_max_s) == pytest.approx(
        tuple(arrivals[n] for n in ("span_s", "rate_per_s", "iat_cv", "iat_p50_s", "iat_p99_s", "iat_max_s")), abs=0.006
    )
    assert seen.zero_gap_share == pytest.approx(arrivals["zero_iat_share"], abs=5e-5)
    assert seen.idc == tuple(
        (
            w,
            pytest.approx(arrivals[f"idc_{w:g}s"], abs=0.006),
            pytest.approx(arrivals[f"peak_to_mean_{w:g}s"], abs=0.006),
        )
        for w in (1.0, 10.0, 60.0)
    )


@pytest.mark.parametrize("zeros, known", [(5, True), (6, False)])
def test_above_half_of_zero_gaps_burstiness_is_not_given(zeros: int, known: bool) -> None:
    """Ten gaps: at half it still is."""
    gaps = [0.0] * zeros + [3.0] * (10 - zeros)
    arrivals = arrivals_of(np.cumsum([0.0, *gaps]))
    assert ((arrivals.gap_cv is not None), arrivals.quantum_s) == (known, None if known else 3.0)


def test_quantised_stamps_lose_their_narrow_windows_too_and_are_warned_about() -> None:
    steps = np.repeat(np.arange(60) * 3.0, 5)
    times = tuple(steps.tolist())
    _trace, facts, warnings = told(own(*((100 + n, 50 + n % 7) for n in range(300)), times=times))
    assert facts.arrivals is not None
    assert [idc is None for _, idc, _ in facts.arrivals.idc] == [True, False, True]
    assert warnings == [
        "80\u00a0% of the gaps between requests are zero: the time stamps move in steps of about 3 s, so how bursty the arrivals "
        "are cannot be said, and a replay sends packets."
    ]


def test_a_trace_of_a_hundred_years_is_counted_in_the_memory_of_its_requests() -> None:
    arrivals = arrivals_of(np.array([0.0, 0.5, 1.5e9, 3.1e9]))
    assert arrivals.idc[0] == (1.0, pytest.approx(5 / 3, abs=1e-6), pytest.approx(2 * 3.1e9 / 3, rel=1e-6))


def test_equal_values_have_the_mean_of_their_ranks() -> None:
    assert ranks(np.array([30, 10, 20, 20])).tolist() == [4.0, 1.0, 2.5, 2.5]


def test_a_length_that_never_changes_has_no_correlation() -> None:
    facts = told(own(*((5, n) for n in range(1, 60))))[1]
    assert (facts.pearson, facts.spearman, facts.prompt.cv) == (None, None, 0.0)


def fake_burstgpt(count: int = 500) -> bytes:
    dice = np.random.default_rng(3)
    prompt, output = dice.integers(10, 100, count), dice.integers(10, 100, count)
    lengths = enumerate(zip(prompt.tolist(), output.tolist(), strict=True))
    rows = (f"{n},{('ChatGPT', 'GPT-4')[n % 2]},{p},{o},{p + o},API log" for n, (p, o) in lengths)
    return csv("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", *rows)


def test_a_fake_burstgpt_is_found_by_its_numbers() -> None:
    assert told(fake_burstgpt())[2] == [
        "Prompt and answer lengths are spread evenly between their least and most: made by a program.",
        "Each request comes 1 s after the last one, always. Users do not arrive so.",
        "This has BurstGPT's columns but not its data. Do not name BurstGPT as the source.",
    ]


@pytest.mark.parametrize("name", ["azure2023_code_head300.csv", "azure2023_conv_head300.csv"])
def test_real_traces_are_not_taken_for_made_up_ones(name: str) -> None:
    assert told(file(name))[2] == []


def varied(count: int) -> list[tuple[int, int]]:
    return [(10 + n * n % 977, 5 + n * n * n % 53) for n in range(count)]


@pytest.mark.parametrize(
    "data, warnings",
    [
        (own(*varied(40)), []),
        (own(*varied(39)), ["39 requests only: the tails of these lengths are not known."]),
        (
            own(*varied(40), (7, 0), (0, 7)),
            ["2 requests (4.8\u00a0%) have no prompt or no answer tokens: failed, and left out."],
        ),
        (
            own(*varied(40), times=tuple(n * n - 60.0 * (n % 20 == 19) for n in range(1, 41))),
            ["In 1 row the time stamp lies before the one above it. The requests were put in order."],
        ),
        (
            own(*((5, 6),) * 40),
            ["All requests have the same lengths. Production varies; this was made by a program."],
        ),
        (
            own(*varied(40), times=tuple(0.25 * n for n in range(40))),
            ["Each request comes 0.25 s after the last one, always. Users do not arrive so."],
        ),
        (
            own(*varied(40), times=(7.0,) * 40),
            ["All requests have the same time stamp: the file says nothing about arrivals."],
        ),
    ],
)
def test_what_a_person_must_know_of_a_trace_is_said(data: bytes, warnings: list[str]) -> None:
    assert told(data)[2] == warnings
