"""What the simulated runtime says of itself: Prometheus text under vLLM's names, and a DCGM exporter's for its card."""

from __future__ import annotations

from benchmarks.simulator.card import CardReading
from benchmarks.simulator.model import Engine
from benchmarks.simulator.profiles import MIB, CardProfile

GPU_UUID = "GPU-SIMULATED-0"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def engine_metrics(engine: Engine, *, model: str) -> str:
    """The gauges and counters that vLLM 0.32 shows by these names, for this engine."""
    labels = f'engine="0",model_name="{model}"'
    counters = engine.counters
    capacity = f'vllm:cache_config_info{{block_size="1",kv_cache_size_tokens="{engine.kv_tokens}",engine="0"}} 1.0'
    queries, hits = counters.prefix_query_tokens, counters.prefix_hit_tokens
    lines = [
        "# TYPE vllm:cache_config_info gauge",
        capacity,
        *_metric("vllm:num_requests_running", "gauge", labels, engine.running),
        *_metric("vllm:num_requests_waiting", "gauge", labels, engine.waiting),
        *_metric("vllm:kv_cache_usage_perc", "gauge", labels, engine.kv_used_tokens / engine.kv_tokens),
        *_metric("vllm:num_preemptions_total", "counter", labels, counters.preemptions),
        *_metric("vllm:prompt_tokens_total", "counter", labels, counters.prompt_tokens),
        *_metric("vllm:generation_tokens_total", "counter", labels, counters.generation_tokens),
        *_metric("vllm:prefix_cache_queries_total", "counter", labels, queries),
        *_metric("vllm:prefix_cache_hits_total", "counter", labels, hits),
        *_metric("vllm:request_success_total", "counter", labels + ',finished_reason="length"', counters.finished),
        *_metric(
            "vllm:admission_rejections_total", "counter", labels + ',reason="max_num_queued_reqs"', counters.rejections
        ),
    ]
    return "\n".join(lines) + "\n"


def card_metrics(reading: CardReading, profile: CardProfile) -> str:
    """As NVIDIA's DCGM exporter gives them: W, MiB, degrees Celsius, percent, millijoules."""
    labels = f'gpu="0",UUID="{GPU_UUID}",device="nvidia0",modelName="{profile.name}",Hostname="simulated"'
    lines = [
        *_metric("DCGM_FI_DEV_GPU_TEMP", "gauge", labels, round(reading.temperature_c, 1)),
        *_metric("DCGM_FI_DEV_POWER_USAGE", "gauge", labels, round(reading.power_w, 3)),
        *_metric("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", labels, round(reading.energy_j * 1000)),
        *_metric("DCGM_FI_DEV_GPU_UTIL", "gauge", labels, round(reading.utilization_share * 100)),
        *_metric("DCGM_FI_DEV_FB_USED", "gauge", labels, reading.vram_used_bytes // MIB),
        *_metric("DCGM_FI_DEV_FB_FREE", "gauge", labels, reading.vram_free_bytes // MIB),
    ]
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, labels: str, value: float) -> tuple[str, str]:
    return f"# TYPE {name} {kind}", f"{name}{{{labels}}} {float(value)}"
