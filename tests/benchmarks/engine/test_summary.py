"""The summary counts everything scheduled, mixes nothing, and never makes a zero of what it does not know."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.engine.columns import NoHeaderError, from_frames
from benchmarks.engine.plan import ClassLimits
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import as_json, from_json
from benchmarks.engine.terms import (
    ClientHealth,
    End,
    NotReported,
    Outcome,
    Phase,
    Reading,
    RequestRecord,
    TokenSource,
    Window,
)
from benchmarks.stats.packed import unpack
from tests.benchmarks.engine.plans import FAILED, MS, S, a_class, a_header, a_plan, a_record

HEALTH = ClientHealth(loop_lag_p99_ms=1.0, cpu_share=0.1, send_late_p99_ms=1.0, client_limited=False)
OPENED = [Window(start_ns=0, end_ns=S), HEALTH]


def ending(sent: int | None) -> End:
    return End(t_ns=2 * S, complete=True, reason="window completed", sent=sent)


def summary(*frames, limits: ClassLimits = ClassLimits(), **plan_changes):  # noqa: B008 a frozen value
    plan = a_plan(**({"classes": (a_class(limits=limits),)} | plan_changes))
    sent = sum(isinstance(frame, RequestRecord) for frame in frames)
    return summarise(from_frames([a_header(plan), *frames, *OPENED, ending(sent)]), plan)


def short(*frames, **changes):
    return summary(*frames, **changes).of_class("short")


def test_times_are_the_users_from_the_scheduled_moment():
    found = short(*[a_record(i) for i in range(20)])
    assert found.e2e_s.p50.value == pytest.approx(0.100)
    assert found.ttft_s.p95.value == pytest.approx(0.010)


def test_tpot_divides_by_the_tokens_after_the_first():
    assert short(a_record(0)).tpot_s.p50.value == pytest.approx(0.009)  # 90 ms over 10 tokens


def test_tpot_leaves_out_all_tokens_of_the_first_chunk_where_they_are_known():
    assert short(a_record(0, first_chunk_tokens=2)).tpot_s.p50.value == pytest.approx(0.010)  # 90 ms over 9


@pytest.mark.parametrize("tokens", [None, 0, 1])
def test_one_token_or_none_counted_has_no_tpot(tokens):
    assert short(a_record(0, output_tokens=tokens)).tpot_s.p50.n == 0


def test_failures_are_infinite_where_users_are_judged_and_absent_where_successes_are():
    records = [a_record(i) for i in range(90)]
    records += [a_record(i, outcome=Outcome.REJECTED, **FAILED) for i in range(90, 100)]
    found = short(*records)
    assert (found.e2e_s.p95.value, found.ttft_s.p95.value, found.tpot_s.p95.value) == (math.inf, math.inf, math.inf)
    assert (found.e2e_ok_s.p95.n, found.e2e_ok_s.p95.value) == (90, pytest.approx(0.1))
    assert (found.tpot_ok_s.p95.n, found.tpot_ok_s.p95.value) == (90, pytest.approx(0.009))
    assert (found.success.hits, found.success.n) == (90, 100)


def test_rates_count_successes_only():
    records = [a_record(i) for i in range(3)] + [a_record(3, outcome=Outcome.SERVER_ERROR, **FAILED)]
    found = summary(*records)
    assert (found.completed_per_s, found.output_tokens_per_s) == (3.0, 33.0)


def test_every_outcome_is_counted_and_the_sum_is_the_scheduled():
    records = [a_record(i, outcome=outcome, **FAILED) for i, outcome in enumerate(Outcome) if outcome is not Outcome.OK]
    found = summary(a_record(0), *records)
    assert found.outcomes == {outcome.value: 1 for outcome in Outcome}
    assert found.conserved
    assert found.scheduled == len(Outcome)


@pytest.mark.parametrize("indices", [(0, 2), (0, 0), (1, 2)])
def test_a_lost_or_doubled_record_breaks_conservation(indices):
    assert summary(*[a_record(i) for i in indices]).conserved is False


@pytest.mark.parametrize("sent, conserved", [(3, True), (4, False), (2, False), (None, None)])
def test_a_lost_last_record_is_seen_by_the_engines_own_count(sent, conserved):
    plan = a_plan()
    found = summarise(from_frames([a_header(plan), *[a_record(i) for i in range(3)], *OPENED, ending(sent)]), plan)
    assert (found.conserved, found.sent, found.recorded) == (conserved, sent, 3)


def test_warm_up_is_kept_apart():
    found = summary(a_record(0, phase=Phase.WARMUP), a_record(1))
    assert (found.warmup_requests, found.scheduled) == (1, 1)


def test_a_negative_duration_spoils_its_request_and_no_other():
    found = short(a_record(0), a_record(1, t_end_ns=0))
    assert (found.success.hits, found.e2e_ok_s.p50.n, found.e2e_s.p50.n) == (1, 1, 2)


def test_an_answer_in_one_body_has_no_time_to_first_token_neither_good_nor_bad():
    found = short(a_record(0, t_first_ns=None, t_last_ns=None))
    assert (found.ttft_s.p50.n, found.e2e_s.p50.n) == (0, 1)


@pytest.mark.parametrize(
    "limits, good",
    [
        (ClassLimits(e2e_s=0.1), 1),
        (ClassLimits(e2e_s=0.099), 0),
        (ClassLimits(ttft_s=0.01), 1),
        (ClassLimits(ttft_s=0.009), 0),
        (ClassLimits(tpot_s=0.0091), 1),
        (ClassLimits(tpot_s=0.0089), 0),
    ],
)
def test_good_requests_keep_every_limit(limits, good):
    assert short(a_record(0), limits=limits).good.hits == good


@pytest.mark.parametrize("valid, good", [(True, 1), (False, 0), (None, 0)])
def test_a_wrong_answer_is_ok_but_not_good(valid, good):
    found = short(a_record(0, valid=valid))
    assert (found.success.hits, found.good.hits) == (1, good)


@pytest.mark.parametrize("e2e_s, good", [(0.1, 1), (0.0999, 0)])
def test_an_embedding_has_no_answer_to_judge_and_is_good_inside_its_limits(e2e_s, good):
    whole = {"finish_reason": None, "valid": None, "t_first_ns": None, "t_answer_ns": None, "t_last_ns": None}
    found = short(a_record(0, **whole), limits=ClassLimits(e2e_s=e2e_s), stream=False, dialect="openai_embeddings")
    assert (found.good.hits, found.good.n, found.valid.n) == (good, 1, 0)


def test_tokens_nobody_counted_cannot_prove_a_tpot_limit_but_one_token_cannot_break_it():
    limits = ClassLimits(tpot_s=1.0)
    assert short(a_record(0, output_tokens=None), limits=limits).good.hits == 0
    assert short(a_record(0, output_tokens=1), limits=limits).good.hits == 1


def test_a_token_rate_over_some_of_the_answers_is_no_rate():
    uncounted = a_record(1, output_tokens=None, token_source=TokenSource.UNKNOWN)
    found = summary(a_record(0), uncounted)
    assert found.output_tokens_per_s is None
    assert found.of_class("short").token_sources == {"server": 1, "unknown": 1}


@pytest.mark.parametrize("counted, cut", [(96, 0), (95, 0), (94, 1), (110, 0), (None, 0)])
def test_a_prompt_counted_more_than_five_percent_short_was_cut(counted, cut):
    assert short(a_record(0, intended_prompt_tokens=100, prompt_tokens=counted)).truncated_prompts == cut


@pytest.mark.parametrize("got, is_short", [(256, 0), (244, 0), (243, 1), (20, 1)])
def test_an_output_more_than_five_percent_short_is_told(got, is_short):
    assert short(a_record(0, asked_output_tokens=256, output_tokens=got)).short_outputs == is_short


@pytest.mark.parametrize(
    "fields, long",
    [
        ({"output_tokens": 256}, 0),
        ({"output_tokens": 257}, 1),
        ({"output_tokens": 257, "token_source": TokenSource.TOKENIZER}, None),
        ({"output_tokens": None, "token_source": TokenSource.UNKNOWN}, None),
        ({"output_tokens": 257, "batch": 1}, None),
    ],
)
def test_an_answer_longer_than_its_limit_is_told_by_the_servers_own_count_alone(fields, long):
    assert short(a_record(0, asked_output_tokens=256, **fields)).long_outputs == long


def test_in_flight_counts_the_part_of_each_request_inside_the_window():
    half = a_record(0, t_sent_ns=0, t_closed_ns=S // 2)
    across = a_record(1, t_sent_ns=-S, t_closed_ns=5 * S)
    assert summary(half, across).mean_in_flight == 1.5


def test_time_in_flight_is_of_what_was_done_with_inside_the_window_whatever_became_of_it():
    half = a_record(0, t_sent_ns=0, t_closed_ns=S // 2)
    failed = a_record(1, t_sent_ns=-S // 2, t_closed_ns=S // 4, **FAILED)
    after = a_record(2, t_sent_ns=0, t_closed_ns=5 * S)
    found = summary(half, failed, after)
    assert (found.closed_per_s, found.mean_e2e_s) == (2.0, 0.625)
    assert (summary(after).closed_per_s, summary(after).mean_e2e_s) == (0.0, None)


def test_each_time_keeps_what_pooling_takes():
    slow = [a_record(i, t_scheduled_ns=i * MS, t_end_ns=(100 + i) * MS) for i in range(1, 4)]
    found = short(a_record(0), *slow, a_record(4, **FAILED), limits=ClassLimits(e2e_s=0.1005, ttft_s=0.02))
    e2e, ttft, tpot = (found.pools[name] for name in ("e2e_s", "ttft_s", "tpot_s"))
    assert (e2e.n, e2e.failed, e2e.over, e2e.limit_s) == (5, 1, 1, 0.1005)
    assert (ttft.n, ttft.over, tpot.limit_s, tpot.over) == (5, 1, None, None)
    assert np.allclose(unpack(e2e.times)[0], [0.1])
    assert e2e.autocorrelation is not None


def test_the_order_of_issue_and_not_that_of_the_log_makes_the_correlation():
    rising = [a_record(i, t_scheduled_ns=0, t_end_ns=(100 + i) * MS) for i in range(9)]
    assert short(*rising).pools == short(*reversed(rising)).pools


def test_gauges_are_over_the_window_and_keep_source_and_device():
    def reading(t_ns: int, value: float, device: str = "GPU-1") -> Reading:
        return Reading(t_ns=t_ns, name="gpu_power_w", value=value, source="nvml", device=device)

    found = summary(reading(-1, 900.0), reading(1, 100.0), reading(2, 300.0), reading(3, 50.0, "GPU-2"))
    first, second = found.gauges
    assert (first.device, first.n, first.mean, first.low, first.peak) == ("GPU-1", 2, 200.0, 100.0, 300.0)
    assert second.device == "GPU-2"
    assert found.gauge("gpu_power_w") == first
    assert found.gauge("gpu_temperature_c") is None


def test_what_was_not_reported_is_named():
    told = NotReported(name="gpu_power_w", source="nvml", reason="no NVIDIA driver on this host")
    assert summary(told).not_reported == {"gpu_power_w": "nvml: no NVIDIA driver on this host"}


def test_a_log_without_an_end_is_incomplete_and_its_client_is_not_trusted():
    plan = a_plan()
    found = summarise(from_frames([a_header(plan), a_record(0)]), plan)
    assert (found.complete, found.end_reason) == (False, "the log has no end: the engine was killed")
    assert found.client.client_limited
    assert (found.window_s, found.conserved) == (0.0, None)


def test_a_window_that_never_opened_has_no_rates_which_is_not_a_rate_of_zero():
    plan = a_plan()
    found = summarise(from_frames([a_header(plan), a_record(0, phase=Phase.WARMUP), ending(1)]), plan)
    assert (found.completed_per_s, found.good_per_s, found.output_tokens_per_s) == (None, None, None)
    assert summary().completed_per_s == 0.0


def test_an_empty_cell_has_no_numbers_and_does_not_crash():
    found = summary()
    only = found.of_class("short")
    assert (found.scheduled, found.outcomes, found.output_tokens_per_s) == (0, {}, None)
    assert (only.success.value, only.e2e_s.p50.value, only.prompt_tokens_p50) == (None, None, None)


def test_the_start_is_wall_time_by_the_pair_of_clocks():
    assert summary(a_record(0, t_scheduled_ns=5 * MS)).started_at == "2026-11-30T00:53:20.000+00:00"


def test_a_mixed_cell_shows_each_class():
    plan = {"class_name": "mixed", "classes": (a_class("short"), a_class("long"))}
    found = summary(a_record(0), a_record(1, class_name="long"), a_record(2, class_name="long"), **plan)
    assert [(c.class_name, c.scheduled) for c in found.classes] == [("short", 1), ("long", 2)]


def test_words_are_right_by_construction_and_are_named_so():
    assert summary(a_record(0)).validity_by_construction
    assert not summary(a_record(0), task="echo").validity_by_construction


def test_a_summary_survives_json():
    found = summary(a_record(0), a_record(1, outcome=Outcome.REJECTED, **FAILED))
    assert from_json(as_json(found)) == found


def test_a_log_without_its_header_is_refused():
    with pytest.raises(NoHeaderError):
        from_frames([a_record(0)])
