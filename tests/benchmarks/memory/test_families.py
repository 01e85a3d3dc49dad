"""Every way of keeping tokens, by the families that have it."""

from __future__ import annotations

import pytest

from benchmarks.memory.accounting import STATE_BYTES, Keeping, sequence_bytes, token_bytes
from benchmarks.memory.families import ATTENTION
from benchmarks.memory.geometry import Kind, UnknownGeometryError
from tests.benchmarks.memory.files import LLAMA_8B, geometry

BF16 = Keeping()
GEMMA = {
    "model_type": "gemma3_text", "num_hidden_layers": 26, "hidden_size": 1152, "num_attention_heads": 4,
    "num_key_value_heads": 1, "head_dim": 256, "sliding_window": 512, "sliding_window_pattern": 6,
}  # fmt: skip
QWEN_NEXT = {
    "model_type": "qwen3_next", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
JAMBA = {
    "model_type": "jamba", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_expand": 2, "mamba_d_state": 16,
    "mamba_d_conv": 4,
}  # fmt: skip
BAMBA = {
    "model_type": "bamba", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "attn_layer_indices": [9, 18, 27], "mamba_expand": 2, "mamba_n_heads": 128,
    "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fields", "bytes_per_token"),
    [
        ("multi-head", {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768}, 36_864),
        ("multi-head, no KV heads said", {k: v for k, v in LLAMA_8B.items() if k != "num_key_value_heads"}, 524_288),
        (
            "multi-query",
            {"model_type": "falcon", "num_hidden_layers": 32, "num_attention_heads": 71, "hidden_size": 4544,
             "multi_query": True},
            8_192,
        ),
        (
            "falcon of the newer form",
            {"model_type": "falcon", "num_hidden_layers": 60, "num_attention_heads": 128, "hidden_size": 8192,
             "new_decoder_architecture": True, "num_kv_heads": 8, "multi_query": True},
            60 * 8 * 64 * 2 * 2,
        ),
        (
            "grouped under another name",
            {"model_type": "chatglm", "num_layers": 28, "num_attention_heads": 32, "hidden_size": 4096, "kv_channels": 128,
             "multi_query_attention": True, "multi_query_group_num": 2},
            28_672,
        ),
        ("latent", {"model_type": "deepseek_v2", "num_hidden_layers": 27, "kv_lora_rank": 512, "qk_rope_head_dim": 64}, 31_104),
    ],
)  # fmt: skip
def test_bytes_of_one_token(name: str, fields: dict[str, object], bytes_per_token: int) -> None:
    assert token_bytes(geometry(**fields), BF16) == bytes_per_token


@pytest.mark.parametrize(
    ("fields", "full", "windowed", "window"),
    [
        (GEMMA, 4, 22, 512),
        ({**GEMMA, "sliding_window_pattern": None}, 4, 22, 512),
        ({**GEMMA, "model_type": "gemma2", "sliding_window": 4096, "sliding_window_pattern": None}, 13, 13, 4096),
        ({**LLAMA_8B, "model_type": "cohere2", "sliding_window": 4096, "sliding_window_pattern": 4}, 8, 24, 4096),
        ({**LLAMA_8B, "model_type": "mistral", "sliding_window": 4096}, 0, 32, 4096),
        ({**LLAMA_8B, "model_type": "mistral", "sliding_window": None}, 32, 0, None),
        ({**LLAMA_8B, "model_type": "qwen2", "sliding_window": 131072, "use_sliding_window": False}, 32, 0, None),
        ({**LLAMA_8B, "model_type": "qwen2", "sliding_window": 131072, "max_window_layers": 28}, 32, 0, None),
        (
            {**LLAMA_8B, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28},
            28, 4, 4096,
        ),
        ({**LLAMA_8B, "model_type": "llama4_text", "head_dim": 128, "attention_chunk_size": 8192}, 8, 24, 8192),
        (
            {**LLAMA_8B, "model_type": "llama4_text", "head_dim": 128, "attention_chunk_size": 8192, "no_rope_layer_interval": 2},
            16,
            16,
            8192,
        ),
        (
            {**LLAMA_8B, "model_type": "llama4_text", "head_dim": 128, "attention_chunk_size": 8192,
             "no_rope_layers": [1, 0] * 16},
            16, 16, 8192,
        ),
    ],
)  # fmt: skip
def test_layers_with_a_window(fields: dict[str, object], full: int, windowed: int, window: int | None) -> None:
    found = geometry(**fields)
    counts = {group.kind: group.count for group in found.layers}
    assert (counts.get(Kind.FULL, 0), counts.get(Kind.WINDOW, 0)) == (full, windowed)
    assert {group.window_tokens for group in found.layers if group.kind == Kind.WINDOW} == (
        {window} if window else set()
    )


def test_the_language_part_of_a_model_that_also_sees() -> None:
    inner = geometry(**GEMMA)
    assert geometry(model_type="gemma3", vision_config={"num_hidden_layers": 27}, text_config=GEMMA) == inner


def test_layers_that_read_anothers_kv_keep_none_of_their_own() -> None:
    """Gemma 3n E4B: 35 layers, the last 15 of which read those before."""
    fields = {**GEMMA, "model_type": "gemma3n_text", "num_hidden_layers": 35, "num_key_value_heads": 2,
              "num_kv_shared_layers": 15, "sliding_window_pattern": None}  # fmt: skip
    found = geometry(**fields)
    counts = {group.kind: group.count for group in found.layers}
    row = 2 * 256 * 2 * 2
    assert counts == {Kind.WINDOW: 16, Kind.FULL: 4, Kind.SHARED: 15}
    assert sequence_bytes(found, 8192, BF16).bound_bytes == row * (4 * 8192 + 16 * 512)
    assert sequence_bytes(found, 8192, BF16).naive_bytes == row * 35 * 8192


@pytest.mark.parametrize(
    ("fields", "attending", "state_elements"),
    [
        ({"model_type": "mamba", "num_hidden_layers": 64, "hidden_size": 2560, "expand": 2, "state_size": 16, "conv_kernel": 4},
         0, 5120 * 3 + 5120 * 16),
        ({"model_type": "mamba2", "num_hidden_layers": 64, "hidden_size": 2560, "num_heads": 80, "head_dim": 64,
          "n_groups": 1, "state_size": 128, "conv_kernel": 4}, 0, (5120 + 256) * 3 + 5120 * 128),
        (JAMBA, 4, 8192 * 3 + 8192 * 16),
        (BAMBA, 3, (8192 + 512) * 3 + 8192 * 256),
        ({**BAMBA, "model_type": "granitemoehybrid", "attn_layer_indices": None,
          "layer_types": (["mamba"] * 7 + ["attention"]) * 4}, 4, (8192 + 512) * 3 + 8192 * 256),
        (QWEN_NEXT, 12, (2 * 2048 + 4096) * 3 + 32 * 128 * 128),
    ],
)  # fmt: skip
def test_a_state_is_constant_for_each_sequence(fields: dict[str, object], attending: int, state_elements: int) -> None:
    found = geometry(**fields)
    states = [group for group in found.layers if group.kind == Kind.STATE]
    assert [group.state_elements for group in states] == [state_elements]
    assert sum(group.count for group in found.layers if group.kind == Kind.FULL) == attending
    one, many = (sequence_bytes(found, tokens, BF16).bound_bytes for tokens in (1, 10_001))
    assert one - token_bytes(found, BF16) == states[0].count * state_elements * STATE_BYTES
    assert many - one == 10_000 * token_bytes(found, BF16)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"model_type": "llama"}, "says no num_hidden_layers"),
        ({k: v for k, v in LLAMA_8B.items() if k != "hidden_size"}, "says no hidden_size"),
        ({**LLAMA_8B, "hidden_size": 4095}, "no whole head width"),
        ({k: v for k, v in {**LLAMA_8B, "model_type": "qwen2"}.items() if k != "num_key_value_heads"}, "no num_key_value_heads"),
        ({**LLAMA_8B, "model_type": "qwen3"}, "says no head_dim"),
        ({**LLAMA_8B, "model_type": "mistral"}, "says no sliding_window"),
        ({**LLAMA_8B, "model_type": "exaone4"}, "says no sliding_window"),
        ({**LLAMA_8B, "model_type": "smollm3", "sliding_window": 4096, "use_sliding_window": True}, "not said by layer_types"),
        ({k: v for k, v in GEMMA.items() if k != "sliding_window"}, "says no sliding_window"),
        ({**GEMMA, "layer_types": ["full_attention"]}, "layer_types names 1 of 26 layers"),
        ({**GEMMA, "layer_types": ["ring_attention"] * 26}, "not known: ring_attention"),
        ({**GEMMA, "sliding_window": None, "layer_types": ["sliding_attention"] * 26}, "its size is not"),
        ({**LLAMA_8B, "model_type": "exaone4", "sliding_window": 4096, "sliding_window_pattern": "LLLG"},
         "not said by layer_types"),
        ({**LLAMA_8B, "model_type": "llama4_text", "head_dim": 128, "attention_chunk_size": 8192, "no_rope_layers": [1]},
         "names 1 of 32 layers"),
        ({**GEMMA, "model_type": "gemma3n_text", "num_kv_shared_layers": 26}, "one must keep it"),
        ({"model_type": "falcon", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}, "says no multi_query"),
        ({**BAMBA, "mamba_d_head": 32}, "are not the 8192"),
        ({**BAMBA, "attn_layer_indices": None}, "neither by layer_types nor by attn_layer_indices"),
        ({**BAMBA, "layer_types": ["mamba"]}, "names 1 of 32 layers"),
        ({**BAMBA, "layer_types": ["moon"] * 32}, "holds moon"),
    ],
)  # fmt: skip
def test_what_is_left_out_is_not_guessed(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(UnknownGeometryError, match=sentence):
        geometry(**fields)


@pytest.mark.parametrize("model_type", sorted(ATTENTION))
def test_every_family_of_the_table_answers_or_says_what_is_missing(model_type: str) -> None:
    family = ATTENTION[model_type]
    window = 128 if family.all_windows or family.full_every else None
    fields = {
        **LLAMA_8B,
        "model_type": model_type,
        "head_dim": 128,
        "sliding_window": window,
        "attention_chunk_size": window,
    }
    found = geometry(**fields)
    assert found.layer_count == 32
    assert sequence_bytes(found, 100, BF16).naive_bytes == 100 * 131_072
