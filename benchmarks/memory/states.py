"""State-space and linear-attention layers: a state of fixed size for each sequence, beside attention layers or alone."""

from __future__ import annotations

from benchmarks.memory.config_json import Config, need
from benchmarks.memory.geometry import Kind, Layers, UnknownGeometryError


def state_layer(conv_width: int, kernel: int, recurrent: int) -> Layers:
    """The last inputs of the convolution and the recurrent state, in elements."""
    return Layers(kind=Kind.STATE, count=1, state_elements=conv_width * (kernel - 1) + recurrent)


def mamba(config: Config) -> list[Layers]:
    inner = config.intermediate_size or need(config, "expand") * need(config, "hidden_size")
    layer = state_layer(inner, need(config, "conv_kernel"), inner * need(config, "state_size"))
    return [layer] * need(config, "num_hidden_layers", "n_layer")


def mamba2(config: Config) -> list[Layers]:
    inner = need(config, "num_heads") * need(config, "head_dim")
    layer = _second(inner, need(config, "n_groups"), need(config, "state_size"), need(config, "conv_kernel"))
    return [layer] * need(config, "num_hidden_layers")


def periodic(config: Config, attention: Layers) -> list[Layers]:
    """Jamba: one attention layer in each period, the others with Mamba's first kind of state."""
    inner = need(config, "mamba_expand") * need(config, "hidden_size")
    state = state_layer(inner, need(config, "mamba_d_conv"), inner * need(config, "mamba_d_state"))
    period, offset = need(config, "attn_layer_period"), need(config, "attn_layer_offset")
    return [attention if i % period == offset else state for i in range(need(config, "num_hidden_layers"))]


def hybrid(config: Config, attention: Layers) -> list[Layers]:
    """Bamba and Granite: attention where layer_types or attn_layer_indices say so, the others with Mamba 2."""
    state = _second(
        _hybrid_inner(config),
        need(config, "mamba_n_groups"),
        need(config, "mamba_d_state"),
        need(config, "mamba_d_conv"),
    )
    return [attention if attends else state for attends in _attending(config)]


def linear_hybrid(config: Config, attention: Layers) -> list[Layers]:
    """Qwen3-Next: gated delta net, with full attention in every n-th layer."""
    keys = need(config, "linear_num_key_heads") * need(config, "linear_key_head_dim")
    heads, width = need(config, "linear_num_value_heads"), need(config, "linear_value_head_dim")
    recurrent = heads * width * need(config, "linear_key_head_dim")
    state = state_layer(2 * keys + heads * width, need(config, "linear_conv_kernel_dim"), recurrent)
    if config.layer_types is not None:
        return [attention if attends else state for attends in _attending(config)]
    every = need(config, "full_attention_interval")
    return [attention if (i + 1) % every == 0 else state for i in range(need(config, "num_hidden_layers"))]


def _second(inner: int, groups: int, state: int, kernel: int) -> Layers:
    return state_layer(inner + 2 * groups * state, kernel, inner * state)


def _hybrid_inner(config: Config) -> int:
    inner = need(config, "mamba_expand") * need(config, "hidden_size")
    heads, width = need(config, "mamba_n_heads"), config.mamba_d_head
    if isinstance(width, int) and heads * width != inner:
        raise UnknownGeometryError(f"{heads} state heads of {width} are not the {inner} that mamba_expand says.")
    return inner


def _attending(config: Config) -> list[bool]:
    """Of each layer whether it is an attention layer."""
    total = need(config, "num_hidden_layers")
    if config.layer_types is not None:
        known = {"attention": True, "full_attention": True, "mamba": False, "linear_attention": False}
        odd = next((name for name in config.layer_types if name not in known), None)
        if odd is not None or len(config.layer_types) != total:
            said = f"names {len(config.layer_types)} of {total} layers" if odd is None else f"holds {odd[:60]}"
            raise UnknownGeometryError(f"layer_types {said}.")
        return [known[name] for name in config.layer_types]
    if config.attn_layer_indices is None:
        raise UnknownGeometryError("Which layers attend is said neither by layer_types nor by attn_layer_indices.")
    return [i in config.attn_layer_indices for i in range(total)]
