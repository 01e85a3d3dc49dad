"""Whatever the bytes are: a geometry within bounds, or a sentence. No other error, no long work."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.memory.accounting import Keeping, sequence_bytes
from benchmarks.memory.config_json import Config
from benchmarks.memory.families import ATTENTION, BUILDERS
from benchmarks.memory.geometry import Geometry, UnknownGeometryError, as_json, from_json
from benchmarks.memory.reading import geometry_of
from tests.benchmarks.memory.files import DATA, LLAMA_8B, config, gguf_of, public

HEAD = gguf_of("llama", block_count=2, embedding_length=64, attention__head_count=4, attention__head_count_kv=[2, 2])
FIELDS = sorted(set(Config.__struct_fields__) - {"model_type"})
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 70), st.integers(), st.floats(), st.text(max_size=8),
    st.lists(st.one_of(st.integers(-1, 40), st.sampled_from(["full_attention", "sliding_attention", "mamba"])), max_size=40),
    st.dictionaries(st.sampled_from(FIELDS), st.integers(1, 9), max_size=5),
)  # fmt: skip


def read(content: bytes) -> Geometry | None:
    """None where a sentence came; it must be one that a person can read."""
    try:
        return geometry_of(content)
    except UnknownGeometryError as error:
        said = str(error)
        assert said.endswith((".", "?")), said
        assert len(said) < 500
        return None


def usable(content: bytes) -> None:
    found = read(content)
    if found is not None:
        kept = sequence_bytes(found, 4096, Keeping())
        assert 0 <= kept.bound_bytes <= kept.naive_bytes
        assert from_json(json.loads(json.dumps(as_json(found)))) == found


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "This file is empty."),
        (b"  \n", "This file is empty."),
        (b"\xff\xfe\x00", "neither a config.json"),
        (b"{", "This is no JSON"),
        (b"[1]", "one JSON object"),
        (b"null", "one JSON object"),
        (b"[" * 100_000, "This is no JSON"),
        (b'{"a":' * 100_000, "This is no JSON"),
        (b'{"num_hidden_layers": ' + b"9" * 5000 + b"}", "This is no JSON"),
        (b"{}", "without a model_type"),
        (
            config(**{**LLAMA_8B, "num_hidden_layers": "32"}),
            "A field of this config.json cannot be used: Expected `int",
        ),
        (config(**{**LLAMA_8B, "num_hidden_layers": -1}), "cannot be used: Expected `int` >= 1"),
        (config(**{**LLAMA_8B, "num_hidden_layers": 10**9}), "cannot be used: Expected `int` <= 2048"),
        (config(**{**LLAMA_8B, "hidden_size": 2**70}), "A field of this config.json cannot be used"),
        (config(**{**LLAMA_8B, "layer_types": ["x"] * 5000}), "cannot be used: Expected `array` of length <= 2048"),
        (b" " * (1 << 20) + b"{}", "at most 1,024 KiB"),
    ],
)
def test_what_is_no_such_file_gives_a_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(UnknownGeometryError) as error:
        geometry_of(content)
    assert sentence in str(error.value)


def test_infinity_in_a_file_of_a_state_space_model_is_no_fault() -> None:
    content = config(**LLAMA_8B).replace(b"{", b'{"time_step_limit": [0.0, Infinity], ', 1)
    assert geometry_of(content) == geometry_of(config(**LLAMA_8B))


def test_code_in_a_file_is_a_text_like_any_other() -> None:
    content = config(**LLAMA_8B, auto_map={"AutoModel": "evil.py--Model"}, trust_remote_code=True)
    assert geometry_of(content) == geometry_of(config(**LLAMA_8B))


@given(st.binary(max_size=400))
def test_any_bytes(content: bytes) -> None:
    usable(content)


@given(st.binary(max_size=300))
def test_any_bytes_behind_the_mark_of_a_gguf_file(content: bytes) -> None:
    usable(b"GGUF\x03\x00\x00\x00" + content)


@settings(max_examples=400)
@given(st.sampled_from([HEAD]), st.data())
def test_a_gguf_head_with_bytes_changed_or_cut(head: bytes, data: st.DataObject) -> None:
    changed = bytearray(head)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(head) - 1))] = data.draw(st.integers(0, 255))
    usable(bytes(changed[: data.draw(st.integers(0, len(head)))]))


@settings(max_examples=400)
@given(st.sampled_from(sorted([*ATTENTION, *BUILDERS])), st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=25))
def test_any_fields_of_any_family(model_type: str, fields: dict[str, object]) -> None:
    usable(json.dumps({**LLAMA_8B, **fields, "model_type": model_type}).encode())


@given(
    st.sampled_from(sorted(path.name.removesuffix(".config.json") for path in DATA.glob("*.config.json"))), st.data()
)
def test_a_public_file_with_bytes_changed_or_cut(name: str, data: st.DataObject) -> None:
    changed = bytearray(public(name))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    usable(bytes(changed[: data.draw(st.integers(0, len(changed)))]))


@given(st.recursive(st.one_of(st.none(), st.integers(), st.text()), lambda inner: st.dictionaries(st.text(), inner)))
def test_a_kept_geometry_that_nobody_here_wrote(value: object) -> None:
    with pytest.raises(UnknownGeometryError):
        from_json(value)
