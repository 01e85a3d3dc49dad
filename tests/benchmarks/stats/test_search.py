"""The search names a capacity only where it was shown twice, and says *indeterminate* where it was not."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.stats.quantiles import binomial_at_most
from benchmarks.stats.search import (
    Found,
    Indeterminate,
    Observation,
    SearchSpec,
    Shown,
    Try,
    next_step,
    search,
    shown,
)

SPEC = SearchSpec(start=1, limit=64, attainment=0.95)


def never() -> None:
    return None


def sharp(capacity: int, n: int = 400):
    """Everything holds up to the capacity, half beyond it."""
    return lambda setting: Observation(setting=setting, hits=n if setting <= capacity else n // 2, n=n)


def drawn(curve, seed: int, n: int = 600):
    dice = np.random.default_rng(seed)
    return lambda setting: Observation(setting=setting, hits=int(dice.binomial(n, curve(setting))), n=n)


def deterministic_queue(per_s: float, *, service_s: float, limit_s: float, arrivals: int = 200_000) -> float:
    """The share of an M/D/1 queue's requests inside the limit, by Lindley's recursion; 0 where it does not settle."""
    if per_s * service_s >= 1:
        return 0.0
    steps = service_s - np.random.default_rng(11).exponential(1 / per_s, arrivals)
    walk = np.concatenate(([0.0], np.cumsum(steps)))
    waits = walk - np.minimum.accumulate(walk)
    return float((waits + service_s <= limit_s).mean())


MD1 = {rate: deterministic_queue(rate, service_s=0.02, limit_s=0.1) for rate in range(1, 65)}
CURVES = {
    "deterministic queue": MD1.__getitem__,
    "cliff": lambda setting: 0.99 if setting <= 19 else 0.6,
    "slope": lambda setting: 1 / (1 + math.exp((setting - 20) / 3)),
    "flat at the line": lambda setting: 0.951 if setting <= 30 else 0.949,
    "never": lambda setting: 0.5,
    "always": lambda setting: 0.999,
}


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 8, 9, 33, 63])
def test_a_sharp_capacity_is_found_and_the_one_above_was_refused(capacity):
    answer = search(sharp(capacity), SPEC, never).answer
    assert isinstance(answer, Found)
    assert (answer.setting, answer.attained.setting, answer.refused.setting) == (capacity, capacity, capacity + 1)


@pytest.mark.parametrize("start", [1, 5, 40, 64])
def test_the_start_does_not_change_the_answer(start):
    answer = search(sharp(9), SearchSpec(start=start, limit=64, attainment=0.95), never).answer
    assert answer.setting == 9


def test_the_highest_allowed_setting_that_still_holds_is_said_to_be_the_limit():
    answer = search(sharp(1000), SPEC, never).answer
    assert (answer.setting, answer.at_limit, answer.refused) == (64, True, None)


def test_where_not_even_one_holds_the_capacity_is_none():
    answer = search(sharp(0), SearchSpec(start=4, limit=64, attainment=0.95), never).answer
    assert (answer.setting, answer.attained, answer.refused.setting) == (0, None, 1)


def test_it_doubles_then_bisects_then_confirms_both():
    seen = search(sharp(5), SPEC, never).seen
    assert [one.setting for one in seen] == [1, 2, 4, 8, 6, 5, 5, 6]


def wrong(answer: Found | Indeterminate, curve, spec: SearchSpec) -> bool:
    if isinstance(answer, Indeterminate):
        return False
    holds = answer.setting == 0 or curve(answer.setting) >= spec.attainment
    refused = answer.at_limit or curve(answer.refused.setting) < spec.attainment
    return not (holds and refused)


@pytest.mark.parametrize("name", CURVES)
def test_a_wrong_answer_is_rarer_than_alpha(name):
    runs, curve = 300, CURVES[name]
    spec = SearchSpec(start=2, limit=64, attainment=0.95, alpha=0.05)
    errors = sum(wrong(search(drawn(curve, seed), spec, never).answer, curve, spec) for seed in range(runs))
    assert errors <= spec.alpha * runs


@pytest.mark.parametrize(
    "name, at_least", [("cliff", 0.95), ("deterministic queue", 0.5), ("never", 0.95), ("always", 0.95)]
)
def test_where_the_objective_breaks_sharply_it_usually_answers(name, at_least):
    spec = SearchSpec(start=2, limit=64, attainment=0.95, resolution=0.15, budget=40)
    found = Counter(type(search(drawn(CURVES[name], seed, n=2000), spec, never).answer) for seed in range(100))
    assert found[Found] >= at_least * 100


def test_a_setting_on_the_line_ends_in_no_answer_with_the_settings_that_are_known():
    curve = {1: 1.0, 2: 1.0, 3: 0.95, 4: 0.5}
    spec = SearchSpec(start=1, limit=4, attainment=0.95)
    answer = search(lambda s: Observation(setting=s, hits=round(400 * curve[s]), n=400), spec, never).answer
    assert isinstance(answer, Indeterminate)
    assert answer.between == (2, 4)
    assert answer.reason == "at 3 the interval still straddles the attainment after 3 measurements"


def test_more_requests_at_the_same_setting_settle_what_one_measurement_left_open():
    spec = SearchSpec(start=1, limit=8, attainment=0.95)
    seen = search(lambda s: Observation(setting=s, hits=196 if s == 1 else 90, n=202), spec, never).seen
    assert [one.setting for one in seen][:3] == [1, 1, 2]


@pytest.mark.parametrize("resolution, answer", [(0.15, (29, 33)), (0.13, None)])
def test_settings_nearer_than_the_resolution_are_not_told_apart(resolution, answer):
    curve = {setting: 1.0 if setting < 30 else 0.95 if setting < 33 else 0.5 for setting in range(1, 65)}
    spec = SearchSpec(start=1, limit=64, attainment=0.95, resolution=resolution, budget=60)
    found = search(lambda s: Observation(setting=s, hits=round(400 * curve[s]), n=400), spec, never).answer
    if answer is None:
        assert found.between == (29, 33)
    else:
        assert (found.setting, found.refused.setting) == answer


@pytest.mark.parametrize("budget", [1, 3, 7])
def test_the_end_of_the_budget_is_no_answer(budget):
    result = search(sharp(5), SearchSpec(start=1, limit=64, attainment=0.95, budget=budget), never)
    assert len(result.seen) == budget
    assert result.answer.reason == f"the budget of {budget} measurements ended"


def test_a_budget_that_just_suffices_gives_the_answer():
    assert search(sharp(5), SearchSpec(start=1, limit=64, attainment=0.95, budget=8), never).answer.setting == 5


def test_a_stop_is_obeyed_before_the_next_measurement_and_keeps_what_is_known():
    words = iter([None, None, None, None, "the guard stopped the stage"])
    result = search(sharp(5), SPEC, lambda: next(words))
    assert result.answer == Indeterminate(reason="the guard stopped the stage", between=(4, 8))
    assert [one.setting for one in result.seen] == [1, 2, 4, 8]


def test_what_held_in_the_search_and_fails_in_the_confirmation_is_no_answer():
    asked: Counter[int] = Counter()

    def fickle(setting: int) -> Observation:
        asked[setting] += 1
        good = setting < 3 and (setting != 2 or asked[2] == 1)
        return Observation(setting=setting, hits=400 if good else 200, n=400)

    answer = search(fickle, SearchSpec(start=1, limit=4, attainment=0.95), never).answer
    assert answer == Indeterminate(reason="2 was not confirmed: with fresh requests it was refused", between=(1, 2))


def test_nothing_measured_shows_nothing():
    assert shown(Observation(setting=1, hits=0, n=0), 0.95, 0.05) is Shown.OPEN


@pytest.mark.parametrize(
    "misses, n, said",
    [(0, 58, Shown.OPEN), (0, 59, Shown.HOLDS), (1, 92, Shown.OPEN), (1, 93, Shown.HOLDS), (10, 336, Shown.HOLDS)],
)
def test_one_setting_holds_by_the_same_law_as_a_gate_at_p95(misses, n, said):
    assert shown(Observation(setting=1, hits=n - misses, n=n), 0.95, 0.05) is said


@given(
    st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.9, 0.95, 0.99])
)
@settings(max_examples=200)
def test_what_one_observation_shows_is_wrong_no_oftener_than_alpha(pair, attainment):
    hits, n = pair
    said = shown(Observation(setting=1, hits=hits, n=n), attainment, 0.05)
    if said is Shown.HOLDS:
        assert binomial_at_most(n - hits, n, 1 - attainment) <= 0.05
        assert hits / n >= attainment
    if said is Shown.REFUSED:
        assert hits / n < attainment
        assert 1 - binomial_at_most(n - hits - 1, n, 1 - attainment) <= 0.05


def test_the_same_observations_give_the_same_step():
    seen = search(sharp(5), SPEC, never).seen
    steps = [next_step(seen[:taken], SPEC) for taken in range(len(seen) + 1)]
    assert [step.setting for step in steps if isinstance(step, Try)] == [one.setting for one in seen]
    assert steps[4] == Try(setting=6, why="between 4 and 8")
    assert isinstance(steps[-1], Found)


def test_a_measurement_that_was_not_asked_for_is_refused():
    with pytest.raises(ValueError, match="measured 7"):
        next_step([Observation(setting=7, hits=1, n=1)], SPEC)


@pytest.mark.parametrize(
    "wrong_spec",
    [
        {"start": 0},
        {"start": 9, "limit": 8},
        {"attainment": 1.0},
        {"alpha": 0.0},
        {"budget": 0},
        {"looks": 0},
        {"resolution": 1.0},
    ],
)
def test_a_search_that_cannot_be_is_refused(wrong_spec):
    with pytest.raises(ValueError, match="a search needs"):
        SearchSpec(**({"start": 1, "limit": 8, "attainment": 0.95} | wrong_spec))
