"""Model families of config.json by their model_type: which of their layers keep what. A type that is not here is not known.

Read in the configuration code of transformers 5.24.0; chatglm and kimi_k2 are not part of it and stand here by the fields that
their publishers use. Where a family's class fills in another head width or number
of KV heads than the fields beside it suggest, a file that leaves the field out is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import UNSET

from benchmarks.memory.config_json import Config, need, parsed
from benchmarks.memory.geometry import Geometry, Kind, Layers, UnknownGeometryError, gathered
from benchmarks.memory.states import hybrid, linear_hybrid, mamba, mamba2, periodic

Builder = Callable[[Config], list[Layers]]


@dataclass(frozen=True, slots=True)
class Family:
    """`full_every` n: every n-th layer is a full one, the others have a window, where the file has no layer_types.
    `all_windows`: every layer has the window that the file names. `heads_for_kv`: a file without num_key_value_heads
    has as many as heads. `head_dim_needed`: hidden_size / heads would be wrong. `window_needed`: a file that leaves
    sliding_window out has one, of the class's own size."""

    full_every: int | None = None
    all_windows: bool = False
    heads_for_kv: bool = False
    head_dim_needed: bool = False
    window_needed: bool = False


_PLAIN, _OLD, _OWN_WIDTH = Family(), Family(heads_for_kv=True), Family(head_dim_needed=True)
_WINDOWED, _WINDOW_SAID = Family(all_windows=True), Family(all_windows=True, window_needed=True)
ATTENTION: dict[str, Family] = {
    "llama": _OLD, "mistral": _WINDOW_SAID, "ministral": _WINDOW_SAID,
    "mixtral": _WINDOWED, "starcoder2": _WINDOWED,
    "phi3": Family(all_windows=True, heads_for_kv=True), "phimoe": _WINDOWED, "phi": _OLD,
    "qwen2": _PLAIN, "qwen2_moe": _PLAIN, "qwen2_vl": _PLAIN, "qwen2_5_vl": _PLAIN, "qwen2_vl_text": _PLAIN,
    "qwen2_5_vl_text": _PLAIN,
    "qwen3": _OWN_WIDTH, "qwen3_moe": _OWN_WIDTH, "qwen3_vl_text": _OWN_WIDTH, "qwen3_vl_moe_text": _OWN_WIDTH,
    "gemma": _OWN_WIDTH, "gemma2": Family(full_every=2, head_dim_needed=True),
    "gemma3_text": Family(full_every=6, head_dim_needed=True),
    "gemma3n_text": Family(full_every=5, head_dim_needed=True),
    "gpt_oss": Family(full_every=2, head_dim_needed=True), "cohere": _OLD, "cohere2": Family(full_every=4),
    "olmo": _OLD, "olmo2": _OLD, "olmo3": Family(full_every=4, heads_for_kv=True), "olmoe": _OLD,
    "llama4_text": Family(full_every=4, head_dim_needed=True),
    "stablelm": _PLAIN, "granite": _OLD, "granitemoe": _OLD, "nemotron": _PLAIN, "smollm3": _PLAIN, "arcee": _PLAIN,
    "glm": _OWN_WIDTH, "glm4": _OWN_WIDTH, "glm4_moe": _OWN_WIDTH, "internlm3": _PLAIN,
    "exaone4": Family(window_needed=True), "ernie4_5": _OWN_WIDTH, "ernie4_5_moe": _PLAIN, "seed_oss": _OWN_WIDTH,
    "gpt_neox": _OLD, "opt": _OLD, "gpt2": _OLD, "bloom": _OLD,
}  # fmt: skip
"""Multi-head, grouped-query and multi-query attention under the usual field names, with windows or without."""


def of_bytes(content: bytes) -> Geometry:
    """The geometry that a config.json describes."""
    config = parsed(content)
    build = BUILDERS.get(config.model_type)
    if build is None and config.model_type in ATTENTION:
        build = _attention
    if build is None:
        named = f"“{config.model_type[:60]}”" if config.model_type else "without a model_type"
        raise UnknownGeometryError(
            f"Nobody has read how a model {named} keeps its tokens, so its memory is not known. It is not guessed."
        )
    return Geometry(
        architecture=config.model_type,
        layers=gathered(build(config)),
        context_tokens=config.max_position_embeddings or config.n_positions or config.seq_length,
        dtype=config.torch_dtype or config.dtype or "",
    )


def _attention(config: Config) -> list[Layers]:
    family = ATTENTION[config.model_type]
    total = need(config, "num_hidden_layers", "n_layer")
    shared = config.num_kv_shared_layers or 0
    if shared >= total:
        raise UnknownGeometryError(f"{shared} of {total} layers are said to read another layer's KV: one must keep it.")
    windows = _windows(config, family, total)
    return [_layer(config, family, window, reads=index >= total - shared) for index, window in enumerate(windows)]


def _layer(config: Config, family: Family, window: int | None, *, reads: bool) -> Layers:
    heads, width = _kv_heads(config, family), _head_width(config, family)
    kind = Kind.SHARED if reads else Kind.WINDOW if window else Kind.FULL
    kept = window if kind == Kind.WINDOW else None
    return Layers(kind=kind, count=1, kv_heads=heads, k_width=width, v_width=width, window_tokens=kept)


def _kv_heads(config: Config, family: Family) -> int:
    if config.num_key_value_heads is None and family.heads_for_kv:
        return need(config, "num_attention_heads", "n_head")
    return need(config, "num_key_value_heads")


def _head_width(config: Config, family: Family) -> int:
    """head_dim wins over hidden_size / heads: in Qwen3-32B the quotient would be 37 % low."""
    if config.head_dim is not None or family.head_dim_needed:
        return need(config, "head_dim")
    hidden, heads = need(config, "hidden_size", "n_embd"), need(config, "num_attention_heads", "n_head")
    if hidden % heads:
        raise UnknownGeometryError(
            f"{hidden} hidden over {heads} heads is no whole head width, and head_dim is not said."
        )
    return hidden // heads


def _windows(config: Config, family: Family, total: int) -> list[int | None]:
    """Of each layer the window in tokens, None for one that keeps every token."""
    field = "attention_chunk_size" if config.model_type == "llama4_text" else "sliding_window"
    window = getattr(config, field)
    if family.window_needed and window is UNSET:
        need(config, field)
    if config.use_sliding_window is False or not isinstance(window, int) or not window:
        if family.full_every and config.layer_types is None:
            return _patterned(config, family, total, need(config, field))
        if _named(config, total, ("sliding_attention", "chunked_attention")):
            raise UnknownGeometryError("Layers with a window are named, and its size is not.")
        return [None] * total
    named = _named(config, total, ("sliding_attention", "chunked_attention"))
    if named:
        return [window if slides else None for slides in named]
    return _patterned(config, family, total, window)


def _patterned(config: Config, family: Family, total: int, window: int) -> list[int | None]:
    """Where no layer_types are given: the family's own rule."""
    if config.model_type == "llama4_text" and config.no_rope_layers:
        if len(config.no_rope_layers) != total:
            raise UnknownGeometryError(f"no_rope_layers names {len(config.no_rope_layers)} of {total} layers.")
        return [window if rope else None for rope in config.no_rope_layers]
    if family.all_windows:
        return [window] * total
    if config.use_sliding_window and config.model_type in _IGNORES_WINDOW:
        first = need(config, "max_window_layers")
        return [window if index >= first else None for index in range(total)]
    pattern = config.sliding_window_pattern
    every = pattern if isinstance(pattern, int) else config.no_rope_layer_interval or family.full_every
    if isinstance(pattern, str) or every is None:
        # Some files name a window that their family never uses; without layer_types that cannot be told.
        if config.model_type in _IGNORES_WINDOW and pattern is None:
            return [None] * total
        raise UnknownGeometryError(
            f"Which layers of this {config.model_type} have the window is not said by layer_types."
        )
    return [None if (index + 1) % every == 0 else window for index in range(total)]


_IGNORES_WINDOW = (
    "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text", "qwen3", "qwen3_moe", "qwen3_vl_text",
)  # fmt: skip


def _named(config: Config, total: int, wanted: tuple[str, ...]) -> list[bool]:
    """Of each layer whether its type is one of these; empty where the file names no types."""
    if config.layer_types is None:
        return []
    if len(config.layer_types) != total:
        raise UnknownGeometryError(f"layer_types names {len(config.layer_types)} of {total} layers.")
    odd = sorted({name for name in config.layer_types if name not in (*wanted, "full_attention")})
    if odd:
        raise UnknownGeometryError(f"A layer type of this {config.model_type} is not known: {odd[0][:60]}.")
    return [name in wanted for name in config.layer_types] if set(config.layer_types) & set(wanted) else []


def _latent(config: Config) -> list[Layers]:
    """MLA: one compressed row and the shared rotary key of each token, in every layer."""
    row = need(config, "kv_lora_rank") + need(config, "qk_rope_head_dim")
    return [Layers(kind=Kind.LATENT, count=need(config, "num_hidden_layers"), kv_heads=1, k_width=row)]


def _multi_query(config: Config) -> list[Layers]:
    """Falcon and GPT-BigCode: one KV head for all, unless the newer form of Falcon names its own number."""
    hidden, heads = need(config, "hidden_size", "n_embd"), need(config, "num_attention_heads", "n_head")
    if config.multi_query is None and not config.new_decoder_architecture:
        raise UnknownGeometryError(
            f"This config.json of a {config.model_type} says no multi_query, and it is not guessed."
        )
    kv_heads = need(config, "num_kv_heads") if config.new_decoder_architecture else 1 if config.multi_query else heads
    width = hidden // heads
    total = need(config, "num_hidden_layers", "n_layer")
    return [Layers(kind=Kind.FULL, count=total, kv_heads=kv_heads, k_width=width, v_width=width)]


def _chatglm(config: Config) -> list[Layers]:
    heads = (
        need(config, "multi_query_group_num") if config.multi_query_attention else need(config, "num_attention_heads")
    )
    width = need(config, "kv_channels")
    total = need(config, "num_layers", "num_hidden_layers")
    return [Layers(kind=Kind.FULL, count=total, kv_heads=heads, k_width=width, v_width=width)]


def _between(config: Config) -> Layers:
    """The attention layer of a hybrid model."""
    return _layer(config, _OLD, None, reads=False)


BUILDERS: dict[str, Builder] = {
    "deepseek_v2": _latent, "deepseek_v3": _latent, "kimi_k2": _latent,
    "falcon": _multi_query, "gpt_bigcode": _multi_query, "chatglm": _chatglm,
    "mamba": mamba, "falcon_mamba": mamba, "mamba2": mamba2,
    "jamba": lambda config: periodic(config, _between(config)),
    "bamba": lambda config: hybrid(config, _between(config)),
    "granitemoehybrid": lambda config: hybrid(config, _between(config)),
    "qwen3_next": lambda config: linear_hybrid(config, _layer(config, _OWN_WIDTH, None, reads=False)),
}  # fmt: skip
