"""Each fault does what its name says, on a real connection."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest

from benchmarks.simulator.faults import Fault, FaultMix, parse_share

from .conftest import Start
from .test_simulator_server import CHAT, chat, contents, events


@pytest.fixture(scope="module")
def url(start_simulator: Start) -> str:
    return start_simulator()


def ask(client: httpx.Client, url: str, fault: Fault, **more: Any) -> httpx.Response:
    body = chat(max_tokens=10, **{"stream": True, "stream_options": {"include_usage": True}, **more})
    return client.post(url + CHAT, json=body, headers={"X-Headroom-Fault": fault})


@pytest.mark.parametrize(("fault", "status"), [(Fault.HTTP_500, 500), (Fault.HTTP_429, 429)])
@pytest.mark.parametrize("stream", [True, False])
def test_an_http_fault_answers_with_its_status(
    url: str, client: httpx.Client, fault: Fault, status: int, stream: bool
) -> None:
    answer = ask(client, url, fault, stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)
    assert answer.headers.get("retry-after") == ("1" if status == 429 else None)


@pytest.mark.parametrize("stream", [True, False])
def test_a_reset_is_a_tcp_reset(url: str, client: httpx.Client, stream: bool) -> None:
    with pytest.raises(httpx.ReadError):
        ask(client, url, Fault.RESET, stream=stream)


def test_a_truncated_stream_ends_cleanly_without_finish_reason_or_done(url: str, client: httpx.Client) -> None:
    found = events(ask(client, url, Fault.TRUNCATED).text)
    assert len(contents(found)) == 1 + 5
    assert {e["choices"][0]["finish_reason"] for e in found} == {None}


def test_a_truncated_whole_answer_is_shorter_than_announced(url: str, client: httpx.Client) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        ask(client, url, Fault.TRUNCATED, stream=False)


def test_an_error_in_the_stream_follows_tokens_and_is_followed_by_done(url: str, client: httpx.Client) -> None:
    answer = ask(client, url, Fault.ERROR_IN_STREAM)
    found = events(answer.text)
    assert answer.status_code == 200
    assert len(contents(found)) == 1 + 5
    assert found[-2]["error"]["code"] == 500
    assert found[-1] == "[DONE]"


def test_one_malformed_event_stands_in_an_otherwise_whole_stream(url: str, client: httpx.Client) -> None:
    found = events(ask(client, url, Fault.MALFORMED).text)
    assert [e for e in found if isinstance(e, str)] == ['{"choices": [{"delta": {"content"', "[DONE]"]
    assert len("".join(contents(found)).split()) == 10


def test_an_empty_answer_is_complete_and_holds_nothing(url: str, client: httpx.Client) -> None:
    found = events(ask(client, url, Fault.EMPTY).text)
    assert "".join(contents(found)) == ""
    assert found[-3]["choices"][0]["finish_reason"] == "stop"
    assert found[-2]["usage"]["completion_tokens"] == 0
    assert found[-1] == "[DONE]"


def test_a_stalled_stream_stays_open_and_silent(url: str, client: httpx.Client) -> None:
    body = chat(max_tokens=10, stream=True)
    got = b""
    silent = False
    with client.stream("POST", url + CHAT, json=body, headers={"X-Headroom-Fault": "stall"}, timeout=0.7) as stream:
        try:
            for chunk in stream.iter_raw():
                got += chunk
        except httpx.ReadTimeout:
            silent = True
    assert silent
    assert len(contents(events(got.decode()))) == 1 + 5


def chunks(client: httpx.Client, url: str, fault: Fault) -> list[bytes]:
    body = chat("bafa " * 400, max_tokens=40, stream=True)
    with client.stream("POST", url + CHAT, json=body, headers={"X-Headroom-Fault": fault}) as stream:
        return list(stream.iter_raw())


def test_a_buffered_stream_holds_everything_until_the_end(url: str, client: httpx.Client) -> None:
    whole = b"".join(chunks(client, url, Fault.BUFFERED)).decode()
    truth = client.get(url + "/truth").json()["requests"][-1]
    assert len("".join(contents(events(whole))).split()) == 40
    assert truth["tokens_sent"] == 40
    # forty tokens take 80 ms of the engine, and went out in one go after it
    assert truth["t_last_ns"] - truth["t_first_ns"] < (truth["t_first_ns"] - truth["t_received_ns"]) / 2


def test_the_role_may_come_before_any_work(url: str, client: httpx.Client) -> None:
    first = chunks(client, url, Fault.ROLE_EARLY)[0]
    assert json.loads(first[6:])["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_a_delayed_first_byte_holds_back_the_head_too(url: str, client: httpx.Client) -> None:
    with pytest.raises(httpx.ReadTimeout):
        client.post(url + CHAT, json=chat(stream=True), headers={"X-Headroom-Fault": "first_byte_delay"}, timeout=0.2)
    answer = ask(client, url, Fault.FIRST_BYTE_DELAY)
    truth = client.get(url + "/truth").json()["requests"][-1]
    assert events(answer.text)[-1] == "[DONE]"
    assert truth["t_first_ns"] - truth["t_received_ns"] >= 500_000_000


def test_a_chunk_may_hold_several_tokens(url: str, client: httpx.Client) -> None:
    found = events(ask(client, url, Fault.MULTI_TOKEN).text)
    assert [len(text.split()) for text in contents(found)] == [0, 4, 4, 2]
    assert found[-2]["usage"]["completion_tokens"] == 10


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.TRUNCATED, Fault.ERROR_IN_STREAM, Fault.EMPTY])
def test_a_broken_answer_leaves_no_sequence_behind(url: str, client: httpx.Client, fault: Fault) -> None:
    try:
        ask(client, url, fault)
    except httpx.ReadError:
        assert fault is Fault.RESET
    client.post(url + CHAT, json=chat(max_tokens=30))  # ends after the step in which the broken one went
    assert "num_requests_running{" in (text := client.get(url + "/metrics").text)
    assert next(line for line in text.split("\n") if line.startswith("vllm:num_requests_running")).endswith(" 0.0")


def test_shares_are_drawn_by_seed_and_add_up() -> None:
    shares = {Fault.HTTP_500: 0.1, Fault.RESET: 0.2}

    def draw(seed: int) -> list[Fault | None]:
        mix = FaultMix(shares, dice=random.Random(seed))
        return [mix.draw() for _ in range(5000)]

    drawn = draw(3)
    assert drawn == draw(3)
    assert drawn.count(Fault.HTTP_500) / 5000 == pytest.approx(0.1, abs=0.015)
    assert drawn.count(Fault.RESET) / 5000 == pytest.approx(0.2, abs=0.02)
    assert drawn.count(None) / 5000 == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize("shares", [{Fault.RESET: 1.1}, {Fault.RESET: -0.1}, {Fault.RESET: 0.6, Fault.EMPTY: 0.5}])
def test_impossible_shares_are_refused(shares: dict[Fault, float]) -> None:
    with pytest.raises(ValueError, match="Shares of faults"):
        FaultMix(shares, dice=random.Random(0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("reset=0.1", (Fault.RESET, 0.1)), ("stall", (Fault.STALL, 1.0)), ("empty=0", (Fault.EMPTY, 0.0))],
)
def test_a_share_is_read_from_the_command_line(text: str, expected: tuple[Fault, float]) -> None:
    assert parse_share(text) == expected


def test_an_unknown_fault_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="http_500"):
        parse_share("gremlins=1")


def test_a_share_on_the_command_line_reaches_the_requests(start_simulator: Start, client: httpx.Client) -> None:
    address = start_simulator("--fault", "http_500=0.5", "--fault", "http_429=0.5")
    statuses = {client.post(address + CHAT, json=chat()).status_code for _ in range(40)}
    assert statuses == {500, 429}
