"""SGLang's Rust client: an extension module inside the sglang wheel that needs none of the wheel's dependencies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.bench import join
from tests.bench.join import Seen
from tests.bench.measurements import Measured
from tests.bench.peers.recipe import Peer
from tests.bench.tools import Task

ENTRY = Path(__file__).with_name("sglang_rust_entry.py")


def command(venv: Path, task: Task) -> list[str]:
    shape = task.shape
    options = {
        "backend": "vllm-chat", "base-url": task.base_url, "model": "bench", "tokenizer": task.tokenizer,
        "dataset-name": "random-ids", "random-input-len": 32, "random-output-len": shape.tokens,
        "random-range-ratio": 1, "num-prompts": shape.requests, "max-concurrency": shape.streams,
        "warmup-requests": 0, "worker-threads": 1, "output-file": task.folder / "report.jsonl",
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [str(venv / "bin" / "python"), "-P", str(ENTRY), "--disable-tqdm", "--output-details", *words]


def seen(task: Task, truth: Measured) -> Seen:
    """It names no request, so TTFTs can only be paired by size."""
    report = json.loads((task.folder / "report.jsonl").read_text().splitlines()[-1])
    ok = [ttft for ttft, words in zip(report["ttfts"], report["errors"], strict=True) if not words]
    return Seen(keys=None, ttft_ms=np.array(ok, np.float64) * 1000, gaps_ms=None)


PEER = Peer(
    name="sglang-rust",
    version="0.5.23",
    steps=(("--no-deps", "sglang==0.5.23"),),
    command=command,
    seen=seen,
    keys=join.by_connection,
    remark="one worker thread; TTFTs paired by size, so its error is a lower bound",
)
