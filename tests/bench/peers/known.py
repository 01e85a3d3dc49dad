"""All peers by name, and why others are not among them."""

from __future__ import annotations

from tests.bench.peers import aiperf, guidellm, inference_perf, sglang_rust, vllm
from tests.bench.peers.recipe import Peer

PEERS: dict[str, Peer] = {
    peer.name: peer for peer in (guidellm.PEER, aiperf.PEER, vllm.PEER, sglang_rust.PEER, inference_perf.PEER)
}
LEFT_OUT = {
    "evalscope": "measured once by hand, dearer and less exact than vLLM's client in every shape",
    "sglang bench_serving (Python)": "the wheel cannot be imported without its CUDA dependencies",
    "llmperf": "the package of that name on PyPI is an empty wheel",
}
