"""GuideLLM: a venv of its own with torch, ten and more processes, a JSON report per request."""

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
    return [
        str(venv / "bin" / "guidellm"), "run", "--disable-console",
        "--backend", f"kind=openai_http,target={task.base_url},model=bench",
        "--profile", f"kind=concurrent,streams={shape.streams}",
        "--constraint", f"kind=max_requests,count={shape.requests}",
        "--tokenizer", f"kind=huggingface_auto,model={task.tokenizer}",
        "--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={shape.tokens}",
        "--output", f"kind=json,path={task.folder / 'report.json'}",
    ]  # fmt: skip


def seen(task: Task, truth: Measured) -> Seen:
    """Its report has a TTFT per request and means of gaps only."""
    report = json.loads((task.folder / "report.json").read_bytes())
    requests = report["benchmarks"][0]["requests"]["successful"]
    return Seen(
        keys=tuple(request["response_id"] for request in requests),
        ttft_ms=np.array([request["time_to_first_token_ms"] for request in requests], np.float64),
        gaps_ms=None,
    )


PEER = Peer(
    name="guidellm",
    version="0.8.1",
    steps=(("torch==2.13.0",), ("guidellm==0.8.1",)),
    command=command,
    seen=seen,
    keys=join.by_answer_id,
)
