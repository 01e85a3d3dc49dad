"""Write a small llama model with random weights from a seed, for llama.cpp: `python -m tools.tiny_gguf OUT.gguf`.

It speaks only the made-up words of benchmarks.runtimes.vocabulary, and each of them is exactly one token, with or
without the space before it. Its chat template adds nothing, and it never stops by itself. So a prompt has as many
tokens as words, and an answer exactly max_tokens tokens: a checker needs no count from the server.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, TokenType

from benchmarks.runtimes.vocabulary import WORDS

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
FORBIDDEN_WEIGHT = -6.0  # times the constant column, which is about 15 to 20 after the last norm
WORD_SPREAD = 2.0
BLOCK_GAIN = 0.5  # small beside the constant column, so that it survives all layers
FILE_TYPES = {"F32": 0, "F16": 1}


@dataclass(frozen=True)
class Shape:
    """Layers and widths. `width` must divide by `heads`, and `heads` by `kv_heads`."""

    layers: int = 8
    width: int = 512
    heads: int = 8
    kv_heads: int = 4
    vocabulary: int = 8192
    context: int = 8192
    type: str = "F32"
    seed: int = 7

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def hidden(self) -> int:
        return 3 * self.width


@dataclass
class Tokens:
    """A byte-level BPE vocabulary that grows by merges. `spoken`: ids of the words with a space before them."""

    texts: list[str] = field(default_factory=list)
    types: list[TokenType] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    spoken: list[int] = field(default_factory=list)

    def add(self, text: str, kind: TokenType = TokenType.NORMAL) -> int:
        if text not in self.ids:
            self.ids[text] = len(self.texts)
            self.texts.append(text)
            self.types.append(kind)
        return self.ids[text]

    def merge(self, left: str, right: str) -> None:
        if left + right not in self.ids:
            self.merges.append(f"{left} {right}")
            self.add(left + right)


def byte_symbols() -> list[str]:
    """GPT-2's printable stand-in for each of the 256 bytes: itself where it prints, else U+0100 and on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def tokens_for(size: int) -> Tokens:
    """Merges in three ranks: letters to syllables, space to the first syllable, then the two halves of each word."""
    tokens = Tokens()
    symbols = byte_symbols()
    for symbol in symbols:
        tokens.add(symbol)
    space = symbols[0x20]
    halves = [(word[:2], word[2:]) for word in WORDS]
    for syllable in sorted({half for pair in halves for half in pair}):
        tokens.merge(syllable[0], syllable[1])
    for first in sorted({first for first, _ in halves}):
        tokens.merge(space, first)
    for first, second in halves:
        tokens.merge(space + first, second)
        tokens.merge(first, second)
        tokens.spoken.append(tokens.ids[space + first + second])
    tokens.add("<|end|>", TokenType.CONTROL)
    if len(tokens.texts) > size:
        raise ValueError(f"The vocabulary needs at least {len(tokens.texts)} tokens.")
    while len(tokens.texts) < size:  # fillers give the last layer a realistic size
        tokens.add(f"<|spare-{len(tokens.texts)}|>", TokenType.UNUSED)
    return tokens


def tensors(shape: Shape, tokens: Tokens) -> Iterator[tuple[str, np.ndarray]]:
    """Every weight in a fixed order, so that a seed gives the same bytes.

    Column 0 of the embedding is a large constant that no layer writes to. After the last norm it acts as a bias:
    its weight is 0 for spoken words and strongly negative for every other token, the end token too.
    """
    dice = np.random.default_rng(shape.seed)
    width, hidden = shape.width, shape.hidden

    def random(rows: int, columns: int, gain: float = 1.0) -> np.ndarray:
        return dice.standard_normal((rows, columns), dtype=np.float32) * np.float32(gain / np.sqrt(columns))

    embedding = dice.standard_normal((len(tokens.texts), width), dtype=np.float32)
    embedding[:, 0] = 1.5 * np.sqrt(width)
    yield "token_embd.weight", embedding
    for layer in range(shape.layers):
        kv_width = shape.head_width * shape.kv_heads
        block = {
            "attn_norm": np.ones(width, np.float32),
            "attn_q": random(width, width),
            "attn_k": random(kv_width, width),
            "attn_v": random(kv_width, width),
            "attn_output": random(width, width, BLOCK_GAIN),
            "ffn_norm": np.ones(width, np.float32),
            "ffn_gate": random(hidden, width),
            "ffn_up": random(hidden, width),
            "ffn_down": random(width, hidden, BLOCK_GAIN),
        }
        block["attn_output"][0] = block["ffn_down"][0] = 0.0
        for name, weights in block.items():
            yield f"blk.{layer}.{name}.weight", weights
    yield "output_norm.weight", np.ones(width, np.float32)
    head = random(len(tokens.texts), width, WORD_SPREAD)
    head[:, 0] = FORBIDDEN_WEIGHT
    head[tokens.spoken, 0] = 0.0
    yield "output.weight", head


def write(path: Path, shape: Shape) -> None:
    """The whole file, moved into place when complete."""
    tokens = tokens_for(shape.vocabulary)
    part = path.with_name(path.name + ".part")
    writer = gguf.GGUFWriter(str(part), "llama")
    _describe(writer, shape, tokens)
    half = GGMLQuantizationType.F16
    for name, weights in tensors(shape, tokens):
        if shape.type == "F16" and weights.ndim == 2:
            writer.add_tensor(name, weights.astype(np.float16), raw_dtype=half)
        else:
            writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(path)


def _describe(writer: gguf.GGUFWriter, shape: Shape, tokens: Tokens) -> None:
    writer.add_name(f"random words, {shape.layers} x {shape.width}, seed {shape.seed}")
    writer.add_file_type(FILE_TYPES[shape.type])
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens.texts))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens.texts)
    writer.add_token_types(tokens.types)
    writer.add_token_merges(tokens.merges)
    writer.add_eos_token_id(tokens.ids["<|end|>"])
    writer.add_bos_token_id(tokens.ids["<|end|>"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.tiny_gguf", description="Write a small random-weight llama model."
    )
    parser.add_argument("out", type=Path)
    default = Shape()
    for name in ("layers", "width", "heads", "kv_heads", "vocabulary", "context", "seed"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(default, name))
    parser.add_argument("--type", choices=sorted(FILE_TYPES), default=default.type)
    arguments = vars(parser.parse_args())
    out: Path = arguments.pop("out")
    write(out, Shape(**arguments))
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
