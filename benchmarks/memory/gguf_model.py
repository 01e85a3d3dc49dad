"""From the head of a GGUF file to the layers that llama.cpp makes of it. An architecture that is not here is not known.

Read in llama.cpp as llama-cpp-python 0.3.36 carries it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gguf.constants import LlamaFileType

from benchmarks.memory import gguf_header
from benchmarks.memory.geometry import MOST_LAYERS, MOST_WIDTH, Geometry, Kind, Layers, UnknownGeometryError, gathered
from benchmarks.memory.gguf_header import Header
from benchmarks.memory.states import state_layer

PLAIN = (
    "llama", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "gemma", "phi2", "phi3", "starcoder2", "stablelm",
    "falcon", "gptneox", "gpt2", "bloom", "olmo", "olmoe", "granite", "granitemoe", "command-r", "internlm2", "glm4",
    "glm4moe", "chatglm", "exaone", "nemotron", "smollm3", "deepseek", "arcee", "ernie4_5", "seed_oss", "mistral3",
)  # fmt: skip
"""Every layer keeps every token. llama.cpp uses no window in these, whatever the file says of one."""

WINDOWED = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4}
"""Every n-th layer keeps every token, the others a window: llama.cpp's own rule, where the file has no pattern."""


@dataclass(frozen=True, slots=True)
class Said:
    """The metadata of one architecture, by its keys without their prefix."""

    architecture: str
    header: Header

    def find(self, key: str) -> gguf_header.Value | None:
        return self.header.values.get(f"{self.architecture}.{key}")

    def maybe(self, key: str, most: int = MOST_WIDTH) -> int | None:
        """A number of the file within bounds; None where it says none."""
        value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise UnknownGeometryError(f"This GGUF file says {key} = {str(value)[:40]}, which cannot be.")
        return value

    def need(self, key: str, most: int = MOST_WIDTH) -> int:
        value = self.maybe(key, most)
        if not value:
            raise UnknownGeometryError(f"This GGUF file of a {self.architecture} says no {key}, and it is not guessed.")
        return value

    def of_layers(self, key: str, total: int) -> list[int]:
        """One number for all layers or one for each."""
        value = self.find(key)
        if not isinstance(value, tuple):
            return [self.need(key)] * total
        fits = all(isinstance(one, int) and 0 <= one <= MOST_WIDTH for one in value)
        if len(value) < total or not fits:
            raise UnknownGeometryError(
                f"This GGUF file says {key} for {len(value)} of {total} layers, or not as numbers."
            )
        return [int(one) for one in value[:total]]


def of_bytes(content: bytes) -> Geometry:
    """The geometry that the first bytes of a GGUF file describe."""
    header = gguf_header.read(content)
    architecture = header.values.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise UnknownGeometryError("This GGUF file says no general.architecture. It may hold no model.")
    build = _BUILDERS.get(architecture)
    if build is None:
        raise UnknownGeometryError(
            f"Nobody has read how a model “{architecture[:60]}” keeps its tokens, so its memory is not known. It is not guessed."
        )
    said = Said(architecture, header)
    return Geometry(
        architecture=architecture,
        layers=gathered(build(said)),
        context_tokens=said.maybe("context_length", 1 << 40) or None,
        dtype=_file_type(header),
        weights_bytes=_weights(header),
    )


def _weights(header: Header) -> int | None:
    """None for one of several files: its tensors are not all."""
    split = header.values.get("split.count", 0)
    return header.tensor_bytes or None if split in (0, 1) else None


def _file_type(header: Header) -> str:
    number = header.values.get("general.file_type")
    try:
        return (
            LlamaFileType(number if isinstance(number, int) else -1).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        )
    except ValueError:
        return ""


def _total(said: Said) -> int:
    return said.need("block_count", MOST_LAYERS) - (said.maybe("nextn_predict_layers", MOST_LAYERS) or 0)


def _attention(said: Said) -> list[Layers]:
    total = _total(said)
    heads = said.of_layers("attention.head_count", total)
    kv_heads = (
        heads if said.find("attention.head_count_kv") is None else said.of_layers("attention.head_count_kv", total)
    )
    windows = _windows(said, total)
    shared = said.maybe("attention.shared_kv_layers", MOST_LAYERS) or 0
    return [
        _layer(said, heads[i], kv_heads[i], windows[i], reads=i >= total - shared) for i in range(total)
    ]  # fmt: skip


def _layer(said: Said, heads: int, kv_heads: int, window: int | None, *, reads: bool = False) -> Layers:
    width = said.maybe("attention.key_length") or _quotient(said, heads)
    value_width = said.maybe("attention.value_length") or width
    kind = Kind.SHARED if reads else Kind.WINDOW if window else Kind.FULL
    kept = window if kind == Kind.WINDOW else None
    return Layers(kind=kind, count=1, kv_heads=kv_heads, k_width=width, v_width=value_width, window_tokens=kept)


def _quotient(said: Said, heads: int) -> int:
    hidden = said.need("embedding_length")
    if not heads or hidden % heads:
        raise UnknownGeometryError(
            f"{hidden} hidden over {heads} heads is no whole head width, and key_length is not said."
        )
    return hidden // heads


def _windows(said: Said, total: int) -> list[int | None]:
    every = WINDOWED.get(said.architecture)
    if every is None or (said.architecture == "gemma3" and not said.maybe("attention.sliding_window", 1 << 40)):
        return [None] * total
    window = said.need("attention.sliding_window", 1 << 40)
    pattern = said.find("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        return [window if slides else None for slides in said.of_layers("attention.sliding_window_pattern", total)]
    every = said.maybe("attention.sliding_window_pattern", MOST_LAYERS) or every
    return [None if (i + 1) % every == 0 else window for i in range(total)]


def _latent(said: Said) -> list[Layers]:
    """DeepSeek's MLA; files of before it was compressed keep keys and values of every head."""
    if said.find("attention.key_length_mla") is None:
        return _attention(said)
    row = said.need("attention.kv_lora_rank") + said.need("rope.dimension_count")
    return [Layers(kind=Kind.LATENT, count=_total(said), kv_heads=1, k_width=row)]


def _state(said: Said) -> Layers:
    inner, state = said.need("ssm.inner_size"), said.need("ssm.state_size")
    conv_width = inner + 2 * (said.maybe("ssm.group_count") or 0) * state
    return state_layer(conv_width, said.need("ssm.conv_kernel"), inner * state)


def _only_states(said: Said) -> list[Layers]:
    return [_state(said)] * _total(said)


def _hybrid(said: Said) -> list[Layers]:
    """Layers without KV heads have a state."""
    total = _total(said)
    if not isinstance(said.find("attention.head_count_kv"), tuple):
        raise UnknownGeometryError(
            f"Which layers of this {said.architecture} attend is not said by attention.head_count_kv."
        )
    heads = said.of_layers("attention.head_count", total)
    kv_heads = said.of_layers("attention.head_count_kv", total)
    return [_layer(said, heads[i], kv, None) if kv else _state(said) for i, kv in enumerate(kv_heads)]


_BUILDERS: dict[str, Callable[[Said], list[Layers]]] = {
    **dict.fromkeys([*PLAIN, *WINDOWED], _attention),
    "deepseek2": _latent,
    "mamba": _only_states,
    "mamba2": _only_states,
    "jamba": _hybrid,
    "granitehybrid": _hybrid,
}
