"""What an endpoint says of itself, as facts: models, version, slots, context, metrics. Untold stays None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from benchmarks.runtimes.facts import facts_of, kinds
from benchmarks.runtimes.metrics import read_metrics

METRICS_PATHS = ("/metrics", "/prometheus/metrics")
LLAMACPP_DEFAULT_SLOTS = 4
_OWNERS = {
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "library": "ollama",
    "lmdeploy": "lmdeploy",
    "headroom-simulator": "simulator",
}


class LookResponse(msgspec.Struct, frozen=True):
    """One page of the endpoint. `status` None: no answer, and `error` says why in words."""

    status: int | None
    body: str
    error: str = ""


class EndpointFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`sources`: fact -> path that said it. `metrics`: canonical names that are on offer. None: not told."""

    kind: str
    detected_kind: str | None
    reachable: bool
    simulated: bool
    models: tuple[str, ...]
    version: str | None
    max_active_sequences: int | None
    context_per_sequence_tokens: int | None
    kv_capacity_tokens: int | None
    metrics: tuple[str, ...]
    metrics_path: str | None
    sources: dict[str, str]
    warnings: tuple[str, ...]


class _ModelMeta(msgspec.Struct, frozen=True):
    n_ctx: int | None = None
    n_ctx_train: int | None = None


class _Model(msgspec.Struct, frozen=True):
    id: str
    owned_by: str = ""
    max_model_len: int | None = None
    meta: _ModelMeta | None = None


class _Models(msgspec.Struct, frozen=True):
    data: tuple[_Model, ...]


class _Version(msgspec.Struct, frozen=True):
    version: str


class _Generation(msgspec.Struct, frozen=True):
    n_ctx: int | None = None


class _Props(msgspec.Struct, frozen=True):
    total_slots: int | None = None
    build_info: str | None = None
    default_generation_settings: _Generation | None = None


class _Slot(msgspec.Struct, frozen=True):
    n_ctx: int | None = None


class _ServerInfo(msgspec.Struct, frozen=True):
    """SGLang's page, and the simulator's."""

    version: str | None = None
    max_running_requests: int | None = None
    max_active_sequences: int | None = None
    context_length: int | None = None
    context_per_sequence_tokens: int | None = None
    max_total_num_tokens: int | None = None
    kv_capacity_tokens: int | None = None
    simulated: bool = False


class _Loaded(msgspec.Struct, frozen=True):
    name: str
    context_length: int | None = None


class _Ps(msgspec.Struct, frozen=True):
    models: tuple[_Loaded, ...]


class _Info(msgspec.Struct, frozen=True):
    """TGI's page."""

    model_id: str | None = None
    version: str | None = None
    max_total_tokens: int | None = None


class _Finding(msgspec.Struct):
    """What has been put together so far; the first page that tells a fact is its source."""

    models: tuple[str, ...] = ()
    owner: str = ""
    simulated: bool = False
    texts: dict[str, str] = {}
    numbers: dict[str, int] = {}
    sources: dict[str, str] = {}
    warnings: list[str] = []
    trained_context_tokens: int | None = None

    def number(self, fact: str, value: int | None, path: str) -> None:
        if value is not None and value > 0 and fact not in self.numbers:
            self.numbers[fact] = value
            self.sources[fact] = path

    def text(self, fact: str, value: str | None, path: str) -> None:
        if value and fact not in self.texts:
            self.texts[fact] = value
            self.sources[fact] = path


_T = TypeVar("_T")


def look_plan(kind: str) -> tuple[str, ...]:
    """Paths to read with GET, in order. None of them changes anything at the endpoint."""
    return facts_of(kind).look


def read_look(kind: str, responses: Mapping[str, LookResponse]) -> EndpointFacts:
    """Facts from the pages that answered. A page that is missing or odd becomes a warning, never an error."""
    found = _Finding()
    reachable = any(response.status is not None for response in responses.values())
    if not reachable:
        reason = next((response.error for response in responses.values() if response.error), "")
        found.warnings.append(f"Nothing answered at this address{': ' + reason if reason else ''}.")
    else:
        _read_models(found, responses)
        _read_versions(found, responses)
        _read_llamacpp(found, responses)
        _read_server_info(found, responses)
        _read_ollama_and_tgi(found, responses)
    metrics, metrics_path = _read_metrics(kind, found, responses) if reachable else ((), None)
    detected = _detected(found)
    _warn_of_kind(kind, detected, found)
    return EndpointFacts(
        kind=kind,
        detected_kind=detected,
        reachable=reachable,
        simulated=found.simulated,
        models=found.models,
        version=found.texts.get("version"),
        max_active_sequences=found.numbers.get("max_active_sequences"),
        context_per_sequence_tokens=found.numbers.get("context_per_sequence_tokens"),
        kv_capacity_tokens=found.numbers.get("kv_capacity_tokens"),
        metrics=metrics,
        metrics_path=metrics_path,
        sources=found.sources,
        warnings=tuple(found.warnings),
    )


def _page(found: _Finding, responses: Mapping[str, LookResponse], path: str, shape: type[_T]) -> _T | None:
    response = responses.get(path)
    if response is None or response.status != 200:
        return None
    try:
        return msgspec.json.decode(response.body.encode(), type=shape)
    except msgspec.MsgspecError:
        found.warnings.append(f"{path} answered in a shape that is not known; it was left out.")
        return None


def _read_models(found: _Finding, responses: Mapping[str, LookResponse]) -> None:
    path = "/v1/models"
    listed = _page(found, responses, path, _Models)
    if listed is None:
        found.warnings.append(_why_no_models(responses.get(path)))
        return
    found.models = tuple(model.id for model in listed.data)
    found.sources["models"] = path
    for model in listed.data[:1]:
        found.owner = model.owned_by
        meta = model.meta or _ModelMeta()
        found.trained_context_tokens = meta.n_ctx_train
        found.number("context_per_sequence_tokens", model.max_model_len or meta.n_ctx, path)
    if not listed.data:
        found.warnings.append("/v1/models lists no model: none is loaded.")


def _why_no_models(response: LookResponse | None) -> str:
    if response is not None and response.status in (401, 403):
        return f"/v1/models asks for credentials (HTTP {response.status}): name the API key that the host holds."
    if response is not None and response.status == 503:
        return "/v1/models answered HTTP 503: the model may still be loading. Look again in a minute."
    return "/v1/models does not list models: is this the base address, without /v1?"


def _read_versions(found: _Finding, responses: Mapping[str, LookResponse]) -> None:
    for path in ("/version", "/api/version", "/v2"):
        page = _page(found, responses, path, _Version)
        found.text("version", page.version if page else None, path)


def _read_llamacpp(found: _Finding, responses: Mapping[str, LookResponse]) -> None:
    props = _page(found, responses, "/props", _Props)
    if props is not None:
        found.text("version", props.build_info, "/props")
        found.number("max_active_sequences", props.total_slots, "/props")
        settings = props.default_generation_settings
        found.number("context_per_sequence_tokens", settings.n_ctx if settings else None, "/props")
    slots = _page(found, responses, "/slots", tuple[_Slot, ...])
    if slots:
        found.number("max_active_sequences", len(slots), "/slots")
        sizes = [slot.n_ctx for slot in slots if slot.n_ctx]
        if sizes:  # what a slot says wins over a server-wide figure
            found.numbers.pop("context_per_sequence_tokens", None)
            found.number("context_per_sequence_tokens", min(sizes), "/slots")
    if props is not None or slots:
        _warn_of_unified_kv(found)


def _warn_of_unified_kv(found: _Finding) -> None:
    """The server does not tell whether its KV cache is unified; four slots is what it takes when nobody chose."""
    if found.numbers.get("max_active_sequences") == LLAMACPP_DEFAULT_SLOTS:
        found.warnings.append(
            "Four slots is what llama.cpp takes when -np is left out, and then all slots share one KV cache (unified): "
            "when it is full, every running request fails. If -np was not given, start it with -np N --no-kv-unified."
        )


def _read_server_info(found: _Finding, responses: Mapping[str, LookResponse]) -> None:
    path = "/server_info"
    info = _page(found, responses, path, _ServerInfo)
    if info is None:
        return
    found.simulated = info.simulated
    found.text("version", info.version, path)
    found.number("max_active_sequences", info.max_active_sequences or info.max_running_requests, path)
    found.number("context_per_sequence_tokens", info.context_per_sequence_tokens or info.context_length, path)
    found.number("kv_capacity_tokens", info.kv_capacity_tokens or info.max_total_num_tokens, path)


def _read_ollama_and_tgi(found: _Finding, responses: Mapping[str, LookResponse]) -> None:
    loaded = _page(found, responses, "/api/ps", _Ps)
    if loaded is not None:
        for model in loaded.models[:1]:
            found.number("context_per_sequence_tokens", model.context_length, "/api/ps")
        if not loaded.models:
            found.warnings.append("Ollama has no model loaded: the first request will wait for it.")
    info = _page(found, responses, "/info", _Info)
    if info is not None:
        found.text("version", info.version, "/info")
        found.number("context_per_sequence_tokens", info.max_total_tokens, "/info")
        if info.model_id and not found.models:
            found.models = (info.model_id,)
            found.sources["models"] = "/info"


def _read_metrics(
    kind: str, found: _Finding, responses: Mapping[str, LookResponse]
) -> tuple[tuple[str, ...], str | None]:
    for path in METRICS_PATHS:
        response = responses.get(path)
        if response is None or response.status != 200:
            continue
        reading = read_metrics(kind, response.body)
        capacity = reading.values.get("kv_capacity_tokens")
        found.number("kv_capacity_tokens", int(capacity) if capacity else None, path)
        if not reading.values:
            found.warnings.append(f"{path} answers, but holds none of the names that are known for this runtime.")
        return tuple(reading.values), path
    facts = facts_of(kind)
    if facts.metrics_path is None:
        found.warnings.append(f"{facts.name} has no metrics endpoint: running and waiting requests are not reported.")
    else:
        found.warnings.append(
            f"No metrics at {facts.metrics_path} ({facts.name}: {facts.metrics_enabled_by}): "
            "running and waiting requests are not reported."
        )
    return (), None


def _detected(found: _Finding) -> str | None:
    return _OWNERS.get(found.owner.lower()) or ("simulator" if found.simulated else None)


def _warn_of_kind(kind: str, detected: str | None, found: _Finding) -> None:
    if kind not in kinds():
        found.warnings.append(f"The kind of runtime {kind!r} is not known; nothing is known of its words or its queue.")
    if detected is not None and detected != kind:
        found.warnings.append(
            f"The endpoint answers like {facts_of(detected).name}, but is registered as {facts_of(kind).name}."
        )
