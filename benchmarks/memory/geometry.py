"""What decides the memory of a model's sequences: groups of layers that keep the same. Read from a file, kept as JSON.

Widths are elements, not bytes: how many bytes an element takes is the runtime's choice.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec

MOST_LAYERS = 2048
MOST_WIDTH = 1 << 24

Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_LAYERS)]
Width = Annotated[int, msgspec.Meta(ge=0, le=MOST_WIDTH)]
Tokens = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 50)]


class UnknownGeometryError(ValueError):
    """The bytes do not say what the memory depends on; the message is a sentence for people."""


class Kind(StrEnum):
    FULL = "full"
    WINDOW = "window"
    LATENT = "latent"
    SHARED = "shared"
    STATE = "state"


class Layers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Layers that keep the same. Of each token: `kv_heads` x (`k_width` + `v_width`) elements.

    full: of every token · window: of the last `window_tokens` · latent: one compressed row, that every tensor-parallel
    rank keeps whole · shared: nothing of their own, they read another layer's · state: `state_elements` a sequence,
    however long it is.
    """

    kind: Kind
    count: Count
    kv_heads: Width = 0
    k_width: Width = 0
    v_width: Width = 0
    window_tokens: Tokens | None = None
    state_elements: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 0

    def __post_init__(self) -> None:
        if self.kind == Kind.WINDOW and self.window_tokens is None:
            raise ValueError("a window layer says no window_tokens")


class Geometry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`context_tokens` is what it was trained for. `dtype` is that of its weights, as the file says it; `weights_bytes`
    is None where the file does not tell them."""

    architecture: str
    layers: Annotated[tuple[Layers, ...], msgspec.Meta(min_length=1, max_length=MOST_LAYERS)]
    context_tokens: Tokens | None = None
    dtype: str = ""
    weights_bytes: Size | None = None

    @property
    def layer_count(self) -> int:
        return sum(group.count for group in self.layers)


def gathered(layers: Iterable[Layers]) -> tuple[Layers, ...]:
    """One layer after the other as groups of equals, in the order of their first."""
    counts: dict[Layers, int] = {}
    for layer in layers:
        counts[layer] = counts.get(layer, 0) + layer.count
    return tuple(msgspec.structs.replace(layer, count=count) for layer, count in counts.items())


def as_json(geometry: Geometry) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(geometry)
    return plain


def from_json(value: object) -> Geometry:
    """The other way; UnknownGeometryError for what no reader of this package has written."""
    try:
        return msgspec.convert(value, Geometry)
    except (msgspec.ValidationError, ValueError) as error:
        raise UnknownGeometryError(f"The kept geometry of the model cannot be read: {error}.") from error


_WORDS = {
    Kind.FULL: "keep every token",
    Kind.LATENT: "keep one compressed row of every token (MLA)",
    Kind.SHARED: "read another layer's KV",
    Kind.STATE: "keep a state of fixed size",
}


def in_words(geometry: Geometry) -> str:
    """The layers as one sentence for people."""
    parts = [
        f"{group.count} {_WORDS.get(group.kind) or f'keep the last {group.window_tokens:,}'}"
        for group in geometry.layers
    ]
    return f"{geometry.layer_count} layers: {', '.join(parts)}"
