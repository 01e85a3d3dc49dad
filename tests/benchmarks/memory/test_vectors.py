"""The checked figures, to the byte, each through the publisher's own config.json."""

from __future__ import annotations

import pytest

from benchmarks.memory.accounting import BLOCKS, Keeping, Kept, KvType, paged, sequence_bytes, token_bytes
from benchmarks.memory.geometry import UnknownGeometryError
from benchmarks.memory.reading import geometry_of
from tests.benchmarks.memory.files import LLAMA_8B, geometry, public

MIB = 1 << 20
BF16 = Keeping()


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("llama-3.1-8b", 131_072),
        ("llama-3.1-70b", 327_680),
        ("qwen3-32b", 262_144),
        ("deepseek-v3", 70_272),
    ],
)
def test_bytes_of_one_token_in_bf16(name: str, bytes_per_token: int) -> None:
    found = geometry_of(public(name))
    assert token_bytes(found, BF16) == bytes_per_token
    assert sequence_bytes(found, 1000, BF16) == Kept(1000 * bytes_per_token, 1000 * bytes_per_token)


def test_gpt_oss_20b_at_8192_tokens_has_a_bound_and_a_naive_figure() -> None:
    found = geometry_of(public("gpt-oss-20b"))
    assert [(group.kind, group.count, group.window_tokens) for group in found.layers] == [
        ("window", 12, 128),
        ("full", 12, None),
    ]
    assert sequence_bytes(found, 8192, BF16) == Kept(bound_bytes=195 * MIB, naive_bytes=384 * MIB)


def test_a_window_bounds_nothing_before_it_is_full() -> None:
    found = geometry_of(public("gpt-oss-20b"))
    for tokens in (1, 127, 128):
        assert sequence_bytes(found, tokens, BF16) == Kept(tokens * 24 * 2048, tokens * 24 * 2048)
    assert sequence_bytes(found, 129, BF16) == Kept(12 * 2048 * (129 + 128), 129 * 24 * 2048)


def test_head_dim_wins_over_hidden_over_heads() -> None:
    """5120 / 64 would be 80, and the figure 37 % low."""
    with_it = geometry(**{**LLAMA_8B, "hidden_size": 5120, "num_attention_heads": 64, "head_dim": 128})
    without = geometry(**{**LLAMA_8B, "hidden_size": 5120, "num_attention_heads": 64})
    assert token_bytes(without, BF16) / token_bytes(with_it, BF16) == 80 / 128


@pytest.mark.parametrize(
    ("kv_type", "per_element"),
    [
        (KvType.F32, 4.0),
        (KvType.F16, 2.0),
        (KvType.BF16, 2.0),
        (KvType.FP8, 1.0),
        (KvType.Q8_0, 1.0625),
        (KvType.Q5_1, 0.75),
        (KvType.Q5_0, 0.6875),
        (KvType.Q4_1, 0.625),
        (KvType.Q4_0, 0.5625),
    ],
)
def test_element_types(kv_type: KvType, per_element: float) -> None:
    found = geometry(**LLAMA_8B)
    assert token_bytes(found, Keeping(k_type=kv_type, v_type=kv_type)) == 65_536 * per_element


def test_quantised_blocks_are_those_of_the_library() -> None:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    named = {kind: GGML_QUANT_SIZES[GGMLQuantizationType[kind.name]] for kind in KvType if kind != KvType.FP8}
    assert named == {kind: block for kind, block in BLOCKS.items() if kind != KvType.FP8}


def test_keys_and_values_may_have_types_of_their_own() -> None:
    found = geometry(**LLAMA_8B)
    assert token_bytes(found, Keeping(k_type=KvType.Q8_0, v_type=KvType.F16)) == 32_768 * 1.0625 + 32_768 * 2


@pytest.mark.parametrize(
    ("ranks", "times"),
    [(1, 1), (2, 1), (4, 1), (8, 1), (16, 2), (32, 4)],
)
def test_more_ranks_than_kv_heads_keep_them_more_than_once(ranks: int, times: int) -> None:
    """Eight KV heads: from the ninth rank on each is kept again."""
    assert token_bytes(geometry(**LLAMA_8B), Keeping(ranks=ranks)) == 131_072 * times


def test_ranks_that_do_not_divide_the_heads_round_up_on_each() -> None:
    assert token_bytes(geometry(**LLAMA_8B), Keeping(ranks=3)) == 131_072 // 8 * 9


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_a_latent_row_is_not_divided_by_tensor_parallelism(ranks: int) -> None:
    assert token_bytes(geometry_of(public("deepseek-v3")), Keeping(ranks=ranks)) == 70_272 * ranks


@pytest.mark.parametrize(
    ("tokens", "page", "held"),
    [(1, 16, 16), (16, 16, 16), (17, 16, 32), (1000, 256, 1024), (1000, 1, 1000)],
)
def test_pages_round_up(tokens: int, page: int, held: int) -> None:
    found = geometry(**LLAMA_8B)
    assert paged(tokens, page) == held
    assert sequence_bytes(found, tokens, Keeping(page_tokens=page)).bound_bytes == held * 131_072


@pytest.mark.parametrize(("page", "held"), [(1, 128), (16, 144), (64, 192), (128, 256), (256, 512)])
def test_a_window_may_lie_across_one_page_more(page: int, held: int) -> None:
    found = geometry_of(public("gpt-oss-20b"))
    assert sequence_bytes(found, 8192, Keeping(page_tokens=page)).bound_bytes == 12 * 2048 * (8192 + held)


def test_an_element_type_or_page_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Keeping(ranks=0)


def test_an_unknown_family_is_not_known_and_says_so() -> None:
    with pytest.raises(UnknownGeometryError, match="Nobody has read how a model “quantum_llama” keeps its tokens"):
        geometry(**{**LLAMA_8B, "model_type": "quantum_llama"})
