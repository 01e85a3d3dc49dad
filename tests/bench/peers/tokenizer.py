"""A tokenizer folder of our own, since every peer wants one and none may be fetched: byte-level BPE without training."""

from __future__ import annotations

import json
from pathlib import Path

WORDS = ("bato", " bato", "bebo", " bebo", "teni", " teni")
END = "<|endoftext|>"


def byte_letters() -> list[str]:
    """The letter that byte-level BPE writes for each byte: itself where it prints, else the next one from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [letters[byte] for byte in range(256)]


def write(folder: Path) -> Path:
    """Makes `folder` as the transformers package reads it; what is there already stays."""
    if (folder / "tokenizer.json").exists():
        return folder
    letters = byte_letters()
    merges: list[list[str]] = []
    for word in WORDS:
        pieces = [letters[byte] for byte in word.encode()]
        while len(pieces) > 1:  # from the right, so that a leading blank is joined last
            left, right = pieces[-2], pieces[-1]
            if [left, right] not in merges:
                merges.append([left, right])
            pieces[-2:] = [left + right]
    made = dict.fromkeys([*letters, *("".join(pair) for pair in merges), END])
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": len(made) - 1, "content": END, "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}  # fmt: skip
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {token: i for i, token in enumerate(made)}, "merges": merges},
    }  # fmt: skip
    words = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "bos_token": END, "pad_token": END,
             "model_max_length": 8192,
             "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}"}  # fmt: skip
    config = {"model_type": "gpt2", "bos_token_id": len(made) - 1, "eos_token_id": len(made) - 1, "vocab_size": len(made),
              "n_positions": 8192, "n_embd": 8, "n_layer": 1, "n_head": 1,
              "architectures": ["GPT2LMHeadModel"]}  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("config", config), ("tokenizer_config", words), ("tokenizer", tokenizer)):
        (folder / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False, indent=1))
    return folder
