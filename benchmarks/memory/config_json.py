"""A Hugging Face config.json as typed fields: those that memory depends on, each within bounds; the rest is not looked at."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec

from benchmarks.memory.geometry import MOST_LAYERS, MOST_WIDTH, UnknownGeometryError

MOST_BYTES = 1 << 20

Number = Annotated[int, msgspec.Meta(ge=1, le=MOST_WIDTH)] | None
LayerNumber = Annotated[int, msgspec.Meta(ge=1, le=MOST_LAYERS)] | None
Least0 = Annotated[int, msgspec.Meta(ge=0, le=MOST_LAYERS)] | None
Length = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] | None
Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_LAYERS)] | None
Numbers = Annotated[tuple[int, ...], msgspec.Meta(max_length=MOST_LAYERS)] | None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Fields under the names that model families give them. `text_config` is the language part of one that also sees."""

    model_type: str = ""
    text_config: Config | None = None
    torch_dtype: str | None = None
    dtype: str | None = None
    max_position_embeddings: Length = None
    n_positions: Length = None
    seq_length: Length = None

    num_hidden_layers: LayerNumber = None
    n_layer: LayerNumber = None
    num_layers: LayerNumber = None
    hidden_size: Number = None
    n_embd: Number = None
    num_attention_heads: Number = None
    n_head: Number = None
    num_key_value_heads: Number = None
    num_kv_heads: Number = None
    multi_query: bool | None = None
    multi_query_attention: bool = False
    multi_query_group_num: Number = None
    new_decoder_architecture: bool = False
    head_dim: Number = None
    kv_channels: Number = None

    layer_types: Names = None
    sliding_window: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] | msgspec.UnsetType | None = msgspec.UNSET
    use_sliding_window: bool | None = None
    max_window_layers: Least0 = None
    sliding_window_pattern: LayerNumber | str = None
    attention_chunk_size: Length = None
    no_rope_layers: Numbers = None
    no_rope_layer_interval: LayerNumber = None
    num_kv_shared_layers: Least0 = None

    kv_lora_rank: Number = None
    qk_rope_head_dim: Number = None

    intermediate_size: Number = None
    expand: Number = None
    state_size: Number = None
    conv_kernel: Number = None
    n_groups: Number = None
    num_heads: Number = None
    attn_layer_period: LayerNumber = None
    attn_layer_offset: Least0 = None
    attn_layer_indices: Numbers = None
    mamba_expand: Number = None
    mamba_d_state: Number = None
    mamba_d_conv: Number = None
    mamba_n_groups: Number = None
    mamba_n_heads: Number = None
    mamba_d_head: Number | str = None
    full_attention_interval: LayerNumber = None
    linear_num_key_heads: Number = None
    linear_num_value_heads: Number = None
    linear_key_head_dim: Number = None
    linear_value_head_dim: Number = None
    linear_conv_kernel_dim: Number = None


def parsed(content: bytes) -> Config:
    """The language part of the file. UnknownGeometryError with a sentence for what is no such file."""
    if len(content) > MOST_BYTES:
        raise UnknownGeometryError(
            f"A config.json has at most {MOST_BYTES // 1024:,} KiB; this one has {len(content):,} bytes."
        )
    try:
        # The standard library's reader: files of state-space models hold Infinity, which JSON does not know.
        whole = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnknownGeometryError("This is neither a config.json (UTF-8 text) nor a GGUF file.") from None
    except (ValueError, RecursionError) as error:
        raise UnknownGeometryError(f"This is no JSON: {_first_words(error)}.") from None
    if not isinstance(whole, dict):
        raise UnknownGeometryError("A config.json is one JSON object, { … }. This is something else.")
    try:
        config = msgspec.convert(whole, Config)
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        raise UnknownGeometryError(f"A field of this config.json cannot be used: {_first_words(error)}.") from None
    return _language_part(config)


def need(config: Config, *names: str) -> int:
    """The first of these fields that is there; a field may have an older name."""
    for name in names:
        value = getattr(config, name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    raise UnknownGeometryError(f"This config.json of a {config.model_type} says no {names[0]}, and it is not guessed.")


def _language_part(config: Config) -> Config:
    inner = config.text_config
    if inner is None or config.num_hidden_layers is not None:
        return config
    dtype = inner.torch_dtype or inner.dtype or config.torch_dtype or config.dtype
    return msgspec.structs.replace(inner, model_type=inner.model_type or config.model_type, dtype=dtype)


def _first_words(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:200].rstrip(".")
