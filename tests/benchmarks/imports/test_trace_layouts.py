"""Public layouts are known by their columns, with the traps of each; own files by names that people give."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from benchmarks.imports.trace_layouts import Columns
from benchmarks.imports.traces import Trace, read_trace
from tests.benchmarks.imports.files import csv, file, jsonl, own

SPLITWISE = "Azure LLM inference trace 2023, Azure Public Dataset; Patel et al., Splitwise, ISCA 2024 (CC BY 4.0)"
BURSTGPT = "BurstGPT, HPMLL; Wang et al. (CC BY 4.0)"
MOONCAKE = "Mooncake FAST25 release; Qin et al., Mooncake, FAST 2025 (Apache-2.0)"
VIDUR = "Vidur, Microsoft (MIT)"


def trace_of(data: bytes, **said: str) -> Trace:
    found = read_trace(data, Columns(**said))
    assert isinstance(found, Trace)
    return found


def begin(trace: Trace, count: int = 3) -> list[tuple[float | None, int, int]]:
    times: Any = trace.offsets_s.tolist() if trace.offsets_s is not None else [None] * len(trace)
    rows = zip(times, trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
    return [(t if t is None else round(t, 6), p, o) for t, p, o in rows][:count]


@pytest.mark.parametrize(
    "name, layout, requests, source, first",
    [
        ("azure2023_code_head300.csv", "azure", 300, SPLITWISE, [(0.0, 4808, 10), (0.052, 3180, 8), (0.098189, 110, 27)]),
        ("azure2023_conv_head300.csv", "azure", 300, SPLITWISE, [(0.0, 374, 44), (4.314579, 396, 109), (4.541877, 879, 55)]),
        ("burstgpt_1_head42.csv", "burstgpt", 38, BURSTGPT, [(0.0, 472, 18), (40.0, 1087, 230), (113.0, 417, 276)]),
        ("burstgpt_3_head4.csv", "burstgpt-sessions", 4, BURSTGPT, [(0.0, 906, 446), (51.0, 36, 29), (82.0, 1779, 123)]),
        ("dynamo_mooncake_tiny.jsonl", "mooncake", 16, MOONCAKE, [(0.0, 6755, 500), (0.0, 7319, 490), (0.0, 7234, 794)]),
        (
            "mooncake_synthetic_lengths_all.jsonl.gz", "mooncake-counts", 3993, MOONCAKE,
            [(0.0, 40160, 6), (0.0, 36640, 4), (0.04, 23769, 3)],
        ),
        (
            "vidur_arxiv_summarization_head200.csv", "vidur-lengths", 200, VIDUR,
            [(None, 3772, 54), (None, 2015, 156), (None, 3858, 133)],
        ),
        ("vidur_splitwise_code_head60.csv", "vidur", 60, VIDUR, [(0.0, 4808, 10), (0.052, 3180, 8), (0.098189, 110, 27)]),
    ],
)  # fmt: skip
def test_a_public_trace_is_known_by_its_columns(
    name: str, layout: str, requests: int, source: str, first: list[tuple[float | None, int, int]]
) -> None:
    trace = trace_of(file(name))
    assert (trace.layout, len(trace), trace.source, begin(trace)) == (layout, requests, source, first)


def test_crlf_and_a_missing_last_line_end_change_nothing() -> None:
    data = file("azure2023_code_head300.csv")
    assert (b"\r\n" in data, data.endswith(b"\n")) == (True, False)
    assert begin(trace_of(data), 300) == begin(trace_of(data.replace(b"\r\n", b"\n") + b"\n"), 300)


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"


@pytest.mark.parametrize(
    "first, second, gap_s",
    [
        ("2023-11-16 18:17:03.9799600", "2023-11-16 18:17:03.9799601", 1e-7),
        ("2024-05-12 00:00:00+00:00", "2024-05-12 00:00:00.500000+00:00", 0.5),
        ("2024-05-12 00:00:00.25Z", "2024-05-12T00:00:01Z", 0.75),
        ("2024-05-12 00:00:00+05:00", "2024-05-11 19:00:01+0000", 1.0),
        ("2024-05-12 00:00:00-0330", "2024-05-12 03:30:02+00", 2.0),
        ("2024-02-28 23:59:59", "2024-03-01 00:00:00", 86401.0),
    ],
)
def test_stamps_with_and_without_zone_and_fraction_are_read_exactly(first: str, second: str, gap_s: float) -> None:
    trace = trace_of(csv(AZURE, f"{first},10,5", f"{second},20,6"))
    assert trace.offsets_s is not None
    assert trace.offsets_s.tolist() == pytest.approx([0.0, gap_s], abs=1e-9)


@pytest.mark.parametrize(
    "header, stamp, cells, source",
    [
        (AZURE, "2023-11-11 00:00:00", "", SPLITWISE),
        (AZURE, "2024-05-10 00:00:00+00:00", "", SPLITWISE.replace("2023", "2024").replace(
            "Patel et al., Splitwise, ISCA 2024", "Stojkovic et al., DynamoLLM, HPCA 2025")),
        ("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens", "2024-10-15 12:00:00", "1,",
         "Azure LLM inference trace 2025, Azure Public Dataset; ModServe, SoCC 2025 (CC BY 4.0)"),
        (AZURE, "2024-10-15 12:00:00", "", ""),
        (AZURE, "2026-01-01 00:00:00", "", ""),
    ],
)  # fmt: skip
def test_azures_releases_are_told_by_their_dates_and_others_files_are_not_credited_to_azure(
    header: str, stamp: str, cells: str, source: str
) -> None:
    assert trace_of(csv(header, f"{stamp},{cells}10,5", f"{stamp},{cells}20,6")).source == source


def test_images_are_mentioned() -> None:
    data = csv("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens", "2024-10-15 1:00:00,0,9,9".replace(" 1:", " 01:"),
               "2024-10-15 01:00:01,2,900,9")  # fmt: skip
    assert trace_of(data).notes == ("50.0\u00a0% of the requests carry images; only their token counts are used.",)


def test_a_failure_of_burstgpt_is_an_answer_of_no_tokens_and_is_left_out_and_counted() -> None:
    trace = trace_of(file("burstgpt_1_head42.csv"))
    assert (len(trace), trace.failures, int(trace.output_tokens.min())) == (38, 4, 11)


def test_a_wrong_total_is_noted() -> None:
    header = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
    trace = trace_of(csv(header, "5,ChatGPT,472,18,490,API log", "6,GPT-4,10,5,16,API log"))
    assert trace.notes == ("In 1 row the total is not the sum of request and response tokens.",)


def test_the_splitwise_copies_say_that_they_are_azures_requests_again() -> None:
    assert (
        "once more: do not count them as a second trace" in trace_of(file("vidur_splitwise_code_head60.csv")).notes[0]
    )
    assert trace_of(file("azure2023_code_head300.csv")).notes == ()


@pytest.mark.parametrize(
    "blocks, share",
    [
        ([[1, 2], [3, 4]], 0.0),
        ([[1, 2], [1, 2]], 0.5),
        ([[1, 2], [1, 3], [1, 3, 4]], 3 / 7),
        ([[1, 2], [3, 2]], 0.0),
        ([[]], None),
    ],
)
def test_prefix_reuse_counts_leading_blocks_that_an_earlier_prompt_had(
    blocks: list[list[int]], share: float | None
) -> None:
    rows = [{"timestamp": n, "input_length": 9, "output_length": 9, "hash_ids": ids} for n, ids in enumerate(blocks)]
    assert trace_of(jsonl(*rows)).prefix_reuse == share


def test_without_the_blocks_themselves_reuse_is_unknown() -> None:
    assert trace_of(file("mooncake_synthetic_lengths_all.jsonl.gz")).prefix_reuse is None
    assert trace_of(file("dynamo_mooncake_tiny.jsonl")).prefix_reuse == pytest.approx(0.15974, abs=1e-5)


def test_qwen_bailian_counts_seconds_and_blocks_of_sixteen() -> None:
    row = {
        "chat_id": 1, "parent_chat_id": -1, "timestamp": 61.5, "input_length": 40, "output_length": 7, "type": "text",
        "turn": 1, "hash_ids": [1, 2, 3],
    }  # fmt: skip
    trace = trace_of(jsonl(row, row | {"chat_id": 2, "parent_chat_id": 1, "timestamp": 63.0, "turn": 2}))
    assert trace.offsets_s is not None
    assert (trace.layout, trace.offsets_s.tolist(), trace.prefix_reuse) == ("qwen-bailian", [0.0, 1.5], 0.5)
    assert trace.notes == ("Blocks of 16 tokens, as the source says.",)


def test_falling_stamps_are_counted_and_the_requests_put_in_order() -> None:
    trace = trace_of(own((10, 1), (20, 2), (30, 3), (40, 4), times=(5.0, 3.0, 4.0, 1.0)))
    assert (trace.falling, begin(trace, 4)) == (2, [(0.0, 40, 4), (2.0, 20, 2), (3.0, 30, 3), (4.0, 10, 1)])


@pytest.mark.parametrize(
    "header, first, times",
    [
        ("input_tokens,output_tokens", "7,8", None),
        ("isl,osl", "7,8", None),
        ("Prompt Tokens;Completion Tokens", "7;8", None),
        ("prompt\tcompletion", "7\t8", None),
        ("timestamp_ms,input_length,output_length", "1500,7,8", 0.25),
        ("arrival_time_ns,input_length,output_length", "1500,7,8", 250e-9),
        ("start_us,input_length,output_length", "1500,7,8", 250e-6),
        ("time,n_prompt,n_gen", "1500,7,8", 250.0),
        ("created_at,prompt_len,output_len", "2026-01-01T00:00:00Z,7,8", 1.0),
    ],
)
def test_an_own_file_is_recognised_by_usual_names_and_its_unit_by_the_name(
    header: str, first: str, times: float | None
) -> None:
    second = first.replace("1500", "1750").replace("00:00:00Z", "00:00:01Z")
    trace = trace_of(csv(header, first, second))
    assert (trace.layout, trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == ("own", [7, 7], [8, 8])
    if times is None:
        assert trace.offsets_s is None
    else:
        assert trace.offsets_s is not None
        assert trace.offsets_s.tolist() == pytest.approx([0.0, times], rel=1e-9)


def test_a_unit_is_said_or_named_and_never_guessed_from_the_size() -> None:
    data = csv("when,p,o", "1700000000000,7,8", "1700000001000,7,8")
    for unit, seconds in (("", 1000.0), ("s", 1000.0), ("ms", 1.0), ("us", 1e-3), ("ns", 1e-6)):
        trace = trace_of(data, prompt="p", output="o", time="when", unit=unit)
        assert trace.offsets_s is not None
        assert trace.offsets_s.tolist() == pytest.approx([0.0, seconds])
    assert trace_of(data, prompt="p", output="o").offsets_s is None


def test_columns_that_a_person_names_come_before_what_is_recognised() -> None:
    data = csv("prompt_tokens,billed_prompt,output_tokens", "7,9,8")
    assert trace_of(data).prompt_tokens.tolist() == [7]
    named = trace_of(data, prompt="Billed Prompt")
    assert (named.prompt_tokens.tolist(), named.notes[0]) == (
        [9], "Prompt tokens were read from “billed_prompt”, answer tokens from “output_tokens”.",
    )  # fmt: skip


def test_a_packed_file_is_unpacked_and_a_byte_order_mark_ignored() -> None:
    data = own((7, 8), (9, 10))
    assert trace_of(gzip.compress(data)).prompt_tokens.tolist() == [7, 9]
    assert trace_of(b"\xef\xbb\xbf" + data).prompt_tokens.tolist() == [7, 9]
