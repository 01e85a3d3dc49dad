"""What a probe may come to at most, how it is kept, and that every verdict has a colour and words."""

from __future__ import annotations

import pytest

from benchmarks.engine import verdicts
from benchmarks.engine.probe_plan import (
    BY_NAME,
    Cancellation,
    Fairness,
    Idle,
    LimitsProbe,
    Overload,
    Probe,
    Recovery,
    RetryStorm,
    longest_s,
)
from benchmarks.records import probes
from benchmarks.records.probes import Cost


@pytest.mark.parametrize("name", BY_NAME)
def test_every_probe_and_every_word_it_may_say_is_told_to_people(name: str) -> None:
    words = probes.WORDS[name]
    assert all((words.name, words.question.endswith("?"), words.does.endswith(".")))
    assert set(verdicts.WORDS[name]) <= set(probes.TONES)
    assert probes.TONES[verdicts.NOT_JUDGED] == "idle"


def test_probes_read_back_as_they_were_kept_in_the_order_in_which_they_run() -> None:
    wanted: tuple[Probe, ...] = (Idle(), RetryStorm(burst_s=10.0), Fairness(long_clients=3), RetryStorm())
    kept = probes.plain(wanted)
    assert probes.read(kept) == (Fairness(long_clients=3), RetryStorm(burst_s=10.0), RetryStorm(), Idle())
    assert probes.numbered(kept) == [("fairness", 1), ("retry_storm", 1), ("retry_storm", 2), ("idle", 1)]
    assert probes.probe_of(kept, "retry_storm", 2) == RetryStorm()
    with pytest.raises(ValueError, match="no behaviour probe overload 1"):
        probes.probe_of(kept, "overload", 1)
    with pytest.raises(ValueError, match="These are not behaviour probes"):
        probes.read([{"kind": "gossip"}])


@pytest.mark.parametrize(
    ("probe", "wanted"),
    [
        (Fairness(alone_s=1, beside_s=2, stretch=1), Cost(requests=900, in_flight=3, seconds=3)),
        (
            Overload(capacity_per_s=10, times_capacity=2, overload_s=5, calm_share=0.5, calm_s=1, recovery_s=3, most_in_flight=7),
            Cost(requests=120, in_flight=8, seconds=9),
        ),
        (
            Cancellation(slots=4, tries=2, fill_prompt_tokens=10, fill_output_tokens=100, prefill_prompt_tokens=50),
            Cost(requests=60, in_flight=6, seconds=longest_s(Cancellation(tries=2)), largest_tokens=150),
        ),
        (
            LimitsProbe(context_tokens=100, over=1.5, rate_requests=20, small_prompt_tokens=8, small_output_tokens=2),
            Cost(requests=30, in_flight=1, seconds=10, largest_tokens=160),
        ),
        (Idle(idle_s=20), Cost(requests=0, in_flight=0, seconds=20)),
    ],
)  # fmt: skip
def test_the_cost_of_a_probe_is_its_parameters_added_up(probe: Probe, wanted: Cost) -> None:
    found = probes.cost(probe, 4)
    assert (found.requests, found.in_flight, found.largest_tokens) == (
        wanted.requests, wanted.in_flight, wanted.largest_tokens,
    )  # fmt: skip
    assert found.seconds == longest_s(probe)


def test_a_storm_of_retries_counts_every_try() -> None:
    storm = RetryStorm(
        capacity_per_s=10, times_capacity=2, load_s=5, tries=5, budget_share=0.1, calm_share=0, most_in_flight=30
    )
    assert probes.cost(storm, 1).requests == 100 * 6 + 10
    burst = probes.cost(Recovery(storm_clients=4, storm_s=2, before_s=1, after_s=1, stretch=1, light_every_s=0.5), 1)
    assert burst.requests == 4 * 100 * 2 + 4


def test_tokens_are_of_the_workload_where_a_probe_sends_its_classes_and_else_its_own() -> None:
    assert Cost(requests=10, in_flight=1, seconds=1).tokens(300) == 3000
    assert Cost(requests=10, in_flight=1, seconds=1, largest_tokens=7).tokens(300) == 70


def test_what_is_registered_of_a_runtime_fills_in_only_what_was_left_open() -> None:
    facts = {"slots": 4, "context_tokens": 2048}
    for given, wanted in (
        (Cancellation(), Cancellation(slots=4, prefill_prompt_tokens=744, fill_output_tokens=496)),
        (
            Cancellation(slots=2, fill_output_tokens=50, prefill_prompt_tokens=90),
            Cancellation(slots=2, fill_output_tokens=50, prefill_prompt_tokens=90),
        ),
        (LimitsProbe(), LimitsProbe(context_tokens=2048)),
        (LimitsProbe(context_tokens=512), LimitsProbe(context_tokens=512)),
        (Overload(measure_clients=2), Overload(measure_clients=4)),
        (RetryStorm(measure_clients=8), RetryStorm(measure_clients=8)),
        (Overload(capacity_per_s=3.0, measure_clients=2), Overload(capacity_per_s=3.0, measure_clients=2)),
        (Idle(), Idle()),
    ):
        assert probes.with_facts(given, **facts) == wanted  # type: ignore[arg-type]
