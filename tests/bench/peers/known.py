"""All peers by name, and why others are not among them."""

from __future__ import annotations

from tests.bench.peers import aiperf, guidellm, inference_perf, sglang_rust, vllm
from tests.bench.peers.recipe import Peer

PEERS: dict[str, Peer] = {
    peer.name: peer for peer in (guidellm.PEER, aiperf.PEER, vllm.PEER, sglang_rust.PEER, inference_perf.PEER)
}
LEFT_OUT = {
    "evalscope": "left out: another asyncio client in Python, slower than vLLM's; it ends at its first fault",
    "sglang bench_serving (Python)": "left out: importing it asks for the server's own modules and their CUDA packages",
    "llmperf": "left out: the package of that name on PyPI is an empty wheel",
}
