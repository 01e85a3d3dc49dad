"""What an endpoint says of itself, from recorded pages and from a live simulator."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from benchmarks.runtimes import look
from benchmarks.runtimes.endpoint import EndpointFacts, LookResponse, look_plan, read_look
from benchmarks.runtimes.facts import kinds

LOOKS = Path(__file__).parents[2] / "data" / "looks"


def recorded(name: str) -> LookResponse:
    """A recorded HTTP answer: its status and body."""
    head, _, body = (LOOKS / f"xllamacpp_b11549_{name}.txt").read_bytes().partition(b"\r\n\r\n")
    return LookResponse(int(head.split()[1]), body.decode())


def page(body: object, status: int = 200) -> LookResponse:
    return LookResponse(status, json.dumps(body))


def slots(count: int) -> LookResponse:
    return page([{"id": number, "n_ctx": 1024} for number in range(count)])


LLAMACPP = {
    "/v1/models": recorded("v1_models"),
    "/props": recorded("props"),
    "/slots": recorded("slots_idle"),
    "/metrics": recorded("metrics"),
}


def test_a_llamacpp_server_tells_its_slots_context_and_metrics() -> None:
    facts = read_look("llamacpp", LLAMACPP)
    assert facts == EndpointFacts(
        kind="llamacpp",
        detected_kind="llamacpp",
        reachable=True,
        simulated=False,
        models=("models/tiny.gguf",),
        version="b0-unknown",
        max_active_sequences=2,
        context_per_sequence_tokens=2048,
        kv_capacity_tokens=None,
        metrics=("running", "waiting", "prompt_tokens_total", "generation_tokens_total", "prefix_hit_tokens_total"),
        metrics_path="/metrics",
        sources={
            "models": "/v1/models",
            "context_per_sequence_tokens": "/slots",
            "version": "/props",
            "max_active_sequences": "/props",
        },
        warnings=(),
    )


@pytest.mark.parametrize(("count", "warned"), [(1, False), (3, False), (4, True), (5, False)])
def test_four_slots_may_be_the_default_with_one_shared_kv_cache(count: int, warned: bool) -> None:
    facts = read_look(
        "llamacpp", {"/v1/models": recorded("v1_models"), "/slots": slots(count), "/metrics": recorded("metrics")}
    )
    assert any("--no-kv-unified" in warning for warning in facts.warnings) is warned
    assert facts.max_active_sequences == count
    assert facts.context_per_sequence_tokens == 1024


def test_a_llamacpp_server_without_its_metrics_says_which_switch_is_missing() -> None:
    refused = LookResponse(501, '{"error":{"message":"This server does not support metrics endpoint."}}')
    facts = read_look("llamacpp", {**LLAMACPP, "/metrics": refused})
    assert (facts.metrics, facts.metrics_path) == ((), None)
    assert facts.warnings == (
        "No metrics at /metrics (llama.cpp: --metrics): running and waiting requests are not reported.",
    )


def test_a_vllm_server_tells_version_context_and_kv_capacity() -> None:
    facts = read_look(
        "vllm",
        {
            "/v1/models": page({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]}),
            "/version": page({"version": "0.33.0"}),
            "/metrics": LookResponse(
                200, 'vllm:cache_config_info{kv_cache_size_tokens="54321"} 1\nvllm:num_requests_running 0\n'
            ),
        },
    )
    assert (facts.models, facts.version, facts.context_per_sequence_tokens) == (("m",), "0.33.0", 4096)
    assert (facts.max_active_sequences, facts.kv_capacity_tokens) == (None, 54321)
    assert facts.warnings == ()


def test_sglang_ollama_and_tgi_tell_by_pages_of_their_own() -> None:
    models = page({"data": [{"id": "m"}]})
    metrics = LookResponse(200, "sglang:num_running_reqs 0\ntgi_queue_size 0\n")
    info = page({"version": "0.5.23", "max_running_requests": 64, "context_length": 8192, "max_total_num_tokens": 9999})
    sglang = read_look("sglang", {"/v1/models": models, "/server_info": info, "/metrics": metrics})
    ollama = read_look(
        "ollama",
        {
            "/v1/models": models,
            "/api/version": page({"version": "0.33.0"}),
            "/api/ps": page({"models": [{"name": "m", "context_length": 4096}]}),
        },
    )
    tgi = read_look(
        "tgi",
        {
            "/v1/models": LookResponse(404, ""),
            "/info": page({"model_id": "m", "max_total_tokens": 2048}),
            "/metrics": metrics,
        },
    )
    assert (sglang.max_active_sequences, sglang.context_per_sequence_tokens, sglang.kv_capacity_tokens) == (
        64,
        8192,
        9999,
    )
    assert (ollama.version, ollama.context_per_sequence_tokens, ollama.metrics_path) == ("0.33.0", 4096, None)
    assert (tgi.models, tgi.context_per_sequence_tokens) == (("m",), 2048)


@pytest.mark.parametrize(
    ("responses", "warning"),
    [
        ({"/v1/models": LookResponse(None, "", "refused")}, "Nothing answered at this address: refused."),
        ({"/v1/models": LookResponse(401, "")}, "asks for credentials (HTTP 401)"),
        ({"/v1/models": LookResponse(503, "")}, "may still be loading"),
        ({"/v1/models": LookResponse(404, "")}, "without /v1?"),
        ({"/v1/models": LookResponse(200, "<html>")}, "in a shape that is not known"),
        ({"/v1/models": page({"data": []})}, "none is loaded"),
        ({"/v1/models": page({"data": [{"id": "m", "owned_by": "llamacpp"}]})}, "answers like llama.cpp"),
        ({"/v1/models": page({"data": [{"id": "m"}]}), "/metrics": LookResponse(200, "x 1\n")}, "none of the names"),
    ],
)
def test_what_is_wrong_is_said(responses: dict[str, LookResponse], warning: str) -> None:
    assert warning in " ".join(read_look("vllm", responses).warnings)


def test_an_unknown_kind_is_looked_at_and_said_to_be_unknown() -> None:
    facts = read_look("abacus", {"/v1/models": page({"data": [{"id": "m"}]})})
    assert "'abacus' is not known" in " ".join(facts.warnings)
    assert look_plan("abacus") == look_plan("other")
    assert facts.models == ("m",)


def test_nothing_at_all_leaves_every_fact_unknown() -> None:
    facts = read_look("llamacpp", {})
    assert (facts.reachable, facts.models, facts.version) == (False, (), None)
    assert (facts.max_active_sequences, facts.context_per_sequence_tokens, facts.kv_capacity_tokens) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize("kind", kinds())
def test_every_plan_asks_for_the_models_and_reads_nothing_destructive(kind: str) -> None:
    plan = look_plan(kind)
    assert plan[0] == "/v1/models"
    assert kind != "trtllm" or "/metrics" not in plan  # there it empties itself when read


@pytest.fixture(scope="module")
def simulator_url() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.simulator", "--with-parent", "--active", "3", "--kv-tokens", "6000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child.stdout.readline().split()[1]
        child.terminate()


@pytest.mark.parametrize("given", [True, False])
def test_a_live_simulator_tells_everything(simulator_url: str, given: bool) -> None:
    with httpx.Client(trust_env=False) as client:
        facts = look.look_at(simulator_url + "/", "simulator", "", client if given else None)
    assert facts.warnings == ()
    assert (facts.simulated, facts.models, facts.version) == (True, ("headroom-simulated-demo",), "1.0.0")
    assert (facts.max_active_sequences, facts.context_per_sequence_tokens, facts.kv_capacity_tokens) == (3, 4096, 6000)
    assert {"running", "waiting", "kv_usage", "preemptions_total", "rejected_total"} <= set(facts.metrics)
    assert msgspec.convert(msgspec.to_builtins(facts), EndpointFacts) == facts


def test_a_live_test_request_succeeds_and_an_unknown_model_is_named(simulator_url: str) -> None:
    good = look.test_request(simulator_url, "headroom-simulated-demo")
    wrong = look.test_request(simulator_url, "someone-else")
    assert (good.ok, good.do) == (True, "")
    assert re.search(r"complete\. At most 8 tokens took \d+\.\d\d s, once and alone\.$", good.what)
    assert wrong.ok is False
    assert "does not know this model" in wrong.what


def test_an_address_where_nobody_listens_is_said_to_be_so(simulator_url: str) -> None:
    dead = "http://127.0.0.1:9"
    assert "nothing accepts connections" in look.test_request(dead, "m").what
    facts = look.look_at(dead, "llamacpp")
    assert facts.reachable is False
    assert "nothing accepts connections" in facts.warnings[0]


def test_a_plain_server_asked_for_tls_is_a_tls_problem(simulator_url: str) -> None:
    result = look.test_request(simulator_url.replace("http:", "https:"), "m")
    assert "TLS" in result.what


def test_the_clients_own_settings_take_nothing_from_the_environment(
    simulator_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert look.test_request(simulator_url, "headroom-simulated-demo").ok is True
