"""What launch lines say about memory, in every runtime's own words."""

from __future__ import annotations

import pytest

from benchmarks.memory.accounting import KvType
from benchmarks.memory.launch import Launch, launch_of, slot_tokens


@pytest.mark.parametrize(
    ("flags", "slots", "context", "unified"),
    [
        ("llama-server -m a.gguf -np 4 -c 8192", 4, 8192, False),
        ("llama-server --parallel=4 --ctx-size=8192 -kvu", 4, 8192, True),
        ("LLAMA_ARG_N_PARALLEL=2 LLAMA_ARG_CTX_SIZE=4096 llama-server", 2, 4096, False),
        ("llama-server -m a.gguf -c 8192", 4, 8192, True),
        ("llama-server -m a.gguf -np -1 -c 8192", 4, 8192, True),
        ("llama-server -m a.gguf -c 8192 --no-kv-unified", 4, 8192, False),
        ("llama-server -m a.gguf -np 8 -np 2 -c 0", 2, None, False),
        ('llama-server -m "a b.gguf" -np 4 \\\n -c 8192', 4, 8192, False),
        ('llama-server -m "a -np 4', 4, None, False),
        ("llama-server -m a.gguf -np many -c 8192", 4, 8192, True),
    ],
)
def test_llamacpp(flags: str, slots: int, context: int | None, unified: bool) -> None:
    found = launch_of("llamacpp", flags)
    assert (found.slots, found.context_tokens, found.unified) == (slots, context, unified)
    assert (found.k_type, found.v_type) == (KvType.F16, KvType.F16)


@pytest.mark.parametrize(
    ("slots", "context", "unified", "trained", "each"),
    [
        (4, 8192, False, None, 2048),
        (4, 8000, False, None, 2048),
        (3, 8192, False, None, 2816),
        (1, 100, False, None, 256),
        (2, 16384, False, 4096, 4096),
        (4, 8192, True, None, 8192),
        (4, None, True, 4096, None),
        (2, None, False, 4096, None),
    ],
)
def test_the_context_of_a_llamacpp_slot_is_its_part_rounded_up_to_256(
    slots: int, context: int | None, unified: bool, trained: int | None, each: int | None
) -> None:
    assert slot_tokens(Launch(slots=slots, context_tokens=context, unified=unified), trained) == each


@pytest.mark.parametrize("flags", ["", "  ", "python serve.py -np 4 -c 8192"])
def test_flags_that_are_not_llamacpps_own_say_nothing(flags: str) -> None:
    assert launch_of("llamacpp", flags) == Launch(k_type=KvType.F16, v_type=KvType.F16)


def test_ollamas_context_is_of_one_slot_and_multiplies() -> None:
    found = launch_of(
        "ollama", "OLLAMA_NUM_PARALLEL=4 OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve"
    )
    assert (found.slots, found.context_tokens, found.unified, found.k_type) == (4, 32_768, False, KvType.Q8_0)
    assert slot_tokens(found) == 8192
    assert launch_of("ollama", "ollama serve") == Launch(unified=False, k_type=KvType.F16, v_type=KvType.F16)


@pytest.mark.parametrize(
    ("kind", "flags", "version", "expected"),
    [
        ("vllm", "vllm serve M", "0.33.0", Launch(share=0.92, page_tokens=16)),
        ("vllm", "vllm serve M", "0.18.0", Launch(share=0.90, page_tokens=16)),
        ("vllm", "vllm serve M", "", Launch(share=0.92, page_tokens=16)),
        ("vllm", "", "0.33.0", Launch(page_tokens=16)),
        ("lmdeploy", "", "", Launch(share_of_free=True)),
        (
            "vllm",
            "vllm serve M --gpu-memory-utilization 0.8 --max-num-seqs 64 --max-model-len 16k -tp 2 --kv-cache-dtype fp8_e4m3",
            "0.33.0",
            Launch(slots=64, context_tokens=16_000, k_type=KvType.FP8, v_type=KvType.FP8, ranks=2, share=0.8, said=True,
                   page_tokens=16),
        ),
        ("vllm", "vllm serve M --kv-cache-memory-bytes 20G", "", Launch(share=0.92, page_tokens=16, pool_bytes=20 << 30)),
        ("vllm", "vllm serve M --gpu-memory-utilization=90", "", Launch(share=0.92, page_tokens=16)),
        ("sglang", "--mem-fraction-static 0.85 --max-running-requests 32 --tp-size 4 --max-total-tokens 100000", "",
         Launch(slots=32, ranks=4, share=0.85, said=True, pool_tokens=100_000)),
        ("sglang", "", "", Launch()),
        ("trtllm", "trtllm-serve M --max_batch_size 8", "", Launch(slots=8, share=0.9, share_of_free=True)),
        ("lmdeploy", "--cache-max-entry-count 0.5 --quant-policy 8", "",
         Launch(k_type=KvType.FP8, v_type=KvType.FP8, share=0.5, share_of_free=True, said=True)),
        ("tgi", "--num-shard 2", "", Launch(ranks=2)),
        ("other", "anything at all", "", Launch()),
    ],
)  # fmt: skip
def test_runtimes_with_a_pool(kind: str, flags: str, version: str, expected: Launch) -> None:
    assert launch_of(kind, flags, version) == expected


@pytest.mark.parametrize(
    ("word", "kv_type"),
    [("q4_0", KvType.Q4_0), ("BF16", KvType.BF16), ("bfloat16", KvType.BF16), ("q9_9", KvType.F16), ("", KvType.F16)],
)
def test_element_types_by_the_runtimes_words(word: str, kv_type: KvType) -> None:
    found = launch_of("llamacpp", f"-ctk {word} -ctv={word}")
    assert (found.k_type, found.v_type) == (kv_type, kv_type)
