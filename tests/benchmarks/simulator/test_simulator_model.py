"""The engine's state machine, driven without a clock."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import msgspec
import pytest

from benchmarks.simulator.model import Admission, Engine, Order, Token
from benchmarks.simulator.profiles import CPU, DEMO, EMBEDDER, Profile

STEADY = msgspec.structs.replace(DEMO, step_sigma=0.0)


def engine_of(profile: Profile = STEADY, *, seed: int = 7, **options: int) -> Engine:
    return Engine(profile, dice=random.Random(seed), **options)


def run_out(engine: Engine) -> list[Token]:
    """Advance until nothing is left."""
    tokens: list[Token] = []
    while (due_s := engine.next_event_s) is not None:
        tokens += engine.advance(due_s)
    return tokens


def throughput_tokens_per_s(profile: Profile, active: int, *, output_tokens: int = 400) -> float:
    engine = engine_of(profile, active_sequences=active, kv_tokens=100_000)
    for key in range(active):
        assert engine.submit(key, 1, output_tokens, now_s=0.0) is Admission.ACCEPTED
    tokens = run_out(engine)
    return active * output_tokens / tokens[-1].at_s


@pytest.mark.parametrize(
    ("active", "expected_tokens_per_s"),
    [(1, 200.0), (2, 240.8), (3, 317.8), (4, 394.7), (8, 427.6), (16, 427.6), (32, 427.6)],
)
@pytest.mark.parametrize("sigma", [0.0, 0.1, 0.3])
def test_throughput_follows_the_measured_curve_and_stays_flat_beyond_it(
    active: int, expected_tokens_per_s: float, sigma: float
) -> None:
    profile = msgspec.structs.replace(DEMO, step_sigma=sigma)
    assert throughput_tokens_per_s(profile, active) == pytest.approx(expected_tokens_per_s, rel=0.05)


def test_step_time_grows_linearly_once_the_curve_is_flat() -> None:
    assert CPU.decode_step_s(16) == pytest.approx(2 * CPU.decode_step_s(8))
    assert CPU.decode_step_s(0) == 0.0


def test_the_spread_of_steps_is_lognormal_with_mean_one_and_no_exponential() -> None:
    sigma = 0.2
    engine = engine_of(msgspec.structs.replace(DEMO, step_sigma=sigma))
    engine.submit(0, 1, 4000, now_s=0.0)
    times = [token.at_s for token in run_out(engine)]
    gaps = sorted((b - a) / DEMO.decode_step_s(1) for a, b in itertools.pairwise(times))
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(1.0, abs=0.02)
    assert deviation == pytest.approx(0.202, abs=0.02)  # an exponential would show 1
    assert gaps[0] > 0.4


@pytest.mark.parametrize(
    ("active", "queue_cap", "sent", "accepted"),
    [(2, 0, 2, 2), (2, 0, 3, 2), (2, 3, 5, 5), (2, 3, 6, 5), (1, 1, 9, 2)],
)
def test_the_queue_cap_counts_waiting_requests_beside_running_ones(
    active: int, queue_cap: int, sent: int, accepted: int
) -> None:
    engine = engine_of(active_sequences=active, queue_cap=queue_cap)
    admissions = [engine.submit(key, 10, 10, now_s=0.0) for key in range(sent)]
    assert admissions == [Admission.ACCEPTED] * accepted + [Admission.QUEUE_FULL] * (sent - accepted)
    assert engine.counters.rejections == sent - accepted
    assert (engine.running, engine.waiting) == (1, accepted - 1)  # the first step began with the first request
    run_out(engine)
    assert engine.counters.finished == accepted


def test_without_a_cap_nobody_is_refused() -> None:
    engine = engine_of(active_sequences=1)
    assert {engine.submit(key, 1, 1, now_s=0.0) for key in range(500)} == {Admission.ACCEPTED}


def test_waiting_requests_start_in_the_order_they_came() -> None:
    engine = engine_of(active_sequences=2)
    for key in range(6):
        engine.submit(key, 10, 5 + key, now_s=0.0)
    firsts = [token.key for token in run_out(engine) if token.index == 0]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize(
    ("prompt_tokens", "output_tokens", "admission"),
    [
        (4000, 96, Admission.ACCEPTED),
        (4000, 97, Admission.TOO_LONG),
        (4096, 1, Admission.TOO_LONG),
    ],
)
def test_a_request_longer_than_the_context_is_refused(
    prompt_tokens: int, output_tokens: int, admission: Admission
) -> None:
    assert engine_of().submit(0, prompt_tokens, output_tokens, now_s=0.0) is admission


def test_every_request_gets_exactly_the_tokens_it_asked_for_in_order() -> None:
    engine = engine_of(DEMO, active_sequences=3)
    lengths = {key: 1 + 7 * key % 40 for key in range(20)}
    for key, length in lengths.items():
        engine.submit(key, 5 * key + 1, length, now_s=0.0)
    got: dict[int, list[int]] = defaultdict(list)
    lasts = []
    for token in run_out(engine):
        got[token.key].append(token.index)
        lasts += [token.key] if token.last else []
    assert dict(got) == {key: list(range(length)) for key, length in lengths.items()}
    assert sorted(lasts) == list(lengths)


def test_a_full_kv_budget_preempts_the_newest_which_still_ends_complete() -> None:
    engine = engine_of(active_sequences=4, kv_tokens=400)
    for key in range(4):
        engine.submit(key, 60, 120, now_s=0.0)
    tokens = run_out(engine)
    assert engine.counters.preemptions > 0
    assert engine.counters.finished == 4
    assert engine.counters.prompt_tokens == 4 * 60  # a prompt that is computed again is not counted again
    assert engine.counters.generation_tokens == 4 * 120
    ends = [token.key for token in tokens if token.last]
    assert ends[0] == 0  # the oldest was never taken down


def test_the_kv_budget_is_never_exceeded() -> None:
    engine = engine_of(active_sequences=6, kv_tokens=500)
    for key in range(12):
        engine.submit(key, 30 + 10 * (key % 5), 50 + 20 * (key % 3), now_s=0.0)
    seen = []
    while (due_s := engine.next_event_s) is not None:
        engine.advance(due_s)
        seen.append(engine.kv_used_tokens)
    assert max(seen) <= 500
    assert engine.counters.finished == 12


def test_enough_kv_means_no_preemption() -> None:
    engine = engine_of(active_sequences=4, kv_tokens=4 * 180 + 4)
    for key in range(4):
        engine.submit(key, 60, 120, now_s=0.0)
    run_out(engine)
    assert engine.counters.preemptions == 0


def test_cancelling_a_waiting_request_removes_it_at_once() -> None:
    engine = engine_of(active_sequences=1)
    engine.submit(0, 10, 50, now_s=0.0)
    engine.submit(1, 10, 50, now_s=0.0)
    assert engine.waiting == 1
    assert engine.cancel(1) is True
    assert engine.waiting == 0
    assert {token.key for token in run_out(engine)} == {0}


def test_cancelling_a_running_request_frees_its_slot_at_the_end_of_the_step() -> None:
    engine = engine_of(active_sequences=1)
    engine.submit(0, 10, 1000, now_s=0.0)
    engine.submit(1, 10, 3, now_s=0.0)
    engine.advance(engine.next_event_s or 0.0)
    assert engine.cancel(0) is True
    assert (engine.running, engine.waiting) == (1, 1)
    step_end_s = engine.next_event_s or 0.0
    assert engine.advance(step_end_s) == []  # nothing more for the one who left
    assert (engine.running, engine.waiting) == (1, 0)
    assert {token.key for token in run_out(engine)} == {1}
    assert engine.counters.cancellations == 1


def test_cancelling_twice_or_somebody_unknown_changes_nothing() -> None:
    engine = engine_of()
    engine.submit(0, 10, 10, now_s=0.0)
    assert [engine.cancel(0), engine.cancel(0), engine.cancel(99)] == [True, False, False]
    run_out(engine)
    assert engine.cancel(0) is False


def test_the_same_seed_gives_the_same_tokens_at_the_same_times() -> None:
    def run(seed: int) -> list[Token]:
        engine = engine_of(DEMO, seed=seed, active_sequences=3)
        for key in range(9):
            engine.submit(key, 20 * key + 1, 30, now_s=0.0)
        return run_out(engine)

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_advancing_late_or_often_gives_the_same_times() -> None:
    def run(step_s: float) -> list[Token]:
        engine = engine_of(DEMO, active_sequences=2)
        for key in range(4):
            engine.submit(key, 50, 40, now_s=0.0)
        tokens, now_s = [], 0.0
        while engine.next_event_s is not None:
            now_s += step_s
            tokens += engine.advance(now_s)
        return tokens

    assert run(0.0005) == run(10.0)


def test_a_long_prompt_makes_a_short_stream_wait_and_no_longer_than_its_chunks() -> None:
    def gaps_s(long_prompt_tokens: int) -> list[float]:
        engine = engine_of(active_sequences=2)
        engine.submit(0, 5, 60, now_s=0.0)
        engine.advance(0.02)
        if long_prompt_tokens:
            engine.submit(1, long_prompt_tokens, 1, now_s=0.02)
        times = [token.at_s for token in run_out(engine) if token.key == 0]
        return [b - a for a, b in itertools.pairwise(times)]

    chunk_s = STEADY.tokens_per_step / STEADY.prefill_tokens_per_s
    alone, beside = gaps_s(0), gaps_s(2000)
    assert max(alone) == pytest.approx(STEADY.decode_step_s(1))
    assert max(beside) == pytest.approx(chunk_s, rel=0.1)
    assert sum(beside) == pytest.approx(sum(alone) + 2000 / STEADY.prefill_tokens_per_s, rel=0.05)


def test_time_to_first_token_grows_with_the_prompt() -> None:
    def first_s(prompt_tokens: int) -> float:
        engine = engine_of()
        engine.submit(0, prompt_tokens, 1, now_s=0.0)
        return run_out(engine)[0].at_s

    assert first_s(1000) == pytest.approx(10 * first_s(100))
    assert first_s(100) == pytest.approx(100 / STEADY.prefill_tokens_per_s)


def test_waiting_grows_with_those_in_front() -> None:
    engine = engine_of(active_sequences=1)
    for key in range(5):
        engine.submit(key, 1, 100, now_s=0.0)
    firsts = [token.at_s for token in run_out(engine) if token.index == 0]
    waits = [b - a for a, b in itertools.pairwise(firsts)]
    assert waits == pytest.approx([waits[0]] * 4)


def test_an_idle_engine_has_no_next_event_and_starts_with_the_next_request() -> None:
    engine = engine_of()
    assert engine.next_event_s is None
    assert engine.advance(5.0) == []
    engine.submit(0, 1, 1, now_s=9.0)
    assert run_out(engine)[0].at_s == pytest.approx(9.0 + 1 / STEADY.prefill_tokens_per_s)


@pytest.mark.parametrize(("texts", "batches"), [(1, 1), (2, 1), (64, 1), (65, 2), (128, 2)])
def test_a_batch_of_embeddings_costs_a_base_and_a_little_for_each_text(texts: int, batches: int) -> None:
    engine = engine_of(EMBEDDER)
    engine.submit_together([Order(key, 10, pooled=True) for key in range(texts)], now_s=0.0)
    tokens = engine.advance(10.0)
    cost_s = batches * EMBEDDER.embed_base_s + texts * (EMBEDDER.embed_item_s + 10 / EMBEDDER.prefill_tokens_per_s)
    assert max(token.at_s for token in tokens) == pytest.approx(cost_s)
    assert len({token.at_s for token in tokens}) == batches
    assert {(token.index, token.last) for token in tokens} == {(0, True)}
    assert (engine.running, engine.waiting, engine.counters.finished) == (0, 0, texts)


@pytest.mark.parametrize(("cached_tokens", "prefilled_tokens"), [(0, 100), (60, 40), (100, 1), (500, 1)])
def test_what_is_cached_of_a_prompt_needs_no_prefill(cached_tokens: int, prefilled_tokens: int) -> None:
    engine = engine_of(msgspec.structs.replace(CPU, step_sigma=0.0))
    engine.submit_together([Order(0, 100, 1, cached_tokens)], now_s=0.0)
    (token,) = engine.advance(10.0)
    assert token.at_s == pytest.approx(prefilled_tokens / CPU.prefill_tokens_per_s)
    assert (engine.counters.prefix_query_tokens, engine.counters.prefix_hit_tokens) == (100, cached_tokens)


@pytest.mark.parametrize(
    ("lengths", "admission", "waiting"),
    [
        ([10, 10, 10], Admission.ACCEPTED, 3),
        ([10, 10, 10, 10], Admission.QUEUE_FULL, 0),
        ([10, 5000], Admission.TOO_LONG, 0),
    ],
)
def test_a_request_of_several_items_is_taken_whole_or_not_at_all(
    lengths: list[int], admission: Admission, waiting: int
) -> None:
    engine = engine_of(CPU, active_sequences=1, queue_cap=2)
    orders = [Order(key, length) for key, length in enumerate(lengths)]
    assert engine.submit_together(orders, now_s=0.0) is admission
    assert engine.running + engine.waiting == waiting
