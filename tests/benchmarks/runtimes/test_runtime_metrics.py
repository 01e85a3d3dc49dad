"""Metrics of each runtime under our names, on dumps of real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.runtimes.metrics import (
    CANONICAL,
    NO_SHARE,
    NOT_FINITE,
    NOT_JSON,
    NOT_REPORTED,
    aliases_of,
    poll_every_s,
    read_metrics,
)
from benchmarks.runtimes.prometheus import MAX_WARNINGS, parse

DUMPS = Path(__file__).parents[2] / "data" / "metrics"

VLLM_COMMON = {
    "running": 0.0,
    "waiting": 0.0,
    "kv_usage": 0.0,
    "preemptions_total": 0.0,
    "prompt_tokens_total": 5.0,
    "generation_tokens_total": 7.0,
}
PREFIX = {"prefix_hit_tokens_total": 64.0, "prefix_query_tokens_total": 117.0}
TRTLLM = {"running": 0.0, "waiting": 1.0, "kv_usage": 1 / 6239, "kv_capacity_tokens": 6239.0 * 64}
NO_QUEUE = {"queue_time_s_total": 0.0, "queue_count_total": 0.0}
LLAMACPP = {"running": 0.0, "waiting": 0.0, "prompt_tokens_total": 143.0, "generation_tokens_total": 673.0}


READ: list[tuple[str, str, dict[str, float]]] = [
    ("llamacpp_2025-02_after_requests.txt", "llamacpp", {**LLAMACPP, "kv_usage": 0.0}),
    (
        "llamacpp_2025-02_idle_NAN.txt",
        "llamacpp",
        {**LLAMACPP, "prompt_tokens_total": 0.0, "generation_tokens_total": 0.0, "kv_usage": 0.0},
    ),
    ("llamacpp_2026_no_kv_gauges.txt", "llamacpp", LLAMACPP),
    (
        "sglang_llama8b_overloaded.txt",
        "sglang",
        {
            "running": 162.0,
            "waiting": 2826.0,
            "kv_usage": 0.28,
            "prompt_tokens_total": 8128902.0,
            "generation_tokens_total": 7557572.0,
            "prefix_hit_share": 0.007507552643049313,
        },
    ),
    ("tgi_excerpt_dict_in_label.txt", "tgi", {"running": 0.0, "waiting": 0.0}),
    (
        "triton_densenet_t4.txt",
        "triton",
        {"waiting": 0.0, "queue_time_s_total": 145 * 0.000001, "queue_count_total": 3.0},
    ),
    ("triton_trtllm_inflight.txt", "triton", {**TRTLLM, **NO_QUEUE}),
    ("triton_trtllm_inflight.txt", "trtllm", TRTLLM),
    ("triton_trtllm_v1_model.txt", "triton", {"waiting": 0.0, **NO_QUEUE}),
    ("vllm_2024_old_names_opt125m.txt", "vllm", VLLM_COMMON),
    ("vllm_mixed_old_and_new_names_opt125m.txt", "vllm", {**VLLM_COMMON, **PREFIX}),
    ("vllm_v1_new_names_subset_opt125m.txt", "vllm", {**VLLM_COMMON, **PREFIX}),
]


@pytest.mark.parametrize(("dump", "kind", "values"), READ)
def test_each_dump_gives_exactly_these_values_and_names_the_rest(
    dump: str, kind: str, values: dict[str, float]
) -> None:
    reading = read_metrics(kind, (DUMPS / dump).read_text(encoding="utf-8"))
    assert reading.values == values
    assert set(reading.matched) == set(values)
    assert set(reading.missing) == set(CANONICAL) - set(values)
    assert set(reading.missing.values()) == {NOT_REPORTED}
    assert reading.warnings == ()


def test_every_dump_is_read_by_some_row() -> None:
    assert {path.name for path in DUMPS.iterdir()} == {dump for dump, _, _ in READ}


@pytest.mark.parametrize(
    ("dump", "alias"),
    [
        ("vllm_2024_old_names_opt125m.txt", "vllm:gpu_cache_usage_perc"),
        ("vllm_mixed_old_and_new_names_opt125m.txt", "vllm:kv_cache_usage_perc"),
        ("vllm_v1_new_names_subset_opt125m.txt", "vllm:kv_cache_usage_perc"),
    ],
)
def test_the_newest_alias_that_is_there_is_the_one_that_matched(dump: str, alias: str) -> None:
    assert read_metrics("vllm", (DUMPS / dump).read_text(encoding="utf-8")).matched["kv_usage"] == alias


@pytest.mark.parametrize("dump", sorted(path.name for path in DUMPS.iterdir()))
def test_an_unnamed_runtime_is_read_by_the_names_of_all(dump: str) -> None:
    text = (DUMPS / dump).read_text(encoding="utf-8")
    assert "waiting" in read_metrics("other", text).values


@pytest.mark.parametrize("written", ["NaN", "-nan", "+Inf", "-Inf", "inf"])
def test_a_value_that_is_no_finite_number_is_missing(written: str) -> None:
    reading = read_metrics("vllm", f"vllm:num_requests_running {written}\nvllm:num_requests_waiting 2\n")
    assert reading.values == {"waiting": 2.0}
    assert reading.missing["running"] == NOT_FINITE


def test_counters_are_summed_over_engines_and_a_share_takes_the_largest() -> None:
    text = "\n".join(
        f'vllm:{name}{{engine="{engine}"}} {value}'
        for name, values in {"num_requests_running": (3, 4), "kv_cache_usage_perc": (0.2, 0.9)}.items()
        for engine, value in enumerate(values)
    )
    reading = read_metrics("vllm", text)
    assert (reading.values["running"], reading.values["kv_usage"]) == (7.0, 0.9)


def test_rejections_are_summed_over_their_reasons() -> None:
    text = (
        'vllm:admission_rejections_total{reason="max_num_queued_reqs"} 3\n'
        'vllm:admission_rejections_total{reason="max_num_queued_tokens"} 2\n'
    )
    assert read_metrics("vllm", text).values["rejected_total"] == 5.0


def test_a_label_chooses_the_series_and_may_hold_the_value() -> None:
    text = (
        'tgi_request_failure{err="overloaded"} 4\ntgi_request_failure{err="dropped"} 9\n'
        'vllm:cache_config_info{kv_cache_size_tokens="8192"} 1\n'
    )
    assert read_metrics("tgi", text).values == {"rejected_total": 4.0, "aborted_total": 9.0}
    assert read_metrics("vllm", text).values == {"kv_capacity_tokens": 8192.0}


def test_a_ratio_over_nothing_is_missing() -> None:
    text = (
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used"} 0\n'
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max"} 0\n'
    )
    assert read_metrics("triton", text).missing["kv_usage"] == NOT_FINITE


def test_a_runtime_without_metrics_reports_nothing() -> None:
    reading = read_metrics("ollama", "anything 1\n")
    assert reading.values == {}
    assert set(reading.missing.values()) == {NOT_REPORTED}


def test_every_alias_of_every_runtime_can_be_read() -> None:
    assert {kind: read_metrics(kind, "").values for kind in ("other", "vllm", "tgi", "triton", "trtllm")} == {
        "other": {},
        "vllm": {},
        "tgi": {},
        "triton": {},
        "trtllm": {},
    }
    assert set(aliases_of("other")) | set(aliases_of("other", json=True)) == set(CANONICAL)


SLOTS = """[{"id": 0, "n_ctx": 2048, "is_processing": true, "next_token": {"n_remain": 8}},
            {"id": 1, "n_ctx": 2048, "is_processing": false}]"""
LOADS = """{"dp_rank_count": 2, "loads": [
    {"dp_rank": 0, "num_running_reqs": 3, "num_waiting_reqs": 2, "token_usage": 0.2, "max_total_num_tokens": 1000},
    {"dp_rank": 1, "num_running_reqs": 7, "num_waiting_reqs": 5, "token_usage": 0.9, "max_total_num_tokens": 1000}]}"""
ITERATIONS = """[{"iter": 6, "numActiveRequests": 99},
    {"iter": 7, "numActiveRequests": 5, "numQueuedRequests": 3,
     "kvCacheStats": {"usedNumBlocks": 600, "maxNumBlocks": 1000, "tokensPerBlock": 64, "cacheHitRate": 0.85}}]"""
ITERATION = {"running": 5.0, "waiting": 3.0, "kv_usage": 0.6, "kv_capacity_tokens": 64000.0, "prefix_hit_share": 0.85}


@pytest.mark.parametrize(
    ("kind", "page", "values"),
    [
        (
            "ollama",
            '{"models": [{"name": "a", "size": 7, "size_vram": 5}, {"name": "b", "size": 3, "size_vram": 3}]}',
            {"loaded_bytes": 10.0, "loaded_vram_bytes": 8.0},
        ),
        ("ollama", '{"models": []}', {}),
        ("llamacpp", SLOTS, {"running": 1.0}),
        ("sglang", LOADS, {"running": 10.0, "waiting": 7.0, "kv_usage": 0.9, "kv_capacity_tokens": 2000.0}),
        ("trtllm", ITERATIONS, ITERATION),
        ("triton", ITERATIONS, ITERATION),
        ("trtllm", "[]", {}),
        ("other", SLOTS, {"running": 1.0}),
        ("vllm", SLOTS, {}),
    ],
)
def test_a_json_page_is_read_under_the_same_names(kind: str, page: str, values: dict[str, float]) -> None:
    reading = read_metrics(kind, page)
    assert reading.values == values
    assert set(reading.missing) == set(CANONICAL) - set(values)


def test_a_json_page_that_is_cut_or_holds_no_number_says_so() -> None:
    assert set(read_metrics("sglang", LOADS[:40]).missing.values()) == {NOT_JSON}
    odd = read_metrics("sglang", '{"loads": [{"num_running_reqs": "three", "token_usage": null}]}')
    assert (odd.missing["running"], odd.missing["kv_usage"]) == (NOT_FINITE, NOT_FINITE)


@pytest.mark.parametrize(("written", "missing"), [("-1", NO_SHARE), ("1.5", NO_SHARE), ("0", None), ("1", None)])
def test_a_rate_that_stands_for_never_is_no_share(written: str, missing: str | None) -> None:
    reading = read_metrics("vllm", f"vllm:gpu_prefix_cache_hit_rate {written}\n")
    assert reading.missing.get("prefix_hit_share") == missing


def test_queue_time_is_the_sum_and_count_of_the_runtimes_histogram() -> None:
    text = (
        'vllm:request_queue_time_seconds_bucket{le="0.3"} 2\nvllm:request_queue_time_seconds_bucket{le="+Inf"} 4\n'
        "vllm:request_queue_time_seconds_sum 12.5\nvllm:request_queue_time_seconds_count 4\n"
    )
    assert read_metrics("vllm", text).values == {"queue_time_s_total": 12.5, "queue_count_total": 4.0}


def test_the_stamp_of_a_line_is_kept_with_the_value() -> None:
    reading = read_metrics("vllm", "vllm:num_requests_running 1 1700000000123\nvllm:num_requests_waiting 2\n")
    assert reading.stamped_ms == {"running": 1700000000123}


@pytest.mark.parametrize(
    ("kind", "every_s"), [("simulator", 0.2), ("llamacpp", 2.0), ("other", 2.0), ("nobody knows it", 2.0)]
)
def test_how_often_a_runtime_may_be_asked_is_a_fact_of_it(kind: str, every_s: float) -> None:
    assert poll_every_s(kind) == every_s


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("a 1", {}, 1.0),
        ("a{} 1", {}, 1.0),
        ('a{b="c"} 1.5e3', {"b": "c"}, 1500.0),
        ('a{b="c",} 1', {"b": "c"}, 1.0),
        ('a{b="c", d="e"} 1 1700000000000', {"b": "c", "d": "e"}, 1.0),
        ('a{b="with } and , and = and \\"quote\\""} 2', {"b": 'with } and , and = and "quote"'}, 2.0),
        ("a{b=\"{'method': 'prefill'}\"} 2", {"b": "{'method': 'prefill'}"}, 2.0),
        ('a{b="x\\\\y\\nz"} 2', {"b": "x\\y\nz"}, 2.0),
        ('a{b="c"} 3 # {trace="x"} 0.5', {"b": "c"}, 3.0),
        ("a 1\r", {}, 1.0),
        ('a{b="\u2028"} 1', {"b": "\u2028"}, 1.0),
        ("a NaN", {}, None),
    ],
)
def test_a_line_of_prometheus_text_is_read(line: str, labels: dict[str, str], value: float | None) -> None:
    exposition = parse(line)
    assert [(dict(s.labels), s.value) for s in exposition.samples] == [(labels, value)]
    assert exposition.warnings == ()


@pytest.mark.parametrize("line", ["a", "a b", "a{b=c} 1", 'a{b="c} 1', "{} 1", "1 1", "<html>", "a 1 2 3 4"])
def test_a_bad_line_is_skipped_with_a_warning_and_the_rest_is_kept(line: str) -> None:
    exposition = parse(f"before 1\n{line}\nafter 2\n")
    assert [sample.name for sample in exposition.samples] == ["before", "after"]
    assert exposition.warnings == (f"Line 2 could not be read and was skipped: {line}",)


def test_warnings_are_bounded() -> None:
    assert len(parse("bad line here\n" * 1000).warnings) == MAX_WARNINGS
