"""NVIDIA's AIPerf: nine processes that talk over ZMQ, one JSON line per request."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.bench import join
from tests.bench.join import Seen
from tests.bench.measurements import Measured
from tests.bench.peers.recipe import Peer
from tests.bench.tools import Task


def command(venv: Path, task: Task) -> list[str]:
    shape = task.shape
    options = {
        "model": "bench", "url": task.base_url, "endpoint-type": "chat", "concurrency": shape.streams,
        "request-count": shape.requests, "tokenizer": task.tokenizer, "synthetic-input-tokens-mean": 32,
        "synthetic-input-tokens-stddev": 0, "output-tokens-mean": shape.tokens, "output-tokens-stddev": 0,
        "output-artifact-dir": task.folder / "report", "ui": "none",
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [str(venv / "bin" / "aiperf"), "profile", "--streaming", *words]


def seen(task: Task, truth: Measured) -> Seen:
    lines = (task.folder / "report" / "profile_export.jsonl").read_text().splitlines()
    records = [record for record in map(json.loads, lines) if "time_to_first_token" in record["metrics"]]
    gaps = [record["metrics"].get("inter_chunk_latency", {}).get("value", []) for record in records]
    return Seen(
        keys=tuple(record["metadata"]["x_request_id"] for record in records),
        ttft_ms=np.array([record["metrics"]["time_to_first_token"]["value"] for record in records], np.float64),
        gaps_ms=tuple(np.array(each, np.float64) for each in gaps),
    )


PEER = Peer(
    name="aiperf",
    version="0.13.0",
    steps=(("aiperf==0.13.0",),),
    command=command,
    seen=seen,
    keys=join.by_request_id,
    remark="with HF_HUB_OFFLINE set it takes the tokenizer's folder for a name on the hub, so it is left unset",
)
