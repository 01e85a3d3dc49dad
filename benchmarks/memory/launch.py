"""What a launch line decides about memory: slots and their context, element types, ranks, what is taken at the start.

Read from the text of flags or variables that a person registered; nothing of it is run. None where the line is silent.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from benchmarks.memory.accounting import KvType

LLAMACPP_STEP = 256
"""llama.cpp rounds the context of a slot up to a multiple of this."""
LLAMACPP_AUTO_SLOTS = 4
VLLM_PAGE, VLLM_SHARE, VLLM_SHARE_BEFORE = 16, 0.92, 0.90
VLLM_SHARE_CHANGED = (0, 20)
_LEFT = {"trtllm": 0.9, "lmdeploy": 0.8}
"""Share of the memory that is free after the weights, by default."""


@dataclass(frozen=True, slots=True)
class Launch:
    """`context_tokens` is the total of all slots for llama.cpp, so for Ollama, whose own setting is that of one slot, a
    multiple of it; elsewhere it is the limit of one sequence.

    `share` is of the GPU's total memory for vLLM and SGLang, with the weights inside, and of what the weights leave for
    TensorRT-LLM and LMDeploy (`share_of_free`); `said` is false where it is the runtime's default. `pool_bytes` is a KV pool
    named in bytes.
    """

    slots: int | None = None
    context_tokens: int | None = None
    unified: bool | None = None
    k_type: KvType | None = None
    v_type: KvType | None = None
    ranks: int = 1
    share: float | None = None
    share_of_free: bool = False
    said: bool = False
    pool_bytes: int | None = None
    pool_tokens: int | None = None
    page_tokens: int = 1


def launch_of(kind: str, flags: str, version: str = "") -> Launch:
    """By the runtime's kind as the registry names it; kinds without own memory settings say nothing but ranks."""
    words = _Words.of(flags)
    if kind == "llamacpp":
        return _llamacpp(words)
    if kind == "ollama":
        return _ollama(words)
    return _pooled(kind, words, version)


def slot_tokens(launch: Launch, trained: int | None = None) -> int | None:
    """Context of one llama.cpp slot: the whole pool where it is unified, else a part of it rounded up to 256; never more
    than the model was trained for. None where the line does not say: llama.cpp then fits it to the memory it finds."""
    if launch.context_tokens is None or launch.slots is None:
        return None
    if launch.unified:
        return launch.context_tokens
    each = -(-launch.context_tokens // launch.slots)
    rounded = -(-each // LLAMACPP_STEP) * LLAMACPP_STEP
    return min(rounded, trained) if trained else rounded


def _llamacpp(words: _Words) -> Launch:
    if not words.of_llamacpp():
        return Launch(k_type=KvType.F16, v_type=KvType.F16)
    slots = words.number("-np", "--parallel", "LLAMA_ARG_N_PARALLEL")
    asked = words.has("-kvu", "--kv-unified") or words.value("LLAMA_ARG_KV_UNIFIED") in ("1", "true", "on")
    denied = words.has("-no-kvu", "--no-kv-unified")
    automatic = slots is None or slots < 1
    both = _kv_type(words.value("-ctk", "--cache-type-k", "LLAMA_ARG_CACHE_TYPE_K")) or KvType.F16
    values = _kv_type(words.value("-ctv", "--cache-type-v", "LLAMA_ARG_CACHE_TYPE_V")) or KvType.F16
    return Launch(
        slots=LLAMACPP_AUTO_SLOTS if automatic else slots,
        context_tokens=words.number("-c", "--ctx-size", "LLAMA_ARG_CTX_SIZE") or None,
        unified=asked or (automatic and not denied),
        k_type=both,
        v_type=values,
        said=not automatic,
    )


def _ollama(words: _Words) -> Launch:
    """It starts llama.cpp with num_ctx x parallel, so its memory multiplies."""
    slots, each = words.number("OLLAMA_NUM_PARALLEL"), words.number("OLLAMA_CONTEXT_LENGTH")
    kv_type = _kv_type(words.value("OLLAMA_KV_CACHE_TYPE")) or KvType.F16
    total = each * slots if each and slots else None
    return Launch(slots=slots, context_tokens=total, unified=False, k_type=kv_type, v_type=kv_type, said=bool(slots))


def _pooled(kind: str, words: _Words, version: str) -> Launch:
    ranks = words.number("-tp", "--tensor-parallel-size", "--tp-size", "--tp_size", "--tp", "--num-shard") or 1
    kv_type = _kv_type(words.value("--kv-cache-dtype"))
    if kind == "lmdeploy":
        kv_type = {"8": KvType.FP8}.get(words.value("--quant-policy") or "")
    share, said = _share(kind, words, version)
    return Launch(
        slots=words.number("--max-num-seqs", "--max-running-requests", "--max_batch_size", "--max-batch-size"),
        context_tokens=words.number("--max-model-len", "--context-length", "--max_seq_len", "--session-len"),
        k_type=kv_type,
        v_type=kv_type,
        ranks=max(1, ranks),
        share=share,
        share_of_free=kind in _LEFT,
        said=said,
        pool_bytes=words.number("--kv-cache-memory-bytes"),
        pool_tokens=words.number("--max-total-tokens") if kind == "sglang" else None,
        page_tokens=words.number("--block-size", "--page-size") or (VLLM_PAGE if kind == "vllm" else 1),
    )


def _share(kind: str, words: _Words, version: str) -> tuple[float | None, bool]:
    named = words.share(
        "--gpu-memory-utilization", "--mem-fraction-static", "--free_gpu_memory_fraction",
        "--kv_cache_free_gpu_memory_fraction", "--cache-max-entry-count",
    )  # fmt: skip
    if named is not None or not words.words:  # a line that was not recorded says nothing of defaults either
        return named, named is not None
    if kind == "vllm":
        return (VLLM_SHARE_BEFORE if _before(version, VLLM_SHARE_CHANGED) else VLLM_SHARE), False
    return _LEFT.get(kind), False


def _before(version: str, edge: tuple[int, int]) -> bool:
    parts = version.strip().removeprefix("v").split(".")[:2]
    return len(parts) == 2 and all(part.isdigit() for part in parts) and tuple(map(int, parts)) < edge


def _kv_type(word: str | None) -> KvType | None:
    """None for auto and for words that are not known: then the model's own type counts."""
    if word is None:
        return None
    word = word.lower()
    if word.startswith("fp8"):
        return KvType.FP8
    return next((kind for kind in KvType if word in (kind.value, kind.value.replace("bf16", "bfloat16"))), None)


@dataclass(frozen=True, slots=True)
class _Words:
    """A launch line as words; `--flag value`, `--flag=value` and `NAME=value` are read alike."""

    words: tuple[str, ...]

    @staticmethod
    def of(flags: str) -> _Words:
        try:
            words = shlex.split(flags.replace("\\\n", " "))
        except ValueError:
            words = flags.split()
        return _Words(tuple(words))

    def of_llamacpp(self) -> bool:
        """Whether these are its server's own words, not those of a program around it or none at all."""
        own = any("llama-server" in word or "llama.cpp" in word for word in self.words)
        return own or (bool(self.words) and self.words[0].startswith(("-", "LLAMA_ARG_")))

    def has(self, *names: str) -> bool:
        return any(word.partition("=")[0] in names for word in self.words)

    def value(self, *names: str) -> str | None:
        """The last one wins, as in the runtimes."""
        found = None
        for index, word in enumerate(self.words):
            name, equals, rest = word.partition("=")
            if name in names:
                following = self.words[index + 1] if index + 1 < len(self.words) else None
                found = rest if equals else following
        return found

    def number(self, *names: str) -> int | None:
        """Whole numbers, with k or g behind them as vLLM takes them: 16k is 16,000 and 16K is 16,384."""
        word = self.value(*names)
        if not word:
            return None
        factor = {"k": 1000, "K": 1024, "m": 10**6, "M": 1024**2, "g": 10**9, "G": 1024**3}.get(word[-1], 1)
        try:
            number = float(word if factor == 1 else word[:-1]) * factor
        except ValueError:
            return None
        return int(number) if 0 <= number <= 1 << 50 else None

    def share(self, *names: str) -> float | None:
        word = self.value(*names)
        try:
            share = float(word) if word else 0.0
        except ValueError:
            return None
        return share if 0 < share <= 1 else None
