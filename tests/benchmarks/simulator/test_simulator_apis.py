"""Lists of prompts, embeddings, Ollama's and llama.cpp's own shapes: one engine, spoken to in several tongues."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import httpx
import pytest

from benchmarks.simulator.profiles import DEMO

from .conftest import Start
from .test_simulator_server import CHAT, chat, contents, events

COMPLETIONS, EMBEDDINGS, OLLAMA, LLAMACPP = "/v1/completions", "/v1/embeddings", "/api/chat", "/completion"
MESSAGES = [{"role": "user", "content": "bafa bada baga"}]
PROMPTS = ["bafa bada", "baga", "Answer exactly: gone home"]


@pytest.fixture(scope="module")
def url(start_simulator: Start) -> str:
    return start_simulator()


def ollama(**more: Any) -> dict[str, Any]:
    return {"model": DEMO.model, "messages": MESSAGES, "options": {"num_predict": 5}, **more}


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.split("\n") if line]


def post(client: httpx.Client, url: str, body: dict[str, Any], fault: str = "") -> httpx.Response:
    return client.post(url, json=body, headers={"X-Headroom-Fault": fault} if fault else {})


def test_a_list_of_prompts_is_answered_item_by_item_as_each_alone(url: str, client: httpx.Client) -> None:
    whole = post(client, url + COMPLETIONS, {"prompt": PROMPTS, "max_tokens": 4}).json()
    alone = [post(client, url + COMPLETIONS, {"prompt": one, "max_tokens": 4}).json() for one in PROMPTS]
    assert [c["index"] for c in whole["choices"]] == [0, 1, 2]
    assert [c["text"] for c in whole["choices"]] == [one["choices"][0]["text"] for one in alone]
    assert [c["finish_reason"] for c in whole["choices"]] == ["length", "length", "stop"]
    assert whole["usage"] == {"prompt_tokens": 2 + 1 + 4, "completion_tokens": 4 + 4 + 2, "total_tokens": 17}


@pytest.mark.parametrize(
    ("fault", "indexes"), [("shuffled", [2, 1, 0]), ("missing_item", [0, 1]), ("buffered", [0, 1, 2])]
)
def test_a_list_may_come_shuffled_or_short(url: str, client: httpx.Client, fault: str, indexes: list[int]) -> None:
    body = {"prompt": PROMPTS, "max_tokens": 4}
    right = {c["index"]: c["text"] for c in post(client, url + COMPLETIONS, body).json()["choices"]}
    choices = post(client, url + COMPLETIONS, body, fault).json()["choices"]
    assert [c["index"] for c in choices] == indexes
    assert [c["text"] for c in choices] == [right[index] for index in indexes]


def test_items_of_a_list_are_sequences_of_the_engine(start_simulator: Start, client: httpx.Client) -> None:
    address = start_simulator("--active", "2", "--queue-cap", "1")
    assert post(client, address + COMPLETIONS, {"prompt": ["a", "b", "c"], "max_tokens": 2}).status_code == 200
    refused = post(client, address + COMPLETIONS, {"prompt": ["a", "b", "c", "d"], "max_tokens": 2})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")  # four do not fit: none of them waits
    assert post(client, address + COMPLETIONS, {"prompt": ["a", "b", "c"], "max_tokens": 2}).status_code == 200


@pytest.mark.parametrize("fault", ["reset", "error_in_stream", "truncated"])
def test_a_broken_list_leaves_no_sequence_behind(start_simulator: Start, client: httpx.Client, fault: str) -> None:
    address = start_simulator("--active", "4", "--queue-cap", "0")
    try:
        post(client, address + COMPLETIONS, {"prompt": ["a", "b", "c"], "max_tokens": 10}, fault)
    except (httpx.ReadError, httpx.RemoteProtocolError):
        assert fault != "error_in_stream"
    assert post(client, address + COMPLETIONS, {"prompt": ["a"], "max_tokens": 20}).status_code == 200
    assert post(client, address + COMPLETIONS, {"prompt": ["a"] * 4, "max_tokens": 2}).status_code == 200


def test_a_list_is_not_streamed_and_an_empty_one_not_served(url: str, client: httpx.Client) -> None:
    assert post(client, url + COMPLETIONS, {"prompt": ["a", "b"], "stream": True}).status_code == 400
    assert post(client, url + COMPLETIONS, {"prompt": []}).status_code == 400
    assert post(client, url + EMBEDDINGS, {"input": []}).status_code == 400


def test_embeddings_are_unit_vectors_the_same_for_the_same_text(url: str, client: httpx.Client) -> None:
    body = post(client, url + EMBEDDINGS, {"input": ["bafa bada", "baga", "bafa bada"]}).json()
    vectors = [one["embedding"] for one in body["data"]]
    assert [one["index"] for one in body["data"]] == [0, 1, 2]
    assert vectors[0] == vectors[2] != vectors[1]
    assert {len(vector) for vector in vectors} == {64}
    assert [math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-5) for vector in vectors] == [True] * 3
    assert body["usage"] == {"prompt_tokens": 5, "total_tokens": 5}
    alone = post(client, url + EMBEDDINGS, {"input": "baga", "encoding_format": "base64"}).json()["data"]
    assert struct.unpack("<64f", base64.b64decode(alone[0]["embedding"])) == pytest.approx(vectors[1])


@pytest.mark.parametrize(
    ("fault", "first", "indexes"),
    [("not_finite", [None], [0, 1]), ("empty", [], [0, 1]), ("shuffled", None, [1, 0]), ("missing_item", None, [0])],
)
def test_embeddings_may_be_wrong_on_purpose(
    url: str, client: httpx.Client, fault: str, first: list[None] | None, indexes: list[int]
) -> None:
    data = post(client, url + EMBEDDINGS, {"input": ["bafa", "baga"]}, fault).json()["data"]
    assert [one["index"] for one in data] == indexes
    assert first is None or data[0]["embedding"] == first


def test_ollama_streams_lines_unless_told_otherwise_and_counts_on_the_last(url: str, client: httpx.Client) -> None:
    answer = post(client, url + OLLAMA, ollama())
    found = lines(answer.text)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [one["done"] for one in found] == [False] * 5 + [True]
    assert (found[-1]["done_reason"], found[-1]["prompt_eval_count"], found[-1]["eval_count"]) == ("length", 3, 5)
    same = events(post(client, url + CHAT, chat(stream=True)).text)
    assert "".join(one["message"]["content"] for one in found) == "".join(contents(same))
    whole = post(client, url + OLLAMA, ollama(stream=False))
    assert whole.headers["content-type"] == "application/json"
    assert whole.json()["message"]["content"] == "".join(contents(same))
    assert whole.json()["done"] is True


def test_ollama_fails_in_its_own_words(url: str, start_simulator: Start, client: httpx.Client) -> None:
    broken = lines(post(client, url + OLLAMA, ollama(), "error_in_stream").text)
    assert broken[-1] == {"error": "The engine failed in mid-answer, on purpose."}
    busy = post(
        client, start_simulator("--active", "1", "--queue-cap", "0", "--fault", "http_503=1") + OLLAMA, ollama()
    )
    assert (busy.status_code, busy.json()) == (503, {"error": "Refused on purpose."})
    full = lines(post(client, url + OLLAMA, ollama(), "overload_in_stream").text)
    assert "server busy" in full[0]["error"]
    assert post(client, url + OLLAMA, ollama(model="other")).status_code == 404


def test_llama_cpp_counts_as_it_goes_and_stops_without_a_marker(url: str, client: httpx.Client) -> None:
    body = {"prompt": "bafa bada", "n_predict": 4, "stream": True}
    found = events(post(client, url + LLAMACPP, body).text)
    assert [one["tokens_predicted"] for one in found] == [1, 2, 3, 4, 4]
    assert [one["stop"] for one in found] == [False] * 4 + [True]
    assert (found[-1]["stop_type"], found[-1]["tokens_evaluated"], found[-1]["content"]) == ("limit", 2, "")
    whole = post(client, url + LLAMACPP, {**body, "stream": False}).json()
    assert whole["content"] == "".join(one["content"] for one in found)
    said = post(client, url + LLAMACPP, {"prompt": "Answer exactly: gone", "n_predict": 4}).json()
    assert (said["content"], said["stop_type"]) == ("gone", "eos")
    broken = events(post(client, url + LLAMACPP, body, "error_in_stream").text)
    assert broken[-1]["error"]["code"] == 500


def test_reasoning_comes_in_the_field_of_each_tongue(url: str, client: httpx.Client) -> None:
    found = events(post(client, url + CHAT, chat(max_tokens=6, stream=True), "reasoning").text)[1:-1]
    assert ["reasoning_content" in e["choices"][0]["delta"] for e in found] == [True] * 2 + [False] * 4
    thought = lines(post(client, url + OLLAMA, ollama(), "reasoning").text)
    assert [bool(one["message"].get("thinking")) for one in thought] == [True] + [False] * 5


@pytest.mark.parametrize(("flags", "asked"), [(["--continuous-usage"], {}), ([], {"continuous_usage_stats": True})])
def test_counts_may_stand_on_every_chunk(
    start_simulator: Start, client: httpx.Client, flags: list[str], asked: dict[str, bool]
) -> None:
    body = chat(max_tokens=3, stream=True, stream_options={"include_usage": True, **asked})
    found = events(post(client, start_simulator(*flags) + CHAT, body).text)
    assert [one["usage"]["completion_tokens"] for one in found[:-1]] == [0, 1, 2, 3, 3]


def test_a_known_beginning_needs_no_prefill(start_simulator: Start, client: httpx.Client) -> None:
    address, plain = start_simulator("--prefix-cache"), start_simulator()
    prompt = "bafa " * 100
    usages = [post(client, address + CHAT, chat(prompt + end)).json()["usage"] for end in ("x", "y", "y")]
    assert [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages] == [0, 96, 96]  # blocks of 16
    assert [one["cached_tokens"] for one in client.get(address + "/truth").json()["requests"]] == [0, 96, 96]
    page = client.get(address + "/metrics").text
    assert "vllm:prefix_cache_hits_total" in page
    assert "prompt_tokens_details" not in post(client, plain + CHAT, chat(prompt)).json()["usage"]


def test_ollama_tells_no_prompt_count_where_all_was_cached(start_simulator: Start, client: httpx.Client) -> None:
    address = start_simulator("--prefix-cache")
    content = [{"role": "user", "content": "bafa " * 33}]
    counts = [post(client, address + OLLAMA, ollama(messages=content, stream=False)).json() for _ in range(2)]
    assert [one.get("prompt_eval_count") for one in counts] == [33, None]
