"""inference-perf of the Kubernetes project: needs Python 3.12, keeps the whole text of each answer with its times."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from tests.bench import join
from tests.bench.join import Seen
from tests.bench.measurements import Measured
from tests.bench.peers.recipe import Peer
from tests.bench.tools import Task

MOST_PER_WORKER = 4096


def command(venv: Path, task: Task) -> list[str]:
    """Its file is YAML, of which JSON is a part. Mock prompts: the other kinds refuse chat or this tokenizer."""
    shape = task.shape
    config = {
        "api": {"type": "chat", "streaming": True},
        "load": {
            "type": "concurrent", "stages": [{"num_requests": shape.requests, "concurrency_level": shape.streams}],
            "num_workers": 1, "worker_max_concurrency": MOST_PER_WORKER,
        },
        "server": {"type": "vllm", "model_name": "bench", "base_url": task.base_url, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": str(task.tokenizer)},
        "data": {"type": "mock"},
        "report": {"request_lifecycle": {"summary": True, "per_stage": True, "per_request": True}},
        "storage": {"local_storage": {"path": str(task.folder / "report")}},
    }  # fmt: skip
    path = task.folder / "config.yaml"
    path.write_text(json.dumps(config))
    return [str(venv / "bin" / "inference-perf"), "--config_file", str(path)]


def seen(task: Task, truth: Measured) -> Seen:
    """Times are those of content events; of more than there are tokens the last ones count."""
    path = task.folder / "report" / "per_request_lifecycle_metrics.json"
    records = [record for record in json.loads(path.read_bytes()) if not record["error"] and record["response"]]
    times = [np.array(record["info"]["response_metrics"]["output_token_times"], np.float64) for record in records]
    starts = np.array([record["start_time"] for record in records], np.float64)
    ids = [re.search(r'"id": ?"([^"]+)"', record["response"]) for record in records]
    return Seen(
        keys=tuple(found.group(1) if found else "" for found in ids),
        ttft_ms=np.array([1000 * (each[0] - start) for each, start in zip(times, starts, strict=True)], np.float64),
        gaps_ms=tuple(np.diff(each[-task.shape.tokens :]) * 1000 for each in times),
    )


PEER = Peer(
    name="inference-perf",
    version="0.7.0",
    steps=(("inference-perf==0.7.0",),),
    command=command,
    seen=seen,
    keys=join.by_answer_id,
    oldest_python=(3, 12),
)
