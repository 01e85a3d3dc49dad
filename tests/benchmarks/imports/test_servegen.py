"""ServeGen's files: rates without lengths, densities without requests; nothing in them is evaluated."""

from __future__ import annotations

import json

import pytest

from benchmarks.imports.servegen import Densities, RateProfile
from benchmarks.imports.trace_text import TraceRefused
from benchmarks.imports.traces import read_trace
from tests.benchmarks.imports.files import csv, file


def densities(*windows: dict[str, str]) -> bytes:
    return json.dumps({str(600 * n): window for n, window in enumerate(windows)}, indent=2).encode()


def window(prompt: str, output: str = "{10: 1.0}") -> dict[str, str]:
    return {"input_tokens": prompt, "output_tokens": output, "reason_ratio": "{}"}


def test_rates_of_one_client_are_a_profile_of_steps() -> None:
    profile = read_trace(file("servegen_deepseek-r1_chunk-1-trace.csv"))
    assert isinstance(profile, RateProfile)
    assert (profile.window_s, len(profile.steps()), profile.steps()[0]) == (600.0, 144, (600.0, 0.105))
    assert profile.rate_per_s == pytest.approx(0.1252, abs=5e-5)
    assert profile.peak_to_mean == pytest.approx(3.968, abs=5e-4)
    assert profile.gap_cv_p50 == pytest.approx(0.948, abs=5e-4)


def test_a_window_without_requests_has_no_family_and_a_rate_of_zero() -> None:
    profile = read_trace(csv("0,1.5,8.6,Weibull,0.37,0.39", "600,0,0,,0,0", "1200,0.5,2,Gamma,0.2,1"))
    assert isinstance(profile, RateProfile)
    assert profile.steps() == ((600.0, 1.5), (600.0, 0.0), (600.0, 0.5))
    assert (profile.gap_cv_p50, profile.peak_to_mean) == (8.6, pytest.approx(2.25))


def test_a_client_that_never_sends_has_neither_peak_nor_burstiness() -> None:
    profile = read_trace(csv("0,0,0,,0,0", "600,0,0,,0,0"))
    assert isinstance(profile, RateProfile)
    assert (profile.rate_per_s, profile.peak_to_mean, profile.gap_cv_p50) == (0.0, None, None)


@pytest.mark.parametrize(
    "rows, said",
    [
        (("0,1,1,Gamma,1,1", "600,1,1,Cauchy,1,1"), "Row 2 is not a row of rates"),
        (("0,1,1,Gamma,1,1", "600,1"), "Row 2 is not a row of rates"),
        (("0,1,1,Gamma,1,1", "600,1,1,Gamma,1,1", "1300,1,1,Gamma,1,1"), "must follow each other evenly"),
        (("0,1,1,Gamma,1,1", "600,-1,1,Gamma,1,1"), "no rate may be below zero"),
        (("0,1,1,Gamma,1,1", "600,inf,1,Gamma,1,1"), "must follow each other evenly"),
        (("600,1,1,Gamma,1,1", "0,1,1,Gamma,1,1"), "must follow each other evenly"),
    ],
)
def test_rates_that_do_not_fit_together_are_refused(rows: tuple[str, ...], said: str) -> None:
    with pytest.raises(TraceRefused, match=said):
        read_trace(csv(*rows))


def test_densities_become_quantiles_of_each_length_by_itself() -> None:
    found = read_trace(densities(window("{1: 0.5, 3: 0.5}"), window("{}"), window("{5: 1.0}", "{}")))
    assert isinstance(found, Densities)
    assert (found.windows, found.source) == (3, "ServeGen, Alibaba (Apache-2.0)")
    assert [dict(found.prompt_points)[share] for share in (0.0, 0.25, 0.5, 0.75, 1.0)] == [1, 1, 3, 5, 5]
    assert {tokens for _, tokens in found.output_points} == {10.0}
    assert found.notes == ("Windows count alike: the file does not say how many requests each had.",)


def test_lengths_of_zero_are_windows_without_requests_and_images_are_left_out() -> None:
    found = read_trace(file("servegen_mm-image_chunk-16-dataset.json"))
    assert isinstance(found, Densities)
    assert {tokens for _, tokens in found.prompt_points} == {57.0}
    assert found.notes[-1] == "Text tokens only: images, sound and video are left out."


@pytest.mark.parametrize(
    "text",
    [
        "{__import__('os').system('true'): 1.0}",
        "{10: __import__('os').getpid()}",
        "{10: 1.0}; 5",
        "[10, 1.0]",
        "{10}",
        "{-5: 1.0}",
        "{10: -1.0}",
        "{10: nan}",
        "{99999999: 1.0}",
        "{1.5: 1.0}",
        "{10: {11: 1.0}}",
    ],
)
def test_a_printed_dictionary_is_read_by_its_own_grammar_and_nothing_else_passes(text: str) -> None:
    with pytest.raises(TraceRefused, match="is not a"):
        read_trace(densities(window(text)))


@pytest.mark.parametrize(
    "data, said",
    [
        (densities({"tokens": "{1: 1.0}"}), "no densities called input_tokens"),
        (densities(window("{}"), window("{0: 1.0}")), "The densities of input_tokens are all empty."),
        (b"{}", "no densities called"),
    ],
)
def test_windows_without_lengths_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(TraceRefused, match=said):
        read_trace(data)
