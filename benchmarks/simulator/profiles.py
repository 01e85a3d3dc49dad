"""What a simulated runtime is made of: a throughput curve, prefill cost, KV budget, a virtual card. Seconds."""

from __future__ import annotations

from itertools import pairwise

import msgspec

GIB = 1024**3
MIB = 1024**2


class CardProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A virtual GPU. `workspace_bytes` is held per active sequence, beside its KV cache."""

    name: str
    vram_total_bytes: int
    weights_bytes: int
    workspace_bytes: int
    kv_bytes_per_token: int
    workspace_release_s: float
    idle_w: float
    cap_w: float
    power_sequences: float
    power_lag_s: float
    ambient_c: float
    rise_c_per_w: float
    thermal_lag_s: float


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """`decode_curve`: (active sequences, tokens/s of all together), rising in the first; flat beyond its last point.

    A batch of embeddings costs `embed_base_s` once and `embed_item_s` for each text, beside the prefill of its tokens.
    The tokens of one step are written one after the other at its end, or evenly over `write_spread_s`.
    """

    name: str
    model: str
    decode_curve: tuple[tuple[int, float], ...]
    prefill_tokens_per_s: float
    tokens_per_step: int
    step_sigma: float
    active_sequences: int
    context_tokens: int
    kv_tokens: int
    card: CardProfile | None
    embed_base_s: float = 0.010
    embed_item_s: float = 0.0005
    write_spread_s: float = 0.0

    def decode_tokens_per_s(self, active: float) -> float:
        """Linear between the points of the curve; below the first and beyond the last it stays flat."""
        points = self.decode_curve
        if active <= points[0][0]:
            return points[0][1]
        for (low, rate_low), (high, rate_high) in pairwise(points):
            if active <= high:
                return rate_low + (rate_high - rate_low) * (active - low) / (high - low)
        return points[-1][1]

    def decode_step_s(self, active: int) -> float:
        """One token for each of `active` sequences: grows linearly once the throughput is flat."""
        return active / self.decode_tokens_per_s(active) if active else 0.0


# Batched decode of a 107 M parameter llama on one CPU thread was 152, 183, 300, 325 tokens/s at 1, 2, 4, 8 sequences
# (llama-batched-bench). The demonstration keeps that shape, scaled so that one sequence gets 200 tokens/s: at more, the
# load client's own event loop becomes the bottleneck on two slow cores (lag p99 of 6 ms at 1,000 tokens/s).
_MEASURED_SHAPE = ((1, 152.0), (2, 183.0), (4, 300.0), (8, 325.0))
_SCALE = 200.0 / 152.0

DEMO = Profile(
    name="demo",
    model="headroom-simulated-demo",
    decode_curve=tuple((active, rate * _SCALE) for active, rate in _MEASURED_SHAPE),
    prefill_tokens_per_s=5000.0,
    tokens_per_step=256,
    step_sigma=0.10,
    active_sequences=8,
    context_tokens=4096,
    kv_tokens=8192,
    card=CardProfile(
        name="Simulated 24 GiB card",
        vram_total_bytes=24 * GIB,
        weights_bytes=int(10.4 * GIB),
        workspace_bytes=int(1.33 * GIB),
        kv_bytes_per_token=200 * 1024,
        workspace_release_s=2.0,
        idle_w=35.0,
        cap_w=420.0,
        power_sequences=2.5,
        power_lag_s=0.4,
        ambient_c=25.0,
        rise_c_per_w=0.125,
        thermal_lag_s=20.0,
    ),
)

# llama.cpp b11549 with an 8 x 512 F32 model and four slots on a two-core machine; no GPU, so no virtual card.
CPU = Profile(
    name="cpu",
    model="headroom-simulated-cpu",
    decode_curve=((1, 191.0), (2, 198.0), (4, 242.0), (8, 242.0)),
    prefill_tokens_per_s=1500.0,
    tokens_per_step=256,
    step_sigma=0.15,
    active_sequences=4,
    context_tokens=2048,
    kv_tokens=8192,
    card=None,
)

# For holding a client's stamps against the truth: any number of streams up to 1,024, each a token every 20 ms; a short
# prompt's first token comes within 60 ms. The rate does not fall with the load, so that what grows with it is the
# client's own. A step's tokens are spread over most of it, as by a runtime whose own server takes some tens of
# microseconds for each: this one takes twelve, and no client reads faster than that.
CALIBRATE = Profile(
    name="calibrate",
    model="headroom-simulated-calibrate",
    decode_curve=((1, 50.0), (1024, 51_200.0)),
    prefill_tokens_per_s=2_000_000.0,
    tokens_per_step=65_536,
    step_sigma=0.0,
    active_sequences=1024,
    context_tokens=4096,
    kv_tokens=1024 * 4096,
    card=None,
    write_spread_s=0.015,
)

# A server of embeddings: what comes in together goes through together, up to 64 texts, so gathering pays.
EMBEDDER = Profile(
    name="embedder",
    model="headroom-simulated-embedder",
    decode_curve=((1, 200.0),),
    prefill_tokens_per_s=100_000.0,
    tokens_per_step=16_384,
    step_sigma=0.0,
    active_sequences=64,
    context_tokens=8192,
    kv_tokens=64 * 8192,
    card=None,
)

# The worked example: batching pays up to four sequences and hardly beyond, prompts are cut into chunks, and the card is
# nearly full with eight.
EXAMPLE = msgspec.structs.replace(
    DEMO,
    name="example",
    model="headroom-simulated-example",
    decode_curve=((1, 120.0), (2, 230.0), (4, 420.0), (8, 425.0)),
    prefill_tokens_per_s=4000.0,
    tokens_per_step=64,
)

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (DEMO, CPU, CALIBRATE, EMBEDDER, EXAMPLE)}
