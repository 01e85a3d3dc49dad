"""Heads of GGUF files: one that llama.cpp's own tools would write, and what other architectures say of themselves."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from benchmarks.memory import gguf_header
from benchmarks.memory.accounting import STATE_BYTES, Keeping, KvType, sequence_bytes, token_bytes
from benchmarks.memory.geometry import Geometry, Kind, UnknownGeometryError
from benchmarks.memory.reading import geometry_of, source_line
from tests.benchmarks.memory.files import gguf, gguf_of, tensor
from tools import tiny_gguf

F16 = Keeping(k_type=KvType.F16, v_type=KvType.F16)
LLAMA = {
    "block_count": 32, "embedding_length": 4096, "attention__head_count": 32, "attention__head_count_kv": 8,
    "context_length": 131072,
}  # fmt: skip
WIDE = {**LLAMA, "attention__key_length": 64, "attention__value_length": 64, "attention__sliding_window": 128}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    tiny_gguf.write(
        path, tiny_gguf.Shape(layers=2, width=64, heads=4, kv_heads=2, vocabulary=4096, context=512, type="F16")
    )
    return path


def test_a_written_model_is_read_with_the_size_of_its_weights(tiny: Path) -> None:
    found = geometry_of(tiny.read_bytes())
    assert token_bytes(found, F16) == 2 * 2 * (16 + 16) * 2
    assert (found.architecture, found.context_tokens, found.dtype) == ("llama", 512, "F16")
    assert found.layer_count == 2
    assert found.weights_bytes is not None
    # The weights are the rest of the file, but for what fills up to 32 bytes before each tensor.
    assert 0 < tiny.stat().st_size - found.weights_bytes < 400_000
    header = gguf_header.read(tiny.read_bytes())
    assert tiny.stat().st_size - found.weights_bytes < _head_bytes(tiny) + 32 * (header.tensors + 1)


def _head_bytes(path: Path) -> int:
    from gguf import GGUFReader

    return int(GGUFReader(path).data_offset)


def test_the_first_bytes_are_enough(tiny: Path) -> None:
    whole = tiny.read_bytes()
    assert geometry_of(whole[: _head_bytes(tiny)]) == geometry_of(whole)


def test_bytes_that_end_among_the_tensors_do_not_tell_the_weights(tiny: Path) -> None:
    whole = geometry_of(tiny.read_bytes())
    cut = geometry_of(tiny.read_bytes()[: _head_bytes(tiny) - 200])
    assert cut.weights_bytes is None
    assert cut.layers == whole.layers


def test_bytes_that_end_inside_the_metadata_are_refused(tiny: Path) -> None:
    with pytest.raises(UnknownGeometryError, match=r"goes on beyond the 5,000 bytes given.*Give the first 32 MiB"):
        geometry_of(tiny.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("architecture", "fields", "full", "windowed"),
    [
        ("llama", LLAMA, 32, 0),
        ("phi3", {**LLAMA, "attention__sliding_window": 2047}, 32, 0),
        ("gpt-oss", WIDE, 16, 16),
        ("gemma3", WIDE, 5, 27),
        ("gemma3", LLAMA, 32, 0),
        ("gemma3", {**WIDE, "attention__sliding_window_pattern": [True] * 31 + [False]}, 1, 31),
        ("gemma3", {**WIDE, "attention__sliding_window_pattern": 4}, 8, 24),
    ],
)
def test_layers_of_an_architecture(architecture: str, fields: dict[str, object], full: int, windowed: int) -> None:
    counts = {group.kind: group.count for group in geometry_of(gguf_of(architecture, **fields)).layers}
    assert (counts.get(Kind.FULL, 0), counts.get(Kind.WINDOW, 0)) == (full, windowed)


def test_key_length_wins_over_the_quotient() -> None:
    assert token_bytes(geometry_of(gguf_of("llama", **LLAMA)), F16) == 131_072
    assert token_bytes(geometry_of(gguf_of("gpt-oss", **WIDE)), F16) == 16 * 8 * 128 * 2


def test_layers_that_read_anothers_kv() -> None:
    found = geometry_of(gguf_of("gemma3n", **{**WIDE, "attention__shared_kv_layers": 12}))
    assert [(group.kind, group.count) for group in found.layers] == [("window", 16), ("full", 4), ("shared", 12)]


def test_a_latent_row_as_it_is_written_since_it_is_compressed() -> None:
    fields = {**LLAMA, "block_count": 61, "attention__kv_lora_rank": 512, "rope__dimension_count": 64,
              "attention__key_length": 576, "attention__value_length": 512, "attention__key_length_mla": 192}  # fmt: skip
    assert token_bytes(geometry_of(gguf_of("deepseek2", **fields)), F16) == 70_272
    old = {name: value for name, value in fields.items() if name != "attention__key_length_mla"}
    old |= {"attention__head_count_kv": 32, "attention__key_length": 192, "attention__value_length": 128}
    assert token_bytes(geometry_of(gguf_of("deepseek2", **old)), F16) == 61 * 32 * 320 * 2


def test_states_and_layers_without_kv_heads() -> None:
    states = {"ssm__inner_size": 8192, "ssm__state_size": 16, "ssm__conv_kernel": 4}
    only = geometry_of(gguf_of("mamba", block_count=64, **states))
    assert sequence_bytes(only, 100_000, F16).bound_bytes == 64 * (8192 * 3 + 8192 * 16) * STATE_BYTES
    kv_heads = [8 if index % 8 == 4 else 0 for index in range(32)]
    mixed = geometry_of(gguf_of("jamba", **{**LLAMA, **states, "attention__head_count_kv": kv_heads}))
    assert {group.kind: group.count for group in mixed.layers} == {Kind.STATE: 28, Kind.FULL: 4}
    with pytest.raises(UnknownGeometryError, match="Which layers of this jamba attend is not said"):
        geometry_of(gguf_of("jamba", **{**LLAMA, **states}))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gguf_of("warp-drive", **LLAMA), "Nobody has read how a model “warp-drive” keeps its tokens"),
        (gguf_of("llama", **{k: v for k, v in LLAMA.items() if k != "block_count"}), "says no block_count"),
        (gguf_of("llama", **{**LLAMA, "embedding_length": 4095}), "no whole head width"),
        (gguf_of("llama", **{**LLAMA, "block_count": 5000}), "says block_count = 5000, which cannot be"),
        (gguf_of("llama", **{**LLAMA, "attention__head_count_kv": [8]}), "attention.head_count_kv for 1 of 32 layers"),
        (gguf_of("gpt-oss", **LLAMA), "says no attention.sliding_window"),
        (gguf({}), "says no general.architecture"),
        (gguf({"general.architecture": ("u32", 7)}), "says no general.architecture"),
        (gguf({}, version=1), "has version 1; 2 and 3 are read here"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian machines"),
        (b"FUGG" + bytes(20), "big-endian machines"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1), "tensors and 1 keys: it is damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 50), "keys: it is damaged"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 40), "a name of 1,099,511,627,776 bytes"),
        (gguf({"a": ("u32", 1)}).replace(struct.pack("<II", 4, 1), struct.pack("<II", 99, 1)), "type 99, which nobody defined"),
        (b"GGUF", "goes on beyond the 4 bytes given"),
    ],
)  # fmt: skip
def test_a_damaged_or_unknown_file_gives_a_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(UnknownGeometryError, match=sentence):
        geometry_of(content)


def test_a_key_that_comes_twice_is_damage() -> None:
    once = gguf({"general.architecture": ("text", "llama")})[24:]
    with pytest.raises(UnknownGeometryError, match=r"says general\.architecture twice"):
        geometry_of(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + once + once)


def test_rows_inside_rows_end_at_a_depth() -> None:
    row = struct.pack("<IQ", 9, 1) * 50
    content = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"a" + struct.pack("<I", 9) + row
    with pytest.raises(UnknownGeometryError, match="too long or too deep"):
        geometry_of(content)


def _with_tensors(*tensors: bytes, **values: tuple[str, object]) -> Geometry:
    numbers: dict[str, tuple[str, object]] = {
        f"llama.{name.replace('__', '.')}": ("u32", number) for name, number in LLAMA.items()
    }
    return geometry_of(gguf({"general.architecture": ("text", "llama"), **numbers, **values}, tensors))


def test_the_size_of_tensors_is_counted_in_blocks() -> None:
    assert _with_tensors(tensor("a", [32, 10], 8), tensor("b", [7], 0)).weights_bytes == 34 * 10 + 28
    # A type of a later version: its size is not known, so that of the whole is not.
    assert _with_tensors(tensor("a", [32, 10], 8), tensor("b", [7], 4000)).weights_bytes is None


def test_one_of_several_files_does_not_tell_the_weights_of_all() -> None:
    assert _with_tensors(tensor("a", [7], 0), **{"split.count": ("u32", 3)}).weights_bytes is None


def test_sizes_beyond_all_bounds_are_refused() -> None:
    with pytest.raises(UnknownGeometryError, match="cannot be read"):
        _with_tensors(tensor("a", [1 << 60, 1 << 60], 0))


def test_the_source_line_names_the_file_and_its_bytes() -> None:
    line = source_line("config.json", b"{}")
    assert line == "config.json, SHA-256 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert len(source_line("x" * 500, b"")) <= 200
