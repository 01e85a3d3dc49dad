"""The simulated runtime over real sockets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from benchmarks.runtimes.metrics import read_metrics
from benchmarks.runtimes.prometheus import parse
from benchmarks.runtimes.vocabulary import WORD_SET

from .conftest import Start

CHAT = "/v1/chat/completions"


def chat(prompt: str = "bafa bada baga", *, max_tokens: int | None = 5, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}], **more}
    return body if max_tokens is None else {**body, "max_tokens": max_tokens}


def events(text: str) -> list[Any]:
    """Payloads of `data:` events; text where it is no JSON."""
    found = []
    for block in text.split("\n\n"):
        if block:
            assert block.startswith("data: ")
            try:
                found.append(json.loads(block[6:]))
            except ValueError:
                found.append(block[6:])
    return found


def contents(found: list[Any]) -> list[str]:
    return [e["choices"][0]["delta"]["content"] for e in found if isinstance(e, dict) and e.get("choices")]


@pytest.fixture(scope="module")
def url(start_simulator: Start) -> str:
    return start_simulator()


@pytest.fixture(scope="module")
def narrow_url(start_simulator: Start) -> str:
    """One active sequence, one may wait."""
    return start_simulator("--active", "1", "--queue-cap", "1")


def gauge(client: httpx.Client, url: str, name: str) -> float:
    return read_metrics("simulator", client.get(url + "/metrics").text).values[name]


def until(condition: Any, within_s: float = 10.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "the state did not come"
        time.sleep(0.01)


def test_a_stream_is_role_then_one_token_per_event_then_usage_then_done(url: str, client: httpx.Client) -> None:
    answer = client.post(url + CHAT, json=chat(stream=True, stream_options={"include_usage": True}))
    found = events(answer.text)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-headroom-simulated"] == "1"
    assert found[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len(found) == 1 + 5 + 1 + 1
    assert [e["choices"][0]["finish_reason"] for e in found[:6]] == [None] * 5 + ["length"]
    assert found[6]["choices"] == []
    assert found[6]["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    assert found[7] == "[DONE]"
    words = "".join(contents(found)).split()
    assert len(words) == 5
    assert set(words) <= WORD_SET


def test_without_include_usage_no_usage_comes(url: str, client: httpx.Client) -> None:
    found = events(client.post(url + CHAT, json=chat(stream=True)).text)
    assert [e for e in found if isinstance(e, dict) and "usage" in e] == []


def test_a_whole_answer_holds_the_same_words_as_the_stream(url: str, client: httpx.Client) -> None:
    whole = client.post(url + CHAT, json=chat()).json()
    streamed = events(client.post(url + CHAT, json=chat(stream=True)).text)
    assert whole["choices"][0]["message"]["content"] == "".join(contents(streamed))
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "text", "finish_reason"),
    [
        ("Repeat.\nAnswer exactly: bafa gone", 10, "bafa gone", "stop"),
        ("Repeat.\nAnswer exactly: bafa gone", 2, "bafa gone", "stop"),
        ("Repeat.\nAnswer exactly: bafa gone", 1, "bafa", "length"),
        ("Answer exactly: old\nAnswer exactly: 41", 9, "41", "stop"),
    ],
)
def test_a_prescribed_answer_is_given_word_for_word(
    url: str, client: httpx.Client, prompt: str, max_tokens: int, text: str, finish_reason: str
) -> None:
    choice = client.post(url + CHAT, json=chat(prompt, max_tokens=max_tokens)).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, finish_reason)


def test_plain_completions_are_served_too(url: str, client: httpx.Client) -> None:
    body = {"prompt": "bafa bada", "max_tokens": 4}
    whole = client.post(url + "/v1/completions", json=body).json()
    found = events(client.post(url + "/v1/completions", json={**body, "stream": True}).text)
    assert whole["usage"]["prompt_tokens"] == 2
    assert whole["choices"][0]["text"] == "".join(e["choices"][0]["text"] for e in found[:-1])
    assert found[-1] == "[DONE]"


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"{", 400, "BadRequestError"),
        (json.dumps({"max_tokens": 3}).encode(), 400, "BadRequestError"),
        (json.dumps(chat(max_tokens=0)).encode(), 400, "BadRequestError"),
        (json.dumps(chat(max_tokens=100_000)).encode(), 400, "exceed_context_size_error"),
        (json.dumps(chat(max_tokens=100_001)).encode(), 400, "BadRequestError"),
        (json.dumps(chat(max_tokens=10**30)).encode(), 400, "BadRequestError"),
        (json.dumps(chat(max_tokens=-5)).encode(), 400, "BadRequestError"),
        (json.dumps(chat(n=2)).encode(), 400, "BadRequestError"),
        (json.dumps(chat(model="another")).encode(), 404, "NotFoundError"),
        (json.dumps(chat("bafa " * 4000, max_tokens=97)).encode(), 400, "exceed_context_size_error"),
        (json.dumps(chat("bafa " * 4000, max_tokens=97, stream=True)).encode(), 400, "exceed_context_size_error"),
    ],
)
def test_a_wrong_request_is_refused_with_its_reason(
    url: str, client: httpx.Client, body: bytes, status: int, kind: str
) -> None:
    answer = client.post(url + CHAT, content=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
    assert answer.headers["x-headroom-simulated"] == "1"


def test_the_context_error_tells_both_sizes(url: str, client: httpx.Client) -> None:
    error = client.post(url + CHAT, json=chat("bafa " * 4000, max_tokens=97)).json()["error"]
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (4000, 4096)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/version", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/server_info", 200),
        ("GET", "/metrics", 200),
        ("GET", "/gpu/metrics", 200),
        ("GET", "/truth", 200),
        ("GET", "/nowhere", 404),
        ("GET", CHAT, 405),
        ("POST", "/health", 404),
    ],
)
def test_each_page_answers_and_says_that_it_is_simulated(
    url: str, client: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = client.request(method, url + path)
    assert (answer.status_code, answer.headers["x-headroom-simulated"]) == (status, "1")


def test_a_connection_serves_many_requests(url: str) -> None:
    with httpx.Client(trust_env=False, limits=httpx.Limits(max_connections=1)) as one:
        streams = [one.post(url + CHAT, json=chat(stream=True)).text for _ in range(5)]
    assert len({"".join(contents(events(stream))) for stream in streams}) == 1


def test_the_gpu_page_reads_like_a_dcgm_exporter(url: str, client: httpx.Client) -> None:
    samples = parse(client.get(url + "/gpu/metrics").text)
    names = {sample.name for sample in samples.samples}
    assert names == {
        "DCGM_FI_DEV_GPU_TEMP",
        "DCGM_FI_DEV_POWER_USAGE",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_FB_FREE",
    }
    values = {sample.name: sample.value for sample in samples.samples}
    assert (values["DCGM_FI_DEV_FB_USED"] or 0) + (values["DCGM_FI_DEV_FB_FREE"] or 0) == 24 * 1024 - 1  # two floors
    labels = samples.samples[0].labels
    assert (labels["gpu"], labels["UUID"], labels["modelName"]) == ("0", "GPU-SIMULATED-0", "Simulated 24 GiB card")


def test_the_cpu_profile_has_no_card(start_simulator: Start, client: httpx.Client) -> None:
    address = start_simulator("--profile", "cpu")
    assert client.get(address + "/gpu/metrics").status_code == 404
    assert client.get(address + "/server_info").json()["max_active_sequences"] == 4


def test_counters_hold_exactly_the_tokens_that_were_served(start_simulator: Start, client: httpx.Client) -> None:
    address = start_simulator()
    for length in (3, 8, 21):
        client.post(address + CHAT, json=chat("bafa " * length, max_tokens=length))
    reading = read_metrics("simulator", client.get(address + "/metrics").text)
    assert reading.values["prompt_tokens_total"] == 32
    assert reading.values["generation_tokens_total"] == 32
    assert (reading.values["running"], reading.values["waiting"]) == (0, 0)
    assert reading.values["kv_capacity_tokens"] == 8192


@pytest.fixture
def crowd(narrow_url: str, client: httpx.Client) -> Iterator[str]:
    """The narrow simulator with its slot and its queue taken by two long streams."""
    body = chat(max_tokens=3000, stream=True)
    with httpx.Client(trust_env=False, timeout=20.0) as guests, ExitStack() as open_streams:
        for running, waiting in ((1, 0), (1, 1)):
            open_streams.enter_context(guests.stream("POST", narrow_url + CHAT, json=body))
            until(
                lambda running=running, waiting=waiting: (  # type: ignore[misc]
                    (gauge(client, narrow_url, "running"), gauge(client, narrow_url, "waiting")) == (running, waiting)
                )
            )
        yield narrow_url
    until(lambda: gauge(client, narrow_url, "running") == 0)


@pytest.mark.parametrize("stream", [True, False])
def test_a_full_queue_refuses_with_503_and_retry_after(crowd: str, client: httpx.Client, stream: bool) -> None:
    before = gauge(client, crowd, "rejected_total")
    answer = client.post(crowd + CHAT, json=chat(stream=stream))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"]["code"] == 503
    assert gauge(client, crowd, "rejected_total") == before + 1


@pytest.mark.parametrize(
    ("reject", "stream", "status", "retry_after"),
    [("429", True, 429, "4"), ("429", False, 429, "4"), ("in_stream", True, 200, None), ("in_stream", False, 503, "4")],
)
def test_how_a_full_queue_refuses_can_be_chosen(
    start_simulator: Start, client: httpx.Client, reject: str, stream: bool, status: int, retry_after: str | None
) -> None:
    address = start_simulator("--active", "1", "--queue-cap", "0", "--reject", reject, "--retry-after", "4")
    with (
        httpx.Client(trust_env=False, timeout=20.0) as guest,
        guest.stream("POST", address + CHAT, json=chat(max_tokens=3000, stream=True)),
    ):
        answer = client.post(address + CHAT, json=chat(stream=stream))
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, retry_after)
    if status == 200:
        found = events(answer.text)
        assert found[0]["error"]["code"] == 503
        assert found[1:] == ["[DONE]"]


def test_a_client_that_leaves_in_mid_stream_frees_its_slot_and_its_kv(url: str, client: httpx.Client) -> None:
    with (
        httpx.Client(trust_env=False, timeout=20.0) as guest,
        guest.stream("POST", url + CHAT, json=chat("bafa " * 50, max_tokens=3900, stream=True)) as stream,
    ):
        arriving = stream.iter_bytes()  # kept: httpx closes the connection with the iterator
        next(arriving)
        assert gauge(client, url, "running") == 1
        assert gauge(client, url, "kv_usage") > 50 / 8192
    until(lambda: gauge(client, url, "running") == 0)
    assert gauge(client, url, "kv_usage") == 0
    assert client.get(url + "/truth").json()["requests"][-1]["outcome"] == "cancelled"


def test_a_waiting_client_that_leaves_is_forgotten(narrow_url: str, client: httpx.Client) -> None:
    long = chat(max_tokens=3000, stream=True)
    with httpx.Client(trust_env=False, timeout=20.0) as guest, guest.stream("POST", narrow_url + CHAT, json=long):
        with (
            httpx.Client(trust_env=False, timeout=20.0) as leaver,
            leaver.stream("POST", narrow_url + CHAT, json=long),
        ):
            until(lambda: gauge(client, narrow_url, "waiting") == 1)
        until(lambda: gauge(client, narrow_url, "waiting") == 0)
        assert gauge(client, narrow_url, "running") == 1
    until(lambda: gauge(client, narrow_url, "running") == 0)


def test_without_a_cap_concurrency_beyond_the_slots_waits(start_simulator: Start, client: httpx.Client) -> None:
    address = start_simulator("--active", "2")
    body = chat(max_tokens=3000, stream=True)
    with httpx.Client(trust_env=False, timeout=20.0) as guests, ExitStack() as open_streams:
        for _ in range(5):
            open_streams.enter_context(guests.stream("POST", address + CHAT, json=body))
        until(lambda: gauge(client, address, "waiting") == 3)  # concurrency less slots
        assert gauge(client, address, "running") == 2


def test_a_key_is_asked_for_when_one_is_set(
    start_simulator: Start, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATOR_TEST_KEY", "open-sesame")
    address = start_simulator("--api-key-env", "SIMULATOR_TEST_KEY")
    statuses = [
        client.post(address + CHAT, json=chat(), headers=headers).status_code
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer open-sesame"})
    ]
    assert statuses == [401, 401, 200]
    assert client.get(address + "/v1/models").status_code == 401
    assert client.get(address + "/health").status_code == 200


def test_the_truth_holds_when_each_token_was_sent(url: str, client: httpx.Client) -> None:
    before_ns = time.monotonic_ns()
    client.post(url + CHAT, json=chat(max_tokens=20, stream=True), headers={"X-Request-Id": "marker-1"})
    after_ns = time.monotonic_ns()
    truth = next(t for t in client.get(url + "/truth").json()["requests"] if t["client_id"] == "marker-1")
    stamps = truth["t_tokens_ns"]
    assert len(stamps) == truth["tokens_sent"] == 20
    assert stamps == sorted(stamps)
    assert (truth["t_first_ns"], truth["t_last_ns"]) == (stamps[0], stamps[-1])
    assert before_ns < truth["t_received_ns"] < stamps[0] < stamps[-1] <= truth["t_end_ns"] < after_ns
    assert truth["outcome"] == "finished"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.org", "::"])
def test_it_refuses_to_listen_beyond_loopback(host: str) -> None:
    command = [sys.executable, "-m", "benchmarks.simulator", "--host", host]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "loopback" in done.stderr or "IP address" in done.stderr


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_on_a_signal_with_streams_open(sign: signal.Signals, client: httpx.Client) -> None:
    command = [sys.executable, "-m", "benchmarks.simulator"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        address = child.stdout.readline().split()[1]
        with client.stream("POST", address + CHAT, json=chat(max_tokens=3000, stream=True)):
            child.send_signal(sign)
            assert child.wait(10) == 0


def test_it_ends_when_its_parent_is_gone() -> None:
    script = (
        "import subprocess, sys; c = subprocess.Popen([sys.executable, '-m', 'benchmarks.simulator', '--with-parent'],"
        " stdout=subprocess.PIPE, text=True); print(c.pid, c.stdout.readline(), flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    orphan = int(done.stdout.split()[0])

    def gone() -> bool:
        try:
            os.kill(orphan, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{orphan}/stat") as stat:  # noqa: PTH123
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"  # ended, and nobody has reaped it

    until(gone)


@pytest.mark.parametrize(("query", "count"), [("?last=2", 2), ("?last=1", 1), ("?last=x", 4), ("?last=0", 4), ("", 4)])
def test_the_newest_truths_can_be_had_alone(
    start_simulator: Start, client: httpx.Client, query: str, count: int
) -> None:
    address = start_simulator()
    for _ in range(4):
        client.post(address + CHAT, json=chat(max_tokens=1))
    requests = client.get(address + "/truth" + query).json()["requests"]
    assert [one["id"] for one in requests] == [f"chatcmpl-{number}" for number in range(4 - count, 4)]
