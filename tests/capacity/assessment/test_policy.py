"""What goes with a setting, each figure with where it comes from; and what lies outside what was measured."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from benchmarks.engine.plan import BatchTerms, ClassLimits, GridLimits, ObjectiveTerms, ProductionMix, RetryPolicy
from benchmarks.engine.probe_plan import Cancellation
from capacity.assessment import outside, policy
from capacity.assessment.choose import judge
from capacity.assessment.facts import GridFacts, LengthFacts, MemoryFacts
from capacity.assessment.verdict import PolicyLine, QueueCap, Verdict
from tests.capacity import synthetic as made
from tests.capacity.assessment.probes import fact

LENGTHS = LengthFacts(classes=1, p95_tokens=900.0, longest_tokens=1200.0, longest_output_tokens=256.0)
BATCH = BatchTerms(items=400, window_start="22:00", window_end="06:00", latest_finish="06:30")
KEYS = (
    "active", "queue_cap", "max_input", "max_output", "max_active_tokens", "request_duration", "client_rate",
    "client_active", "batch_lane", "overload_answer", "client_retry", "cancellation", "rollback",
)  # fmt: skip


def facts(limits: GridLimits | None = None, *, lengths: LengthFacts | None = LENGTHS, **terms: object) -> GridFacts:
    asked = replace(limits or made.limits(), terms=ObjectiveTerms(**terms))  # type: ignore[arg-type]
    return replace(made.four_and_eight(), lengths=lengths, limits=asked)


def lines(found: GridFacts) -> dict[str, PolicyLine]:
    return {line.key: line for line in judge(found).policy}


def test_every_control_is_there_with_its_value_and_its_source() -> None:
    found = lines(facts())
    assert tuple(found) == KEYS
    assert all(line.value for line in found.values())
    assert [key for key, line in found.items() if line.value != policy.NOT_SET and not line.source] == []
    assert (found["active"].value, found["active"].number) == ("4", 4.0)


def test_without_a_recommendation_there_is_no_policy() -> None:
    cells = [made.simple_cell(1, 2, p95_s=3.0, n=100)]
    verdict = judge(made.facts(cells))
    assert (verdict.policy, verdict.outside, verdict.below) == ((), (), ())


def test_token_limits_are_the_longest_that_was_tested_and_fit_the_kv_room() -> None:
    found = lines(facts())
    assert (found["max_input"].number, found["max_output"].number) == (1200.0, 256.0)
    assert found["max_active_tokens"].number == 4 * 1456
    roomy = lines(replace(facts(), memory=MemoryFacts(pool_tokens=8192)))["max_active_tokens"]
    assert (roomy.number, "holds 8,192" in roomy.words) == (4 * 1456, True)
    tight = lines(replace(facts(), memory=MemoryFacts(pool_tokens=4096)))["max_active_tokens"]
    assert (tight.number, tight.value) == (4096.0, "4,096")
    assert "not all may be the longest" in tight.words


def test_what_is_not_known_is_not_set_and_says_why() -> None:
    found = lines(facts(lengths=None))
    for key in ("max_input", "max_output", "max_active_tokens"):
        assert (found[key].value, found[key].number) == (policy.NOT_SET, None)
        assert found[key].words


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ({"short": ClassLimits(e2e_s=1.0), "long": ClassLimits(e2e_s=8.0)}, 16.0),
        ({"short": ClassLimits(ttft_s=1.0, tpot_s=0.1)}, 2 * (1.0 + 0.1 * 255)),
        ({"short": ClassLimits(ttft_s=1.0)}, None),
    ],
)
def test_a_request_may_take_twice_its_slowest_limit(limits: dict[str, ClassLimits], seconds: float | None) -> None:
    line = policy._duration(facts(replace(made.limits(), classes=limits)))
    assert line.number == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(("tenants", "active"), [(1, 4), (2, 2), (3, 1), (8, 1)])
def test_a_client_has_an_equal_part_of_the_rate_and_of_the_places(tenants: int, active: int) -> None:
    """No more is stated, and no more may come, than the queue is worked out for: here less than headroom leaves."""
    verdict = judge(facts(tenants=tenants))
    assert verdict.headroom is not None
    assert verdict.queue_cap is not None
    assert verdict.headroom.stated_per_min == verdict.queue_cap.arrivals_per_min
    assert verdict.headroom.stated_per_min < min(513, verdict.headroom.lower_bound_per_min or 0)
    assert "so no more is stated" in verdict.headroom.words
    found = {line.key: line for line in verdict.policy}
    assert found["client_active"].number == active
    assert found["client_rate"].number == pytest.approx(verdict.queue_cap.arrivals_per_min / tenants)
    assert "less than headroom leaves" in found["client_rate"].source


def test_a_batch_has_a_lane_with_its_window_and_checkpoints_of_a_minutes_work() -> None:
    """One place of four does a quarter of the stated rate: 600 a minute less 10 % and 5 % is 513."""
    verdict = judge(facts(batch=BATCH))
    assert verdict.headroom is not None
    found = {line.key: line for line in verdict.policy}
    each = verdict.headroom.stated_per_min / 4
    assert found["batch_lane"].value == "1 of 4 places, 22:00 to 06:00"
    assert found["checkpoint"].number == int(each)
    assert "idempotency key" in found["checkpoint"].words
    assert f"at most {int(each)} items again, about 60 s" in found["checkpoint"].words
    assert "checkpoint" not in lines(facts())
    assert lines(facts())["batch_lane"].value == "closed"


def cap(seconds: int) -> QueueCap:
    return QueueCap(
        arrivals_per_min=30.0, active=4, cap=4, rows=(), interpolated=(), retry_after_s=seconds, words="Four may wait."
    )


def test_retry_after_is_the_queues_or_the_time_in_which_the_places_are_worked_off() -> None:
    row = judge(facts()).chosen
    assert row is not None
    assert policy.retry_after(row, cap(7)) == (7, "Retry-After as computed with the queue cap.")
    slow = replace(row, completed_per_min=50.0)
    assert policy.retry_after(slow, None)[0] == 5  # 4 places at 50 a minute turn over in 4.8 s
    assert policy.retry_after(replace(row, completed_per_min=None), None)[0] == 1
    assert policy._queue(cap(7)).number == 4
    assert policy._queue(replace(cap(7), cap=None)).value == policy.NOT_SET


@pytest.mark.parametrize(
    ("declared", "value", "said"),
    [
        (None, "3 tries, 0.5 to 20 s, budget 10\u00a0% of requests", ""),
        (RetryPolicy(kind="immediate", tries=5), "3 tries, 0.5 to 20 s, budget 10\u00a0% of requests", "(at once): change"),
        (RetryPolicy(kind="backoff", tries=5, jitter=True), "3 tries", "without Retry-After and a budget"),
        (
            RetryPolicy(kind="backoff", tries=4, base_s=1, jitter=True, honours_retry_after=True, budget_share=0.05),
            "4 tries, 1 to 20 s, budget 5\u00a0% of requests", "",
        ),
        (RetryPolicy(kind="none"), "none", ""),
    ],
)  # fmt: skip
def test_clients_keep_their_declared_retries_where_those_are_careful(
    declared: RetryPolicy | None, value: str, said: str
) -> None:
    line = policy._retry(facts(retry=declared))
    assert line.value.startswith(value)
    assert said in line.words
    assert ("change them" in line.words) is bool(said)


def test_cancellation_names_its_probe_or_says_that_it_is_not_shown() -> None:
    without = lines(facts())["cancellation"]
    assert "Not shown: No cancellation probe was drawn." in without.words
    probed = replace(facts(), probes=(fact(Cancellation(slots=4), "frees_in_time", stream_freed_worst=0.31),))
    assert "free after 0.31 s" in lines(probed)["cancellation"].source


def test_arguments_of_an_approved_setting_are_exact() -> None:
    kept = [
        {"key": "queue_cap", "title": "Queue cap", "value": "8"},
        {"key": "max_input", "title": "Maximum input", "value": "not set"},
        {"key": "request_duration", "title": "Request duration", "value": "16 s"},
    ]
    words = policy.as_arguments(4, "llama.cpp", "--parallel 4\n  --ctx-size 8192", kept)
    assert words == (
        "llama.cpp, started with: --parallel 4 --ctx-size 8192. "
        "At the gateway: active requests 4, queue cap 8, request duration 16 s."
    )
    assert "no flags recorded" in policy.as_arguments(4, "llama.cpp", "", [])


# --- rollback --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("previous", "rollback", "said"),
    [
        (None, 2, "2 requests in flight, 360.0"),
        (4, 2, "2 requests in flight, 360.0"),  # the same as now is no way back
        (1, 1, "One request in flight, as approved before. Flags."),
        (6, 6, "6 requests in flight, as approved before. Flags."),  # not measured here, but approved
        (8, 2, "8 requests in flight were approved before and do not hold here"),
    ],
)
def test_the_way_back_is_what_was_approved_before_unless_it_fails_here(
    previous: int | None, rollback: int, said: str
) -> None:
    verdict = judge(replace(facts(), previous_setting=previous, previous_words="Flags."))
    assert verdict.rollback == rollback
    assert said in verdict.rollback_words
    assert {line.key: line for line in verdict.policy}["rollback"].value == verdict.rollback_words


# --- outside ---------------------------------------------------------------------------------------------------------


def told(verdict: Verdict) -> dict[str, str]:
    return {one.key: one.sentence for one in verdict.outside}


def test_between_and_above_the_settings_and_beyond_lengths_and_rates_nothing_is_measured() -> None:
    verdict = judge(facts())
    found = told(verdict)
    assert list(found) == ["between 2 and 4", "between 4 and 8", "above", "prompts", "answers", "rate"]
    assert all("not measured" in sentence for sentence in found.values())
    assert "5 to 7 in flight" in found["between 4 and 8"]
    assert "1,200 tokens" in found["prompts"]
    offers = {one.key: (one.mode, one.settings) for one in verdict.outside if one.offer}
    assert offers["between 4 and 8"] == ("closed", (4, 6, 8))
    assert offers["rate"][0] == "open"
    assert outside.answer(verdict.rows, 6) == "6 requests in flight: not measured."
    assert outside.answer(verdict.rows, 8) == "8 requests in flight: Fails."


def test_the_highest_setting_is_not_called_the_best_and_twice_as_many_is_offered() -> None:
    grid = made.facts([made.simple_cell(i, s, p95_s=0.3, n=60 * s) for i, s in enumerate((1, 2, 3), start=1)])
    above = next(one for one in judge(grid).outside if one.key == "above")
    assert "nothing shows that 3 is the best" in above.sentence
    assert above.settings == (3, 6)
    assert not any(one.key.startswith("between") for one in judge(grid).outside)


def test_production_that_is_longer_than_the_test_is_outside() -> None:
    mix = ProductionMix(p10_tokens=100, p90_tokens=1500, p95_tokens=2000)
    assert "2,000 tokens at p95, those of this grid 900" in told(judge(facts(production=mix)))["production"]
    shorter = replace(mix, p95_tokens=900.0)
    assert "production" not in told(judge(facts(production=shorter)))


@pytest.mark.parametrize(("demand", "short"), [(None, False), (1.0, False), (10_000.0, True)])
def test_a_busiest_minute_above_the_stated_rate_is_a_caution(demand: float | None, short: bool) -> None:
    verdict = judge(facts(demand_per_min=demand))
    assert any("not enough" in caution for caution in verdict.cautions) is short
