"""A retry client keeps its budget whatever happens, never comes before Retry-After, and spreads its waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.engine.retrying import BUDGETED, IMMEDIATE, MOST_TRIES, RETRIED, Retries, RetryPolicy, wait_s
from benchmarks.engine.terms import Outcome

REFUSED = Outcome.REJECTED
SHARES = st.floats(0.001, 0.999)


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=300),
    st.floats(0, 1),
    st.floats(0, 20),
)
def test_retries_never_exceed_what_was_saved_up(happenings, share, most):
    """None is a request that falls due; a number is a refusal of one of the earlier ones."""
    client = Retries(RetryPolicy(tries=MOST_TRIES, budget_share=share, budget_most=most), seed=1)
    due = retried = 0
    for what in happenings:
        if what is None:
            client.scheduled()
            due += 1
        else:
            retried += client.next_s(what, 1, REFUSED) is not None
        assert retried <= share * due + 1e-6
        assert 0 <= client.saved <= max(most, 0)


@given(st.integers(1, 200), st.floats(0.01, 1))
def test_a_quiet_time_saves_up_no_more_than_stated(quiet, share):
    client = Retries(RetryPolicy(tries=2, budget_share=share, budget_most=3.0), seed=1)
    for _ in range(quiet):
        client.scheduled()
    granted = sum(client.next_s(index, 1, REFUSED) is not None for index in range(50))
    assert granted <= min(3, quiet * share + 1e-6)


def test_ten_tenths_are_one_retry():
    client = Retries(RetryPolicy(tries=2, budget_share=0.1), seed=1)
    for _ in range(9):
        client.scheduled()
    assert client.next_s(0, 1, REFUSED) is None
    client.scheduled()
    assert client.next_s(0, 1, REFUSED) is not None
    assert client.next_s(1, 1, REFUSED) is None


@given(st.integers(1, MOST_TRIES), st.one_of(st.none(), st.floats(0, 100)), SHARES, st.floats(0, 10), st.floats(0, 60))
def test_waits_lie_between_what_the_server_asked_and_the_bound_on_top_of_it(attempt, told_s, share, base_s, cap_s):
    policy = RetryPolicy(tries=5, base_s=base_s, cap_s=cap_s, full_jitter=True, honour_retry_after=True)
    found = wait_s(policy, attempt, told_s, share)
    assert (told_s or 0.0) <= found <= (told_s or 0.0) + cap_s
    assert found <= (told_s or 0.0) + base_s * 2.0 ** (attempt - 1)


@pytest.mark.parametrize("attempt, expected_s", [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (7, 20.0), (90, 20.0)])
def test_backoff_doubles_up_to_its_cap(attempt, expected_s):
    assert wait_s(RetryPolicy(tries=5, base_s=0.5, cap_s=20.0), attempt, None, 0.3) == expected_s


def test_full_jitter_spreads_the_waits_evenly_and_follows_from_the_seed():
    policy = RetryPolicy(tries=3, base_s=8.0, full_jitter=True)

    def waits(seed: int) -> list[float]:
        client = Retries(policy, seed=seed)
        return [client.next_s(index, 1, REFUSED) or 0.0 for index in range(2000)]

    found = sorted(waits(1))
    assert [found[n] for n in (200, 1000, 1800)] == pytest.approx([0.8, 4.0, 7.2], abs=0.4)
    assert waits(1) == waits(1)
    assert waits(1) != waits(2)
    client = Retries(policy, seed=1)
    assert client.next_s(7, 1, REFUSED) == waits(1)[7]  # whatever was drawn before


def test_a_client_without_a_thought_asks_again_at_once_whatever_the_server_says():
    client = Retries(IMMEDIATE, seed=1)
    assert [client.next_s(0, attempt, REFUSED, 30.0) for attempt in range(1, 6)] == [0.0, 0.0, 0.0, 0.0, None]


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_failures_before_any_text_are_tried_again(outcome):
    again = Retries(IMMEDIATE, seed=1).next_s(0, 1, outcome) is not None
    assert again == (outcome in RETRIED)
    assert Outcome.OK not in RETRIED
    assert Outcome.IN_STREAM_ERROR not in RETRIED


def test_a_retry_beyond_the_clients_patience_is_not_made_and_not_paid_for():
    policy = RetryPolicy(tries=3, honour_retry_after=True, patience_s=10.0, budget_share=1.0)
    client = Retries(policy, seed=1)
    client.scheduled()
    assert client.next_s(0, 1, REFUSED, 9.0, age_s=2.0) is None
    assert client.next_s(0, 1, REFUSED, 7.0, age_s=2.0) == 7.0


@pytest.mark.parametrize(
    "wrong",
    [{"tries": 0}, {"tries": MOST_TRIES + 1}, {"base_s": -1.0}, {"cap_s": float("inf")}, {"patience_s": float("nan")},
     {"budget_share": -0.1}, {"budget_most": -1.0}],
)  # fmt: skip
def test_a_policy_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RetryPolicy(**({"tries": 2} | wrong))


def test_the_careful_client_sends_at_most_a_tenth_more():
    client = Retries(BUDGETED, seed=1)
    attempts = 0
    for index in range(1000):
        client.scheduled()
        attempt = 1
        while client.next_s(index, attempt, REFUSED, 1.0) is not None:
            attempt += 1
        attempts += attempt
    assert attempts / 1000 == pytest.approx(1.1, abs=0.002)
