"""What one cell runs: a plan written by the worker, read by the engine. Lengths are tokens, times seconds."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from benchmarks.engine.load import Closed, Load, Sessions
from benchmarks.engine.probe_plan import Probe


class Fixed(msgspec.Struct, frozen=True, tag_field="kind", tag="fixed"):
    tokens: int


class Uniform(msgspec.Struct, frozen=True, tag_field="kind", tag="uniform"):
    low: int
    high: int


class Normal(msgspec.Struct, frozen=True, tag_field="kind", tag="normal"):
    mean: float
    sd: float
    low: int
    high: int


class Lognormal(msgspec.Struct, frozen=True, tag_field="kind", tag="lognormal"):
    """`sigma` is the standard deviation of the logarithm."""

    median: float
    sigma: float
    low: int
    high: int


class Quantiles(msgspec.Struct, frozen=True, tag_field="kind", tag="quantiles"):
    """Piecewise linear between points (share from 0 to 1, tokens)."""

    points: tuple[tuple[float, float], ...]


Distribution = Fixed | Uniform | Normal | Lognormal | Quantiles


class ClassLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits copied from the objective when the grid was drawn; None where the objective has none."""

    e2e_s: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What clients do when they are refused, as somebody declared it. `tries` counts the first one too; `budget_share` is
    the part of requests that may be tried again, None where there is no such budget."""

    kind: Literal["none", "immediate", "backoff"]
    tries: int = 1
    base_s: float = 0.5
    most_s: float = 20.0
    jitter: bool = False
    honours_retry_after: bool = False
    budget_share: float | None = None


class ProductionMix(msgspec.Struct, frozen=True, kw_only=True):
    """What production really sends, as declared or read from a trace: prompt tokens, and the shares (0 to 1) of prompts
    that are repeated and of prompt tokens that begin alike. `source` says from where."""

    p10_tokens: float
    p90_tokens: float
    p95_tokens: float
    repeated_share: float = 0.0
    shared_prefix_share: float = 0.0
    source: str = ""


class BatchTerms(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that must be done by a time of day: `items` between `window_start` and `window_end` ("22:00"), on `days` (0
    is Monday), by `latest_finish` at the latest. `power_expected` is what the host runs on meanwhile; `outage_s` is how
    long it may be without, stated by somebody who knows the place."""

    items: int
    window_start: str
    window_end: str
    latest_finish: str
    days: tuple[int, ...] = (0, 1, 2, 3, 4)
    power_expected: str = "grid"
    outage_s: float = 0.0


class ObjectiveTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What an objective asks beyond latency, success and the host's safety; None where nobody declared it.

    `max_slowdown` is of short requests beside long ones, against alone. `demand_per_min` is what the office needs in its
    busiest minute. `tenants` above 1 asks for credentials and quotas to be proved. `published` is the sentence or figure
    that is told of this service today.
    """

    max_slowdown: float = 2.0
    max_free_s: float = 1.0
    max_refuse_s: float = 1.0
    max_recover_s: float = 60.0
    demand_per_min: float | None = None
    tenants: int = 1
    retry: RetryPolicy | None = None
    production: ProductionMix | None = None
    batch: BatchTerms | None = None
    published: str = ""


class GridLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Every limit of an objective, as the grid carries it. Shares are 0 to 1, reserves shares of the measured rate."""

    percentile: float = 95.0
    success_share: float = 0.99
    validity_share: float = 0.97
    max_vram_share: float = 0.92
    max_temperature_c: float = 85.0
    max_power_w: float | None = None
    reserve_growth: float = 0.10
    reserve_variance: float = 0.05
    reserve_loss: float = 0.0
    classes: dict[str, ClassLimits] = msgspec.field(default_factory=dict)
    terms: ObjectiveTerms = ObjectiveTerms()


class ClassPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`pairs` of (prompt tokens, output tokens) are drawn together, each equally often, where the two lengths depend on
    each other; both distributions then only describe them."""

    name: str
    weight: float
    prompt_tokens: Distribution
    output_tokens: Distribution
    pairs: tuple[tuple[int, int], ...] | None = None
    limits: ClassLimits = ClassLimits()


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """When a stage must stop. Shares are 0 to 1; None switches a limit off. `on_stop`: whether what is in flight then may
    finish or is ended too."""

    max_vram_share: float | None = 0.92
    max_host_memory_share: float | None = 0.90
    max_temperature_c: float | None = 85.0
    max_power_w: float | None = None
    max_error_share: float | None = 0.05
    error_share_over: int = 100
    max_p95_over_objective: float | None = 2.0
    on_stop: Literal["drain", "cancel"] = "cancel"


class Connect(msgspec.Struct, frozen=True, kw_only=True):
    """How the target is reached. A proxy or HTTP/2 goes through httpx's own transport, and the log says so."""

    unix_socket: str = ""
    ca_file: str = ""
    client_cert_file: str = ""
    client_key_file: str = ""
    proxy_url: str = ""
    http2: bool = False


class ReadBack(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime said of itself that the worker had just started by this launch profile. None: it does not tell."""

    profile: str
    active_sequences: int | None = None
    context_per_sequence_tokens: int | None = None
    kv_capacity_tokens: int | None = None


class CellPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: one offered concurrency, one class (or the mix of all), one window.

    `shared_prefix_share` of each prompt, 0 to 1, is the same text in every request, declared for prefix caches; the
    rest begins with a marker of its own. `processes` above 1 split the load over as many generator processes.
    `client_cpus` are the cores that they pin themselves to; empty pins nothing. `client_realtime` asks the system to wake
    them before all ordinary work, where it shares its cores with the runtime. A `probe` offers a load of its own in place
    of `load`: see probes/cells.py. `content_seed` draws classes, lengths and words, and `seed` the markers that prompts
    begin with: cells that share it ask the same, and no prefix cache knows it. 0 is `seed`. `tokenizer_sha256` pins the
    tokenizer.json that counts what the server does not; empty leaves that unknown.
    """

    version: int = 2
    label: str
    base_url: str
    dialect: str = "openai_chat"
    model: str
    tokenizer_sha256: str = ""
    api_key_env: str = ""
    runtime_kind: str
    offered_concurrency: int
    class_name: str
    classes: tuple[ClassPlan, ...]
    task: str = "words"
    seed: int
    content_seed: int = 0
    arrival_seed: int = 0
    warmup_s: float
    window_s: float
    max_requests: int
    max_tokens: int
    max_wall_s: float
    load: Load = Closed()
    sessions: Sessions | None = None
    shared_prefix_share: float = 0.0
    stream: bool = True
    ignore_eos: bool = False
    processes: int = 1
    client_cpus: tuple[int, ...] = ()
    client_realtime: bool = False
    burst_start: bool = False
    connect: Connect = Connect()
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float = 120.0
    idle_timeout_s: float = 60.0
    total_timeout_s: float = 600.0
    metrics_url: str = ""
    gpu_metrics_url: str = ""
    metrics_every_s: float = 2.0
    guard: Guard = Guard()
    probe: Probe | None = None
    read_back: ReadBack | None = None
    simulated: bool = False


def encode(plan: CellPlan) -> bytes:
    """Canonical JSON: sorted keys, no spaces, and 5 in a float field written as 5.0 whoever built the plan."""
    return msgspec.json.encode(decode(msgspec.json.encode(plan)), order="sorted")


def decode(data: bytes) -> CellPlan:
    """Raises msgspec.ValidationError with the path of the wrong field."""
    return msgspec.json.decode(data, type=CellPlan)


def sha256(plan: CellPlan) -> str:
    return hashlib.sha256(encode(plan)).hexdigest()
