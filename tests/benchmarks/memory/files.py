"""Files that describe models: public config.json files, tables of fields, and heads of GGUF files written field by field."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.memory.geometry import Geometry
from benchmarks.memory.reading import geometry_of

DATA = Path(__file__).parents[2] / "data" / "memory"

LLAMA_8B: dict[str, object] = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip


def public(name: str) -> bytes:
    """A config.json with its publisher's values."""
    return (DATA / f"{name}.config.json").read_bytes()


def config(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def geometry(**fields: object) -> Geometry:
    return geometry_of(config(**fields))


_TYPES = {"u8": (0, "<B"), "u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q")}


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def value(kind: str, given: object) -> bytes:
    """A typed value; a kind such as u32[] is a row."""
    if kind == "text":
        return struct.pack("<I", 8) + text(str(given))
    if kind == "text[]":
        assert isinstance(given, Sequence)
        return struct.pack("<IIQ", 9, 8, len(given)) + b"".join(text(str(one)) for one in given)
    if kind.endswith("[]"):
        number, form = _TYPES[kind.removesuffix("[]")]
        assert isinstance(given, Sequence)
        return struct.pack("<IIQ", 9, number, len(given)) + b"".join(struct.pack(form, one) for one in given)
    number, form = _TYPES[kind]
    return struct.pack("<I", number) + struct.pack(form, given)


def tensor(name: str, dimensions: Sequence[int], kind: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, 0)


def gguf(values: Mapping[str, tuple[str, object]], tensors: Sequence[bytes] = (), version: int = 3) -> bytes:
    """The head of a GGUF file, written here by the format's own description, not by the library that reads its types."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    return head + b"".join(text(name) + value(*given) for name, given in values.items()) + b"".join(tensors)


def gguf_of(architecture: str, **fields: object) -> bytes:
    """Numbers as u32, rows as i32[]; a double underscore in a name is a dot."""
    found: dict[str, tuple[str, object]] = {"general.architecture": ("text", architecture)}
    for name, given in fields.items():
        kind = "bool[]" if given and isinstance(given, list) and isinstance(given[0], bool) else "i32[]"
        found[f"{architecture}.{name.replace('__', '.')}"] = (
            (kind, given) if isinstance(given, list) else ("u32", given)
        )
    return gguf(found)
