"""llama.cpp's own server with the tiny model: what the facts say of it, seen on the real thing."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from benchmarks.runtimes import look
from benchmarks.runtimes.metrics import read_metrics
from benchmarks.runtimes.vocabulary import WORD_SET, WORDS
from tests.benchmarks.runtimes.llamacpp import serving, write_model

pytestmark = pytest.mark.real
SMALLEST = ("--layers", "1", "--width", "64", "--heads", "4", "--kv-heads", "2", "--vocabulary", "1024")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(model)
    with serving(model, "--slots", "2", "--context-per-slot", "4096") as address:
        yield address


def ask(words: int, output_tokens: int, **more: object) -> dict[str, object]:
    content = " ".join(random.Random(words).choices(WORDS, k=words))
    return {"messages": [{"role": "user", "content": content}], "max_tokens": output_tokens, **more}


def test_the_same_seed_writes_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    first, again, other = (
        write_model(tmp_path / name, *SMALLEST, "--seed", seed) for name, seed in (("a", "1"), ("b", "1"), ("c", "2"))
    )
    assert first == again
    assert len(first) == len(other)
    assert first != other


@pytest.mark.parametrize(("words", "output_tokens"), [(1, 1), (2, 7), (40, 33), (300, 5)])
def test_one_word_is_one_token_both_ways(url: str, words: int, output_tokens: int) -> None:
    answer = httpx.post(
        url + "/v1/chat/completions", json=ask(words, output_tokens), trust_env=False, timeout=60
    ).json()
    text = answer["choices"][0]["message"]["content"].split()
    assert answer["usage"]["prompt_tokens"] == words
    assert answer["usage"]["completion_tokens"] == len(text) == output_tokens
    assert set(text) <= WORD_SET
    assert answer["choices"][0]["finish_reason"] == "length"


def test_the_endpoint_tells_the_slots_and_context_it_was_started_with(url: str) -> None:
    facts = look.look_at(url, "llamacpp")
    assert (facts.max_active_sequences, facts.context_per_sequence_tokens) == (2, 4096)
    assert facts.models == ("headroom-tiny",)
    assert facts.warnings == ()
    assert look.test_request(url, "headroom-tiny").ok is True


def test_requests_beyond_the_slots_wait_and_are_never_refused(url: str) -> None:
    chat = url + "/v1/chat/completions"
    with ThreadPoolExecutor(3) as pool, httpx.Client(trust_env=False, timeout=60.0) as client, ExitStack() as streams:
        for _ in range(2):  # the head comes when the slot starts: after it, both slots are taken
            streams.enter_context(client.stream("POST", chat, json=ask(4, 3500, stream=True)))
        waiting = [pool.submit(httpx.post, chat, json=ask(4, 5), trust_env=False, timeout=60) for _ in range(3)]
        for _ in range(10):
            values = read_metrics("llamacpp", client.get(url + "/metrics").text).values
            if values["waiting"] == 3:
                break
            time.sleep(0.2)
        assert (values["running"], values["waiting"]) == (2, 3)  # waiting = concurrency less slots
        streams.close()
        assert [one.result().status_code for one in waiting] == [200, 200, 200]


def test_the_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    model = tmp_path / "tiny.gguf"
    write_model(model, *SMALLEST)
    script = (
        "import subprocess, sys; c = subprocess.Popen([sys.executable, '-m', 'tools.llamacpp_server', sys.argv[1]],"
        " stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True); print(c.stdout.readline(), flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(model)], capture_output=True, text=True, timeout=90)
    address = done.stdout.split()[1]
    for _ in range(100):
        try:
            httpx.get(address + "/health", trust_env=False)
        except httpx.HTTPError:
            return
        time.sleep(0.1)
    pytest.fail("the server outlived its parent by ten seconds")
