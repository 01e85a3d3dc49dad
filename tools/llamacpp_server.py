"""llama.cpp's own HTTP server, from the xllamacpp package, set up for measuring: `python -m tools.llamacpp_server`.

Explicit slots with a KV cache each (or one shared pool, where `--kv-unified` gives its size), no reuse of prompts,
metrics and slots shown, loopback only. With `--embeddings` it serves vectors and no text. Prints one line,
`listening http://127.0.0.1:PORT`, once /health answers. Ends on SIGTERM or SIGINT, and with the process that
started it. Needs requirements-real.txt.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path

import xllamacpp

from tools.tiny_gguf import Shape, write

PR_SET_PDEATHSIG = 1
READY_WITHIN_S = 60.0
HOST = "127.0.0.1"
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def end_with_parent(parent: int) -> None:
    """The kernel sends SIGTERM when the parent ends; if it has ended already, say so by leaving."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("The process that started this one is gone.")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def parameters(arguments: argparse.Namespace, model: Path, port: int) -> xllamacpp.CommonParams:
    """Every setting that changes what is measured, set by hand and not left to a default."""
    chosen = xllamacpp.CommonParams()
    chosen.model.path = str(model)
    chosen.model_alias = {arguments.alias}
    chosen.hostnames = [HOST]
    chosen.port = port
    chosen.n_parallel = arguments.slots
    chosen.n_ctx = arguments.kv_unified or arguments.slots * arguments.context_per_slot
    chosen.kv_unified = bool(arguments.kv_unified)
    chosen.fit_params = False
    chosen.n_batch = chosen.n_ubatch = arguments.batch
    chosen.cache_prompt = False
    chosen.cache_ram_mib = 0
    chosen.cache_idle_slots = False
    chosen.endpoint_metrics = True
    chosen.endpoint_slots = True
    chosen.ui = False
    chosen.offline = True
    chosen.cpuparams.n_threads = arguments.threads
    chosen.cpuparams_batch.n_threads = arguments.threads
    if arguments.embeddings:
        chosen.embedding = True
        chosen.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    return chosen


def wait_until_healthy(url: str) -> None:
    end = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < end:
        try:
            with NO_PROXY.open(f"{url}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise SystemExit(f"{url}/health did not answer 200 within {READY_WITHIN_S:.0f} s")


def _multiple_of_256(text: str) -> int:
    value = int(text)
    if value < 256 or value % 256:
        raise argparse.ArgumentTypeError("must be a multiple of 256: llama.cpp rounds a slot's context up to one")
    return value


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.llamacpp_server", description="llama.cpp's server on loopback."
    )
    parser.add_argument("model", type=Path, help="a GGUF file; when it is not there, the tiny model is written to it")
    parser.add_argument("--alias", default="headroom-tiny", help="the model's name in requests")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--context-per-slot", type=_multiple_of_256, default=2048)
    parser.add_argument(
        "--batch", type=int, default=256, help="tokens; a prompt in prefill is cancelled between batches"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--kv-unified", type=_multiple_of_256, metavar="TOKENS", help="one pool of so many tokens that all slots share"
    )
    parser.add_argument("--embeddings", action="store_true", help="serve /v1/embeddings, pooled by the mean")
    return parser.parse_args()


def main() -> int:
    parent = os.getppid()
    arguments = _arguments()
    end_with_parent(parent)
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # before the server starts its threads, which inherit the mask
    if not arguments.model.exists():
        write(arguments.model, Shape())
    port = arguments.port or free_port()
    server = xllamacpp.Server(parameters(arguments, arguments.model, port))
    url = f"http://{HOST}:{port}"
    wait_until_healthy(url)
    print(f"listening {url} xllamacpp {version('xllamacpp')}", flush=True)
    signal.sigwait(signals)
    del server
    os._exit(0)  # the server's own threads would keep the process


if __name__ == "__main__":
    sys.exit(main())
