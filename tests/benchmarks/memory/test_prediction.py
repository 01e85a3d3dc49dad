"""Predicted memory: what shares of a budget mean in each runtime, what slots reserve, and how many sequences fit."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.memory.launch import Launch, launch_of
from benchmarks.memory.prediction import (
    GIB,
    MIB,
    OVERHEAD_GPU_BYTES,
    OVERHEAD_HOST_BYTES,
    Prediction,
    Room,
    difference,
    predict,
    size_words,
    slots_bytes,
)
from benchmarks.memory.reading import geometry_of
from benchmarks.memory.sequences import MOST_SEQUENCES, Fit, fit
from tests.benchmarks.memory.files import LLAMA_8B, geometry, public

LLAMA = geometry(**LLAMA_8B)
CARD = Room(total_bytes=80 * GIB, share=0.92, words="VRAM", gpus=1)
HOST = Room(total_bytes=64 * GIB, share=0.9, words="host memory", gpus=0)
WEIGHTS = 16 * GIB


def foreseen(launch: Launch, *, sequences: int = 8, tokens: int = 8192, room: Room | None = CARD) -> Prediction:
    return predict(LLAMA, weights_bytes=WEIGHTS, launch=launch, sequences=sequences, tokens=tokens, room=room)


def test_a_prediction_is_weights_and_kv_and_a_stated_assumption() -> None:
    found = foreseen(Launch())
    assert (found.kv_bytes, found.overhead_bytes) == (8 * GIB, OVERHEAD_GPU_BYTES)
    assert found.total_bytes == found.needed_bytes == WEIGHTS + 8 * GIB + OVERHEAD_GPU_BYTES
    assert (
        foreseen(Launch(), room=HOST).overhead_bytes
        == foreseen(Launch(), room=None).overhead_bytes
        == OVERHEAD_HOST_BYTES
    )


@pytest.mark.parametrize(
    ("kind", "flags", "taken", "pool"),
    [
        # vLLM's share is of all memory, weights inside; TensorRT-LLM's and LMDeploy's of what the weights leave.
        ("vllm", "--gpu-memory-utilization 0.5", 40 * GIB, 23 * GIB),
        ("trtllm", "--free_gpu_memory_fraction 0.5", 17 * GIB + 63 * GIB // 2, 63 * GIB // 2),
        ("lmdeploy", "--cache-max-entry-count 0.5", 17 * GIB + 63 * GIB // 2, 63 * GIB // 2),
        ("sglang", "--mem-fraction-static 0.5", 40 * GIB, 23 * GIB),
        ("vllm", "--kv-cache-memory-bytes 10G", 27 * GIB, 10 * GIB),
        ("sglang", "--mem-fraction-static 0.5 --max-total-tokens 8192", 18 * GIB, GIB),
        ("vllm", "--gpu-memory-utilization 0.1", 8 * GIB, 0),
        ("tgi", "", None, None),
    ],
)
def test_a_budget_means_different_things(kind: str, flags: str, taken: int | None, pool: int | None) -> None:
    found = foreseen(launch_of(kind, flags))
    assert (found.taken_bytes, found.pool_bytes) == (taken, pool)
    assert found.total_bytes == max(found.needed_bytes, taken or 0)


def test_a_share_of_a_gpu_means_nothing_where_there_is_none() -> None:
    assert foreseen(launch_of("vllm", ""), room=HOST).taken_bytes is None


@pytest.mark.parametrize(
    ("flags", "reserved"),
    [
        ("-np 4 -c 8192", 8192 * 131_072),
        ("-np 3 -c 8192", 3 * 2816 * 131_072),
        ("-c 8192", 8192 * 131_072),
        ("-np 2 -c 8192 -ctk q8_0 -ctv q8_0", 8192 * 131_072 * 17 // 32),
    ],
)
def test_llamacpp_reserves_for_its_slots_whatever_is_sent(flags: str, reserved: int) -> None:
    launch = launch_of("llamacpp", flags)
    assert slots_bytes(LLAMA, launch) == reserved
    assert foreseen(launch, sequences=1, tokens=10).needed_bytes == WEIGHTS + reserved + OVERHEAD_GPU_BYTES


def test_llamacpp_keeps_room_for_a_batch_beside_a_window() -> None:
    found = geometry_of(public("gpt-oss-20b"))
    # 128 and a physical batch of 512, in whole 256; unified, the windows of all slots lie in one.
    assert slots_bytes(found, launch_of("llamacpp", "-np 1 -c 8192")) == 12 * 2048 * (8192 + 768)
    assert slots_bytes(found, launch_of("llamacpp", "-np 4 -c 32768")) == 4 * 12 * 2048 * (8192 + 768)
    assert slots_bytes(found, launch_of("llamacpp", "-np 4 -c 32768 -kvu")) == 12 * 2048 * (32768 + 1024)


def test_states_are_kept_for_every_slot_of_a_unified_cache() -> None:
    mamba = geometry(model_type="mamba", num_hidden_layers=2, hidden_size=8, expand=2, state_size=4, conv_kernel=4)
    one = 2 * (16 * 3 + 16 * 4) * 4
    assert slots_bytes(mamba, launch_of("llamacpp", "-np 4 -c 1024")) == 4 * one
    assert slots_bytes(mamba, launch_of("llamacpp", "-np 4 -c 1024 -kvu")) == 4 * one


def test_nothing_is_reserved_by_runtimes_that_share_a_pool_or_do_not_say() -> None:
    assert slots_bytes(LLAMA, launch_of("vllm", "--max-num-seqs 4")) is None
    assert slots_bytes(LLAMA, launch_of("ollama", "")) is None
    assert slots_bytes(LLAMA, launch_of("llamacpp", "-np 2")) is None
    assert slots_bytes(LLAMA, launch_of("llamacpp", "-np 2 -kvu")) is None


def test_ollamas_memory_multiplies_by_its_parallel_requests() -> None:
    one, four = (launch_of("ollama", f"OLLAMA_NUM_PARALLEL={n} OLLAMA_CONTEXT_LENGTH=4096") for n in (1, 4))
    assert slots_bytes(LLAMA, one) == 4096 * 131_072
    assert slots_bytes(LLAMA, four) == 4 * 4096 * 131_072


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0.0 MiB"), (195 * MIB, "195.0 MiB"), (GIB, "1.00 GiB"), (1536 * GIB, "1,536.00 GiB")]
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert size_words(size) == words


def test_a_difference_is_measured_over_predicted() -> None:
    assert difference(GIB, 1.15 * GIB) == pytest.approx(0.15)
    assert difference(GIB, 0.5 * GIB) == -0.5


# --- from a budget to sequences --------------------------------------------------------------------------------------


def test_equal_lengths_leave_nothing_to_chance() -> None:
    assert fit(10_000, 1000, [1000]) == Fit(all_long=10, by_lengths=10)
    assert fit(9_999, 1000, [1000]) == Fit(all_long=9, by_lengths=9)
    assert fit(999, 1000, [1000]) == Fit(all_long=0, by_lengths=0)


def test_the_overflow_figure_is_the_binomial_one_for_two_lengths() -> None:
    """Lengths 1 and 2, equally often: the sum of n is n + Binomial(n, 1/2)."""
    found = fit(100, 2, [1, 2])
    assert found.all_long == 50
    assert found.by_lengths == _most_by_simulation_free_count(100)
    assert 50 < (found.by_lengths or 0) < 100 / 1.5


def _most_by_simulation_free_count(pool: int) -> int:
    """The definition, counted out: the most n with P(n + Binomial(n, 1/2) > pool) <= 0.1 %."""
    from math import comb

    def overflow(n: int) -> float:
        return sum(comb(n, k) for k in range(n + 1) if n + k > pool) / 2**n

    return max(n for n in range(pool) if overflow(n) <= 0.001)


def test_drawn_sequences_of_that_number_overflow_in_one_of_a_thousand_at_most() -> None:
    dice = np.random.default_rng(7)
    lengths = np.minimum(8000, np.exp(dice.normal(6.0, 1.0, 2000))).astype(int) + 1
    pool = 200_000
    many = fit(pool, 8000, lengths.tolist()).by_lengths
    assert many is not None
    sums = dice.choice(lengths, (20_000, many)).sum(axis=1)
    assert (sums > pool).mean() <= 0.002
    assert many * lengths.mean() < pool, "the mean would have said more"
    assert many > pool // 8000


def test_weights_count_as_often_as_they_say() -> None:
    assert fit(100, 2, [1, 2], [1, 1]) == fit(100, 2, [1, 2, 1, 2])
    assert fit(100, 2, [1, 2], [1, 0]).by_lengths == 100
    assert fit(100, 2, [1, 2], [0, 1]).by_lengths == 50


def test_a_number_of_sequences_ends_somewhere() -> None:
    assert fit(10**12, 10, [10]) == Fit(all_long=MOST_SEQUENCES, by_lengths=MOST_SEQUENCES)
    assert fit(1000, 10, []) == Fit(all_long=100, by_lengths=None)
