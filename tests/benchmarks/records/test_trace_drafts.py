"""What a trace file offers to be registered, as it is kept: whole tokens, plain weights, whose trace it is."""

from __future__ import annotations

import pytest

from benchmarks.imports.trace_text import TraceRefused
from benchmarks.records.lengths import fault
from benchmarks.records.trace_drafts import MOST_ARRIVALS, draft_of, notes_text, source_line
from tests.benchmarks.imports.files import file, own
from tests.benchmarks.imports.test_trace_facts import fake_burstgpt

EVERY = (
    "azure2023_code_head300.csv", "azure2023_conv_head300.csv", "burstgpt_1_head42.csv", "dynamo_mooncake_tiny.jsonl",
    "mooncake_synthetic_lengths_all.jsonl.gz", "servegen_mm-image_chunk-16-dataset.json",
    "vidur_arxiv_summarization_head200.csv", "vidur_splitwise_code_head60.csv",
)  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_every_class_of_a_draft_can_be_kept_as_it_is(name: str) -> None:
    draft = draft_of(file(name))
    assert sum(c.weight for c in draft.classes) == pytest.approx(1.0, abs=1e-9)
    for each in draft.classes:
        assert (fault(each.prompt_tokens), fault(each.output_tokens)) == (None, None)
        assert each.weight == round(each.weight, 4)
    assert len(source_line(draft)) <= 200
    assert draft.sha256 in notes_text(draft)


def test_a_fake_burstgpt_is_not_credited_to_burstgpt() -> None:
    draft = draft_of(fake_burstgpt())
    assert source_line(draft) == f"Own trace file; 500 requests, SHA-256 {draft.sha256[:12]}"
    assert "Do not name BurstGPT as the source." in notes_text(draft)
    assert source_line(draft_of(file("burstgpt_1_head42.csv"))).startswith(
        "BurstGPT, HPMLL; Wang et al. (CC BY 4.0); 38 "
    )


def test_reuse_of_prefixes_in_the_trace_asks_for_a_declaration() -> None:
    assert (
        "16\u00a0% of the blocks of these prompts were in an earlier prompt."
        in draft_of(file("dynamo_mooncake_tiny.jsonl")).warnings[-1]
    )


@pytest.mark.parametrize(
    "requests, kept", [(1, 0), (2, 2), (MOST_ARRIVALS, MOST_ARRIVALS), (MOST_ARRIVALS + 1, MOST_ARRIVALS)]
)
def test_the_first_arrivals_are_kept(requests: int, kept: int) -> None:
    times = tuple(0.5 * n + 0.01 * (n % 7) for n in range(requests))
    draft = draft_of(own(*((10 + n % 90, 5 + n % 40) for n in range(requests)), times=times))
    assert len(draft.arrivals_s) == kept
    assert draft.arrivals_s == tuple(sorted(draft.arrivals_s))


def test_requests_that_all_came_at_once_have_no_arrivals_to_keep() -> None:
    assert draft_of(own((5, 6), (7, 8), times=(3.0, 3.0))).arrivals_s == ()


def test_rates_without_lengths_are_refused() -> None:
    with pytest.raises(TraceRefused, match="This file holds rates"):
        draft_of(file("servegen_deepseek-r1_chunk-1-trace.csv"))
