"""The seven cases: each found, not found, to be watched and not tested, by a grid of facts of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from benchmarks.engine.plan import GridLimits, ObjectiveTerms, RetryPolicy
from benchmarks.engine.probe_plan import Fairness, Overload, RetryStorm
from benchmarks.engine.summary_types import Gauge
from benchmarks.engine.verdicts import NOT_JUDGED
from capacity.assessment.diagnosis import KEYS, tally
from capacity.assessment.facts import WAITING, GridFacts, LengthFacts, MemoryFacts
from capacity.assessment.verdict import Found
from tests.capacity import fixtures_judge as fx
from tests.capacity import synthetic as made
from tests.capacity.assessment import probes

Make = Callable[[], GridFacts]


def lengths(**more: Any) -> GridFacts:
    return fx.complete(lengths=replace(fx.LENGTHS, **more))


def published(sentence: str) -> GridFacts:
    return fx.with_terms(fx.complete(), published=sentence)


def overload(word: str, **figures: float | None) -> GridFacts:
    told = {"refused": 0.3, "offered": 15.0, "time_to_reject_p95": 0.02, "with_retry_after": 1.0, **figures}
    return fx.complete(probes=fx.instead(probes.fact(Overload(), word, cell_id=902, **told)))


def fairness(alone: float | None, beside: float | None, *, ratio: float | None, setting: int = 4) -> GridFacts:
    told = {"p95_alone": alone, "p95_beside": beside, "p95_ratio": ratio}
    return fx.complete(probes=fx.instead(probes.fact(Fairness(), "watch", cell_id=901, setting=setting, **told)))


def memory(**more: Any) -> GridFacts:
    return fx.complete(memory=replace(fx.MEMORY, **more))


def retry(policy: RetryPolicy | None) -> GridFacts:
    return fx.with_terms(fx.complete(), retry=policy)


def few() -> GridFacts:
    return fx.complete(measured=fx.cells({1: (0.25, 10), 2: (0.33, 18), 4: (0.6, 25), 8: (1.4, 31)}))


def unmeasured() -> GridFacts:
    return made.facts([made.cell(1, 4, "short", None, status="planned")], asked=fx.limits())


def waiting(peak: float) -> GridFacts:
    gauge = Gauge(name=WAITING, source="test", device="", n=54, mean=peak / 2, low=0.0, peak=peak)
    return fx.complete(confirmations=(fx.confirming(gauges=(gauge,)),))


def unvalidated() -> GridFacts:
    """As embeddings are: nothing was looked at."""
    found = []
    for cell in fx.cells({1: (0.25, 300), 2: (0.33, 540), 4: (0.6, 900)}):
        assert cell.summary is not None
        none = replace(cell.summary.classes[0].valid, hits=0, n=0, value=None, lower=None, upper=None)
        parts = tuple(replace(part, valid=none) for part in cell.summary.classes)
        found.append(replace(cell, summary=replace(cell.summary, classes=parts)))
    return fx.complete(measured=tuple(found))


def half_wrong() -> GridFacts:
    """A lenient objective: the median must be in time, so almost half of what ends is late."""
    return fx.complete(
        measured=fx.cells({1: (1.5, 300), 2: (1.4, 540), 4: (1.44, 900), 8: (3.0, 930)}),
        asked=replace(fx.limits(percentile=50.0, success_share=0.5)),
    )


NARROW = {"p10_tokens": 180, "p90_tokens": 200}
CASES: list[tuple[str, Found, Make, str]] = [
    ("identical-prompts", Found.FOUND, lambda: lengths(**NARROW), "a ratio of 1.11"),
    ("identical-prompts", Found.FOUND, lambda: lengths(repeated_share=0.06), "6.0\u00a0% of the prompts are repeated"),
    ("identical-prompts", Found.FOUND, lambda: lengths(cached_share=0.4), "40\u00a0% of prompt tokens from its prefix cache"),
    ("identical-prompts", Found.NOT_FOUND, fx.complete, "a ratio of 9.48"),
    ("identical-prompts", Found.NOT_FOUND, lambda: lengths(repeated_share=0.05), "5.0\u00a0% of the prompts"),
    ("identical-prompts", Found.NOT_FOUND, lambda: lengths(cached_share=0.4, declared_prefix_share=0.5), "50\u00a0% is declared"),
    ("identical-prompts", Found.WATCH, lambda: lengths(classes=1), "one length class only"),
    ("identical-prompts", Found.WATCH, lambda: lengths(p95_tokens=1399), "1,399 tokens, under the 1,400 of production"),
    ("identical-prompts", Found.NOT_TESTED, lambda: fx.with_terms(fx.complete(), production=None), "No production mix"),
    ("identical-prompts", Found.NOT_TESTED, lambda: fx.complete(lengths=None), "lengths of the prompts are not known"),
    ("average-only", Found.FOUND, lambda: published("Answers take 2 s on average."), "names no percentile"),
    ("average-only", Found.FOUND, lambda: fx.complete(asked=GridLimits(success_share=0.9)), "limits no percentile"),
    ("average-only", Found.NOT_FOUND, fx.complete, "p95 of short is 0.60 s"),
    ("average-only", Found.NOT_FOUND, lambda: published("p95 is 0.7 s (n = 2,700)."), "a percentile and its n"),
    ("average-only", Found.NOT_FOUND, lambda: published("The 95th percentile of 2700 requests is 0.7 s."), "its n"),
    ("average-only", Found.WATCH, lambda: published("p95 is 0.7 s."), "without its n"),
    ("average-only", Found.WATCH, lambda: published("p95 is 0.7 s at 57 requests a minute."), "without its n"),
    ("average-only", Found.WATCH, few, "more are needed for a bound"),
    ("average-only", Found.NOT_TESTED, unmeasured, "No latency is recorded"),
    ("unbounded-queue", Found.FOUND, lambda: overload("queues_without_bound", refused=0.0, wait_growth_at_least=0.31),
     "grew by at least 0.31 s each second"),
    ("unbounded-queue", Found.FOUND, lambda: waiting(9), "up to 9 requests waited, over the cap of 8 (n = 54 readings)"),
    ("unbounded-queue", Found.NOT_FOUND, fx.complete, "30\u00a0% were refused (n = 60), p95 after 0.02 s"),
    ("unbounded-queue", Found.NOT_FOUND, lambda: overload("kept_up", refused=0.0, wait_growth_at_least=-0.1, offered=30.0),
     "no wait grew"),
    ("unbounded-queue", Found.WATCH, lambda: overload("refused_late", time_to_reject_p95=1.2), "1.20 s (limit 1 s)"),
    ("unbounded-queue", Found.WATCH, lambda: overload("refused_without_retry_after", with_retry_after=0.9),
     "90\u00a0% of the refusals said when to come back"),
    ("unbounded-queue", Found.WATCH, lambda: overload("fails", refused=0.0, failed=0.5), "50\u00a0% of requests broke"),
    ("unbounded-queue", Found.NOT_TESTED, lambda: fx.complete(probes=fx.without("overload")), "No overload probe ran"),
    ("unbounded-queue", Found.NOT_TESTED, lambda: overload(NOT_JUDGED), "could not be judged"),
    ("unbounded-queue", Found.NOT_TESTED, lambda: overload("kept_up", refused=0.0, offered=9.0), "was not beyond capacity"),
    ("long-blocks-short", Found.FOUND, lambda: fairness(0.3, 0.63, ratio=2.1), "2.10 times as long (n = 60)"),
    ("long-blocks-short", Found.FOUND, lambda: fairness(0.9, 1.1, ratio=1.22), "their objective is 1 s"),
    ("long-blocks-short", Found.NOT_FOUND, lambda: fairness(0.5, 0.65, ratio=1.3), "1.30 times"),
    ("long-blocks-short", Found.WATCH, lambda: fairness(0.5, 0.66, ratio=1.32), "1.32 times"),
    ("long-blocks-short", Found.WATCH, lambda: fairness(0.3, 0.6, ratio=2.0), "2.00 times"),
    ("long-blocks-short", Found.NOT_TESTED, lambda: fx.complete(probes=fx.without("fairness")), "No fairness probe ran"),
    ("long-blocks-short", Found.NOT_TESTED,
     lambda: fx.complete(probes=fx.without("fairness"), lengths=replace(fx.LENGTHS, classes=1)), "one length class only"),
    ("parallelism-without-kv", Found.FOUND, lambda: fx.complete(measured=fx.cells(preempted={8: 2})), "At 8 in flight: "),
    ("parallelism-without-kv", Found.FOUND, lambda: memory(all_long={8: 3, 4: 3}), "holds 3 sequences of 4,200 tokens, and 4"),
    ("parallelism-without-kv", Found.FOUND, lambda: memory(all_long={}, pool_tokens=16_000), "holds 3 sequences of 4,200"),
    ("parallelism-without-kv", Found.FOUND, lambda: memory(context_per_sequence_tokens=4096), "may have 4,096 tokens"),
    ("parallelism-without-kv", Found.NOT_FOUND, fx.complete, "4.2\u00a0% apart"),
    ("parallelism-without-kv", Found.WATCH, lambda: memory(measured_bytes={4: 14.0 * fx.GIB}), "17\u00a0% more"),
    ("parallelism-without-kv", Found.NOT_TESTED, lambda: fx.complete(memory=MemoryFacts(reason="No config.json.")),
     "No config.json"),
    ("immediate-retries", Found.FOUND, lambda: retry(RetryPolicy(kind="immediate", tries=3)), "at once, up to 3 times"),
    ("immediate-retries", Found.FOUND, lambda: retry(RetryPolicy(kind="backoff", tries=3, base_s=0.0)), "at once"),
    ("immediate-retries", Found.FOUND,
     lambda: fx.complete(confirmations=(fx.confirming(attempts_per_request=1.51),)), "1.51 attempts per request (n = 900)"),
    ("immediate-retries", Found.NOT_FOUND, fx.complete,
     "1.08 attempts per request with backoff and budget, 3.10 at once (n = 60)"),
    ("immediate-retries", Found.NOT_FOUND, lambda: retry(RetryPolicy(kind="none")), "do not try again"),
    ("immediate-retries", Found.WATCH, lambda: retry(replace(fx.CAREFUL, jitter=False)), "It lacks jitter."),
    ("immediate-retries", Found.WATCH, lambda: retry(replace(fx.CAREFUL, honours_retry_after=False)), "respect for Retry-After"),
    ("immediate-retries", Found.WATCH, lambda: retry(replace(fx.CAREFUL, budget_share=None)), "a retry budget"),
    ("immediate-retries", Found.NOT_TESTED, lambda: retry(None), "Nobody declared"),
    ("tokens-per-second", Found.FOUND, lambda: published("312 tokens/s, p95 0.7 s (n = 900)"), "a rate of tokens"),
    ("tokens-per-second", Found.FOUND, half_wrong, "completed requests a minute were successful"),
    ("tokens-per-second", Found.NOT_FOUND, fx.complete, "600.0 successful requests a minute of 600.0 completed"),
    ("tokens-per-second", Found.WATCH, lambda: fx.complete(measured=fx.cells(by_construction=True)), "by construction"),
    ("tokens-per-second", Found.NOT_TESTED, unvalidated, "No answer was validated"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "found", "make", "says"), CASES)
def test_each_case_is_told_by_its_rule_with_its_number(key: str, found: Found, make: Make, says: str) -> None:
    one = fx.finding(make(), key)
    assert one.found == found, one.evidence
    assert says in " ".join(one.evidence)
    assert one.doc == key
    assert bool(one.next_cell or one.remedy) is (found != Found.NOT_FOUND)


def test_every_case_has_every_answer() -> None:
    assert {(key, found) for key, found, _, _ in CASES} == {(key, found) for key in KEYS for found in Found}


@pytest.mark.parametrize("make", [fx.complete, unmeasured, lambda: made.facts([]), few])
def test_there_are_always_seven_in_the_same_order(make: Make) -> None:
    assert tuple(one.key for one in fx.verdict(make()).findings) == KEYS


def test_what_is_found_above_the_chosen_setting_is_told_there_and_blocks_nothing() -> None:
    one = fx.finding(fx.complete(measured=fx.cells(preempted={8: 2})), "parallelism-without-kv")
    assert (one.settings, one.blocks, one.word) == ((8,), False, "Found at 8 in flight")
    assert fx.verdict(fx.complete(measured=fx.cells(preempted={8: 2}))).recommended == 4


def test_what_is_found_of_the_chosen_setting_blocks() -> None:
    one = fx.finding(memory(all_long={4: 3, 8: 3}), "parallelism-without-kv")
    assert (one.settings, one.blocks) == ((4, 8), True)


def test_a_fairness_probe_elsewhere_speaks_for_a_setting_that_nobody_probed() -> None:
    """p95 of short requests over their objective only beside long ones, at 2 in flight; 4 was not probed."""
    facts = fairness(0.9, 1.1, ratio=1.22, setting=2)
    one = fx.finding(facts, "long-blocks-short")
    assert (one.settings, one.blocks) == ((2,), True)


def test_a_published_sentence_is_found_and_keeps_no_result_from_being_complete() -> None:
    found = fx.verdict(published("Fast, 2 s on average."))
    assert found.findings[1].found == Found.FOUND
    assert not found.findings[1].blocks
    assert found.grade == "complete"


def test_what_our_method_excludes_is_said_and_not_claimed_as_a_test() -> None:
    assert fx.finding(fx.complete(), "average-only").by_construction
    assert not fx.finding(published("p95 is 0.7 s (n = 2,700)."), "average-only").by_construction


def test_waiting_over_the_cap_of_an_open_loop_that_differs_says_nothing_of_this_grid() -> None:
    one = waiting(9).confirmations[0]
    facts = fx.complete(confirmations=(replace(one, differs=("another driver",)),))
    assert fx.finding(facts, "unbounded-queue").found == Found.NOT_FOUND


def test_a_storm_that_multiplies_in_spite_of_backoff_is_found_where_that_is_what_clients_do() -> None:
    storm = probes.fact(RetryStorm(), "amplifies", cell_id=904, budgeted_attempts_per_request=1.6)
    facts = fx.complete(probes=fx.instead(storm))
    assert fx.finding(facts, "immediate-retries").found == Found.FOUND
    assert fx.finding(fx.with_terms(facts, retry=None), "immediate-retries").found == Found.NOT_TESTED


def test_facts_of_an_imported_result_are_diagnosed_without_anything_of_our_own_bench() -> None:
    """Percentiles and rates alone: what they cannot tell is not tested."""
    asked = GridLimits(success_share=0.9, classes=made.limits().classes, terms=ObjectiveTerms())
    told = made.facts(fx.cells(repeats=1), asked=asked, lengths=LengthFacts(classes=1))
    found = [one.found for one in fx.verdict(told).findings]
    assert found == [
        Found.NOT_TESTED, Found.NOT_FOUND, Found.NOT_TESTED, Found.NOT_TESTED, Found.NOT_TESTED, Found.NOT_TESTED,
        Found.NOT_FOUND,
    ]  # fmt: skip


def test_the_tally_names_each_answer_once() -> None:
    assert tally(fx.verdict(fx.complete()).findings) == "7 not found"
